"""Whatever the requests: no word of any picture lies on another word or on a line, or leaves the picture."""

from random import Random

from drawing import chunked as picture_chunked
from drawing import curves as picture_curves
from drawing import deadlock as picture_deadlock
from drawing import measured as picture_measured
from drawing import plan as picture_plan
from drawing import preemption as picture_preemption
from drawing import prefix as picture_prefix
from drawing import waiting as picture_queue
from drawing import reservation as picture_reservation
from drawing import slots as picture_slots
from drawing import ttft as picture_ttft
from drawing import tune as picture_tune
from drawing import waste as picture_waste
import pytest
from files.costs import Costs
from fixture import LAB, SHIPPED
from common import Requests
from orca_reservation import Measures
from roofline.workload import Workload, load_workload
from picture_reader import assert_legible
from files.sources import load_trace

NAMES = ["chunked", "clocked", "deadlock", "measured", "orca_curves", "orca_reservation", "preemption", "prefix",
         "queue", "slots", "steps", "ttft", "tune", "waste"]
MEASURED = Costs(prefill_us_per_token=144, step_us=9907, step_us_per_sequence=493, overhead_us=4933)


def some_requests(n, seed, longest=900, most=500):
    r = Random(seed)
    return Requests([r.randint(1, longest) for _ in range(n)], [r.randint(1, most) for _ in range(n)])


INPUTS = {  # name: a function that makes (requests, costs, target)
    "1 request": lambda: (Requests([100], [5]), Costs(), 200),
    "1 token": lambda: (Requests([1], [1]), Costs(), 200),
    "2 requests": lambda: (Requests([5, 2000], [1, 1]), Costs(), 200),
    "3 requests": lambda: (Requests([100, 200, 100], [1, 3, 2]), Costs(), 200),
    "17 requests": lambda: (some_requests(17, 1), Costs(), 200),
    "all equal": lambda: (Requests([128] * 40, [64] * 40), Costs(), 200),
    "one giant prompt": lambda: (Requests([100_000] + [50] * 30, [20] * 31), Costs(), 200),
    "one giant output": lambda: (Requests([10] * 40, [1_000_000_000] + [1] * 39), Costs(), 200),
    "measured costs": lambda: (load_trace(SHIPPED).requests, MEASURED, 200),
    "a trace": lambda: (load_trace(LAB.parent / "fixtures/measured/closed_04.json.gz").requests, MEASURED, 1000),
    "infeasible": lambda: (load_trace(SHIPPED).requests, Costs(), 5),
    "no edge": lambda: (Requests([1] * 50, [1] * 50), Costs(), 200),
    "a target of a million": lambda: (load_trace(SHIPPED).requests, Costs(), 1e6),
}


@pytest.mark.parametrize("case", INPUTS)
def test_the_eight_steps(case):
    requests, costs, target_ms = INPUTS[case]()
    if case not in ("infeasible", "a target of a million"):  # no target is in them: test_the_committed_ones has these
        assert_legible(picture_slots.draw_slots(*picture_slots.slots_data(requests, costs)))
        assert_legible(picture_queue.draw_queue(*picture_queue.queue_data(requests, costs)))
    assert_legible(picture_tune.draw_tune(*picture_tune.tune_data(requests, costs, target_ms)))
    assert_legible(picture_ttft.draw_ttft(*picture_ttft.ttft_data(requests, costs, target_ms)))


@pytest.mark.parametrize("n", [400, 10_000])
def test_long_lists(n):
    """Cut in slots.svg; in tune.svg the first burst is less than 1 % of all at first."""
    requests = some_requests(n, 3)
    assert_legible(picture_slots.draw_slots(*picture_slots.slots_data(requests)))
    up_to = 60 if n == 400 else 12
    assert_legible(picture_tune.draw_tune(*picture_tune.tune_data(requests, up_to=up_to)))
    assert_legible(picture_ttft.draw_ttft(*picture_ttft.ttft_data(requests, up_to=up_to)))
    if n == 400:
        assert_legible(picture_queue.draw_queue(*picture_queue.queue_data(requests)))


@pytest.mark.parametrize("case", ["1 request", "2 requests", "3 requests", "17 requests"])
def test_the_third_lab(case):
    requests, costs, _ = INPUTS[case]()
    assert_legible(picture_preemption.draw_preemption(picture_preemption.preemption_data(requests, costs)))
    assert_legible(picture_prefix.draw_prefix(*picture_prefix.prefix_data(requests, costs)))
    assert_legible(picture_chunked.draw_chunked(picture_chunked.chunked_data(requests, costs)))


def test_budgets_that_make_no_difference_or_have_no_second_token():
    names = ["64", "128", "256", "unlimited"]
    assert_legible(picture_chunked.draw_chunked([(name, 120.0, 8.0) for name in names]))
    assert_legible(picture_chunked.draw_chunked([(name, 120.0, 0.0) for name in names]))
    for seed in range(20):
        r = Random(seed)
        assert_legible(picture_chunked.draw_chunked([(name, r.uniform(1, 1e5), r.uniform(8, 900)) for name in names]))


@pytest.mark.parametrize("n", [1, 2, 30, 60])
def test_the_second_lab(n):
    r = Random(n)
    requests = Requests([r.randint(1, 1000) for _ in range(n)], [r.randint(1, 500) for _ in range(n)])
    workload = Workload(requests, sorted(r.uniform(0, n) for _ in range(n)))
    assert_legible(picture_waste.draw_waste(picture_waste.waste_data(workload)))
    assert_legible(picture_curves.draw_curves(*picture_curves.curves_data(workload)))
    assert_legible(picture_reservation.draw_reservation(*picture_reservation.reservation_data(workload, "")))
    assert_legible(picture_deadlock.draw_deadlock(*picture_deadlock.deadlock_data(workload, "")))


def test_a_deadlock_in_every_row():
    measures = Measures(9000.0, 8500.0, None, None, 12.3, 45)
    runs = {(rate, mode): measures for rate in (4, 8, 12) for mode in ("max_seq", "max_gen", "none", "paged")}
    assert_legible(picture_reservation.draw_reservation(1000, runs))


@pytest.mark.parametrize("seed", range(12))
def test_any_plan(seed):
    """Curves of one to six limits, with and without today's rate, a capacity and an answer."""
    r = Random(seed)
    limits = {}
    for limit in (8, 16, 32, 64, 128, 256)[: r.randint(1, 6)]:
        rps, ms, points = r.uniform(0.1, 50), r.uniform(5, 500), []
        for _ in range(r.randint(1, 25)):
            points.append((rps, ms, ms * r.uniform(0.5, 1), ms * r.uniform(1, 4)))
            rps, ms = rps * 1.05, ms * r.uniform(0.9, 1.7)
        limits[limit] = points
    best = r.choice(list(limits))
    answer = (best, r.choice(limits[best])[0]) if seed % 3 else None
    today_rps, capacity_rps = r.choice([None, limits[best][0][0]]), r.choice([None, limits[best][-1][0] * 1.01])
    slower_rps = answer and r.choice([None, answer[1] * 0.9])
    target_ms = r.choice([50, 200, 12_345])
    assert_legible(picture_plan.draw_plan(limits, target_ms, "p99 TTFT", today_rps, capacity_rps, answer, slower_rps,
                                          no_edge=bool(seed % 2)))


@pytest.mark.parametrize("runs", [1, 4, 9])
def test_any_measured_runs(runs):
    r = Random(runs)
    rows = [(f"closed_{run:02}", measure, 100.0, 100 * r.uniform(0.4, 2.2))
            for run in range(runs) for measure in picture_measured.NAMES]
    assert_legible(picture_measured.draw_measured(rows, ["closed_00"], 20))


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_ones(name):
    assert_legible((LAB / "pictures" / f"{name}.svg").read_text())


def test_the_recorded_workload_of_the_second_lab():
    workload = load_workload(LAB.parent / "fixtures/orca/requests.json", 200)
    assert_legible(picture_deadlock.draw_deadlock(*picture_deadlock.deadlock_data(workload, "")))
