"""What every step shares: the request file, the result files, p99, and how a script starts and fails.

    load_requests("requests.json")    -> Requests(prompt_tokens=[140, 83, ...], output_tokens=[294, 152, ...])
    pairs(total_steps=5036, ...)      -> "total_steps=5036 ...\n"
    table(["rps", ...], rows)         -> "rps,...\n5,...\n"
    save(out, {"static.txt": text})   whole or not at all
    percentile([10, 20, 30], 99)      -> 29.8

It simulates nothing. One unit of time everywhere: whole microseconds; ms and seconds only where something is printed.
"""

import argparse
import csv
import gzip
import io
import json
import os
import statistics
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

from progress import clear, unwatch, watch

if sys.version_info < (3, 10):
    sys.exit(f"Python 3.10 or newer is needed, and this is {sys.version.split()[0]}")

LAB = Path(__file__).resolve().parent
REQUESTS_FILE = LAB.parent / "fixtures" / "llms" / "requests.json"
FIELDS = ("prompt_tokens", "output_tokens")
MOST = 1_000_000_000  # tokens in a prompt or an output; also sequences, requests: beyond it, a typing error


class Requests(NamedTuple):
    """Two columns of n counts, each 1..MOST. (A list a column: half the memory and time of a record a request.)"""

    prompt_tokens: list
    output_tokens: list


class Schedule(NamedTuple):
    """What a scheduler decided: three columns of n times in microseconds, in list order, and two counts."""

    admitted_us: list  # start of the iteration that admitted the request
    first_token_us: list  # end of that iteration
    finished_us: list  # end of the iteration that emitted its last token
    iterations: int
    peak_running: int  # the largest number of sequences in one iteration


class BadInput(ValueError):
    """A mistake in what the user gave us; its text is the one line that says so."""


# --- in -----------------------------------------------------------------------------------------------------------


def requests_of(args):
    """The requests that a script's arguments name: lengths only, and it says what else the file held."""
    text = read_text(args.requests)
    if text.lstrip().startswith("[") and '"arrival_ms"' not in text:
        requests = columns(args.requests, load_records(args.requests, text))
        return Requests(*(column[: args.first] for column in requests))
    from traces import parse_trace  # another lab's: only a file that is not a plain list needs it

    trace = parse_trace(args.requests, text, args.first)
    print(f"{args.requests.name}: {trace}" + ("; when they arrived is ignored here" if trace.arrivals_us else ""))
    return trace.requests


def load_requests(path):
    """Read a JSON list of {"prompt_tokens": int, "output_tokens": int}. Raises BadInput or OSError."""
    return columns(path, load_records(path, read_text(path)))


def load_records(path, text):
    """The JSON list of a file's text, not empty; what is in it is not looked at. Raises BadInput."""
    records = parse(path, text, int)
    if not isinstance(records, list):
        raise BadInput(f"{path}: expected a JSON list of requests, found {shown(records)}")
    if not records:
        raise BadInput(f"{path}: the list of requests is empty")
    return records


def columns(path, records):
    """The records of a file as Requests. Raises BadInput, which names the file, at the first one that is not right."""
    try:
        counts = [[record[field] for record in records] for field in FIELDS]
    except (TypeError, KeyError):
        raise BadInput(f"{path}: {first_defect(records)}") from None
    if any(set(map(type, column)) != {int} or min(column) < 1 or max(column) > MOST for column in counts):
        raise BadInput(f"{path}: {first_defect(records)}")
    return Requests(*counts)


def read_text(path):
    """The text of a file, plain or gzipped. Raises BadInput or OSError."""
    try:
        content = Path(path).read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        return content.decode("utf-8-sig")
    except IsADirectoryError:
        raise BadInput(f"{path}: expected a file, found a folder") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadInput(f"{path}: gzipped, but damaged: {error}") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: expected UTF-8 text, found the byte 0x{error.object[error.start]:02x}") from None


def parse(path, text, parse_int):
    """The JSON value of a file's text. Raises BadInput."""
    try:
        return json.loads(text, parse_int=parse_int)
    except json.JSONDecodeError as error:
        raise BadInput(f"{path}: not JSON: {error}") from None
    except RecursionError:
        raise BadInput(f"{path}: not JSON that we read: brackets nested too deeply") from None
    except ValueError:  # Python refuses to convert a number of thousands of digits: any stand-in above MOST will do
        return parse(path, text, lambda digits: int(digits[:1000]))


def first_defect(records):
    """Say what is wrong with the first bad record; there is one."""
    for position, record in enumerate(records):
        if not isinstance(record, dict):
            return f"record {position}: expected an object with {' and '.join(FIELDS)}, found {shown(record)}"
        for field in FIELDS:
            if field not in record:
                return f"record {position}: {field} is missing, found {shown(record)}"
            if type(record[field]) is not int or not 1 <= record[field] <= MOST:
                found = shown(record[field])
                return f"record {position}: {field}: expected a whole number from 1 to {MOST:,}, found {found}"


def shown(value):
    """The value in JSON's own words, cut short."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


# --- out ----------------------------------------------------------------------------------------------------------


def pairs(**values):
    """One line of key=value, in the order given; each value as it stands, decimals included."""
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
    """Write each {name: text} into the folder `out`, made if missing. Either every file is replaced whole, or none."""
    clear()  # of progress: what is printed next is the result
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


# --- measures -----------------------------------------------------------------------------------------------------


def percentile(values, percent):
    """The percentile of one or more numbers, interpolated between order statistics, as numpy.percentile does it."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def throughput_tps(requests, schedule):
    """Output tokens per second, from time 0 to the last finish."""
    return sum(requests.output_tokens) * 1_000_000 / max(schedule.finished_us)


def slot_util(requests, schedule, slots):
    """The share of the slots of all iterations in which a token was emitted."""
    return sum(requests.output_tokens) / (slots * schedule.iterations)


# --- the command line ---------------------------------------------------------------------------------------------


def parser_of(docstring, out=LAB):
    """The parser of a script: its docstring as --help, and where its results go."""
    parser = argparse.ArgumentParser(description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=out, metavar="DIR",
                        help=f"folder for the results, made if missing (default: {out.relative_to(LAB.parent)})")
    return parser


def arguments(docstring, out=LAB):
    """The parser of a script that plays requests at a server's costs."""
    parser = parser_of(docstring, out)
    parser.add_argument(
        "--requests",
        type=Path,
        default=REQUESTS_FILE,
        metavar="FILE",
        help="requests: a JSON list, a trace or a benchmark's result (default: fixtures/llms/requests.json)",
    )
    parser.add_argument("--first", type=count, metavar="N", help="take the first N requests only (default: all)")
    parser.add_argument("--costs", type=Path, metavar="FILE",
                        help="a server's costs, from calibrate.py (default: 0.05 ms a prompt token, 8.0 ms a step)")
    return parser


def count(text):
    """argparse type: a whole number of sequences or tokens, 1..MOST."""
    value = int(text) if text.isdecimal() and len(text) < 20 else 0
    if not 1 <= value <= MOST:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to {MOST:,}, found {text}")
    return value


def amount(text):
    """argparse type: a rate or a time, any number from a millionth to MOST."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1e-6 <= value <= MOST:
        raise argparse.ArgumentTypeError(f"expected a number from 0.000001 to {MOST:,}, found {text}")
    return value


def run(main):
    """Run a script's main. What the user did wrong becomes one line and status 2; what we did wrong, a traceback."""
    try:
        watch()
        main()
        if sys.stdout is not None:  # closed by whoever started us
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has seen enough (| head); the result files are written by then
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.exit(130)
    except BadInput as error:
        fail(str(error))
    except OSError as error:
        fail(": ".join(str(part) for part in (error.filename, error.strerror) if part))
    finally:
        unwatch()


def fail(text):
    """End with status 2 and one line, whatever a file name may hold."""
    line = "".join(character if character.isprintable() else "?" for character in text)
    print(f"{Path(sys.argv[0]).name}: error: {line}", file=sys.stderr)
    sys.exit(2)
