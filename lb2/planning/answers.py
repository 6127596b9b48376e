"""All the answers of a plan: open loop, closed loop, servers, hours, a burst.

    answers(problem, asked, processes)    -> Answers

The edge of the trace itself chooses max_num_seqs and the token budget. A setup whose capacity is lower
than an edge that was found cannot win and is not searched; nor is a limit that no run of the trace
reached. The replays are then run for the chosen setup alone. What is independent runs in processes of
its own.
"""

from typing import NamedTuple

from common import progress
from planning.engine import Measures, alone, measured
from planning.loads import measures_at, stream_for
from planning.own_run import Check, checked
from planning.replays import REPLAYS
from planning.search import Found, capacity_of, stream_edge
from planning.servers import HOUR_US, Burst, Fleet, after_burst, by_hour, search_servers
from running.processes import in_processes

CLIENTS = 16  # where the search in closed loop begins


class Asked(NamedTuple):
    """What the user wants to know."""

    setups: list  # open loop: every max_num_seqs with every token budget
    up_to: int  # clients
    rps: float = None  # for how much load servers are counted; None: they are not
    spare: int = 0  # servers that may be down
    run: object = None  # Bench of the request file if it is a measured run, else None
    burst: tuple = None  # (times, seconds)
    price: float = None  # of a server and hour


class Answers(NamedTuple):
    alone: Measures  # each request by itself; if it misses, nothing else was tried
    tried: tuple = ()  # Found of each setup, without replays; its trace is None if its capacity is too low to win
    alike: tuple = ()  # limits that change nothing from the smallest of them on
    open: Found = None  # None: not even alone does each request meet the targets
    at_answer: Measures = None  # the trace at the answer of the open loop
    closed: Found = None
    fleet: Fleet = None
    unbearable: bool = False  # the recording is too short to tell how many servers
    hours: list = ()  # servers that each hour needs
    burst: Burst = None
    check: Check = None


def answers(problem, asked, processes):
    """The Answers. The same for any number of processes."""
    largest = max(asked.setups, key=lambda setup: setup.max_num_seqs)
    each = measured(problem.targets, alone(largest.server, problem.traffic))
    if not each.meets(problem.targets):
        return Answers(each, check=checked(problem, asked.run, largest))
    tried, alike = setups_tried(problem, asked.setups, processes)
    searched = [one for one in tried if one.trace]
    chosen = max(searched, key=lambda one: (one.trace.load or 0, -one.setup.max_num_seqs,
                                            -one.setup.server.max_num_batched_tokens))
    at_run = chosen.setup._replace(max_num_seqs=largest.max_num_seqs)
    closed = at_run._replace(gateway=None, closed_to=asked.up_to)
    *replays, edge, check = done([*replay_jobs(problem, chosen), (stream_edge, problem, closed, None, CLIENTS, None),
                                  (checked, problem, asked.run, at_run)], processes)
    one, many = chosen._replace(replays=replays), Found(closed, None, edge)
    at_its_answer = measures_at, problem, one.setup, stream_for(problem, one.setup, None), one.answer()
    *replays, at_answer = done([*replay_jobs(problem, many), at_its_answer], processes)
    found = Answers(each, tuple(tried), alike, one, at_answer, many._replace(replays=replays), check=check)
    return more_answers(problem, asked, found, processes)


def more_answers(problem, asked, found, processes):
    """The Answers with servers, hours and a burst, where they are asked for."""
    one = found.open

    def search(setup, found):
        near = [(None, found.trace), *enumerate(found.replays)]
        jobs = [(stream_edge, problem, setup, one.capacity_rps, edge.load, seed) for seed, edge in near]
        trace, *replays = done(jobs, processes)
        return Found(setup, one.capacity_rps, trace, replays)

    own = problem.traffic.arrivals_us
    base = one.answer() and min(problem.nominal_rps if own else one.answer(), one.answer())
    if asked.rps and beyond(problem) < 1 and asked.rps > (one.carries() or one.capacity_rps):
        found = found._replace(unbearable=True)
    elif asked.rps:
        fleet = search_servers(one, asked.rps, search)
        found = found._replace(fleet=fleet)
        if fleet and own and own[-1] >= 2 * HOUR_US:
            found = found._replace(hours=by_hour(problem, one.setup, fleet.servers))
        base = fleet and asked.rps / fleet.servers
    if asked.burst and base:
        found = found._replace(burst=after_burst(problem, one.setup, base, *asked.burst))
    return found


def beyond(problem):
    """So many of the trace's requests lie beyond the percentile."""
    return problem.requests * (1000 - round(10 * problem.targets.percentile)) / 1000


def done(jobs, processes):
    """The results of jobs, in their order."""
    return [result for _, result in sorted(progress(in_processes(jobs, processes), len(jobs)), key=lambda one: one[0])]


def replay_jobs(problem, found):
    return [(stream_edge, problem, found.setup, found.capacity_rps, found.trace.load, seed) for seed in range(REPLAYS)]


def setups_tried(problem, setups, processes):
    """([Found of each setup, without replays], limits that are alike: never more ran than the smallest allows)."""
    capacities = dict(zip(setups, done([(capacity_of, problem, setup) for setup in setups], processes)))
    most = max(setup.max_num_seqs for setup in setups)
    first = [setup for setup in setups if setup.max_num_seqs == most]
    jobs = [(stream_edge, problem, setup, capacities[setup], None, None) for setup in first]
    edges = dict(zip(first, done(jobs, processes)))
    running = max(map(most_running, edges.values()))
    alike = tuple(sorted({setup.max_num_seqs for setup in setups if setup.max_num_seqs >= running}))
    best = max(edge.load or 0 for edge in edges.values())
    others = [setup for setup in setups if setup not in edges and setup.max_num_seqs not in alike[1:]
              and (capacities[setup] > best or setup.max_num_seqs in alike)]
    jobs = [(stream_edge, problem, setup, capacities[setup], best or None, None) for setup in others]
    edges |= dict(zip(others, done(jobs, processes)))
    return [Found(setup, capacities[setup], edges.get(setup)) for setup in setups
            if setup.max_num_seqs not in alike[1:]], alike


def most_running(edge):
    """The most sequences that ran at once at an edge and at the next load above it; without an edge, at the lowest."""
    loads = sorted(edge.tried)
    at = loads.index(edge.load) if edge.load else 0
    return max(edge.tried[load].peak_running for load in loads[at : at + 2])
