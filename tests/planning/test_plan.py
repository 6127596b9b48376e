"""The script plan.py: its answers as words and files, each warning from both sides, its options, its processes."""

import csv
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from itertools import accumulate

import plan
import pytest
from common import BadInput, run
from fixture import LAB, ROOT, files, heed_ctrl_c, read_pairs
from running.processes import in_processes
from planning.results import HEADER, picture_of

PUBLIC = ROOT / "fixtures" / "public"
LAB_COSTS = "prefill_ms_per_token=0.05 step_ms=8 step_ms_per_sequence=0 overhead_ms=0"


@pytest.fixture
def planned(tmp_path, monkeypatch, capsys):
    """Runs plan.main() in this process with --synchronous, one limit and one process unless others are given."""

    def runs(*arguments, requests=None, costs=None):
        given = ["plan.py", "--out", str(tmp_path / "out"), "--processes", "1", *map(str, arguments)]
        if "--max-num-seqs" not in given:
            given += ["--max-num-seqs", "8"]
        if costs is not None:
            (tmp_path / "costs.txt").write_text(costs)
            given += ["--costs", str(tmp_path / "costs.txt")]
        if requests is not None:
            (tmp_path / "trace.json").write_text(json.dumps(requests))
            given += ["--requests", str(tmp_path / "trace.json")]
        monkeypatch.setattr(sys, "argv", given)
        plan.main()
        lines = capsys.readouterr().out
        assert all(len(line) <= 100 for line in lines.splitlines() if not line.startswith("plan.txt")) or "{" in lines
        return " ".join(lines.split())

    return runs


def pairs_of(tmp_path):
    return read_pairs(tmp_path / "out" / "plan.txt")


def rows_of(tmp_path):
    with open(tmp_path / "out" / "plan.csv", newline="") as file:
        return list(csv.DictReader(file))


def records(prompts, outputs, arrivals=None):
    made = [{"prompt_tokens": p, "output_tokens": o} for p, o in zip(prompts, outputs)]
    for record, arrival in zip(made, arrivals or []):
        record["arrival_ms"] = arrival
    return made


STEADY = records([20] * 40, [3] * 40, range(0, 4000, 100))  # 10 requests/s of 25 ms each

UNEVEN = records([20, 90, 200] * 15, [3, 40, 7] * 15, [100 * i - 60 * (i % 3 == 2) for i in range(45)])


# --- answers ----------------------------------------------------------------------------------------


def test_the_answer_stands_in_words_and_in_both_files(planned, tmp_path):
    """Equal requests at equal gaps: one slot of 25 ms carries 40 a second, and no line forms below that. With 24 ms for
    TTFT: no edge. With bursts of two, the second waits 25 ms: an edge there is none either, it misses or
    meets always."""
    said = planned("--target-ttft-ms", 30, "--max-num-seqs", 1, requests=STEADY)
    assert "no edge found" in said and "about 40 requests/s" in said
    pairs = pairs_of(tmp_path)
    assert pairs["open"] == "no_edge" and pairs["trace"] == "trace.json" and pairs["trace_rps"] == "10"
    assert not {"max_rps", "max_num_seqs", "ttft_ms",
                "slower_max_rps"} & set(pairs), "no number that could be taken for one"


def test_an_answer_has_a_range_a_slower_one_and_rows(planned, tmp_path):
    arrivals = [100 * i - 60 * (i % 3 == 2) for i in range(60)]
    said = planned("--target-ttft-ms", 30, "--max-num-seqs", 1, requests=records([20] * 60, [3] * 60, arrivals))
    pairs, rows = pairs_of(tmp_path), rows_of(tmp_path)
    assert pairs["open"] == "answer" and list(rows[0]) == HEADER
    mine = [row for row in rows if (row["search"], row["steps"], row["rps"]) == ("open", "1.0", pairs["max_rps"])]
    assert mine[0]["meets"] == "true" and mine[0]["replays"] == mine[0]["replays_met"] == "20"
    assert float(mine[0]["ttft_low_ms"]) <= float(mine[0]["ttft_high_ms"]) <= 30
    assert f"Open loop: {pairs['max_rps']} requests/s with max_num_seqs 1, " in said
    assert "middle 18 of 20 replays" in said
    slower = [row for row in rows
              if (row["search"], row["steps"], row["rps"]) == ("open", "1.1", pairs["slower_max_rps"])]
    assert slower[0]["meets"] == "true" and float(pairs["slower_max_rps"]) < float(pairs["max_rps"])
    assert f"10 % longer: {pairs['slower_max_rps']} requests/s" in said
    assert {row["search"] for row in rows} == {"open", "around", "closed"}
    assert float(pairs["max_rps"]) <= 40


def test_infeasible_is_words(planned, tmp_path):
    said = planned("--target-ttft-ms", 8, requests=STEADY)
    assert "Infeasible: each request alone on the server has a p99 TTFT 9 ms and TPOT 8 ms" in said
    assert pairs_of(tmp_path)["open"] == pairs_of(tmp_path)["closed"] == "infeasible"
    assert "max_rps" not in pairs_of(tmp_path) and len(rows_of(tmp_path)) == 0
    assert "Infeasible" not in planned("--target-ttft-ms", 20, requests=STEADY)


def test_requests_at_one_moment_are_why_there_is_no_load(planned, tmp_path):
    """Pairs at one moment of one slot: the second waits 25 ms at any rate."""
    pairs = records([20] * 40, [3] * 40, [200 * (i // 2) + (i > 19) for i in range(40)])
    said = planned("--target-ttft-ms", 20, "--max-num-seqs", 1, requests=pairs)
    assert "Open loop: no load is accepted, down to 0.0" in said and "Up to 2 requests arrive at one moment" in said
    assert pairs_of(tmp_path)["open"] == "none" and "max_rps" not in pairs_of(tmp_path)


def test_limits_that_never_bind_are_one_line(planned, tmp_path):
    said = planned("--max-num-seqs", 1, 2, 64, 128, "--target-ttft-ms", 40, requests=STEADY)
    most = re.search(r"64 and 128 are alike: never more than (\d+) ran at once", said)
    assert most and 2 < int(most[1]) <= 64
    assert "Requests/s by max_num_seqs: 1: " in said and ", 64: " in said and "128: " not in said
    assert "alike" not in planned("--max-num-seqs", 1, 2, "--target-ttft-ms", 40, requests=STEADY)


def test_alike_limits_have_the_same_answer_when_they_are_alone(planned, tmp_path):
    answers = []
    for limits in ((64, 128), (64,)):
        planned("--max-num-seqs", *limits, "--target-ttft-ms", 60, "--up-to", 1, requests=UNEVEN)
        answers.append(pairs_of(tmp_path)["max_rps"])
    assert answers[0] == answers[1]


def test_of_limits_that_carry_the_same_the_smallest_is_the_plan(planned, tmp_path):
    planned("--max-num-seqs", 256, 32, 64, "--target-ttft-ms", 60, "--up-to", 1, requests=UNEVEN)
    rows = [row for row in rows_of(tmp_path) if row["search"] == "open" and row["steps"] == "1.0"
            and row["meets"] == "true"]
    best = max(float(row["rps"]) for row in rows)
    assert pairs_of(tmp_path)["max_num_seqs"] == \
        min((row["max_num_seqs"] for row in rows if float(row["rps"]) == best), key=int)


def test_a_closed_loops_result_is_played_as_its_lengths(planned, tmp_path):
    answers = []
    for name in ("closed16.json", "lengths.json"):
        said = planned("--requests", PUBLIC / "closed_loop_as_trace" / name, "--costs",
                       PUBLIC / "closed_loop_as_trace/costs.txt",
                       "--target-ttft-ms", 100, "--max-num-seqs", 32, "--up-to", 2, "--percentile", 90)
        answers.append({key: value for key, value in pairs_of(tmp_path).items() if key != "trace"})
        assert ("result of a closed loop" in said) == (name == "closed16.json")
        assert ("with its own 16 clients: p90 TTFT" in said) == (name == "closed16.json")
    assert answers[0] == answers[1] and answers[0]["open"] == "answer"


def test_a_measured_run_stands_beside_its_prediction(planned, tmp_path):
    said = planned("--requests", PUBLIC / "self_timed_cap" / "run.json")
    assert said.startswith("DISAGREEMENT: the measured TTFT and TPOT lie outside")
    assert "at its own 4.11 requests/s: p99 TTFT 65.3 ms measured, " in said
    assert "check" in {row["search"] for row in rows_of(tmp_path)}
    agreeing = "prefill_ms_per_token=0.1 step_ms=10 step_ms_per_sequence=0.5 overhead_ms=5"
    said = planned("--requests", PUBLIC / "self_timed_cap" / "run.json", "--synchronous", costs=agreeing)
    assert "DISAGREEMENT" not in said and said.startswith("This file is a measured run")
    said = planned("--first", 20, "--requests", PUBLIC / "self_timed_cap" / "run.json", costs=agreeing)
    assert "measured run" not in said


def test_a_run_that_missed_below_the_answer_contradicts_it(planned, monkeypatch):
    """The run's own p99 TTFT is 65.3 ms at 4.11/s. A server three times as fast promises more than that at 60 ms."""
    said = planned("--requests", PUBLIC / "self_timed_cap" / "run.json", "--target-ttft-ms", 60, costs=LAB_COSTS)
    assert "DISAGREEMENT: the run itself missed a target at its own 4.11 requests/s, and the plan allows" in said
    said = planned("--requests", PUBLIC / "self_timed_cap" / "run.json", "--target-ttft-ms", 70, costs=LAB_COSTS)
    assert "the run itself missed" not in said


# --- what decides, from both sides ------------------------------------------------------------------


def test_made_up_costs_and_unlimited_memory(planned):
    said = planned(requests=STEADY)
    assert "Made-up costs" in said and "Memory is taken as unlimited" in said
    said = planned("--kv-tokens", 10_000, requests=STEADY, costs=LAB_COSTS)
    assert "Made-up" not in said and "unlimited" not in said.split("plan.txt")[0]


def test_beyond_what_calibration_saw(planned):
    said = planned(requests=STEADY, costs=LAB_COSTS + " measured_sequences=2 measured_prompt_tokens=19")
    assert "Extrapolated: up to" in said and "Extrapolated: 40 of 40 prompts are longer than 19 tokens" in said
    enough = LAB_COSTS + " measured_sequences=40 measured_prompt_tokens=20"
    assert "Extrapolated" not in planned(requests=STEADY, costs=enough)
    assert "Extrapolated" not in planned(requests=STEADY, costs=LAB_COSTS)


def test_a_percentile_of_few_requests(planned):
    assert "The p99 of 40 requests is told by the slowest one of them" in planned(requests=STEADY)
    assert "told by" not in planned("--percentile", 50, requests=STEADY)
    assert "told by" not in planned("--percentile", 90, requests=STEADY + STEADY[:10])
    assert "The p90 of 40 requests is told by the 4 slowest of them, so it is not firm. Record 50 or more." in \
        planned("--percentile", 90, requests=STEADY)


def test_arrivals_on_a_grid(planned, tmp_path):
    said = planned("--requests", PUBLIC / "grid_3s" / "m.jsonl")
    assert "on a grid of 3 s: 60 requests at 6 moments, up to 10 at one" in said and "see --spread" in said
    assert pairs_of(tmp_path)["open"] == "none"
    said = planned("--requests", PUBLIC / "grid_3s" / "m.jsonl", "--spread")
    assert "spread evenly over the 3 s" in said and "on a grid" not in said and pairs_of(tmp_path)["open"] != "none"
    assert "grid" not in planned(requests=STEADY)
    with pytest.raises(BadInput, match="trace.json: --spread is for arrivals on a grid, and these lie on none$"):
        planned("--spread", requests=STEADY)


def test_prefix_caching_is_said_and_can_be_turned_off(planned, tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps({"timestamp": 500 * i, "input_length": 1025, "output_length": 3,
                                         "hash_ids": [0, 1, 9 + i]})
                             + "\n" for i in range(20)))
    assert "Prefix caching is on" in planned("--requests", trace) and pairs_of(tmp_path)["prefix_caching"] == "on"
    assert "Prefix" not in planned("--requests", trace, "--no-prefix-caching") and \
        pairs_of(tmp_path)["prefix_caching"] == "off"


def test_a_trace_of_few_bursts_is_too_short(planned, tmp_path):
    """Fifty requests 10 ms apart, fifty 100 ms apart, and so on, three times; and equal gaps, which have no memory."""
    arrivals = list(accumulate(10 if i // 50 % 2 else 100 for i in range(300)))
    said = planned("--target-ttft-ms", 400, "--max-num-seqs", 2, "--up-to", 1,
                   requests=records([20] * 300, [3] * 300, arrivals))
    assert re.search(r"the slowest requests lie in [1-4] places? of the trace\. It is too short", said)
    pairs, rows = pairs_of(tmp_path), [row for row in rows_of(tmp_path) if row["search"] == "open"
                                       and row["steps"] == "1.0"]
    met = sorted(float(row["rps"]) for row in rows if row["meets"] == "true")
    assert pairs["open"] == "answer"
    assert float(pairs["max_rps"]) <= met[-1] / 1.07, "two steps below what all replays meet"
    assert "too short to know" not in planned("--target-ttft-ms", 30, "--max-num-seqs", 1, requests=STEADY)


def test_only_a_ttft_target(planned):
    assert "Only TTFT has a target" in planned("--target-tpot-ms", "none", requests=STEADY)
    assert "Only TTFT" not in planned("--target-tpot-ms", "none", "--target-e2e-ms", 900, requests=STEADY)


def test_tunes_number_stands_beside_the_closed_loop(planned):
    """Ten requests of 900 tokens, 45 ms each: tune's first step holds all clients, 4 of them within 200 ms (188)."""
    ten = records([900] * 10, [3] * 10)
    assert "(tune.py says 4 for these requests" in \
        planned("--target-ttft-ms", 200, "--target-tpot-ms", 30, requests=ten)
    assert "tune.py" not in planned("--percentile", 90, requests=ten)


# --- options ----------------------------------------------------------------------------------------


def test_the_servers_own_limits_are_the_default(planned, tmp_path):
    costs = LAB_COSTS + " scheduling=synchronous max_num_seqs=3 max_num_batched_tokens=64 kv_tokens=4000"
    (tmp_path / "costs.txt").write_text(costs)
    args = plan.parser().parse_args(["--costs", str(tmp_path / "costs.txt")])
    server, limits = plan.server_of(args, plan.load_server(args.costs))
    assert (limits, server.max_num_batched_tokens, server.kv_blocks, server.asynchronous) == ([3], 64, 249, False)
    args = plan.parser().parse_args(["--max-num-seqs", "9", "8", "9", "--max-num-batched-tokens", "99", "--kv-tokens",
                                     "170"])
    server, limits = plan.server_of(args, plan.load_server(tmp_path / "costs.txt"))
    assert (limits, server.max_num_batched_tokens, server.kv_blocks) == ([8, 9], 99, 9)
    server, limits = plan.server_of(plan.parser().parse_args([]), plan.load_server(None))
    assert limits == plan.MAX_NUM_SEQS and server.asynchronous and server.max_num_batched_tokens == 2048


def test_replicas_a_rate_and_spare_ones(planned, tmp_path):
    """25 ms each in one slot: 100 a second need three servers, by capacity 2.5."""
    said = planned("--rps", 100, "--spare", 2, "--max-num-seqs", 1, "--target-ttft-ms", 30, requests=STEADY)
    assert "Servers: 5, of which 2 may be down, for 100 requests/s, each with max_num_seqs 1" in said
    assert (pairs_of(tmp_path)["replicas"], pairs_of(tmp_path)["spare"], pairs_of(tmp_path)["replicas_rps"]) == \
        ("5", "2", "100")
    assert "Servers: 1, for 10 requests/s" in planned("--replicas", requests=STEADY)
    assert "Servers" not in planned(requests=STEADY)
    lengths = [{key: value for key, value in record.items() if key != "arrival_ms"} for record in STEADY]
    assert "Servers: " in planned("--rps", 5, requests=lengths)
    with pytest.raises(BadInput, match="trace.json: --replicas needs a rate, and the file has no arrivals: give "
                                       "--rps$"):
        planned("--replicas", requests=lengths)


def test_a_gateway_lowers_the_load(planned, tmp_path):
    arrivals = [100 * i - 60 * (i % 3 == 2) for i in range(60)]
    loads = []
    for more in ((), ("--clients", 1)):
        planned("--target-ttft-ms", 30, *more, requests=records([20] * 60, [3] * 60, arrivals))
        loads.append(float(pairs_of(tmp_path).get("max_rps", 1e9)))
    assert loads[1] < loads[0] and pairs_of(tmp_path)["gateway_clients"] == "1"


def test_targets_can_be_none_and_percentiles_are_five():
    args = plan.parser().parse_args(["--target-ttft-ms", "none", "--percentile", "99.9", "--spare", "0"])
    assert args.target_ttft_ms == math.inf and args.percentile == 99.9 and args.target_itl_ms == math.inf
    for wrong in (["--percentile", "98"], ["--target-itl-ms", "-1"], ["--spare", "-1"], ["--rps", "0"],
                  ["--up-to", "0"]):
        with pytest.raises(SystemExit):
            plan.parser().parse_args(wrong)


def test_json_says_what_the_files_say(planned, tmp_path, monkeypatch, capsys):
    said = json.loads(planned("--json", requests=STEADY))
    assert {key: str(value) for key, value in said["plan"].items()} == pairs_of(tmp_path)
    assert said["tried"] == rows_of(tmp_path) and any("Made-up" in sentence for sentence in said["said"])


def test_a_cache_that_is_too_small_is_one_line(planned, tmp_path):
    with pytest.raises(BadInput, match="can never fit"):
        planned("--kv-tokens", 32, requests=STEADY)
    with pytest.raises(BadInput, match="^--kv-tokens: expected at least 32, found 31$"):
        planned("--kv-tokens", 31, requests=STEADY)
    assert files(tmp_path / "out") == {}


def test_a_small_cache_lowers_the_load(planned, tmp_path):
    requests = records([200] * 40, [30] * 40, [100 * i - 60 * (i % 3 == 2) for i in range(40)])
    loads = []
    for kv_tokens in (480, 1_000_000):  # two requests fit, or any number
        planned("--kv-tokens", kv_tokens, "--target-ttft-ms", 600, "--target-tpot-ms", "none", "--max-num-seqs", 32,
                "--up-to", 1, requests=requests)
        loads.append(max(float(row["rps"]) for row in rows_of(tmp_path) if row["search"] == "open"
                         and row["meets"] == "true"))
    assert loads[0] < loads[1] / 2


def test_the_pictures_numbers(planned, tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr(plan, "plan_table", lambda problem, found: seen.update(picture_of(problem, 10.0, found)._asdict()) or "")
    arrivals = [100 * i - 60 * (i % 3 == 2) for i in range(60)]
    planned("--target-ttft-ms", 30, "--max-num-seqs", 1, 2, requests=records([20] * 60, [3] * 60, arrivals))
    assert seen["target_ms"] == 30 and seen["measure"] == "p99 TTFT" and seen["today_rps"] == 10 and not seen["no_edge"]
    limit, rps, ms = seen["answer"]
    assert (rps, ms) in seen["limits"][limit] and seen["slower_rps"] < rps <= seen["capacity_rps"]
    for points in seen["limits"].values():
        assert points == sorted(points)


# --- processes --------------------------------------------------------------------------------------


def script(*arguments, **more):
    command = [sys.executable, str(LAB / "plan.py"), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True, **more)


def test_the_number_of_processes_changes_nothing(tmp_path):
    said = []
    for processes in (1, 3):
        done = script("--first", 20, "--max-num-seqs", 4, 16, "--processes", processes, "--out",
                      tmp_path / str(processes))
        said.append(done.communicate())
        assert done.returncode == 0
    assert files(tmp_path / "1") == files(tmp_path / "3") and said[0] == said[1]


def double(number):
    return 2 * number


def refuse(text):
    raise BadInput(text)


def test_jobs_end_in_any_order_and_what_one_refuses_is_raised():
    jobs = [(double, number) for number in range(7)]
    for processes in (1, 3, 20):
        assert dict(in_processes(jobs, processes)) == {number: 2 * number for number in range(7)}
        with pytest.raises(BadInput, match="no"):
            list(in_processes([*jobs, (refuse, "no"), *jobs], processes))


@pytest.mark.parametrize("sent, to, status", [
    (signal.SIGKILL, "plan", -9), (signal.SIGTERM, "plan", -15), (signal.SIGINT, "plan", 130),
    (signal.SIGINT, "all", 130),
    (signal.SIGKILL, "worker", 2),
])
def test_nothing_is_left_behind(tmp_path, sent, to, status):
    """A trace that takes minutes, and each job at least 10 s. Whoever is ended, no process is left, and no more than one line is said."""
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps(records([300] * 30_000, [300] * 30_000, range(0, 3_000_000, 100))))
    run = script("--requests", trace, "--processes", 3, "--out", tmp_path / "out", preexec_fn=heed_ctrl_c)
    workers = []
    deadline = time.monotonic() + 30
    while len(workers) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
        workers = children(run.pid)
    if to == "all":
        os.killpg(run.pid, sent)
    else:
        os.kill(run.pid if to == "plan" else workers[0], sent)
    out, errors = run.communicate(timeout=5)  # returns when the last process that has the pipes has ended
    assert run.returncode == status and out == ""
    assert errors.count("\n") == (1 if to == "worker" else 0) and ("ended early" in errors) == (to == "worker")
    deadline = time.monotonic() + 5
    while any(map(lives, workers)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(workers) == 2 and not any(map(lives, workers)) and files(tmp_path / "out") == {}


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        pytest.skip("needs /proc")


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_results_come_before_words(tmp_path, monkeypatch, capsys):
    """A reader that closes at once, as in `plan.py | true`, finds the files all the same."""
    done = script("--first", 10, "--max-num-seqs", 8, "--out", tmp_path / "out")
    done.stdout.close()
    assert done.stderr.read() == "" and done.wait() == 0
    assert set(files(tmp_path / "out")) == {"plan.txt", "plan.csv", "plan.svg"} == set(WRITES["plan"])


def test_a_plan_without_any_target_is_refused(planned):
    none = [option for name in ("ttft", "tpot", "e2e", "itl") for option in (f"--target-{name}-ms", "none")]
    with pytest.raises(BadInput, match="^no target is left: give at least one of --target-ttft-ms, -tpot-ms, "
                                       "-e2e-ms and -itl-ms$"):
        planned(*none, requests=STEADY)
    assert planned(*none, "--target-e2e-ms", 1e6, requests=STEADY)
