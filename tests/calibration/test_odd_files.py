"""Files as people have them: the costs that are right, or the word that they are not (the NOTE beside each file)."""

import json
import random

import pytest
from calibration.doubts import doubts
from calibration.gaps import calibrated
from calibration.loads import load_summaries
from calibration.ways import found_in
from common import Requests
from test_measured import calibration
from files.benchmarks import load_benches
from files.costs import Server, load_server
from fixture import ROOT, script, words

PLAN, PUBLIC, CLOCKED = (ROOT / "fixtures" / name for name in ("plan", "public", "clocked"))
TRUE = (50, 8_000, 50, 4_000)  # us a prompt token, a step, a sequence, overhead

DETAILED = [  # files, the costs that are right (None: not told by it), what is doubted, words
    ("vllm_queue_times/rate10_cap4.json", TRUE[:3], None, []),
    ("vllm_queue_times/rate100_cap4.json", TRUE[:3], None, []),
    ("vllm_stream_interval/si.json", TRUE, None, ["their tokens did not come one at a time"]),
    ("vllm_reasoning/r.json", None, "hidden_tokens,overhead", ["a model's reasoning", "step takes about 8.15 ms"]),
    ("vllm_warm_prefix_cache/second_run.json", (None, 8_000, 50, 4_000), "free_prompts", ["prefix cache warm"]),
    ("vllm_disaggregated/pd.json", (None, 8_000, 50), "elsewhere", ["prefill and decode apart"]),
    ("vllm_spec_decode/sd.json", None, "several_tokens", ["the file names 2.5 tokens a step", "about 12.20 ms"]),
    ("sglang_cache_report/gsp.jsonl", (50,), None, ["roughly"]),
    ("sglang_multi_turn/mt.jsonl", (None, 8_200), "history", ["turns of conversations"]),
    ("prefix.json.gz", (None, 8_000, 50, 4_000), "prefills",
     [" 30 % of the steps with a prefill", "--no-enable-prefix-caching"]),
    ("warmup.json.gz", TRUE, "drift", ["in the 1. tenth of its time steps take 200 % longer"]),
    ("stalls.json.gz", TRUE, "stalls", ["of the time between tokens is explained by no step"]),
    ("spec_zerogaps.json.gz", None, "several_tokens", ["brings a sequence 2.52 tokens", "about 10.60 ms"]),
]
LENGTHS = "clients march in step, and prefill, overhead and the cost of a sequence come out wrong"
VARIED = ["vllm_summary_varied_lengths/c4.json", "vllm_summary_varied_lengths/c16.json"]
SUMMARIES = [  # files, is the scheduler told to be synchronous, as it is, for the time's sake, and as above
    (["vllm_summary_varied_lengths/same_lengths_c4.json", "vllm_summary_varied_lengths/same_lengths_c16.json"], True,
     TRUE, None, []),
    (VARIED, True, None, "lengths,fit", [LENGTHS]),
    (["vllm_summary_failed/r2.json", "vllm_summary_failed/r6.json"], False, TRUE[:2], "lengths,failed",
     ["r6: 160 of 200 requests failed", LENGTHS]),
    (["vllm_rate_and_cap_summary/rate10_cap4.json", "vllm_rate_and_cap_summary/rate10_cap8.json"], False, (None, 8_000),
     "lengths", ["at random times, 10 a second"]),
]


def placed(path):
    return next(folder / path for folder in (PLAN, PUBLIC) if (folder / path).exists())


def calibrated_file(path, out, *options):
    """(Server, what is said) of calibrate on this file."""
    done = script("calibrate", placed(path), "--out", out, *options)
    assert done.returncode == 0, done.stderr
    return load_server(out / "costs.txt"), words(done.stdout)


def calibrated_summaries(paths, synchronous, lengths=None):
    """(Server, what is said) of these summaries, for a budget of 2,048."""
    told = Server(asynchronous=False if synchronous else None, max_num_batched_tokens=2048)
    found = found_in(list(map(placed, paths)), told, lengths=lengths)
    return found.server, " ".join(["", *found.sentences])


def check(server, said, right, why, sentences, rel):
    """right: where it is None, nothing is told; an overhead may be off by a millisecond."""
    fields = ("prefill_us_per_token", "step_us", "step_us_per_sequence", "overhead_us")
    for field, value in zip(fields, right or ()):
        if value is not None:
            far = 1_000 if field == "overhead_us" else 0
            assert getattr(server.costs, field) == pytest.approx(value, rel=rel, abs=far), field
    assert (server.trusted, server.why) == (("no", why) if why else (None, None))
    assert (" DISAGREEMENT: do not trust these costs" in said) is bool(why)
    for sentence in sentences:
        assert sentence in said


@pytest.mark.parametrize("path, right, why, sentences", DETAILED, ids=[row[0] for row in DETAILED])
def test_detailed_results(tmp_path, path, right, why, sentences):
    check(*calibrated_file(path, tmp_path), right, why, sentences, 0.15 if "cache_report" in path else 0.05)


@pytest.mark.parametrize("paths, synchronous, right, why, sentences", SUMMARIES, ids=[row[0][0] for row in SUMMARIES])
def test_summaries(paths, synchronous, right, why, sentences):
    check(*calibrated_summaries(paths, synchronous), right, why, sentences, 0.01 if why is None else 0.1)


def test_a_sweep_is_its_runs():
    """vLLM's summary.json and summary.csv hold what the results of the single runs hold."""
    runs = [load._replace(name="", doubts=load.doubts[-1:]) for path in SUMMARIES[2][0]
            for load in load_summaries(placed(path))]
    for name in ("summary.json", "summary.csv"):
        assert [load._replace(name="") for load in load_summaries(placed(f"vllm_sweep/{name}"))] == runs
    assert [doubt.name for run in runs for doubt in run.doubts] == ["lengths"] * 2


def test_a_plan_repeats_first_that_costs_are_not_trusted(tmp_path):
    calibrated_file("vllm_warm_prefix_cache/second_run.json", tmp_path)
    done = script("plan", "--first", 3, "--costs", tmp_path / "costs.txt", "--max-num-seqs", 1, "--target-ttft-ms",
                  "none", "--processes", 1, "--out", tmp_path)
    assert words(done.stdout).startswith("DISAGREEMENT: the costs are not to be trusted, says their calibration (free_")


def test_lengths_that_a_summary_does_not_hold():
    """Prompts of 50 to 1,500 and outputs of 10 to 200 tokens, evenly: with such requests the costs are told."""
    r = random.Random(5)
    lengths = zip(*((r.randint(50, 1500), r.randint(10, 200)) for _ in range(500)))
    server, _ = calibrated_summaries(VARIED, True, Requests(*lengths))
    costs = server.costs
    assert server.trusted is None and costs.prefill_us_per_token == pytest.approx(50, rel=0.1)
    assert costs.decode_us(4) == pytest.approx(8_200, rel=0.03)
    assert costs.decode_us(15) == pytest.approx(8_750, rel=0.05)


@pytest.mark.parametrize("name", ["async_c01", "async_c04", "async_open5", "sync_c16", "roofline_c16",
                                  "roofline_open4"])
def test_nothing_is_doubted_on_a_server_that_is_what_it_seems(name):
    assert doubts(load_benches(CLOCKED / f"{name}.json.gz"), calibration(name)) == []


def test_turns_that_the_file_names_are_a_conversation(tmp_path):
    """aiperf's turn_index says it, though no prompt is longer than the one before."""
    rows = [{"metadata": {"turn_index": i % 2, "request_start_ns": 10**18 + i * 10**8, "benchmark_phase": "profiling"},
             "metrics": {"input_sequence_length": {"value": 100}, "output_sequence_length": {"value": 3},
                         "time_to_first_token": {"value": 13.0}, "inter_chunk_latency": {"value": [8.0, 8.0]}}}
            for i in range(8)]
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    benches = load_benches(tmp_path / "run.jsonl")
    doubt, = doubts(benches, calibrated(benches))
    assert doubt.name == "history" and "4 of 8 requests are later turns of conversations" in doubt.sentence
