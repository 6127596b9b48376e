"""Does fresh traffic of the same kind carry what the plan answers, and is the answer not far below what it could be?

Each trace is made by a process that is known here and unknown to the plan. Eight fresh traces of the process, its
futures, are as long as what the plan simulates. Kept: how many of them carry the answer. r90 is the load that 90 % of
all futures of a kind carry. Even seeds are for choosing Z, odd ones for the report.

    PYTHONPATH=lb2 python3 tests/planning/plan_acceptance.py [traces of each kind, 20] [even or odd] [Z ...] [kind ...]

Some minutes; writes nothing.
"""

import math
import statistics
import sys
from functools import cache, partial
from itertools import accumulate
from random import Random

from common import Requests
from files.costs import Costs, Server
from planning.arrivals import own_rps
from planning.engine import Targets, Traffic
from planning.loads import Problem, Setup, stream_for
from planning.replays import REPLAYS, block_rows
from planning.search import Found, Z, capacity_of, carried, edge_of, stream_edge

N, FUTURES = 1_000, 8
TTFT_MS = {"gamma_4": 1500, "heavy_tails": 1500, "long_rows": 1500}  # 400 for the others: a target
#   that a request alone meets with room, since below that there is no edge to be found
SETUP = Setup(Server(Costs(50, 8_000, 50, 4_000)), 32)


def lengths(random, n, prompt=0.8, output=0.9):
    return [max(1, round(math.exp(random.gauss(5.5, prompt)))) for _ in range(n)], [
        max(1, round(math.exp(random.gauss(4.5, output)))) for _ in range(n)]


def gamma(random, n, cv):
    """Independent gaps with this coefficient of variation."""
    return [random.gammavariate(1 / cv**2, cv**2) for _ in range(n)]


def independent(random, n, cv=1):
    return gamma(random, n, cv), *lengths(random, n)


def modulated(random, n):
    """A rate that is 2 or 1/2 for 25 requests on average: bursts of neighbours."""
    rate, gaps = 2.0, []
    for _ in range(n):
        rate = 1 / rate if random.random() < 1 / 25 else rate
        gaps.append(random.expovariate(rate) / 1.25)
    return gaps, *lengths(random, n)


def daily(random, n):
    """The rate rises and falls once, between half and one and a half."""
    rates = [1 - math.cos(2 * math.pi * i / n) / 2 for i in range(n)]
    return [random.expovariate(rate) * 3**0.5 / 2 for rate in rates], *lengths(random, n)


def sessions(random, n):
    """Conversations of five turns on average, half a minute apart: each turn's prompt holds all turns before it."""
    rows = []
    for at in accumulate(random.expovariate(1 / 5) for _ in range(n)):
        history = 0
        for prompt, output in zip(*lengths(random, 30, 0.6, 0.8)):
            rows.append((at, history + prompt, output))
            history += (prompt + output) // 4
            at += random.expovariate(1 / 30)
            if random.random() < 1 / 5:
                break
    times, prompts, outputs = zip(*sorted(rows)[200 : 200 + n])  # not the beginning, where no conversation is old
    return [0.0, *(later - earlier for earlier, later in zip(times, times[1:]))], list(prompts), list(outputs)


def heavy_tails(random, n):
    """One prompt in fifty is ten times as long."""
    prompts, outputs = lengths(random, n, 1.0, 1.1)
    return gamma(random, n, 1), [10 * p if random.random() < 1 / 50 else p for p in prompts], outputs


def long_rows(random, n):
    """Prompts are four times as long in rows of forty, every four hundred requests on average."""
    prompts, outputs = lengths(random, n)
    left = 0
    for i in range(n):
        left = 40 if random.random() < 1 / 400 else left - 1
        prompts[i] *= 4 if left > 0 else 1
    return gamma(random, n, 1), prompts, outputs


SHORT = {"few_rows": independent, "few_bursty": partial(independent, cv=2)}  # of 50 to 200 rows
KINDS = {"poisson": independent, "gamma_2": partial(independent, cv=2), "gamma_4": partial(independent, cv=4),
         "modulated": modulated, "daily": daily, "sessions": sessions, "heavy_tails": heavy_tails,
         "long_rows": long_rows, "constant": lambda random, n: ([1.0] * n, [250] * n, [90] * n)} | SHORT


def fresh(kind, seed, n):
    """A Traffic of n requests, about 1 per second."""
    gaps, prompts, outputs = KINDS[kind](Random(f"{kind} {seed}"), n)
    return Traffic(Requests(prompts, outputs), [round(1e6 * at) for at in accumulate(gaps[1:], initial=0.0)], None)


@cache
def rate_of(kind, n):
    """Requests per second of the process in the long run."""
    return 20 / sum(1 / own_rps(fresh(kind, f"rate {number}", n).arrivals_us) for number in range(20))


def trial(kind, seed, futures=FUTURES):
    """(the Found of one trace, the edges of its futures)."""
    n = Random(f"rows {seed}").randint(50, 200) if kind in SHORT else N
    traffic = fresh(kind, seed, n)
    targets = Targets(99, TTFT_MS.get(kind, 400), 50.0)
    problem = Problem(targets, traffic, block_rows(traffic), own_rps(traffic.arrivals_us))
    capacity = capacity_of(problem, SETUP)
    own = stream_edge(problem, SETUP, capacity, None, None)
    replays = [stream_edge(problem, SETUP, capacity, own.load, number) for number in range(REPLAYS)]
    rows = len(stream_for(problem, SETUP, None).arrivals_us)
    theirs = []
    for number in range(futures):
        future = fresh(kind, f"{seed} future {number}", rows)
        one = Problem(targets, future, 1, rate_of(kind, rows))
        theirs.append(edge_of(one, SETUP, future, capacity_of(one, SETUP), own.load, False).load or 0.001)
    return Found(SETUP, capacity, own, replays), theirs


def quantile(values, share):
    return sorted(values)[int(share * len(values))]


def main():
    words = [word for word in sys.argv[1:] if word in ("even", "odd")] or ["odd"]
    numbers = [float(word) for word in sys.argv[1:] if word.replace(".", "").isdigit()]
    traces, zs = int(numbers[0]) if numbers else 20, numbers[1:] or [Z]
    kinds = [word for word in sys.argv[1:] if word in KINDS] or KINDS
    everything = {z: [[], []] for z in zs}
    for kind in kinds:
        trials = [trial(kind, 2 * number + (words[0] == "odd")) for number in range(traces)]
        r90 = quantile([edge for _, theirs in trials for edge in theirs], 0.1)
        for z in zs:
            answers = [carried(found.trace.load or 0.001, found.edges(), z) for found, _ in trials]
            kept = [edge >= answer for answer, (_, theirs) in zip(answers, trials) for edge in theirs]
            against = [answer / r90 for answer in answers]
            everything[z][0] += kept
            everything[z][1] += against
            print(line(kind, z, kept, against), flush=True)
    for z, (kept, against) in everything.items():
        print(line("all", z, kept, against))


def line(kind, z, kept, against):
    return (f"{kind:12} z {z:3.1f}: kept {100 * statistics.fmean(kept):5.1f} % of {len(kept)}; answer / r90: "
            f"median {statistics.median(against):.2f}, 3 % quantile {quantile(against, 0.03):.2f}")


if __name__ == "__main__":
    main()
