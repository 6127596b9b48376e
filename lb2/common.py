"""What every step shares: it loads the requests, measures a schedule, and writes result files.

    load_requests(args)               -> Requests(prompt_tokens=[140, 83, ...], output_tokens=[294, 152, ...])
    pairs(total_steps=5036, ...)      -> "total_steps=5036 ...\\n"
    table(["rps", ...], rows)         -> "rps,...\\n5,...\\n"
    save(out, {"static.txt": text})   writes every file whole, or none
    percentile([10, 20, 30], 99)      -> 29.8

It simulates nothing. Every time is in whole microseconds; ms and seconds stand only where something is printed.
"""

import csv
import io
import os
import statistics
from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from inputs import BadInput, Requests
from sources import load_trace


class Schedule(NamedTuple):
    """What a scheduler decided: three columns of n times in microseconds, in list order, and two counts."""

    admitted_us: list  # start of the iteration that admitted the request
    first_token_us: list  # end of that iteration
    finished_us: list  # end of the iteration that emitted its last token
    iterations: int
    peak_running: int  # the largest number of sequences in one iteration


def load_requests(args):
    """The requests of the file args.requests, the first args.first of them. Raises BadInput or OSError.

    The eight steps use the lengths only. For any file but a plain list it prints what the file is and what is ignored.
    """
    trace = load_trace(args.requests, args.first)
    if trace.source != "this lab" or trace.arrivals_us:
        ignored = "; when they arrived is ignored here" if trace.arrivals_us else ""
        print(f"{args.requests.name}: {trace}{ignored}")
    return trace.requests


# --- measures -------------------------------------------------------------------------------------


def percentile(values, percent):
    """The percentile of one or more numbers, interpolated between order statistics as numpy.percentile does it."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def percentile_of_counts(counts, percent):
    """The percentile of the numbers in {number: how many times, 1 or more}, none of which is written out."""
    numbers = sorted(counts)
    ends = list(accumulate(counts[number] for number in numbers))  # rank after the last of each number
    if ends[-1] == 1:
        return numbers[0]
    rank, hundredths = divmod(percent * (ends[-1] - 1), 100)
    low, high = (numbers[bisect_right(ends, place)] for place in (rank, rank + 1))
    return (low * (100 - hundredths) + high * hundredths) / 100


def throughput_tps(requests, schedule):
    """Output tokens per second, from time 0 to the last finish."""
    return sum(requests.output_tokens) * 1_000_000 / max(schedule.finished_us)


def slot_util(requests, schedule, slots):
    """The share of the slots of all iterations in which a token was emitted."""
    return sum(requests.output_tokens) / (slots * schedule.iterations)


# --- result files ---------------------------------------------------------------------------------


def pairs(**values):
    """One line of key=value, in the order given."""
    return " ".join(f"{key}={value}" for key, value in values.items()) + "\n"


def table(header, rows):
    """The text of a csv file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


def aligned(header, rows):
    """The same table for people: words flush left, numbers flush right, two spaces between the columns."""
    justified = []
    for column in zip(header, *rows):
        texts = [str(cell) for cell in column]
        justify = str.ljust if texts[1][:1].isalpha() else str.rjust
        justified.append([justify(text, max(map(len, texts))) for text in texts])
    return "".join("  ".join(line).rstrip() + "\n" for line in zip(*justified))


def save(out, texts):
    """Write each {name: text} into the folder out, made if missing. Either every file is replaced whole, or none."""
    out.mkdir(parents=True, exist_ok=True)
    for name in texts:
        if (out / name).is_dir():
            raise BadInput(f"{out / name}: expected a file, found a folder")
    partial = {name: out / f".{name}.{os.getpid()}" for name in texts}
    try:
        for name, text in texts.items():
            partial[name].write_text(text, encoding="ascii", newline="\n")
        for name in texts:
            os.replace(partial[name], out / name)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(out)) from None
    finally:
        for path in partial.values():
            path.unlink(missing_ok=True)
