"""traces.py: what it says of a file, --brief and --convert; the steps take lengths; every folder of fixtures/public."""

import json

import pytest
import static
import traces
from common import load_requests
from fixture import ROOT, SHIPPED, script, words
from files.benchmarks import load_benches
from files.sources import load_trace
from traces import shared_tokens, summary

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


def test_a_prefix_is_shared_by_two_or_more():
    """A: 16 tokens by three, B: 32 by two, C: 48 by one. Each prompt counts the longest that others have, too."""
    prefixes = [(("A", 16), ("B", 32), ("C", 48)), (("A", 16), ("B", 32)), (("A", 16),), (), (("D", 9),)]
    assert shared_tokens(prefixes) == 32 + 32 + 16


def test_a_grid_is_named(tmp_path, said):
    assert said(traces, PUBLIC / "grid_3s" / "m.jsonl").endswith(
        "  grid: 60 requests at 6 moments, 3 s or a multiple of it apart: the variation is the grid's\n")
    path = tmp_path / "trace.csv"
    path.write_text(VIDUR + "0,1,1\n0,1,1\n0,1,1\n0,1,1\n2,1,1\n6,1,1\n")
    *_, half = summary(load_trace(path))
    assert half == "grid: 6 requests at 3 moments, 2 s or a multiple of it apart: the variation is the grid's"
    path.write_text(VIDUR + "0,1,1\n0,1,1\n2,1,1\n6,1,1\n")
    assert said(traces, path).endswith(
        "  grid: 4 requests at 3 moments, 2 s or a multiple of it apart: the variation is in part the grid's\n")


def test_brief_is_one_line_a_file(tmp_path, said):
    files = [PUBLIC / "azure_multimodal_2025" / "azure.csv", PUBLIC / "burstgpt_v2" / "burst.csv"]
    assert said(traces, "--brief", *files) == (
        "azure.csv: 2 requests over 0.5 s (Azure)\n"
        "burst.csv: 2 requests over 51.0 s (BurstGPT); 1 failed request left out\n")
    assert said(traces, "--brief", "--first", 1, files[0]) == "azure.csv: 1 request over 0.0 s (Azure)\n"


def test_convert_writes_what_every_script_takes(tmp_path, said):
    trace, out = PUBLIC / "qwen_bailian" / "trace.jsonl", tmp_path / "sub" / "own.json"
    assert said(traces, trace, "--convert", out).endswith(f"The requests are in {out}, in the lab's own format.\n")
    assert json.loads(out.read_text())[1] == {
        "prompt_tokens": 1000, "output_tokens": 40, "arrival_ms": 1900.0, "prefixes": [[1, 16]]}
    assert load_trace(out)[:3] == load_trace(trace)[:3]
    assert said(traces, "--brief", out) == "own.json: 6 requests over 9.5 s (this lab)\n"


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


def test_the_help_says_what_each_flag_does(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["traces.py", "--help"])
    with pytest.raises(SystemExit):
        traces.main()
    said = words(capsys.readouterr().out)
    for flag in ("FILE request files or benchmark results", "--first N take the first N requests only (default: all)",
                 "--brief print one line a file", "--convert OUT.json write the requests in the lab's own format",
                 "--sources print the table of known sources, in Markdown",
                 "--time-unit {ms,s} unit of the arrivals, for a file that does not settle it (default: ask)"):
        assert flag in said, flag


def test_first_takes_the_first_of_a_plain_list(tmp_path, said):
    said(static, "--first", 1, "--out", tmp_path)
    assert (tmp_path / "static.txt").read_text().startswith("total_steps=294 ")
    assert script("static", "--first", 0, "--out", tmp_path).returncode == 2


# --- the folders of fixtures/public -------------------------------------------------------------------------------

NOT_USED = ", whose start times are the server's doing: not used"
FILES = {  # file: what the line about it says
    "azure_multimodal_2025/azure.csv": "2 requests over 0.5 s (Azure)",
    "burstgpt_v2/burst.csv": "2 requests over 51.0 s (BurstGPT); 1 failed request left out",
    "chat_role_chunk/r.json": "12 requests (vLLM); a closed loop of 1 client" + NOT_USED,
    "clients_over_max_num_seqs/c01.json": "60 requests (vLLM); a closed loop of 1 client" + NOT_USED,
    "clients_over_max_num_seqs/c32.json": "60 requests (vLLM); a closed loop of 32 clients" + NOT_USED,
    "closed_loop_as_trace/closed16.json": "60 requests (vLLM); a closed loop of 16 clients" + NOT_USED,
    "closed_loop_as_trace/lengths.json": "60 requests (this lab)",
    "eos_first/result.json": "20 requests (vLLM); 10 completed requests without an output token, counted as one token; "
                             "a closed loop of 1 client",
    "grid_3s/m.jsonl":
        "60 requests over 15.0 s (Mooncake); hash_ids name blocks of 512 tokens, and no two prompts begin with the same"
        " one",
    "guidellm_requests/r.jsonl": "4 requests over 1.5 s (guidellm)",
    "no_start_times/result.json": "20 requests (vLLM); a closed loop of 1 client",
    "one_length_a_run/i157.json": "8 requests (vLLM); a closed loop of 1 client" + NOT_USED,
    "one_length_a_run/i2077.json": "8 requests (vLLM); a closed loop of 1 client" + NOT_USED,
    "one_length_a_run/i541.json": "8 requests (vLLM); a closed loop of 1 client" + NOT_USED,
    "qwen_bailian/trace.jsonl":
        "6 requests over 9.5 s (Qwen-Bailian); hash_ids name blocks of 16 tokens, and prompts share some",
    "self_timed_cap/run.json": "60 requests over 14.4 s (vLLM)",
    "several_results_in_one_file/append.json":
        "40 requests (vLLM); 2 runs in one file: when their requests arrived is not used; run 1: a",
    "several_results_in_one_file/sglang.jsonl":
        "40 requests (vLLM); 2 runs in one file: when their requests arrived is not used; run 1: a",
    "short_trace_no_edge/t.json": "64 requests over 8.4 s (this lab)",
    "vidur_lengths_only/v.csv": "2 requests (Vidur)",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_as_people_have_it(name):
    said = str(load_trace(PUBLIC / name))
    assert said.startswith(FILES[name]) if FILES[name].endswith(" a") else said == FILES[name]


def test_what_is_right_in_the_other_figures_of_these_files():
    trace = load_trace(PUBLIC / "azure_multimodal_2025" / "azure.csv")
    assert trace.requests.prompt_tokens == [1800, 320]
    trace = load_trace(PUBLIC / "closed_loop_as_trace" / "closed16.json")
    assert trace.closed and trace[:3] == load_trace(PUBLIC / "closed_loop_as_trace" / "lengths.json")[:3]
    trace = load_trace(PUBLIC / "eos_first" / "result.json")
    assert trace.requests.output_tokens.count(1) == 10 and trace.left_out == 0
    assert load_trace(PUBLIC / "grid_3s" / "m.jsonl").grid_us == 3_000_000
    trace = load_trace(PUBLIC / "qwen_bailian" / "trace.jsonl")
    assert trace.prefixes == [((1, 16),)] * 6 and trace.arrivals_us[1] == 1_900_000
    assert load_trace(PUBLIC / "timed_trace_seconds" / "trace.jsonl", time_unit="s").arrivals_us == [0, 500_000]
    assert load_trace(PUBLIC / "vidur_lengths_only" / "v.csv").arrivals_us is None


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
