"""calibrate: simulate, write in vLLM's format, calibrate, and get the same costs back; bad files; the --costs file."""

import copy
import json

import calibrate
import pytest
from bench_file import bench
from common import Requests
from cost import Costs, load_costs
from fixture import ROOT, STEPS, files, read_pairs, script

COSTS = [Costs(144, 9_907, 493, 4_933), Costs(50, 8_000, 0, 0), Costs(7, 21_000, 1_250, 0), Costs(1, 1, 1, 1)]
LONG = Requests([16 + 37 * i for i in range(24)], [400] * 24)  # full batches nearly all the time
RUNS = [
    ROOT / "fixtures" / "measured" / f"{name}.json.gz" for name in ("closed_01", "closed_04", "closed_16", "open_060")
]


def write(path, record):
    path.write_text(json.dumps(record))
    return path


@pytest.mark.parametrize("costs", COSTS)
def test_the_round_trip_gives_the_costs_back(tmp_path, costs):
    paths = [write(tmp_path / f"closed_{clients}.json", bench(LONG, clients, costs)) for clients in (8, 1, 4)]
    done = script("calibrate", *paths, "--out", tmp_path / "out")
    assert done.returncode == 0
    assert load_costs(tmp_path / "out" / "costs.txt") == costs
    assert (tmp_path / "out" / "costs.txt").read_text().count("\n") == 1


def test_one_run_tells_step_and_prefill_but_not_the_slope(tmp_path):
    costs = Costs(100, 5_000, 0, 3_000)
    path = write(tmp_path / "one.json", bench(LONG, 1, costs))
    said = script("calibrate", path, "--out", tmp_path).stdout
    assert load_costs(tmp_path / "costs.txt") == costs
    assert "step_ms_per_sequence is 0: it takes two" in said


def test_worked_by_hand(tmp_path):
    """Two prompts, 100 and 300 tokens, TTFT 30 and 50 ms: 0.1 ms a token, intercept 20. Time between tokens 10 ms at one
    client and 16 at four: 2 ms a sequence and 8 ms a step; one step is 10 ms, so 10 ms are overhead."""
    one = {"max_concurrency": 1, "duration": 1.0, "input_lens": [100, 300], "output_lens": [2, 2],
           "ttfts": [0.03, 0.05], "itls": [[0.01], [0.01]], "start_times": [0.0, 0.04]}
    four = {key: 2 * value if isinstance(value, list) else value for key, value in one.items()}
    four |= {"max_concurrency": 4, "itls": [[0.016]] * 4, "ttfts": [0.2, 0.3] * 2}
    paths = [write(tmp_path / "one.json", one), write(tmp_path / "four.json", four)]
    assert calibrate.fit([calibrate.load_bench(path) for path in paths]) == Costs(100, 8_000, 2_000, 10_000)


def test_what_the_fit_never_says():
    """No negative cost: where steps get shorter with more sequences or TTFT falls with length, 0; overhead never below 0."""
    runs = [calibrate.load_bench(path) for path in RUNS[:2]]  # closed_04 has the faster steps: noise
    runs[0] = runs[0]._replace(
        ttfts_s=[0.0001 * tokens for tokens in runs[0].prompt_tokens]
    )  # no room for a step in them
    costs = calibrate.fit(runs)
    assert costs.step_us_per_sequence == costs.overhead_us == 0
    assert costs.step_us == round(1e6 * (calibrate.typical_itl_s(runs[0]) + calibrate.typical_itl_s(runs[1])) / 2)
    assert min(costs) >= 0


def test_failed_requests_are_left_out_and_counted(tmp_path):
    record = bench(LONG, 1, COSTS[1])
    whole = calibrate.fit([calibrate.load_bench(write(tmp_path / "a.json", record))])
    record["output_lens"][3], record["ttfts"][3], record["itls"][3], record["errors"][3] = 0, 0.0, [], "refused"
    record["failed"] = 1
    path = write(tmp_path / "b.json", record)
    assert calibrate.load_bench(path).failed == 1
    assert calibrate.fit([calibrate.load_bench(path)]) == whole
    assert "Warning: 1 failed requests of b were left out" in script("calibrate", path, "--out", tmp_path).stdout


def test_a_clock_that_does_not_begin_at_zero_changes_nothing(tmp_path):
    record = bench(LONG, None, COSTS[0], arrivals_us=[150_000 * i for i in range(24)])
    later = {**record, "start_times": [50_000 + start for start in record["start_times"]]}
    a, b = (calibrate.load_bench(write(tmp_path / "x.json", some)) for some in (record, later))
    assert a.starts_s == pytest.approx(b.starts_s, abs=1e-6) and a.closed is b.closed is False


def test_a_rate_makes_it_an_open_loop_and_a_limit_beyond_the_list_is_none(tmp_path):
    record = bench(LONG, 4, COSTS[0])
    assert calibrate.load_bench(write(tmp_path / "a.json", record)).concurrency == 4
    paced = calibrate.load_bench(write(tmp_path / "b.json", {**record, "request_rate": 3.5, "max_concurrency": 256}))
    assert not paced.closed and paced.concurrency < 5, "Little's law"
    assert calibrate.load_bench(write(tmp_path / "c.json", {**record, "max_concurrency": 1000})).concurrency == 24


def test_tokens_that_came_several_at_a_time_are_told(tmp_path):
    record = bench(LONG, 1, COSTS[1])
    record["itls"] = [[a + b for a, b in zip(gaps[::2], gaps[1::2])] for gaps in record["itls"]]
    said = script("calibrate", write(tmp_path / "lumps.json", record), "--out", tmp_path).stdout
    assert "24 requests of lumps have other than output - 1 times between tokens" in said


def test_open_loop_has_the_concurrency_that_littles_law_gives(tmp_path):
    """Two requests of 1 s each, under way in a run of 4 s: half a request on average."""
    record = {"max_concurrency": None, "duration": 4.0, "input_lens": [1, 2], "output_lens": [2, 2],
              "ttfts": [0.5, 0.5], "itls": [[0.5], [0.5]], "start_times": [0.0, 2.0]}
    assert calibrate.load_bench(write(tmp_path / "open.json", record)).concurrency == 0.5


def changed(**fields):
    record = copy.deepcopy(bench(Requests([5, 7], [3, 3]), 1, COSTS[1]))
    record.update(fields)
    return {key: value for key, value in record.items() if value != "gone"}


@pytest.mark.parametrize(
    "record, says",
    [
        ([1, 2], "expected the JSON object of vllm bench serve"),
        ({"mean_ttft_ms": 3.0}, "expected the JSON object of vllm bench serve"),
        (changed(itls="gone"), "no list itls: was it run with --save-detailed?"),
        (changed(ttfts=[0.1]), "must have one entry a request each"),
        (changed(ttfts=[64.7, 13.0]), "are its times in milliseconds?"),
        (changed(itls=[[8.0, 8.0], [8.0, 8.0]]), "are its times in milliseconds?"),
        (changed(ttfts=[None, 0.1]), "request 0: expected counts of tokens and times in seconds"),
        (changed(itls=[[0.1, "x"], []]), "request 0: expected counts of tokens and times in seconds"),
        (changed(duration=0), "duration: expected seconds, found 0"),
        (changed(duration=1e6, ttfts=[13.0, 14.0], mean_ttft_ms=13.5), "are they in seconds?"),
        (changed(max_concurrency="4"), 'max_concurrency: expected a whole number of clients or null, found "4"'),
        (changed(max_concurrency=-4), "max_concurrency: expected a whole number"),
        (changed(itls=[[0.0, 0.0], [0.0, 0.0]]), "median time between tokens is 0"),
        (changed(output_lens=[0, 0]), "every request failed"),
    ],
)
def test_a_bad_benchmark_is_refused(tmp_path, record, says):
    done = script("calibrate", write(tmp_path / "bench.json", record), "--out", tmp_path / "out")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and says in done.stderr
    assert not (tmp_path / "out").exists()


def test_runs_of_one_token_each_say_nothing_of_a_step(tmp_path):
    path = write(tmp_path / "bench.json", bench(Requests([5, 7], [1, 1]), 1, COSTS[1]))
    assert "nothing says how long a step takes" in script("calibrate", path).stderr


def test_the_recorded_runs(tmp_path):
    """The figures of fixtures/measured/README.md, which were fitted independently."""
    assert script("calibrate", RUNS[0], RUNS[2], "--out", tmp_path).returncode == 0
    costs = read_pairs(tmp_path / "costs.txt")
    assert [f"{float(costs[key]):.3g}" for key in ("prefill_ms_per_token", "step_ms", "step_ms_per_sequence")] == [
        "0.144",
        "9.91",
        "0.493",
    ]


# --- the --costs file ---------------------------------------------------------------------------------------------

GOOD = "prefill_ms_per_token=0.05 step_ms=8.0 step_ms_per_sequence=0 overhead_ms=0\n"


def test_the_labs_costs_in_a_file_change_nothing(tmp_path):
    path = tmp_path / "costs.txt"
    path.write_text(GOOD)
    for name in [*STEPS, "paged_preemption", "paged_prefix", "paged_chunked"]:
        assert script(name, "--first", 40, "--out", tmp_path / "a").returncode == 0
        assert script(name, "--first", 40, "--out", tmp_path / "b", "--costs", path).returncode == 0
    assert files(tmp_path / "a") == files(tmp_path / "b") and len(files(tmp_path / "a")) == 11


def test_other_costs_reach_every_script_that_simulates(tmp_path):
    path = tmp_path / "costs.txt"
    path.write_text("prefill_ms_per_token=0.1 step_ms=9 step_ms_per_sequence=0.5 overhead_ms=20")
    for name in [*STEPS, "paged_preemption", "paged_prefix", "paged_chunked"]:
        assert script(name, "--first", 40, "--out", tmp_path / "a").returncode == 0
        assert script(name, "--first", 40, "--out", tmp_path / "b", "--costs", path).returncode == 0
    for name in set(files(tmp_path / "a")) - {"maxseqs.txt"}:
        assert files(tmp_path / "a")[name] != files(tmp_path / "b")[name], name


def test_overhead_is_in_every_ttft_and_in_no_throughput(tmp_path):
    path = tmp_path / "costs.txt"
    path.write_text(GOOD.replace("overhead_ms=0", "overhead_ms=5"))
    for name in ("tune", "paged_prefix", "paged_chunked"):
        script(name, "--first", 40, "--out", tmp_path / "a")
        script(name, "--first", 40, "--out", tmp_path / "b", "--costs", path)
    rows = [(tmp_path / folder / "tune.csv").read_text().splitlines()[1].split(",") for folder in "ab"]
    assert [float(b) - float(a) for a, b in zip(*rows)] == pytest.approx([0, 5, 5, 0])
    rows = [(tmp_path / folder / "paged_chunked.csv").read_text().splitlines()[1].split(",") for folder in "ab"]
    assert [float(b) - float(a) for a, b in zip(*rows)] == pytest.approx([0, 5, 0, 0])
    rows = [(tmp_path / folder / "paged_prefix.csv").read_text().splitlines()[1].split(",") for folder in "ab"]
    assert [float(b) - float(a) for a, b in zip(*rows)] == pytest.approx([0, 5, 5, 0])


def test_costs_are_rounded_to_whole_microseconds(tmp_path):
    path = tmp_path / "costs.txt"
    path.write_text("step_ms=7.9996\noverhead_ms=0.0014 prefill_ms_per_token=5e-2 step_ms_per_sequence=0.4926")
    assert load_costs(path) == Costs(50, 8_000, 493, 1)


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "prefill_ms_per_token, step_ms, step_ms_per_sequence, overhead_ms is missing"),
        (GOOD.replace("step_ms=8.0 ", ""), "step_ms is missing"),
        (GOOD + "step_ms=3", "once, found step_ms=3"),
        (GOOD + "speed=3", "once, found speed=3"),
        (GOOD.replace("8.0", "fast"), "step_ms: expected milliseconds, found fast"),
        (GOOD.replace("8.0", "nan"), "step_ms: expected milliseconds, found nan"),
        (GOOD.replace("8.0", "inf"), "step_ms: expected milliseconds, found inf"),
        (GOOD.replace("8.0", "-8"), "step_ms: expected milliseconds from 0"),
        (GOOD.replace("8.0", "0.0001"), "step_ms: expected at least 0.001"),
    ],
)
def test_a_bad_costs_file_is_one_line(tmp_path, text, says):
    path = tmp_path / "costs.txt"
    path.write_text(text)
    done = script("continuous", "--costs", path, "--out", tmp_path / "out")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and says in done.stderr
    assert not (tmp_path / "out").exists()
