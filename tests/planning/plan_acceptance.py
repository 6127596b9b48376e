"""Is an accepted load met by fresh traffic of the same kind? 200 synthetic traces of known processes answer.

Each trace is 2,000 requests of a process that is known here and unknown to the plan. The plan accepts a load; five fresh
traces of the process are then played at that load. Printed is the share of them that meets every target: of 90 % or more,
the rule (the trace and all 20 replays) keeps its word.

    PYTHONPATH=lb2 python3 tests/plan_acceptance.py [traces of each kind, 50] [kind ...]     minutes; writes nothing
"""

import math
import sys
from random import Random

from files.costs import Costs
from common import Requests
from planning.arrivals import own_rps
from planning.engine import Server, Targets, Traffic
from planning.replays import block_rows, by_chance, draws, remembered, replays
from planning.search import search_open
from planning.trials import Load, Problem, Trials

N, FRESH, LIMIT = 2_000, 5, 32


def lengths(random, n):
    return [max(1, round(math.exp(random.gauss(5.5, 0.8)))) for _ in range(n)], [
        max(1, round(math.exp(random.gauss(4.5, 0.9)))) for _ in range(n)
    ]


def poisson(random, n):
    """Independent gaps and lengths."""
    return [random.expovariate(1.0) for _ in range(n)], *lengths(random, n)


def bursty(random, n):
    """Independent gaps, three times as variable as Poisson's: most are short, some are long."""
    return [random.gammavariate(1 / 9, 9.0) for _ in range(n)], *lengths(random, n)


def modulated(random, n):
    """A rate that is 2 or 1/2 for 25 requests on average: bursts of neighbours."""
    rate, gaps = 2.0, []
    for _ in range(n):
        if random.random() < 1 / 25:
            rate = 1 / rate
        gaps.append(random.expovariate(rate) / 1.25)
    return gaps, *lengths(random, n)


def sessions(random, n):
    """Poisson gaps; long prompts come in rows of ten on average."""
    prompts, outputs = lengths(random, n)
    factor = 1.0
    for i in range(n):
        if random.random() < 1 / 10:
            factor = math.exp(random.gauss(-0.3, 0.8))
        prompts[i] = max(1, round(prompts[i] * factor))
    return [random.expovariate(1.0) for _ in range(n)], prompts, outputs


KINDS = [poisson, bursty, modulated, sessions]


def fresh(kind, seed, n=N):
    """A Traffic of n requests, 1 per second in the long run."""
    gaps, prompts, outputs = kind(Random(f"{kind.__name__} {seed}"), n)
    arrivals_us, now = [0], 0.0
    for gap in gaps[1:]:
        now += gap
        arrivals_us.append(round(1_000_000 * now))
    return Traffic(Requests(prompts, outputs), arrivals_us, None)


def accepted(traffic, targets):
    """The load that the plan accepts for this trace."""
    block = block_rows(traffic)
    bursty = remembered(traffic) > by_chance(len(traffic.arrivals_us))
    problem = Problem(Server(Costs()), targets, draws(traffic), replays(traffic, block), own_rps(traffic.arrivals_us),
                      burst_rows=block if bursty else None)
    return search_open(problem, LIMIT).best, block


def met(kind, rps, targets, seeds, n=N):
    """How many fresh traces meet the targets at this rate, the process's own."""
    trials = Trials(Problem(Server(Costs()), targets, [], [fresh(kind, seed, n) for seed in seeds], 1.0))
    trials.suspects = list(range(len(seeds)))
    return len(seeds) - trials.play_replays(Load(LIMIT, rps))


def main():
    traces = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    targets = Targets(99, 500.0, 50.0)
    total = kept = 0
    for kind in [kind for kind in KINDS if kind.__name__ in (sys.argv[2:] or [kind.__name__])]:
        good, loads, blocks = 0, [], []
        for seed in range(traces):
            best, block = accepted(fresh(kind, seed), targets)
            blocks.append(block)
            if best:
                loads.append(best.load.rps)
                good += met(kind, best.load.rps, targets, [f"{seed} fresh {i}" for i in range(FRESH)])
        total += FRESH * len(loads)
        kept += good
        print(f"{kind.__name__:10} {100 * good / (FRESH * len(loads)):5.1f} % of {FRESH * len(loads)} fresh traces; "
              f"accepted {min(loads)} to {max(loads)} (median {sorted(loads)[len(loads) // 2]}) requests/s, "
              f"{traces - len(loads)} without an answer; blocks of {min(blocks)} to {max(blocks)} rows", flush=True)
    print(f"all        {100 * kept / total:5.1f} % of {total}")


if __name__ == "__main__":
    main()
