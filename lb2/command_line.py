"""How does a script start, read its options, show its progress, and fail?

    parser = arguments(__doc__)       the docstring is the --help text
    progress(results, 20)             passes 20 results on; on a terminal it counts them on stderr
    say("Notice: ...")                prints sentences in lines of at most 100 columns
    run(main)                         a user's mistake becomes one line and status 2
"""

import sys


def quiet_interrupt(kind, error, trace):
    """Where nobody catches Ctrl-C, as during the imports below, it ends the script without a traceback."""
    if kind is not KeyboardInterrupt:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = quiet_interrupt

import argparse  # noqa: E402
import atexit  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import shutil  # noqa: E402
import tempfile  # noqa: E402
import textwrap  # noqa: E402
import time  # noqa: E402
from contextlib import suppress  # noqa: E402
from pathlib import Path  # noqa: E402

from inputs import MOST, BadInput, default_requests  # noqa: E402

if sys.version_info < (3, 10):
    sys.exit(f"Python 3.10 or newer is needed, and this is {sys.version.split()[0]}")

UNIT = re.compile(r"(?<=\d) (?=(?:%|ms|s|us)\b|%)")
COLUMNS = 100  # of a sentence
LONGEST_LINE = 1_500  # characters of an error
LAB = Path(__file__).resolve().parent
REQUESTS_FILE = default_requests()


# --- options --------------------------------------------------------------------------------------


def parser_of(docstring, out=LAB):
    """The parser of a script: its docstring as --help, and the folder for its results."""
    parser = argparse.ArgumentParser(description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=out, metavar="DIR",
                        help=f"folder for the results, made if missing (default: {out.relative_to(LAB.parent)})")
    return parser


def arguments(docstring, out=LAB):
    """The parser of a script that plays requests at a server's costs."""
    parser = parser_of(docstring, out)
    parser.add_argument("--requests", type=file_to_read, default=REQUESTS_FILE, metavar="FILE",
                        help="requests: a JSON list, a trace or a benchmark's result "
                             "(default: fixtures/llms/requests.json)")
    parser.add_argument("--first", type=count, metavar="N", help="take the first N requests only (default: all)")
    parser.add_argument("--costs", type=file_to_read, metavar="FILE",
                        help="a server's costs, from plan_calibrate.py "
                             "(default: 0.05 ms a prompt token, 8.0 ms a step)")
    return parser


def add_time_unit(parser):
    """Give a script that plays arrivals --time-unit, for files that do not settle it."""
    parser.add_argument("--time-unit", type=time_unit, metavar="{ms,s}",
                        help="unit of the arrivals, for a file that does not settle it (default: ask)")


def file_to_read(text):
    """argparse type: the Path of a file that can be read twice. A pipe cannot: its bytes are copied to a plain file."""
    path = Path(text)
    if not os.path.exists(path) or os.path.isfile(path) or os.path.isdir(path):
        return path
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = folder / path.name
    copy.write_bytes(path.read_bytes())
    return copy


def count(text):
    """argparse type: a whole number of sequences or tokens, 1..MOST."""
    value = int(text) if text.isdecimal() and len(text) < 20 else 0
    if not 1 <= value <= MOST:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to {MOST:,}, found {printable(text[:40])}")
    return value


def whole(text):
    """argparse type: a whole number, 0 too."""
    return 0 if text == "0" else count(text)


def amount(text):
    """argparse type: a rate or a time, any number from a millionth to MOST."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1e-6 <= value <= MOST:
        raise argparse.ArgumentTypeError(f"expected a number from 0.000001 to {MOST:,}, found {printable(text[:40])}")
    return value


def time_unit(text):
    """argparse type: ms or s. (Its own choices would repeat a text of any length.)"""
    if text not in ("ms", "s"):
        raise argparse.ArgumentTypeError(f"expected ms or s, found {printable(text[:40])}")
    return text


def same_file(path, other):
    """Do two paths lead to the same place? A circle of links leads nowhere, and is no error."""
    return os.path.realpath(path) == os.path.realpath(other)


# --- a run ----------------------------------------------------------------------------------------


def progress(results, total):
    """Pass on results that are computed as they are asked for. On a terminal, count them on stderr once a second."""
    watched = sys.stderr is not None and sys.stderr.isatty()
    start_s = said_s = time.monotonic()
    try:
        for done, result in enumerate(results, start=1):
            yield result
            now_s = time.monotonic()
            if watched and now_s - said_s >= 1:
                left_s = (now_s - start_s) / done * (total - done)
                print(f"\r\033[K{done} of {total}, about {left_s:.0f} s to go", end="", file=sys.stderr, flush=True)
                said_s = now_s
    finally:
        if said_s > start_s:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def say_first(line):
    """Print a line before the results are written. They will be, even if whoever reads our output has gone."""
    with suppress(BrokenPipeError):
        print(line)


def say(text):
    """Print sentences in lines of at most 100 columns. A number is not torn from its unit."""
    text = UNIT.sub("\xa0", text)
    print(textwrap.fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False).replace("\xa0", " "))


def is_continued(line, following):
    """Do these two lines that say printed hold one sentence? They do where its next word found no room."""
    word = UNIT.sub("\xa0", following).split(" ")[0]
    within = bool(word) and not line.endswith((".", ":", "?"))
    return within and len(line) <= COLUMNS < len(line) + 1 + len(word)


def run(main):
    """Run a script's main. A mistake of the user becomes one line and status 2; a mistake of ours, a traceback."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: closed by whoever started us
        stream.reconfigure(errors="backslashreplace")  # a file's name may hold what a terminal cannot show
    try:
        try:
            refuse_two_dashes(sys.argv[1:])
            main()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever reads our output has seen enough (| head); the result files are written by then
        forget_stdout()
    except BadInput as error:
        fail(str(error))
    except MemoryError:
        fail("there is not enough memory for this")
    except OSError as error:
        forget_stdout()  # it may be what cannot be written
        fail(": ".join(str(part) for part in (error.filename, error.strerror) if part))


def refuse_two_dashes(arguments):
    """argparse takes --option=-- for an option with an empty list."""
    for argument in arguments:
        if re.fullmatch(r"--[a-z-]+=--", argument):
            raise BadInput(f"{argument}: expected a value after the =")


def printable(text):
    """The text in one line that a terminal can show."""
    return "".join(character if character.isprintable() else "?" for character in text)


def forget_stdout():
    """What is left in its buffer cannot be written: let Python write it nowhere when it ends."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(text):
    """End with status 2 and one line, whatever characters a file name holds, and however long it is."""
    line = text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE // 2]} ... {text[-LONGEST_LINE // 2:]}"
    print(f"{Path(sys.argv[0]).name}: error: {printable(line)}", file=sys.stderr)
    sys.exit(2)
