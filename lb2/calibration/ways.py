"""In which of two ways do these results tell the costs of their server?

    found_in([Path("closed_16.json"), Path("open_5.json")]) -> Found(costs=Costs(...), server=Server(...), ...)

Detailed results tell them by the gaps between tokens (gaps.py). Where one of the results is a
summary, they are those with which the engine comes nearest to the figures of all (search.py).
"""

from typing import NamedTuple

from files.benchmarks import load_benches
from files.costs import Costs, Server
from files.source_table import named
from calibration.gaps import BUDGET, calibrated
from calibration.loads import is_summary, load_of_bench, load_summaries
from calibration.search import MAX_NUM_SEQS, fitted
from calibration.words import most_sequences, said, said_of_summaries


class Found(NamedTuple):
    """The costs of a server, what is known of it, and the sentences that explain both."""

    costs: Costs
    server: Server
    sentences: list


def found_in(paths, told=Server(), points=()):
    """The Found of some results. told: what the user says of the server. points: Loads beside them. Raises BadInput."""
    if points or any(map(is_summary, paths)):
        return found_by_figures([*(load for path in paths for load in load_summaries(path)), *points], told)
    return found_by_gaps([bench for path in paths for bench in load_benches(path)], told)


def found_by_figures(loads, told):
    """The Found of the engine that comes nearest to the figures of some loads."""
    limits = with_limits(told)
    found = fitted(loads, limits)
    server = told._replace(asynchronous=found.asynchronous, measured_sequences=found.points[-1],
                           measured_prompt_tokens=max(tokens for load in loads for tokens in load.prompt_tokens))
    return Found(found.costs, server, list(said_of_summaries(loads, found, limits)))


def found_by_gaps(benches, told):
    """The Found of detailed results."""
    found = calibrated(benches, told.max_num_batched_tokens)
    asynchronous = found.asynchronous is not False if told.asynchronous is None else told.asynchronous
    server = told._replace(asynchronous=asynchronous, measured_sequences=round(most_sequences(found)),
                           measured_prompt_tokens=max(tokens for bench in benches for tokens in bench.prompt_tokens))
    return Found(found.costs, server, said(benches, found, told.max_num_batched_tokens is not None))


def with_limits(told):
    """The Server with limits to play: vLLM's defaults where nothing else is known."""
    return told._replace(max_num_seqs=told.max_num_seqs or MAX_NUM_SEQS,
                         max_num_batched_tokens=told.max_num_batched_tokens or BUDGET)


def found_in_logs(paths, columns, told=Server(), points=()):
    """The Found of logs whose columns the user names: by the gaps in them, or else by TTFTs and latencies."""
    benches, gaps = [bench for path in paths for bench in load_benches(path, columns, means=True)], named(columns).gaps
    if gaps and not points:
        return found_by_gaps(benches, told)
    loads = [load_of_bench(bench) for bench in benches]
    return found_in([], told, [*points, *(load._replace(figures={
        name: figure for name, figure in load.figures.items() if gaps or "itl" not in name}) for load in loads)])
