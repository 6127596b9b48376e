"""Is a load accepted? The trace itself and all of its 20 replays must meet every target.

    trials = Trials(problem)
    trials.accepted(Load(64, 4.1))    -> True
    trials.point(Load(64, 4.1))       -> Point(load, the trace's Measures, those of its replays, ...)

All 20, because of what tests/planning/plan_acceptance.py measures on bursty traffic: of fresh traces from the
same process 62 to 86 % met the target at a load that 19 of 20 replays had met. At one that all have
met, 91 % of 995 do, and 75 % where long prompts come in rows.
"""

from typing import NamedTuple

from planning.arrivals import scaled
from planning.engine import Measures, Server, Targets, Traffic, measured, play, together
from planning.replays import REPLAYS, replay_range

FEW_BURSTS = 8  # places of the slowest requests: with fewer, fresh traces met the targets in under 90 %


class Problem(NamedTuple):
    """What stays the same while loads are tried."""

    server: Server
    targets: Targets
    traces: list  # the trace, or the draws of a list without arrivals, which are pooled
    replays: list  # 20 Traffics
    nominal_rps: float  # the rate at which the arrivals of all of them are given
    clients: int = None  # open loop: at most so many requests under way
    burst_rows: int = None  # rows in a block, if rows remember each other; None: they do not

    def slower(self):
        """The same with every step 10 % longer."""
        return self._replace(server=self.server._replace(costs=slower(self.server.costs)))


class Load(NamedTuple):
    max_num_seqs: int
    rps: float = None  # None: closed loop
    clients: int = None  # closed loop
    servers: int = 1  # the requests are dealt to them in turn


class Point(NamedTuple):
    """One load tried."""

    load: Load
    trace: Measures
    replays: list  # Measures of those that were played: all 20 where the load is accepted
    met: int  # replays that meet the targets
    meets: bool  # accepted

    def range_of(self, name):
        """(low, high) of a measure in the middle 18 of the 20 replays. None: one has none, or was not played."""
        return replay_range([getattr(one, name) for one in self.replays])


def slower(costs):
    """Costs of which every step takes 10 % longer."""
    longer = [field for field in costs._fields if field not in ("overhead_us", "step_points")]
    return costs._replace(step_points=tuple((s, 1.1 * us) for s, us in costs.step_points),
                          **{field: 1.1 * getattr(costs, field) for field in longer})


# --- one load ---------------------------------------------------------------------------------------


def play_of(problem, load, traffic):
    """The Play of this traffic at a load, of all its servers together."""
    if load.rps is None:
        return play(problem.server, traffic._replace(arrivals_us=None), load.max_num_seqs, load.clients)
    arrivals_us = scaled(traffic.arrivals_us, load.rps / problem.nominal_rps)
    n = len(arrivals_us)
    plays = []
    for server in range(min(load.servers, n)):
        turn = slice(server, n, load.servers)
        requests = traffic.requests._make(column[turn] for column in traffic.requests)
        own = Traffic(requests, arrivals_us[turn], traffic.prefixes and traffic.prefixes[turn])
        plays.append(play(problem.server, own, load.max_num_seqs, problem.clients))
    return together(plays)


class Trials:
    """What was played so far in one search. A replay that missed one load is the first to be tried at the next."""

    def __init__(self, problem):
        self.problem = problem
        self.traces = {}  # load -> Measures of the trace
        self.replays = {}  # load -> {seed: Measures}
        self.suspects = list(range(REPLAYS))

    def trace_meets(self, load):
        if load not in self.traces:
            plays = [play_of(self.problem, load, traffic) for traffic in self.problem.traces]
            self.traces[load] = measured(self.problem.targets, plays)
        return self.traces[load].meets(self.problem.targets)

    def accepted(self, load):
        """Do the trace and all replays meet every target? It stops when that cannot be any more."""
        return self.trace_meets(load) and not self.play_replays(load, 0)

    def play_replays(self, load, misses=REPLAYS):
        """How many replays miss a target, of those that are played until more than so many have."""
        played = self.replays.setdefault(load, {})
        missed = [seed for seed in played if not played[seed].meets(self.problem.targets)]
        for seed in list(self.suspects):
            if len(missed) > misses:
                break
            if seed not in played:
                one = play_of(self.problem, load, self.problem.replays[seed])
                played[seed] = measured(self.problem.targets, [one])
                if not played[seed].meets(self.problem.targets):
                    missed.append(seed)
                    self.suspects.remove(seed)
                    self.suspects.insert(0, seed)
        return len(missed)

    def point(self, load):
        played = self.replays.get(load, {})
        met = sum(one.meets(self.problem.targets) for one in played.values())
        return Point(load, self.traces[load], [played[seed] for seed in sorted(played)], met,
                     met == REPLAYS and self.traces[load].meets(self.problem.targets))

    def points(self):
        return [self.point(load) for load in sorted(self.traces, key=lambda load: (load.rps or load.clients))]


def look(problem, load):
    """The Point of one load with all its replays, whether they meet the targets or not."""
    trials = Trials(problem)
    trials.trace_meets(load)
    trials.play_replays(load)
    return trials.point(load)


def tail_bursts(problem, load):
    """In how many places of the trace its slowest TTFTs lie: those above the percentile, a block or more apart.

    None if its rows do not remember each other: then there are no bursts but by chance.
    """
    if problem.burst_rows is None:
        return None
    one = play_of(problem, load, problem.traces[0])
    limit_us = 1000 * measured(problem.targets, [one]).ttft_ms
    slow = [position for position, ttft in enumerate(one.ttfts_us) if ttft >= limit_us]
    return 1 + sum(later - earlier > problem.burst_rows for earlier, later in zip(slow, slow[1:]))


def few_bursts(problem, load):
    """Are they so few that the next day may well have a worse one?"""
    bursts = tail_bursts(problem, load)
    return bursts is not None and bursts < FEW_BURSTS
