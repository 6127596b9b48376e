"""plan's engine, arrivals and replays: by hand, and what they must never do."""

import random
from collections import Counter
from itertools import accumulate

import pytest
from common import Requests
from files.costs import Costs, Server
from paging.clock import percentile_of_counts
from paging.scheduler import UNLIMITED
from plan_acceptance import fresh
from planning.arrivals import Grid, grid_of, own_rps, poisson, scaled, spread
from planning.engine import Run, Targets, Traffic, alone, blocks_of, capacity_rps, measured, simulate, together
from planning.replays import block_rows, drawn, gaps_of, memory, renamed, repeated, stream

PLAIN = Server(Costs(), False)  # so that times can be told by hand: 0.05 ms a token, 8 ms a step
PAIRS = Traffic(Requests([20] * 4, [1] * 4), [0, 10_000, 100_000, 110_000], None)  # 9 ms each


# --- the engine -------------------------------------------------------------------------------------


def test_percentiles_have_one_decimal():
    assert percentile_of_counts(dict.fromkeys(range(1001), 1), 99.9) == 999
    assert percentile_of_counts({7: 1}, 99) == 7 and percentile_of_counts({}, 99) is None


def test_a_request_worked_by_hand():
    """20 prompt tokens and 5 output tokens: TTFT 4 + 1 + 8 = 13 ms, then 4 gaps of 8 ms; E2E 45 ms."""
    server = Server(Costs(overhead_us=4_000))
    one = measured(Targets(), simulate(server, Traffic(Requests([20], [5]), [0], None), 4))
    assert one[:4] == (13, 8, 45, 8) and one.peak_running == 1
    assert one.throughput_tps == pytest.approx(5 / 0.045)


def test_each_target_counts_and_a_request_of_one_token_has_no_tpot():
    one = measured(Targets(), simulate(PLAIN, Traffic(Requests([20], [5]), [0], None), 4))
    for name, value in zip(("ttft_ms", "tpot_ms", "e2e_ms", "itl_ms"), one[:4]):
        assert one.meets(Targets()._replace(**{name: value})) and \
            not one.meets(Targets()._replace(**{name: value - 0.01}))
    single = measured(Targets(), simulate(PLAIN, Traffic(Requests([20], [1]), [0], None), 4))
    assert single.tpot_ms is None and single.itl_ms is None and single.meets(Targets(99, 9, 0.001, 9, 0.001))


def test_waiting_at_a_gateway_counts():
    """A gateway that lets one through: as with one slot, the second of a pair waits 9 ms."""
    pairs = PAIRS._replace(arrivals_us=[0, 0, 100_000, 100_000])
    assert simulate(PLAIN, pairs, 8, clients=1).ttfts_us == [9_000, 18_000] * 2
    assert simulate(PLAIN, pairs, 8, clients=2).ttfts_us == [10_000] * 4, "both in one step: 2 ms of prefill and a pass"


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
    server = Server(Costs(), False, max_num_batched_tokens=1_000_000)
    assert capacity_rps(server, many, 10_000) == pytest.approx(10_000 / 10.008)


def test_blocks_that_a_cache_gives():
    """vLLM keeps one of its blocks of 16 for itself."""
    assert [blocks_of(tokens) for tokens in (32, 47, 48, 4_000)] == [1, 1, 2, 249] and blocks_of(None) == UNLIMITED


# --- arrivals ---------------------------------------------------------------------------------------


def test_rates_and_grids():
    assert own_rps([0, 500_000, 1_000_000]) == 2 and own_rps([0, 0, 500_000]) == 4
    assert own_rps([0, 0]) is own_rps([0]) is own_rps(None) is None
    assert scaled([0, 300, 1000], 2) == [0, 150, 500]
    assert spread([0, 0, 1_000_000, 2_000_000, 2_000_000, 2_000_000], 900) == \
        [0, 450, 1_000_000, 2_000_000, 2_000_300, 2_000_600]
    ten = [0, 0, *range(1_000_000, 9_000_000, 1_000_000)]
    assert grid_of(1_000_000, ten) == Grid(1_000_000, 9, 2), "a tenth shares its moment"
    assert grid_of(1_000_000, [*ten, 9_000_000]) is None, "less than a tenth does: no harm"
    assert grid_of(None, [0, 0, 1]) is None


# --- replays ----------------------------------------------------------------------------------------


def test_a_row_drawn_again_shares_nothing_with_its_first_copy():
    prefixes = [[("a", 16)], [("a", 16), ("b", 32)]]
    assert renamed(prefixes, [0, 1, 0]) == [[(("a", 0), 16)], [(("a", 0), 16), (("b", 0), 32)], [(("a", 1), 16)]]


def test_several_servers_are_one():
    one = Run([1, 2], [None, 5], [3, 9], Counter({5: 2}), 7, 40, 3)
    other = Run([4], [6], [8], Counter({5: 1, 6: 1}), 2, 50, 2)
    assert together([one, other]) == Run([1, 2, 4], [None, 5, 6], [3, 9, 8], Counter({5: 3, 6: 1}), 9, 50, 3)
    assert together([other, one])[4:] == (9, 50, 3) and together([one]) == one


def test_goodput_is_the_share_that_meets_all_targets_together():
    """Three requests: only the first meets all, since 3 ms and 7 ms are too long. ITL and throughput by hand."""
    run = Run([1_000, 3_000, 2_000], [None, 5_000, 7_000], [3_000, 9_000, 8_000], Counter({5_000: 1, 6_000: 1}), 9,
              1_500_000, 5)
    assert measured(Targets(50, 2, 6, 9), run) == (2, 6, 8, 5.5, 6, 1 / 3, 5)
    assert measured(Targets(50, 3, 7, 8), run).goodput == 2 / 3, "E2E counts, too"
    assert measured(Targets(50, 3, 7, 9), run).goodput == 1


def test_the_target_that_binds_is_the_one_with_the_largest_share():
    one = measured(Targets(), simulate(PLAIN, Traffic(Requests([20], [5]), [0], None), 4))  # 9, 8, 41, 8 ms
    assert one.share(Targets(99, 90, 16, 41, 10)) == (1, "e2e_ms")
    assert one.share(Targets(99, 90, 8.1)) == (8 / 8.1, "tpot_ms")
    none = Targets(99, *[float("inf")] * 4)
    assert one.share(none) == (0, None) and one.meets(none)


def test_a_replay_is_made_of_blocks_of_consecutive_rows():
    """Twenty blocks of a thousand rows are drawn, then sixty of these twenty: at most twenty different ones."""
    rows = drawn(1000, 50, 2_990, random.Random(3))
    assert len(rows) == 2_990 and set(rows) <= set(range(1000))
    starts = [rows[start] for start in range(0, 2_990, 50)]
    for start in range(0, 2_950, 50):
        assert all(b == (a + 1) % 1000 for a, b in zip(rows[start : start + 49], rows[start + 1 : start + 50]))
    assert 10 < len(set(starts)) <= 20


def test_a_trace_that_is_repeated_begins_a_row_later_each_time():
    assert repeated(3, 8) == [0, 1, 2, 1, 2, 0, 2, 0] and repeated(5, 4) == [0, 1, 2, 3]
    dealt = [repeated(4, 16)[first::2] for first in (0, 1)]
    assert set(dealt[0]) == set(dealt[1]) == {0, 1, 2, 3}, "each of two servers sees all four rows"


def test_a_stream_is_the_trace_then_its_repetition_or_a_replay_that_never_changes():
    """Gaps of 10 and 30, of which the first row's is the mean, 20: 0, 10, 40; then row 1 again, 10 later, and so on."""
    traffic = Traffic(Requests([1, 2, 3], [4, 5, 6]), [0, 10, 40], None)
    assert stream(traffic, 1, 3, None) == traffic
    assert stream(traffic, 1, 6, None) == Traffic(Requests([1, 2, 3, 2, 3, 1], [4, 5, 6, 5, 6, 4]),
                                                  [0, 10, 40, 50, 80, 100], None)
    long = fresh("poisson", 1, 300)
    one = stream(long, 7, 500, 3)
    assert one == stream(long, 7, 500, 3) != stream(long, 7, 500, 4) and len(one.arrivals_us) == 500
    triples = set(zip(gaps_of(long.arrivals_us), *long.requests))
    assert set(zip(gaps_of(one.arrivals_us)[1:], *(column[1:] for column in one.requests))) <= triples
    assert own_rps(stream(long, 7, 30_000, 5).arrivals_us) == pytest.approx(own_rps(long.arrivals_us), rel=0.2)


def test_a_list_gets_poisson_arrivals_of_its_own_in_each_replay():
    a_list = Traffic(Requests([20] * 9, [1] * 9), None, None)
    assert stream(a_list, 1, 12, None).arrivals_us == poisson(0, 12)
    assert [stream(a_list, 1, 12, seed).arrivals_us for seed in (0, 1)] == [poisson(1, 12), poisson(2, 12)]
    assert own_rps(poisson(3, 5_000)) == pytest.approx(1, rel=0.05)


def test_what_rows_remember_is_that_of_the_column_that_remembers_most():
    """Sixteen rows, four means of four: of 0 and 1 in blocks of four, they vary four times as much as by chance."""
    blocks, turns = [0, 0, 0, 0, 1, 1, 1, 1] * 2, [0, 1] * 8
    assert memory(blocks) == 4 and memory(turns) == 1 and memory([*blocks, 7]) < 4 and memory([5]) == 1
    assert gaps_of([0, 10, 31]) == [16, 10, 21] and gaps_of([0]) == [0]
    many = Requests(turns * 100, blocks * 100)
    arrivals_us = list(accumulate((10 if i // 200 % 2 else 90 for i in range(1_599)), initial=0))
    by_output, by_gap = block_rows(Traffic(many, None, None)), block_rows(Traffic(many, arrivals_us, None))
    assert block_rows(Traffic(Requests([20] * 1_000, [1] * 1_000), None, None)) == 10, "1 x the cube root"
    assert by_gap == 160 > by_output >= 12, "at most a tenth of the rows"
