"""The second lab's model of one iteration, and k iterations at once."""

from math import isclose
from operator import mul
from random import Random

import pytest
from roofline import model as orca_model
from roofline.model import duration, iterations_until, roofline, stretches, time_and_load


def test_the_printed_values():
    """12 x 40 x 5120^2 = 12,582,912,000 and 50257 x 5120 = 257,315,840 parameters, 2 bytes each; a token has
    2 x 40 x 5120 values of 2 bytes; (36e9 - 25,680,455,680) / 819,200 = 12,597.1; 12,597 / 2048 = 6.15."""
    assert orca_model.PARAMETERS == 12_840_227_840
    assert orca_model.WEIGHT_BYTES == 25_680_455_680
    assert orca_model.KV_BYTES_PER_TOKEN == 819_200
    assert orca_model.CAPACITY_TOKENS == 12_597
    assert orca_model.FULL_LENGTH_SLOTS == 6
    assert orca_model.MAX_SEQ_TOKENS == 2_048


def test_one_row_decoding_is_bound_by_the_weights():
    """500 in the cache: 25,680,455,680 + 819,200 x 501 = 26,090,874,880 bytes at 1,244 GB/s take 20.97337 ms, and
    25,680,455,680 + 819,200 x 500 = 26,090,055,680 FLOP at 187.2e12/s take 0.13937 ms; 1 ms on top of either. The next
    token makes it 0.65852 us more."""
    compute, compute_growth, memory, memory_growth = roofline(0, 0, 1, 500)
    assert compute == pytest.approx(1_139.370, abs=1e-3)
    assert memory == pytest.approx(21_973.372, abs=1e-3)
    assert compute_growth == pytest.approx(0.0043761, abs=1e-7)
    assert memory_growth == pytest.approx(0.6585209, abs=1e-7)


def test_a_prompt_is_bound_by_computing():
    """512 tokens: 25,680,455,680 x 512 + 819,200 x 512^2 / 2 = 13,255,767,490,560 FLOP take 70.81072 ms; the bytes
    take 20.98062 ms."""
    compute, _, memory, _ = roofline(512, 512**2, 0, 0)
    assert compute == pytest.approx(71_810.724, abs=1e-3)
    assert memory == pytest.approx(21_980.616, abs=1e-3)


@pytest.mark.parametrize("rows, cached", [(3, 700), (64, 9000), (1, 0)])
def test_the_growths_are_what_the_next_iteration_adds(rows, cached):
    compute, compute_growth, memory, memory_growth = roofline(0, 0, rows, cached)
    expected = roofline(0, 0, rows, cached + rows)
    assert compute + compute_growth == pytest.approx(expected[0], rel=1e-12)
    assert memory + memory_growth == pytest.approx(expected[2], rel=1e-12)


def test_prompts_and_rows_share_one_iteration():
    """Prompts of 10 and 20, 3 rows with 100 in the cache: 33 tokens computed and written; 10^2 + 20^2 = 500 squares,
    halved because a token attends only to those before it: 819,200 x (250 + 100) FLOP besides the parameters'."""
    compute, _, memory, _ = roofline(30, 500, 3, 100)
    assert (compute - 1000) * 187.2e6 == pytest.approx(25_680_455_680 * 33 + 819_200 * 350, rel=1e-12)
    assert (memory - 1000) * 1.244e6 == pytest.approx(25_680_455_680 + 819_200 * 133, rel=1e-12)


# --- k iterations at once: decoding never becomes compute-bound on this GPU, so the costs are invented ------------


def test_the_lines_cross_in_the_middle():
    """10, 11, 12, 13, 14 against 8, 10, 12, 14, 16: the larger are 10, 11, 12, 14, 16 = 63, the last two on the other
    line. With 5, 7, 9, 11, 13 tokens: 50 + 77 + 108 + 154 + 208 = 597."""
    for sides in ((10, 1, 8, 2), (8, 2, 10, 1)):
        assert stretches(sides, 5) == [(10, 1, 3), (14, 2, 2)]
        assert [duration(sides, k) for k in range(1, 6)] == [10, 21, 33, 47, 63]
        assert time_and_load(sides, 5, 5, 2) == (63, 597)


def random_sides(r):
    return r.randint(0, 60), r.randint(0, 4), r.randint(1, 60), r.randint(0, 4)


def test_many_iterations_at_once_equal_them_one_by_one():
    """In whole numbers exactly, whichever line starts higher, and where they cross on or between iterations."""
    crossed = 0
    for seed in range(2000):
        r = Random(seed)
        sides, iterations, tokens, growth = random_sides(r), r.randint(1, 40), r.randint(0, 99), r.randint(0, 9)
        times = [max(sides[0] + j * sides[1], sides[2] + j * sides[3]) for j in range(iterations)]
        assert (duration(sides, iterations), duration(sides, 0)) == (sum(times), 0)
        held = [tokens + j * growth for j in range(iterations)]
        assert time_and_load(sides, iterations, tokens, growth) == (sum(times), sum(map(mul, held, times)))
        fractions = [x / 7 for x in sides]
        assert isclose(duration(fractions, iterations), sum(times) / 7, rel_tol=1e-12)
        crossed += len(stretches(sides, iterations)) == 2
    assert crossed > 300


def test_the_next_arrival_is_found_where_a_walk_finds_it():
    """The fewest iterations that last at least the wait, also when one ends at the very moment, or none is enough."""
    for seed in range(2000):
        r = Random(seed)
        sides, most = random_sides(r), r.randint(1, 40)
        wait = r.choice([r.randint(1, 3000), duration(sides, r.randint(1, 40))])
        walked = next((k for k in range(1, most) if duration(sides, k) >= wait), most)
        assert iterations_until(sides, wait, most) == walked
        assert iterations_until([x / 8 for x in sides], wait / 8, most) == walked
