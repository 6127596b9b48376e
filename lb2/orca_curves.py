"""How much load does each scheduler carry before its latency takes off?

As the rate of arrivals rises, each system serves what comes, up to a point: the knee of its curve.
Beyond the knee the line of waiting requests grows, and waiting dominates the latency. This demo
shows throughput and median latency per output token (p50: half of the requests are faster) for the
request level with batches of 1 and 8, and for the iteration level with 8, 16 and 32, as in Orca's
Figure 10, but on one GPU. Then it seeks, for each system, the highest rate that still meets a
latency target (SLO, a service-level objective): twice the latency of iteration level 32 at 0.5
requests/s.

It ignores that the length of an output is not known beforehand: that is the question of demo 4.

    python3 lb2/orca_curves.py        writes orca_curves.csv and orca_slo.csv
"""

from typing import NamedTuple

from common import run, save, say, table
from roofline.model import ASSUMPTIONS
from roofline.systems import HIGHEST_RPS, at_once_rps, curve, decimals, highest_within, name, peak_rps
from roofline.workload import arguments, chosen_workload
from running.options import aligned

ONE, BATCH, MANY = ("request", 1), ("request", 8), ("iteration", 32)
SYSTEMS = (ONE, BATCH, ("iteration", 8), ("iteration", 16), MANY)
RATES_RPS = (0.5, 1, 2, 4, 6, 8, 12, 16)
HEADER = ["scheduler", "max_batch", "rate_rps", "throughput_rps", "p50_ms_per_token"]
SLO_HEADER = ["scheduler", "max_batch", "target_ms_per_token", "max_rate_rps", "throughput_rps", "peak_throughput_rps"]


class Curves(NamedTuple):
    points: dict  # system -> [Point], one for each of RATES_RPS
    target_ms: float
    best: dict  # system -> the Point of the highest rate within the target
    one_at_once_rps: float  # what request 1 serves if all requests come at once
    many_at_once_rps: float  # what iteration 32 serves then


def results(workload):
    points = {system: curve(system, workload, RATES_RPS) for system in SYSTEMS}
    target_ms = 2 * points[MANY][0].p50_ms_per_token
    best = {system: highest_within(system, workload, target_ms) for system in SYSTEMS}
    at_once = [at_once_rps(system, workload.requests) for system in (ONE, MANY)]
    return Curves(points, target_ms, best, *at_once)


def slo_rows(curves):
    return [
        [*system, *decimals([curves.target_ms, best.rate_rps, best.throughput_rps, peak_rps(curves.points[system])])]
        for system, best in curves.best.items()
    ]


def show(curves):
    print("Demo 2: load, throughput and latency")
    for field in ("throughput_rps", "p50_ms_per_token"):
        columns = [decimals(getattr(point, field) for point in points) for points in curves.points.values()]
        lines = zip(decimals(RATES_RPS), *columns)
        print(f"orca_curves.csv, {field}:\n{aligned(['rate_rps', *map(name, curves.points)], lines)}", end="")
    print(f"orca_slo.csv:\n{aligned(SLO_HEADER, slo_rows(curves))}", end="")
    notice_target(curves)
    notice_peak(curves)
    notice_overload(curves)


def notice_target(curves):
    """What the batch and the widest system serve within the target, and which systems never miss it."""
    slow, fast = curves.best[BATCH].throughput_rps, curves.best[MANY].throughput_rps
    factor = f", {fast / slow:.1f} times as much" if slow else ""
    say(f"Notice: within the target of {curves.target_ms:.1f} ms per token {name(BATCH)} serves {slow:.2f} "
        f"requests/s and {name(MANY)} {fast:.2f}{factor}.")
    unlimited = [name(system) for system, best in curves.best.items() if best.rate_rps > 0.999 * HIGHEST_RPS]
    if unlimited:
        say(f"Notice: the target holds up to {HIGHEST_RPS} requests/s, the highest rate tried, for "
            f"{', '.join(unlimited)}.")


def notice_peak(curves):
    """The highest throughput of the table may be below what the system can do."""
    peak, at_once = peak_rps(curves.points[MANY]), curves.many_at_once_rps
    if at_once > peak:
        say(f"Notice: the highest throughput of the table is not all that a system can do. {name(MANY)} peaks at "
            f"{peak:.3f} requests/s, and serves {at_once:.3f} if all requests come at once.")


def notice_overload(curves):
    """If more requests come than can be served, the measure is too small, and the warm-up is why."""
    last, capacity = curves.points[ONE][-1], curves.one_at_once_rps
    if last.rate_rps > capacity:
        say(f"Notice: in overload the measure is too small. {name(ONE)} can serve {capacity:.3f} requests/s. At "
            f"{last.rate_rps} requests/s {last.throughput_rps:.3f} is measured, {last.throughput_rps / capacity:.2f} "
            "of it. The requests of the warm-up are not counted, but part of the measured time goes to them. If they "
            f"are counted, the same run gives {last.all_rps:.3f}.")


def main():
    args = arguments(__doc__).parse_args()
    curves = results(chosen_workload(args))
    rows = [[*system, *decimals(point[:3])] for system, points in curves.points.items() for point in points]
    save(args.out, {"orca_curves.csv": table(HEADER, rows), "orca_slo.csv": table(SLO_HEADER, slo_rows(curves))})
    say(ASSUMPTIONS)
    show(curves)


if __name__ == "__main__":
    run(main)
