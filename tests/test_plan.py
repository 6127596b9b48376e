"""plan and measured: three requests by hand, the interval of a p99, monotone or not, and the answers that are words."""

import csv
import gzip
import json
import math
import random
import re
from fractions import Fraction

import paged
import plan
import pytest
from bench_file import bench
from common import Requests, load_requests
from cost import Costs
from fixture import ROOT, SHIPPED, files, read_pairs, script

THREE = Requests([20, 20, 20], [1, 1, 1])  # 1 ms of prefill and one pass of 8: 9 ms each


def problem(requests, arrivals_us, ttft_ms=200.0, tpot_ms=50.0, costs=Costs(), budget=2048):
    return plan.Problem(requests, arrivals_us, None, costs, budget, paged.UNLIMITED, ttft_ms, tpot_ms)


def rows(out):
    with open(out / "plan.csv", newline="") as file:
        return list(csv.DictReader(file))


def write(path, requests, arrivals_ms=None):
    records = [{"prompt_tokens": p, "output_tokens": o} for p, o in zip(*requests)]
    for record, arrival in zip(records, arrivals_ms or []):
        record["arrival_ms"] = arrival
    path.write_text(json.dumps(records))
    return path


# --- by hand ------------------------------------------------------------------------------------------------------


def test_an_open_loop_of_three_worked_by_hand(tmp_path):
    """Arrivals 100 ms apart, one slot, 9 ms each. At load L they are 100 / L apart: with d = 9 - 100 / L > 0 the second
    waits d and the third 2 d, and p99 = 9 + d + 0.98 d. Within 10 ms: d <= 0.50505, L <= 11.77. The rungs of 5 % there are
    11.467 (1.05^50) and 12.041, so the answer is 11.467 times 10 requests/s."""
    path = write(tmp_path / "trace.json", THREE, [0, 100, 200])
    done = script("plan", "--requests", path, "--target-ttft-ms", 10, "--max-num-seqs", 1, "--out", tmp_path)
    assert done.returncode == 0
    gap = 9 - round(100_000 / 11.467) / 1000
    assert read_pairs(tmp_path / "plan.txt") == {
        "max_num_seqs": "1", "max_rps": "114.670", "p99_ttft_ms": f"{9 + 1.98 * gap:.2f}", "p99_tpot_ms": "0.00",
        "throughput_tps": f"{3000 / 27:.2f}",
    }
    assert [(row["load"], row["meets"]) for row in rows(tmp_path)][-2:] == [("11.467", "true"), ("12.041", "false")]
    assert all(row["p99_ttft_high_ms"] == "" for row in rows(tmp_path)), "three requests bound nothing"


def test_a_closed_loop_of_three_worked_by_hand():
    """One client: 9 ms each. Two: the first two share an iteration, 10 ms, the third has 9; p99 of 9, 10, 10 is 10."""
    assert plan.closed_loop(problem(THREE, None), 1).p99_ttft_ms == 9
    assert plan.closed_loop(problem(THREE, None), 2).p99_ttft_ms == 10
    assert plan.largest_closed(problem(THREE, None, ttft_ms=9.5), 256)[0].max_num_seqs == 1
    best, everyone = plan.largest_closed(problem(THREE, None), 256)
    assert (best.max_num_seqs, everyone) == (3, True)


def test_tpot_worked_by_hand():
    """Two requests, one token and three: the first has no TPOT; the second's tokens come 8 ms apart, and 9 ms apart where
    the third request's prefill comes between: (8 + 9) / 2."""
    two = problem(Requests([20, 20], [1, 3]), [0, 0])
    assert plan.at_load(problem(Requests([20, 20, 20], [1, 3, 1]), [0, 0, 11_000]), 4, 1.0).p99_tpot_ms == 8.5
    assert plan.play(two, 2, [0, 0])[1] == [8_000.0]


def test_each_target_and_the_overhead_count():
    """One request of 1 ms of prefill and 8 ms a step: TTFT 9 ms, and 4 more where the network takes them; TPOT 8 ms."""
    alone = Requests([20], [5])
    assert plan.closed_loop(problem(alone, None, ttft_ms=9, tpot_ms=8), 1).meets
    assert not plan.closed_loop(problem(alone, None, ttft_ms=8.99, tpot_ms=8), 1).meets
    assert not plan.closed_loop(problem(alone, None, ttft_ms=9, tpot_ms=7.99), 1).meets
    point = plan.closed_loop(problem(alone, None, costs=Costs(overhead_us=4_000)), 1)
    assert (point.p99_ttft_ms, point.p99_tpot_ms) == (13, 8)


def test_the_closed_loop_is_step_8s():
    """tune's largest concurrency, with its memory, budget and TPOT unlimited."""
    requests = load_requests(SHIPPED)
    best, _ = plan.largest_closed(problem(requests, None, tpot_ms=math.inf, budget=paged.UNLIMITED), 256)
    assert best.max_num_seqs == 14 and f"{best.throughput_tps:.2f}" == "1137.40"


def test_replicas_worked_by_hand(tmp_path):
    """Four requests of 9 ms, 4 ms apart, one slot a server. One server: the waits grow to 15 ms. Two: each gets one every
    8 ms, waits 0 and 1 ms, p99 within 10. Dealt in turn, not to the idle one."""
    path = write(tmp_path / "trace.json", Requests([20] * 4, [1] * 4), [0, 4, 8, 12])
    said = script(
        "plan", "--requests", path, "--target-ttft-ms", 10, "--max-num-seqs", 1, "--replicas", "--out", tmp_path
    ).stdout
    assert "Replicas: 2, each with max_num_seqs 1, for 250.000 requests/s" in said


# --- the uncertainty of a p99 -------------------------------------------------------------------------------------


def at_most(k, n):
    """P(at most k of n values above the p99), exactly."""
    return sum(math.comb(n, i) * 99 ** (n - i) for i in range(k + 1)) / Fraction(100**n)


@pytest.mark.parametrize("n", [368, 500, 1000, 1999])
def test_equal_tails_against_exact_binomials(n):
    low, high = plan.p99_ranks(n)
    assert 1 - at_most(n - low, n) <= Fraction(25, 1000) < 1 - at_most(n - low - 1, n), "low is the largest that holds"
    assert at_most(n - high, n) <= Fraction(25, 1000) < at_most(n - high + 1, n), "high is the smallest that holds"


def test_known_ranks():
    """From 299 numbers the largest bounds the p99 with 95 % (0.99^299 = 0.0495, 0.99^298 = 0.0500); equal tails from 368."""
    assert plan.p99_ranks(298)[1] is None and plan.p99_ranks(299)[1] == 299
    assert plan.p99_ranks(367)[1] == 367 and plan.p99_ranks(368)[1] == 368
    assert plan.p99_ranks(1) == (1, None) and plan.p99_ranks(100) == (97, None)
    assert plan.p99_ranks(1000) == (983, 997)
    assert plan.p99_ranks(100_000)[0] < 99_000 < plan.p99_ranks(100_000)[1]
    for n in (299, 320, 367):
        low, _ = plan.p99_ranks(n)
        assert at_most(n - low, n) - at_most(0, n) >= Fraction(95, 100) > at_most(n - low - 1, n) - at_most(0, n)


def test_the_interval_covers_the_p99_as_often_as_it_says():
    """Uniform numbers have the p99 0.99. Of 300 intervals of 1000 numbers, 95 % or a little more hold it (fixed seeds)."""
    held = 0
    for seed in range(300):
        r = random.Random(seed)
        _, low, high = plan.p99_interval([r.random() for _ in range(1000)])
        held += low <= 0.99 <= high
    assert 0.93 <= held / 300 <= 0.99


# --- monotone, and not --------------------------------------------------------------------------------------------


def test_with_one_slot_no_wait_shrinks_as_load_grows():
    """First come, first served, one at a time: a wait is a sum of service times less a time that only shrinks (Lindley)."""
    for seed in range(60):
        r = random.Random(seed)
        n = r.randint(2, 30)
        requests = Requests([r.randint(1, 400) for _ in range(n)], [r.randint(1, 9) for _ in range(n)])
        arrivals = sorted(r.randint(0, 900_000) for _ in range(n))
        tried = [
            plan.at_load(problem(requests, [a - arrivals[0] for a in arrivals]), 1, load)
            for load in (0.5, 1.0, 1.7, 4.0)
        ]
        p99s = [point.p99_ttft_ms for point in tried]
        assert all(a <= b + 0.002 for a, b in zip(p99s, p99s[1:])), f"seed {seed}: arrivals are rounded to 1 us"


def test_with_several_slots_more_load_can_shorten_the_tail():
    """Three requests in two slots: (prompt, output) = (160, 4), (180, 2), (100, 1) at 0, 19 and 35 ms.

    At this load the first runs to 16 and 24 ms, the second joins, 24 + 9 + 8 = 41, both end at 49, and only then the third
    is admitted: TTFT 49 + 5 + 8 - 35 = 27. At 1.25 times the load the second arrives at 15.2 and joins at 16, 16 + 9 + 8 = 33,
    ends at 41, and the third, which came at 28, has its slot then: 41 + 5 + 8 - 28 = 26. So a search must not bisect.
    """
    requests, arrivals = Requests([160, 180, 100], [4, 2, 1]), [0, 19_000, 35_000]
    slower, faster = (plan.at_load(problem(requests, arrivals), 2, load).p99_ttft_ms for load in (1.0, 1.25))
    assert faster < slower


# --- answers that are words ---------------------------------------------------------------------------------------


def test_infeasible(tmp_path):
    said = script("plan", "--target-ttft-ms", 5, "--out", tmp_path, "--replicas").stdout
    assert "Infeasible: one request alone misses a target" in said
    assert "Replicas: the file has no rate of its own" in said
    assert (
        tmp_path / "plan.txt"
    ).read_text() == "max_num_seqs=0 max_rps=0.000 p99_ttft_ms=0.00 p99_tpot_ms=0.00 throughput_tps=0.00\n"
    assert rows(tmp_path) == []


def test_no_edge(tmp_path):
    """Thirty requests that meet a generous target at every load up to that at which all come within a step (30 in 8 ms, of
    one in 10 ms: 37.5 times); and one request, which nothing can delay."""
    path = write(tmp_path / "a.json", Requests([10] * 30, [2] * 30), [10 * i for i in range(30)])
    said = script("plan", "--requests", path, "--max-num-seqs", 4, 64, "--out", tmp_path / "a").stdout
    assert said.count("no edge found up to 38.833 times its own rate, where all arrive within one step") == 2
    assert "Closed loop: no edge found up to 30 clients" in said
    path = write(tmp_path / "b.json", Requests([10], [2]))
    said = script("plan", "--requests", path, "--max-num-seqs", 4, "--out", tmp_path / "b").stdout
    assert "Closed loop: no edge found up to 1 clients" in said and "where all arrive within one step" in said


def test_requests_that_arrive_together_cannot_be_thinned_out(tmp_path):
    """Two and two at one moment, one slot: the second of each waits 9 ms at any load, and with any number of servers fewer
    than two."""
    path = write(tmp_path / "trace.json", Requests([20] * 4, [1] * 4), [0, 0, 50, 50])
    said = script(
        "plan", "--requests", path, "--target-ttft-ms", 10, "--max-num-seqs", 1, "--replicas", "--out", tmp_path
    ).stdout
    assert re.search(r"max_num_seqs 1: no load down to 0\.00\d+ times its own rate meets the targets", said)
    assert "Replicas: 2, each" in said
    loads = [float(row["load"]) for row in rows(tmp_path)]
    assert all(b / a == pytest.approx(1.98, abs=0.01) for a, b in zip(loads[-5:], loads[-4:])), "it looks by halves"


def test_the_closed_loop_stops_at_the_first_miss(monkeypatch):
    """Two clients miss the target; that three would meet it again does not count."""
    met = {1: True, 2: False, 3: True}
    monkeypatch.setattr(plan, "closed_loop", lambda _, clients: plan.Point(clients, 0, 0, 0, 0, 0, 0, 0, met[clients]))
    best, everyone = plan.largest_closed(problem(THREE, None), 256)
    assert (best.max_num_seqs, everyone) == (1, False)


def test_all_equal_and_all_at_once(tmp_path):
    """No two moments of arrival: no rate of its own, so step 6's draws in requests/s."""
    path = write(tmp_path / "trace.json", Requests([20] * 20, [4] * 20), [5] * 20)
    done = script("plan", "--requests", path, "--max-num-seqs", 2, "--target-ttft-ms", 30, "--out", tmp_path)
    assert done.returncode == 0 and "requests/s (" in done.stdout
    assert all(float(row["load"]) == pytest.approx(float(row["rps"]), abs=0.0005) for row in rows(tmp_path))


def test_a_load_between_the_trace_and_all_at_once_can_miss(tmp_path):
    """At once the two share their prefill, 0.6 + 100 ms, and the first's second token comes 8 ms later. Spread by 5 ms, the
    long prompt comes between the first's two tokens: TPOT 108 ms. So a plan may not conclude from all at once."""
    path = write(tmp_path / "trace.json", Requests([10, 2000], [2, 1]), [0, 5])
    said = script("plan", "--requests", path, "--max-num-seqs", 8, "--replicas", "--out", tmp_path).stdout
    assert "no edge" not in said.split("Open loop")[1] and "Replicas: 2" in said


def test_the_replicas_throughput_is_the_fleets(tmp_path):
    """Two servers, each with two of four requests of 9 ms that arrive in pairs 1 s apart: 4 tokens in 1.009 s, not in twice
    that."""
    path = write(tmp_path / "trace.json", Requests([20] * 4, [1] * 4), [0, 0, 1000, 1000])
    said = script("plan", "--requests", path, "--target-ttft-ms", 9, "--max-num-seqs", 8, "--replicas", "--out", tmp_path).stdout
    assert "Replicas: 2" in said and f"{4 / 1.009:.2f} tokens/s" in said.splitlines()[-1]


def test_slow_loads_are_climbed_by_five_percent_too(tmp_path):
    """A server of a minute a step serves thousandths of a request a second; the rungs keep five digits."""
    costs = tmp_path / "costs.txt"
    costs.write_text("prefill_ms_per_token=0 step_ms=60000 step_ms_per_sequence=0 overhead_ms=0")
    path = write(tmp_path / "requests.json", Requests([1] * 30, [3] * 30))
    script("plan", "--requests", path, "--costs", costs, "--target-ttft-ms", 130_000, "--target-tpot-ms", "none",
           "--max-num-seqs", 2, "--out", tmp_path)
    loads = [float(row["load"]) for row in rows(tmp_path)]
    assert max(loads) < 0.1 and min(b / a for a, b in zip(loads, loads[1:])) == pytest.approx(1.05, abs=0.001)


def test_without_a_tpot_target_there_is_no_upper_edge(tmp_path):
    said = script("plan", "--target-tpot-ms", "none", "--max-num-seqs", 8, "--first", 20, "--out", tmp_path).stdout
    assert "Without a TPOT target, raising max_num_seqs has no upper edge in open loop" in said


def test_of_settings_that_carry_the_same_the_smallest_is_the_plan(tmp_path):
    """Three requests never fill four slots, so eight carry no more."""
    path = write(tmp_path / "trace.json", THREE, [0, 100, 200])
    script("plan", "--requests", path, "--target-ttft-ms", 10, "--max-num-seqs", 8, 4, "--out", tmp_path)
    assert read_pairs(tmp_path / "plan.txt")["max_num_seqs"] == "4"


def test_every_load_tried_is_in_the_file_and_the_best_in_the_plan(tmp_path):
    script("plan", "--max-num-seqs", 16, 8, "--first", 60, "--out", tmp_path)
    table = rows(tmp_path)
    assert [row["max_num_seqs"] for row in table] == sorted((row["max_num_seqs"] for row in table), key=int)
    for limit in ("8", "16"):
        mine = [row for row in table if row["max_num_seqs"] == limit]
        loads = [float(row["load"]) for row in mine]
        assert loads == sorted(loads) and mine[-1]["meets"] == "false" and mine[-2]["meets"] == "true"
        assert loads[-1] / loads[-2] == pytest.approx(1.05, abs=0.002)
    best = max((row for row in table if row["meets"] == "true"), key=lambda row: float(row["rps"]))
    assert read_pairs(tmp_path / "plan.txt")["max_rps"] == best["rps"]
    for row in table:  # 1,200 TTFTs, pooled: enough to bound the p99
        low, p99, high = (float(row[f"p99_ttft_{end}ms"]) for end in ("low_", "", "high_"))
        assert low <= p99 <= high < 5 * p99
    assert all(
        (float(row["p99_ttft_ms"]) <= 200 and float(row["p99_tpot_ms"]) <= 50) == (row["meets"] == "true")
        for row in table
    )


def test_the_number_of_processes_changes_nothing(tmp_path):
    for processes in (1, 3):
        assert (
            script(
                "plan",
                "--first",
                40,
                "--max-num-seqs",
                4,
                8,
                16,
                "--processes",
                processes,
                "--out",
                tmp_path / str(processes),
            ).returncode
            == 0
        )
    assert files(tmp_path / "1") == files(tmp_path / "3")


def test_a_cache_that_is_too_small_is_one_line(tmp_path):
    done = script("plan", "--kv-tokens", 160, "--out", tmp_path)
    assert done.returncode == 2 and "can never fit" in done.stderr and done.stderr.count("\n") == 1
    assert files(tmp_path) == {}


def test_a_small_cache_lowers_the_load(tmp_path):
    """Memory is part of the plan: with room for 4,000 tokens instead of any number, less load is met."""
    for name, more in (("small", ["--kv-tokens", 4000]), ("large", [])):
        script("plan", "--max-num-seqs", 64, "--out", tmp_path / name, *more)
    small, large = (float(read_pairs(tmp_path / name / "plan.txt")["max_rps"]) for name in ("small", "large"))
    assert small < large


# --- measured -----------------------------------------------------------------------------------------------------


def test_a_simulated_server_is_predicted_without_error(tmp_path):
    """Closed loop and open loop, written as a benchmark would have: calibrated on two runs, the others come out exactly."""
    costs = Costs(100, 6_000, 200, 4_000)
    requests = Requests([16 + 37 * i for i in range(24)], [400] * 24)
    arrivals = [150_000 * i for i in range(24)]
    runs = {"c1": (1, None), "c8": (8, None), "c4": (4, None), "open": (None, arrivals)}
    for name, (clients, arrivals_us) in runs.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(bench(requests, clients, costs, arrivals_us=arrivals_us)))
    calibrated, predicted = ([tmp_path / f"{name}.json" for name in names] for names in (("c1", "c8"), ("c4", "open")))
    done = script("measured", "--calibrate", *calibrated, "--predict", *predicted, "--max-num-seqs", 256,
                  "--max-num-batched-tokens", 1_000_000, "--out", tmp_path)
    assert done.returncode == 0
    lines = (tmp_path / "measured.csv").read_text().splitlines()
    assert lines[0] == "run,measure,measured,predicted,error_percent" and len(lines) == 11
    assert {line.split(",")[-1] for line in lines[1:]} <= {"0.0", "-0.0"}


def test_more_clients_than_the_server_runs_queue_there(tmp_path):
    """Eight clients of a server of four: four wait in its queue, in the prediction as in the run."""
    costs = Costs(100, 6_000, 200, 0)
    requests = Requests([16 + 37 * i for i in range(24)], [400] * 24)
    for name, clients in (("c1", 1), ("c4", 4), ("c8", 8)):
        (tmp_path / f"{name}.json").write_text(json.dumps(bench(requests, clients, costs, max_num_seqs=4)))
    done = script("measured", "--calibrate", tmp_path / "c1.json", tmp_path / "c4.json", "--predict", tmp_path / "c8.json",
                  "--max-num-seqs", 4, "--max-num-batched-tokens", 1_000_000, "--out", tmp_path)
    lines = (tmp_path / "measured.csv").read_text().splitlines()
    assert {line.split(",")[-1] for line in lines[1:]} <= {"0.0", "-0.0"}
    assert "In c8 up to 8 requests were under way, and 8 are predicted; 4 run and the others queue" in done.stdout


def test_the_recorded_runs_against_what_vllm_says_of_them(tmp_path):
    """Our measures of a run are those that its own summary gives (*_ms), to the rounding of the recording."""
    script("measured", "--out", tmp_path)
    with open(tmp_path / "measured.csv", newline="") as file:
        table = {(row["run"], row["measure"]): float(row["measured"]) for row in csv.DictReader(file)}
    for name in ("closed_04", "open_060"):
        record = json.loads(gzip.decompress((ROOT / "fixtures" / "measured" / f"{name}.json.gz").read_bytes()))
        for measure in ("ttft_ms", "itl_ms"):
            assert table[name, f"p50_{measure}"] == pytest.approx(record[f"median_{measure}"], abs=0.06)
            assert table[name, f"p99_{measure}"] == pytest.approx(record[f"p99_{measure}"], rel=0.002)
        assert table[name, "throughput_tps"] == pytest.approx(record["output_throughput"], rel=0.001)


def test_errors_are_shown_worst_first(tmp_path):
    said = script("measured", "--out", tmp_path).stdout
    shown = [abs(float(line.split()[-1])) for line in said.splitlines() if line.startswith(("closed_", "open_"))]
    assert len(shown) == 10 and shown == sorted(shown, reverse=True)
