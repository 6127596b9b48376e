"""plan's words, files and small decisions, from answers made by hand: each sentence whole, each condition from both
sides."""

import json
import math
import multiprocessing
import os
import time
from types import SimpleNamespace

import plan as script
import calibrate
import measured
from running import processes as plan_processes
import pytest
import tune
from bench_file import bench
from files.costs import Costs
from common import BadInput, Requests
from paging.scheduler import UNLIMITED
from planning.answers import Answers, Asked, best_limit, most_running, neighbours, tunes_number, with_limit
from planning.arrivals import Grid
from files.benchmarks import Bench
from planning.engine import Measures, Server, Targets, Traffic
from planning.own_run import Check, apart, checked, own_run, play_of_run
from calibration.replayed import measured as measured_of, predicted
from drawing.plan import Shown
from planning.results import HEADER, number_of, picture_of, plan_fields, plan_line, plan_table, three_digits
from planning.words import Plan, answered, decides, disagreement, said
from planning.search import Found
from planning.trials import Load, Point, Problem

INF = math.inf
TRACE = Measures(100.0, 20.0, 900.0, 25.0, 1234.5, 0.98765, 12)
TRAFFIC = Traffic(Requests([20] * 500, [3] * 500), [100_000 * i for i in range(500)], None)
ASKED = Asked([8, 16], 256, None, 0, None)


def point(rps=None, clients=None, servers=1, limit=8, trace=TRACE, meets=True, played=20):
    """A Point whose replays have the trace's times, and 1, 2 ... 20 ms more."""
    replays = [Measures(*(ms and ms + more for ms in trace[:4]), *trace[4:]) for more in range(1, played + 1)]
    return Point(Load(limit, rps, clients, servers), trace, replays, played if meets else played - 1, meets)


def found(*points, best=None, endless=False, capacity=50.0):
    return Found(list(points), best, endless, capacity)


def answer(rps=None, clients=None, servers=1, **more):
    one = point(rps, clients, servers, **more)
    return found(one, best=one)


NONE = found(point(0.5, meets=False, trace=TRACE._replace(ttft_ms=250.0)))
GOOD = Answers(TRACE, True, {8: answer(10.0), 16: answer(9.5, limit=16)}, (), 12, 8, answer(8.0), (), None,
               answer(clients=6, limit=16), answer(clients=5, limit=16))


def plan(answers=GOOD, targets=Targets(), traffic=TRAFFIC, asked=ASKED, **more):
    """A Plan of which there is nothing to be said beside its answers, unless more says otherwise."""
    problem = Problem(Server(Costs(), 2048, 400), targets, [traffic], [], 10.0)
    quiet = {"own": 10.0, "grid": None, "spread": False, "closed": False, "costs_name": "c.txt",
             "measured_to": (12, 20)}
    return Plan(problem, asked, answers, **quiet | more)


# --- what decides -----------------------------------------------------------------------------------


def first_rows(n):
    return TRAFFIC._replace(requests=Requests([20] * n, [3] * n), arrivals_us=TRAFFIC.arrivals_us[:n])


NOT_FIRM = "The {} of {} is told by {} of them, so it is not firm. Record {} or more."
BURSTS = ("Arrivals come in bursts, or long requests in rows, and the slowest requests lie in {} of the trace. It is "
          "too short to know how bad the next day can be: record more. Until then, the answers lie two steps, 10 %, "
          "below what all replays meet.")
DECIDES = [
    (plan(costs_name=None), ["Made-up costs: the lab's, 0.05 ms a prompt token and 8 ms a step. They are no server's: "
                             "give --costs."]),
    (plan(measured_to=(11, 20)), ["Extrapolated: up to 12 sequences run at the answers, and the costs were measured "
                                  "with up to 11."]),
    (plan(GOOD._replace(closed=answer(clients=6, trace=TRACE._replace(peak_running=13)))),
     ["Extrapolated: up to 13 sequences run at the answers, and the costs were measured with up to 12."]),
    (plan(measured_to=(None, None)), []),
    (plan(GOOD._replace(open={8: NONE}, closed=NONE), measured_to=(1, 20)), []),
    (plan(GOOD._replace(open={}, closed=None), measured_to=(1, 20)), []),
    (plan(traffic=TRAFFIC._replace(requests=Requests([20] * 497 + [21, 22, 90], [3] * 500))),
     ["Extrapolated: 3 of 500 prompts are longer than 20 tokens, the longest that was measured."]),
    (plan(closed=True, own=None), ["The file is the result of a closed loop: its start times are the server's doing, "
                                   "so "
                                   "they are not played. Its lengths are used, in open loop with Poisson arrivals."]),
    (plan(own=None), ["The file has no arrivals with a rate: in open loop, Poisson arrivals are drawn (step 6's)."]),
    (plan(grid=Grid(2_500_000, 60, 31)), ["The arrivals lie on a grid of 2.5 s: 500 requests at 60 moments, up to 31 "
                                          "at one. That is the trace's clock, not your users: --spread spreads them "
                                          "evenly."]),
    (plan(grid=Grid(2_500_000, 60, 31), spread=True), ["The arrivals are spread evenly over the 2.5 s of their grid."]),
    (plan(traffic=TRAFFIC._replace(prefixes=[[("a", 16)]] * 500)),
     ["Prefix caching is on, because the trace names what its prompts share: --no-prefix-caching turns it off."]),
    (plan(traffic=first_rows(499)), [NOT_FIRM.format("p99", "499 requests", "the 5 slowest", "500")]),
    (plan(traffic=first_rows(101)), [NOT_FIRM.format("p99", "101 requests", "the 2 slowest", "500")]),
    (plan(traffic=first_rows(100)), [NOT_FIRM.format("p99", "100 requests", "the slowest one", "500")]),
    (plan(traffic=first_rows(1)), [NOT_FIRM.format("p99", "1 request", "the slowest one", "500")]),
    (plan(targets=Targets(99.9), traffic=Traffic(Requests([20] * 1001, [3] * 1001), list(range(1001)), None)),
     [NOT_FIRM.format("p99.9", "1,001 requests", "the 2 slowest", "5,000")]),
    (plan(targets=Targets(99.9)), [NOT_FIRM.format("p99.9", "500 requests", "the slowest one", "5,000")]),
    (plan(targets=Targets(90), traffic=first_rows(50)), []),
    (plan(GOOD._replace(bursts=8)), []),
    (plan(GOOD._replace(bursts=7)), [BURSTS.format("7 places")]),
    (plan(GOOD._replace(bursts=1)), [BURSTS.format("1 place")]),
]


@pytest.mark.parametrize("one, sentences", DECIDES)
def test_what_decides_is_said_and_nothing_else(one, sentences):
    assert list(decides(one)) == sentences


def test_nothing_is_said_of_a_firm_plan():
    assert list(decides(plan())) == [] and list(disagreement(plan())) == []
    five_thousand = TRAFFIC._replace(requests=Requests([20] * 5_000, [3] * 5_000))
    assert list(decides(plan(targets=Targets(99.9), traffic=five_thousand))) == [], "five of 5,000 lie above the p99.9"


def test_unlimited_memory_is_said():
    one = plan()
    unlimited = one._replace(problem=one.problem._replace(server=Server(Costs(), 2048, UNLIMITED)))
    assert list(decides(unlimited)) == ["Memory is taken as unlimited: give --kv-tokens. A server whose KV cache is "
                                        "short preempts, and is slower."]
    assert plan_fields(unlimited.problem, ASKED, ("t", None), 1.0, GOOD)["kv_blocks"] == "unlimited"


# --- the answers ------------------------------------------------------------------------------------

OPEN = ("Open loop: 10 requests/s with max_num_seqs 8, 1 times its own rate of 10. p99 TTFT 100 ms (102 to 119), TPOT "
        "20 ms (22 to 39); 1,230 tokens/s; 98.7 % of the requests meet all targets. In brackets: the range of the "
        "middle 18 of 20 replays.")
SLOWER = "If every step takes 10 % longer: 8 requests/s, 20 % less."
LIMITS = "Requests/s by max_num_seqs: 8: 10, 16: 9.5."
CLOSED = ("Closed loop: 6 clients with max_num_seqs 16. p99 TTFT 100 ms (102 to 119), TPOT 20 ms (22 to 39); 1,230 "
          "tokens/s; 98.7 % of the requests meet all targets. If every step takes 10 % longer: 5 clients.")


def test_all_sentences_in_order():
    assert said(plan(costs_name=None)) == [DECIDES[0][1][0], OPEN, SLOWER, LIMITS, CLOSED]


NO_EDGE = found(point(10.0), best=point(10.0), endless=True)
ANSWERED = {
    "infeasible": (plan(Answers(TRACE._replace(ttft_ms=1234.0), False)),
                   ["Infeasible: each request alone on the server has a p99 TTFT 1,230 ms and TPOT 20 ms, and that "
                    "misses a target. No load, no limit and no number of servers can help."]),
    "infeasible, of one token": (plan(Answers(TRACE._replace(ttft_ms=999.0, tpot_ms=None), False)),
                                 ["Infeasible: each request alone on the server has a p99 TTFT 999 ms, and that misses "
                                  "a target. No load, no limit and no number of servers can help."]),
    "no own rate": (plan(own=None), [OPEN.replace(", 1 times its own rate of 10", ""), SLOWER, LIMITS, CLOSED]),
    "another rate": (plan(own=4.0), [OPEN.replace("1 times its own rate of 10", "2.5 times its own rate of 4"), SLOWER,
                                     LIMITS, CLOSED]),
    "a cliff": (plan(GOOD._replace(slower_open=answer(7.9))),
                [OPEN, "If every step takes 10 % longer: 7.9 requests/s, 21 % less. The headroom falls off a cliff.",
                 LIMITS, CLOSED]),
    "an edge": (plan(GOOD._replace(slower_open=NONE)),
                [OPEN, "If every step takes 10 % longer: no load is accepted. The answer stands on the edge of a "
                       "cliff.",
                 LIMITS, CLOSED]),
    "no edge": (plan(GOOD._replace(open={8: NO_EDGE, 16: NONE})),
                ["Open loop: no edge found. All loads tried meet the targets, up to the capacity with max_num_seqs 8, "
                 "about 50 requests/s. So the targets do not bind, or the trace is too short to show how its line of "
                 "waiting requests grows.", "Requests/s by max_num_seqs: 8: no edge, 16: none.", CLOSED]),
    "one limit": (plan(GOOD._replace(open={8: answer(10.0)})), [OPEN, SLOWER, CLOSED]),
    "one alike": (plan(GOOD._replace(alike=(16,))), [OPEN, SLOWER, LIMITS, CLOSED]),
    "two alike": (plan(GOOD._replace(alike=(16, 32))),
                  [OPEN, SLOWER, LIMITS, "16 and 32 are alike: never more than 12 ran at once.", CLOSED]),
    "three alike": (plan(GOOD._replace(alike=(16, 32, 64))),
                    [OPEN, SLOWER, LIMITS, "16, 32 and 64 are alike: never more than 12 ran at once.", CLOSED]),
    "no clients": (plan(GOOD._replace(closed=NONE)),
                   [OPEN, SLOWER, LIMITS, "Closed loop: no number of clients is accepted."]),
    "any clients": (plan(GOOD._replace(closed=found(best=point(clients=1), endless=True))),
                    [OPEN, SLOWER, LIMITS, "Closed loop: no edge found up to 1 client, the most tried, max_num_seqs "
                                           "16."]),
    "no slower clients": (plan(GOOD._replace(slower_closed=NONE)),
                          [OPEN, SLOWER, LIMITS, CLOSED.replace("longer: 5 clients", "longer: no number of clients")]),
    "tune agrees": (plan(GOOD._replace(tune=6)), [OPEN, SLOWER, LIMITS, CLOSED]),
    "tune finds none, too": (plan(GOOD._replace(tune=0, closed=NONE)),
                             [OPEN, SLOWER, LIMITS, "Closed loop: no number of clients is accepted."]),
    "tune differs": (plan(GOOD._replace(tune=0)),
                     [OPEN, SLOWER, LIMITS, CLOSED,
                      "(tune.py says 0 for these requests, costs and this TTFT target: it plays one order of the list, "
                      "without overhead, token budget or asynchronous scheduling, and max_num_seqs is the number of "
                      "clients.)"]),
}
WITH = "p99 TTFT 100 ms (102 to 119), TPOT 20 ms (22 to 39); 1,230 tokens/s; 98.7 % of the requests meet all targets. "
SERVERS = {
    "servers": (1, answer(100.0, servers=3), answer(100.0, servers=4),
                "Servers: 4, of which 1 may be down, for 100 requests/s, each with max_num_seqs 8; requests are dealt "
                f"in turn. {WITH}If every step takes 10 % longer: 5."),
    "none spare": (0, answer(100.0, servers=3), NONE,
                   "Servers: 3, for 100 requests/s, each with max_num_seqs 8; requests are dealt in turn. "
                   f"{WITH}If every step takes 10 % longer: no number is enough."),
    "never enough": (1, NONE, NONE, "Servers: no number is accepted for 100 requests/s, each with max_num_seqs 8."),
}


@pytest.mark.parametrize("name", ANSWERED)
def test_answers_in_words(name):
    one, sentences = ANSWERED[name]
    assert list(answered(one)) == sentences


@pytest.mark.parametrize("name", SERVERS)
def test_servers_in_words_and_pairs(name):
    spare, servers, slower, sentence = SERVERS[name]
    asked = ASKED._replace(rps=100.0, spare=spare)
    one = plan(GOOD._replace(replicas=servers, slower_replicas=slower), asked=asked)
    assert list(answered(one)) == [OPEN, SLOWER, LIMITS, CLOSED, sentence]
    numbers = {"servers": (4, 5), "none spare": (3, "none"), "never enough": ("none", "none")}[name]
    fields = list(plan_fields(one.problem, asked, ("t", None), 1.0, one.found).items())[-4:]
    assert fields == \
        [("replicas_rps", "100"), ("spare", spare), ("replicas", numbers[0]), ("slower_replicas", numbers[1])]


def test_targets_of_each_measure_are_named():
    only = plan(targets=Targets(90, 200, INF), answers=GOOD._replace(open={8: answer(10.0)}, closed=NONE))
    assert list(answered(only))[0] == OPEN.replace("p99", "p90").replace(", TPOT 20 ms (22 to 39)", "")
    assert list(answered(only))[2] == ("Only TTFT has a target: nothing here says how slow the tokens after the first "
                                       "one may become.")
    for more in ({"tpot_ms": 50}, {"itl_ms": 50}, {"e2e_ms": 50}):
        assert not any("Only TTFT" in sentence
                       for sentence in answered(plan(targets=Targets(99, 200, INF)._replace(**more))))
    assert not any("Only TTFT" in sentence for sentence in answered(plan(targets=Targets(99, INF, 50))))
    both = list(answered(plan(targets=Targets(99, INF, INF, 950, 30))))[0]
    assert "p99 E2E 900 ms (902 to 919), ITL 25 ms (27 to 44); " in both


def test_requests_of_one_token_have_a_throughput_only():
    single = answer(10.0, trace=TRACE._replace(tpot_ms=None, itl_ms=None, throughput_tps=999.4))
    one = plan(GOOD._replace(open={8: single}), targets=Targets(99, INF, 50))
    assert list(answered(one))[0] == ("Open loop: 10 requests/s with max_num_seqs 8, 1 times its own rate of 10. 999 "
                                      "tokens/s. In brackets: the range of the middle 18 of 20 replays.")


def test_why_no_load_is_accepted():
    def why(lowest, arrivals_us=TRAFFIC.arrivals_us, **more):
        answers = GOOD._replace(open={8: found(lowest, point(9.0, meets=False))})
        return list(answered(plan(answers, traffic=TRAFFIC._replace(arrivals_us=arrivals_us), **more)))[0]

    assert why(point(0.5, meets=False)) == (
        "Open loop: no load is accepted. The trace meets the targets at some, and at none of them do all of its 20 "
        "replays: its bursts, moved closer together, are too much.")
    late = point(0.0123, meets=False, trace=TRACE._replace(ttft_ms=200.1, tpot_ms=50.0))
    assert why(late) == ("Open loop: no load is accepted, down to 0.0123 requests/s: p99 TTFT 200 ms there. Its bursts "
                         "are too dense even so.")
    both = point(0.0123, meets=False, trace=TRACE._replace(ttft_ms=1999.0, tpot_ms=51.0))
    words = "Open loop: no load is accepted, down to 0.0123 requests/s: p99 TTFT 2,000 ms and p99 TPOT 51 ms there. "
    two = [0, 0, *TRAFFIC.arrivals_us[2:]]
    assert why(both, two) == words + "Up to 2 requests arrive at one moment, and slower arrivals do not part them."
    grid = Grid(1_000_000, 9, 2)
    assert why(both, two, grid=grid)[len(words):].endswith("do not part them: see --spread.")
    assert why(both, two, grid=grid, spread=True)[len(words):].endswith("do not part them.")
    single = point(0.5, meets=False, trace=TRACE._replace(ttft_ms=250.0, tpot_ms=None))
    assert why(single) == ("Open loop: no load is accepted, down to 0.5 requests/s: p99 TTFT 250 ms there. Its bursts "
                           "are too dense even so.")


# --- a measured run ---------------------------------------------------------------------------------


def check(measured=TRACE._replace(ttft_ms=110.0, tpot_ms=30.0), **load):
    return Check(measured, point(**load or {"rps": 4.0}))


RUN = ("This file is a measured run; at its own 4 requests/s: p99 TTFT 110 ms measured, 100 predicted (replays 102 to "
       "119); p99 TPOT 30 ms measured, 20 predicted (replays 22 to 39).")
OUTSIDE = ("DISAGREEMENT: the measured {} outside the range of the replays. Do not use the answers before you know "
           "why: other costs, other limits, or a machine that drifts.")
MISSED = "DISAGREEMENT: the run itself missed a target at its own {} requests/s, and the plan allows 10."


def test_a_measured_run_in_words():
    def words(one, answers=GOOD, targets=Targets()):
        return list(disagreement(plan(answers._replace(check=one), targets)))

    assert words(check()) == [RUN]
    assert words(check(clients=7)) == [RUN.replace("at its own 4 requests/s", "with its own 7 clients")]
    early = check(TRACE._replace(ttft_ms=101.0, tpot_ms=30.0))
    assert words(early) == [OUTSIDE.format("TTFT lies"), RUN.replace("110", "101")]
    wrong = words(check(TRACE._replace(ttft_ms=120.0, tpot_ms=40.0)))
    assert wrong == [OUTSIDE.format("TTFT and TPOT lie"), RUN.replace("110", "120").replace("30 ms", "40 ms")]
    single = check(TRACE._replace(ttft_ms=110.0, tpot_ms=None))
    assert words(single) == [RUN.split(";")[0] + ";" + RUN.split(";")[1] + "."]
    assert words(single, targets=Targets(99, INF, 50)) == ["This file is a measured run; at its own 4 requests/s: it "
                                                           "measured nothing that has a target."]


def test_a_run_that_missed_its_targets_where_the_plan_allows_more():
    def missed(rps, answers=GOOD, clients=None, ttft_ms=109.0):
        one = plan(answers._replace(check=check(rps=rps, clients=clients)), Targets(99, ttft_ms, 50))
        return [sentence for sentence in disagreement(one) if "missed" in sentence]

    assert missed(10.0) == [MISSED.format("10")] and missed(9.0) == [MISSED.format("9")] and missed(10.1) == []
    assert missed(9.0, ttft_ms=110.0) == [], "it met them"
    assert missed(None, clients=7) == [] and missed(9.0, GOOD._replace(open={8: NONE})) == []
    assert missed(9.0, Answers(TRACE, False)) == [], "infeasible: no load is allowed at all"


def test_a_measure_is_apart_outside_the_range_of_the_replays():
    times = {"ttft_ms": (102, 119), "tpot_ms": (22, 39), "e2e_ms": (902, 919), "itl_ms": (27, 44)}
    inside = TRACE._replace(**{name: low for name, (low, _) in times.items()})
    targets = Targets(99, 1.0, 1.0, 1.0, 1.0)
    assert apart(check(inside), targets) == []
    for position, (name, (low, high)) in enumerate(times.items(), start=1):
        for value, said_apart in ((low - 0.1, [name]), (high + 0.1, [name]), (high, []), (None, [])):
            assert apart(check(inside._replace(**{name: value})), targets) == said_apart
        free = targets._replace(**{targets._fields[position]: INF})
        assert apart(check(inside._replace(**{name: high + 1})), free) == [], "it has no target"
    assert apart(Check(inside._replace(ttft_ms=1), point(4.0, played=19)), targets) == [], "not all replays were played"


def test_which_files_are_a_measured_run(tmp_path):
    """One run, all of whose requests are taken. Half a run, two runs, or a list are none."""
    record = bench(Requests([20] * 3, [2] * 3), 1, Costs())

    def of(content, n=None):
        (tmp_path / "r.json").write_text(json.dumps(content))
        return own_run(tmp_path / "r.json", n)

    assert of(record).clients == 1 and of(record, 3).clients == 1 and of(record, 2) is None
    assert of([record, record]) is None and of([{"prompt_tokens": 5, "output_tokens": 7}]) is None
    del record["start_times"]
    assert of(record).closed and of(record | {"max_concurrency": None, "request_rate": 2.0}) is None


def test_a_run_is_played_at_its_own_load():
    five = first_rows(5)
    one = plan(traffic=five).problem._replace(replays=[five] * 20)
    run = Bench("r", [20] * 3, [3] * 3, [0.0, 0.25, 0.5], [0.1] * 3, [[0.01, 0.01]] * 3, None, None, False, None, 0, [])
    found = checked(one, run, 8)
    assert found.predicted.load == Load(8, 4.0) and len(found.predicted.replays) == 20
    assert found.measured[:4] == pytest.approx((100, 10, 120, 10))
    assert checked(one, run._replace(starts_s=[0.0] * 3), 8).predicted.load == Load(8, 10.0), "no rate: the trace's"
    assert checked(one, run._replace(closed=True, clients=2), 8).predicted.load == Load(8, None, 2)


def test_what_the_clients_of_a_run_saw():
    """Sent at 0 and 2 s: first tokens after 0.5 and 0.25 s, then gaps of 0.1 and 0.3 s; the second has one token."""
    run = Bench("r", [5, 5], [3, 1], [0.0, 2.0], [0.5, 0.25], [[0.1, 0.3], []], None, None, False, None, 0, [])
    one = play_of_run(run)
    assert one.ttfts_us == [500_000, 250_000] and one.e2es_us == pytest.approx([900_000, 250_000])
    assert one.tpots_us[0] == pytest.approx(200_000) and one.tpots_us[1] is None
    assert sorted(one.gaps_us) == pytest.approx([100_000, 300_000]) and list(one.gaps_us.values()) == [1, 1]
    assert one.output_tokens == 4 and one.span_us == 2_250_000 and \
        play_of_run(run._replace(duration_s=3.0)).span_us == 3_000_000
    assert play_of_run(run._replace(starts_s=None)).span_us == pytest.approx(900_000), "all from 0 on"


# --- the files --------------------------------------------------------------------------------------


def test_three_digits():
    assert [three_digits(x) for x in (18870.3, 0.012345, 10.0, 999.5, 1.05)] == \
        ["18900", "0.0123", "10", "1000", "1.05"]


def test_the_pairs_of_a_plan():
    one = plan()
    fields = plan_fields(one.problem, ASKED, ("my trace.csv", "c 1.txt"), 12.345, GOOD)
    assert plan_line(fields) == (
        "trace=my%20trace.csv requests=500 trace_rps=12.3 costs=c%201.txt percentile=99 target_ttft_ms=200 "
        "target_tpot_ms=50 "
        "target_e2e_ms=none target_itl_ms=none scheduling=asynchronous max_num_batched_tokens=2048 kv_blocks=400 "
        "prefix_caching=off open=answer max_num_seqs=8 max_rps=10 slower_max_rps=8 ttft_ms=100 tpot_ms=20 e2e_ms=900 "
        "itl_ms=25 "
        "throughput_tps=1230 goodput=0.9877 closed=answer max_clients=6 slower_max_clients=5\n")


def test_a_plan_without_answers_has_no_numbers():
    problem = Problem(Server(Costs(), 99, 9, False), Targets(99.9, INF, 0.125), [TRAFFIC._replace(prefixes=[[]])], [],
                      1.0, 3)
    same = ("trace=t requests=500 costs=lab percentile=99.9 target_ttft_ms=none target_tpot_ms=0.125 "
            "target_e2e_ms=none target_itl_ms=none scheduling=synchronous max_num_batched_tokens=99 kv_blocks=9 "
            "prefix_caching=on gateway_clients=3 ")
    for answers, end in ((Answers(TRACE, False), "open=infeasible closed=infeasible\n"),
                         (GOOD._replace(open={8: NONE}, closed=NONE), "open=none closed=none\n"),
                         (GOOD._replace(open={8: NO_EDGE}, closed=NO_EDGE), "open=no_edge closed=no_edge\n")):
        assert plan_line(plan_fields(problem, ASKED, ("t", None), None, answers)) == same + end
    assert number_of(NONE, "rps") == "none" and number_of(NO_EDGE, "rps") == "no_edge" and \
        number_of(answer(9.5), "rps") == "9.5"
    single = GOOD._replace(open={8: answer(10.0, trace=TRACE._replace(tpot_ms=None, itl_ms=None))}, slower_open=NO_EDGE)
    fields = plan_fields(problem, ASKED, ("t", None), None, single)
    assert "tpot_ms" not in fields and fields["e2e_ms"] == "900" and fields["slower_max_rps"] == "no_edge"


def test_the_rows_of_all_searches():
    one = plan()
    all_found = Answers(TRACE, True, {8: found(point(10.0), point(10.5, meets=False, played=3))}, (), 12, 8,
                        answer(8.0),
                        (point(9.5),), None, answer(clients=6), answer(clients=5), None, answer(100.0, servers=3),
                        answer(100.0, servers=4),
                        Check(TRACE, point(4.0, trace=TRACE._replace(tpot_ms=None, itl_ms=None))))
    header, *lines = plan_table(one.problem, all_found).splitlines()
    assert header == ",".join(HEADER) == (
        "search,steps,max_num_seqs,clients,servers,rps,percentile,ttft_ms,tpot_ms,e2e_ms,itl_ms,ttft_low_ms,"
        "ttft_high_ms,tpot_low_ms,tpot_high_ms,e2e_low_ms,e2e_high_ms,itl_low_ms,itl_high_ms,throughput_tps,goodput,"
        "peak_running,replays,replays_met,meets")
    times = ("99,100.00,20.00,900.00,25.00,102.00,119.00,22.00,39.00,902.00,919.00,27.00,44.00,"
             "1234.50,0.9877,12,20,20,true")
    assert lines == [
        f"open,1.0,8,,1,10,{times}",
        "open,1.0,8,,1,10.5,99,100.00,20.00,900.00,25.00,,,,,,,,,1234.50,0.9877,12,3,2,false",
        f"around,1.0,8,,1,9.5,{times}", f"open,1.1,8,,1,8,{times}", f"closed,1.0,8,6,1,,{times}",
        f"closed,1.1,8,5,1,,{times}", f"replicas,1.0,8,,3,100,{times}", f"replicas,1.1,8,,4,100,{times}",
        "check,1.0,8,,1,4,99,100.00,,900.00,,102.00,119.00,,,902.00,919.00,,,1234.50,0.9877,12,20,20,true"]
    gateway = one.problem._replace(clients=5)
    assert [line.split(",")[3] for line in plan_table(gateway, all_found).splitlines()[1:]] == \
        list("5555") + ["6"] + list("5555")
    assert plan_table(one.problem, Answers(TRACE, False)).count("\n") == 1


def test_the_numbers_of_the_picture():
    missed = point(10.5, meets=False, played=3)
    answers = GOOD._replace(open={8: found(missed, point(10.0), best=point(10.0)), 16: found(point(9.5))},
                            around=(point(9.0),))
    picture = picture_of(plan().problem, 7.0, answers)
    assert picture == Shown(
        "p99 TTFT", 200.0, {"8": [(9.0, 100.0), (10.0, 100.0), (10.5, 100.0)], "16": [(9.5, 100.0)]},
        ("8", 10.0, 100.0), 8.0, [], {}, 7.0, 50.0, False)
    tpot = picture_of(plan(targets=Targets(90, 1000, 25, INF)).problem, None, answers)
    assert tpot[:2] == ("p90 TPOT", 25) and tpot.limits["16"] == [(9.5, 20.0)], "the target that is nearest binds"
    no_edge = picture_of(plan().problem, 7.0, GOOD._replace(open={8: NO_EDGE}))
    assert (no_edge.answer, no_edge.slower_rps, no_edge.no_edge) == (None, None, True)
    cliff = picture_of(plan().problem, 7.0, GOOD._replace(slower_open=NONE))
    assert cliff.answer == ("8", 10.0, 100.0) and cliff.slower_rps is None
    infeasible = picture_of(plan().problem, 7.0, Answers(TRACE, False))
    assert (infeasible.limits, infeasible.capacity_rps, infeasible.answer, infeasible.no_edge) == ({}, None, None, False)


# --- which searches, and of which limits ------------------------------------------------------------


def test_the_most_that_ran_where_the_answer_was_decided():
    """At the answer and one rung above it, in the trace and in all replays; without an answer, at the lowest load."""
    def running(rps, *peaks):
        one = point(rps)
        return one._replace(trace=TRACE._replace(peak_running=peaks[0]),
                            replays=[TRACE._replace(peak_running=peak) for peak in peaks[1:]])

    low, at, above, far = running(1.0, 90), running(2.0, 3, 5), running(2.1, 4, 7, 6), running(2.2, 99)
    assert most_running(found(low, at, above, far, best=at)) == 7 and most_running(found(low, at, best=at)) == 5
    assert most_running(found(low, at, above)) == 90


def test_a_limit_that_changes_nothing_gets_the_same_loads():
    changed = with_limit(found(point(10.0), point(9.0), best=point(10.0)), 4)
    assert [one.load for one in changed.points] == [Load(4, 10.0), Load(4, 9.0)] and changed.best.load == Load(4, 10.0)
    assert with_limit(NONE, 4).best is None


def test_the_best_limit_is_the_smallest_of_equals():
    assert best_limit({8: answer(9.0), 16: answer(10.0), 32: answer(10.0), 64: NONE}) == 16
    assert best_limit({8: NONE, 16: NONE}) == 16


def test_loads_beside_the_answer_up_to_the_capacity():
    def rates(capacity):
        return [load.rps for load in neighbours(found(best=point(10.0), capacity=capacity))]

    assert rates(12.1) == [5.6, 7.5, 8.7, 9.5, 10.5, 11.0, 12.1] and rates(12.0) == rates(12.1)[:-1]
    assert neighbours(NONE) == []


def test_tunes_number_by_hand():
    """Ten requests of 900 tokens, 45 ms each, in step 1 together, and 8 ms: 53 ms with one client, 188 with four."""
    def number(n, target_ms):
        traffic = Traffic(Requests([900] * n, [3] * n), None, None)
        return tunes_number(Problem(Server(), Targets(99, target_ms), [traffic], [], 1.0))

    assert (number(10, 188), number(10, 187), number(10, 52), number(10, 53)) == (4, 3, 0, 1)
    assert number(4, 188) is None and number(5, 188) == 4, "the largest that it tries still meets the target"


@pytest.mark.parametrize("n, target_ms, number", [(100, 99, 99), (100, 100, None), (300, 255, 255), (300, 256, None)])
def test_tune_tries_as_many_clients_as_requests_and_at_most_256(monkeypatch, n, target_ms, number):
    monkeypatch.setattr("planning.answers.measure", lambda requests, clients, costs: tune.Point(clients, 0, clients, 0))
    assert tunes_number(Problem(Server(), Targets(99, target_ms), [first_rows(n)], [], 1.0)) == number


# --- options ----------------------------------------------------------------------------------------


def test_what_is_taken_where_nothing_is_said():
    given = vars(script.parser().parse_args([]))
    assert "time_unit" in given
    told = {name: value for name, value in given.items() if value is not None and value is not False}
    assert {name: value for name, value in told.items() if name not in ("out", "requests")} == {
        "target_ttft_ms": 200.0, "target_tpot_ms": 50.0, "target_e2e_ms": INF, "target_itl_ms": INF, "percentile": 99.0,
        "up_to": 256, "spare": 0}
    server, limits = script.server_of(script.parser().parse_args([]), script.load_server(None))
    assert limits == [8, 16, 32, 64, 128, 256] and server.kv_blocks == UNLIMITED
    with pytest.raises(SystemExit):
        script.parser().parse_args(["--target-ttft-ms", "None"])
    for percentile in ("50", "90", "95", "99", "99.9"):
        assert script.parser().parse_args(["--percentile", percentile]).percentile == float(percentile)
    help_text = " ".join(script.parser().format_help().split())
    for words in ("in ms, or none (default: 200)", "in ms, or none (default: 50)", "token allowed, in ms, or none "
                                                                                   "(default: none)",
                  "50, 90, 95, 99, 99.9 (default: 99)", "else 8 16 32 64 128 256)", "else 2048)"):
        assert words in help_text.replace("tokens allowed", "token allowed"), words


@pytest.mark.parametrize("parser", [script.parser, measured.parser, calibrate.parser])
def test_help_begins_with_a_small_letter(parser):
    for action in parser()._actions:
        assert action.help[0] in "abcdefghijklmnopqrstuvwxyz%" or action.help[0].isdigit(), action.help
        metavars = ("N", "X", "P", "MS", "FILE", "DIR", "BENCH.json", "FIGURES", "{ms,s}", None)
        assert action.metavar in metavars


def test_the_traffic_that_is_played():
    def of(arrivals_us, grid_us=None, **more):
        n = len(arrivals_us or [0, 0])
        trace = SimpleNamespace(requests=Requests([20] * n, [1] * n), arrivals_us=arrivals_us, grid_us=grid_us,
                                prefixes=[[]] * n)
        return script.traffic_of(SimpleNamespace(**{"spread": False, "no_prefix_caching": False,
                                                    "requests": "t"} | more), trace)

    on_grid = [0, 0, 1_000_000, 1_000_000]
    traffic, grid = of(on_grid, 1_000_000)
    assert traffic.arrivals_us == on_grid and grid == Grid(1_000_000, 2, 2) and traffic.prefixes == [[]] * 4
    traffic, grid = of(on_grid, 1_000_000, spread=True)
    assert traffic.arrivals_us == [0, 500_000, 1_000_000, 1_500_000] and grid == Grid(1_000_000, 2, 2)
    assert of(on_grid, no_prefix_caching=True)[0].prefixes is None and of(on_grid)[1] is None
    assert of([0, 0])[0].arrivals_us is of(None)[0].arrivals_us is None and of([0, 0], 1_000_000)[1] is None
    for arrivals_us in (on_grid, None):
        with pytest.raises(BadInput, match="^t: --spread is for arrivals on a grid, and these lie on none$"):
            of(arrivals_us, spread=True)


# --- what a run measured, and would have ------------------------------------------------------------

RUN_OF_TWO = Bench("r", [5, 5], [3, 1], [0.0, 2.0], [0.5, 0.25], [[0.1, 0.3], []], 8.0, None, False, None, 0, [])


def test_measures_of_a_run_by_hand():
    """TTFTs of 500 and 250 ms, gaps of 100 and 300: p50 and p99 lie halfway, and at 99 of 100 parts, between the
    two."""
    one = measured_of(RUN_OF_TWO)
    assert one == pytest.approx({"p50_ttft_ms": 375, "p99_ttft_ms": 497.5, "p50_itl_ms": 200, "p99_itl_ms": 298,
                                 "p99_tpot_ms": 200, "throughput_tps": 0.5})
    single = measured_of(RUN_OF_TWO._replace(output_tokens=[1, 1], itls_s=[[], []], duration_s=None))
    assert list(single.values())[2:] == [None] * 4


def test_measures_of_a_play_by_hand():
    """Sent at 0 and 2 s to an empty server: 5 x 0.05 + 8 ms, then two gaps of 8 ms; the second has one token."""
    def of(run):
        return predicted(run, Costs(), False, 8, 2048)

    assert of(RUN_OF_TWO) == pytest.approx({"p50_ttft_ms": 8.25, "p99_ttft_ms": 8.25, "p50_itl_ms": 8, "p99_itl_ms": 8,
                                            "p99_tpot_ms": 8, "throughput_tps": 4 / 2.00825})
    assert list(of(RUN_OF_TWO._replace(output_tokens=[1, 1])).values())[2:5] == [None] * 3
    closed = of(RUN_OF_TWO._replace(closed=True, clients=2, starts_s=None))
    assert closed["p99_ttft_ms"] > 16 and closed["throughput_tps"] == pytest.approx(4 / 0.0245, rel=0.1)
    two = RUN_OF_TWO._replace(output_tokens=[2, 2], starts_s=[0.0, 2.0])
    assert of(two)["p99_tpot_ms"] == 8


# --- processes --------------------------------------------------------------------------------------


def test_cores_where_they_can_and_cannot_be_told(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5} - {pid}, raising=False)
    assert plan_processes.cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert plan_processes.cores() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert plan_processes.cores() == 1


def test_at_most_so_many_processes_and_none_for_one(monkeypatch):
    begun, start = [], plan_processes.start
    monkeypatch.setattr(plan_processes, "start", lambda *job: (start(*job), begun.append(len(job[2]))))
    for jobs, processes in (([(os.getpid,)] * 3, 1), ([(os.getpid,)], 4)):
        assert dict(plan_processes.in_processes(jobs, processes)) == dict.fromkeys(range(len(jobs)), os.getpid())
    assert begun == []
    found = dict(plan_processes.in_processes([(os.getpid,)] * 4, 2))
    assert len({*found.values(), os.getpid()}) == 5 and max(begun) == 2 and len(begun) == 4


def refuse():
    raise BadInput("no")


def test_when_one_refuses_the_others_have_ended():
    with pytest.raises(BadInput, match="^no$"):
        list(plan_processes.in_processes([(time.sleep, 60), (refuse,), (time.sleep, 60)], 3))
    assert multiprocessing.active_children() == []


def out_of_memory():
    os._exit(1)


def test_a_process_that_ended_early_is_one_line():
    with pytest.raises(BadInput, match="^a process of the plan ended early, killed by somebody or for want of memory; "
                                       "--processes 1 needs the least$"):
        list(plan_processes.in_processes([(out_of_memory,), (os.getpid,)], 2))
