"""What else could this traffic have been? Replays: blocks of its own rows, drawn anew.

A replay draws blocks of consecutive rows (gap, prompt, output, prefix), so that what came together
stays together: bursts, and long prompts in a row. It is drawn twice, a replay of a replay: once
because the recorded day was itself a chance, and once because the next day will be another.

A block is as many rows as the rows remember, times the cube root of their number, and at most a
tenth of them. (The longer they remember, the longer it must be; that the best length of a block
bootstrap grows with the cube root: Hall, Horowitz and Jing, Biometrika 1995.)

    block_rows(traffic)                  -> 27
    stream(traffic, 27, 5_000, seed)     -> Traffic of 5,000 rows: a replay, the same one every time
    stream(traffic, 27, 5_000, None)     -> the trace itself, repeated where it has fewer rows
"""

from collections import Counter
from itertools import accumulate
from random import Random
from statistics import fmean, pvariance

from common import Requests
from planning.arrivals import poisson
from planning.engine import Traffic

REPLAYS = 20


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


def block_rows(traffic):
    """Rows in a block: by the gaps, the prompts or the outputs, whichever remember longest."""
    columns = [*traffic.requests, *([gaps_of(traffic.arrivals_us)] if traffic.arrivals_us else [])]
    n = len(traffic.requests.prompt_tokens)
    return max(1, min(round(max(map(memory, columns)) * n ** (1 / 3)), n // 10))


def drawn(n, block, wanted, random):
    """Row numbers of n, as many as wanted, in blocks that begin anywhere; row 0 follows the last.

    As many blocks as the trace has are drawn, and of these blocks again, until there are enough rows.
    """
    once = [random.randrange(n) for _ in range(-(-n // block))]
    twice = [random.choice(once) for _ in range(-(-wanted // block))]
    return [row % n for start in twice for row in range(start, start + block)][:wanted]


def repeated(n, wanted):
    """The rows in their order, again and again, each time from one row later on.

    Without that step, requests that are dealt to n / 2 servers in turn would give each server the same two for ever.
    """
    return [(row + row // n) % n for row in range(wanted)]


def stream(traffic, block, rows, seed):
    """So many rows of the trace (seed None) or of a replay, at the trace's rate; without arrivals, Poisson's at 1/s."""
    n = len(traffic.requests.prompt_tokens)
    numbers = repeated(n, rows) if seed is None else drawn(n, block, rows, Random(f"replay {seed}"))
    requests = Requests(*([column[row] for row in numbers] for column in traffic.requests))
    if traffic.arrivals_us:
        gaps_us = gaps_of(traffic.arrivals_us)
        arrivals_us = list(accumulate((gaps_us[row] for row in numbers[1:]), initial=0))
    else:
        arrivals_us = poisson(0 if seed is None else 1 + seed, rows)
    return Traffic(requests, arrivals_us, traffic.prefixes and renamed(traffic.prefixes, numbers))


def renamed(prefixes, rows):
    """The prefixes of these rows. A row that comes again is another request: it shares nothing with the first."""
    copies, columns = Counter(), []
    for row in rows:
        columns.append([((name, copies[row]), tokens) for name, tokens in prefixes[row]])
        copies[row] += 1
    return columns
