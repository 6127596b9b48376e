"""What does a file hold, and what is wrong with it, in one line?

    read_text("requests.json.gz")          -> the text of a file, plain or gzipped
    parse_json("requests.json", text)      -> its JSON value
    requests_of("requests.json", records)  -> Requests([140, 83, ...], [294, 152, ...])
    shown({"prompt_tokens": "many"})       -> '{"prompt_tokens": "many"}', cut after 40 characters

Whatever cannot be used is refused with BadInput. A script prints its text, one line, and ends with
status 2.
"""

import gzip
import json
import zlib
from pathlib import Path
from typing import NamedTuple

FIELDS = ("prompt_tokens", "output_tokens")
REQUESTS_FILES = (  # where the requests are if nobody names a file: the project's own, or the course's
    Path(__file__).resolve().parent.parent / "fixtures" / "llms" / "requests.json",
    Path("/opt/fixtures/llms/requests.json"),
)
MOST = 1_000_000_000  # tokens in a prompt or an output; also slots and requests. More is a typing error


class BadInput(ValueError):
    """A mistake in what the user gave us. Its text is the one line that says so."""


class Requests(NamedTuple):
    """Two columns of n counts, each 1..MOST. (Two lists take half the memory and time of n records.)"""

    prompt_tokens: list
    output_tokens: list


def default_requests():
    """The first of REQUESTS_FILES that exists. Without any it is the first, and reading it says what is missing."""
    return next((path for path in REQUESTS_FILES if path.exists()), REQUESTS_FILES[0])


def read_text(path):
    """The text of a file, plain or gzipped. Raises BadInput or OSError."""
    try:
        content = Path(path).read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        if path not in REQUESTS_FILES:
            raise
        places = " nor ".join(map(str, REQUESTS_FILES))
        raise BadInput(f"no requests: neither {places} exists; name your file with --requests") from None
    except IsADirectoryError:
        raise BadInput(f"{path}: expected a file, found a folder") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadInput(f"{path}: gzipped, but damaged: {error}") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: expected UTF-8 text, found the byte 0x{error.object[error.start]:02x}") from None


def parse_json(where, text):
    """The JSON value of a text; where: the file, and the line if there are several. Raises BadInput."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"{where}: not JSON: {error}") from None
    except RecursionError:
        raise BadInput(f"{where}: not JSON that we read: brackets nested too deeply") from None
    except ValueError:  # Python does not convert a number of thousands of digits: its first 1,000 are too many, too
        return json.loads(text, parse_int=lambda digits: int(digits[:1000]))


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
