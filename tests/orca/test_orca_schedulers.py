"""The three schedulers of the second lab: cases worked by hand, invariants, and the row-by-row oracle."""

from functools import partial
from math import fsum
from random import Random

from common import BadInput, Requests
import continuous
import orca_oracle
import pytest
from orca_oracle import per_token
from files.costs import Costs
from roofline import iteration_level as orca_iteration
from roofline import request_level as orca_request
from roofline import stall as orca_stall
from roofline.model import CAPACITY_TOKENS
from roofline.workload import RECORDED, arrivals_at, load_workload


def constant(prompt_tokens, prompt_squares, rows, cached_tokens):
    """Every iteration lasts 1."""
    return 1, 0, 0, 0


@pytest.fixture(scope="module")
def recorded():
    return load_workload(RECORDED)


# --- worked by hand: the examples of the schedulers' docstrings and their neighbours -------------------------------


def test_a_batch_of_two_is_padded_and_held():
    """(3, 1) and (5, 3): prefill 2 x 5, 10 + 10 -> 20; decode 10 + 12 -> 42, 10 + 14 -> 66, when both return."""
    played = orca_request.schedule(Requests([3, 5], [1, 3]), 2, [0, 0], per_token)
    assert played == ([0, 0], [20, 20], [66, 66], 3, 2)


def test_a_batch_does_not_wait_to_fill_and_lets_nobody_join():
    """(3, 2) starts alone at 5: 13 -> 18, 14 -> 32. Two have arrived by then and go together, at 7 padded to 4:
    8 -> 18 -> 50, and one token each, so that they are done."""
    played = orca_request.schedule(Requests([3, 4, 2], [2, 1, 1]), 2, [5, 6, 32], per_token)
    assert played == ([5, 32, 32], [18, 50, 50], [32, 50, 50], 3, 2)


def test_two_requests_that_do_not_fit_together():
    """(3, 2) needs 5 and (4, 3) needs 7 of 10. First alone: 13 -> 13, 10 + 4 -> 27. Then the second: 14 -> 41,
    15 -> 56, 16 -> 72. Reserved 5 for 27 and 7 for 45: (135 + 315) / 72 = 6.25; used 3, 4, then 4, 5, 6 in
    13, 14, 14, 15, 16: (39 + 56 + 56 + 75 + 96) / 72 = 4.4722."""
    requests = Requests([3, 4], [2, 3])
    played, reserved, used, deadlock = orca_iteration.schedule(requests, 8, [0, 0], [5, 7], 10, per_token)
    assert played == ([0, 27], [13, 41], [27, 72], 5, 1)
    assert (reserved, used, deadlock) == (6.25, pytest.approx(322 / 72, rel=1e-12), None)


def test_two_requests_that_share_iterations():
    """The same with room for 12: both prefill in one iteration, 10 + 7 = 17; together 10 + 9 = 19 -> 36, when the first
    leaves with its 4 written; the second, with 5, goes on: 10 + 6 = 16 -> 52."""
    played, reserved, used, _ = orca_iteration.schedule(Requests([3, 4], [2, 3]), 8, [0, 0], [5, 7], 12, per_token)
    assert played == ([0, 0], [17, 17], [36, 52], 3, 2)
    assert reserved == pytest.approx((12 * 36 + 7 * 16) / 52, rel=1e-12)
    assert used == pytest.approx((7 * 17 + 9 * 19 + 6 * 16) / 52, rel=1e-12)


def test_a_request_joins_at_the_next_boundary_and_prompts_share_it_with_rows():
    """(2, 3) runs from 0: 10 + 2 -> 12, 10 + 3 -> 25. The other, (4, 1), came at 13: it joins at 25, when 3 are in the
    cache: prefill 4 and decode 1, 10 + 8 -> 43, which ends both."""
    played = orca_iteration.schedule(Requests([2, 4], [3, 1]), 2, [0, 13], [5, 5], 10, per_token).schedule
    assert played == ([0, 25], [12, 43], [43, 43], 3, 2)


def test_the_head_of_the_line_blocks_the_rest():
    """Room for 10, 6 of it taken: the second needs 5 and waits; the third needs 1 and waits behind it."""
    played = orca_iteration.schedule(Requests([1, 1, 1], [3, 1, 1]), 8, [0, 0, 0], [6, 5, 1], 10, constant).schedule
    assert played.admitted_us == [0, 3, 3]


def test_an_idle_machine_jumps_and_its_idle_time_does_not_count():
    """One iteration at 100 and one at 200: reserved 4 and 8, on average 6 over the two; used 1 and 3, on average 2."""
    outcome = orca_iteration.schedule(Requests([1, 3], [1, 1]), 1, [100, 200], [4, 8], 10, constant)
    assert outcome == (([100, 200], [101, 201], [101, 201], 2, 1), 6, 2, None)


def test_two_requests_that_deadlock():
    """Two of (2, 3), room for 6: prefill 10 + 4 -> 14; decode 10 + 6 -> 30; both hold 3 and lack one: there is none."""
    requests = Requests([2, 2], [3, 3])
    played, reserved, used, deadlock = orca_stall.schedule(requests, 2, [0, 0], 6, per_token)
    assert played == ([0, 0], [14, 14], [None, None], 2, 2)
    assert deadlock == 30
    assert reserved == used == (4 * 14 + 6 * 16) / 30


def test_a_stalled_request_waits_for_the_one_admitted_before_it():
    """The same with room for 7: in the third iteration one token is left, and the first takes it and ends: 10 + 3 + 1
    -> 44, without the stalled one's 3; in the fourth, the second: 10 + 3 + 1 -> 58. Used 4, 6, 7, 4."""
    played, reserved, used, deadlock = orca_stall.schedule(Requests([2, 2], [3, 3]), 2, [0, 0], 7, per_token)
    assert played == ([0, 0], [14, 14], [44, 58], 4, 2)
    assert (reserved, deadlock) == (used, None)
    assert used == pytest.approx((4 * 14 + 6 * 16 + 7 * 14 + 4 * 14) / 58, rel=1e-12)


def test_without_reservations_running_rows_take_their_token_before_a_prompt_does():
    """Room for 7; (2, 3) holds 2 when (5, 1) has come: it takes 1, 4 are left, and the prompt waits for its end."""
    played = orca_stall.schedule(Requests([2, 5], [3, 1]), 2, [0, 1], 7, constant).schedule
    assert played.admitted_us == [0, 3]


def test_a_request_that_could_never_fit_is_refused():
    requests = Requests([5, 6], [1, 6])
    with pytest.raises(BadInput, match="^record 1: needs 12 tokens of cache, and there are 11$"):
        orca_iteration.schedule(requests, 1, [0, 0], [6, 12], 11)
    with pytest.raises(BadInput, match="^record 1: writes 11 tokens of cache, and there are 10$"):
        orca_stall.schedule(requests, 1, [0, 0], 10)
    assert orca_iteration.schedule(requests, 1, [0, 0], [6, 12], 12).schedule.peak_running == 1
    assert orca_stall.schedule(requests, 1, [0, 0], 11).schedule.peak_running == 1


# --- what is reserved and used ------------------------------------------------------------------------------------


def busy(schedule):
    """The times in which anything ran, merged: [(start, end)]."""
    merged = []
    for start, end in sorted(zip(schedule.admitted_us, schedule.finished_us)):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


@pytest.mark.parametrize("rate", [0.5, 4, 12])
def test_every_reservation_is_held_from_admission_to_finish(recorded, rate):
    """So the average is the sum of need x stay over the busy time; and neither slots nor memory are ever exceeded."""
    prompts, outputs = recorded.requests
    needs = [prompt + 512 for prompt in prompts]
    outcome = orca_iteration.schedule(recorded.requests, 16, arrivals_at(recorded, rate), needs)
    admitted, _, finished, _, peak = outcome.schedule
    busy_us = fsum(end - start for start, end in busy(outcome.schedule))
    held = fsum(need * (end - start) for need, start, end in zip(needs, admitted, finished))
    assert outcome.mean_reserved_tokens == pytest.approx(held / busy_us, rel=1e-9)
    joining = [(time, need, 1) for time, need in zip(admitted, needs)]
    leaving = [(time, -need, -1) for time, need in zip(finished, needs)]
    reserved = rows = most = 0
    for _, need, row in sorted(joining + leaving):  # at equal times those that leave come first
        reserved, rows = reserved + need, rows + row
        most = max(most, rows)
        assert 0 <= reserved <= CAPACITY_TOKENS and 0 <= rows <= 16
    assert (reserved, rows, most) == (0, 0, peak)
    assert all(start <= end for start, end in zip(arrivals_at(recorded, rate), admitted))
    assert outcome.mean_used_tokens < outcome.mean_reserved_tokens


@pytest.mark.parametrize("slots", [1, 7, 32])
def test_every_token_written_is_kept_until_its_request_leaves(recorded, slots):
    """With iterations of equal length a request keeps p, p + 1, ... p + g - 1 tokens, g p + g (g - 1) / 2 in sum; so
    does one that reserves nothing, as long as nobody stalls."""
    requests = recorded.requests
    kept = sum(g * p + g * (g - 1) // 2 for p, g in zip(*requests))
    outcome = orca_iteration.schedule(requests, slots, [0] * 1000, requests.prompt_tokens, CAPACITY_TOKENS, constant)
    assert outcome.mean_used_tokens == pytest.approx(kept / outcome.schedule.iterations, rel=1e-12)
    outcome = orca_stall.schedule(requests, slots, [0] * 1000, 10**9, constant)
    assert outcome.mean_used_tokens == pytest.approx(kept / outcome.schedule.iterations, rel=1e-12)
    assert outcome.mean_reserved_tokens == outcome.mean_used_tokens


# --- the first lab's costs and memory for all: the first lab's schedule -------------------------------------------


def lab_costs(prompt_tokens, prompt_squares, rows, cached_tokens):
    return Costs().prefill_us(prompt_tokens) + Costs().decode_us(rows), 0, 0, 0


def test_with_the_first_lab_s_costs_it_is_continuous_batching():
    """Request by request and to the microsecond, arrivals in any order; without reservations too."""
    for seed in range(200):
        r = Random(seed)
        n, slots = r.randint(1, 60), r.randint(1, 12)
        requests = Requests([r.randint(1, 900) for _ in range(n)], [r.randint(1, 40) for _ in range(n)])
        arrivals_us = [r.choice([0, 8_000, r.randint(0, 2_000_000)]) for _ in range(n)]
        expected = continuous.schedule(requests, slots, arrivals_us)
        reserving = orca_iteration.schedule(requests, slots, arrivals_us, [1] * n, n, lab_costs)
        stalling = orca_stall.schedule(requests, slots, arrivals_us, 10**9, lab_costs)
        assert (seed, reserving.schedule, stalling.schedule) == (seed, expected, expected)


# --- the oracle ---------------------------------------------------------------------------------------------------


def crossing(a, b, c, d, prompt_tokens, prompt_squares, rows, cached_tokens):
    """Invented whole costs whose two sides cross while a batch decodes."""
    computing = a + prompt_tokens + prompt_squares + b * cached_tokens
    return computing, b * rows, c + d * (cached_tokens + rows + prompt_tokens), d * rows


def one_iteration(roofline, prompts, cached):
    compute, _, memory, _ = roofline(sum(prompts), sum(p * p for p in prompts), len(cached), sum(cached))
    return max(compute, memory)


def small_case(seed):
    """Requests, slots, arrivals, capacity (each fits alone) and costs; all whole numbers, so that ties are real."""
    r = Random(seed)
    n, most = r.randint(1, 25), r.choice([2, 3, 30])
    requests = Requests([r.randint(1, 12) for _ in range(n)], [r.randint(1, most) for _ in range(n)])
    arrivals_us = sorted(r.choice([0, 50, r.randint(0, 4000)]) for _ in range(n))
    capacity = max(p + g for p, g in zip(*requests)) + r.choice([0, r.randint(0, 30), r.randint(0, 200)])
    roofline = partial(crossing, r.randint(0, 300), r.randint(0, 3), r.randint(1, 60), r.randint(0, 3))
    return requests, r.randint(1, 12), arrivals_us, capacity, roofline


def test_small_cases_equal_the_oracle():
    """Every time of every request exactly, the averages to 12 digits. Many deadlock; some stall and recover."""
    deadlocked = stalled = 0
    for seed in range(600):
        requests, slots, arrivals_us, capacity, roofline = small_case(seed)
        iteration_us = partial(one_iteration, roofline)
        schedule = orca_request.schedule(requests, slots, arrivals_us, roofline)
        assert (seed, *schedule) == (seed, *orca_oracle.play_requests(requests, slots, arrivals_us, iteration_us)[:5])
        needs = [p + g for p, g in zip(*requests)]
        outcome = orca_iteration.schedule(requests, slots, arrivals_us, needs, capacity, roofline)
        check(seed, outcome, orca_oracle.play_iterations(requests, slots, arrivals_us, needs, capacity, iteration_us))
        outcome = orca_stall.schedule(requests, slots, arrivals_us, capacity, roofline)
        played = orca_oracle.play_iterations(requests, slots, arrivals_us, None, capacity, iteration_us)
        check(seed, outcome, played)
        deadlocked += outcome.deadlock_us is not None
        stalled += played.stalls > 0 and outcome.deadlock_us is None
    assert deadlocked > 100 and stalled > 20


def check(seed, outcome, played):
    schedule, reserved, used, deadlock = outcome
    assert (seed, *schedule, deadlock) == (seed, *played[:5], played.deadlock_us)
    assert (reserved, used) == pytest.approx((played.mean_reserved_tokens, played.mean_used_tokens), rel=1e-12)


def assert_close(ours, played):
    """In the first 9 digits; what is not there is None in both."""
    for field, value, expected in zip(played._fields, ours, played):
        assert value == pytest.approx(expected, rel=1e-9), field


@pytest.mark.parametrize("slots, rate", [(1, 0.5), (6, 1), (6, 4)])
def test_the_request_level_equals_the_oracle(recorded, slots, rate):
    arrivals_us = arrivals_at(recorded, rate)
    schedule = orca_request.schedule(recorded.requests, slots, arrivals_us)
    assert_close(schedule, orca_oracle.play_requests(recorded.requests, slots, arrivals_us))


@pytest.mark.parametrize("slots, rate, declared", [(32, 0.5, 0), (8, 6, 0), (32, 12, 0), (64, 8, 512), (64, 12, 512)])
def test_the_iteration_level_equals_the_oracle(recorded, slots, rate, declared):
    """Times and averages to 9 digits, on the recorded workload with the roofline; declared 0: the output itself."""
    requests, arrivals_us = recorded.requests, arrivals_at(recorded, rate)
    needs = [prompt + (declared or output) for prompt, output in zip(*requests)]
    outcome = orca_iteration.schedule(requests, slots, arrivals_us, needs)
    assert_close((*outcome[0], *outcome[1:]), orca_oracle.play_iterations(requests, slots, arrivals_us, needs))


@pytest.mark.parametrize("rate, deadlocks", [(8, False), (12, True)])
def test_stalling_equals_the_oracle(recorded, rate, deadlocks):
    outcome = orca_stall.schedule(recorded.requests, 64, arrivals_at(recorded, rate))
    played = orca_oracle.play_iterations(recorded.requests, 64, arrivals_at(recorded, rate), None)
    assert_close((*outcome[0], *outcome[1:]), played)
    assert (outcome.deadlock_us is not None) == deadlocks
