"""How long is a request on its way, and is the server's scheduler asynchronous?

The step that gave a request its first token is known, and so are the ends of the steps before it.
A synchronous scheduler decides a step when the step before it ends, an asynchronous one when the
step before that ends. The request reached the scheduler in time for this decision, and too late for
the one before: two bounds for its overhead, from the client to the scheduler and back.

    sent at 100.0 ms, steps end at 96, 104, 113, 121 ms, the first token comes with the last one
    asynchronous: decided at 104, missed 96, so the overhead is -4 to 4 ms
    synchronous: decided at 113, missed 104, so the overhead is 4 to 13 ms

One overhead should do for all. The scheduler whose bounds agree in more requests is the server's.
A request that finds the server empty tells more: its TTFT less its prefill and its step is the
overhead. It ignores that an overhead varies, and runs in which most tokens came several at a time.
"""

from bisect import bisect_left, bisect_right
from statistics import median
from typing import NamedTuple

from files.arrivals import most_under_way
from calibration.samples import arrivals, computed_tokens, half_step_s, running_sum

ENOUGH = 5  # requests that found the server empty, or have bounds
MOST = 0.6  # of the requests must agree
AS_GOOD = 0.03  # of the requests: by so few, one scheduler explains no more than the other
LUMPED = 1.5  # tokens at a time: not every step is seen
LEAST_US = 500.0  # no request comes through HTTP and a tokenizer in less
CLOCK_US = 10.0  # the resolution of the times in a file


class Overhead(NamedTuple):
    """What the requests say of the way to the scheduler, in microseconds."""

    us: float  # 0 where nothing tells it
    low_us: float
    high_us: float
    alone: int  # requests that found the server empty
    bounded: int  # requests with bounds
    asynchronous: bool  # None: not told
    agreeing: tuple  # share of the bounded requests that one overhead explains: (synchronous, asynchronous)


def overhead_of(benches, costs, budget):
    """The Overhead that the runs of a server tell. budget: its max_num_batched_tokens."""
    alone_us, synchronous, asynchronous = [], [], []
    for bench in benches:
        empty, prompts = alone_in(bench), computed_tokens(bench)
        if bench.starts_s and not bench.even:
            bounds = bounds_of(times_of(bench), prompts, budget, set(empty))
            synchronous += bounds[0]
            asynchronous += bounds[1]
        alone_us += [1e6 * bench.ttfts_s[i] - alone(costs, prompts[i], budget) for i in empty]
    shares, ranges = zip(agreement(synchronous), agreement(asynchronous))
    told = decided(shares, ranges) if len(synchronous) >= ENOUGH and max(shares) >= MOST else None
    low, high = ranges[told] if told is not None else (0.0, 0.0)
    if alone_us:
        alone_us = sorted(max(0.0, us) for us in alone_us)
        middle = median(alone_us)
        if len(alone_us) < ENOUGH and told is None:  # no way is longer than a TTFT less the request's own steps
            most_us = min(1e6 * ttft - alone(costs, prompt, budget) for bench in benches
                          for ttft, prompt in zip(bench.ttfts_s, computed_tokens(bench)))
            middle = max(0.0, min(middle, most_us))
        if len(alone_us) >= ENOUGH or told is None:
            low, high = alone_us[len(alone_us) // 20], alone_us[-1 - len(alone_us) // 20]
            return Overhead(middle, low, high, len(alone_us), len(synchronous), told, shares)
        if middle > low:  # at most: the first requests of a run also open their connections
            high = min(high, middle)
    return Overhead((low + high) / 2, low, high, len(alone_us), len(synchronous), told, shares)


def decided(shares, ranges):
    """Is it asynchronous? What explains more requests; of two that explain as many, the one with the shorter way."""
    if abs(shares[0] - shares[1]) > AS_GOOD:
        return shares[1] > shares[0]
    return ranges[1][0] <= ranges[0][0] and ranges[1][1] >= LEAST_US


class Times(NamedTuple):
    """When things happened in a run, in seconds."""

    sent_s: list  # n
    first_s: list  # tokens, n
    last_s: list
    steps_s: list  # ends of all steps
    half_s: float  # half a typical step
    lump: float  # tokens that come together


def times_of(bench):
    """The Times of a run with start times."""
    tokens = arrivals(bench)
    half_s, steps = half_step_s(tokens), []
    for time in sorted(time for each in tokens for time, _ in each):
        if not steps or time > steps[-1][0] + half_s:
            steps.append([])
        steps[-1].append(time)
    firsts, lasts = ([each[i][0] for each in tokens] for i in (0, -1))
    lump = sum(count for each in tokens for _, count in each) / sum(map(len, tokens))
    return Times(bench.starts_s, firsts, lasts, list(map(median, steps)), half_s, lump)


# --- requests that found the server empty ---------------------------------------------------------


def alone(costs, prompt, budget):
    """Time in us of the steps that prefill one prompt with nothing beside it."""
    cached = [*range(budget, prompt, budget), prompt]  # after each of them
    us = sum(costs.context_us(tokens) + costs.decode_us(tokens == prompt) for tokens in cached)
    return us + sum(costs.prefill_us(tokens - before) for before, tokens in zip([0, *cached], cached))


def alone_in(bench):
    """Positions of the requests that found nobody else at the server, and whose first token came with no other's."""
    if bench.max_concurrency == 1:
        return list(range(len(bench.ttfts_s)))
    if not bench.starts_s:
        return []
    times, found = times_of(bench), []
    sent, firsts, lasts = sorted(times.sent_s), sorted(times.first_s), sorted(times.last_s)
    for i, (start, first) in enumerate(zip(times.sent_s, times.first_s)):
        under_way = bisect_right(sent, start) - bisect_right(lasts, start + times.half_s / 4)
        came = bisect_right(firsts, first + times.half_s) - bisect_left(firsts, first - times.half_s)
        if under_way == came == 1:
            found.append(i)
    return found


# --- requests with bounds -------------------------------------------------------------------------


def bounds_of(times, prompt_tokens, budget, empty):
    """(bounds if synchronous, bounds if asynchronous): each [(above this, up to this), ...] in us.

    Left out are the requests that found the server empty (positions), those that waited for a slot, and those whose
    prompt may have been cut.
    """
    queued, synchronous, asynchronous = set(queued_in(times)), [], []
    if times.lump >= LUMPED:
        return [], []
    first_s, prompts = running_sum(zip(times.first_s, prompt_tokens))
    for i, (start, first) in enumerate(zip(times.sent_s, times.first_s)):
        step = bisect_right(times.steps_s, first + times.half_s) - 1
        if step < 3 or i in queued or i in empty:
            continue
        third, second, last = times.steps_s[step - 3:step]
        before, after = bisect_right(first_s, last - times.half_s), bisect_right(first_s, first + times.half_s)
        if prompts[after] - prompts[before] <= budget / 2:
            synchronous.append((1e6 * (second - start), 1e6 * (last - start)))
            asynchronous.append((1e6 * (third - start), 1e6 * (second - start)))
    return synchronous, asynchronous


def queued_in(times):
    """Positions of the requests that found many more under way than ever ran together: they waited for a slot."""
    sent, lasts = sorted(times.sent_s), sorted(times.last_s)
    most = 1.25 * most_under_way(times.first_s, [b - a for a, b in zip(times.first_s, times.last_s)]) + 1
    return [i for i, start in enumerate(times.sent_s) if bisect_right(sent, start) - bisect_right(lasts, start) > most]


def agreement(bounds_us):
    """(share of the bounds that agree on an overhead, (the least such overhead, the largest))."""
    edges = sorted([(low, 1) for low, _ in bounds_us] + [(high + CLOCK_US, -1) for _, high in bounds_us])
    agreeing, spans = 0, []
    for (edge, change), (following, _) in zip(edges, edges[1:]):
        agreeing += change
        if following > max(edge, 0):
            spans.append((agreeing, max(edge, 0.0), following))
    if not spans:
        return 0.0, (0.0, 0.0)
    most = max(agreeing for agreeing, _, _ in spans)
    best = [span for span in spans if span[0] >= most - 0.01 * len(bounds_us)]
    return most / len(bounds_us), (best[0][1], max(0.0, best[-1][2] - CLOCK_US))
