"""traces.py: what it says of a file, --brief and --convert; the steps take lengths; every folder of fixtures/public."""

import json

import pytest
import traces
from common import BadInput, load_requests
from fixture import ROOT, SHIPPED, script
from files.benchmarks import load_benches
from files.sources import load_trace
from traces import summary

PUBLIC = ROOT / "fixtures" / "public"
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n"


@pytest.fixture
def said(monkeypatch, capsys):
    """What a script prints for these words, played in this process."""
    def said(module, *words):
        monkeypatch.setattr("sys.argv", [f"{module.__name__}.py", *map(str, words)])
        module.main()
        return capsys.readouterr().out
    return said


def test_what_a_file_holds_worked_by_hand(tmp_path, said):
    """Gaps of 1 and 3 s: 2 s on average, so 0.5 requests/s, and a deviation of 1 s, half of that."""
    path = tmp_path / "trace.csv"
    path.write_text(VIDUR + "0,10,1\n1,20,1\n4,30,1\n")
    assert said(traces, path, SHIPPED).splitlines()[:5] == [
        "trace.csv: 3 requests over 4.0 s (Vidur)",
        "  prompt_tokens: 10 to 30, mean 20.0, median 20, p99 29.8",
        "  output_tokens: 1 to 1, mean 1.0, median 1, p99 1.0",
        "  arrivals: 0.500 requests/s, coefficient of variation of the gaps 0.50",
        "requests.json: 100 requests (this lab)",
    ]
    path.write_text(VIDUR + "0,10,1\n0,20,1\n")
    assert said(traces, path).endswith("  arrivals: all at one moment\n")


def test_the_share_of_shared_prefixes_worked_by_hand(tmp_path, said):
    """Prompts of 600, 600 and 300 tokens. The first two share a block of 512: 1024 of 1500 tokens."""
    path = tmp_path / "trace.jsonl"
    rows = [(0, 600, [1, 2]), (5, 600, [1, 3]), (9, 300, [4])]
    path.write_text("".join(json.dumps({"timestamp": at, "input_length": prompt, "output_length": 1,
                                        "hash_ids": names}) + "\n"
                            for at, prompt, names in rows))
    assert said(traces, path).endswith(
        "  prefixes: 68.3% of the prompt tokens lie in a prefix that another prompt shares\n")


def test_brief_is_one_line_a_file(said):
    files = [PUBLIC / "azure_multimodal_2025" / "azure.csv", PUBLIC / "vidur_lengths_only" / "v.csv"]
    assert said(traces, "--brief", "--first", 1, *files) == (
        "azure.csv: 1 request over 0.0 s (Azure)\nv.csv: 1 request (Vidur)\n")


@pytest.mark.parametrize("arguments, says", [
    (["a", "b", "--convert", "c"], "--convert: expected one FILE, found 2"),
    (["--sources", "--convert", "c"], "--convert: expected one FILE, found 0"),
    ([], "expected one or more FILEs, or --sources"),
    (["a", "--sources"], "expected one or more FILEs, or --sources"),
])
def test_flags_that_make_no_sense(monkeypatch, capsys, arguments, says):
    monkeypatch.setattr("sys.argv", ["traces.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        traces.main()
    assert ended.value.code == 2 and capsys.readouterr().err.endswith(f"traces.py: error: {says}\n")


# --- the folders of fixtures/public -------------------------------------------------------------------------------

LOOP = "a closed loop of {}, whose start times are the server's doing: not used"
WITHOUT = "a result without its requests: run vllm bench serve with --save-detailed (sglang: --output-details)"
ASKED = "timestamp: nothing in the file settles its unit: say --time-unit ms or --time-unit s"
SAYS = {  # file: what traces.py says of it, as its NOTE has it right
    "aiperf_aggregate/profile_export_aiperf.json": ("take the profile_export.jsonl beside it", "--point"),
    "aiperf_not_streaming/profile_export.jsonl": ("40 requests (aiperf); " + LOOP.format("4 clients"),),
    "aiperf_warmup_rows/profile_export.jsonl":
        ("28 requests over 5.9 s (aiperf); 2 failed requests left out; 5 requests of the warm-up left out",),
    "azure_2024/azure2024.csv": ("40 requests over 6.4 s (Azure)",),
    "azure_dst/dst.csv": ("40 requests over 7059.0 s (Azure); times step back by an hour before row 20",
                          "coefficient of variation of the gaps 0.00"),
    "azure_multimodal_2025/azure.csv": ("2 requests over 0.5 s (Azure)", "320 to 1800"),
    "azure_two_zones/zones.csv": ("20 requests over 133.0 s (Azure)", "variation of the gaps 0.00"),
    "burstgpt_v2/burst.csv": ("2 requests over 51.0 s (BurstGPT); 1 failed request left out",),
    "chat_role_chunk/r.json": ("12 requests (vLLM); " + LOOP.format("1 client"),),
    "clients_over_max_num_seqs/c01.json": ("60 requests (vLLM); " + LOOP.format("1 client"),),
    "clients_over_max_num_seqs/c32.json": ("60 requests (vLLM); " + LOOP.format("32 clients"),),
    "closed_loop_as_trace/closed16.json": ("60 requests (vLLM); " + LOOP.format("16 clients"),),
    "closed_loop_as_trace/lengths.json": ("60 requests (this lab)",),
    "dynamo_synth_128/trace.jsonl": ("40 requests over 8.6 s (Dynamo); hash_ids name blocks of 128 tokens",
                                     "prefixes: 58.7% of the prompt tokens"),
    "eos_first/result.json": ("20 requests (vLLM); 10 completed requests without an output token, counted as one",),
    "epoch_us_and_iso/*": ("40 requests over 6.4 s",),
    "genai_perf/profile_export.json": ("there are no token counts in it", "profile_export.jsonl"),
    "grid_3s/m.jsonl": ("60 requests over 15.0 s (Mooncake)", "grid: 60 requests at 6 moments, 3 s or a"),
    "guidellm_csv_yaml/*": ("of guidellm: take the benchmarks.json beside it",),
    "guidellm_late_dispatch/benchmarks.json":
        ("40 requests over 4.0 s (guidellm); some were sent up to 6.0 s after they were due", "9.745 requests/s"),
    "guidellm_requests/r.jsonl": ("4 requests over 1.5 s (guidellm)",),
    "inferencemax_agg/agg.json": ("averages of InferenceMAX", "--point"),
    "langfuse_export/observations.jsonl": ("40 requests over 6.4 s (Langfuse)",),
    "litellm_spend_logs/*":
        ("38 requests over 6.4 s (LiteLLM); 1 failed request left out; 1 request that the gateway answered",),
    "mooncake_float_ms/epoch_ms.jsonl": ("40 requests over 6.4 s",),
    "mooncake_float_ms/trace.jsonl": (ASKED,),
    "mooncake_session_delay/trace.jsonl": ("40 requests (", "; turns of 10 sessions: their arrivals depend on the"),
    "multi_round_qa/summary.csv": ("40 requests (multi-round-qa); turns of 8 sessions: their arrivals, over 5.8 s,",),
    "no_start_times/result.json": ("20 requests (vLLM)",),
    "one_length_a_run/*": ("8 requests (vLLM); " + LOOP.format("1 client"),),
    "openai_usage_log/responses.jsonl": ("40 requests over 6.0 s (OpenAI usage)", "1 s or a multiple of it apart"),
    "other_tools/*": ("not a request file that we know", "--columns"),
    "pandas_float_counts/azure_float.csv": ("40 requests over 6.4 s (Azure)",),
    "qwen_bailian/trace.jsonl": ("6 requests over 9.5 s (Qwen-Bailian); hash_ids name blocks of 16", "0.526"),
    "self_timed_cap/run.json": ("60 requests over 14.4 s (vLLM)",),
    "servegen_csv/workload.csv": ("40 requests over 6.4 s (ServeGen)", "6.092 requests/s"),
    "several_results_in_one_file/*": ("40 requests (vLLM); 2 runs in one file", "run 2: a closed loop of 4"),
    "sglang_cache_report/gsp.jsonl": ("40 requests (vLLM); its server had 78% of the prompt tokens in its cache",),
    "sglang_multi_turn/mt.jsonl": ("40 requests (vLLM); a closed loop of 4 clients",),
    "sglang_trace_rate/trace.jsonl": (WITHOUT,),
    "short_trace_no_edge/t.json": ("64 requests over 8.4 s (this lab)",),
    "timed_trace_seconds/trace.jsonl": (ASKED,),
    "usage_flat/usage.jsonl": ("40 requests over 6.4 s (usage log)",),
    "vidur_lengths_only/v.csv": ("2 requests (Vidur)",),
    "vllm_disaggregated/pd.json": ("40 requests over 9.9 s (vLLM)",),
    "vllm_offline_bench/*": ("time no single request: run vllm bench serve with --save-detailed", "--point"),
    "vllm_queue_times/rate100_cap4.json":
        ("40 requests (vLLM); a closed loop of 4 clients, too few for its rate of 100 requests/s, whose",),
    "vllm_queue_times/rate10_cap4.json":
        ("40 requests over 4.0 s (vLLM); some were sent up to 6.0 s after they were due",),
    "vllm_rate_and_cap_summary/*": (WITHOUT,),
    "vllm_reasoning/r.json": ("40 requests over 32.3 s (vLLM)",),
    "vllm_spec_decode/sd.json": ("40 requests over 10.5 s (vLLM)",),
    "vllm_stream_interval/si.json": ("40 requests over 8.5 s (vLLM)",),
    "vllm_summary_failed/*": (WITHOUT,),
    "vllm_summary_varied_lengths/*": (WITHOUT,),
    "vllm_sweep/summary.csv": ("take the summary.json beside it", "--point"),
    "vllm_sweep/summary.json": (WITHOUT,),
    "vllm_warm_prefix_cache/second_run.json": ("40 requests over 7.8 s (vLLM)",),
}


INPUTS = {str(path.relative_to(PUBLIC)) for path in PUBLIC.glob("*/*") if path.name not in ("NOTE", "costs.txt")}


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_a_file_as_people_have_it(name):
    """No file of fixtures/public is without words of its own, and no words are without a file."""
    words = SAYS.get(name) or SAYS[f"{name.partition('/')[0]}/*"]
    try:
        trace = load_trace(PUBLIC / name)
        said = "\n".join([str(trace), *summary(trace)])
        assert said.startswith(words[0])
    except BadInput as refused:
        said = str(refused)
        assert len(said) < 1000 and "\n" not in said
    assert all(word in said for word in words), said
    assert SAYS.keys() <= INPUTS | {f"{one.partition('/')[0]}/*" for one in INPUTS}


def test_what_is_right_in_the_other_figures_of_these_files():
    trace = load_trace(PUBLIC / "closed_loop_as_trace" / "closed16.json")
    assert trace.closed and trace[:3] == load_trace(PUBLIC / "closed_loop_as_trace" / "lengths.json")[:3]
    trace = load_trace(PUBLIC / "eos_first" / "result.json")
    assert trace.requests.output_tokens.count(1) == 10 and trace.left_out == 0
    assert load_trace(PUBLIC / "qwen_bailian" / "trace.jsonl").prefixes == [((1, 16),)] * 6
    assert load_trace(PUBLIC / "timed_trace_seconds" / "trace.jsonl", time_unit="s").arrivals_us == [0, 500_000]


def test_what_is_right_of_these_files_as_benchmarks():
    bench, = load_benches(PUBLIC / "chat_role_chunk" / "r.json")
    assert {len(gaps) for gaps in bench.itls_s} == {7} and bench.oddities == []
    assert bench.ttfts_s[0] == pytest.approx(0.031205)
    bench, = load_benches(PUBLIC / "clients_over_max_num_seqs" / "c32.json")
    assert bench.clients == 32 and sum(map(sum, bench.itls_s)) / bench.duration_s == pytest.approx(3.547, abs=0.001)
    bench, = load_benches(PUBLIC / "eos_first" / "result.json")
    assert bench.oddities == [
        "10 requests completed without a token: left out, for want of a TTFT.",
        "The client asked for 16 requests/s, and its limit of 1 let fewer through: it was a closed loop."]
    assert bench.failed == 0
    bench, = load_benches(PUBLIC / "no_start_times" / "result.json")
    assert bench.starts_s is None and bench.clients == 1 and len(bench.ttfts_s) == 20
    bench, = load_benches(PUBLIC / "self_timed_cap" / "run.json")
    assert not bench.closed and bench.starts_s[-1] == pytest.approx(14.36, abs=0.01) and bench.oddities == []
    bench, = load_benches(PUBLIC / "sglang_cache_report" / "gsp.jsonl")
    assert (sum(bench.cached_tokens), sum(bench.prompt_tokens)) == (39936, 51354)
    bench, = load_benches(PUBLIC / "vllm_spec_decode" / "sd.json")
    assert (bench.accepted, bench.cached_tokens, bench.starts_s[-1]) == (2.5, None, pytest.approx(10.51, abs=0.01))
    bench, = load_benches(PUBLIC / "aiperf_warmup_rows" / "profile_export.jsonl")
    assert (len(bench.ttfts_s), bench.failed, bench.starts_s[-1]) == (28, 2, pytest.approx(5.94, abs=0.01))
    with pytest.raises(BadInput, match="no times of tokens in it .aiperf.: run the benchmark with --streaming"):
        load_benches(PUBLIC / "aiperf_not_streaming" / "profile_export.jsonl")
    for name in ("append.json", "sglang.jsonl"):
        assert [bench.clients for bench in load_benches(PUBLIC / "several_results_in_one_file" / name)] == [1, 4]


@pytest.mark.parametrize("name, n, clients",
                         [("closed_01", 100, 1), ("closed_04", 100, 4), ("closed_16", 100, 16),
                          ("open_060", 400, None)])
def test_the_recorded_runs(name, n, clients):
    bench, = load_benches(ROOT / "fixtures" / "measured" / f"{name}.json.gz")
    assert (len(bench.ttfts_s), bench.clients, bench.failed, bench.oddities) == (n, clients, 0, [])


@pytest.mark.parametrize("name", ["azure_2024/azure2024.csv", "litellm_spend_logs/spend_logs.json",
                                  "mooncake_session_delay/trace.jsonl", "eos_first/result.json"])
def test_what_is_converted_is_what_the_steps_take(tmp_path, name):
    own = tmp_path / "own.json"
    done = script("static", "--requests", PUBLIC / name, "--out", tmp_path)
    assert done.returncode == 2 and "python3 lb2/traces.py FILE --convert OUT.json" in done.stderr
    assert script("traces", PUBLIC / name, "--convert", own).returncode == 0
    assert load_requests(own) == load_trace(PUBLIC / name).requests
    assert script("static", "--requests", own, "--out", tmp_path).returncode == 0


def test_calibrate_takes_columns_and_no_result_twice(tmp_path):
    """The recorded run as a log of another form gives the costs that made it: 0.05 ms a prompt token, 8 and 0.05."""
    path, log = PUBLIC / "vllm_queue_times" / "rate10_cap4.json", tmp_path / "log.jsonl"
    run = json.loads(path.read_text())
    columns = zip(run["start_times"], run["input_lens"], run["output_lens"], run["ttfts"], run["itls"])
    log.write_text("".join(json.dumps({"at": at, "p": p, "o": o, "t": 1000 * ttft, "gaps": [1000 * g for g in gaps]})
                           + "\n" for at, p, o, ttft, gaps in columns))
    named = ["--columns", "prompt=p", "output=o", "arrival=at", "unit=s", "ttft=t", "gaps=gaps", "latency_unit=ms"]
    done = script("calibrate", log, "--out", tmp_path, *named)
    assert done.returncode == 0, done.stderr
    costs = dict(pair.split("=") for pair in (tmp_path / "costs.txt").read_text().split())
    found = [float(costs[key]) for key in ("prefill_ms_per_token", "step_ms", "step_ms_per_sequence")]
    assert found == pytest.approx([0.05, 8, 0.05], rel=0.01)
    twice = script("calibrate", path, path, "--out", tmp_path)
    assert twice.returncode == 2 and f"{path}: the same as {path}" in twice.stderr
