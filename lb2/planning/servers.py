"""How many servers does a rate need, if the requests are dealt to them in turn?

    search_servers(one, 300.0, search)      -> Fleet(found, servers=23, slower=26)
    by_hour(problem, setup, 23)             -> [9, 8, 12, 23, ...] servers, one number an hour
    after_burst(problem, setup, 5.0, 3, 300) -> Burst(..., empty_s=410)

Dealing makes arrivals more even: a server of many carries more than one alone. So the load that a
server carries is searched among as many as it leads to, until both agree. Beyond 100 servers, each gets
arrivals as even as among 100.
"""

import math
from bisect import bisect_left
from typing import NamedTuple

from planning.arrivals import scaled
from planning.engine import Measures, capacity_rps, measured, scheduled, seen
from planning.loads import LONG, WAVES
from planning.replays import stream
from planning.search import Found

MOST = 100  # servers
NEAR = 0.05  # of their number: the loads lie 5 % apart
HOUR_US = 3_600_000_000
LEAST_HOUR = 50  # requests, with fewer of which an hour's mix is that of the trace
AFTER = 10  # times as long as a burst its end is watched
MOST_ROWS = 300_000


class Fleet(NamedTuple):
    found: Found  # the edges of one server among them
    servers: int
    slower: int  # if each is 10 % slower; None: no number is enough


def search_servers(one, rps, search):
    """The Fleet; None: no number is enough. one: Found of a single server; search: (setup, Found near it) -> Found."""
    found, load = one, one.carries()
    servers = math.ceil(rps / load) if load else max(2, math.ceil(rps / one.capacity_rps))
    tried = set()
    while servers > 1 and min(servers, MOST) not in tried:
        among = min(servers, MOST)
        tried.add(among)
        found = search(one.setup._replace(servers=among), found)
        load = found.carries()
        if load is None and among == MOST:
            return None
        before, servers = servers, max(2, math.ceil(rps / load)) if load else 2 * servers
        if abs(servers - before) <= NEAR * before:
            break
    slower = found.carries(slower=True)
    return Fleet(found, servers, slower and max(servers, math.ceil(rps / slower)))


def by_hour(problem, setup, servers):
    """How many of these servers each hour of the trace needs: the busiest one all, the others in proportion.

    An hour is busy by its requests, and by its capacity: of longer requests a server carries fewer.
    """
    arrivals_us, busy, begin = problem.traffic.arrivals_us, [], 0
    whole = capacity_rps(setup.server, problem.traffic, setup.max_num_seqs)
    for end_us in range(HOUR_US, arrivals_us[-1] + 1, HOUR_US):  # what is left after the last whole hour is no hour
        end, capacity = bisect_left(arrivals_us, end_us), whole
        if end - begin >= LEAST_HOUR:
            capacity = capacity_rps(setup.server, problem.traffic.part(slice(begin, end)), setup.max_num_seqs)
        busy.append((end - begin) / capacity)
        begin = end
    return [max(1, math.ceil(servers * one / max(busy))) for one in busy]


class Burst(NamedTuple):
    """One server while its load is so many times as high, for so long, and after that."""

    rps: float  # before and after
    measures: Measures  # of the requests that come in the burst
    empty_s: float  # from its end until nobody waits any more; None: longer than was watched


def after_burst(problem, setup, rps, times, seconds):
    """The Burst of a setup; None if it has more requests than can be simulated."""
    before = max(LONG, WAVES * setup.max_num_seqs)
    inside = max(1, round(rps * times * seconds))
    rows = before + inside + max(before, round(AFTER * rps * seconds))
    if rows > MOST_ROWS:
        return None
    traffic = stream(problem.traffic, problem.block, rows, None)
    steady_us = scaled(traffic.arrivals_us, rps / problem.nominal_rps)
    start_us, last = steady_us[before], before + inside
    saved_us = round((steady_us[last] - start_us) * (1 - 1 / times))
    arrivals_us = [us if row < before else start_us + round((us - start_us) / times) if row < last else us - saved_us
                   for row, us in enumerate(steady_us)]
    traffic = traffic._replace(arrivals_us=arrivals_us)
    result = scheduled(setup.server, traffic, setup.max_num_seqs, setup.gateway)
    part = seen(traffic, result).part(slice(before, last))
    latest_us, empty_s = max(result.admitted_us[:last]), None
    for row in range(last, rows):
        if latest_us <= arrivals_us[row]:
            empty_s = max(0.0, latest_us - arrivals_us[last]) / 1e6
            break
        latest_us = max(latest_us, result.admitted_us[row])
    return Burst(rps, measured(problem.targets, part), empty_s)
