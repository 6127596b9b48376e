"""Is the request file itself a measured run? Then what did it measure, and does the plan's server do the same?

    own_run(path, first)                    -> Bench, or None: the file holds no measured times
    checked(problem, bench, setup)          -> Check(measured, predicted, replays), at its own rate or clients
    apart(check, targets)                   -> ["ttft_ms"], the measures outside the range of the replays
"""

import math
from collections import Counter
from math import fsum
from typing import NamedTuple

from common import BadInput
from planning.arrivals import own_rps
from files.benchmarks import load_benches
from planning.engine import TIMES, Measures, Run, measured, simulate
from planning.arrivals import scaled
from planning.replays import REPLAYS, stream


class Check(NamedTuple):
    """A run as it was measured, and as the plan's server would have served it."""

    measured: Measures
    predicted: Measures
    replays: list  # Measures of 20 replays as long as the run
    rps: float  # its own; None in closed loop
    clients: int

    def range_of(self, name):
        """(low, high) of a measure in the middle 18 of the 20 replays; None where one has none."""
        values = [getattr(one, name) for one in self.replays]
        return None if None in values else tuple(sorted(values)[at] for at in (1, -2))


def own_run(path, first):
    """The Bench of a file that holds one measured run, all of whose requests are taken; else None."""
    try:
        benches = load_benches(path)
    except BadInput:  # a trace, a list, or a result without the times of its tokens: it is no run to compare with
        return None
    whole = len(benches) == 1 and (first is None or first >= len(benches[0].ttfts_s))
    return benches[0] if whole and (benches[0].closed or benches[0].starts_s) else None


def run_of_bench(bench):
    """What the clients of a run saw, as a Run."""
    ttfts_us = [1e6 * ttft for ttft in bench.ttfts_s]
    spans_us = [1e6 * fsum(gaps) for gaps in bench.itls_s]
    tpots_us = [span / (output - 1) if output > 1 else None for span, output in zip(spans_us, bench.output_tokens)]
    starts_us = [1e6 * start for start in bench.starts_s] if bench.starts_s else [0.0] * len(ttfts_us)
    ends_us = [start + ttft + span for start, ttft, span in zip(starts_us, ttfts_us, spans_us)]
    duration_us = 1e6 * bench.duration_s if bench.duration_s else max(ends_us)
    return Run(ttfts_us, tpots_us, [ttft + span for ttft, span in zip(ttfts_us, spans_us)],
               Counter(1e6 * gap for gaps in bench.itls_s for gap in gaps), sum(bench.output_tokens), duration_us, 0)


def checked(problem, bench, setup):
    """The Check of a run on the plan's server: in open loop at its own rate, in closed loop with its own clients.

    All of its requests count, those of its beginning too, since they do in what was measured.
    """
    rps = None
    if not bench.closed:
        rps = own_rps([round(1e6 * start) for start in bench.starts_s]) or problem.nominal_rps

    def measures(seed):
        traffic = stream(problem.traffic, problem.block, problem.requests, seed)
        arrivals_us = rps and scaled(traffic.arrivals_us, rps / problem.nominal_rps)
        clients = bench.clients if bench.closed else setup.gateway
        return measured(problem.targets, simulate(setup.server, traffic._replace(arrivals_us=arrivals_us),
                                                  setup.max_num_seqs, clients))

    return Check(measured(problem.targets, run_of_bench(bench)), measures(None),
                 [measures(seed) for seed in range(REPLAYS)], rps, bench.clients)


def apart(check, targets):
    """The measures with a target that were measured outside the range of the replays."""
    found = []
    for name, target in zip(TIMES, targets[1:]):
        value, inside = getattr(check.measured, name), check.range_of(name)
        if target != math.inf and value is not None and inside and not inside[0] <= value <= inside[1]:
            found.append(name)
    return found
