"""How much load does a setup carry, and with what certainty?

The trace and each of 20 replays has an edge: the largest load at which it meets every target. The answer is

    the lower of the trace's own edge and the replays' median edge
        x max(1/2, exp(-Z x standard deviation of the logarithms of the replays' edges))

The lower of the two, because replays lose the shape of a day, and the trace is one day of many. Not the
load that all 20 replays meet: then one request decides that is long by chance and is drawn often into one
of them. (Fifteen traces of one kind, whose own edges differ by a fifth, gave 3.0 to 19.6 requests/s.)
tests/planning/plan_acceptance.py measures how often fresh traces carry the answer; it chose Z.

    stream_edge(problem, setup, capacity, start, seed)   -> Edge of a replay, or of the trace itself (seed None)
    Found(setup, capacity_rps, trace, replays)           .answer() is the load, .state says whether there is one

Loads lie on rungs: 48 to a factor of ten, so about 5 % apart, at numbers of two digits (three below 2).
"""

import math
from bisect import bisect_right
from functools import partial
from itertools import count, takewhile
from statistics import median, stdev
from typing import NamedTuple

from planning.engine import Targets, capacity_rps
from planning.loads import Setup, measures_at, stream_for

RUNGS = 48  # to a factor of ten
HALF = 14  # rungs to a factor of two, nearly
LEAST = 10 * HALF  # rungs below the capacity that are tried: to about a thousandth
STRIDES = ((0.1, 1), (0.25, 2), (0.6, 4), (math.inf, 8))  # so far is log(value / target) from 0: rungs to go
Z = 2.3
FLOOR = 0.5
SLOWER = 1.1  # times as long as calibrated
SLOWER_REPLAYS = 5  # of the 20 tell what a slower server carries


# --- loads ------------------------------------------------------------------------------------------


def rps_of(rung):
    """Requests per second of a rung."""
    digits = 3 if rung % RUNGS <= HALF else 2
    return float(f"{10 ** (rung / RUNGS):.{digits}g}")


def loads_of(setup, capacity):
    """All loads that may be tried, in order: clients, all up to 20, then 5 % apart; or requests/s."""
    if setup.closed_to:
        clients = (rung + 1 if rung < 20 else round(20 * 1.05 ** (rung - 19)) for rung in count())
        return [*takewhile(lambda load: load < setup.closed_to, clients), setup.closed_to]
    near = round(RUNGS * math.log10(capacity))
    return [rps for rung in range(near - LEAST - 3, near + 2) if (rps := rps_of(rung)) <= capacity][-LEAST - 1 :]


# --- edges ------------------------------------------------------------------------------------------


class Edge(NamedTuple):
    """How far one traffic goes."""

    load: float  # the largest that meets every target; None: there is none
    slower: float  # the same if the server is 10 % slower; None: there is none, or it was not asked for
    tried: dict  # load -> Measures

    def above(self):
        """The next load above the edge, at which a target is missed; None: the edge is the highest load of all."""
        return min((load for load in self.tried if load > (self.load or 0)), default=None)


def last_met(margin, start, highest):
    """The last rung, 0 to highest, that meets, where the next one misses; None: none does.

    margin: log(value / target) of a rung.
    """
    good = bad = None
    rung, reach = min(max(start, 0), highest), 0
    while True:
        off = margin(rung)
        reach = max(2 * reach, next(stride for limit, stride in STRIDES if abs(off) <= limit))
        good, bad = (rung, bad) if off <= 0 else (good, rung)
        if good == highest or (good is not None and bad == good + 1):
            return good
        if bad == 0:
            return None
        if bad is None:
            rung = min(highest, good + reach)
        elif good is None:
            rung = max(0, bad - reach)
        else:
            rung = (good + bad) // 2


def edge_of(problem, setup, traffic, capacity, start, slower=False):
    """The Edge of one traffic. start: a load near it, or None.

    A server that is 10 % slower in all it does is the same server on a clock that runs slower: it carries L / 1.1
    where the other carries L with targets of T / 1.1; in closed loop, as many clients as the other with T / 1.1.
    """
    loads, tried = loads_of(setup, capacity), {}

    def margin(rung, slowed=1.0):
        load = loads[rung]
        if load not in tried:
            tried[load] = measures_at(problem, setup, traffic, load)
        tight = Targets(problem.targets.percentile, *(ms / slowed for ms in problem.targets[1:]))
        return math.log(max(1e-9, tried[load].share(tight)[0]))

    highest = len(loads) - 1
    rung = last_met(margin, bisect_right(loads, start) - 1 if start else highest - HALF, highest)
    if rung is None:
        return Edge(None, None, tried)
    low = last_met(partial(margin, slowed=SLOWER), rung - 1, rung) if slower else None
    low = None if low is None else loads[low] / (1 if setup.closed_to else SLOWER)
    return Edge(loads[rung], low, tried)


def capacity_of(problem, setup):
    """Requests per second of one server at most; None in closed loop."""
    if setup.closed_to:
        return None
    at_once = min(setup.max_num_seqs, setup.gateway or setup.max_num_seqs)
    return capacity_rps(setup.server, problem.traffic, at_once)


def stream_edge(problem, setup, capacity, start, seed):
    """The Edge of the trace (seed None) or of one replay."""
    slower = seed is not None and seed < SLOWER_REPLAYS
    return edge_of(problem, setup, stream_for(problem, setup, seed), capacity, start, slower)


# --- the answer -------------------------------------------------------------------------------------


def carried(own, edges, z=Z):
    """The load that nine of ten futures carry, from the trace's own edge and the replays'; see the top of this file."""
    return min(own, median(edges)) * max(FLOOR, math.exp(-z * stdev(map(math.log, edges))))


def rounded_down(rps):
    """Two digits, three below 2: the edges lie 5 % apart. 7.39 -> 7.3"""
    unit = 10 ** math.floor(math.log10(rps / 2)) / 10
    return float(f"{math.floor(rps / unit + 1e-9) * unit:.3g}")


class Found(NamedTuple):
    """The edges of one setup."""

    setup: Setup
    capacity_rps: float  # None in closed loop
    trace: Edge
    replays: list = ()  # 20 Edges; none yet where only the trace has been searched

    @property
    def state(self):
        """answer; none: no load; no_edge: the trace and half of the replays meet every load that could be tried."""
        half = len(self.replays) / 2
        if self.trace.load is None or sum(edge.load is None for edge in self.replays) >= half:
            return "none"
        highest = self.trace.above() is None and sum(edge.above() is None for edge in self.replays) >= half
        return "no_edge" if highest else "answer"

    def edges(self):
        """The replays' own edges; one that has none counts as the lowest load that any of them tried."""
        least = min(load for edge in self.replays for load in edge.tried)
        return [least if edge.load is None else edge.load for edge in self.replays]

    def carries(self, slower=False):
        """The load that nine of ten futures carry: clients, or requests/s at each server; None: there is none.

        slower: of a server that is 10 % slower: so much less as half of the five replays carry less, at least.
        """
        if self.state == "none":
            return None
        shares = [(edge.slower or 0) / edge.load for edge in self.replays[:SLOWER_REPLAYS] if edge.load]
        return carried(self.trace.load, self.edges()) * (median(shares or [0]) if slower else 1) or None

    def answer(self, slower=False):
        """The same in no more digits than are known."""
        load = self.carries(slower)
        if not load or not self.setup.closed_to:
            return load and rounded_down(load)
        return max(0 if slower else 1, math.floor(load)) or None

    @property
    def decides(self):
        """The Edge on which the answer rests: the trace's, or the middle replay's if that is lower."""
        middle = sorted(self.replays, key=lambda edge: edge.load or 0)[(len(self.replays) - 1) // 2]
        return min(self.trace, middle, key=lambda edge: edge.load)

    def bound(self, targets):
        """{measure: of how many replays it is the first to miss its target, above their edges}, most first."""
        names = [edge.tried[above].share(targets)[1] for edge in self.replays if (above := edge.above())]
        return dict(sorted(((name, names.count(name)) for name in set(names)), key=lambda pair: (-pair[1], pair[0])))
