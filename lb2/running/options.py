"""What the options and the tables of the later labs share."""

import argparse
import sys
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from common import LAB, REQUESTS_FILE, BadInput, count, number, wrapped

whole = partial(number, least=0, kind=int)  # argparse type: a whole number, 0 too


def parser_of(docstring, out=LAB):
    """The parser of a script: its docstring as --help, and the folder for its results."""
    if sys.stdout:
        sys.stdout.reconfigure(errors="backslashreplace")  # the name of a file may hold what a terminal cannot show
    parser = argparse.ArgumentParser(description=wrapped(docstring), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=out, metavar="DIR",
                        help=f"folder for the results, made if missing (default: {out.relative_to(LAB.parent)})")
    return parser


def arguments(docstring, out=LAB):
    """The parser of a script that runs requests of any source at a server's costs."""
    parser = parser_of(docstring, out)
    parser.add_argument("--requests", type=Path, default=REQUESTS_FILE, metavar="FILE",
                        help="requests: a JSON list, a trace or a benchmark's result "
                             "(default: fixtures/llms/requests.json)")
    parser.add_argument("--first", type=count, metavar="N", help="take the first N requests only (default: all)")
    parser.add_argument("--costs", type=Path, metavar="FILE",
                        help="a server's costs, from calibrate.py (default: 0.05 ms a prompt token, 8.0 ms a step)")
    return parser


def options(parser):
    """The options given. Where one is mistyped, the error says which was probably meant."""
    args, unknown = parser.parse_known_args()
    if unknown:
        near = get_close_matches(unknown[0].partition("=")[0], parser._option_string_actions, 1)
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{f'; did you mean {near[0]}?' if near else ''}")
    return args


def add_time_unit(parser):
    """Give a script that runs arrivals --time-unit, for files that do not settle it."""
    parser.add_argument("--time-unit", type=time_unit, metavar="{ms,s}",
                        help="unit of the arrivals, for a file that does not settle it (default: ask)")


def add_columns(parser):
    """Give a script that reads files of any source --columns, for those that no row of the table knows."""
    parser.add_argument("--columns", nargs="+", metavar="FIELD=NAME",
                        help="what a log calls its fields, such as prompt=usage.prompt_tokens output=tokens_out "
                             "arrival=created unit=s; also error, ttft, gaps, latency and latency_unit")


def time_unit(text):
    """argparse type: ms or s. (Its own choices would repeat a text of any length.)"""
    if text not in ("ms", "s"):
        raise BadInput(f"expected ms or s, found {text[:40]!r}")
    return text


def aligned(header, rows):
    """A table for people: words flush left, numbers flush right, two spaces between the columns."""
    justified = []
    for column in zip(header, *rows):
        texts = [str(cell) for cell in column]
        justify = str.ljust if texts[1][:1].isalpha() else str.rjust
        justified.append([justify(text, max(map(len, texts))) for text in texts])
    return "".join("  ".join(line).rstrip() + "\n" for line in zip(*justified))
