"""What does a file hold, and what is wrong with it, in one line?

    read_text("requests.json.gz")          -> the text of a file, plain or gzipped
    parse_json("requests.json", text)      -> its JSON value
    json_records("trace.jsonl", text)      -> its JSON values, one after the other
    shown({"prompt_tokens": "many"})       -> '{"prompt_tokens": "many"}', cut after 40 characters

Whatever cannot be used is refused with BadInput. A script prints its text, one line, and ends with
status 2.
"""

import gzip
import io
import json
import os
import re
import zlib
from itertools import islice
from pathlib import Path

from common import BadInput

BLANK = re.compile(r"[ \t\r\n]*")  # what JSON allows between two values
MOST_BYTES = 500_000_000  # of a file, unpacked
FROM_PIPES = {}  # path: what was in it. A pipe can be read once only, and several parts of a script may ask for it


def read_bytes(path):
    """What is in a file, or in a pipe. Raises BadInput or OSError, which name it."""
    if str(path) in FROM_PIPES:
        return FROM_PIPES[str(path)]
    try:
        with open(path, "rb") as file:
            content = bounded(path, file)
            if not Path(path).is_file():
                FROM_PIPES[str(path)] = content
            return content
    except IsADirectoryError:
        raise BadInput(f"{path}: expected a file, found a folder") from None
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def refuse_twins(paths):
    """The same file given twice would count twice. Raises BadInput."""
    seen = {}
    for path in filter(os.path.exists, paths):
        first = seen.setdefault(read_bytes(path), path)
        if first is not path:
            raise BadInput(f"{path}: the same as {first}: expected each result once")


def bounded(path, file):
    """What is in an open file. Raises BadInput if that is too much."""
    content = b"".join(islice(iter(lambda: file.read(1 << 22), b""), MOST_BYTES // (1 << 22) + 2))
    if len(content) > MOST_BYTES:
        raise BadInput(f"{path}: expected at most {MOST_BYTES // 1_000_000} MB of text, found more")
    return content


def read_text(path):
    """The text of a file, plain or gzipped. Raises BadInput or OSError."""
    content = read_bytes(path)
    try:
        if content.startswith(b"\x1f\x8b"):
            content = bounded(path, gzip.GzipFile(fileobj=io.BytesIO(content)))
            if not content.endswith(b"\n"):
                content += b"\n"  # gzip's checksum says that the file is whole, and so its last line is, too
        return content.decode("utf-8-sig")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadInput(f"{path}: gzipped, but damaged: {error}") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: expected UTF-8 text, found the byte 0x{error.object[error.start]:02x}") from None


# --- JSON -----------------------------------------------------------------------------------------


def parse_json(where, text):
    """The JSON value of a text; where: the file, and the line if there are several. Raises BadInput."""
    value, end = next_json(where, text, BLANK.match(text).end())
    end = BLANK.match(text, end).end()
    if end < len(text):
        line = text.count("\n", 0, end) + 1
        raise BadInput(f"{where}: line {line}: not JSON: more follows after its end")
    return value


def json_records(path, text):
    """The records of a JSON list, or of JSON lines: JSON values one after the other.

    A list is read at once, which is fast. If there is a mistake in it, its records are read one by
    one, to name the one that is wrong.
    """
    start = BLANK.match(text).end()
    if text[start : start + 1] != "[":
        return values_of(path, text, start, ())
    end = text.find("}", start)
    try:
        if text.count('"', start, end) == 2 * text.count(":", start, end):  # only numbers: all quotes are around keys
            records = json.loads(text)
            if set(map(type, records)) == {dict} and text.count('"') == 2 * sum(map(len, records)):
                return records  # no key stood twice, and that is told faster than by record_of
    except (ValueError, RecursionError):
        pass  # is found once more, and named
    try:
        return parse_json(path, text)
    except BadInput:
        for _ in values_of(path, text, start + 1, (",", "]")):
            pass
        raise


def values_of(path, text, at, between):
    """The JSON values of a text from a position on. between: what may stand after one, besides blanks."""
    position = 0
    at = BLANK.match(text, at).end()
    while at < len(text):
        value, at = next_json(f"{path}: record {position}", text, at)
        yield value
        position += 1
        at = BLANK.match(text, at).end()
        if between and text[at : at + 1] in between:
            at = BLANK.match(text, at + 1).end()


def record_of(pairs):
    """A JSON object as a dict. Of two equal keys Python would take the last without a word."""
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(f"the key {shown(twice)} stands twice in {shown(record)}")
    return record


JSON = json.JSONDecoder(object_pairs_hook=record_of)


def next_json(where, text, at):
    """(The JSON value at a position of a text, where it ends). Raises BadInput."""
    try:
        return JSON.raw_decode(text, at)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{where}: line {error.lineno}: not JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise BadInput(f"{where}: not JSON that we read: brackets nested too deeply") from None
    except ValueError:
        raise BadInput(f"{where}: not JSON that we read: a number of thousands of digits") from None


def shown(value):
    """The value in JSON's own words, cut short."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def counted(number, noun, rest=""):
    """"1 request without a prompt", "2 requests without a prompt"."""
    return f"{number} {noun}{'' if number == 1 else 's'}{rest}"
