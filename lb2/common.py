"""What the steps share: they read requests and costs, measure, write results, and say what is wrong in one line.
It simulates nothing, and imports the standard library alone. The clock counts whole microseconds."""

import json
import os
import statistics
import sys
import textwrap
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from functools import partial
from pathlib import Path
from typing import NamedTuple

LAB = Path(__file__).resolve().parent
PLACES = (LAB.parent / "fixtures/llms/requests.json", LAB / "requests.json", Path("/opt/fixtures/llms/requests.json"))
REQUESTS_FILE = next((place for place in PLACES if place.exists()), PLACES[0])
COLUMNS = (os.get_terminal_size().columns or 100) if sys.stdout and sys.stdout.isatty() else 100
MOST = 1_000_000_000  # tokens, slots, requests, ms. More is a typing error
HINT = "; a file of another kind becomes such a list by: python3 lb2/traces.py FILE --convert OUT.json"


class BadInput(ArgumentTypeError):
    """A mistake in what the user gave us. Its text is the one line that says so."""


class Requests(NamedTuple):
    """Two columns of n counts, each 1..MOST. (Two lists take half the memory and time of n records.)"""
    prompt_tokens: list
    output_tokens: list


class Schedule(NamedTuple):
    """What a scheduler decided: three columns of n times in microseconds, in list order, and two counts."""
    admitted_us: list  # start of the iteration that admitted the request
    first_token_us: list  # end of that iteration
    finished_us: list  # end of the iteration that emitted its last token
    iterations: int
    peak_running: int  # the largest number of sequences in one iteration


class Costs(NamedTuple):
    """What an iteration costs, in microseconds. The defaults are the lab's."""
    prefill_us_per_token: float = 50
    step_us: float = 8_000
    step_us_per_sequence: float = 0
    overhead_us: float = 0  # from the client to the scheduler

    def prefill_us(self, prompt_tokens):
        """Time to prefill this many prompt tokens."""
        return round(self.prefill_us_per_token * prompt_tokens)

    def decode_us(self, sequences):
        """Time of one pass in which each of the sequences emits a token."""
        return round(self.step_us + self.step_us_per_sequence * sequences) or 1


def load_requests(path, first=None):
    """The Requests in a JSON list of {"prompt_tokens": 140, "output_tokens": 294}, or the first of them."""
    try:
        records = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        records = f"no JSON: {error}"
    if not isinstance(records, list) or not records:
        raise BadInput(f"{path}: expected a JSON list of requests, found {str(records)[:60]}{HINT}")
    try:
        columns = [[record[field] for record in records[:first]] for field in Requests._fields]
        if all(set(map(type, column)) == {int} and min(column) >= 1 and max(column) <= MOST for column in columns):
            return Requests(*columns)
    except (TypeError, KeyError):
        pass  # a record that is no object, or lacks a field
    for at, record in enumerate(records):
        for field in Requests._fields:
            value = record.get(field) if isinstance(record, dict) else None
            if type(value) is not int or not 1 <= value <= MOST:
                found = f"{json.dumps(value)[:40]} in {json.dumps(record)[:80]}{HINT if value is None else ''}"
                raise BadInput(f"{path}: record {at}: {field}: expected a whole number, 1 to {MOST:,}, found {found}")


def load_costs(path):
    """The Costs in a file of key=value, times in ms; it says what else the file has. None: the lab's own."""
    if path is None:
        return Costs()
    words = path.read_text(encoding="utf-8-sig", errors="replace").split()
    values = dict(word.partition("=")[::2] for word in words)
    if len(values) < len(words):
        raise BadInput(f"{path}: expected each key once")
    keys = [field.replace("_us", "_ms") for field in Costs._fields]
    costs = Costs(*(round(1000 * number(values.pop(key, ""), 0, f"{path}: {key}: "), 6) for key in keys))
    if values:
        say(f"Of the costs, the steps leave out {ascii(', '.join(values))[1:-1]}.")
    return costs


def number(text, least=1e-6, where="", kind=float):
    """argparse type: a rate or a time, a number from least to MOST."""
    try:
        value = kind(text if text.isascii() and "_" not in text else "")  # Python itself takes 1_0 and other digits
        if least <= value <= MOST:
            return value
    except ValueError:
        pass
    raise BadInput(f"{where}expected a {'whole ' * (kind is int)}number, {least:.7g} to {MOST:,}, found {text[:40]!r}")


count = partial(number, least=1, kind=int)  # argparse type: a whole number of sequences, tokens or requests


def arguments(docstring):
    """The parser of a step. The docstring is its --help."""
    parser = ArgumentParser(description=wrapped(docstring), formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=LAB, metavar="DIR", help="for results (default: the scripts' own)")
    parser.add_argument("--requests", type=Path, default=REQUESTS_FILE, metavar="FILE", help="a JSON list of requests")
    parser.add_argument("--first", type=count, metavar="N", help="take the first N requests only (default: all)")
    parser.add_argument("--costs", type=Path, metavar="FILE", help="key=value, from calibrate.py (default: the lab's)")
    return parser


def percentile(values, percent):
    """The percentile (1..99) of one or more numbers, interpolated as numpy.percentile does it."""
    return statistics.quantiles(values if len(values) > 1 else 2 * values, n=100, method="inclusive")[percent - 1]


def pairs(**values):
    """One line of key=value, in the order given."""
    return " ".join(f"{key}={value}" for key, value in values.items()) + "\n"


def table(header, rows):
    """The text of a csv file of names and numbers that need no quotes."""
    return "".join(",".join(map(str, row)) + "\n" for row in [header, *rows])


def save(out, texts):
    """Write each {name: text} into the folder out, made if missing. Each file is replaced whole, or untouched."""
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        hidden = out / f".lab.{os.getpid()}.{name}"
        try:
            hidden.write_text(text, encoding="ascii", errors="backslashreplace", newline="\n")
            hidden.replace(out / name)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(out / name)) from None
        finally:
            hidden.unlink(missing_ok=True)


def progress(results, total):
    """Pass on results that are computed as they are asked for. On a terminal, count them on stderr."""
    for done, result in enumerate(results, start=1):
        yield result
        if sys.stderr and sys.stderr.isatty():
            print(f"\r\033[K{done} of {total}" if done < total else "\r\033[K", end="", file=sys.stderr, flush=True)


def wrapped(text):
    """The paragraphs of a text in lines of COLUMNS; those that are indented, as they are."""
    fill = partial(textwrap.fill, width=COLUMNS, break_long_words=False, break_on_hyphens=False)
    return "\n\n".join(part if part[:1].isspace() else fill(part) for part in text.split("\n\n"))


def say(text):
    """Print sentences."""
    print(wrapped(text))


def run(main):
    """Run a script's main. A mistake of the user becomes one line and status 2; a mistake of ours, a traceback."""
    try:
        try:
            main()
        finally:
            print(end="", flush=True)
    except KeyboardInterrupt:
        sys.exit(130)
    except (BadInput, OSError, MemoryError) as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that Python's own flush at the end cannot fail once more
        if not isinstance(error, BrokenPipeError):  # a reader who left early (| head) is no error
            line = str(error).replace("\n", " ") or "there is not enough memory"
            print(f"{Path(sys.argv[0]).name}: error: {line}", file=sys.stderr)
            sys.exit(2)
