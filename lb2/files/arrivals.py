"""When did requests arrive: in which unit, in which order, on a grid, or as a server answered?

    epoch_unit(1785000000000, 1785000006400)     -> "ms": in no other unit is that a year from 2000 to 2099
    in_order([30, 10, 20])                       -> [1, 2, 0]
    since_first_us([1.5, 2.0], "s")              -> [0, 500000]
    grid_us([0, 0, 3_000_000, 9_000_000])        -> 3000000
    closed_loop_clients(starts, latencies, ...)  -> 16
"""

from itertools import accumulate, islice
from math import fsum, gcd
from operator import le
from statistics import median

UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000, "date": 1_000_000_000}  # in a second
EPOCH_S = (946_684_800, 4_102_444_800)  # the years 2000 to 2099, in seconds since 1970
GRID_US = 10_000  # arrivals that are multiples of so much or more were rounded, if some are equal
ENDLESS_RPS = 1e6  # a request rate from here on means: send at once
SURELY = 0.99  # of a latency: the clock of the client may be off by the rest
BUSY = 0.8  # of a closed loop's clients: the share that has a request under way, at least
AT_ONCE = 0.1  # of the longest latency: the time in which clients send their first requests, at most


def is_number(value):
    """Is it a JSON number that can be computed with? (Not NaN, not infinite; true is none; 10**400 would not fit.)"""
    return type(value) in (int, float) and -1e300 < value < 1e300


def epoch_unit(first, last):
    """The unit in which two times since 1970 lie in this century; None: they count from another moment."""
    for unit in ("s", "ms", "us", "ns"):
        if EPOCH_S[0] * UNITS[unit] <= first <= last < EPOCH_S[1] * UNITS[unit]:
            return unit
    return None


def in_order(times):
    """The positions of the times in order; equal ones keep the order of the list."""
    if all(map(le, times, islice(times, 1, None))):
        return range(len(times))
    return sorted(range(len(times)), key=times.__getitem__)


def since_first_us(times, unit):
    """Times in some unit, in whole microseconds from the first."""
    start, in_second = times[0], UNITS[unit]
    if in_second > 1_000_000:  # whole numbers of a smaller unit: divided, they are exact
        return [round((time - start) / (in_second // 1_000_000)) for time in times]
    return [round((time - start) * (1_000_000 // in_second)) for time in times]


def clocks_back(times, unit):
    """Where times step back by an hour, less a gap as long as others, and nowhere else; [] if they do not."""
    if in_order(times) == range(len(times)):
        return []
    hour = 3600 * UNITS[unit]
    gaps = [later - earlier for earlier, later in zip(times, islice(times, 1, None))]
    longest = min(max(gaps, default=0), hour / 2)
    back = [i for i, gap in enumerate(gaps, start=1) if gap < 0]
    return back if all(0 <= hour + gaps[i - 1] <= longest for i in back) else []


def grid_us(arrivals_us):
    """The step of the grid on which arrivals lie, in us; None if they lie on none.

    They do if at least every 20th comes at the same moment as one before, and all are multiples of
    the same 10 ms or more. They also do if there are at most half as many moments as arrivals. Then
    the step is the median time between moments.
    """
    moments = sorted(set(arrivals_us))
    n = len(arrivals_us)
    if len(moments) < 3 or len(moments) * 20 > n * 19:
        return None
    step = gcd(*moments)
    if step >= GRID_US:
        return step
    return median(b - a for a, b in zip(moments, moments[1:])) if 2 * len(moments) <= n else None


# --- closed loops ---------------------------------------------------------------------------------


def limits_of(run):
    """(limit of the client, request rate, duration in s) of a run; None for what it does not say."""
    if not isinstance(run, dict):
        return None, None, None
    limit, rate, duration_s = run.get("max_concurrency"), run.get("request_rate"), run.get("duration")
    rate = float("inf") if rate == "inf" else rate
    return (
        limit if type(limit) is int and limit > 0 else None,
        rate if type(rate) in (int, float) else None,
        duration_s if is_number(duration_s) and duration_s > 0 else None,
    )


def closed_loop_clients(starts, latencies, limit, rate, duration_s):
    """How many clients sent their next request when their last one ended; None: nobody waited.

    In a closed loop, as many requests as there are clients are under way until the last one is sent.
    The mean number under way tells that (Little's law). A limit that was not reached was a cap, and
    no number of clients. A rate that the limit did not let through is no rate.

    starts, latencies: n times in one unit; starts may be empty, and a latency None, if unknown.
    limit: requests that the client let be under way, or None. rate: requests per second; endless
    if the client sent whatever the limit let through; None if unknown. duration_s: or None.
    """
    n, endless = len(latencies), rate is not None and rate >= ENDLESS_RPS
    known = [latency for latency in latencies if latency is not None]
    if rate is not None and not endless and (limit is None or n <= limit or not known):
        return None
    if limit is None and not endless:  # the file does not say how the load was made
        limit = most_under_way(starts, latencies) if starts and len(known) == n else n
        if n < max(10, 3 * limit):
            return None
    clients = min(limit or n, n)
    if not starts or len(known) < n:  # N clients who never pause need at most sum / N + the longest
        if not known or duration_s is None:
            return clients
        busy = (fsum(known) + (n - len(known)) * max(known)) / clients + max(known)
        return clients if duration_s <= 1.1 * busy else None
    first, last = min(starts), max(starts)
    if n <= clients:
        return n if last - first <= AT_ONCE * max(latencies) else None
    under_way = fsum(min(latency, last - start) for start, latency in zip(starts, latencies)) / (last - first or 1)
    return clients if under_way >= BUSY * clients else None


def most_under_way(starts, latencies):
    """The largest number of requests that were under way at one moment."""
    ends = [(start + latency, -1) for start, latency in zip(starts, latencies)]
    return max(accumulate(change for _, change in sorted([*ends, *((start, 1) for start in starts)])))


def over_limit(starts, latencies, limit):
    """Would more requests have been under way than a client's limit lets through? Then the times are not right."""
    return most_under_way(starts, [SURELY * latency for latency in latencies]) > limit
