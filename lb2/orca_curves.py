"""How much load does each scheduler carry before its latency takes off?

Median latency per output token and throughput at rising request rates: request level with batches of 1 and 8, iteration
level with batches of 8, 16 and 32 (as in Orca's Figure 10, but on one GPU). Then, for each, the highest rate within
a latency target, twice the unloaded latency. Iteration level reserves prompt + output tokens, as if the output were
known beforehand. It ignores what happens when it is not: that is demo 4's question.

    python3 lb2/orca_curves.py        writes orca_curves.csv and orca_slo.csv

    ("request", 8)             a system: scheduler and batch limit; memory cuts the request level's limit to 6
    Point(4, 3.97, 25.8)       requests/s that arrive, requests/s that are served, ms per output token
"""

from math import sqrt
from typing import NamedTuple

import orca_iteration
import orca_request
from command_line import run
from common import aligned, save, table
from orca_model import FULL_LENGTH_SLOTS
from orca_words import ASSUMPTIONS
from orca_workload import arguments, arrivals_at, chosen_workload, p50_ms_per_token, throughput_rps

ONE, BATCH, MANY = ("request", 1), ("request", 8), ("iteration", 32)
SYSTEMS = (ONE, BATCH, ("iteration", 8), ("iteration", 16), MANY)
RATES_RPS = (0.5, 1, 2, 4, 6, 8, 12, 16)
LOWEST_RPS, HIGHEST_RPS, HALVINGS = 0.05, 64, 14  # where the highest rate within the target is sought


class Point(NamedTuple):
    rate_rps: float
    throughput_rps: float
    p50_ms_per_token: float


def play(system, requests, arrivals_us):
    """The Schedule of the requests under a system."""
    scheduler, max_batch = system
    if scheduler == "request":
        return orca_request.schedule(requests, min(max_batch, FULL_LENGTH_SLOTS), arrivals_us)
    needs = [prompt + output for prompt, output in zip(*requests)]
    return orca_iteration.schedule(requests, max_batch, arrivals_us, needs).schedule


def measure(system, workload, rate_rps):
    """The Point of a Workload that arrives at this rate."""
    arrivals_us = arrivals_at(workload, rate_rps)
    finished_us = play(system, workload.requests, arrivals_us).finished_us
    latency = p50_ms_per_token(workload.requests.output_tokens, arrivals_us, finished_us)
    return Point(rate_rps, throughput_rps(arrivals_us, finished_us), latency)


def curve(system, workload, rates_rps):
    return [measure(system, workload, rate) for rate in rates_rps]


def peak_rps(points):
    """The highest throughput of a curve."""
    return max(point.throughput_rps for point in points)


def at_once_rps(system, requests):
    """Requests per second when all of them are there at time 0: how fast the system works them off."""
    n = len(requests.prompt_tokens)
    return n * 1e6 / max(play(system, requests, [0] * n).finished_us)


def highest_within(system, workload, target_ms):
    """The Point of the highest rate whose latency meets the target, by bisection; all zeros if the lowest misses it."""
    best = measure(system, workload, LOWEST_RPS)
    if best.p50_ms_per_token > target_ms:
        return Point(0, 0, 0)
    too_high = HIGHEST_RPS
    for _ in range(HALVINGS):
        point = measure(system, workload, sqrt(best.rate_rps * too_high))  # halfway on a log scale
        if point.p50_ms_per_token <= target_ms:
            best = point
        else:
            too_high = point.rate_rps
    return best


def name(system):
    return f"{system[0]} {system[1]}"


def decimals(numbers):
    return [f"{number:.3f}" for number in numbers]


def print_curves(curves):
    """Two tables, throughput and latency: a line a rate, a column a system."""
    for field in ("throughput_rps", "p50_ms_per_token"):
        columns = [decimals(getattr(point, field) for point in points) for points in curves.values()]
        lines = zip(decimals(RATES_RPS), *columns)
        print(f"orca_curves.csv, {field}:\n{aligned(['rate_rps', *map(name, curves)], lines)}", end="")


def print_notices(requests, curves, best):
    slow, fast = best[BATCH].rate_rps, best[MANY].rate_rps
    print(
        f"Notice: within the target {name(BATCH)} carries {slow:.2f} requests/s and {name(MANY)} {fast:.2f}"
        + (f", {fast / slow:.1f} times as much." if slow else ".")
    )
    print(
        f"Notice: the highest throughput of a grid of rates is not saturation: {name(MANY)} peaks at "
        f"{peak_rps(curves[MANY]):.3f}, and works off {at_once_rps(MANY, requests):.3f}/s when all come at once."
    )
    last, capacity = curves[ONE][-1], at_once_rps(ONE, requests)
    print(
        f"Notice: in overload throughput reads low: {name(ONE)} at {last.rate_rps} requests/s shows "
        f"{last.throughput_rps / capacity:.2f} of the {capacity:.3f}/s it works off. The warm-up's requests are not "
        "counted, and the time they take is."
    )


def main():
    args = arguments(__doc__).parse_args()
    workload = chosen_workload(args)
    curves = {system: curve(system, workload, RATES_RPS) for system in SYSTEMS}
    target_ms = 2 * curves[MANY][0].p50_ms_per_token
    best = {system: highest_within(system, workload, target_ms) for system in SYSTEMS}
    points = [[*system, *decimals(point)] for system in SYSTEMS for point in curves[system]]
    header = ["scheduler", "max_batch", "target_ms_per_token", "max_rate_rps", "throughput_rps", "peak_throughput_rps"]
    rows = [
        [*system, *decimals([target_ms, point.rate_rps, point.throughput_rps, peak_rps(curves[system])])]
        for system, point in best.items()
    ]
    texts = {
        "orca_curves.csv": table(["scheduler", "max_batch", *Point._fields], points),
        "orca_slo.csv": table(header, rows),
    }
    save(args.out, texts)

    print(f"Demo 2: load, throughput and latency\n{ASSUMPTIONS}")
    print_curves(curves)
    print(f"orca_slo.csv:\n{aligned(header, rows)}", end="")
    print_notices(workload.requests, curves, best)


if __name__ == "__main__":
    run(main)
