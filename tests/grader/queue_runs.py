"""Which waits and which queue does a solution of step 6 find? Permitted servers on plausible arrivals.

    Server(Reading(), 32)                       who serves: a reading with so many slots
    runs(replays, server, POISSON, (7,), 40)    the Runs of these draws at 40 requests per second
    sample(runs, 40)                            what may stand in the row: waits and queues by name
"""

from bisect import bisect_right
from itertools import accumulate
from random import Random
from typing import NamedTuple

from readings import INSIDE, PREFILLS, Reading, interpolated, nearest_rank, next_rank, replay

RATES = (5, 10, 20, 40)
SLOTS_PERMITTED = (32, 16)  # the limit of step 5, or the batch size of steps 1 to 4: step 6 names none
EVEN, POISSON = "evenly spaced arrivals", "Poisson arrivals"
POOLED = tuple(range(20))  # random.Random(s) for these s
SEEDS = (*range(10), 42, 77, 99, 100, 123, 1234, 12345, 1337, 2024, 2025, 2026)
ENDS = {"starts": "", "prefilled": "the wait ends with the own prefill", "firsts": "the wait ends with the first token"}
P99S = {"p99": interpolated, "p99, nearest rank": nearest_rank, "p99, int(0.99 * n)": next_rank}
RUNNING = "waiting and running"


class Server(NamedTuple):
    reading: Reading = Reading()
    slots: int = SLOTS_PERMITTED[0]
    static: bool = False
    lists: int = 1  # how often the list of requests is played, one after the other

    def __str__(self):
        words = f"{self.slots} slots, {'static batches; ' * self.static}{self.reading}"
        return words + f"; the list {self.lists} times over" * (self.lists > 1)


def plain_servers(step_us):
    """The plainest ones, the plainest first."""
    return [Server(Reading(INSIDE, prefill, step_us), slots) for slots in SLOTS_PERMITTED for prefill in PREFILLS]


def arrivals_of(kind, draw, n, rps):
    """Arrival times in us. draw: a seed, and whether the four rates go on with the same random numbers."""
    if kind == EVEN:
        return [1_000_000 * i / rps for i in range(n)]
    seed, goes_on = draw
    r = Random(seed)
    gaps = [r.expovariate(1.0) for _ in range(n * (1 + goes_on * RATES.index(rps)))][-n:]
    return [1_000_000 * at / rps for at in accumulate(gaps)]


def one_run(replays, server, kind, draw, rps):
    columns = [server.lists * column for column in replays.requests]
    arrivals = replays.remember(("arrivals", kind, draw, len(columns[0]), rps), arrivals_of, kind, draw, len(columns[0]), rps)
    return replay(columns, server.reading, server.slots, server.static, arrivals)


def run_of(replays, server, kind, draw, rps):
    key = (server, kind, draw, rps)
    return replays.remember(key, one_run, replays, server, kind, draw, rps)


class Sample(NamedTuple):
    """What may stand in a row; ms, and requests."""

    waits: dict  # (end, statistic): of the waits
    queues: dict  # average: of the queue


def waits_ms(runs, end):
    return sorted((at - arrival) / 1000 for run in runs for at, arrival in zip(getattr(run, end), run.arrivals))


def statistics_of(waits):
    """{name: value} of sorted waits."""
    n = len(waits)
    found = {name: float(percentile(waits)) for name, percentile in P99S.items()}
    found |= {"p95": float(interpolated(waits, 95)), "p95, nearest rank": nearest_rank(waits, 95)}
    found |= {"p90": float(interpolated(waits, 90)), "median": float(interpolated(waits, 50))}
    return found | {"mean": sum(waits) / n, "maximum": waits[-1]}


def sample(runs, rps, outputs, step_us):
    """The Sample of one run, or of several whose waits are pooled."""
    of_ends = {end: waits_ms(runs, end) for end in ENDS}
    waits = {(end, name): value for end, ms in of_ends.items() for name, value in statistics_of(ms).items()}
    n, span, total = len(of_ends["starts"]), sum(run.span for run in runs), 1000 * sum(of_ends["starts"])
    arriving = sum(run.arrivals[-1] for run in runs)
    inside = sum(min(at, run.arrivals[-1]) - arrival for run in runs for at, arrival in zip(run.starts, run.arrivals))
    queues = {
        "over the whole time": total / span,
        "while requests arrive": max(inside, 0) / arriving if arriving else 0,
        "as rate x mean wait": rps * total / n / 1e6,
        "as arriving requests see it": sum(map(seen, runs)) / n,
        "of those left waiting at each step": sum(map(left, runs)) / sum(run.passes for run in runs),
        RUNNING: (total + step_us * sum(outputs) * len(runs)) / span,
    }
    return Sample(waits, queues)


def seen(run):
    """The sum, over all requests, of how many wait when it arrives. First come, first served: starts rise, too."""
    return sum(i - bisect_right(run.starts, arrival, 0, i) for i, arrival in enumerate(run.arrivals))


def left(run):
    """The sum, over the iterations, of how many still wait when one has begun; an iteration takes the mean time."""
    step_us = (run.span - run.idle) / run.passes
    return sum((start - arrival) // step_us for start, arrival in zip(run.starts, run.arrivals))


def samples(replays, server, kind, rps):
    """Of single draws and, of Poisson arrivals, all of them pooled as the last."""
    return replays.remember(("samples", server, kind, rps), compute_samples, replays, server, kind, rps)


def compute_samples(replays, server, kind, rps):
    draws = [(seed, False) for seed in (POOLED if server.lists < 6 else POOLED[:5])] if kind == POISSON else [None]
    runs = [run_of(replays, server, kind, draw, rps) for draw in draws]
    pools = [[run] for run in runs] + ([runs] if kind == POISSON else [])
    outputs = server.lists * replays.outputs
    return [sample(pool, rps, outputs, server.reading.step_us) for pool in pools]
