"""What does a file hold, and what is wrong with it, in one line?

    read_text("requests.json.gz")          -> the text of a file, plain or gzipped
    parse_json("requests.json", text)      -> its JSON value
    json_records("trace.jsonl", text)      -> its JSON values, one after the other
    requests_of("requests.json", records)  -> Requests([140, 83, ...], [294, 152, ...])
    shown({"prompt_tokens": "many"})       -> '{"prompt_tokens": "many"}', cut after 40 characters

Whatever cannot be used is refused with BadInput. A script prints its text, one line, and ends with
status 2.
"""

import gzip
import json
import re
import zlib
from pathlib import Path

from common import MOST, BadInput, Requests

FIELDS = Requests._fields
BLANK = re.compile(r"[ \t\r\n]*")  # what JSON allows between two values


def read_text(path):
    """The text of a file, plain or gzipped. Raises BadInput or OSError."""
    try:
        content = Path(path).read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
            if not content.endswith(b"\n"):
                content += b"\n"  # gzip's checksum says that the file is whole, and so its last line is, too
        return content.decode("utf-8-sig")
    except IsADirectoryError:
        raise BadInput(f"{path}: expected a file, found a folder") from None
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
        raise BadInput(f"{where}: line {line_number(text, end)}: not JSON: more follows after its end")
    return value


def json_records(path, text):
    """The records of a JSON list, or of JSON lines: JSON values one after the other.

    A list is read at once, which is fast. If there is a mistake in it, its records are read one by
    one, to name the one that is wrong.
    """
    start = BLANK.match(text).end()
    if text[start : start + 1] != "[":
        return values_of(path, text, start, ())
    records = plain_records(text, start)
    if records is not None:
        return records
    try:
        return parse_json(path, text)
    except BadInput:
        for _ in values_of(path, text, start + 1, (",", "]")):
            pass
        raise


def plain_records(text, start):
    """The records of a list of flat objects that hold no text; None for any other list.

    It is faster than looking at the keys of each object. All quotes in such a text are around keys,
    two for each key that Python kept. If there are more, a key stood twice.
    """
    try:
        first, _ = JSON.raw_decode(text, BLANK.match(text, start + 1).end())
        if not isinstance(first, dict) or not all(type(value) in (int, float) for value in first.values()):
            return None
        records = json.loads(text)
        keys = sum(map(len, records)) if set(map(type, records)) == {dict} else -1
        return records if text.count('"') == 2 * keys else None
    except (ValueError, RecursionError):
        return None


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
LONG_JSON = json.JSONDecoder(object_pairs_hook=record_of, parse_int=lambda digits: int(digits[:1000]))


def next_json(where, text, at, decoder=JSON):
    """(The JSON value at a position of a text, where it ends). Raises BadInput."""
    try:
        return decoder.raw_decode(text, at)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{where}: line {error.lineno}: not JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise BadInput(f"{where}: not JSON that we read: brackets nested too deeply") from None
    except ValueError:  # Python does not convert a number of thousands of digits: its first 1,000 are too many, too
        return next_json(where, text, at, LONG_JSON)


def line_number(text, position):
    """The line of a position in a text, counted from 1."""
    return text.count("\n", 0, position) + 1


# --- records --------------------------------------------------------------------------------------


def requests_of(path, records):
    """The Requests in a list of JSON records. Raises BadInput at the first record that is not right."""
    try:
        counts = [[record[field] for record in records] for field in FIELDS]
    except (TypeError, KeyError):
        raise BadInput(f"{path}: {first_defect(records)}") from None
    if any(set(map(type, column)) != {int} or min(column) < 1 or max(column) > MOST for column in counts):
        raise BadInput(f"{path}: {first_defect(records)}")
    return Requests(*counts)


def first_defect(records):
    """What is wrong with the first bad record. There is one."""
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
