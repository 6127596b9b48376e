"""What else could this traffic have been? Replays: blocks of its own rows, drawn anew.

A trace is one day of many. A replay draws blocks of consecutive rows (gap, prompt, output, prefix),
so that what came together stays together: bursts, and long prompts in a row. It is drawn twice, a
replay of a replay: once because the recorded day was itself a chance, and once because the next day
will be another.

A block is as many rows as the rows remember, times the cube root of their number, and at most a
tenth of them. (With independent rows any length is right; the longer they remember, the longer it
must be. That the best length of a block bootstrap grows with the cube root: Hall, Horowitz and
Jing, Biometrika 1995.)

    block_rows(traffic)            -> 27
    replays(traffic, 27)           -> 20 Traffics, the same ones every time
"""

from collections import Counter
from itertools import accumulate
from math import sqrt
from random import Random
from statistics import fmean, pvariance

from common import Requests
from planning.arrivals import poisson
from planning.engine import Traffic

REPLAYS = 20
MIDDLE = 18  # of the 20 replays: their range is printed
DRAWS = 20  # step 6's
ENOUGH = 20_000  # requests in all draws of a list without arrivals


def gaps_of(arrivals_us):
    """n gaps: the time since the arrival before; the first gets their mean."""
    gaps_us = [later - earlier for earlier, later in zip(arrivals_us, arrivals_us[1:])]
    return [round(fmean(gaps_us)) if gaps_us else 0, *gaps_us]


def memory(values):
    """Over how many rows a column remembers: 1 if its values are independent, more if like follows like.

    The variance of the means of about sqrt(n) rows, by what it would be of independent ones.
    """
    rows = max(1, int(len(values) ** 0.5))
    means = [fmean(values[start : start + rows]) for start in range(0, len(values) - rows + 1, rows)]
    variance = pvariance(values)
    return max(1.0, rows * pvariance(means) / variance) if variance else 1.0


def remembered(traffic):
    """Over how many rows the gaps, the prompts or the outputs remember: the longest of the three."""
    columns = [*traffic.requests, *([gaps_of(traffic.arrivals_us)] if traffic.arrivals_us else [])]
    return max(map(memory, columns))


def by_chance(n):
    """The memory that n independent rows hardly exceed: three standard deviations of a variance of sqrt(n) means."""
    return 1 + 3 * sqrt(2 / sqrt(n))


def block_rows(traffic):
    """Rows in a block."""
    n = len(traffic.requests.prompt_tokens)
    return max(1, min(round(remembered(traffic) * n ** (1 / 3)), n // 10))


def drawn(n, block, random):
    """n row numbers, in blocks that begin anywhere; row 0 follows the last. Of the blocks, as many are drawn again."""
    blocks = -(-n // block)
    once = [random.randrange(n) for _ in range(blocks)]
    twice = [random.choice(once) for _ in range(blocks)]
    return [row % n for start in twice for row in range(start, start + block)][:n]


def replay(traffic, block, seed):
    """The Traffic of one replay, at the trace's rate; Poisson arrivals at 1 request/s if it has none."""
    random = Random(f"replay {seed}")
    n = len(traffic.requests.prompt_tokens)
    rows = drawn(n, block, random)
    requests = Requests(*([column[row] for row in rows] for column in traffic.requests))
    if traffic.arrivals_us:
        gaps_us = gaps_of(traffic.arrivals_us)
        arrivals_us = list(accumulate((gaps_us[row] for row in rows[1:]), initial=0))
    else:
        arrivals_us = poisson(DRAWS + seed, n)
    return Traffic(requests, arrivals_us, traffic.prefixes and renamed(traffic.prefixes, rows))


def renamed(prefixes, rows):
    """The prefixes of these rows. A row that is drawn again is another request: it shares nothing with the first."""
    copies, columns = Counter(), []
    for row in rows:
        columns.append([((name, copies[row]), tokens) for name, tokens in prefixes[row]])
        copies[row] += 1
    return columns


def replays(traffic, block):
    """The 20 replays of a trace."""
    return [replay(traffic, block, seed) for seed in range(REPLAYS)]


def draws(traffic):
    """The trace itself, in a list; or, without arrivals, with as many of step 6's 20 draws as make 20,000 requests."""
    if traffic.arrivals_us:
        return [traffic]
    n = len(traffic.requests.prompt_tokens)
    return [traffic._replace(arrivals_us=poisson(seed, n)) for seed in range(max(1, min(DRAWS, ENOUGH // n)))]


def replay_range(values):
    """(low, high) of the middle 18 of 20 numbers; None where a replay has none, or where not all were played."""
    if len(values) < REPLAYS or None in values:
        return None
    outside = (REPLAYS - MIDDLE) // 2
    return sorted(values)[outside], sorted(values)[-1 - outside]
