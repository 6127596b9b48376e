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
CHUNK = 1 << 22  # bytes that are read at once
FROM_PIPES = {}  # path: what was in it. A pipe can be read once only, and several parts of a script may ask for it


def read_bytes(path):
    """What is in a file, or in a pipe. Raises BadInput or OSError."""
    if str(path) in FROM_PIPES:
        return FROM_PIPES[str(path)]
    with open(path, "rb") as file:
        content = bounded(path, file)
    if not Path(path).is_file():
        FROM_PIPES[str(path)] = content
    return content


def refuse_twins(paths):
    """The same file given twice would count twice. Raises BadInput."""
    seen = {}
    for path in filter(os.path.exists, paths):
        first = seen.setdefault(read_bytes(path), path)
        if first is not path:
            raise BadInput(f"{path}: the same as {first}: expected each result once")


def bounded(path, file):
    """What is in an open file. Raises BadInput if that is too much."""
    content = b"".join(islice(iter(lambda: file.read(CHUNK), b""), MOST_BYTES // CHUNK + 2))
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


def parse_json(path, text):
    """The JSON value of a text. Raises BadInput."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # the latter: too many brackets in each other
        raise BadInput(f"{path}: not JSON: {error}") from None


def json_records(path, text):
    """The records of a JSON list, or of JSON lines: JSON values one after the other. Raises BadInput."""
    is_list = text.startswith("[", BLANK.match(text).end())
    return parse_json(path, text) if is_list else values_of(path, text)


def values_of(path, text):
    """The JSON values of a text, one after the other."""
    decoder, number, at = json.JSONDecoder(), 0, BLANK.match(text).end()
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{path}: record {number}: not JSON: {error}") from None
        yield value
        number += 1
        at = BLANK.match(text, at).end()


def shown(value):
    """The value in JSON's own words, cut short."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def counted(number, noun, rest=""):
    """"1 request without a prompt", "2 requests without a prompt"."""
    return f"{number} {noun}{'' if number == 1 else 's'}{rest}"
