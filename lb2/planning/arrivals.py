"""When do requests arrive: at what rate, at single moments or spread, and at another rate?

    own_rps([0, 500_000, 1_000_000])                   -> 2.0 requests/s
    grid_of(3_000_000, [0, 0, 0, 3_000_000, ...])      -> Grid(step_us=3_000_000, moments=1180, most=31)
    spread([0, 0, 1_000_000], 1_000_000)               -> [0, 500_000, 1_000_000]

Times are whole microseconds from the first arrival on, in order.
"""

from collections import Counter
from itertools import accumulate
from random import Random
from typing import NamedTuple

SHARED = 0.1  # of the requests: so many share their moment with an earlier one, at least


class Grid(NamedTuple):
    """Arrivals that were written down on a coarse clock."""

    step_us: int
    moments: int  # different times of arrival
    most: int  # requests at one of them


def own_rps(arrivals_us):
    """Requests per second: the gaps between arrivals by the time they take. None without two moments."""
    if not arrivals_us or arrivals_us[-1] == 0:
        return None
    return (len(arrivals_us) - 1) * 1_000_000 / arrivals_us[-1]


def scaled(arrivals_us, factor):
    """The same arrivals so many times as fast."""
    return [round(arrival / factor) for arrival in arrivals_us]


def poisson(seed, n):
    """n arrivals at 1 request per second, the draw of queueing.py with this seed."""
    random = Random(seed)
    return [round(1_000_000 * arrival) for arrival in accumulate(random.expovariate(1.0) for _ in range(n))]


def grid_of(trace_grid_us, arrivals_us):
    """The Grid of a trace whose arrivals lie on one; None if few of them share a moment: then it does no harm."""
    moments = Counter(arrivals_us)
    if trace_grid_us is None or len(arrivals_us) - len(moments) < SHARED * len(arrivals_us):
        return None
    return Grid(trace_grid_us, len(moments), max(moments.values()))


def spread(arrivals_us, step_us):
    """The k requests of one moment, spread evenly over the step that follows it."""
    counts, seen, later_us = Counter(arrivals_us), Counter(), []
    for arrival in arrivals_us:
        later_us.append(arrival + step_us * seen[arrival] // counts[arrival])
        seen[arrival] += 1
    return later_us
