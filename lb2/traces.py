"""Which requests does a file hold, when did they arrive, and how bursty is that?

Reads any of the sources that sources.py knows, plain or gzipped, and prints what each file holds.

    python3 lb2/traces.py FILE [FILE ...]        writes nothing
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from statistics import fmean, pstdev

from command_line import run
from common import percentile
from inputs import Requests
from sources import load_trace


def summary(trace):
    """Lines about a Trace: its lengths, and how bursty its arrivals are (a Poisson process has a variation of 1)."""
    for name, column in zip(Requests._fields, trace.requests):
        p50, p99 = percentile(column, 50), percentile(column, 99)
        yield f"{name}: {min(column)} to {max(column)}, median {p50:g}, mean {fmean(column):.1f}, p99 {p99:.1f}"
    gaps = [] if trace.arrivals_us is None else [b - a for a, b in zip(trace.arrivals_us, trace.arrivals_us[1:])]
    if sum(gaps):
        variation = pstdev(gaps) / fmean(gaps)
        yield f"arrivals: {1e6 / fmean(gaps):.3f} requests/s, coefficient of variation of the gaps {variation:.2f}"
    if trace.prefixes:
        named = [name for prefix in trace.prefixes for name, _ in prefix]
        yield f"prefixes: {len(named)} blocks are named, {len(set(named))} of them different"


def main():
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="request files, plain or gzipped")
    for path in parser.parse_args().files:
        trace = load_trace(path)
        print(f"{path.name}: {trace}")
        for line in summary(trace):
            print(f"  {line}")


if __name__ == "__main__":
    run(main)
