"""Which request files and benchmark results are understood, and where do their figures stand?

SOURCES is the table. Another source is another row of it: nothing else names a column or a key of
theirs.

    table_of_sources() -> the table for people, in Markdown
"""

from typing import NamedTuple


class Source(NamedTuple):
    """A row of the table: what a tool calls things. It is "" where the tool has no such thing.

    a.b is key b inside key a. a|b is either: the first that is there.
    """

    name: str
    layout: str  # csv; records: a JSON list or JSON lines; runs: an object of lists for each run
    sign: tuple  # the columns or keys by which it is told
    prompt: str
    output: str
    arrival: str
    unit: str  # of arrival and end: s, ms, ns, or date
    error: str = ""  # not empty in a request that failed
    silent_fails: bool = False  # a request without an output token failed
    total: str = ""  # prompt and output together
    hashes: str = ""  # names of the blocks of tokens that the prompt begins with
    block_tokens: int = 0  # tokens in such a block
    companions: tuple = ()  # keys that no other source with the same sign has
    fractions: bool = False  # fractions in its arrivals tell its unit
    end: str = ""  # when the last token came
    ttft: str = ""
    gaps: str = ""  # a list of times between tokens; or, if `clock`, of the times at which tokens came
    clock: bool = False
    latency_unit: str = ""  # of ttft and gaps
    mean: str = ""  # a mean time between tokens, where there are no gaps
    other: str = ""  # what else a reader of the table should know


LAYOUT_WORDS = {"csv": "CSV", "records": "JSON list or lines", "runs": "JSON object"}
UNIT_WORDS = {"s": "s", "ms": "ms", "ns": "ns", "date": "date and time"}
SOURCES = (
    Source("this lab", "records", ("prompt_tokens",), "prompt_tokens", "output_tokens", "arrival_ms", "ms",
           other="or gap (seconds since the arrival before); prefixes: a list of [name, tokens], shortest first"),
    Source("vLLM", "runs", ("input_lens",), "input_lens", "output_lens", "start_times", "s", error="errors",
           ttft="ttfts", gaps="itls", latency_unit="s",
           other="vllm bench serve --save-result --save-detailed; sglang's bench_serving --output-details. "
                 "Several runs may be in a file. Results before 2026 have no start_times"),
    Source("Azure", "csv", ("TIMESTAMP", "ContextTokens", "GeneratedTokens"), "ContextTokens", "GeneratedTokens",
           "TIMESTAMP", "date", other="the traces of 2023, of 2024, and the multimodal one of 2025"),
    Source("BurstGPT", "csv", ("Timestamp", "Request tokens", "Response tokens"), "Request tokens", "Response tokens",
           "Timestamp", "s", silent_fails=True, total="Total tokens",
           other="versions 1 and 2. No response token means that the request failed. Arrivals lie on a grid of 1 s"),
    Source("Vidur", "csv", ("num_prefill_tokens", "num_decode_tokens"), "num_prefill_tokens", "num_decode_tokens",
           "arrived_at", "s", total="num_total_tokens", other="its lengths come without arrivals, too"),
    Source("splitwise-sim", "csv", ("prompt_size", "token_size"), "prompt_size", "token_size",
           "arrival_timestamp", "s"),
    Source("Mooncake", "records", ("input_length", "output_length"), "input_length", "output_length",
           "timestamp", "ms", hashes="hash_ids", block_tokens=512,
           other="hash_ids name blocks of 512 tokens. Arrivals may lie on a grid of 3 s"),
    Source("Qwen-Bailian", "records", ("input_length", "output_length"), "input_length", "output_length",
           "timestamp", "s", hashes="hash_ids", block_tokens=16, companions=("chat_id", "parent_chat_id", "turn"),
           other="hash_ids name blocks of 16 tokens; or told by chat_id, parent_chat_id or turn"),
    Source("timed trace", "records", ("input_length", "output_length"), "input_length", "output_length",
           "timestamp", "s", hashes="hash_ids", fractions=True,
           other="as vLLM and guidellm replay it. Told by fractions in its timestamps"),
    Source("guidellm", "records", ("prompt_tokens", "request_start_time"), "prompt_tokens", "output_tokens",
           "request_start_time", "s", error="error", end="request_end_time", ttft="time_to_first_token_ms",
           latency_unit="ms", mean="inter_token_latency_ms",
           other="the report (benchmarks[].requests.successful[]), or its requests as JSON lines"),
    Source("aiperf", "records", ("metadata", "metrics"), "metrics.input_sequence_length.value",
           "metrics.output_sequence_length.value", "metadata.request_start_ns", "ns", error="error",
           end="metadata.request_end_ns", ttft="metrics.time_to_first_token.value",
           gaps="metrics.inter_chunk_latency.value", latency_unit="ms", other="profile_export.jsonl"),
    Source("inference-perf", "records", ("start_time", "info"),
           "info.request_metrics.text.input_tokens|info.input_tokens",
           "info.response_metrics.output_tokens|info.output_tokens", "start_time", "s", error="error", end="end_time",
           gaps="info.response_metrics.output_token_times|info.output_token_times", clock=True, latency_unit="s",
           other="per_request_lifecycle_metrics.json"),
    Source("llmperf", "records", ("number_input_tokens", "number_output_tokens"), "number_input_tokens",
           "number_output_tokens", "", "s", error="error_code", ttft="ttft_s", latency_unit="s",
           mean="inter_token_latency_s", other="individual_responses; no arrivals"),
)
LAB = SOURCES[0]
GUIDELLM = next(source for source in SOURCES if source.name == "guidellm")


def table_of_sources():
    """The table for people, in Markdown."""
    rows = [("source", "told by", "prompt", "output", "arrival (unit)", "TTFT, gaps", "also")]
    for source in SOURCES:
        arrival = f"{source.arrival} ({UNIT_WORDS[source.unit]})" if source.arrival else ""
        latencies = [name for name in (source.ttft, source.gaps or source.mean and f"{source.mean} (a mean)") if name]
        told = f"{LAYOUT_WORDS[source.layout]} with {', '.join(source.sign)}"
        cells = (source.name, told, source.prompt, source.output, arrival, ", ".join(latencies), source.other)
        rows.append([cell.replace("|", " or ") or "-" for cell in cells])
    rows.insert(1, ["---"] * len(rows[0]))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
