"""How many servers does a rate need, if the requests are dealt to them in turn?

    search_replicas(problem, 64, 30.0)    -> Found, whose best Point says how many servers

It begins at the rate divided by the capacity of one server, doubles while the trace misses, halves
the step to the fewest that meet, and goes up from there until all replays agree, and a tenth
further where the trace has few bursts.
"""

import math

from planning.engine import capacity_rps
from planning.search import Found
from planning.trials import Load, Trials, few_bursts

MARGIN = 1.1  # more servers where the trace's slowest requests came in a few bursts: the two steps of planning/search.py


def search_replicas(problem, max_num_seqs, rps):
    """The Found of so many servers at this rate; best is None if even a server for each request is not enough."""
    trials = Trials(problem)
    most = len(problem.traces[0].requests.prompt_tokens)
    capacity = capacity_rps(problem.server, problem.traces[0], max_num_seqs)

    def load_at(servers):
        return Load(max_num_seqs, rps, None, servers)

    servers = fewest(lambda servers: trials.trace_meets(load_at(servers)), min(most, math.ceil(rps / capacity)), most)
    servers = accepted_above(trials, load_at, servers, most)
    if servers is not None and few_bursts(problem, load_at(servers)):
        servers = accepted_above(trials, load_at, min(most, math.ceil(MARGIN * servers)), most)
    best = None if servers is None else trials.point(load_at(servers))
    return Found(sorted(trials.points(), key=lambda point: point.load.servers), best, servers == most, capacity)


def accepted_above(trials, load_at, servers, most):
    """The first accepted number from this one upwards; None if there is none."""
    while servers is not None and not trials.accepted(load_at(servers)):
        servers = min(most, servers + max(1, servers // 20)) if servers < most else None
    return servers


def fewest(meets, least, most):
    """The fewest from `least` on that meet, if more are never worse; None if the most do not."""
    missed, servers = least - 1, least
    while not meets(servers):
        if servers == most:
            return None
        missed, servers = servers, min(most, 2 * servers)
    while servers - missed > 1:
        middle = (missed + servers) // 2
        if meets(middle):
            servers = middle
        else:
            missed = middle
    return servers
