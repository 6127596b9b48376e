"""The script plan.py: its answers as words and files, each warning from both sides, and its options."""

import json
import math
import re
import sys
from types import SimpleNamespace

import plan
import pytest
from common import BadInput
from fixture import ROOT, files, read_pairs, read_rows
from planning.arrivals import Grid
from planning.engine import Traffic
from planning.results import HEADER

PUBLIC = ROOT / "fixtures" / "public"
LAB_COSTS = "prefill_ms_per_token=0.05 step_ms=8 step_ms_per_sequence=0 overhead_ms=0"


@pytest.fixture
def planned(tmp_path, monkeypatch, capsys):
    """Runs plan.main() in this process, with one limit unless others are given; returns what it said.

    Streams are an eighth as long as they are in truth.
    """
    monkeypatch.setattr("planning.loads.LONG", 100)

    def runs(*arguments, requests=None, costs=None):
        given = ["plan.py", "--out", str(tmp_path / "out"), "--processes", "1", *map(str, arguments)]
        given += [] if "--max-num-seqs" in given else ["--max-num-seqs", "8"]
        given += [] if "--up-to" in given else ["--up-to", "4"]
        if costs is not None:
            (tmp_path / "costs.txt").write_text(costs)
            given += ["--costs", str(tmp_path / "costs.txt")]
        if requests is not None:
            (tmp_path / "trace.json").write_text(json.dumps(requests))
            given += ["--requests", str(tmp_path / "trace.json")]
        monkeypatch.setattr(sys, "argv", given)
        plan.main()
        return " ".join(capsys.readouterr().out.split())

    return runs


def pairs_of(tmp_path):
    return read_pairs(tmp_path / "out" / "plan.txt")


def rows_of(tmp_path, search):
    return [row for row in read_rows(tmp_path / "out" / "plan.csv") if row["search"] == search]


def records(prompts, outputs, arrivals=None):
    made = [{"prompt_tokens": p, "output_tokens": o} for p, o in zip(prompts, outputs)]
    for record, arrival in zip(made, arrivals or []):
        record["arrival_ms"] = arrival
    return made


STEADY = records([20] * 40, [3] * 40, range(0, 4000, 100))  # 10 requests/s of 25 ms each
UNEVEN = records([20, 90, 200] * 15, [3, 40, 7] * 15, [100 * i - 60 * (i % 3 == 2) for i in range(45)])
LENGTHS = [{key: value for key, value in record.items() if key != "arrival_ms"} for record in STEADY]


# --- answers ----------------------------------------------------------------------------------------


def test_an_answer_stands_first_and_in_the_files(planned, tmp_path):
    said = planned("--target-ttft-ms", 60, "--max-num-seqs", 2, requests=UNEVEN)
    pairs, rows = pairs_of(tmp_path), rows_of(tmp_path, "open")
    assert pairs["open"] == "answer" and list(rows[0]) == HEADER
    assert said.startswith(f"Open loop: {pairs['max_rps']} requests/s with max_num_seqs 2, ")
    assert pairs["binds"] == "ttft_ms" and "TTFT binds, in 20 of 20 replays" in said and "; 60 is allowed" in said
    assert f"slower: {pairs['slower_max_rps']} requests/s" in said
    assert float(pairs["slower_max_rps"]) < float(pairs["max_rps"]) <= float(pairs["highest_edge_rps"])
    assert f"between {pairs['lowest_edge_rps']} and {pairs['highest_edge_rps']}; about nine of ten" in said
    met = [float(row["rps"]) for row in rows if row["traffic"] == "7" and row["meets"] == "true"]
    missed = [float(row["rps"]) for row in rows if row["traffic"] == "7" and row["meets"] == "false"]
    assert max(met) < min(missed) and all(float(row["ttft_ms"]) <= 60 for row in rows if row["meets"] == "true")
    assert {row["traffic"] for row in rows} == {"trace", *map(str, range(1, 21))} and rows_of(tmp_path, "closed")


def test_infeasible_is_words(planned, tmp_path):
    said = planned("--target-ttft-ms", 8, requests=STEADY)
    assert said.startswith("Infeasible: each request alone on the server has a p99 TTFT 9 ms and TPOT 8 ms")
    assert pairs_of(tmp_path)["open"] == pairs_of(tmp_path)["closed"] == "infeasible"
    assert "max_rps" not in pairs_of(tmp_path) and rows_of(tmp_path, "open") == []
    assert "Infeasible" not in planned("--target-ttft-ms", 20, requests=STEADY)


def test_requests_at_one_moment_are_why_there_is_no_load(planned, tmp_path):
    """Pairs at one moment of one slot: the second waits 25 ms at any rate."""
    pairs = records([20] * 40, [3] * 40, [200 * (i // 2) + (i > 19) for i in range(40)])
    said = planned("--target-ttft-ms", 20, "--max-num-seqs", 1, requests=pairs)
    assert said.startswith("Open loop: no load is accepted") and "Up to 2 requests arrive at one moment" in said
    assert pairs_of(tmp_path)["open"] == "none" and "max_rps" not in pairs_of(tmp_path)


def test_token_budgets_are_tried_like_limits(planned, tmp_path):
    """Prompts of 400 tokens in steps of 32 tokens take 13 steps, 124 ms; in one step 28 ms."""
    requests = records([400] * 40, [3] * 40, range(0, 4000, 100))
    said = planned("--max-num-batched-tokens", 32, 2048, "--target-ttft-ms", 200, requests=requests)
    assert "with max_num_seqs 8 and max_num_batched_tokens 2048" in said
    assert pairs_of(tmp_path)["max_num_batched_tokens"] == "2048"
    assert {row["max_num_batched_tokens"] for row in rows_of(tmp_path, "open")} == {"32", "2048"}


def test_a_closed_loops_result_is_used_for_its_lengths(planned, tmp_path):
    answers = []
    for name in ("closed16.json", "lengths.json"):
        said = planned("--requests", PUBLIC / "closed_loop_as_trace" / name, "--costs",
                       PUBLIC / "closed_loop_as_trace/costs.txt",
                       "--target-ttft-ms", 100, "--max-num-seqs", 32, "--up-to", 2, "--percentile", 90)
        answers.append({key: value for key, value in pairs_of(tmp_path).items() if key != "trace"})
        assert ("result of a closed loop" in said) == (name == "closed16.json")
        assert ("at its own 16 clients, and in the middle" in said) == (name == "closed16.json")
    assert answers[0] == answers[1] and answers[0]["open"] == "answer"


def test_a_measured_run_stands_beside_its_prediction(planned, tmp_path):
    run = PUBLIC / "self_timed_cap" / "run.json"
    said = planned("--requests", run)
    assert said.startswith("DISAGREEMENT: the measured TTFT and TPOT lie outside")
    assert "at its own 4.11 requests/s, and in the middle 18 of 20 replays: p99 TTFT 65.3 ms, " in said
    assert rows_of(tmp_path, "check")
    agreeing = "prefill_ms_per_token=0.1 step_ms=10 step_ms_per_sequence=0.5 overhead_ms=5"
    said = planned("--requests", run, "--synchronous", costs=agreeing)
    assert said.startswith("Open loop") and "This file is a measured run" in said
    assert "measured run" not in planned("--first", 20, "--requests", run, costs=agreeing)


def test_a_run_that_missed_below_the_answer_contradicts_it(planned):
    """The run's own p99 TTFT is 65.3 ms at 4.11/s. A server three times as fast promises more than that at 60 ms."""
    run = PUBLIC / "self_timed_cap" / "run.json"
    said = planned("--requests", run, "--target-ttft-ms", 60, costs=LAB_COSTS)
    assert "DISAGREEMENT: the run itself missed a target at its own 4.11 requests/s, and the plan allows" in said
    assert "the run itself missed" not in planned("--requests", run, "--target-ttft-ms", 70, costs=LAB_COSTS)


# --- what it rests on, from both sides --------------------------------------------------------------

KNOWN = {"costs": LAB_COSTS + " measured_sequences=40 measured_prompt_tokens=20"}
OUTLIER = records([20] * 30 + [4_000] + [20] * 30, [3] * 61, [100 * i for i in range(61)])


@pytest.mark.parametrize("words, said, other", [
    ("Made-up costs", ([], {}), ([], KNOWN)),
    ("Memory is taken as unlimited", ([], {}), (["--kv-tokens", 10_000], {})),
    ("Extrapolated: up to", ([], {"costs": LAB_COSTS + " measured_sequences=2"}), ([], KNOWN)),
    ("Extrapolated: 40 of 40 prompts are longer than 19 tokens",
     ([], {"costs": LAB_COSTS + " measured_prompt_tokens=19"}), ([], KNOWN)),
    ("The p99 of 40 requests is told by the slowest one of them", ([], {}), (["--percentile", 50], {})),
    ("The p90 of 40 requests is told by the 4 slowest of them, so it is not firm. Record 50 or more.",
     (["--percentile", 90], {}), (["--percentile", 90], {"requests": STEADY + STEADY[:10]})),
    ("Only TTFT has a target", (["--target-tpot-ms", "none"], {}),
     (["--target-tpot-ms", "none", "--target-e2e-ms", 900], {})),
    ("Poisson arrivals are drawn", ([], {"requests": LENGTHS}), ([], {})),
    ("Record a longer trace", (["--target-ttft-ms", 230], {"requests": OUTLIER}),
     (["--target-ttft-ms", 60, "--max-num-seqs", 2], {"requests": UNEVEN})),
])
def test_what_an_answer_rests_on(planned, words, said, other):
    """OUTLIER: one prompt of 4,000 tokens among 60 short ones; the replays that draw it often carry far less."""
    assert words in planned(*said[0], **{"requests": STEADY} | said[1])
    assert words not in planned(*other[0], **{"requests": STEADY} | other[1])


def test_arrivals_on_a_grid(planned, tmp_path):
    grid = PUBLIC / "grid_3s" / "m.jsonl"
    said = planned("--requests", grid)
    assert "on a grid of 3 s: 60 requests at 6 moments, up to 10 at one" in said and "see --spread" in said
    assert pairs_of(tmp_path)["open"] == "none"
    said = planned("--requests", grid, "--spread")
    assert "spread evenly over the 3 s" in said and "on a grid" not in said and pairs_of(tmp_path)["open"] != "none"
    assert "grid" not in planned(requests=STEADY)
    with pytest.raises(BadInput, match="trace.json: --spread is for arrivals on a grid, and these lie on none$"):
        planned("--spread", requests=STEADY)


def test_the_traffic_that_is_taken():
    def of(arrivals_us, grid_us, spread=False):
        trace = SimpleNamespace(requests=None, arrivals_us=arrivals_us, grid_us=grid_us, prefixes=None)
        return plan.traffic_of(SimpleNamespace(spread=spread, no_prefix_caching=False), trace)

    on_grid = [0, 0, 1_000_000, 1_000_000]
    assert (of(on_grid, 1_000_000)[0].arrivals_us, of(on_grid, 1_000_000)[1]) == (on_grid, Grid(1_000_000, 2, 2))
    assert of(on_grid, 1_000_000, True)[0].arrivals_us == [0, 500_000, 1_000_000, 1_500_000]
    assert of([0, 0], 1_000_000) == of(None, None) == (Traffic(None, None, None), None), "no rate, no arrivals"


def test_prefix_caching_is_said_and_can_be_turned_off(planned, tmp_path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps({"timestamp": 500 * i, "input_length": 1025, "output_length": 3,
                                         "hash_ids": [0, 1, 9 + i]}) + "\n" for i in range(20)))
    assert "Prefix caching is on" in planned("--requests", trace) and pairs_of(tmp_path)["prefix_caching"] == "on"
    off = planned("--requests", trace, "--no-prefix-caching")
    assert "Prefix" not in off and pairs_of(tmp_path)["prefix_caching"] == "off"


# --- options ----------------------------------------------------------------------------------------


def test_the_servers_own_limits_are_the_default(tmp_path):
    costs = tmp_path / "costs.txt"
    costs.write_text(LAB_COSTS + " scheduling=synchronous max_num_seqs=3 max_num_batched_tokens=64 kv_tokens=4000")

    def of(described, *options):
        return [(setup.max_num_seqs, server.max_num_batched_tokens, server.kv_tokens, server.asynchronous)
                for setup in plan.setups_of(plan.parser().parse_args(options), plan.load_server(described))
                for server in [setup.server]]

    assert of(costs) == [(3, 64, 4000, False)]
    assert of(costs, "--max-num-seqs", "9", "8", "9", "--max-num-batched-tokens", "99", "50", "--kv-tokens", "170") == \
        [(8, 50, 170, False), (9, 50, 170, False), (8, 99, 170, False), (9, 99, 170, False)]
    assert [one[:2] for one in of(None)] == [(limit, 2048) for limit in plan.MAX_NUM_SEQS] and of(None)[0][3]


def test_servers_a_rate_spare_ones_and_a_price(planned, tmp_path):
    """25 ms each in one slot: 100 a second need three servers, by capacity 2.5. Five at 7.20 an hour, 300 tokens/s."""
    enough = records([20] * 120, [3] * 120, range(0, 12_000, 100))
    said = planned("--rps", 100, "--spare", 2, "--max-num-seqs", 1, "--target-ttft-ms", 30, "--price-per-hour", 7.2,
                   requests=enough)
    assert "Servers: 5, of which 2 may be down, for 100 requests/s, each with max_num_seqs 1" in said
    assert "They cost 36 an hour, a million output tokens 33.3." in said
    pairs = pairs_of(tmp_path)
    assert [pairs[key] for key in ("replicas", "min_servers", "spare", "replicas_rps", "servers_cost_per_hour")] == \
        ["answer", "5", "2", "100", "36"]
    assert "Servers: 1, for 10 requests/s" in planned("--replicas", requests=STEADY)
    assert "Servers" not in planned(requests=STEADY) and "Servers: 1, for 5 " in planned("--rps", 5, requests=LENGTHS)


def test_a_recording_that_cannot_bear_the_question(planned, tmp_path):
    assert "Servers: this recording cannot tell how many for 100,000 requests/s." in \
        planned("--rps", 100_000, requests=STEADY)
    assert pairs_of(tmp_path)["replicas"] == "unknown" and "min_servers" not in pairs_of(tmp_path)


def test_a_burst_and_hours_in_words(planned, tmp_path):
    said = planned("--times", 3, "--for", 2, "--max-num-seqs", 1, "--target-ttft-ms", 60, requests=UNEVEN)
    assert re.search(r"Burst: 3 times \S+ requests/s for 2 s. .* the targets do not hold: p99 TTFT [\d,.]+ ms", said)
    assert pairs_of(tmp_path)["burst_meets"] == "false" and "burst_empty_s" in pairs_of(tmp_path)
    for hours in (1, 3):
        slow = records([20] * 200, [3] * 200, [hours * 20_000 * i for i in range(200)])
        said = planned("--replicas", "--percentile", 90, requests=slow)
        assert ("Hour by hour, 1 to 1 servers: 3 server-hours in 3 hours." in said) == (hours == 3)
    assert pairs_of(tmp_path)["server_hours"] == pairs_of(tmp_path)["fixed_server_hours"] == "3"


@pytest.mark.parametrize("options, says", [
    (["--spare", "1"], "^--spare counts servers: give --rps or --replicas, too$"),
    (["--times", "3"], "^a burst needs both --times and --for$"), (["--for", "3"], "^a burst needs both"),
    (["--replicas"], "trace.json: --replicas needs a rate, and the file has no arrivals: give --rps$"),
    (["--kv-tokens", "32"], "can never fit"), (["--kv-tokens", "31"], "^--kv-tokens: expected at least 32, found 31$"),
    ([option for name in ("ttft", "tpot") for option in (f"--target-{name}-ms", "none")],
     "^no target is left: give at least one of --target-ttft-ms, -tpot-ms, -e2e-ms and -itl-ms$"),
])
def test_what_makes_no_sense_is_one_line(planned, tmp_path, options, says):
    with pytest.raises(BadInput, match=says):
        planned(*options, requests=LENGTHS)
    assert files(tmp_path / "out") == {}


def test_targets_can_be_none_and_percentiles_are_five():
    args = plan.parser().parse_args(["--target-ttft-ms", "none", "--percentile", "99.9", "--spare", "0"])
    assert args.target_ttft_ms == math.inf and args.percentile == 99.9 and args.target_itl_ms == math.inf
    for wrong in (["--percentile", "98"], ["--target-itl-ms", "-1"], ["--spare", "-1"], ["--rps", "0"],
                  ["--up-to", "0"], ["--times", "0.5"], ["--price-per-hour", "0"]):
        with pytest.raises(SystemExit):
            plan.parser().parse_args(wrong)


def test_a_gateway_and_a_small_cache_lower_the_load(planned, tmp_path):
    arrivals = [100 * i - 60 * (i % 3 == 2) for i in range(60)]
    loads = []
    for more in ((), ("--clients", 1), ("--kv-tokens", 480)):  # of the latter, two requests fit
        planned("--target-ttft-ms", 600, "--target-tpot-ms", "none", *more,
                requests=records([200] * 60, [30] * 60, arrivals))
        loads.append(max(float(row["rps"]) for row in rows_of(tmp_path, "open") if row["meets"] == "true"))
        assert pairs_of(tmp_path).get("gateway_clients") == ("1" if "--clients" in more else None)
    assert loads[1] < loads[0] / 2 and loads[2] < loads[0] / 2


def test_json_says_what_the_files_say_in_numbers(planned, tmp_path):
    said = json.loads(planned("--json", requests=UNEVEN))
    assert said["plan"]["target_e2e_ms"] is None and said["plan"]["requests"] == 45
    numbers = {key: value for key, value in said["plan"].items() if isinstance(value, (int, float))}
    assert {key: float(value) for key, value in pairs_of(tmp_path).items() if key in numbers} == numbers
    assert [row["rps"] for row in said["runs"] if row["search"] == "open"] == \
        [float(row["rps"]) for row in rows_of(tmp_path, "open")]
    assert {row["rps"] for row in said["runs"] if row["search"] == "closed"} == {None}
    assert said["runs"][0]["meets"] in (True, False) and any("Made-up" in sentence for sentence in said["sentences"])
