"""Where do the prompt, the output and the arrival stand in a file, and is each what it should be?

    csv_blocks("azure.csv", text, names)   a CSV file: columns found by their names
    record_blocks(place, records, names)   a JSON list, or JSON lines: fields found by their keys
    run_block("bench.json", run, source)   a run of a benchmark: an object with a list a field
    rows_of(source, place, blocks)         -> Rows, in the file's order

Blocks are columns of some rows: {field: values}. place says where a row stands, for messages. Columns
are converted whole. Only where that fails they are looked at one by one, to name the row. Nothing is
guessed. What is not as it should be is refused with BadInput.
"""

import csv
import math
import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from itertools import compress, islice
from typing import NamedTuple

from common import BadInput, MOST
from files.arrivals import is_number
from files.inputs import BLANK, shown

BLOCK = 256  # rows at a time. (More do not stay in the cache of a processor: 8,192 take half as long again.)
DATE = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?: ?UTC|Z|([+-]\d\d)(?::?(\d\d))?)?",
                  re.ASCII)
ZONE = re.compile(r"( ?UTC|Z|[+-]\d\d(?::?\d\d)?)?$", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
FINE = {"", "0", "200", "null", "none", "false", "success", "ok", "completed", "default", "debug", "warning", "{}",
        "[]"}  # what stands in a column of errors if there is none
FIELDS = ("prompt", "output", "arrival", "sent", "queued", "end", "error", "cache", "only", "session", "turn",
          "cached", "hashes", "ttft", "gaps", "mean", "latency")  # fields of a source that name a column
JUDGED = {"error", "cache", "only"}  # those that are looked at, and not kept

csv.field_size_limit(1 << 27)  # a gateway's log may hold whole prompts


class Rows(NamedTuple):
    """The requests of a file that did not fail: columns of one length, or empty where the file has no such field."""

    prompts: list
    outputs: list  # 0: it completed without a token
    times: list  # when it was due, in the file's unit, dates in ns; None: unknown, as of later turns of a session
    sent: list  # when it was sent: the same list, if no other column says it
    latencies: list  # from when it was sent to its last token, in the same unit; None where unknown
    hashes: list  # its hash_ids, a list each
    sessions: list
    turns: list  # of its conversation, from 0 on
    cached: list  # tokens of its prompt that the server found in its cache
    ttfts: list  # as the file has them, as the next
    gaps: list  # times between its tokens
    left_out: list  # (rows before it, why) of each request that is left out
    forms: set  # of its times: "number", or "date", and "zone" if dates say theirs


# --- CSV ------------------------------------------------------------------------------------------


def csv_header(text):
    """(The names of the columns, what is between them): the cells of the first line that is not blank."""
    start = BLANK.match(text).end()
    line = text[start : text.find("\n", start) + 1 or len(text)].removesuffix("\n")
    between = max(",;\t", key=line.count)
    try:
        return [name.strip(" \t") for name in next(csv.reader([line], delimiter=between, strict=True), [])], between
    except csv.Error:
        return [], between


def csv_reader(text):
    return csv.reader(text.split("\n"), delimiter=csv_header(text)[1], strict=True)


def csv_blocks(path, text, names):
    """The blocks of a CSV text whose lines end with \\n alone. names: {field: column}."""
    header, _ = csv_header(text)
    for name in names.values():
        if header.count(name) > 1:
            raise BadInput(f"{path}: the column {name} stands {header.count(name)} times")
    places = {field: header.index(name) for field, name in names.items() if name in header}
    reader, number, width = filter(None, csv_reader(text)), 0, len(header)  # a blank line is no row
    next(reader)
    try:
        while rows := list(islice(reader, BLOCK)):
            if set(map(len, rows)) != {width}:
                i = next(i for i, row in enumerate(rows) if len(row) != width)
                raise BadInput(f"{csv_place(path, text, number + i)}: expected {width} cells, as in the header, found "
                               f"{len(rows[i])}")
            number += len(rows)
            cells = list(zip(*rows))
            yield {field: typed(cells[i]) for field, i in places.items()}
    except csv.Error as error:
        raise BadInput(f"{csv_place(path, text, math.inf)}: not CSV that we read: {error}") from None


def csv_place(path, text, number):
    """Where the row of this number stands. Of an endless number: where the first row stands that is not CSV."""
    row, line, reader = -1, 1, csv_reader(text)
    try:
        for cells in reader:
            if cells and row == number:
                break
            row += bool(cells)
            line = reader.line_num + 1
    except csv.Error:
        pass
    return f"{path}: row {row} (line {line})"


def typed(cells):
    """The numbers in cells, and the texts as they are. Only ASCII digits: int() takes 1_000 and other scripts, too."""
    if DATE.fullmatch(cells[0].strip(" \t")):
        return cells
    together = "".join(cells)
    if together.isascii() and "_" not in together:
        try:
            return list(map(int if together.isdigit() else float, cells))
        except ValueError:
            pass
    stripped = (cell.strip(" \t") for cell in cells)
    return [float(cell) if NUMBER.fullmatch(cell) else cell for cell in stripped]


# --- JSON -----------------------------------------------------------------------------------------


def record_blocks(place, records, names):
    """The blocks of JSON records. names: {field: key}; a.b is key b inside key a."""
    number, records = 0, iter(records)
    while block := list(islice(records, 16 * BLOCK)):
        for i, record in enumerate(block):
            if type(record) is not dict:
                raise BadInput(f"{place(number + i)}: expected an object, found {shown(record)}")
        yield {field: column_at(block, name) for field, name in names.items()}
        number += len(block)


def column_at(records, name):
    """What stands at a.b in each of the objects; None where nothing stands."""
    values = [record.get(name) for record in records]
    if "." not in name or values.count(None) < len(values):
        return values
    for key in name.split("."):
        records = [record.get(key) if type(record) is dict else None for record in records]
    return records


def keys_in(record, before="", depth=5):
    """The keys of an object and of the objects in it: "usage", "usage.prompt_tokens"."""
    for key, value in record.items() if type(record) is dict and depth else ():
        yield f"{before}{key}"
        yield from keys_in(value, f"{before}{key}.", depth - 1)


def run_block(path, run, source, names):
    """The only block of a benchmark's run, an object that holds a list per field, one entry a request."""
    needed = [source.prompt, source.output]
    missing = [name for name in needed if not isinstance(run, dict) or not isinstance(run.get(name), list)]
    if missing:
        raise BadInput(f"{path}: no list {', '.join(missing)}: was it run with --save-detailed?")
    n = len(run[source.prompt])
    columns = {field: run.get(name) or [None] * n for field, name in names.items()}
    for field, column in columns.items():
        if not isinstance(column, list) or len(column) != n or not n:
            raise BadInput(f"{path}: {', '.join([*needed, names[field]])} must be lists of one length, one entry a "
                           "request")
    return columns


def silent_fails(run, source):
    """Did the requests without an output token fail? The errors tell, or how many were completed; else they did."""
    return not run.get(source.error) and run.get("completed") != len(run[source.output])


# --- columns --------------------------------------------------------------------------------------


def rows_of(source, place, blocks):
    """The Rows in blocks of a source. Raises BadInput."""
    kept, left_out, forms, number = {field: [] for field in FIELDS}, [], set(), 0
    for columns in blocks:
        numbers = range(number, number + len(columns["prompt"]))
        number = numbers.stop
        reasons = reasons_of(columns, source)
        if any(reasons):
            out = [i for i, reason in enumerate(reasons) if reason]
            left_out.extend((len(kept["prompt"]) + i - before, reasons[i]) for before, i in enumerate(out))
            good = [not reason for reason in reasons]
            columns = {field: list(compress(column, good)) for field, column in columns.items()}
            numbers = list(compress(numbers, good))
        if numbers:
            columns = checked(lambda i, numbers=numbers: place(numbers[i]), columns, source, forms)
            for field in columns.keys() - JUDGED:
                kept[field].extend(columns[field])
    return rows_from(kept, left_out, forms)


def reasons_of(columns, source):
    """Why each row of a block is left out; "" where it is not. [] if none is."""
    nothing = [None] * len(columns["prompt"])
    parts = [columns.get(field) or nothing for field in ("prompt", "output", "error", "cache", "only")]
    if all(parts[0]) and all(parts[1]) and parts[2:] == [nothing] * 3:
        return []
    return ["" if prompt and output and error is cache is kind is None else
            reason_of(source, prompt, output, error, cache, kind) for prompt, output, error, cache, kind in zip(*parts)]


def reason_of(source, prompt, output, error, cache, kind):
    """Why a row with these values is left out; "" if it is not."""
    if error is not None and str(error).strip().lower() not in FINE:
        return "failed"
    if cache is not None and str(cache).strip().lower() == "true":
        return "cached"
    if kind is not None and kind != source.counts[0]:
        return "other"
    if prompt == 0 and not source.least:
        return "promptless"
    return "failed" if output == 0 and source.silent_fails else ""


def checked(where, columns, source, forms):
    """The columns of a block in which no request failed, as numbers and names. Raises BadInput."""
    columns |= {field: counts(where, getattr(source, field), columns[field], source.least)
                for field in ("prompt", "output")}
    if "arrival" in columns:
        columns["arrival"] = times_of(forms, where, source, columns["arrival"])
    if "hashes" in columns:
        columns["hashes"] = blocks_in(where, source, columns["prompt"], columns["hashes"])
    return columns


def rows_from(kept, left_out, forms):
    """The Rows in the columns of a file."""
    nothing = [None] * len(kept["prompt"])
    due = kept["arrival"] if forms else []
    sent = [start if is_number(start) else time for start, time in zip(kept["sent"], due)] or due
    if any(kept["queued"]):  # the client held requests back: they were due before they were sent
        held = zip(sent, kept["queued"])
        due = [time - wait if is_number(time) and is_number(wait) else time for time, wait in held]
    ends, ttfts, gaps = (kept[field] or nothing for field in ("end", "ttft", "gaps"))
    latencies = list(map(latency_of, sent or nothing, ends, ttfts, gaps)) if kept["end"] or kept["gaps"] else []
    cached = [tokens if is_number(tokens) else 0 for tokens in kept["cached"]]
    return Rows(kept["prompt"], kept["output"], due, sent, latencies, kept["hashes"], kept["session"], kept["turn"],
                cached, ttfts, kept["gaps"] or kept["mean"] or kept["latency"] or nothing, left_out, forms)


def counts(where, name, values, least):
    """Counts of tokens. 374.0 is one, too: so pandas writes a column in which a cell is empty."""
    if set(map(type, values)) != {int}:
        values = [int(value) if type(value) is float and value.is_integer() else value for value in values]
    if set(map(type, values)) != {int} or min(values) < least or max(values) > MOST:
        i = next(i for i, value in enumerate(values) if type(value) is not int or not least <= value <= MOST)
        raise BadInput(f"{where(i)}: {name}: expected a whole number from {least} to {MOST:,}, found "
                       f"{shown(values[i])}")
    return values


def times_of(forms, where, source, values):
    """Times as numbers; dates become ns since 1970, and nothing None. Notes in forms what they are."""
    types = set(map(type, values))
    if types == {type(None)}:
        return values
    try:
        if types <= {int, float} and forms <= {"number"} and is_number(sum(values)):
            forms.add("number")
            return values
        if types == {str} and forms <= {"date", "zone"}:
            return nanoseconds(forms, values)
    except (ValueError, OverflowError):  # no date; or 10**400, which no float can hold
        pass
    if len(values) > 1:  # one of them is no time, or nothing, or another sort of time
        return [times_of(forms, lambda _, i=i: where(i), source, [value])[0] for i, value in enumerate(values)]
    if values[0] == "":
        return [None]
    expected = "a date and time" if "date" in (*forms, source.unit) else "a time"
    raise BadInput(f"{where(0)}: {source.arrival}: expected {expected}, found {shown(values[0])}")


def nanoseconds(forms, cells):
    """Dates and times, in ns since 1970. Raises ValueError."""
    zone = ZONE.search(cells[0])[0]
    together = ",".join([cell[17:] for cell in cells])
    if re.fullmatch(rf"(?:[0-5]\d(?:\.\d{{1,9}})?{re.escape(zone)},)+", f"{together},", re.ASCII):
        seconds = map(float, together.replace(zone, "").split(","))
        heads = [cell[:17] for cell in cells]
        minutes = {head: date_ns(f"{head}00{zone}") for head in set(heads)}
        found = [minutes[head] + round(1e9 * second) for head, second in zip(heads, seconds)]
    else:  # another form, or several zones
        found = [date_ns(cell.strip(" \t")) for cell in cells]
    forms.update({"date", "zone"} if ZONE.search(cells[0].strip(" \t"))[0] else {"date"})
    return found


@lru_cache(10_000)
def date_ns(text):
    """The nanoseconds of a date and time since 1970. Raises ValueError."""
    match = DATE.fullmatch(text)
    if not match:
        raise ValueError("another form")
    day, time, fraction, hours, minutes = match.groups()
    moment = datetime.fromisoformat(f"{day}T{time}{hours or '+00'}:{minutes or '00'}")
    return (moment - EPOCH) // timedelta(seconds=1) * 1_000_000_000 + int((fraction or "").ljust(9, "0"))


def latency_of(start, end, ttft, gaps):
    """From when a request was sent to its last token; None if that cannot be told."""
    if is_number(start) and is_number(end):
        return end - start
    if is_number(ttft) and ttft > 0 and isinstance(gaps, list) and all(map(is_number, gaps)):
        return ttft + math.fsum(gaps)
    return None


def blocks_in(where, source, prompts, given):
    """For each prompt the names of the blocks that it begins with. In the lab's own records each has its tokens."""
    if given.count(None) == len(given):
        return [()] * len(given)
    paired = source.block_tokens is None
    expected = "[name, tokens], growing, up to prompt_tokens" if paired else "names"
    found = [[] if names is None else names for names in given]
    for i, (prompt, names) in enumerate(zip(prompts, found)):
        try:
            ends = [0, *(tokens for _, tokens in names)] if paired else [0]
            known = isinstance(names, list) and {int}.issuperset(map(type, ends)) and \
                {int, str}.issuperset(type(name[0] if paired else name) for name in names)
        except (TypeError, ValueError):
            known = False
        if not known or ends != sorted(set(ends)) or ends[-1] > prompt:
            raise BadInput(f"{where(i)}: {source.hashes}: expected a list of {expected}, found {shown(names)}")
    return [tuple(map(tuple, names)) for names in found] if paired else found
