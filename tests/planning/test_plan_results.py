"""plan's files, sentences and small decisions, from answers made by hand; and the file's own run."""

import json
import math

import pytest
from bench_file import bench
from common import Requests
from files.benchmarks import Bench
from files.costs import Costs, Server
from planning.answers import Answers, Asked
from planning.engine import TIMES, Measures, Targets, Traffic, simulate, measured
from planning.loads import Problem, Setup
from planning.own_run import Check, apart, checked, compared, own_run, run_of_bench
from planning.replays import REPLAYS
from drawing.plan import Shown
from planning.results import HEADER, picture_of, plan_fields, plan_line, plan_table, three_digits
from planning.search import Edge, Found
from planning.servers import Burst, Fleet
from planning.words import Plan, sentences

INF = math.inf
AT = Measures(100.0, 20.0, 900.0, 25.0, 1234.5, 0.98765, 12)
OVER = AT._replace(ttft_ms=250.0)
TRAFFIC = Traffic(Requests([20] * 500, [3] * 500), [100_000 * i for i in range(500)], None)
SERVER = Server(Costs(), True, None, 2048, 6416, measured_sequences=12, measured_prompt_tokens=20)
EIGHT, SIXTEEN = (Setup(SERVER, limit) for limit in (8, 16))
CLOSED = SIXTEEN._replace(closed_to=256)
ASKED = Asked([EIGHT, SIXTEEN], 256)


def found(load, setup=EIGHT, slower=0.9, over=OVER, highest=False):
    """Of the trace and 20 replays that all have this edge."""
    edge = Edge(load, slower and slower * load, {load: AT} if highest else {load: AT, 1.5 * load: over})
    return Found(setup, 50.0, edge, [edge] * REPLAYS)


NONE = Found(EIGHT, 50.0, Edge(None, None, {0.5: OVER}), [Edge(None, None, {0.5: OVER})] * REPLAYS)
GOOD = Answers(AT, (found(10.0)._replace(replays=()), Found(SIXTEEN, 9.5, None)), (), found(10.0), AT,
               found(6, CLOSED))


def plan(answers=GOOD, targets=Targets(), traffic=TRAFFIC, asked=ASKED, **more):
    """A Plan of which there is nothing to be said beside its answers, unless more says otherwise."""
    quiet = {"names": ("t", "c.txt"), "own": 10.0, "grid": None, "spread": False, "closed": False}
    return Plan(Problem(targets, traffic, 10, 10.0), asked, answers, **quiet | more)


# --- the files --------------------------------------------------------------------------------------


def test_three_digits():
    assert [three_digits(x) for x in (18870.3, 0.012345, 10.0, 999.5, 1.05)] == \
        ["18900", "0.0123", "10", "1000", "1.05"]


def test_the_pairs_of_a_plan():
    """Ten requests/s of 3 tokens: 30 tokens/s, and at 5.40 an hour a million cost 5.40 / 108,000 x 1,000,000 = 50."""
    one = plan(asked=ASKED._replace(price=5.4), names=("my trace.csv", "c 1.txt"), own=12.345)
    assert plan_line(plan_fields(one)) == (
        "trace=my%20trace.csv requests=500 trace_rps=12.3 costs=c%201.txt percentile=99 target_ttft_ms=200 "
        "target_tpot_ms=50 target_e2e_ms=none target_itl_ms=none scheduling=asynchronous max_num_batched_tokens=2048 "
        "kv_blocks=400 prefix_caching=off open=answer max_num_seqs=8 max_rps=10 slower_max_rps=9 lowest_edge_rps=10 "
        "highest_edge_rps=10 binds=ttft_ms ttft_ms=100 tpot_ms=20 e2e_ms=900 itl_ms=25 throughput_tps=30 "
        "goodput=0.9877 cost_per_million_tokens=50 closed=answer max_clients=6 slower_max_clients=5 "
        "closed_binds=ttft_ms\n")


def test_a_plan_without_answers_has_no_numbers():
    server = Server(Costs(), False, None, 99, 160)
    setup = Setup(server, 8, gateway=3)
    no_edge = found(10.0, setup, highest=True)
    for answers, end in ((Answers(AT), "open=infeasible closed=infeasible\n"),
                         (GOOD._replace(open=NONE._replace(setup=setup), closed=NONE), "open=none closed=none\n"),
                         (GOOD._replace(open=no_edge, closed=no_edge), "open=no_edge closed=no_edge\n")):
        one = plan(answers, Targets(99.9, INF, 0.125), TRAFFIC._replace(prefixes=[[]]), Asked([setup], 9),
                   names=("t", None), own=None)
        assert plan_line(plan_fields(one)) == (
            "trace=t requests=500 costs=lab percentile=99.9 target_ttft_ms=none target_tpot_ms=0.125 "
            "target_e2e_ms=none target_itl_ms=none scheduling=synchronous max_num_batched_tokens=99 kv_blocks=9 "
            f"prefix_caching=on gateway_clients=3 {end}")
    single = plan(GOOD._replace(open=found(10.0, slower=None), at_answer=AT._replace(tpot_ms=None, itl_ms=None)))
    assert "tpot_ms" not in plan_fields(single) and plan_fields(single)["slower_max_rps"] is None


MORE = GOOD._replace(fleet=Fleet(found(12.0, EIGHT._replace(servers=3)), 3, None), hours=[2, 3],
                     burst=Burst(7.0, OVER, None))


def test_servers_hours_and_a_burst_in_pairs_and_words():
    """Four servers, one of which may be down. Hours of 2 and 3 servers: 5 server-hours, of 6 at a fixed number."""
    asked = ASKED._replace(rps=30.0, spare=1, price=9.0, burst=(3, 300))
    fields = plan_fields(plan(MORE, asked=asked))
    assert dict(list(fields.items())[-13:]) == {
        "replicas": "answer", "replicas_rps": 30, "spare": 1, "min_servers": 4, "slower_min_servers": None,
        "servers_cost_per_hour": 36, "servers_cost_per_million_tokens": 111, "hours": 2, "server_hours": 5,
        "fixed_server_hours": 6, "burst_rps": 7, "burst_meets": False, "burst_empty_s": None}
    assert plan_line(fields).endswith("burst_rps=7 burst_meets=false burst_empty_s=none\n")
    said = " ".join(sentences(plan(MORE, asked=asked)))
    for words in ("4, of which 1 may be down, for 30 requests/s, ", "If they are 10 % slower: no number is enough.",
                  "Hour by hour, 2 to 3 servers: 5 server-hours in 2 hours. A fixed number takes 6", "at most 17 %.",
                  "the targets do not hold: p99 TTFT 250 ms.", "The queue is not gone 3000 s after it."):
        assert words in said
    bursty = " ".join(sentences(plan(MORE._replace(open=NONE), asked=asked)))
    assert "spread over all" in bursty and "spread over all" not in said, "one server carries no load, and several do"
    single = MORE._replace(burst=Burst(7.0, AT._replace(tpot_ms=None), 2.0))
    assert "its requests the targets hold. The queue is gone 2 s after it." in \
        " ".join(sentences(plan(single, Targets(99, INF, 50), asked=asked)))
    none = plan(GOOD, asked=asked)
    assert plan_fields(none)["replicas"] == "none"
    assert "Servers: no number is accepted for 30 " in " ".join(sentences(none))


def test_the_rows_of_all_searches():
    check = Check(AT, AT._replace(tpot_ms=None, itl_ms=None), [AT] * 2, 4.0, None)
    header, *lines = plan_table(plan(MORE._replace(check=check))).splitlines()
    assert header == ",".join(HEADER) == (
        "search,traffic,max_num_seqs,max_num_batched_tokens,servers,rps,clients,percentile,ttft_ms,tpot_ms,e2e_ms,"
        "itl_ms,throughput_tps,goodput,peak_running,meets")
    at, over = "99,100,20,900,25,1234.5,0.9877,12,true", "99,250,20,900,25,1234.5,0.9877,12,false"
    assert lines[:4] == [f"open,trace,8,2048,1,10,,{at}", f"open,trace,8,2048,1,15,,{over}",
                         f"open,1,8,2048,1,10,,{at}", f"open,1,8,2048,1,15,,{over}"]
    assert lines[42:44] == [f"closed,trace,16,2048,1,,6,{at}", f"closed,trace,16,2048,1,,9,{over}"]
    assert lines[84] == f"servers,trace,8,2048,3,12,,{at}"
    assert lines[126:] == ["check,trace,,,1,4,,99,100,,900,,1234.5,0.9877,12,true",
                           *[f"check,{i},,,1,4,,{at}" for i in (1, 2)]]
    assert plan_table(plan(Answers(AT))).count("\n") == 1


def test_the_numbers_of_the_picture():
    picture = picture_of(plan(GOOD._replace(at_answer=AT._replace(ttft_ms=90.0))))
    assert picture == Shown("p99 TTFT", 200.0, {"8": [(10.0, 90.0), (15.0, 250.0)]}, ("8", 10, 90.0), 9, [10.0] * 20,
                            {"TTFT": 20}, 10.0, 50.0, False)
    slow = found(10.0, over=AT._replace(tpot_ms=60.0))
    assert picture_of(plan(GOOD._replace(tried=(slow,), open=slow)))[:3] == \
        ("p99 TPOT", 50.0, {"8": [(10.0, 20.0), (15.0, 60.0)]}), "what binds is drawn"
    budgets = (found(10.0), found(9.0, EIGHT._replace(server=SERVER._replace(max_num_batched_tokens=99))))
    names = list(picture_of(plan(GOOD._replace(tried=budgets))).limits)
    assert names == ["8 (2048 tokens)", "8 (99 tokens)"]
    no_edge = found(10.0, highest=True)
    assert picture_of(plan(GOOD._replace(tried=(no_edge,), open=no_edge)))[3:] == (None, None, [], {}, 10.0, 50.0, True)
    assert picture_of(plan(Answers(AT)))[2:] == ({}, None, None, [], {}, 10.0, None, False)


# --- sentences --------------------------------------------------------------------------------------


def test_the_answers_come_first_and_nothing_else_is_said_of_a_firm_plan():
    beginnings = ["Open loop: 10 requests/s with max_num_seqs 8, 1 times", "TTFT binds, in 20 of 20 replays. In the",
                  "If the server is 10 % slower: 9 requests/s, 10 % less.", "The edge of the trace", "Closed loop: 6 "]
    said = sentences(plan())
    assert len(said) == 5 and all(map(str.startswith, said, beginnings)), said
    assert "8: 10; 16: at most 9.5." in said[3]
    assert "is 100 ms at 10 requests/s and 250 at 15; 200 is allowed." in said[1]


@pytest.mark.parametrize("answers, words", [
    (GOOD._replace(open=found(10.0, slower=0.7)), "30 % less. The headroom falls off a cliff."),
    (GOOD._replace(open=found(10.0, slower=None)), "0 requests/s, 100 % less. The headroom falls off a cliff."),
    (GOOD._replace(alike=(16, 32, 64)), "8: 10; 16 = 32 = 64: at most 9.5."),
    (GOOD._replace(closed=NONE), "Closed loop: no number of clients is accepted."),
    (GOOD._replace(closed=found(256, CLOSED, highest=True)), "no edge found up to 256 clients, the most tried"),
    (GOOD._replace(open=found(10.0, highest=True)), "to the capacity with max_num_seqs 8, about 50 requests/s."),
    (GOOD._replace(open=NONE), "Open loop: no load is accepted. At 0.5 requests/s the p99 TTFT is 250 ms. Its bursts"),
    (GOOD._replace(open=NONE._replace(trace=found(10.0).trace)), "and most of its replays at none"),
    (GOOD._replace(open=found(10.0, over=AT._replace(e2e_ms=2e4, itl_ms=99))), "E2E binds, in 20 of 20 replays."),
])
def test_what_is_said_of_other_answers(answers, words):
    targets = Targets(99, 200.0, 50.0, 1e4)
    assert words in " ".join(sentences(plan(answers, targets)))
    assert words not in " ".join(sentences(plan(targets=targets)))


# --- a measured run ---------------------------------------------------------------------------------


def test_a_run_is_simulated_at_its_own_load():
    """Every request by itself, 9 ms; in closed loop two clients of one slot, the first of them included."""
    five = Traffic(Requests([20] * 5, [1] * 5), [0, 100_000, 200_000, 300_000, 400_000], None)
    problem, setup = Problem(Targets(50), five, 1, 10.0), Setup(Server(Costs(), asynchronous=False), 1)
    run = Bench("r", [20] * 3, [3] * 3, [0.0, 0.25, 0.5], [0.1] * 3, [[0.01, 0.01]] * 3, None, None, False, None, 0, [])
    check = checked(problem, run, setup)
    assert check.measured[:4] == pytest.approx((100, 10, 120, 10)) and check.predicted.ttft_ms == 9
    assert (check.rps, check.clients, len(check.replays), checked(problem, None, setup)) == (4, None, 20, None)
    assert check.predicted.throughput_tps == pytest.approx(5 / 1.009)
    assert list(compared(check, problem.targets)) == [("ttft_ms", pytest.approx(100), 9, 9)], "no TPOT in the replays"
    assert checked(problem, run._replace(starts_s=[0.0] * 3), setup).rps == 10.0, "no rate: the trace's"
    closed = checked(problem, run._replace(closed=True, clients=2), setup)
    whole = measured(problem.targets, simulate(setup.server, five._replace(arrivals_us=None), 1, 2))
    assert closed.predicted == whole and (closed.rps, closed.clients) == (None, 2)


def test_a_measure_is_apart_outside_the_middle_18_of_20_replays():
    replays = [Measures(*(ms + more for ms in AT[:4]), *AT[4:]) for more in range(20)]
    targets = Targets(99, 1.0, 1.0, 1.0, 1.0)
    inside = AT._replace(**{name: getattr(AT, name) + 1 for name in TIMES})
    assert apart(Check(inside, AT, replays, 4.0, None), targets) == []
    for name in TIMES:
        low = getattr(AT, name) + 1
        for value, found_apart in ((low - 0.1, [name]), (low + 17.1, [name]), (low + 17, []), (None, [])):
            assert apart(Check(inside._replace(**{name: value}), AT, replays, 4.0, None), targets) == found_apart
        free = targets._replace(**{name: INF})
        assert apart(Check(inside._replace(**{name: 1.0}), AT, replays, 4.0, None), free) == [], "it has no target"


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


def test_what_the_clients_of_a_run_saw():
    """Sent at 0 and 2 s: first tokens after 0.5 and 0.25 s, then gaps of 0.1 and 0.3 s; the second has one token."""
    run = Bench("r", [5, 5], [3, 1], [0.0, 2.0], [0.5, 0.25], [[0.1, 0.3], []], None, None, False, None, 0, [])
    one = run_of_bench(run)
    assert one.ttfts_us == [500_000, 250_000] and one.e2es_us == pytest.approx([900_000, 250_000])
    assert one.tpots_us[0] == pytest.approx(200_000) and one.tpots_us[1] is None
    assert sorted(one.gaps_us) == pytest.approx([100_000, 300_000]) and list(one.gaps_us.values()) == [1, 1]
    assert math.isnan(measured(Targets(), one).throughput_tps)
