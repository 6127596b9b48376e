"""plan's search: edges by hand and against a brute force, the rule, servers, hours and bursts."""

import math
import random

import pytest
from common import Requests, percentile
from files.costs import Costs, Server
from paging import clock
from plan_acceptance import trial
from planning.answers import most_running, setups_tried
from planning.arrivals import own_rps
from planning.engine import Measures, Targets, Traffic, simulate
from planning.loads import LONG, Problem, Setup, run_at, stream_for
from planning.replays import REPLAYS, block_rows
from planning.search import Edge, Found, Z, capacity_of, carried, edge_of, last_met, loads_of, rounded_down
from planning.search import rps_of, stream_edge
from planning.servers import after_burst, by_hour, search_servers

PLAIN = Server(Costs(), False)  # so that times can be told by hand: 0.05 ms a token, 8 ms a step
ONE = Setup(PLAIN, 1)  # one slot
PAIRS = Traffic(Requests([20] * 800, [1] * 800), [100_000 * (i // 2) + 10_000 * (i % 2) for i in range(800)], None)


def trace_edge(problem, setup, capacity):
    return stream_edge(problem, setup, capacity, None, None)


def problem(traffic, ttft_ms=200.0, tpot_ms=50.0, block=None):
    targets, own = Targets(99, ttft_ms, tpot_ms), own_rps(traffic.arrivals_us)
    return Problem(targets, traffic, block or block_rows(traffic), own or 1.0)


# --- loads ------------------------------------------------------------------------------------------


def test_loads_are_five_percent_apart_and_short():
    for capacity in (0.0123, 1, 1.049, 1.05, 9.99, 343, 1e6):
        loads = loads_of(ONE, capacity)
        assert loads[-1] <= capacity < 1.08 * loads[-1] and capacity / 1000 < 1.3 * loads[0] < capacity / 500
        assert len(loads) == 141 and all(1.025 < b / a < 1.08 for a, b in zip(loads, loads[1:]))
    assert rps_of(0) == 1 and rps_of(48) == 10 and rps_of(1) == 1.05 and rps_of(-48) == 0.1
    clients = loads_of(Setup(PLAIN, 8, closed_to=50), None)
    assert clients[:22] == [*range(1, 23)] and clients[-2:] == [48, 50]
    assert loads_of(ONE._replace(closed_to=1), None) == [1]
    assert [rounded_down(rps) for rps in (7.39, 1.238, 12.99, 0.0219, 2.0, 990, 19.99)] == \
        [7.3, 1.23, 12.9, 0.021, 2, 990, 19.9]


def test_whatever_is_simulated_is_long():
    """800 requests at each server, six for each slot or client, and the whole trace."""
    def rows(setup, n=10):
        traffic = Traffic(Requests([20] * n, [1] * n), list(range(0, 1_000 * n, 1_000)), None)
        return len(stream_for(problem(traffic), setup, 3).arrivals_us)

    assert (rows(ONE), rows(Setup(PLAIN, 200)), rows(Setup(PLAIN, 8, closed_to=256))) == (LONG, 1_200, 1_536)
    assert (rows(Setup(PLAIN, 8, servers=5)), rows(Setup(PLAIN, 8, servers=5), 9_000)) == (4_000, 9_000)


def test_requests_are_dealt_to_the_servers_in_turn():
    """Of three at one moment, the first and the third go to the first server of two, in one slot each."""
    three = Traffic(Requests([20, 20, 40], [1, 1, 1]), [0, 0, 0], [[("a", 16)], [], []])
    assert run_at(ONE._replace(servers=2), three, 1.0, 1.0)[:3] == ([9_000, 19_000, 9_000], [None] * 3,
                                                                    [9_000, 19_000, 9_000])
    twice = run_at(ONE, three._replace(arrivals_us=[0, 40_000, 80_000]), 4.0, 2.0)
    assert twice.span_us == 50_000, "twice as fast"
    two = run_at(ONE._replace(servers=2), three._replace(arrivals_us=[0, 40_000, 80_000]), 4.0, 2.0)
    assert two.span_us == 30_000, "each at this load, so four times as fast"
    many = Traffic(Requests([20] * 40, [1] * 40), [0] * 40, None)
    assert len(run_at(ONE._replace(servers=20), many, 1.0, 1.0).ttfts_us) == 16, "the first eight of twenty"


def test_the_first_request_of_each_client_is_not_measured():
    """Two clients of one slot: the very first request takes 9 ms, all later ones wait for the other's, 18 ms."""
    setup = ONE._replace(closed_to=2)
    traffic = Traffic(Requests([20] * 6, [1] * 6), None, None)
    assert simulate(PLAIN, traffic, 1, 2).ttfts_us[0] == 9_000
    assert run_at(setup, traffic, 2, 1.0)[:3] == ([18_000] * 4, [None] * 4, [18_000] * 4)


# --- edges ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slope", [0.01, 0.2, 3.0])
@pytest.mark.parametrize("true_edge", [0, 1, 39, 40, 44, 57, 60])
def test_the_edge_is_found_from_any_start(true_edge, slope):
    for start in (-59, 0, 10, 40, 59, 60, 99):
        asked = []
        found = last_met(lambda rung: asked.append(rung) or slope * (rung - true_edge - 0.5), start, 60)
        assert found == true_edge and len(asked) == len(set(asked)) < 16 and set(asked) <= set(range(61))
    assert last_met(lambda rung: 1.0, 3, 60) is None
    near = []
    assert last_met(lambda rung: near.append(rung) or 0.05 * (rung - 7.5), 7, 60) == 7 and near == [7, 8]


def test_an_open_loop_worked_by_hand():
    """Pairs 10 ms apart, one slot, 9 ms each. At L times the rate the second of a pair waits 9 - 10 / L, and the p99
    is 18 - 10 / L. Within 12 ms: L <= 5/3, times 799 / 39.91 s: 33.37 requests/s. The rungs there: 33 and 35. Replays
    of one block are the trace, begun elsewhere. A server that is 10 % slower: 18 - 10 / L within 12 / 1.1, L <= 1.412,
    28.3: the rung of 27, and that by 1.1."""
    pairs = problem(PAIRS, 12.0, block=800)
    capacity = capacity_of(pairs, ONE)
    edge = trace_edge(pairs, ONE, capacity)
    assert capacity == pytest.approx(1000 / 9, rel=0.01)
    assert (edge.load, edge.above()) == (33, 35) and edge.tried[35].share(pairs.targets)[1] == "ttft_ms"
    found = Found(ONE, capacity, edge, [stream_edge(pairs, ONE, capacity, 33, seed) for seed in range(REPLAYS)])
    assert found.edges() == [33] * 20 and found.state == "answer" and found.answer() == 33
    assert found.replays[4].slower == pytest.approx(27 / 1.1) and found.replays[5].slower is None
    assert found.answer(slower=True) == 24 and found.bound(pairs.targets) == {"ttft_ms": 20}


def test_no_load_above_the_capacity_and_none_at_all():
    """Within 40 ms no load of pairs misses, up to the capacity of 111 a second; within 8 ms none meets."""
    edge = trace_edge(problem(PAIRS, 40.0), ONE, 111.0)
    assert edge.load == max(edge.tried) == 110 and edge.above() is None
    none = trace_edge(problem(PAIRS, 8.9), ONE, 111.0)
    assert none[:2] == (None, None) and min(none.tried) == pytest.approx(0.13, rel=0.1)
    assert trace_edge(problem(PAIRS, 40.0), ONE._replace(gateway=1), capacity_of(problem(PAIRS), ONE)).load == 110
    two, gateway = Setup(PLAIN, 2), Setup(PLAIN, 2, gateway=1)
    assert capacity_of(problem(PAIRS), gateway) == capacity_of(problem(PAIRS), ONE) < capacity_of(problem(PAIRS), two)


def test_a_closed_loop_worked_by_hand():
    """N clients of one slot: each request waits for the N - 1 others, 9 N ms. Within 100 ms: 11; 10 % slower: 10."""
    clients = problem(Traffic(Requests([20] * 3, [1] * 3), None, None), 100.0)
    setup = ONE._replace(closed_to=256)
    edge = edge_of(clients, setup, stream_for(clients, setup, None), None, 16, True)
    assert (edge.load, edge.slower) == (11, 10) and edge.tried[11].ttft_ms == 99 and 12 in edge.tried
    assert trace_edge(clients, ONE._replace(closed_to=11), None).above() is None
    assert trace_edge(problem(Traffic(Requests([20] * 3, [1] * 3), None, None), 8.0), setup, None).load is None


def test_a_slower_server_is_the_same_on_a_slower_clock():
    """Ten times as long in all it does, at a tenth of the load: each time is ten times as long."""
    r = random.Random(3)
    traffic = Traffic(Requests([r.randint(1, 300) for _ in range(200)], [r.randint(1, 40) for _ in range(200)]),
                      sorted(r.randrange(4_000_000) for _ in range(200)), None)
    costs = Costs(50, 8_000, 100, 4_000)
    slow = costs._replace(**{field: 10 * getattr(costs, field) for field in costs._fields[:4]})
    fast, same = (run_at(Setup(Server(one), 16), traffic, load, 50.0) for one, load in ((costs, 60.0), (slow, 6.0)))
    assert fast.peak_running == same.peak_running > 8
    for ours, theirs in zip(fast[:3], same[:3]):
        assert [10 * us for us in ours if us] == pytest.approx([us for us in theirs if us], abs=20)


def brute_force(one, setup, traffic, rps):
    """Does the lesson's scheduler, request by request, say that the traffic meets the targets?"""
    arrivals = [round(us / (rps / one.nominal_rps)) for us in traffic.arrivals_us]
    served = clock.schedule(traffic.requests, setup.max_num_seqs, arrivals, clock.step_of(setup.server.costs),
                            block_size=16, max_num_batched_tokens=64, asynchronous=True, overhead_us=500)
    ttfts = [first - sent for first, sent in zip(served.first_token_us, arrivals)]
    tpots = [(last - first) / (output - 1) for first, last, output
             in zip(served.first_token_us, served.finished_us, traffic.requests.output_tokens) if output > 1]
    return percentile(ttfts, 99) <= 1000 * one.targets.ttft_ms and percentile(tpots, 99) <= 1000 * one.targets.tpot_ms


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_edges_against_a_brute_force(seed):
    """On a small random trace and a replay: the edge meets the targets by definition, and the next rung does not."""
    r = random.Random(seed)
    requests = Requests([r.randint(1, 90) for _ in range(30)], [r.randint(1, 12) for _ in range(30)])
    arrivals_us = sorted(r.randrange(2_000_000) for _ in range(30))
    traffic = Traffic(requests, [us - arrivals_us[0] for us in arrivals_us], None)
    one, setup = problem(traffic, 60.0, 15.0), Setup(Server(Costs(overhead_us=500), max_num_batched_tokens=64), 4)
    capacity = capacity_of(one, setup)
    for seed, edge in ((None, trace_edge(one, setup, capacity)), (5, stream_edge(one, setup, capacity, 20.0, 5))):
        stream = stream_for(one, setup, seed)
        assert brute_force(one, setup, stream, edge.load)
        assert not edge.above() or not brute_force(one, setup, stream, edge.above())


# --- the rule ---------------------------------------------------------------------------------------


def test_the_rule_by_hand():
    """Ten edges of 9 and ten of 10: logarithms +-0.0527 from their mean, standard deviation 0.0527 x sqrt(20 / 19)."""
    nines = [9.0] * 10 + [10.0] * 10
    off = math.log(10 / 9) / 2 * math.sqrt(20 / 19)
    assert carried(99, nines) == pytest.approx(9.5 * math.exp(-Z * off))
    assert carried(5, nines) == pytest.approx(5 * math.exp(-Z * off)), "the trace's own edge, if it is lower"
    assert carried(99, nines, 0) == 9.5 and carried(99, [10.0] * 20) == 10
    assert carried(99, [10.0] * 19 + [0.1], 2.6) == 5, "half at least: one replay does not decide"


def edge(load, slower=None, highest=False):
    tried = {load or 1: Measures(100, 20, 900, 25, 99, 1, 7), (load or 1) * 2: Measures(300, 20, 900, 25, 99, 0.5, 9)}
    return Edge(load, slower, {load: tried[load]} if highest else tried)


def found(load, trace=None, setup=ONE, slower=0.9, highest=False):
    replays = [edge(load, load and slower and slower * load, highest)] * REPLAYS
    return Found(setup, 50.0, edge(trace or load, None, highest), replays)


def test_states_of_an_answer():
    ten = found(10.0)
    assert (ten.state, ten.answer(), ten.answer(slower=True)) == ("answer", 10, 9)
    assert found(10.0, 8.0).answer() == 8 and [found(10.0, own).decides.load for own in (8.0, 12.0)] == [8, 10]
    assert found(10.0, highest=True).state == "no_edge"
    assert ten._replace(trace=edge(None)).state == "none" and ten._replace(trace=edge(None)).answer() is None
    half = ten._replace(replays=[edge(None)] * 10 + [edge(10.0)] * 10)
    assert half.state == "none" and half._replace(replays=[edge(None)] * 9 + [edge(10.0)] * 11).state == "answer"
    assert half.edges() == [1] * 10 + [10] * 10, "without an edge: the lowest load that was tried"
    assert found(10.0, slower=None).answer(slower=True) is None
    closed = found(10, setup=ONE._replace(closed_to=99), slower=0.98)
    assert (closed.answer(), closed.answer(slower=True)) == (10, 9)
    few = found(1, setup=ONE._replace(closed_to=99), slower=None)
    assert few._replace(replays=[edge(1)] * 19 + [edge(9)]).answer() == 1, "less than one client is one"
    assert repr(few._replace(replays=[edge(1)] * 19 + [edge(9)]).answer()) == "1", "a number, and not True"


def test_accepted_loads_are_met_by_fresh_traffic(monkeypatch):
    """The small version of plan_acceptance.py, with streams a quarter as long."""
    monkeypatch.setattr("planning.loads.LONG", 200)
    kept = [theirs >= one.answer() for seed in (1, 3) for one, edges in [trial("few_rows", seed)] for theirs in edges]
    assert sum(kept) >= 13, "of 16"


# --- which setup ------------------------------------------------------------------------------------


def test_setups_that_cannot_win_are_not_searched():
    """Pairs at one moment, 10 ms allowed: both in one step take 1 + 1 + 8 ms, in two slots or more, up to 200 a second.
    One slot has a capacity of 111, so it is not searched. Above the edge a third one runs: more than three slots are
    alike."""
    pairs = problem(PAIRS._replace(arrivals_us=[100_000 * (i // 2) for i in range(800)]), 10.0)
    tried, alike = setups_tried(pairs, [Setup(PLAIN, limit) for limit in (1, 2, 3, 4, 9)], 1)
    assert [one.setup.max_num_seqs for one in tried] == [1, 2, 3, 4] and alike == (4, 9)
    assert tried[0].capacity_rps == pytest.approx(111, rel=0.01) and tried[0].trace is None
    assert [one.trace.load for one in tried[1:]] == [196] * 3


def test_the_most_that_ran_at_the_edge_and_one_above():
    def running(load):
        tried = {float(at): Measures(1, 1, 1, 1, 1, 1, peak) for at, peak in ((1, 3), (2, 4), (3, 7), (4, 99))}
        return most_running(Edge(load, None, tried))

    assert (running(2.0), running(4.0), running(None)) == (7, 99, 4)


# --- servers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rps, among, servers, asked", [
    (10, {}, 1, []), (100, {10: 12.0, 9: 12.0}, 9, [10, 9]), (100, {10: 10.2}, 10, [10]), (11, {2: 20.0}, 2, [2]),
    (2000, {100: 12.5}, 160, [100]), (100, {10: 5.0, 20: 6.0, 17: 6.0}, 17, [10, 20, 17]),
])
def test_servers_worked_by_hand(rps, among, servers, asked):
    """One server alone carries 10; dealing changes that to what stands in `among`."""
    tried = []
    fleet = search_servers(found(10.0), rps, lambda one, near: tried.append(one.servers) or found(among[one.servers]))
    assert (fleet.servers, tried) == (servers, asked) and fleet.slower >= servers


def test_servers_where_one_alone_carries_nothing():
    """Of 50 a second at capacity: two are tried, then four; if not even 100 carry anything, there is no number."""
    tried = []

    def search(setup, near):
        tried.append(setup.servers)
        return found(None if setup.servers < most else 20.0)

    for most, servers in ((4, 5), (101, None)):
        tried.clear()
        fleet = search_servers(found(None), 90.0, search)
        assert (fleet and fleet.servers) == servers and tried[:3] == [2, 4, 5 if servers else 8]


def test_more_servers_carry_what_one_alone_cannot():
    """Pairs at one moment, 10 ms allowed: of one slot the second waits 9 ms; dealt to two servers nobody waits."""
    pairs = problem(PAIRS._replace(arrivals_us=[100_000 * (i // 2) for i in range(800)]), 10.0, block=800)
    assert trace_edge(pairs, ONE, 111.0).load is None and trace_edge(pairs, ONE._replace(servers=2), 111.0).load > 90


def test_hours_worked_by_hand():
    """3,600 requests of 9 ms in the first hour, 1,800 of 25 ms in the second, 9 in the third, and some left over. The
    second hour is busiest, 1,800 x 25 against 3,600 x 9: of ten servers the first one needs 7.2."""
    arrivals_us = [1_000_000 * i for i in range(3_600)] + [3_600_000_000 + 2_000_000 * i for i in range(1_800)]
    arrivals_us += [7_200_000_000 + i for i in range(9)] + [10_800_000_000]
    n = len(arrivals_us)
    traffic = Traffic(Requests([20] * n, [1] * 3_600 + [3] * (n - 3_600)), arrivals_us, None)
    assert by_hour(problem(traffic), ONE, 10) == [8, 10, 1]


def test_a_burst_worked_by_hand():
    """50 requests/s of 9 ms each in one slot, three times as many for 1 s: 150 come, 111 a second go, so 39 wait, and
    61 a second more go than come: 0.64 s. The last of them waits 39 x 9 ms."""
    steady = problem(Traffic(Requests([20] * 900, [1] * 900), [20_000 * i for i in range(900)], None), 300.0)
    burst = after_burst(steady, ONE, 50.0, 3, 1)
    assert burst.empty_s == pytest.approx(0.64, abs=0.05) and burst.rps == 50
    assert burst.measures.ttft_ms == pytest.approx(350, abs=15) and not burst.measures.meets(steady.targets)
    calm = after_burst(steady, ONE, 20.0, 3, 1)
    assert calm.empty_s == 0 and calm.measures.ttft_ms == 9
    assert after_burst(steady, ONE, 0.1, 3, 1).measures.ttft_ms == 9, "one request comes at least"
    assert after_burst(steady, ONE, 100.0, 3, 40).empty_s is None, "400 s do not suffice for 7,600 at 11 a second"
    assert after_burst(steady, ONE, 50.0, 3, 9_999) is None, "too many requests"
