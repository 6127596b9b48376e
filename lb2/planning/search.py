"""Which is the largest load that is accepted: requests per second, or clients?

The search climbs on the trace alone, to the first load that it misses, and goes down from there
until all replays meet the targets, too. If the slowest requests of the trace came in a few bursts,
it goes two steps further: blocks part some bursts, and the next day may have a worse one.

    search_open(problem, 64)          -> Found(points=[Point, ...], best=Point, endless=False, capacity_rps=14.2)
    search_closed(problem, 64, 256)   -> the same, of clients

Loads lie on rungs: 48 to a factor of ten, so about 5 % apart, at numbers of two digits (three below
2: 1.00, 1.05, 1.10).
"""

from typing import NamedTuple

from planning.engine import capacity_rps
from planning.trials import Load, Point, Trials, few_bursts

RUNGS = 48  # to a factor of ten
HALF = 14  # rungs to a factor of two, nearly
STRIDE = 4  # rungs taken at once while the trace meets
LEAST = 10 * HALF  # rungs that the trace's search goes down: to about a thousandth
DOWN = 3 * HALF  # rungs below the trace's edge that are tried with replays: to an eighth
CAUTION = 2  # rungs


class Found(NamedTuple):
    points: list  # every load tried, the lowest first
    best: Point  # the accepted one; None: there is none
    endless: bool  # nothing higher could be tried
    capacity_rps: float  # of one server; None in closed loop


# --- the search -------------------------------------------------------------------------------------


def edge(meets, start, lowest, highest):
    """The last rung that meets before one that misses, from the first that meets at or below `start`; None: none does.

    Below the start it looks by halves; upwards it takes four rungs at a time while they meet, then the last ones
    singly.
    """
    rung = start
    while not meets(rung):
        if rung == lowest:
            return None
        rung = max(lowest, rung - HALF)
    while rung + STRIDE <= highest and meets(rung + STRIDE):
        rung += STRIDE
    while rung < highest and meets(rung + 1):
        rung += 1
    return rung


def search(trials, load_at, start, lowest, highest):
    """(the highest accepted rung, or None; was it the highest of all?) of loads that grow with their rung."""
    top = edge(lambda rung: trials.trace_meets(load_at(rung)), start, lowest, highest)
    if top is None:
        return None, False
    least = max(lowest, top - DOWN)
    rung = accepted_below(trials, load_at, top, least)
    if rung is None or rung == highest or not few_bursts(trials.problem, load_at(rung)):
        return rung, rung == highest
    return accepted_below(trials, load_at, max(least, rung - CAUTION), least), False


def accepted_below(trials, load_at, rung, least):
    """The first accepted rung from this one downwards, or None."""
    while not trials.accepted(load_at(rung)):
        if rung == least:
            return None
        rung -= 1
    return rung


def rps_of(rung):
    """Requests per second of a rung."""
    digits = 3 if rung % RUNGS <= HALF else 2
    return float(f"{10 ** (rung / RUNGS):.{digits}g}")


def rung_below(rps):
    """The highest rung that is at most so many requests per second."""
    rung = 0
    while rps_of(rung) > rps:
        rung -= HALF
    while rps_of(rung + HALF) <= rps:
        rung += HALF
    while rps_of(rung + 1) <= rps:
        rung += 1
    return rung


def search_open(problem, max_num_seqs, start=None):
    """The Found of an open loop. No load above the capacity of the server is tried. start: a rate to begin at."""
    trials = Trials(problem)
    capacity = capacity_rps(problem.server, problem.traces[0], min(max_num_seqs, problem.clients or max_num_seqs))
    highest = rung_below(capacity)
    first = min(highest, rung_below(start) if start else highest - HALF)
    rung, endless = search(trials, lambda rung: Load(max_num_seqs, rps_of(rung)), first, first - LEAST, highest)
    best = None if rung is None else trials.point(Load(max_num_seqs, rps_of(rung)))
    return Found(trials.points(), best, endless, capacity)


def client_counts(most):
    """1, 2, 3 ... 20, then about 5 % apart, up to the most."""
    counts = [1]
    while counts[-1] < most:
        counts.append(min(most, max(counts[-1] + 1, round(counts[-1] * 1.05))))
    return counts


def search_closed(problem, max_num_seqs, up_to, start=16):
    """The Found of a closed loop: so many clients, each of which sends its next request when its last one has ended."""
    trials = Trials(problem)
    counts = client_counts(min(up_to, len(problem.traces[0].requests.prompt_tokens)))
    first = max(index for index, clients in enumerate(counts) if clients <= start)

    def load_at(index):
        return Load(max_num_seqs, None, counts[index])

    index, endless = search(trials, load_at, first, 0, len(counts) - 1)
    best = None if index is None else trials.point(load_at(index))
    return Found(trials.points(), best, endless, None)
