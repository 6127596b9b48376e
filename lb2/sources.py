"""Which requests does a file hold, when did each arrive, and with what does its prompt begin?

Reads request files of six sources, told apart by what is in them, never by their names, plain or gzipped:

    this lab         JSON list of objects, or one object a line, with prompt_tokens; optional arrival_ms
    vLLM             the result of vllm bench serve --save-result --save-detailed: JSON object with input_lens
    Azure 2023/2024  CSV, TIMESTAMP,ContextTokens,GeneratedTokens: date and time with up to 9 digits of a second
    BurstGPT         CSV, Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type: seconds
    Mooncake         JSON lines with input_length, output_length, timestamp (ms), hash_ids (512-token prefix blocks)
    Vidur            CSV, arrived_at,num_prefill_tokens,num_decode_tokens: seconds

Arrivals count from the first and are put in order. In a trace from outside, a row with 0 tokens on either side is a request
that failed: it is left out and counted. Every other defect is refused, with its row; nothing is guessed.

    load_trace("azure.csv.gz") -> Trace(requests=..., arrivals_us=[0, 4314489, ...], source="Azure", left_out=0, ...)
"""

import csv
import math
import re
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from inputs import MOST, BadInput, Requests, parse_json, read_text, requests_of, shown

MOONCAKE_BLOCK_TOKENS = 512  # Mooncake's trace, README: a hash id names a block of 512 tokens and all before it
CSV_COLUMNS = {  # source: (first columns of the header, then the positions of arrival, prompt and output)
    "Azure": ("TIMESTAMP,ContextTokens,GeneratedTokens", 0, 1, 2),
    "BurstGPT": ("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type", 0, 2, 3),
    "Vidur": ("arrived_at,num_prefill_tokens,num_decode_tokens", 0, 1, 2),
}
UNDERSTOOD = (
    "a JSON list, or JSON lines, of objects with prompt_tokens; a detailed result of vllm bench serve (input_lens); "
    "JSON lines with input_length (Mooncake); CSV that begins with "
    + "; ".join(f"{header} ({source})" for source, (header, *_) in CSV_COLUMNS.items())
)
DATE = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?")
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Trace(NamedTuple):
    """n requests in order of arrival, and where they come from."""

    requests: Requests
    arrivals_us: list  # n times from the first arrival on; None where the file has none
    prefixes: list  # n lists of (name, tokens), for paged.schedule; None where the file has none
    source: str
    left_out: int  # rows of failed requests

    def __str__(self):
        arrivals = "" if self.arrivals_us is None else f" over {self.arrivals_us[-1] / 1e6:.1f} s"
        failed = f"; {self.left_out} failed requests (0 tokens) left out" if self.left_out else ""
        return f"{len(self.requests.prompt_tokens)} requests{arrivals} ({self.source}){failed}"


class Row(NamedTuple):
    prompt_tokens: int
    output_tokens: int
    arrival_ns: int  # None where the file has none
    prefix: list


def load_trace(path, first=None):
    """Read a request file of any of the six sources, its first requests only if asked. Raises BadInput or OSError."""
    return parse_trace(path, read_text(path), first)


def parse_trace(path, text, first=None):
    """The Trace in a file's text; path is for messages."""
    records = json_list(path, text)
    if records is not None and not has_arrivals(records):
        requests = Requests(*(column[:first] for column in requests_of(path, records)))
        return Trace(requests, None, None, "this lab", 0)
    source, rows = recognise(path, text) if records is None else ("this lab", lab_rows(path, records))
    kept = [row for row in rows if row.prompt_tokens and row.output_tokens]
    if not kept:
        raise BadInput(f"{path}: no request in it has tokens on both sides ({len(rows)} rows, {source})")
    left_out = len(rows) - len(kept)
    timed = kept[0].arrival_ns is not None
    if timed:
        kept.sort(key=lambda row: row.arrival_ns)
    kept = kept[:first]
    arrivals_us = [round((row.arrival_ns - kept[0].arrival_ns) / 1000) for row in kept] if timed else None
    requests = Requests([row.prompt_tokens for row in kept], [row.output_tokens for row in kept])
    prefixes = [row.prefix for row in kept] if source == "Mooncake" else None
    return Trace(requests, arrivals_us, prefixes, source, left_out)


def json_list(path, text):
    """The list in a text that begins as a JSON list; None for another text."""
    if text.lstrip()[:1] != "[":
        return None
    records = parse_json(path, text)
    if not records:
        raise BadInput(f"{path}: the list of requests is empty")
    return records


def has_arrivals(records):
    """Does any record of a JSON list say when it arrived?"""
    return any(isinstance(record, dict) and "arrival_ms" in record for record in records)


def recognise(path, text):
    """(source, rows) of a file's text."""
    if text.lstrip()[:1] == "{":
        lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
        one = parse_json(path, text) if len(lines) == 1 or lines[0][1].strip() == "{" else None
        if isinstance(one, dict) and "input_lens" in one:
            return "vLLM", bench_rows(path, one)
        records = [one] if one else [parse_json(f"{path}: line {number}", line) for number, line in lines]
        if "prompt_tokens" in records[0]:
            return "this lab", lab_rows(path, records)
        if "input_length" in records[0]:
            return "Mooncake", mooncake_rows(path, records)
    header = text.split("\n", 1)[0].strip()
    for source, (known, *positions) in CSV_COLUMNS.items():
        if header == known or header.startswith(known + ","):
            return source, csv_rows(path, text, source, positions)
    began = shown(text[:60]) if text.strip() else "nothing"
    raise BadInput(f"{path}: not a request file; understood are {UNDERSTOOD}; this one begins with {began}")


# --- one source after the other: text or values -> [Row, ...] in the file's order; each raises BadInput -------------


def lab_rows(path, records):
    requests = requests_of(path, records)
    arrivals = [None] * len(records)
    if any("arrival_ms" in record for record in records):
        arrivals = [number(f"{path}: record {i}: arrival_ms", record.get("arrival_ms"), 1_000_000)
                    for i, record in enumerate(records)]
    return [Row(*row, []) for row in zip(*requests, arrivals)]


def bench_rows(path, bench):
    columns = [bench.get(field) for field in ("input_lens", "output_lens", "start_times")]
    if not columns[2]:
        columns[2] = [None] * len(columns[0] if isinstance(columns[0], list) else [])
    if not all(isinstance(column, list) for column in columns) or len({*map(len, columns)}) != 1 or not columns[0]:
        raise BadInput(
            f"{path}: input_lens, output_lens and start_times must be lists of one length, one entry a request"
        )
    rows = []
    for i, (prompt, output, start) in enumerate(zip(*columns)):
        where = f"{path}: request {i}"
        arrival = None if start is None else number(f"{where}: start_times", start, 1_000_000_000)
        rows.append(Row(tokens(f"{where}: input_lens", prompt), tokens(f"{where}: output_lens", output), arrival, []))
    return rows


def mooncake_rows(path, records):
    rows = []
    for i, record in enumerate(records):
        where = f"{path}: row {i}"
        if not isinstance(record, dict):
            raise BadInput(f"{where}: expected an object, found {shown(record)}")
        prompt = tokens(f"{where}: input_length", record.get("input_length"))
        output = tokens(f"{where}: output_length", record.get("output_length"))
        arrival = number(f"{where}: timestamp", record.get("timestamp"), 1_000_000)
        names = record.get("hash_ids", [])
        if not isinstance(names, list) or not all(isinstance(name, (int, str)) for name in names):
            raise BadInput(f"{where}: hash_ids: expected a list of names, found {shown(names)}")
        prefix = [(name, min(prompt, (k + 1) * MOONCAKE_BLOCK_TOKENS)) for k, name in enumerate(names)]
        rows.append(Row(prompt, output, arrival, prefix))
    return rows


def csv_rows(path, text, source, positions):
    rows = []
    reader = csv.reader(text.splitlines())
    names = next(reader)
    for i, cells in enumerate(filter(None, cells_of(path, reader))):
        where = f"{path}: row {i} (line {reader.line_num})"
        if len(cells) <= max(positions):
            raise BadInput(f"{where}: expected {len(names)} columns, found {len(cells)}")
        at, prompt, output = (cells[position].strip() for position in positions)
        labels = [f"{where}: {names[position]}" for position in positions]
        arrival = date_ns(labels[0], at) if source == "Azure" else number(labels[0], float_or_text(at), 1_000_000_000)
        rows.append(Row(tokens(labels[1], int_or_text(prompt)), tokens(labels[2], int_or_text(output)), arrival, []))
    return rows


def cells_of(path, reader):
    """The rows of a csv reader; what it cannot read is refused."""
    try:
        yield from reader
    except csv.Error as error:
        raise BadInput(f"{path}: line {reader.line_num}: not CSV that we read: {error}") from None


# --- cells --------------------------------------------------------------------------------------------------------


def tokens(where, value):
    """A count of tokens; 0 is a failed request, which is for the caller to leave out."""
    if type(value) is not int or not 0 <= value <= MOST:
        raise BadInput(f"{where}: expected a whole number from 0 to {MOST:,}, found {shown(value)}")
    return value


def number(where, value, unit_ns):
    """A time in units of so many nanoseconds, as whole nanoseconds."""
    if type(value) not in (int, float) or not math.isfinite(value) or abs(value) > 1e12:
        raise BadInput(f"{where}: expected a time, found {shown(value)}")
    return round(value * unit_ns)


def date_ns(where, text):
    match = DATE.fullmatch(text)
    try:
        day, time, fraction, zone = match.groups()
        moment = datetime.fromisoformat(f"{day}T{time}{'+00:00' if zone in (None, 'Z') else zone}")
    except (AttributeError, ValueError):
        raise BadInput(f"{where}: expected a date and time, found {shown(text)}") from None
    return (moment - EPOCH) // timedelta(seconds=1) * 1_000_000_000 + int((fraction or "").ljust(9, "0"))


def int_or_text(text):
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text


def float_or_text(text):
    try:
        return float(text)
    except ValueError:
        return text
