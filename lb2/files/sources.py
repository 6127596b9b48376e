"""Which requests does a file hold, when did each arrive, and with what does its prompt begin?

    load_trace("azure.csv.gz") -> Trace(requests=..., arrivals_us=[0, 4314489, ...], source="Azure")

files/source_table.py says what is understood. A file is told by its column names or keys, never by its
own name, and may be gzipped. Arrivals count from the first and are put in order. Requests that
failed are left out. A completed request without an output token did cost its prefill and one pass:
it becomes a request of one token. Both are counted and said.
"""

import re
from collections import Counter
from itertools import accumulate, chain
from typing import NamedTuple

from files.arrivals import closed_loop_clients, grid_us, in_order, limits_of, since_first_us
from common import BadInput, MOST, Requests
from files.inputs import BLANK, json_records, read_text, requests_of, shown
from files.readers import check_time, csv_header, csv_rows, is_number, record_rows, run_rows
from files.source_table import GUIDELLM, LAB, SOURCES

BLOCK_TOKENS = (512, 64, 16)  # sizes of the blocks that hash_ids are known to name


class Trace(NamedTuple):
    """n requests in order of arrival, and where they come from."""

    requests: Requests
    arrivals_us: list  # n times from the first on; None: the file has none that could be played
    prefixes: list  # n sequences of (name, tokens), shortest first; None: no two prompts share any
    source: str
    left_out: int = 0  # requests that failed or have no prompt, among those taken
    closed: bool = False  # a closed loop's result: the server made its start times, so none are here
    gaps_s: list = None  # n gaps, where the file has these in place of arrivals
    notes: tuple = ()  # what was left out, counted otherwise or not used, in words

    @property
    def grid_us(self):
        """The step of the grid on which the arrivals lie; None where they lie on none."""
        return grid_us(self.arrivals_us) if self.arrivals_us else None

    def __str__(self):
        over = "" if self.arrivals_us is None else f" over {self.arrivals_us[-1] / 1e6:.1f} s"
        requests = counted(len(self.requests.prompt_tokens), "request", over)
        return "; ".join([f"{requests} ({self.source})", *self.notes])


def counted(number, noun, rest=""):
    """"1 request without a prompt", "2 requests without a prompt"."""
    return f"{number} {noun}{'' if number == 1 else 's'}{rest}"


def load_trace(path, first=None, time_unit=None, timed=True):
    """The Trace in a request file of any source. Raises BadInput or OSError.

    first: take so many requests only. time_unit: s or ms, for files that do not settle it. timed:
    are the arrivals needed? If not, nobody is asked for their unit.
    """
    return parse_trace(path, read_text(path), first, time_unit, timed)


def parse_trace(path, text, first=None, time_unit=None, timed=True):
    """The Trace in a file's text; path is for messages."""
    sources, names, runs = recognised(path, text)
    if sources == [LAB]:
        return lab_trace(path, runs[0] if isinstance(runs[0], list) else list(runs[0]), first)
    tables = [rows_of(place, sources[0], run) for place, run in placed(path, runs)]
    limits = [limits_of(run) for run in runs]
    del text, runs  # a large file is not needed twice
    traces = []
    for rows, limit in zip(tables, limits):
        left = first and first - sum(len(trace.requests.prompt_tokens) for trace in traces)
        if left != 0:
            traces.append(run_trace(path, sources, names, rows, limit, left, time_unit, timed))
    return traces[0] if len(tables) == 1 else joined(traces, len(tables))


# --- which source ---------------------------------------------------------------------------------


def recognised(path, text):
    """([Source, ...], names of its columns or keys, its runs) of a file's text.

    A run: the text of a CSV file, an iterable of records, or a benchmark's object of lists. Several
    sources may have the same keys. They differ in the unit of their times, which `settled` tells.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    start = BLANK.match(text).end()
    if text[start : start + 1] in ("[", "{"):
        return recognised_json(path, text, text[start] == "[")
    if not text[start : start + 1].isprintable():  # a form feed, a line separator: no name of a column begins with it
        raise not_understood(path, text)
    names = set(csv_header(text)[0])
    for source in SOURCES:
        if source.layout == "csv" and names.issuperset(source.sign):
            return [source], names, [text]
    raise not_understood(path, text)


def recognised_json(path, text, is_list):
    """The same for a JSON text. A list without any known key is the lab's own, with a mistake in it."""
    records = json_records(path, text)
    values = iter(records)
    first = next(values, None)
    if first is None:
        raise BadInput(f"{path}: the list of requests is empty")
    records = records if is_list else chain([first], values)
    names = set(first) if isinstance(first, dict) else set()
    if "benchmarks" in names:
        return [GUIDELLM], names, [run for record in records for run in guidellm_runs(path, record)]
    known = [source for source in SOURCES if source.layout != "csv" and names.issuperset(source.sign)]
    if not known and not is_list:
        raise not_understood(path, text)
    known = known or [LAB]
    longest = max(len(source.sign) for source in known)
    sources = [source for source in known if len(source.sign) == longest]
    return sources, names, list(records) if sources[0].layout == "runs" else [records]


def guidellm_runs(path, report):
    """The requests of each benchmark in guidellm's report. Those that did not succeed get an error."""
    runs = []
    try:
        for benchmark in report["benchmarks"]:
            requests = benchmark["requests"]
            failed = [*(requests.get("errored") or []), *(requests.get("incomplete") or [])]
            runs.append([*requests["successful"], *({**record, "error": "failed"} for record in failed)])
    except (TypeError, KeyError, AttributeError):
        raise BadInput(f"{path}: expected benchmarks[].requests.successful[], as guidellm writes them") from None
    if not runs:
        raise BadInput(f"{path}: the list of benchmarks is empty")
    return runs


def placed(path, runs):
    """(what messages call it, a run) of each run in a file."""
    return [(path if len(runs) == 1 else f"{path}: run {number}", run) for number, run in enumerate(runs, start=1)]


def not_understood(path, text):
    start = BLANK.match(text).end()
    began = shown(text[start : start + 60]) if text[start:] else "nothing"
    names = {}
    for source in SOURCES:
        names.setdefault(", ".join(source.sign), []).append(source.name)
    known = "; ".join(f"{sign} ({', '.join(some)})" for sign, some in names.items())
    return BadInput(f"{path}: not a request file. Understood are JSON and CSV with these keys or columns: {known}. "
                    f"This one begins with {began}")


# --- the lab's own format -------------------------------------------------------------------------


def lab_trace(path, records, first):
    """The Trace in the lab's own records. Plain ones, with two counts each, are read fast."""
    requests = requests_of(path, records)
    names = set().union(*records)
    order = range(len(records))
    times_s, gaps_s, prefixes = None, None, None
    if "gap" in names and "arrival_ms" in names:
        raise BadInput(f"{path}: expected a gap or an arrival_ms, found records with both")
    if "arrival_ms" in names:
        times_s = lab_times(path, records)
        order = in_order(times_s)
    if "gap" in names:
        gaps_s = lab_gaps(path, records)
        times_s = list(accumulate(gaps_s))
    if "prefixes" in names:
        prefixes = lab_prefixes(path, records)
    taken = order[:first]
    arrivals_us = times_s and since_first_us(picked(times_s, taken), "ms" if gaps_s is None else "s")
    return Trace(
        Requests(*(picked(column, taken) for column in requests)),
        arrivals_us,
        prefixes and picked(prefixes, taken),
        LAB.name,
        gaps_s=gaps_s and picked(gaps_s, taken),
        notes=() if times_s else unused(names),
    )


def lab_times(path, records):
    """The arrival_ms of all records."""
    for position, record in enumerate(records):
        check_time(f"{path}: record {position}: arrival_ms", record.get("arrival_ms"), "ms")
    return [record["arrival_ms"] for record in records]


def lab_gaps(path, records):
    """The gaps of all records, in seconds."""
    for position, record in enumerate(records):
        where = f"{path}: record {position}"
        if "gap" not in record:
            raise BadInput(f"{where}: gap, the seconds since the arrival before, is missing, found {shown(record)}")
        if not (is_number(record["gap"]) and 0 <= record["gap"] <= MOST):
            raise BadInput(f"{where}: gap: expected seconds from 0 to {MOST:,}, found {shown(record['gap'])}")
    return [record["gap"] for record in records]


def lab_prefixes(path, records):
    """The prefixes that the records name: they grow, and end within the prompt."""
    prefixes = []
    for position, record in enumerate(records):
        given = record.get("prefixes", [])
        try:
            prefix = tuple((name, tokens) for name, tokens in given)
            ends = [0, *(tokens for _, tokens in prefix)]
            known = all(type(name) in (int, str) and type(tokens) is int for name, tokens in prefix)
        except (TypeError, ValueError):
            known = False
        if not known or ends != sorted(set(ends)) or ends[-1] > record["prompt_tokens"]:
            expected = "expected a list of [name, tokens], growing, up to prompt_tokens"
            raise BadInput(f"{path}: record {position}: prefixes: {expected}, found {shown(given)}")
        prefixes.append(prefix)
    return prefixes


# --- all other sources ----------------------------------------------------------------------------


def rows_of(path, source, run, measured=False):
    """The Rows of a run of a source; measured: with TTFTs and gaps between tokens."""
    if source.layout == "csv":
        return csv_rows(path, run, source)
    return (run_rows if source.layout == "runs" else record_rows)(path, run, source, measured)


def run_trace(path, sources, names, rows, limits, first, time_unit, timed):
    """The Trace of one run in a file; limits: those of its client."""
    if not rows.prompts:
        empty = f"{path}: no request in it ({sources[0].name})"
        raise BadInput("; ".join([empty, *left_out_words(rows.left_out)]))
    sizes = [size for size in BLOCK_TOKENS if fits(size, rows)] if any(rows.hashes) else []
    source, unit = settled(path, sources, names, rows, sizes, time_unit, timed)
    order = in_order(rows.times) if rows.times else range(len(rows.prompts))
    taken = order[:first]
    left_out = left_out_among(rows, taken) if first and first <= len(order) else rows.left_out
    outputs, silent_notes = with_a_token(picked(rows.outputs, taken))
    requests = Requests(picked(rows.prompts, taken), outputs)
    arrivals_us, clients, time_notes = arrivals_of(source, names, rows, unit, limits, taken)
    prefixes, prefix_notes = prefixes_of(source, rows, sizes, taken)
    notes = (*left_out_words(left_out), *silent_notes, *time_notes, *prefix_notes)
    return Trace(requests, arrivals_us, prefixes, source.name, len(left_out), clients is not None, notes=notes)


def with_a_token(outputs):
    """(the output tokens, notes): a completed request without a token becomes one of one token."""
    silent = outputs.count(0)
    if not silent:
        return outputs, []
    completed = counted(silent, "completed request")
    return [output or 1 for output in outputs], [f"{completed} without an output token, counted as one token"]


def arrivals_of(source, names, rows, unit, limits, taken):
    """(arrivals in us or None, clients of a closed loop or None, notes)."""
    if not rows.times:
        return None, None, unused(names - {source.arrival})
    clients = closed_loop_clients(rows.times, rows.latencies or [None] * len(rows.times), *limits)
    if clients:
        loop = f"a closed loop of {counted(clients, 'client')}"
        return None, clients, [f"{loop}, whose start times are the server's doing: not used"]
    if unit is None:
        return None, None, [f"{source.arrival} is in ms or in s, and nothing in the file tells which: not used"]
    return since_first_us(picked(rows.times, taken), unit), None, []


def prefixes_of(source, rows, sizes, taken):
    """(prefixes or None, notes)."""
    if not any(rows.hashes):
        return None, []
    if not sizes:
        known = ", ".join(map(str, BLOCK_TOKENS))
        return None, [f"{source.hashes} fit no blocks of {known} tokens: not used"]
    blocks = f"{source.hashes} name blocks of {sizes[0]} tokens"
    prefixes = shared_prefixes(picked(rows.prompts, taken), picked(rows.hashes, taken), sizes[0])
    if not any(prefixes):
        return None, [f"{blocks}, and no two prompts begin with the same one"]
    return prefixes, [f"{blocks}, and prompts share some"]


def joined(traces, runs):
    """The Trace of several runs in a file: the lengths only, since their arrivals do not follow each other."""
    requests = Requests(*(list(chain(*columns)) for columns in zip(*(trace.requests for trace in traces))))
    notes = [f"{runs} runs in one file: when their requests arrived is not used"]
    notes += [f"run {number}: {note}" for number, trace in enumerate(traces, start=1) for note in trace.notes]
    return Trace(requests, None, None, traces[0].source, sum(trace.left_out for trace in traces),
                 any(trace.closed for trace in traces), notes=tuple(notes))


def unused(names):
    """A note for each column that looks like an arrival and is not used."""
    times = [name for name in sorted(names) if re.search("arriv|timestamp|start_time", name, re.IGNORECASE)]
    return tuple(f"{shown(name)} is not used" for name in times)


REASONS = {
    "failed": ("failed request", ""),
    "promptless": ("request", " without a prompt"),
    "unended": ("last line", " without a line end, where the file may be cut off,"),
}


def left_out_words(left_out):
    """[(rows before it, time, why), ...] in words."""
    reasons = Counter(why for *_, why in left_out)
    return [f"{counted(reasons[why], *words)} left out" for why, words in REASONS.items() if reasons[why]]


def left_out_among(rows, taken):
    """Those of the requests left out that came before the last one taken."""
    if not rows.times:
        return [one for one in rows.left_out if one[0] <= taken[-1]]
    last = rows.times[taken[-1]]
    return [one for one in rows.left_out if (one[0] <= taken[-1] if one[1] is None else one[1] <= last)]


def picked(column, positions):
    """The entries of a column at these positions; the column itself if these are all."""
    if isinstance(positions, range):
        return column if len(positions) == len(column) else column[: len(positions)]
    return [column[i] for i in positions]


# --- the unit of time -----------------------------------------------------------------------------


def settled(path, sources, names, rows, sizes, time_unit, timed):
    """(Source, unit of its times) among sources with the same keys. Raises BadInput to ask for it.

    Three things tell a source: a key that no other has, the size of the blocks that hash_ids name,
    and fractions in times that others write as whole numbers. If they disagree, nothing is settled.
    sizes: the sizes of blocks that fit.
    """
    if len(sources) == 1:
        return sources[0], sources[0].unit
    fractions = any(time != int(time) for time in rows.times)
    told = [
        source for source in sources
        if names.intersection(source.companions) or sizes == [source.block_tokens] or (source.fractions and fractions)
    ]
    units = {time_unit} if time_unit else {source.unit for source in told}
    if len(units) == 1:
        unit = units.pop()
        return next(source for source in [*told, *sources] if source.unit == unit), unit
    if len(set(rows.times)) < 2:
        return sources[0], sources[0].unit  # no unit changes anything
    if timed:
        raise BadInput(f"{path}: {sources[0].arrival}: nothing in the file settles whether it is in ms or in s: "
                       "say --time-unit ms or --time-unit s")
    return sources[0], None


def fits(size, rows):
    """Do all hash_ids name blocks of this size? A short block at the end may have a name or none."""
    return all(
        len(names) in (prompt // size, -(-prompt // size)) for prompt, names in zip(rows.prompts, rows.hashes) if names
    )


# --- prefixes -------------------------------------------------------------------------------------


def shared_prefixes(prompts, hashes, block_tokens):
    """n tuples of (name, tokens), shortest first: what each prompt has in common with others.

    hashes: the names of its blocks. Blocks that only one prompt has are left out. Of blocks that
    always come together only the last is kept. A name means a block and all that is before it.
    """
    seen, shared = set(), set()
    for names in hashes:
        shared |= seen.intersection(names)
        seen.update(names)
    pieces = {}  # (the piece before, name of a block) -> number of the piece
    paths = []
    for names in hashes:
        piece, path = 0, []
        for name in names:
            if name not in shared:
                break
            piece = pieces.setdefault((piece, name), len(pieces) + 1)
            path.append(piece)
        paths.append(path)
    uses = Counter(chain.from_iterable(paths))
    known, prefixes = {}, []
    for prompt, path in zip(prompts, paths):
        pairs = []
        for i, piece in enumerate(path):
            if uses[piece] > 1 and (i + 1 == len(path) or uses[path[i + 1]] < uses[piece]):
                pair = (piece, min(prompt, (i + 1) * block_tokens))
                pairs.append(known.setdefault(pair, pair))
        prefixes.append(tuple(pairs))
    return prefixes
