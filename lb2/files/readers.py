"""Where do the prompt, the output and the arrival stand in a file, and is each what it should be?

    csv_rows("azure.csv", text, source)          a CSV file: columns found by their names
    record_rows("trace.jsonl", records, source)  a JSON list, or JSON lines: fields found by their keys
    run_rows("bench.json", run, source)          a run of a benchmark: an object with a list a field

Each gives Rows, in the file's order. The source is a row of files/source_table.py: it says the names.
Nothing is guessed. What is not as it should be is refused with BadInput, which names the row.
"""

import csv
import math
import re
from datetime import datetime, timedelta, timezone
from itertools import compress
from typing import NamedTuple

from common import BadInput, MOST
from files.inputs import BLANK, line_number, shown

MOST_S = 1e12  # a time in seconds, either way. More is a typing error
UNITS = {"s": 1, "ms": 1_000, "ns": 1_000_000_000, "date": 1_000_000_000}  # in a second; dates are read as ns
BLOCK_CHARACTERS = 1 << 18  # of CSV, converted at a time
DATE = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?", re.ASCII)
ZONE = re.compile(r"(Z|[+-]\d\d:\d\d)?$", re.ASCII)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Rows(NamedTuple):
    """The requests of a file that did not fail: columns of one length, or empty where the file has no such field."""

    prompts: list
    outputs: list  # 0: it completed without a token
    times: list  # when it arrived, in the source's unit
    latencies: list  # from its arrival to its last token, in the same unit; None where unknown
    hashes: list  # its hash_ids, a list each
    ttfts: list  # as the file has them, as the next
    gaps: list  # times between its tokens
    left_out: list  # (rows before it, its time or None, why) of each request that is left out


def no_rows():
    return Rows([], [], [], [], [], [], [], [])


# --- CSV ------------------------------------------------------------------------------------------


def csv_header(text):
    """(The names of the columns, where the rows begin): the cells of the first line that is not blank."""
    start = BLANK.match(text).end()
    end = text.find("\n", start) + 1 or len(text)
    try:
        names = next(csv.reader([text[start:end].removesuffix("\n")], strict=True), [])
    except csv.Error:
        names = []
    return [name.strip(" \t") for name in names], end


def csv_rows(path, text, source):
    """The Rows of a CSV text whose lines end with \\n alone. Blocks of lines are converted column by column."""
    header, first = csv_header(text)
    used = {source.prompt, source.output, source.arrival, source.total} - {""}
    for name in used:
        if header.count(name) > 1:
            raise BadInput(f"{path}: the column {name} stands {header.count(name)} times")
    rows = no_rows()
    cut = not text.endswith("\n") and header[-1] in used
    minutes, position, start = {}, 0, first
    while start < len(text):
        end = text.find("\n", start + BLOCK_CHARACTERS) + 1 or len(text)
        block = text[start:end].removesuffix("\n")
        try:
            columns = block_columns(block, header, source, minutes)
        except ValueError:
            columns = careful_columns(path, block.split("\n"), line_number(text, start), position, header, source)
        position += len(columns[0])
        if cut and end == len(text):  # a file that was cut off in its last number would look the same
            unended = columns[2][-1] if columns[2] else None
            columns = [column[:-1] for column in columns]
        add_block(rows, columns, source)
        start = end
    if cut and start > first:
        rows.left_out.append((len(rows.prompts), unended, "unended"))
    return rows


def block_columns(block, header, source, minutes):
    """(prompts, outputs, times) of some lines, a column at a time. Raises ValueError if in doubt."""
    width = len(header)
    cells = block.replace("\n", ",\n,").split(",")  # after each row but the last, a cell that is a line end
    ends = cells[width :: width + 1]
    if '"' in block or len(cells) % (width + 1) != width or not len(ends) == ends.count("\n") == block.count("\n"):
        raise ValueError("a quote, or a row with too few or too many cells")
    columns = {name: cells[i :: width + 1] for i, name in enumerate(header) if name}
    prompts, outputs = whole_numbers(columns[source.prompt]), whole_numbers(columns[source.output])
    if source.total in columns and list(map(int.__add__, prompts, outputs)) != whole_numbers(columns[source.total]):
        raise ValueError("a total does not add up")
    if source.arrival not in columns:
        return prompts, outputs, []
    convert = nanoseconds if source.unit == "date" else numbers
    return prompts, outputs, convert(columns[source.arrival], minutes)


def whole_numbers(cells):
    """Counts of tokens. Only the digits 0 to 9: int() takes 1_000 and digits of other scripts, too."""
    together = "".join(cells)
    if not (together.isascii() and together.isdigit()):
        raise ValueError("something is no whole number")
    values = list(map(int, cells))
    if max(values) > MOST:
        raise ValueError("a count is too large")
    return values


def numbers(cells, _):
    """Times in seconds."""
    together = "".join(cells)
    values = list(map(float, cells))
    if "_" in together or not together.isascii() or not math.isfinite(sum(values)):
        raise ValueError("something is no number")
    if max(values) > MOST_S or min(values) < -MOST_S:
        raise ValueError("something is no time")
    return values


def nanoseconds(cells, minutes):
    """Dates and times, in ns. minutes: {zone: {"2023-11-16 18:15:": ns}}, for all blocks of a file."""
    zone = ZONE.search(cells[0])[0]
    together = ",".join([cell[17:] for cell in cells])
    if not re.fullmatch(rf"(?:[0-5]\d(?:\.\d{{1,9}})?{re.escape(zone)},)+", f"{together},", re.ASCII):
        raise ValueError("seconds of another form, or several zones")
    seconds = map(float, together.replace(zone, "").split(","))
    heads = [cell[:17] for cell in cells]
    known = minutes.setdefault(zone, {})
    for head in set(heads) - known.keys():
        known[head] = date_ns(f"{head}00{zone}")
    return [known[head] + round(1e9 * second) for head, second in zip(heads, seconds)]


def date_ns(text):
    """The nanoseconds of a date and time since 1970. Raises ValueError."""
    match = DATE.fullmatch(text)
    if not match:
        raise ValueError("another form")
    day, time, fraction, zone = match.groups()
    moment = datetime.fromisoformat(f"{day}T{time}{'+00:00' if zone in (None, 'Z') else zone}")
    return (moment - EPOCH) // timedelta(seconds=1) * 1_000_000_000 + int((fraction or "").ljust(9, "0"))


def careful_columns(path, lines, number, position, header, source):
    """The same columns, row by row. Raises BadInput at the first row that is not right."""
    prompts, outputs, times = [], [], []
    for number, line in enumerate(lines, start=number):
        if not line:
            continue
        where = f"{path}: row {position + len(prompts)} (line {number})"
        try:
            cells = next(csv.reader([line], strict=True))
        except csv.Error as error:
            raise BadInput(f"{where}: not CSV that we read: {error}") from None
        if len(cells) != len(header):
            raise BadInput(f"{where}: expected {len(header)} cells, as in the header, found {len(cells)}")
        row = {name: cell.strip(" \t") for name, cell in zip(header, cells) if name}
        prompts.append(tokens(f"{where}: {source.prompt}", digits_or_text(row[source.prompt])))
        outputs.append(tokens(f"{where}: {source.output}", digits_or_text(row[source.output])))
        if source.total in row and digits_or_text(row[source.total]) != prompts[-1] + outputs[-1]:
            expected = f"expected {prompts[-1] + outputs[-1]}, the sum of {source.prompt} and {source.output}"
            raise BadInput(f"{where}: {source.total}: {expected}, found {shown(row[source.total])}")
        if source.arrival in row:
            times.append(csv_time(f"{where}: {source.arrival}", row[source.arrival], source.unit))
    return prompts, outputs, times


def csv_time(where, text, unit):
    """The time in a cell."""
    try:
        return date_ns(text) if unit == "date" else numbers([text], None)[0]
    except ValueError:
        expected = "a date and time" if unit == "date" else "a time"
        raise BadInput(f"{where}: expected {expected}, found {shown(text)}") from None


def digits_or_text(text):
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text


def add_block(rows, columns, source):
    """Put a block's columns under the others. Requests that failed are left out."""
    prompts, outputs, times = columns
    if 0 in prompts or (source.silent_fails and 0 in outputs):
        good = [prompt and (output or not source.silent_fails) for prompt, output in zip(prompts, outputs)]
        before = len(rows.prompts)
        for i, is_good in enumerate(good):
            if not is_good:
                why = "failed" if prompts[i] else "promptless"
                rows.left_out.append((before, times[i] if times else None, why))
            else:
                before += 1
        prompts, outputs, times = (compress(column, good) for column in columns)
    rows.prompts.extend(prompts)
    rows.outputs.extend(outputs)
    rows.times.extend(times)


# --- JSON -----------------------------------------------------------------------------------------


def record_rows(path, records, source, measured=False):
    """The Rows of JSON records; with their TTFTs and the gaps between tokens if these are asked for."""
    rows = no_rows()
    paths = {field: keys_of(getattr(source, field)) for field in PATHS if getattr(source, field)}
    no_values = dict.fromkeys(PATHS)
    for position, record in enumerate(records):
        where = f"{path}: record {position}"
        if not isinstance(record, dict):
            raise BadInput(f"{where}: expected an object, found {shown(record)}")
        values = no_values | {field: value_at(record, places) for field, places in paths.items()}
        add_values(rows, where, values, source, "failed" if values["error"] else None, measured)
    return rows


PATHS = ("prompt", "output", "arrival", "end", "error", "hashes", "ttft", "gaps")  # fields of a source that are paths


def keys_of(path):
    """"a.b|c" -> [["a", "b"], ["c"]]: the places where a value may stand."""
    return [one.split(".") for one in path.split("|")]


def value_at(record, places):
    """The first value that stands at one of the places in nested objects; None if there is none."""
    for keys in places:
        value = record
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None


def run_rows(path, run, source, measured=False):
    """The Rows of a benchmark's run, an object that holds a list per field, one entry a request."""
    if not isinstance(run, dict):
        raise BadInput(f"{path}: expected an object with {', '.join(source.sign)}, found {shown(run)}")
    needed = [source.prompt, source.output, *([source.ttft, source.gaps] if measured else [])]
    missing = [name for name in needed if not isinstance(run.get(name), list)]
    if missing:
        raise BadInput(f"{path}: no list {', '.join(missing)}: was it run with --save-detailed?")
    n = len(run[source.prompt])
    columns = {}
    for field in PATHS:
        name = getattr(source, field)
        columns[field] = (run.get(name) if name else None) or [None] * n
        if field in ("ttft", "gaps") and not measured and not is_column(columns[field], n):
            columns[field] = [None] * n  # they are not needed here
        if not is_column(columns[field], n) or not n:
            raise BadInput(
                f"{path}: {source.prompt}, {source.output}, {name} must be lists of one length, one entry a request"
            )
    fails = silent_failures(path, run, source, columns)
    rows = no_rows()
    for i, entries in enumerate(zip(*columns.values())):
        values = dict(zip(PATHS, entries))
        why = "failed" if values["error"] or (fails and values["output"] == 0) else None
        add_values(rows, f"{path}: request {i}", values, source, why, measured)
    return rows


def is_column(value, n):
    return isinstance(value, list) and len(value) == n


def silent_failures(path, run, source, columns):
    """Did the requests without an output token fail? The errors tell, or how many were completed; else they did."""
    silent = sum(output == 0 for output in columns["output"])
    completed = run.get("completed")
    if run.get(source.error) or completed == len(columns["output"]):
        return False
    n = len(columns["output"])
    if silent and type(completed) is int and completed != n - silent:
        raise BadInput(f"{path}: {silent} requests have no output token, and completed is {completed} of {n}: "
                       f"without a list {source.error} nothing says which of them failed")
    return True


def latency_of(values):
    """From a request's arrival to its last token; None if that cannot be told."""
    start, end, ttft, gaps = (values[field] for field in ("arrival", "end", "ttft", "gaps"))
    if is_number(start) and is_number(end):
        return end - start
    if is_number(ttft) and ttft > 0 and isinstance(gaps, list) and all(map(is_number, gaps)):
        return ttft + math.fsum(gaps)
    return None


def add_values(rows, where, values, source, why, measured):
    """Check the values of one request, and add them to the columns. Raises BadInput."""
    time = values["arrival"]
    if why:
        rows.left_out.append((len(rows.prompts), time if is_number(time) else None, why))
        return
    prompt = tokens(f"{where}: {source.prompt}", values["prompt"])
    output = tokens(f"{where}: {source.output}", values["output"])
    if time is None and rows.times:
        raise BadInput(f"{where}: {source.arrival}: expected a time, found null or nothing")
    if time is not None:
        if len(rows.times) < len(rows.prompts):
            raise BadInput(f"{where}: {source.arrival}: found {shown(time)}, and the records before have no time")
        check_time(f"{where}: {source.arrival}", time, source.unit)
    if not prompt:
        rows.left_out.append((len(rows.prompts), time, "promptless"))
        return
    rows.prompts.append(prompt)
    rows.outputs.append(output)
    if time is not None:
        rows.times.append(time)
    if source.end or source.layout == "runs":
        rows.latencies.append(latency_of(values))
    if source.hashes:
        rows.hashes.append(names_in(f"{where}: {source.hashes}", values["hashes"]))
    if measured:
        rows.ttfts.append(values["ttft"])
        rows.gaps.append(values["gaps"])


def names_in(where, hashes):
    """hash_ids: the names of the blocks that a prompt begins with."""
    if hashes is None:
        return ()
    if not isinstance(hashes, list) or not all(type(name) in (int, str) for name in hashes):
        raise BadInput(f"{where}: expected a list of names, found {shown(hashes)}")
    return hashes


# --- values ---------------------------------------------------------------------------------------


def tokens(where, value):
    """A count of tokens, 0 included."""
    if type(value) is not int or not 0 <= value <= MOST:
        raise BadInput(f"{where}: expected a whole number from 0 to {MOST:,}, found {shown(value)}")
    return value


def check_time(where, value, unit):
    """A time in some unit, or in ms if the unit is not known yet."""
    if not (is_number(value) and abs(value) <= MOST_S * UNITS[unit]):
        raise BadInput(f"{where}: expected a time, found {shown(value)}")


def is_number(value):
    """Is it a JSON number that can be computed with? (Not NaN, not infinite; true is none; 10**400 would not fit.)"""
    return type(value) in (int, float) and -1e300 < value < 1e300
