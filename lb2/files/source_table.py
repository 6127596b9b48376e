"""Which request files and benchmark results are understood, and where do their figures stand?

SOURCES is the table. Another source is another row of it: nothing else names a column or a key of
theirs. NO_REQUESTS tells files that hold no requests, and what to take in their place.

    table_of_sources()                                       -> the table for people, in Markdown
    named(["prompt=usage.in", "output=usage.out", "unit=s"]) -> the Source that --columns tells
"""

from typing import NamedTuple

from common import BadInput
from files.arrivals import UNITS


class Source(NamedTuple):
    """A row of the table: what a tool calls things. It is "" where the tool has no such thing.

    a.b is key b inside key a. a|b is either: the first that is there.
    """

    name: str
    layout: str  # rows: CSV, JSON lines or a JSON list; runs: an object of lists for each run
    sign: tuple  # the columns or keys by which it is told
    prompt: str
    output: str
    arrival: str  # when a request was due
    unit: str  # of arrival and end: s, ms, us, ns or date; "": the file must tell
    least: int = 0  # tokens in a prompt and in an output
    error: str = ""  # not empty, or no success, in a request that failed
    silent_fails: bool = False  # a request without an output token failed
    cache: str = ""  # true: the gateway answered from its own cache
    only: str = ""  # tells which rows count
    counts: tuple = ()  # what it holds in them, and what the others are
    cached: str = ""  # tokens of the prompt that the server found in its cache
    sent: str = ""  # when a request was sent, if that may be later than when it was due
    queued: str = ""  # how much later
    session: str = ""  # the turns of a session wait for each other
    turn: str = ""  # of a conversation, from 0 on
    hashes: str = ""  # names of the blocks of tokens that the prompt begins with
    block_tokens: int = 0  # tokens in such a block, if always the same; None: each name comes with its tokens
    companions: tuple = ()  # keys that no other source with the same sign has
    end: str = ""  # when the last token came
    ttft: str = ""
    gaps: str = ""  # a list of times between tokens; or, if `clock`, of the times at which tokens came
    clock: bool = False
    latency: str = ""  # from when it was sent to its last token
    latency_unit: str = ""  # of ttft, gaps and latency
    mean: str = ""  # a mean time between tokens, where there are no gaps
    other: str = ""  # what else a reader of the table should know


LAYOUT_WORDS = {"rows": "CSV or JSON", "runs": "JSON object"}
UNIT_WORDS = {"date": "date and time", "": "told by its size, or asked for"}
TRACE = ("rows", ("input_length", "output_length"), "input_length", "output_length", "timestamp")
SESSION = "session_id|conversation_id|delay"
USAGE = ("prompt_tokens|input_tokens|promptTokens|inputTokens|prompt_eval_count",
         "completion_tokens|output_tokens|completionTokens|outputTokens|generated_tokens|eval_count")
WHEN = ("ts|timestamp|time|created|created_at|start_time|startTime|arrival_time|arrived_at|request_time|"
        "start_timestamp|datetime|date")
SOURCES = (
    Source("this lab", "rows", ("prompt_tokens", "output_tokens"), "prompt_tokens", "output_tokens", "arrival_ms", "ms",
           least=1, hashes="prefixes", block_tokens=None,
           other="or gap (seconds since the arrival before); prefixes: a list of [name, tokens], shortest first"),
    Source("vLLM", "runs", ("input_lens",), "input_lens", "output_lens", "start_times", "s", error="errors",
           queued="queue_times", cached="cached_tokens", ttft="ttfts", gaps="itls", latency_unit="s",
           other="vllm bench serve --save-result --save-detailed; sglang's bench_serving --output-details. "
                 "Several runs may be in a file. Results before 2026 have no start_times"),
    Source("Azure", "rows", ("TIMESTAMP", "ContextTokens", "GeneratedTokens"), "ContextTokens", "GeneratedTokens",
           "TIMESTAMP", "date", other="the traces of 2023, of 2024, and the multimodal one of 2025"),
    Source("BurstGPT", "rows", ("Timestamp", "Request tokens", "Response tokens"), "Request tokens", "Response tokens",
           "Timestamp", "s", silent_fails=True,
           other="versions 1 and 2. No response token means that the request failed. Arrivals lie on a grid of 1 s"),
    Source("Vidur", "rows", ("num_prefill_tokens", "num_decode_tokens"), "num_prefill_tokens", "num_decode_tokens",
           "arrived_at", "s", other="its lengths come without arrivals, too"),
    Source("splitwise-sim", "rows", ("prompt_size", "token_size"), "prompt_size", "token_size",
           "arrival_timestamp", "s"),
    Source("ServeGen", "rows", ("request_id", "timestamp", "input_tokens", "output_tokens"), "input_tokens",
           "output_tokens", "timestamp", "s", error="status_code|status|error"),
    Source("Mooncake", *TRACE, "ms", hashes="hash_ids", block_tokens=512, session=SESSION,
           other="told by hash_ids that name blocks of 512 tokens. Arrivals may lie on a grid of 3 s. Of the turns of "
                 "a session only the lengths are used"),
    Source("Dynamo", *TRACE, "ms", hashes="hash_ids", session=SESSION,
           companions=("context_len", "unique_user_prompt_len"), other="told by context_len, unique_user_prompt_len"),
    Source("Qwen-Bailian", *TRACE, "s", hashes="hash_ids", block_tokens=16,
           companions=("chat_id", "parent_chat_id", "turn"), other="told by hash_ids that name blocks of 16 tokens, or "
           "by chat_id, parent_chat_id or turn"),
    Source("timed trace", *TRACE, "s", hashes="hash_ids", session=SESSION,
           other="as vLLM and guidellm replay it. Nothing tells it from Mooncake's: it needs --time-unit s"),
    Source("usage log", "rows", (USAGE[0], USAGE[1]), USAGE[0], USAGE[1], WHEN, "", error="error|status_code|status",
           other="names of the OpenAI API and others, flat"),
    Source("OpenAI usage", "rows", ("usage.prompt_tokens|usage.input_tokens",
                                    "usage.completion_tokens|usage.output_tokens"),
           "usage.prompt_tokens|usage.input_tokens", "usage.completion_tokens|usage.output_tokens", WHEN, "",
           error="error", cached="usage.prompt_tokens_details.cached_tokens|usage.cache_read_input_tokens",
           other="responses of the API, as they came. created is a whole second"),
    Source("LiteLLM", "rows", ("prompt_tokens", "completion_tokens", "startTime"), "prompt_tokens",
           "completion_tokens", "startTime", "date", error="status", cache="cache_hit",
           other="its spend logs. What its own cache answered never reached the server"),
    Source("Langfuse", "rows", ("startTime", "usageDetails.input|usage.input|promptTokens|inputUsage"),
           "usageDetails.input|usage.input|promptTokens|inputUsage",
           "usageDetails.output|usage.output|completionTokens|outputUsage",
           "startTime", "date", error="level", only="type",
           counts=("GENERATION", "observation", " that is no generation"), other="observations"),
    Source("multi-round-qa", "rows", ("prompt_tokens", "generation_tokens", "launch_time"), "prompt_tokens",
           "generation_tokens", "launch_time", "s", session="user_id",
           other="of LMCache and vLLM's production-stack. Only the lengths are used"),
    Source("guidellm", "rows", ("prompt_tokens", "output_tokens", "request_start_time"), "prompt_tokens",
           "output_tokens", "info.timings.targeted_start|request_start_time|start_time", "s", error="error",
           cached="cached_tokens", sent="request_start_time|start_time", end="request_end_time|end_time",
           ttft="time_to_first_token_ms", latency_unit="ms", mean="inter_token_latency_ms",
           other="the report (benchmarks[].requests.successful[]), or its requests as JSON lines"),
    Source("aiperf", "rows", ("metadata", "metrics"), "metrics.input_sequence_length.value",
           "metrics.output_sequence_length.value", "metadata.request_start_ns", "ns", error="error",
           only="metadata.benchmark_phase", counts=("profiling", "request", " of the warm-up"),
           end="metadata.request_end_ns", ttft="metrics.time_to_first_token.value",
           gaps="metrics.inter_chunk_latency.value", latency_unit="ms", turn="metadata.turn_index",
           other="profile_export.jsonl. TTFTs and gaps need --streaming"),
    Source("inference-perf", "rows", ("start_time", "info"),
           "info.request_metrics.text.input_tokens|info.input_tokens",
           "info.response_metrics.output_tokens|info.output_tokens", "start_time", "s", error="error", end="end_time",
           gaps="info.response_metrics.output_token_times|info.output_token_times", clock=True, latency_unit="s",
           other="per_request_lifecycle_metrics.json"),
    Source("llmperf", "rows", ("number_input_tokens", "number_output_tokens"), "number_input_tokens",
           "number_output_tokens", "", "s", error="error_code", ttft="ttft_s", latency_unit="s",
           mean="inter_token_latency_s", other="individual_responses; no arrivals"),
)
LAB, GUIDELLM, USAGE_LOG = (next(source for source in SOURCES if source.name == name)
                            for name in ("this lab", "guidellm", "usage log"))
BY_ARRIVAL = (  # the same, told by an arrival, too: the longest sign wins
    LAB._replace(sign=(*LAB.sign, "arrival_ms")),
    LAB._replace(sign=(*LAB.sign, "gap"), arrival="gap", unit="s"),
    USAGE_LOG._replace(sign=(*USAGE, WHEN)),
)
POINT = 'or give its figures to calibrate.py, as --point "clients=16 prompt=1024 output=1024 p50_ttft_ms=34 tps=3265"'
NO_REQUESTS = (  # (JSON or CSV, the keys or columns by which it is told, what it is and what to do)
    ("JSON", ("output_throughput|mean_ttft_ms",), "a result without its requests: run vllm bench serve with "
     "--save-detailed (sglang: --output-details). calibrate.py takes it as it is"),
    ("CSV", ("output_throughput|mean_ttft_ms",), "a table of results, a row a run, without their requests: take the "
     f"summary.json beside it, {POINT}"),
    ("JSON CSV", ("conc", "isl", "osl"), f"averages of InferenceMAX, without requests: take another file, {POINT}"),
    ("JSON CSV", ("request_throughput.avg|time_to_first_token.avg|Metric",), "a summary of aiperf or genai-perf: take "
     f"the profile_export.jsonl beside it, {POINT}"),
    ("JSON", ("experiments",), "a file of genai-perf: there are no token counts in it. aiperf writes them: take its "
     "profile_export.jsonl"),
    ("JSON", ("avg_latency|tokens_per_second|elapsed_time|prefill_latency",), "a result of vllm bench latency or "
     f"throughput, which time no single request: run vllm bench serve with --save-detailed, {POINT}"),
    ("CSV", ("Benchmark|benchmarks:|type_: generative_benchmarks_report",), "a table or YAML of guidellm: take the "
     "benchmarks.json beside it"),
)
NAMES = ("prompt", "output", "arrival", "unit", "error", "ttft", "gaps", "latency", "latency_unit")  # in --columns


def named(pairs):
    """The Source that --columns prompt=NAME output=NAME ... tells. Raises BadInput."""
    given = dict(pair.partition("=")[::2] for pair in pairs)
    if len(given) < len(pairs) or not {"prompt", "output"} <= given.keys() <= set(NAMES) or "" in given.values():
        raise BadInput(f"--columns: expected prompt=NAME output=NAME, and at most once each of {', '.join(NAMES[2:])}, "
                       f"found {' '.join(pairs)[:80]} (files go before --columns)")
    for key in ("unit", "latency_unit"):
        if given.get(key, "s") not in UNITS:
            raise BadInput(f"--columns: {key}: expected {', '.join(UNITS)}, found {given[key][:40]}")
    sign = [given[key] for key in NAMES if key in given and key not in ("unit", "error", "latency_unit")]
    blank = {"arrival": "", "unit": "", "latency_unit": "s"}
    return Source("named by --columns", "rows", tuple(sign), **(blank | given))  # an error may stand in few records


def table_of_sources():
    """The table for people, in Markdown."""
    rows = [("source", "told by", "prompt", "output", "arrival (unit)", "TTFT, gaps", "also")]
    for source in SOURCES:
        arrival = source.arrival if source.arrival != WHEN else "ts, timestamp, created and the like"
        arrival = f"{arrival} ({UNIT_WORDS.get(source.unit, source.unit)})" if arrival else ""
        latencies = [name for name in (source.ttft, source.gaps or source.mean and f"{source.mean} (a mean)") if name]
        told = "the next two" if source.sign == (source.prompt, source.output) else ", ".join(source.sign)
        told = f"{LAYOUT_WORDS[source.layout]} with {told}"
        cells = (source.name, told, source.prompt, source.output, arrival, ", ".join(latencies), source.other)
        rows.append([cell.replace("|", " or ") or "-" for cell in cells])
    rows.insert(1, ["---"] * len(rows[0]))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
