"""static.schedule and continuous.schedule: a case worked by hand, invariants, and a step-by-step oracle."""

import inspect
import random

from common import Requests
import continuous
import oracle
import pytest
import static
from files.costs import Costs
from fixture import shipped
from static import throughput_tps

SIBLINGS = {"batch": static.schedule, "iteration": continuous.schedule}


def random_case(seed):
    """A workload of up to 40 requests, slots from 1 to beyond the list, arrivals absent, bursty, or spread."""
    r = random.Random(seed)
    n = r.randint(1, 40)
    requests = Requests(
        [r.choice((1, r.randint(1, 600), r.randint(1, 5))) for _ in range(n)],
        [r.choice((1, r.randint(1, 8), r.randint(1, 60))) for _ in range(n)],
    )
    slots = r.choice((1, 2, r.randint(1, n), n, n + r.randint(1, 9)))
    spread_us = r.choice((None, 0, 30_000, 1_000_000, 8_000))
    if spread_us is None:
        return requests, slots, None
    arrivals = [r.randint(0, spread_us) for _ in range(n)]
    if spread_us == 8_000:  # on the boundaries of iterations and at the same moment
        arrivals = [8_000 * r.randint(0, 40) for _ in range(n)]
    return requests, slots, arrivals


def test_worked_by_hand():
    """(prompt, output) = A (100, 1), B (200, 3), C (100, 2) in 2 slots; 0.05 ms a prompt token, 8 ms a pass.

    Static.     0 ms admit A and B: 15 ms + 8 ms = 23, A ends. B alone: 31, 39, B ends. C: 39 + 5 + 8 = 52, 60.
    Continuous. 0 ms admit A and B: 23, A ends. C joins: 23 + 5 + 8 = 36. B and C: 44, both end.
    """
    requests = Requests([100, 200, 100], [1, 3, 2])
    assert static.schedule(requests, 2) == ([0, 0, 39_000], [23_000, 23_000, 52_000], [23_000, 39_000, 60_000], 5, 2)
    assert continuous.schedule(requests, 2) == (
        [0, 0, 23_000], [23_000, 23_000, 36_000], [23_000, 44_000, 44_000], 3, 2,
    )


def test_arrivals_worked_by_hand():
    """Two slots, prompts of 20 tokens (1 ms), outputs 3, 1, 1; arrivals 1, 9 and 10 ms after time 0.

    Idle until 1 ms; then 1 + 1 + 8 = 10 ms is the first boundary. Both others have arrived by then (10 ms counts: an
    arrival at a boundary is admitted there), one slot is free: the second joins, 10 + 1 + 8 = 19, and leaves; then
    the third: 19 + 1 + 8 = 28. Static makes both wait for the first request, which ends at 26 ms: 26 + 2 + 8 = 36.
    """
    requests, arrivals = Requests([20, 20, 20], [3, 1, 1]), [1_000, 9_000, 10_000]
    assert continuous.schedule(requests, 2, arrivals) == (
        [1_000, 10_000, 19_000], [10_000, 19_000, 28_000], [28_000, 19_000, 28_000], 3, 2,
    )
    assert static.schedule(requests, 2, arrivals) == (
        [1_000, 26_000, 26_000], [10_000, 36_000, 36_000], [26_000, 36_000, 36_000], 4, 2,
    )


def test_the_siblings_differ_in_the_refill_line_alone():
    lines = [inspect.getsource(module.schedule).splitlines() for module in (static, continuous)]
    assert len(lines[0]) == len(lines[1])
    differing = [(a.strip(), b.strip()) for a, b in zip(*lines) if a != b]
    assert differing == [("free = 0 if running else slots", "free = slots - len(running)")]


@pytest.mark.parametrize("refill", SIBLINGS)
def test_equals_the_oracle_on_600_random_workloads(refill):
    for seed in range(600):
        requests, slots, arrivals = random_case(seed)
        played = oracle.play(requests, slots, arrivals or [0] * len(requests.prompt_tokens), refill)
        assert SIBLINGS[refill](requests, slots, arrivals) == played[:5], f"seed {seed}"


@pytest.mark.parametrize("refill", SIBLINGS)
def test_costs_are_an_argument(refill):
    """Costs that grow with the batch, so that a pass charged for the wrong number of sequences shows."""
    costs = Costs(prefill_us_per_token=7.3, step_us=100.5, step_us_per_sequence=13.25, hidden_us=40)
    for seed in range(100):
        requests, slots, arrivals = random_case(seed)
        played = oracle.play(requests, slots, arrivals or [0] * len(requests.prompt_tokens), refill,
                             lambda tokens: max(0, round(7.3 * tokens - 40)), lambda rows: round(100.5 + 13.25 * rows))
        assert SIBLINGS[refill](requests, slots, arrivals, costs) == played[:5], f"seed {seed}"


@pytest.mark.parametrize("refill", SIBLINGS)
def test_invariants_of_the_oracle_and_so_of_both(refill):
    """Read off the oracle's iterations, which the schedulers equal: tokens, slots, order, Little's law, work kept."""
    for seed in range(200):
        requests, slots, arrivals = random_case(seed)
        arrivals = arrivals or [0] * len(requests.prompt_tokens)
        played = oracle.play(requests, slots, arrivals, refill)
        result = SIBLINGS[refill](requests, slots, arrivals)
        emitted = [sum(i in ran for _, ran, _ in played.batches) for i in range(len(arrivals))]
        assert emitted == requests.output_tokens, "every token is emitted once"
        assert all(len(ran) <= slots for _, ran, _ in played.batches), "no slot above the limit"
        if refill == "iteration":
            assert all(len(ran) == slots or not waiting for _, ran, waiting in played.batches), "work conservation"
        order = sorted(range(len(arrivals)), key=lambda i: (arrivals[i], i))
        admitted = [result.admitted_us[i] for i in order]
        assert admitted == sorted(admitted), "first come, first served"
        waits = [start - arrival for start, arrival in zip(result.admitted_us, arrivals)]
        assert min(waits) >= 0
        # Little's law: the area under the queue length, added up event by event, is the sum of the waits.
        events = sorted([(t, 1) for t in arrivals] + [(t, -1) for t in result.admitted_us])
        area = length = last = 0
        for at, change in events:
            area += length * (at - last)
            length, last = length + change, at
        assert area == sum(waits)


def test_continuous_is_never_later_than_static_on_the_shipped_requests():
    requests = shipped()
    for slots in (1, 2, 16, 99, 100, 200):
        by_batch, by_iteration = static.schedule(requests, slots), continuous.schedule(requests, slots)
        assert by_iteration.iterations <= by_batch.iterations
        if slots in (1, 100, 200):  # one slot, or one batch: the same schedule
            assert by_iteration == by_batch


def test_lengths_that_nobody_could_step_through():
    """A billion tokens twice, in 1 slot: closed form. Stepping through it would take days."""
    requests = Requests([1_000_000_000] * 2, [1_000_000_000] * 2)
    for schedule in SIBLINGS.values():
        result = schedule(requests, 1)
        assert result.iterations == 2_000_000_000
        assert result.finished_us == [8_050_000_000_000, 16_100_000_000_000]
        late = schedule(Requests([20, 20], [1_000_000_000, 1]), 2, [0, 4_000_000_000_000])  # a free slot all the time
        assert late.finished_us[0] >= 8_000_000_001_000 and late.iterations in (1_000_000_000, 1_000_000_001)


def test_throughput_counts_from_time_zero():
    """One request of 4 tokens that arrives at 1 s and takes 1 + 32 ms: 4 tokens in 1.033 s."""
    requests = Requests([20], [4])
    result = continuous.schedule(requests, 1, [1_000_000])
    assert throughput_tps(requests, result) == pytest.approx(4 / 1.033, rel=1e-12)
