"""What every step shares: it loads the requests, measures a schedule, and writes result files.

    load_requests("requests.json")    -> Requests([140, 83, ...], [294, 152, ...])
    pairs(total_steps=5036, ...)      -> "total_steps=5036 ...\\n"
    table(["rps", ...], rows)         -> "rps,...\\n5,...\\n"
    save(out, {"static.txt": text})   writes every file whole, or none
    percentile([10, 20, 30], 99)      -> 29.8

It simulates nothing. The times of a Schedule are whole microseconds.
"""

import csv
import io
import statistics
from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from command_line import say_first
from sources import load_trace
from transaction import move_up, stage_in


class Schedule(NamedTuple):
    """What a scheduler decided: three columns of n times in microseconds, in list order, and two counts."""

    admitted_us: list  # start of the iteration that admitted the request
    first_token_us: list  # end of that iteration
    finished_us: list  # end of the iteration that emitted its last token
    iterations: int
    peak_running: int  # the largest number of sequences in one iteration


def load_requests(path, first=None):
    """The lengths of the first requests of a file, or of all. Raises BadInput or OSError.

    The eight steps ignore when requests arrive. Where a file is more than a plain list, a line says what it is.
    """
    trace = load_trace(path, first, timed=False)
    columns = {"when they arrived": trace.arrivals_us, "what their prompts share": trace.prefixes}
    ignored = " and ".join(what for what, column in columns.items() if column)
    if trace.source != "this lab" or ignored or trace.notes:
        say_first(f"{path.name}: {trace}" + (f"; {ignored} is ignored here" if ignored else ""))
    return trace.requests


# --- measures -------------------------------------------------------------------------------------


def percentile(values, percent):
    """The percentile (1..99) of one or more numbers, interpolated as numpy.percentile does it."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def percentile_of_counts(counts, percent):
    """The percentile of the values of a {value: how many times}, at least one in all, without a list of them."""
    values, total = sorted(counts), sum(counts.values())
    ends = list(accumulate(counts[value] for value in values))
    rank, part = divmod((total - 1) * percent, 100)
    low, high = (values[bisect_right(ends, min(position, total - 1))] for position in (rank, rank + 1))
    return (low * (100 - part) + high * part) / 100


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
    with stage_in(out) as stage:
        for name, text in texts.items():
            (stage / name).write_text(text, encoding="ascii", errors="backslashreplace", newline="\n")
        move_up(stage, out)
