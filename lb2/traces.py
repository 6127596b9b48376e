"""Which requests does a file hold, when did they arrive, and how bursty is that?

It reads request files and benchmark results of any known source, plain or gzipped. For each it
prints its requests, how much time they span, their rate, the coefficient of variation of the gaps
between arrivals (1 for a Poisson process, more for bursts), the lengths, and how much of the
prompts others share. --convert writes the lab's own format, which every script takes.

    python3 lb2/traces.py FILE [FILE ...]
    python3 lb2/traces.py FILE --convert OUT.json       writes OUT.json
    python3 lb2/traces.py --sources                     prints the table of known sources
"""

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from pathlib import Path
from statistics import fmean, pstdev

from common import Requests, count, percentile, run, save
from running.options import add_columns, add_time_unit, options
from files.source_table import table_of_sources
from files.sources import load_trace


def summary(trace):
    """Lines about a Trace."""
    for name, column in zip(Requests._fields, trace.requests):
        p50, p99 = percentile(column, 50), percentile(column, 99)
        yield f"{name}: {min(column)} to {max(column)}, mean {fmean(column):.1f}, median {p50:g}, p99 {p99:.1f}"
    if trace.arrivals_us is not None:
        yield from arrival_lines(trace)
    if trace.prefixes:
        shared, prompts = shared_tokens(trace.prefixes), sum(trace.requests.prompt_tokens)
        yield f"prefixes: {shared / prompts:.1%} of the prompt tokens lie in a prefix that another prompt shares"


def arrival_lines(trace):
    """Lines about the rate and the burstiness of a Trace."""
    gaps = [later - earlier for earlier, later in zip(trace.arrivals_us, trace.arrivals_us[1:])]
    if not sum(gaps):
        yield "arrivals: all at one moment"
        return
    variation = f"coefficient of variation of the gaps {pstdev(gaps) / fmean(gaps):.2f}"
    yield f"arrivals: {1e6 / fmean(gaps):.3f} requests/s, {variation}"
    if trace.grid_us:
        n, moments = len(trace.arrivals_us), len(set(trace.arrivals_us))
        share = "the" if 2 * moments <= n else "in part the"
        yield (f"grid: {n} requests at {moments} moments, {trace.grid_us / 1e6:g} s or a multiple of it apart: "
               f"the variation is {share} grid's")


def shared_tokens(prefixes):
    """The prompt tokens that lie in a prefix which two requests or more have."""
    uses = Counter(name for prefix in prefixes for name, _ in prefix)
    return sum(max((tokens for name, tokens in prefix if uses[name] > 1), default=0) for prefix in prefixes)


def own_format(trace):
    """A Trace as the text of a request file of this lab: a JSON list, one record a line."""
    columns = dict(zip(Requests._fields, trace.requests))
    if trace.gaps_s:
        columns["gap"] = trace.gaps_s
    elif trace.arrivals_us is not None:
        columns["arrival_ms"] = [arrival / 1000 for arrival in trace.arrivals_us]
    if trace.prefixes:
        columns["prefixes"] = trace.prefixes
    lines = (json.dumps(dict(zip(columns, row))) for row in zip(*columns.values()))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def main():
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="request files or benchmark results")
    parser.add_argument("--first", type=count, metavar="N", help="take the first N requests only (default: all)")
    parser.add_argument("--brief", action="store_true", help="print one line a file")
    parser.add_argument("--convert", type=Path, metavar="OUT.json", help="write the requests in the lab's own format")
    parser.add_argument("--sources", action="store_true", help="print the table of known sources, in Markdown")
    add_time_unit(parser)
    add_columns(parser)
    args = options(parser)
    if bool(args.files) == args.sources:
        parser.error("expected one or more FILEs, or --sources")
    if args.convert and len(args.files) != 1:
        parser.error(f"--convert: expected one FILE, found {len(args.files)}")
    if args.sources:
        print(table_of_sources(), end="")
    for path in args.files:
        trace = load_trace(path, args.first, args.time_unit, columns=args.columns)
        if args.convert:
            save(args.convert.parent, {args.convert.name: own_format(trace)})
        print(f"{path.name}: {trace}")
        for line in summary(trace) if not args.brief else ():
            print(f"  {line}")
    if args.convert:
        print(f"The requests are in {args.convert}, in the lab's own format.")


if __name__ == "__main__":
    run(main)
