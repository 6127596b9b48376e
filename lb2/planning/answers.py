"""All the answers of a plan: open loop per limit, closed loop, servers, and each with steps that
are 10 % longer.

    answers(problem, asked, processes)    -> Answers

The searches are independent, so each runs in a process of its own. The largest max_num_seqs is
searched first: a limit that no play of its answer reached would change nothing, so it is not
searched.
"""

from typing import NamedTuple

from common import progress
from planning.engine import Measures, alone, measured
from planning.own_run import Check, checked
from running.processes import in_processes
from planning.replicas import search_replicas
from planning.search import Found, rps_of, rung_below, search_closed, search_open
from planning.trials import look, tail_bursts
from tune import largest_within, measure, p99

SHORT = 1_000  # requests, up to which tune.py's answer is put beside the closed loop's
AROUND = (-12, -6, -3, -1, 1, 2, 4)  # rungs beside the answer whose 20 replays are played for the picture


class Asked(NamedTuple):
    """What the user wants to know."""

    limits: list  # max_num_seqs to try, in order
    up_to: int  # clients
    rps: float  # for how much load servers are counted; None: they are not
    spare: int  # servers that may be down
    run: object  # Bench of the request file if it is a measured run, else None


class Answers(NamedTuple):
    alone: Measures  # each request by itself; if it misses, nothing below was tried
    feasible: bool
    open: dict = {}  # max_num_seqs -> Found, of those that were searched
    alike: tuple = ()  # limits that change nothing from the smallest of them on
    most_running: int = 0  # sequences at once, at the answer of the largest limit
    limit: int = None  # the max_num_seqs of the open loop's answer
    slower_open: Found = None
    around: tuple = ()  # Points beside the answer, with all replays
    bursts: int = None  # places of the trace where its slowest requests lie; None: its rows do not remember each other
    closed: Found = None
    slower_closed: Found = None
    tune: int = None  # what tune.py says of the same requests; None: they are many, or TTFT has no target at p99
    replicas: Found = None
    slower_replicas: Found = None
    check: Check = None


def answers(problem, asked, processes):
    """The Answers. The same for any number of processes."""
    each = measured(problem.targets, [alone(problem.server, problem.traces[0])])
    if not each.meets(problem.targets):
        check = checked(problem, asked.run, asked.limits[-1]) if asked.run else None
        return Answers(each, False, check=check)
    largest = asked.limits[-1]
    first, closed = done([(search_open, problem, largest), (search_closed, problem, largest, asked.up_to)], processes)
    alike = tuple(limit for limit in asked.limits if limit >= most_running(first))
    others = [limit for limit in asked.limits if limit not in alike]
    slower = problem.slower()
    clients = closed.best.load.clients if closed.best else 1
    slower_closed, *found = done([(search_closed, slower, largest, asked.up_to, clients),
                                  *((search_open, problem, limit) for limit in others)], processes)
    searched = dict(zip(others, found))
    searched |= {alike[0]: with_limit(first, alike[0])} if alike else {}
    limit = best_limit(searched)
    best = searched[limit].best
    jobs = {"slower_open": (search_open, slower, limit, best.load.rps if best else None)}
    if best:
        jobs["bursts"] = (tail_bursts, problem, best.load)
    if asked.rps:
        jobs["replicas"] = (search_replicas, problem, limit, asked.rps)
        jobs["slower_replicas"] = (search_replicas, slower, limit, asked.rps)
    if problem.targets.percentile == 99 and len(problem.traces[0].requests.prompt_tokens) <= SHORT:
        jobs["tune"] = (tunes_number, problem)
    if asked.run:
        jobs["check"] = (checked, problem, asked.run, largest)
    more = [(look, problem, load) for load in neighbours(searched[limit])]
    *results, = done([*jobs.values(), *more], processes)
    return Answers(each, True, dict(sorted(searched.items())), alike, most_running(first), limit, closed=closed,
                   slower_closed=slower_closed, around=tuple(results[len(jobs):]), **dict(zip(jobs, results)))


def done(jobs, processes):
    """The results of jobs, in their order."""
    return [result for _, result in sorted(progress(in_processes(jobs, processes), len(jobs)), key=lambda one: one[0])]


def most_running(found):
    """The most sequences that ran at once where the answer was decided: at it, and one rung above it."""
    decisive = found.points[:1]
    if found.best:
        index = [point.load for point in found.points].index(found.best.load)
        decisive = found.points[index : index + 2]
    return max(one.peak_running for point in decisive for one in (point.trace, *point.replays))


def with_limit(found, limit):
    """The same Found for a smaller limit that changes nothing."""
    points = [point._replace(load=point.load._replace(max_num_seqs=limit)) for point in found.points]
    best = found.best and found.best._replace(load=found.best.load._replace(max_num_seqs=limit))
    return found._replace(points=points, best=best)


def best_limit(searched):
    """The limit with the highest load; of equals, the smallest. Without any answer, the largest that was searched."""
    met = {limit: found.best.load.rps for limit, found in searched.items() if found.best}
    return min(met, key=lambda limit: (-met[limit], limit)) if met else max(searched)


def neighbours(found):
    """Loads beside the answer, at and below the capacity, that show how steep it is there."""
    if not found.best:
        return []
    rung, top = rung_below(found.best.load.rps), rung_below(found.capacity_rps)
    return [found.best.load._replace(rps=rps_of(rung + step)) for step in AROUND if rung + step <= top]


def tunes_number(problem):
    """tune.py's max_concurrency, 0 if there is none; None if the largest that it tries still meets the target."""
    requests, costs, target_ms = problem.traces[0].requests, problem.server.costs, problem.targets.ttft_ms
    most = min(256, len(requests.prompt_tokens))
    best = largest_within((measure(requests, clients, costs) for clients in range(1, most + 1)), target_ms, p99)
    return None if best and best.concurrency == most else best.concurrency if best else 0
