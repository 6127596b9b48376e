"""Is the request file itself a measured run? Then what did it measure, and does the plan's server do the same?

    own_run(path, first)                    -> Bench, or None: the file holds no measured times
    checked(problem, bench, setup)          -> Check(measured, predicted, replays), at its own rate or clients
    apart(check, targets)                   -> ["ttft_ms"]
"""

import math
from collections import Counter
from math import fsum
from typing import NamedTuple

from common import BadInput
from planning.arrivals import own_rps
from files.benchmarks import load_benches
from planning.engine import Measures, Run, measured, simulate
from planning.loads import run_at
from planning.replays import REPLAYS, stream


class Check(NamedTuple):
    """A run as it was measured, and as the plan's server would have served it."""

    measured: Measures
    predicted: Measures
    replays: list  # Measures of 20 replays as long as the run
    rps: float  # its own; None in closed loop
    clients: int


def own_run(path, first):
    """The Bench of a file that holds one measured run, all of whose requests are taken; else None."""
    try:
        benches = load_benches(path)
    except BadInput:  # a trace, a list, or a result without the times of its tokens: it is no run to compare with
        return None
    whole = len(benches) == 1 and (first is None or first >= len(benches[0].ttfts_s))
    return benches[0] if whole and (benches[0].closed or benches[0].starts_s) else None


def run_of_bench(bench):
    """What the clients of a run saw, as a Run. Its throughput is compared with nothing, so the span is left out."""
    ttfts_us = [1e6 * ttft for ttft in bench.ttfts_s]
    spans_us = [1e6 * fsum(gaps) for gaps in bench.itls_s]
    tpots_us = [span / (output - 1) if output > 1 else None for span, output in zip(spans_us, bench.output_tokens)]
    e2es_us = [ttft + span for ttft, span in zip(ttfts_us, spans_us)]
    gaps_us = Counter(1e6 * gap for gaps in bench.itls_s for gap in gaps if not bench.even)
    return Run(ttfts_us, tpots_us, e2es_us, gaps_us, sum(bench.output_tokens), math.nan, 0)


def checked(problem, bench, setup):
    """The Check of a run on the plan's server: in open loop at its own rate, in closed loop with its own clients.

    All of its requests count, those of its beginning too, since they do in what was measured. None without a run.
    """
    if not bench:
        return None
    rps = None if bench.closed else own_rps([round(1e6 * at) for at in bench.starts_s]) or problem.nominal_rps

    def measures(seed):
        traffic = stream(problem.traffic, problem.block, problem.requests, seed)
        run = run_at(setup, traffic, rps, problem.nominal_rps) if rps else \
            simulate(setup.server, traffic._replace(arrivals_us=None), setup.max_num_seqs, bench.clients)
        return measured(problem.targets, run)

    return Check(measured(problem.targets, run_of_bench(bench)), measures(None),
                 [measures(seed) for seed in range(REPLAYS)], rps, bench.clients)


def compared(check, targets):
    """Of each measure with a target: (its name, as it was measured, the range of the middle 18 of 20 replays)."""
    for name in targets.given:
        value, replays = getattr(check.measured, name), [getattr(one, name) for one in check.replays]
        if value is not None and None not in replays:
            _, low, *_, high, _ = sorted(replays)
            yield name, value, low, high


def apart(check, targets):
    """The measures that were measured outside the range of the replays."""
    return [name for name, value, low, high in compared(check, targets) if not low <= value <= high]
