"""Which waits and which queue does a solution of task 6 find? Permitted servers on plausible arrivals.

    Server(Reading(), 32)                            who serves: a reading with so many slots
    runs_of(replays, server, POISSON, draws, 40)     the Runs of these draws at 40 requests per second
    sample(runs, 40)                                 what may stand in the row: waits and queues by name
"""

from bisect import bisect_right
from itertools import accumulate
from operator import sub
from random import Random
from typing import NamedTuple

from readings import INSIDE, PREFILLS, Reading, interpolated, nearest_rank, next_rank, replay

RATES = (5, 10, 20, 40)
SLOTS_PERMITTED = (32, 16)  # the limit of task 5, or the batch size of tasks 1 to 4: task 6 names none
EVEN, POISSON = "evenly spaced arrivals", "Poisson arrivals"
POOLED = tuple((seed, False) for seed in range(20))  # draws of random.Random(seed)
SEEDS = (*range(10), 42, 77, 99, 100, 123, 1234, 12345, 1337, 2024, 2025, 2026)
ENDS = {"starts": "", "prefilled": "the wait ends with the own prefill", "firsts": "the wait ends with the first token"}
P99S = {"p99": interpolated, "p99, nearest rank": nearest_rank, "p99, int(0.99 * n)": next_rank}
AVERAGES = "over the whole time", "while requests arrive", "as rate x mean wait", "of those left waiting at each step"
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


def draws_of(server, kind):
    """Tuples of draws, whose waits are pooled. A draw: a seed, and whether the rates go on with its random numbers."""
    if kind == EVEN:
        return [(None,)]
    if server.lists > 1:
        return [((seed, False),) for seed in (0, 1, 42)]
    return [((seed, goes_on),) for goes_on in (False, True) for seed in SEEDS] + [POOLED[:n] for n in (5, 10, 20)]


def arrivals_of(kind, draw, n, rps):
    """Arrival times in us."""
    if kind == EVEN:
        return [1_000_000 * i / rps for i in range(n)]
    seed, goes_on = draw
    r = Random(seed)
    gaps = [r.expovariate(1.0) for _ in range(n * (1 + goes_on * RATES.index(rps)))][-n:]
    return [1_000_000 * at / rps for at in accumulate(gaps)]


def runs_of(replays, server, kind, draws, rps):
    keys = [(server, kind, draw, rps) for draw in draws]
    return [replays.remember(key, one_run, replays, *key) for key in keys]


def one_run(replays, server, kind, draw, rps):
    columns = [server.lists * column for column in replays.requests]
    key = (kind, draw, len(columns[0]), rps)
    arrivals = replays.remember(("arrivals", *key), arrivals_of, *key)
    return replay(columns, server.reading, server.slots, server.static, arrivals)


def waits_of(runs):
    """{(end, statistic): ms}"""
    found = {}
    for end in ENDS:
        us = sorted(wait for run in runs for wait in map(sub, getattr(run, end), run.arrivals))
        for percent in (99, 95, 90):
            words = {name: name.replace("99", str(percent)) for name in P99S}
            found |= {(end, words[name]): float(percentile(us, percent)) / 1000 for name, percentile in P99S.items()}
        mean, middle = sum(us) / len(us), float(interpolated(us, 50))
        found |= {(end, "mean"): mean / 1000, (end, "median"): middle / 1000, (end, "maximum"): us[-1] / 1000}
    return found


def index_of(replays, server):
    """[(value at 40/s, kind, draws, (end, statistic))], sorted."""
    return replays.remember(("index", server), compute_index, replays, server)


def compute_index(replays, server):
    found = []
    for kind in (EVEN, POISSON):
        for draws in draws_of(server, kind):
            waits = waits_of(runs_of(replays, server, kind, draws, RATES[-1]))
            found += [(value, kind, draws, statistic) for statistic, value in waits.items()]
    return sorted(found, key=lambda entry: entry[0])


class Sample(NamedTuple):
    """What may stand in a row; ms, and requests."""

    waits: dict  # (end, statistic): of the waits
    queues: dict  # average: of the queue


def sample(runs, rps):
    """The Sample of one run, or of several whose waits are pooled."""
    n, span = sum(len(run.starts) for run in runs), sum(run.span for run in runs)
    total = sum(map(sum, (run.starts for run in runs))) - sum(map(sum, (run.arrivals for run in runs)))
    inside = sum(min(at, run.arrivals[-1]) - arrival for run in runs for at, arrival in zip(run.starts, run.arrivals))
    averages = total / span, inside / (sum(run.arrivals[-1] for run in runs) or 1), rps * total / n / 1e6
    queues = dict(zip(AVERAGES, (*averages, sum(map(left, runs)) / sum(run.passes for run in runs))))
    queues["as arriving requests see it"] = sum(map(seen, runs)) / n
    queues[RUNNING] = (total + sum(run.held for run in runs)) / span
    return Sample(waits_of(runs), queues)


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
    draws = (None,) if kind == EVEN else POOLED if server.lists < 6 else POOLED[:5]
    runs = runs_of(replays, server, kind, draws, rps)
    return [sample([run], rps) for run in runs] + ([sample(runs, rps)] if kind == POISSON else [])
