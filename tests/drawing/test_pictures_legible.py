"""Whatever the requests: no word of any picture lies on another word or on a line, or leaves the picture."""

from random import Random
from types import SimpleNamespace

import pictures
import pytest
from common import Requests
from drawing.measured import NAMES as MEASURES
from drawing.plan import Shown
from drawing.traffic import draw_traffic
from files.costs import Costs
from files.sources import load_trace
from fixture import LAB, shipped
from orca_reservation import Measures
from picture_reader import assert_legible
from roofline.workload import Workload

MEASURED = Costs(prefill_us_per_token=144, step_us=9907, step_us_per_sequence=493, overhead_us=4933)


def some_requests(n, seed, longest=900, most=500):
    r = Random(seed)
    return Requests([r.randint(1, longest) for _ in range(n)], [r.randint(1, most) for _ in range(n)])


INPUTS = {  # name: a function that makes (requests, costs, target)
    "1 request": lambda: (Requests([100], [5]), Costs(), 200),
    "2 requests": lambda: (Requests([5, 2000], [1, 1]), Costs(), 200),
    "3 requests": lambda: (Requests([100, 200, 100], [1, 3, 2]), Costs(), 200),
    "17 requests": lambda: (some_requests(17, 1), Costs(), 200),
    "all equal": lambda: (Requests([128] * 40, [64] * 40), Costs(), 200),
    "one giant prompt": lambda: (Requests([100_000] + [50] * 30, [20] * 31), Costs(), 200),
    "one giant output": lambda: (Requests([10] * 40, [1_000_000_000] + [1] * 39), Costs(), 200),
    "measured costs": lambda: (shipped(), MEASURED, 200),
    "a trace": lambda: (load_trace(LAB.parent / "fixtures/measured/closed_04.json.gz").requests, MEASURED, 1000),
    "infeasible": lambda: (shipped(), Costs(), 5),
    "no edge": lambda: (Requests([1] * 50, [1] * 50), Costs(), 200),
    "a target of a million": lambda: (shipped(), Costs(), 1e6),
}


@pytest.mark.parametrize("case", INPUTS)
def test_the_eight_steps(case):
    requests, costs, target_ms = INPUTS[case]()
    assert_legible(draw_traffic(requests))
    if case not in ("infeasible", "a target of a million"):  # no target is in them: test_the_committed_ones has these
        assert_legible(pictures.draw_slots(requests, 16, *pictures.schedules(requests, 16, None, costs).values()))
        assert_legible(pictures.queue_picture(requests, costs))
    points, chosen = pictures.tune_data(requests, costs, target_ms)
    assert_legible(pictures.tune_picture(requests, costs, target_ms, points, chosen))
    assert_legible(pictures.ttft_picture(requests, costs, target_ms, chosen))


@pytest.mark.parametrize("n", [400, 10_000])
def test_long_lists(n):
    """Cut in slots.svg; in tune.svg the first burst is less than 1 % of all at first."""
    requests = some_requests(n, 3)
    assert_legible(pictures.draw_slots(requests, 16, *pictures.schedules(requests, 16).values()))
    points = [pictures.tune.measure(requests, clients) for clients in range(1, 61 if n == 400 else 13)]
    assert_legible(pictures.draw_tune(200, points, {"p99": points[4], "mean": points[8]}, None, n))
    assert_legible(pictures.ttft_picture(requests, Costs(), 200, {"p99": points[4], "mean": points[8]}))


@pytest.mark.parametrize("case", ["1 request", "17 requests", "all equal", "measured costs"])
def test_the_third_lab(case):
    requests, costs, _ = INPUTS[case]()
    requests = Requests(*(column[:30] for column in requests))
    assert_legible(pictures.preemption_picture(requests, costs))
    assert_legible(pictures.chunked_picture(requests, costs))


@pytest.mark.parametrize("points", [
    [("64", 100.0, 8.0), ("128", 100.0, 8.0)], [("64", 100.0, 0.0), ("128", 90.0, 0.0)],
    [("64", 1e6, 0.001), ("unlimited", 0.01, 1e5)], [(str(2**k), 100.0 + k, 8.0 + k) for k in range(6, 12)]])
def test_budgets_that_make_no_difference_or_have_no_second_token(points):
    assert_legible(pictures.draw_chunked(points, 10))


@pytest.mark.parametrize("n", [1, 2, 30])
def test_the_second_lab(n):
    r = Random(n)
    requests = Requests([r.randint(1, 900) for _ in range(n)], [r.randint(1, 500) for _ in range(n)])
    workload = Workload(requests, sorted(r.uniform(0, 3 * n) for _ in range(n)))
    assert_legible(pictures.curves_picture(workload))
    assert_legible(pictures.reservation_picture(workload, "some.csv"))
    stuck = {(rate, mode): Measures(9000.0, 8000.0, None, None, 49.7, 516) for rate in (4, 8, 12)
             for mode in ("max_seq", "max_gen", "none", "paged")}
    assert_legible(pictures.draw_reservation(1000, 12_597, stuck))


@pytest.mark.parametrize("seed", range(40))
def test_any_plan(seed):
    r = Random(seed)
    limits, scale = {}, 10 ** r.uniform(-2, 3)
    for limit in sorted(r.sample([8, 16, 32, 64, 128, 256], r.randint(1, 6))):
        loads = sorted(scale * r.uniform(0.1, 1) for _ in range(r.randint(1, 12)))
        limits[str(limit)] = [(rps, 10 ** r.uniform(0, 4)) for rps in loads]
    best = r.choice(list(limits))
    answer = r.choice([None, (best, *r.choice(limits[best]))])
    some = [r.choice([None, scale * r.uniform(0.1, 2)]) for _ in range(3)]
    edges = [scale * r.uniform(0, 1) for _ in range(r.choice([0, 20]))]
    assert_legible(pictures.draw_plan(Shown("p99 TTFT", 10 ** r.uniform(0, 4), limits, answer, some[0], edges,
                                          r.choice([{}, {"TTFT": 12, "TPOT": 8}]), *some[1:], r.random() < 0.5)))
    assert_legible(pictures.draw_plan(Shown("p99 TTFT", 200.0, {}, today_rps=some[0])))


@pytest.mark.parametrize("seed", range(8))
def test_any_measured_runs(seed):
    r = Random(seed)
    servers = {}
    for name in ("three quiet servers", "a noisy one")[: r.randint(1, 2)]:
        rows = [SimpleNamespace(run=f"roofline_open{k}", role=r.choice(["predicted", "calibrated"]), measure=measure,
                                error_percent=r.gauss(0, 10 ** r.uniform(-1, 3)))
                for k in range(r.randint(1, 5)) for measure in r.sample(list(MEASURES), r.randint(1, 7))]
        servers[name] = rows, 10 ** r.uniform(0, 2)
    assert_legible(pictures.draw_measured(servers))


@pytest.mark.parametrize("path", sorted((LAB / "pictures").iterdir()), ids=lambda path: path.name)
def test_the_committed_ones(path):
    assert_legible(path.read_text())
