"""plan's engine, arrivals, replays and searches: by hand, against a brute force, and what they must never do."""

import random
from collections import Counter
from itertools import accumulate

import common
from paging import clock as paged_time
import pytest
from files.costs import Costs
from common import Requests
from plan_acceptance import KINDS, accepted, fresh, met
from planning.arrivals import Grid, grid_of, most_at_once, own_rps, poisson, scaled, spread
from paging.scheduler import UNLIMITED
from planning.answers import Asked, answers
from files.benchmarks import Bench
from planning.engine import Play, Server, Targets, Traffic, alone, blocks_of, capacity_rps
from paging.clock import percentile_of_counts
from planning.engine import measured, play, together
from planning.replays import REPLAYS, block_rows, by_chance, drawn, draws, gaps_of, memory, remembered, renamed, replay
from planning.replays import replay_range, replays
from planning.replicas import accepted_above, fewest, search_replicas
from planning.search import client_counts, edge, rps_of, rung_below, search, search_closed, search_open
from planning.trials import Load, Problem, Trials, few_bursts, look, play_of, slower, tail_bursts

PLAIN = Server(Costs(), 2048, asynchronous=False)  # so that times can be told by hand: 0.05 ms a token, 8 ms a step
PAIRS = Traffic(Requests([20] * 4, [1] * 4), [0, 10_000, 100_000, 110_000], None)  # 9 ms each


def problem(traffic, ttft_ms=200.0, tpot_ms=50.0, server=PLAIN, all_replays=None, **more):
    """A Problem whose replays are the trace itself, unless others are given."""
    own = own_rps(traffic.arrivals_us) or 1.0
    return Problem(server, Targets(99, ttft_ms, tpot_ms), draws(traffic), all_replays or draws(traffic)[:1] * 20, own,
                   **more)


# --- the engine -------------------------------------------------------------------------------------


def test_percentiles_have_one_decimal():
    assert percentile_of_counts(dict.fromkeys(range(1001), 1), 99.9) == 999
    assert percentile_of_counts({7: 1}, 99) == 7 and percentile_of_counts({}, 99) is None


def test_a_request_worked_by_hand():
    """20 prompt tokens and 5 output tokens: TTFT 4 + 1 + 8 = 13 ms, then 4 gaps of 8 ms; E2E 45 ms."""
    server = Server(Costs(overhead_us=4_000))
    one = measured(Targets(), [play(server, Traffic(Requests([20], [5]), [0], None), 4)])
    assert one[:4] == (13, 8, 45, 8) and one.peak_running == 1
    assert one.throughput_tps == pytest.approx(5 / 0.045)


def test_each_target_counts_and_a_request_of_one_token_has_no_tpot():
    one = measured(Targets(), [play(PLAIN, Traffic(Requests([20], [5]), [0], None), 4)])
    for name, value in zip(("ttft_ms", "tpot_ms", "e2e_ms", "itl_ms"), one[:4]):
        assert one.meets(Targets()._replace(**{name: value})) and \
            not one.meets(Targets()._replace(**{name: value - 0.01}))
    single = measured(Targets(), [play(PLAIN, Traffic(Requests([20], [1]), [0], None), 4)])
    assert single.tpot_ms is None and single.itl_ms is None and single.meets(Targets(99, 9, 0.001, 9, 0.001))


def test_goodput_is_the_share_that_meets_all_targets_together():
    """Pairs of one slot: half of them wait 9 ms for the other, so TTFT 9, 18, 9, 18."""
    pairs = PAIRS._replace(arrivals_us=[0, 0, 100_000, 100_000])
    assert measured(Targets(99, 17, 50), [play(PLAIN, pairs, 1)]).goodput == 0.5
    assert measured(Targets(99, 18, 50), [play(PLAIN, pairs, 1)]).goodput == 1


def test_waiting_at_a_gateway_counts():
    """A gateway that lets one through: as with one slot, the second of a pair waits 9 ms."""
    pairs = PAIRS._replace(arrivals_us=[0, 0, 100_000, 100_000])
    assert play(PLAIN, pairs, 8, clients=1).ttfts_us == [9_000, 18_000] * 2
    assert play(PLAIN, pairs, 8, clients=2).ttfts_us == [10_000] * 4, "both in one step: 2 ms of prefill and a pass"


def test_capacity_worked_by_hand():
    """One slot and 9 ms each: 111.1 a second. Of 64 slots in steps of 2.758 ms, 64 tokens each: 362 a second at
    most."""
    assert capacity_rps(PLAIN, PAIRS, 1) == pytest.approx(1000 / 9, rel=0.01)
    short = Traffic(Requests([157] * 64, [64] * 64), None, None)
    server = Server(Costs(0, 1_990, 12, 6_129))
    assert capacity_rps(server, short, 64) == pytest.approx(1e6 / (1_990 + 12 * 64), rel=0.05)
    assert capacity_rps(PLAIN, PAIRS, 1_000_000) > capacity_rps(PLAIN, PAIRS, 8)


def test_alone_no_request_meets_another():
    one = alone(PLAIN, PAIRS._replace(requests=Requests([20, 200, 20, 20], [1, 3, 1, 1])))
    assert sorted(one.ttfts_us) == [9_000] * 3 + [18_000] and sorted(one.e2es_us) == [9_000] * 3 + [34_000]


def test_capacity_is_read_when_the_last_one_enters():
    """Ten of 9 ms, one after the other in one slot: the last one enters at 81 ms, when nine have ended. A list of one
    is repeated ten times, one of two (9 ms, and 1 + 9 x 8 ms) five times."""
    ten = Traffic(Requests([20] * 10, [1] * 10), None, None)
    one, two = Traffic(Requests([20], [1]), None, None), Traffic(Requests([20, 20], [1, 9]), None, None)
    assert capacity_rps(PLAIN, ten, 1) == capacity_rps(PLAIN, one, 1) == pytest.approx(9 / 0.081)
    assert capacity_rps(PLAIN, two, 1) == pytest.approx(9 / (5 * 0.009 + 4 * 0.073))
    twelve = Traffic(Requests([20] * 12, [9] * 11 + [1]), None, None)
    assert capacity_rps(PLAIN, twelve, 1) == pytest.approx(11 / (11 * 0.073))


def test_capacity_of_requests_that_all_run_at_once():
    """With as many slots as requests all end in one step: 200,000 tokens and 8 ms."""
    many = Traffic(Requests([20] * 10_000, [1] * 10_000), None, None)
    server = Server(Costs(), 1_000_000, asynchronous=False)
    assert capacity_rps(server, many, 10_000) == pytest.approx(10_000 / 10.008)


def test_blocks_that_a_cache_gives():
    """vLLM keeps one of its blocks of 16 for itself."""
    assert [blocks_of(tokens) for tokens in (32, 47, 48, 4_000)] == [1, 1, 2, 249] and blocks_of(None) == UNLIMITED


def test_several_servers_are_one():
    one = Play([1, 2], [None, 5], [3, 9], Counter({5: 2}), 7, 40, 3)
    other = Play([4], [6], [8], Counter({5: 1, 6: 1}), 2, 50, 2)
    assert together([one, other]) == Play([1, 2, 4], [None, 5, 6], [3, 9, 8], Counter({5: 3, 6: 1}), 9, 50, 3)
    assert together([other, one])[4:] == (9, 50, 3) and together([one]) is one


def test_plays_one_after_the_other_are_pooled():
    one = Play([1_000, 3_000], [None, 5_000], [3_000, 9_000], Counter({5_000: 1}), 7, 1_000_000, 3)
    other = Play([2_000], [7_000], [8_000], Counter({6_000: 1}), 2, 500_000, 5)
    found = measured(Targets(50, 2, 6, 9), [one, other])
    assert found == (2, 6, 8, 5.5, 6, 1 / 3, 5), "only the first meets all: 3 ms and 7 ms are too long"
    assert measured(Targets(50, 3, 7, 8), [one, other]).goodput == 2 / 3, "E2E counts, too"
    assert measured(Targets(50, 3, 7, 9), [one, other]).goodput == 1


# --- arrivals ---------------------------------------------------------------------------------------


def test_rates_and_grids():
    assert own_rps([0, 500_000, 1_000_000]) == 2 and own_rps([0, 0, 500_000]) == 4
    assert own_rps([0, 0]) is own_rps([0]) is own_rps(None) is None
    assert scaled([0, 300, 1000], 2) == [0, 150, 500] and most_at_once([0, 0, 5, 5, 5]) == 3
    assert spread([0, 0, 1_000_000, 2_000_000, 2_000_000, 2_000_000], 900) == \
        [0, 450, 1_000_000, 2_000_000, 2_000_300, 2_000_600]
    ten = [0, 0, *range(1_000_000, 9_000_000, 1_000_000)]
    assert grid_of(1_000_000, ten) == Grid(1_000_000, 9, 2), "a tenth shares its moment"
    assert grid_of(1_000_000, [*ten, 9_000_000]) is None, "less than a tenth does: no harm"
    assert grid_of(None, [0, 0, 1]) is None


# --- replays ----------------------------------------------------------------------------------------


def rows_traffic(n, kind=0):
    return fresh(KINDS[kind], 1, n)


def test_a_replay_is_made_of_blocks_of_consecutive_rows():
    rows = drawn(1000, 50, random.Random(3))
    assert len(rows) == 1000 and set(rows) <= set(range(1000))
    for start in range(0, 1000, 50):
        assert all(b == (a + 1) % 1000 for a, b in zip(rows[start : start + 49], rows[start + 1 : start + 50]))
    assert len({rows[start] for start in range(0, 1000, 50)}) < 20, "drawn twice: some blocks come again"


def test_replays_keep_rows_together_and_never_change():
    traffic = rows_traffic(300)
    first = replay(traffic, 7, 0)
    assert first == replay(traffic, 7, 0) != replay(traffic, 7, 1) and len(replays(traffic, 7)) == REPLAYS
    triples = set(zip(gaps_of(traffic.arrivals_us), *traffic.requests))
    assert set(zip(gaps_of(first.arrivals_us)[1:], *(column[1:] for column in first.requests))) <= triples
    assert first.arrivals_us[0] == 0 and first.arrivals_us == sorted(first.arrivals_us)


def test_the_replays_rate_is_the_traces_on_average():
    traffic = rows_traffic(1000)
    rates = [own_rps(one.arrivals_us) for one in replays(traffic, block_rows(traffic))]
    assert sum(rates) / 20 == pytest.approx(own_rps(traffic.arrivals_us), rel=0.05) and len(set(rates)) == 20


def test_a_list_gets_poisson_arrivals_and_as_many_draws_as_make_20_000_requests():
    a_list = Traffic(Requests([20] * 2_000, [1] * 2_000), None, None)
    assert len(draws(a_list)) == 10 and len(draws(PAIRS)) == 1 and len(draws(PAIRS._replace(arrivals_us=None))) == 20
    assert own_rps(replay(a_list, 1, 0).arrivals_us) == pytest.approx(1, rel=0.1)
    assert replay(a_list, 1, 0).arrivals_us not in [draw.arrivals_us for draw in draws(a_list)]


def test_blocks_are_longer_where_rows_remember_and_at_most_a_tenth():
    r = random.Random(5)
    alike = [r.random() for _ in range(4_000)]
    in_rows = [value for value in alike[:200] for _ in range(20)]
    assert memory(alike) < 1.6 and memory(in_rows) == pytest.approx(20, rel=0.4) and memory([3] * 10) == 1
    steady, bursty = rows_traffic(2_000), rows_traffic(2_000, 2)
    assert 12 <= block_rows(steady) < 25 < block_rows(bursty) <= 200
    assert block_rows(PAIRS) == 1
    assert block_rows(Traffic(Requests([20] * 400 + [900] * 400, [1] * 800), None, None)) == 80


def test_a_row_drawn_again_shares_nothing_with_its_first_copy():
    prefixes = [[("a", 16)], [("a", 16), ("b", 32)]]
    assert renamed(prefixes, [0, 1, 0]) == [[(("a", 0), 16)], [(("a", 0), 16), (("b", 0), 32)], [(("a", 1), 16)]]


def test_the_range_of_the_middle_18():
    assert replay_range(list(range(20))) == (1, 18)
    assert replay_range(list(range(19))) is None and replay_range([None] * 20) is None


def test_gaps_and_what_chance_remembers():
    assert gaps_of([0, 10, 31]) == [16, 10, 21] and gaps_of([0]) == [0]
    assert by_chance(10_000) == pytest.approx(1 + 3 * 0.02**0.5) and by_chance(16) == pytest.approx(1 + 3 * 0.5**0.5)


def test_what_rows_remember_is_that_of_the_column_that_remembers_most():
    """Sixteen rows, four means of four: of 0 and 1 in blocks of four, their variance is four times that of a
    quarter."""
    blocks, turns = [0, 0, 0, 0, 1, 1, 1, 1] * 2, [0, 1] * 8
    assert memory(blocks) == 4 and memory(turns) == 1 and memory([*blocks, 7]) < 4
    assert memory([5]) == 1
    assert remembered(Traffic(Requests(turns, blocks), None, None)) == 4
    by_gaps = list(accumulate(10 if gap else 90 for gap in blocks))
    assert remembered(Traffic(Requests(turns, turns), [us - by_gaps[0] for us in by_gaps], None)) > 2
    eight = Traffic(Requests([20] * 1_000, [1] * 1_000), None, None)
    assert block_rows(eight) == 10, "1 x the cube root"
    assert block_rows(Traffic(Requests(turns, blocks), None, None)) == 1, "a tenth of sixteen"


def test_draws_and_replays_of_a_list_are_step_6s():
    a_list = Traffic(Requests([20] * 30_000, [1] * 30_000), None, None)
    assert [draw.arrivals_us[:9] for draw in draws(a_list)] == [poisson(0, 30_000)[:9]], "one at least"
    short = Traffic(Requests([20] * 9, [1] * 9), None, None)
    assert [draw.arrivals_us for draw in draws(short)] == [poisson(seed, 9) for seed in range(20)]
    assert [replay.arrivals_us for replay in replays(short, 1)] == [poisson(seed, 9) for seed in range(20, 40)]
    assert poisson(3, 9) != poisson(4, 9)


# --- searches ---------------------------------------------------------------------------------------


def test_rungs_are_five_percent_apart_and_short():
    rates = [rps_of(rung) for rung in range(-150, 200)]
    assert rps_of(0) == 1 and rps_of(48) == 10 and rps_of(1) == 1.05 and rps_of(-48) == 0.1
    assert all(1.025 < b / a < 1.08 for a, b in zip(rates, rates[1:]))
    assert all(rate == float(f"{rate:.{3 if f'{rate:e}' < '2' else 2}g}")
               for rate in rates), "two digits, three below 2"
    for rate in (0.0123, 1, 1.049, 1.05, 9.99, 343, 1e6):
        rung = rung_below(rate)
        assert rps_of(rung) <= rate < rps_of(rung + 1)


@pytest.mark.parametrize("true_edge", [-30, -1, 0, 3, 4, 5, 17, 20])
def test_the_edge_is_found_from_any_start(true_edge):
    for start in (-30, 0, 20):
        assert edge(lambda rung: rung <= true_edge, start, -40, 20) == true_edge
    assert edge(lambda rung: False, 3, -40, 20) is None


def test_the_edge_is_the_first_miss_within_four_rungs():
    assert edge(lambda rung: rung not in (6, 9), 5, 0, 20) == 5
    assert edge(lambda rung: rung < 8 or rung == 10, 0, 0, 20) == 7


def asked_by(true_edge, start, lowest, highest):
    """The rungs that edge() asks for."""
    asked = []
    edge(lambda rung: asked.append(rung) or rung <= true_edge, start, lowest, highest)
    return asked


def test_the_edge_is_sought_by_halves_then_by_fours_then_singly():
    assert asked_by(-99, 0, -30, 20) == [0, -14, -28, -30]
    assert asked_by(6, 0, -30, 20) == [0, 4, 8, 5, 6, 7] and asked_by(99, 0, -30, 9) == [0, 4, 8, 9]
    assert asked_by(-20, 0, -30, 20) == [0, -14, -28, -24, -20, -16, -19]


class Told:
    """Trials of rungs that were told: the trace meets up to one, all replays meet up to another."""

    problem = None

    def __init__(self, trace, replays):
        self.trace, self.replays = trace, replays

    def trace_meets(self, rung):
        return rung <= self.trace

    def accepted(self, rung):
        return rung <= self.replays


@pytest.mark.parametrize("trace, all_replays, few, answer", [
    (10, 10, False, (10, False)), (10, 10, True, (8, False)), (10, 7, True, (5, False)), (10, -32, False, (-32, False)),
    (10, -33, False, (None, False)), (10, -32, True, (-32, False)), (10, -31, True, (-32, False)),
    (20, 20, True, (20, True)),
    (20, 20, False, (20, True)), (-61, 0, False, (None, False)), (-60, 0, False, (-60, False)),
    (-60, -60, True, (-60, False)),
])
def test_from_the_traces_edge_down_to_what_all_replays_meet(monkeypatch, trace, all_replays, few, answer):
    """Down to an eighth, 42 rungs; two further where the slowest lie in a few bursts, unless it is the highest of
    all."""
    monkeypatch.setattr("planning.search.few_bursts", lambda problem, load: few)
    assert search(Told(trace, all_replays), lambda rung: rung, 0, -60, 20) == answer


def test_how_far_down_the_trace_is_tried():
    """Four at one moment miss at any rate: ten halves down from half the capacity, which is 110."""
    dense = PAIRS._replace(arrivals_us=[0, 0, 0, 1_000])
    found = search_open(problem(dense, 17.0), 1)
    first = rung_below(110) - 14
    assert [point.load.rps for point in found.points] == [rps_of(first - 14 * i) for i in range(10, -1, -1)]
    assert [point.load.rps for point in search_open(problem(dense, 17.0), 1, start=20.0).points][-1] == 19.6
    assert [point.load.rps for point in search_open(problem(dense, 17.0), 1, start=999.0).points][-1] == \
        110, "the capacity"


def test_a_gateway_bounds_the_capacity():
    pairs = problem(PAIRS, 40.0)
    one, two = search_open(pairs, 2).capacity_rps, search_open(pairs, 1).capacity_rps
    assert search_open(pairs._replace(clients=1), 2).capacity_rps == two < one
    assert search_open(pairs._replace(clients=3), 2).capacity_rps == one


def test_where_a_closed_loop_begins():
    forty = problem(Traffic(Requests([20] * 40, [1] * 40), None, None), 8.0)

    def tried(*more):
        return [point.load.clients for point in search_closed(forty, 8, *more).points]

    assert tried(256) == [1, 2, 16] and tried(9) == [1, 9] and tried(256, 3) == [1, 3] and tried(256, 1) == [1]
    assert tried(256, 100) == [1, 7, 21, 40], "as many as there are requests"


def test_limits_that_no_sequence_reaches_are_alike():
    """Two requests come together each time, and never more than two run: 2 and 3 are alike, 1 is searched by
    itself. (tune.py takes three: 8 + 3 ms.)"""
    pairs = Traffic(Requests([20] * 8, [1] * 8),
                    [0, 0, *(us for us in range(100_000, 400_000, 100_000) for _ in "ab")], None)
    found = answers(problem(pairs, 11.0), Asked([1, 2, 3], 2, None, 0, None), 1)
    assert found.most_running == 2 and found.alike == (2, 3) and list(found.open) == [1, 2] and found.limit == 2
    assert found.open[1].best is None and found.open[2].best.load.max_num_seqs == 2
    assert found.replicas is found.check is None and found.tune == 3 and found.bursts is None


def test_what_is_asked_is_answered(monkeypatch):
    """Pairs at one moment of one or two slots; a run of the same requests is checked with the largest limit."""
    traffic = Traffic(Requests([20] * 8, [1] * 8), [100_000 * (i // 2) for i in range(8)], None)
    pairs = problem(traffic, 11.0, burst_rows=1)
    run = Bench("r", [20] * 8, [1] * 8, [0.1 * (i // 2) for i in range(8)], [0.01] * 8, [[]] * 8, None, None, False,
                None, 0, [])
    asked = Asked([1, 2], 2, 400.0, 0, run)
    found = answers(pairs, asked, 1)
    assert found.replicas.best.load[:2] == found.slower_replicas.best.load[:2] == (2, 400.0)
    assert (found.replicas.best.trace.ttft_ms, found.slower_replicas.best.trace.ttft_ms) == (9, 9.9)
    assert found.check.predicted.load == Load(2, pytest.approx(own_rps(traffic.arrivals_us)))
    assert found.bursts == tail_bursts(pairs, found.open[2].best.load)
    assert (found.open[2].best.trace.ttft_ms, found.slower_open.best.trace.ttft_ms) == (10, 11)
    assert (found.closed.best.load.clients, found.slower_closed.best.load.clients) == (1, 1)
    assert {point.load.max_num_seqs for point in found.around} == {2} and \
        all(len(point.replays) == 20 for point in found.around)
    infeasible = answers(problem(traffic, 8.0), asked, 1)
    assert not infeasible.feasible and infeasible.check.predicted.load.max_num_seqs == 2 and infeasible.open == {}
    assert answers(problem(traffic, 8.0), asked._replace(run=None), 1) == infeasible._replace(check=None)
    plain = asked._replace(rps=None, run=None)
    none = answers(problem(traffic, 9.5), plain._replace(limits=[1]), 1)
    assert none.open[1].best is None and none.bursts is None and none.around == () and \
        none.replicas is none.check is None
    monkeypatch.setattr("planning.answers.SHORT", 8)
    assert answers(problem(traffic, 11.0), plain, 1).tune == 3
    monkeypatch.setattr("planning.answers.SHORT", 7)
    assert answers(problem(traffic, 11.0), plain, 1).tune is None
    monkeypatch.undo()
    six = answers(problem(traffic, 200.0), plain._replace(up_to=6), 1)
    assert six.closed.best.load.clients == 6 and [point.load.clients for point in six.slower_closed.points] == [6], \
        "it begins at the answer"
    ninety = problem(traffic, 11.0)._replace(targets=Targets(90, 11.0))
    assert answers(ninety, plain, 1).tune is None


def test_an_open_loop_worked_by_hand():
    """Pairs 10 ms apart, one slot, 9 ms each. At L times the rate the second of a pair waits 9 - 10 / L, and the p99 of
    9, 9 + d, 9, 9 + d is 9 + d. Within 12 ms: L <= 5/3, times 3 / 0.11 s: 45.45 requests/s. The rungs there: 44 and
    46."""
    found = search_open(problem(PAIRS, 12.0), 1)
    assert found.best.load == Load(1, 44.0) and not found.endless and found.best.met == 20
    assert found.best.trace.ttft_ms == pytest.approx(18 - 1000 * 3 / 11 / 44 * 10 / 10, abs=0.01)
    assert [point.load.rps for point in found.points if point.meets][-1] == 44
    assert any(point.load.rps == 46 and not point.meets for point in found.points)


def test_no_answer_above_capacity_however_short_the_trace():
    """Four requests 9 ms long of one slot: never more than 111 a second, though four at once wait only 36 ms."""
    found = search_open(problem(PAIRS, 40.0), 1)
    assert found.endless and max(point.load.rps for point in found.points) == 110.0 <= found.capacity_rps


def test_one_replay_that_misses_is_enough():
    """The 20th replay comes in fours: 36 ms of waiting where the trace has 18. Down to a load that both meet."""
    dense = PAIRS._replace(arrivals_us=[0, 0, 0, 0])
    refused = problem(PAIRS, 20.0, all_replays=[PAIRS] * 19 + [dense])
    found = search_open(refused, 1)
    assert found.best is None and not any(point.meets or point.met == 20 for point in found.points)
    assert any(point.trace.meets(refused.targets) for point in found.points)
    assert search_open(problem(PAIRS, 20.0, all_replays=[PAIRS] * 20), 1).best


def test_a_replay_that_missed_is_tried_first_and_the_others_not_at_all():
    dense = PAIRS._replace(arrivals_us=[0, 0, 0, 0])
    trials = Trials(problem(PAIRS, 20.0, all_replays=[PAIRS] * 19 + [dense]))
    assert not trials.accepted(Load(1, 10.0)) and len(trials.point(Load(1, 10.0)).replays) == 20
    assert not trials.accepted(Load(1, 9.5)) and len(trials.point(Load(1, 9.5)).replays) == 1
    assert len(look(trials.problem, Load(1, 9.5)).replays) == 20


def brute_force(one, rps):
    """Does the lesson's scheduler, request by request, say that the trace and all replays meet the targets?"""
    for traffic in (*one.traces, *one.replays):
        arrivals = [round(us / (rps / one.nominal_rps)) for us in traffic.arrivals_us]
        played = paged_time.schedule(traffic.requests, 4, arrivals, paged_time.step_of(one.server.costs), block_size=16,
                                max_num_batched_tokens=64, asynchronous=True, overhead_us=500)
        ttfts = [first - sent for first, sent in zip(played.first_token_us, arrivals)]
        tpots = [(last - first) / (output - 1) for first, last, output
                 in zip(played.first_token_us, played.finished_us, traffic.requests.output_tokens) if output > 1]
        if common.percentile(ttfts, 99) > 1000 * one.targets.ttft_ms or \
            common.percentile(tpots, 99) > 1000 * one.targets.tpot_ms:
            return False
    return True


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_answer_against_a_brute_force(seed):
    """On a small random trace: the accepted rung is accepted by definition, and the next one is not, or is above
    capacity."""
    r = random.Random(seed)
    requests = Requests([r.randint(1, 90) for _ in range(30)], [r.randint(1, 12) for _ in range(30)])
    traffic = Traffic(requests, sorted(r.randrange(2_000_000) for _ in range(30)), None)
    traffic = traffic._replace(arrivals_us=[us - traffic.arrivals_us[0] for us in traffic.arrivals_us])
    server = Server(Costs(overhead_us=500), 64)
    one = problem(traffic, 60.0, 15.0, server, replays(traffic, block_rows(traffic)))
    found = search_open(one, 4)
    rung = rung_below(found.best.load.rps)
    assert rps_of(rung) == found.best.load.rps and brute_force(one, rps_of(rung))
    assert found.endless or not brute_force(one, rps_of(rung + 1))


def test_a_closed_loop_worked_by_hand():
    """Requests of 9 ms alone. Two clients, a microsecond apart: the second waits for the first's step, and so on: 18
    ms."""
    three = Traffic(Requests([20] * 3, [1] * 3), None, None)
    one = problem(three, 17.0)
    assert search_closed(one, 8, 256).best.load.clients == 1
    found = search_closed(problem(three, 200.0), 8, 256)
    assert found.best.load.clients == 3 and found.endless
    assert search_closed(problem(three, 8.0), 8, 256).best is None


def test_few_bursts_cost_two_steps():
    """Fast and slow arrivals in turn, fifty each: the slowest lie in at most three places. Without a memory, none
    are sought."""
    arrivals = list(accumulate((10_000 if i // 50 % 2 else 100_000 for i in range(1, 300)), initial=0))
    traffic = Traffic(Requests([20] * 300, [3] * 300), arrivals, None)
    plain, careful = (problem(traffic, 400.0, burst_rows=rows)._replace(targets=Targets(90, 400.0))
                      for rows in (None, 20))
    best = search_open(plain, 2).best
    assert tail_bursts(plain, best.load) is None and tail_bursts(careful, best.load) in (1, 2, 3)
    assert few_bursts(careful, best.load) and not few_bursts(plain, best.load)
    rung = rung_below(best.load.rps)
    assert rung_below(search_open(careful, 2).best.load.rps) == rung - 2


@pytest.mark.parametrize("pairs_of_requests, rows, places",
                         [(7, 1, 7), (8, 1, 8), (8, 2, 1), (1, 1, 1), (8, None, None)])
def test_in_how_many_places_the_slowest_lie(pairs_of_requests, rows, places):
    """Pairs at one moment of one slot: every second request waits. They lie two rows apart."""
    n = 2 * pairs_of_requests
    traffic = Traffic(Requests([20] * n, [1] * n), [100_000 * (i // 2) for i in range(n)], None)
    one = problem(traffic, burst_rows=rows)._replace(nominal_rps=10.0)
    assert tail_bursts(one, Load(1, 10.0)) == places
    assert few_bursts(one, Load(1, 10.0)) is (places in (1, 7)), "fewer than eight"


def test_requests_are_dealt_to_the_servers_in_turn():
    """Of three at one moment, the first and the third go to the first server of two, in one slot each."""
    three = Traffic(Requests([20, 20, 40], [1, 1, 1]), [0, 0, 0], [[("a", 16)], [], []])
    assert play_of(problem(three), Load(1, 1.0, None, 2), three)[:3] == ([9_000, 19_000, 9_000], [None] * 3,
                                                                          [9_000, 19_000, 9_000])
    many = play_of(problem(three), Load(1, 1.0, None, 99), three)
    assert many.ttfts_us == [9_000, 9_000, 10_000] and many.peak_running == 1, "no more servers than requests"
    twice = play_of(problem(three)._replace(nominal_rps=2.0), Load(1, 4.0),
                    three._replace(arrivals_us=[0, 40_000, 80_000]))
    assert twice.span_us == 50_000, "twice as fast"
    assert play_of(problem(three), Load(1, None, 3), three).ttfts_us == [9_000, 17_999, 27_998], "clients: one slot"


def test_points_stand_in_the_order_of_their_loads():
    trials = Trials(problem(PAIRS, 20.0))
    for rps in (20.0, 10.0, 15.0):
        trials.trace_meets(Load(1, rps))
    assert [one.load.rps for one in trials.points()] == [10, 15, 20]
    assert trials.play_replays(Load(1, 10.0)) == 0 and trials.point(Load(1, 10.0)).meets
    assert not trials.point(Load(1, 15.0)).meets, "its replays were not played"


def test_client_counts():
    assert client_counts(5) == [1, 2, 3, 4, 5] and client_counts(256)[-1] == 256
    counts = client_counts(1000)
    assert counts[:20] == list(range(1, 21)) and all(b == a + 1 or b / a < 1.07 for a, b in zip(counts, counts[1:]))


def test_slower_makes_every_step_a_tenth_longer():
    costs = Costs(50, 8_000, 100, 4_000, 0.2, 1_000, ((1, 8_000), (9, 16_000)))
    longer = slower(costs)
    assert longer.overhead_us == 4_000 and longer.decode_us(5) == 13_200 and longer.prefill_us(100) == 4_400
    assert longer.context_us(1_000) == 220 and slower(Costs()).decode_us(3) == 8_800


def test_the_fewest_servers_by_all_thresholds():
    for threshold in range(1, 40):
        for least in (1, threshold):
            assert fewest(lambda servers: servers >= threshold, least, 39) == threshold
    assert fewest(lambda servers: False, 1, 39) is None
    asked = []
    assert fewest(lambda servers: asked.append(servers) or servers >= 3_000, 1, 10**6) == 3_000 and len(asked) < 26


@pytest.mark.parametrize("first, accepts_from, most, answer", [
    (3, 3, 9, 3), (3, 5, 9, 5), (3, 10, 9, None), (9, 9, 9, 9), (40, 41, 99, 42), (60, 70, 99, 72), (98, 99, 99, 99),
    (None, 1, 9, None),
])
def test_servers_are_added_by_a_twentieth(first, accepts_from, most, answer):
    class Fleet:
        def accepted(self, servers):
            return servers >= accepts_from

    assert accepted_above(Fleet(), lambda servers: servers, first, most) == answer


@pytest.mark.parametrize("few, servers", [(False, 30), (True, 33)])
def test_a_tenth_more_servers_where_there_are_few_bursts(monkeypatch, few, servers):
    """Thirty requests at one moment, and later thirty more: one server each within 9 ms."""
    monkeypatch.setattr("planning.replicas.few_bursts", lambda problem, load: few)
    burst = Traffic(Requests([20] * 60, [1] * 60), [0] * 30 + [1_000_000] * 30, None)
    assert search_replicas(problem(burst, 9.0), 1, own_rps(burst.arrivals_us)).best.load.servers == servers


def test_replicas_worked_by_hand():
    """Requests of 9 ms, 4 ms apart, one slot a server, 10 ms allowed. One server: waits grow. Two: each gets one every
    8 ms, so the second of each waits 1 ms. 400 a second need at least 4 by capacity (111 each), and 4 have one every
    10 ms."""
    four = Traffic(Requests([20] * 4, [1] * 4), [0, 4_000, 8_000, 12_000], None)
    three = search_replicas(problem(four, 10.0), 1, 250.0)
    assert three.best.load.servers == 3 and not three.endless, "by capacity two are too few"
    found = search_replicas(problem(four, 10.0), 1, 400.0)
    assert found.best.load.servers == 4 and len(found.points) == 1 and found.endless, "one for each request"
    assert found.best.trace.throughput_tps == \
        pytest.approx(4 / 0.0165, rel=0.01), "the fleet's, from the first to the last"
    assert search_replicas(problem(four, 8.0), 1, 250.0).best is None


def test_accepted_loads_are_met_by_fresh_traffic():
    """The small version of plan_acceptance.py: 8 traces of 200 requests, five fresh ones for each."""
    targets, good = Targets(99, 500.0, 50.0), 0
    for seed in range(8):
        best, _ = accepted(fresh(KINDS[0], f"small {seed}", 200), targets)
        good += met(KINDS[0], best.load.rps, targets, [f"small {seed} fresh {i}" for i in range(5)], 200)
    assert good >= 34, "of 40; a rule that accepts what the trace alone meets has about 24"
