"""Which requests does a file hold, when did each arrive, and with what does its prompt begin?

    load_trace("azure.csv.gz") -> Trace(requests=..., arrivals_us=[0, 4314489, ...], source="Azure")

files/source_table.py says what is understood. A file is told by its column names or keys, never by its
own name, and may be gzipped. Arrivals count from the first and are put in order. Requests that
failed are left out. A completed request without an output token did cost its prefill and one pass:
it becomes a request of one token. Both are counted and said.
"""

import re
from collections import Counter
from functools import partial
from itertools import accumulate, chain, islice
from operator import sub
from typing import NamedTuple

from common import BadInput, MOST, Requests
from files.arrivals import (AT_ONCE, ENDLESS_RPS, UNITS, clocks_back, closed_loop_clients, epoch_unit, grid_us,
                            in_order, limits_of, most_under_way, over_limit, since_first_us)
from files.inputs import BLANK, counted, json_records, read_text, shown
from files.prefixes import block_size, shared_prefixes
from files.readers import (FIELDS, csv_blocks, csv_header, csv_place, keys_in, record_blocks, rows_of, run_block,
                           silent_fails)
from files.source_table import BY_ARRIVAL, GUIDELLM, NO_REQUESTS, SOURCES, named

DELAY = "delay"  # a session's turn says how long after the answer before it is due
FIRST = 100  # records whose keys tell a source: a request that failed may lack some
MOST_US = 10**18  # between two arrivals. More is a typing error


class Trace(NamedTuple):
    """n requests in order of arrival, and where they come from."""

    requests: Requests
    arrivals_us: list  # n times from the first on; None: the file has none that could be played
    prefixes: list  # n sequences of (name, tokens), shortest first; None: no two prompts share any
    source: str
    left_out: int  # requests that failed or have no prompt, among those taken
    closed: bool  # a closed loop's result: the server made its start times, so none are here
    gaps_s: list  # n gaps, where the file has these in place of arrivals
    notes: tuple  # what was left out, counted otherwise or not used, in words

    @property
    def grid_us(self):
        """The step of the grid on which the arrivals lie; None where they lie on none."""
        return grid_us(self.arrivals_us) if self.arrivals_us else None

    def __str__(self):
        over = "" if self.arrivals_us is None else f" over {self.arrivals_us[-1] / 1e6:.1f} s"
        requests = counted(len(self.requests.prompt_tokens), "request", over)
        return "; ".join([f"{requests} ({self.source})", *self.notes])


class Found(NamedTuple):
    """What a file turned out to be."""

    sources: list  # Sources that have the same keys, with the one place that the file has of each field
    names: set  # its columns or keys
    runs: list  # (what messages call it, the text of a CSV file, an iterable of records, or an object of lists)


def load_trace(path, first=None, time_unit=None, timed=True, columns=None):
    """The Trace in a request file of any source. Raises BadInput or OSError.

    first: take so many requests only. time_unit: s or ms, for files that do not settle it. timed:
    are the arrivals needed? If not, nobody is asked for their unit. columns: what --columns says.
    """
    found, traces = recognised(path, read_text(path), columns), []
    for where, run in found.runs:
        left = first and first - sum(len(trace.requests.prompt_tokens) for trace in traces)
        if left != 0:
            traces.append(trace_of(where, found, run, left, time_unit, timed))
    return traces[0] if len(found.runs) == 1 else joined(traces, len(found.runs))


def rows_in(where, source, run):
    """The Rows of a run of a source."""
    names = {field: name for field in FIELDS if (name := getattr(source, field))}
    cut = False
    if isinstance(run, str):
        end = run.rfind("\n") + 1
        cut = 0 < end < len(run) and csv_header(run)[0][-1] in names.values()  # perhaps in the middle of a number
        run = run[:end] if cut else run
        place, blocks = partial(csv_place, where, run), csv_blocks(where, run, names)
    elif source.layout == "runs":
        place, blocks = partial("{}: request {}".format, where), [run_block(where, run, source, names)]
        source = source._replace(silent_fails=silent_fails(run, source))
    else:
        place = partial("{}: record {}".format, where)
        blocks = record_blocks(place, run, names)
    rows = rows_of(source, place, blocks)
    if cut:
        rows.left_out.append((len(rows.prompts), "unended"))
    if None in rows.times and not source.session:
        at = rows.times.index(None)
        at += sum(before <= at for before, _ in rows.left_out)
        raise BadInput(f"{place(at)}: {source.arrival}: expected a time, as others have, found null or nothing")
    return rows


# --- which source ---------------------------------------------------------------------------------


def recognised(path, text, columns=None):
    """The Found of a file's text. columns: what --columns says. Raises BadInput.

    Several sources may have the same keys. They differ in the unit of their times, which `settled` tells.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    start = BLANK.match(text).end()
    if text[start : start + 1] in ("[", "{"):
        form, records = "JSON", json_records(path, text)
        heads = list(islice(records, FIRST))
        if not heads:
            raise BadInput(f"{path}: the list of requests is empty")
        runs, names = [records if isinstance(records, list) else chain(heads, records)], names_in(heads)
    else:
        form, heads, runs = "CSV", [], [text]
        names = set(csv_header(text)[0]) if text[start : start + 1].isprintable() else set()
    sources = told_by(names, form, columns)
    if "benchmarks" in names and heads:
        runs = [run for record in runs[0] for run in guidellm_runs(path, record)]
        names = names_in([record for run in runs for record in run[:FIRST]])
        sources = [located(GUIDELLM, names)]
    elif not sources and len(heads) == 1 and names:  # {"data": [...]}
        for inside in heads[0].values():
            inner = names_in(inside[:FIRST]) if isinstance(inside, list) else set()
            if told := told_by(inner, form, columns):
                sources, runs, names = told, [inside], inner
    if not sources:
        raise not_understood(path, text, names, form, columns)
    runs = list(runs[0]) if sources[0].layout == "runs" else runs
    places = [path] if len(runs) == 1 else [f"{path}: run {number}" for number in range(1, len(runs) + 1)]
    return Found(sources, names, list(zip(places, runs)))


def names_in(records):
    return {name for record in records for name in keys_in(record)}


def told_by(names, form, columns):
    """The Sources whose signs are among these names, the longest sign first; those that --columns names."""
    candidates = [named(columns)] if columns else (*SOURCES, *BY_ARRIVAL)
    known = [source for source in candidates if has(names, source.sign) and (form == "JSON" or source.layout == "rows")]
    best = max(known, key=lambda source: len(source.sign), default=None)
    return [located(source, names) for source in known if source.sign == best.sign]


def has(names, sign):
    """Is each of the signs, a or "a|b", among the names?"""
    return all(any(one in names for one in part.split("|")) for part in sign)


def located(source, names):
    """The Source with the first of several places that the file has of each field."""
    places = {}
    for field in FIELDS:
        several = getattr(source, field).split("|")
        places[field] = next((one for one in several if one in names), several[0])
    return source._replace(**places | ({} if has(names, [source.session]) else {"session": ""}))


def guidellm_runs(path, report):
    """The requests of each benchmark in guidellm's report. Those that did not succeed get an error."""
    runs = []
    try:
        for benchmark in report["benchmarks"] or [{}]:  # an empty list is none
            requests = benchmark["requests"]
            failed = [*(requests.get("errored") or []), *(requests.get("incomplete") or [])]
            runs.append([*requests["successful"], *({**record, "error": "failed"} for record in failed)])
    except (TypeError, KeyError, AttributeError):
        raise BadInput(f"{path}: expected benchmarks[].requests.successful[], as guidellm writes them") from None
    return runs


def not_understood(path, text, names, form, columns):
    """What a file is that holds no requests, or whose names we do not know, and what to do."""
    if columns:
        unknown = next(name for name in named(columns).sign if name not in names)[:40]
        return BadInput(f"{path}: --columns: there is no {unknown} in it, but {listed(names) or 'no names'}")
    names = names.union(re.findall(r"^[a-z]+:$", text[:1000], re.MULTILINE))  # YAML
    for forms, sign, words in NO_REQUESTS:
        if form in forms and has(names, sign):
            return BadInput(f"{path}: {words}")
    start = BLANK.match(text).end()
    began = shown(text[start : start + 60]) if text[start:] else "nothing"
    columns = f" (it has {listed(names)})" if len(names) > 1 else ""
    return BadInput(f"{path}: not a request file that we know: it begins with {began}. Name its columns{columns}: "
                    "--columns prompt=NAME output=NAME arrival=NAME unit=s. Or write "
                    '[{"prompt_tokens": 140, "output_tokens": 294, "arrival_ms": 0}]. '
                    f"Known are {', '.join(source.name for source in SOURCES)}")


def listed(names):
    """The names of columns, or of keys that hold no object, as far as a line can hold them."""
    ends = (name for name in sorted(names) if not any(other.startswith(f"{name}.") for other in names))
    return ", ".join(name if name.isprintable() else shown(name) for name in ends)[:200]


# --- a run ----------------------------------------------------------------------------------------


def trace_of(path, found, run, first, time_unit, timed):
    """The Trace of one run in a file."""
    source = found.sources[0]
    rows = rows_in(path, source, run)
    if not rows.prompts:
        raise BadInput("; ".join([f"{path}: no request in it ({source.name})", *left_out_words(rows.left_out, source)]))
    turns = turns_of(found.sources, rows)
    if turns:
        rows = rows._replace(times=[])
    gaps_s = rows.times if source.arrival == "gap" else None
    for at, gap in enumerate(gaps_s or ()):
        if not 0 <= gap <= MOST:
            raise BadInput(f"{path}: record {at}: gap: expected seconds from 0 to {MOST:,}, found {shown(gap)}")
    if gaps_s:
        times = list(accumulate(gaps_s))
        rows = rows._replace(times=times, sent=times)
    named_blocks = any(rows.hashes) and source.block_tokens is not None
    block_tokens = block_size(rows.prompts, rows.hashes) if named_blocks else None
    source, unit = settled(path, found, rows, block_tokens, time_unit, timed)
    times, closed, notes = ([], False, turns) if turns else played(source, rows, unit, limits_of(run), found.names)
    order = in_order(times) if times else range(len(rows.prompts))
    taken = order[:first]
    last = max(taken) if first and first <= len(order) else len(order)
    left_out = [one for one in rows.left_out if one[0] <= last]
    prompts, outputs, prefixes = (picked(column, taken) for column in (rows.prompts, rows.outputs, rows.hashes))
    if 0 in outputs:
        silent = counted(outputs.count(0), "completed request")
        notes = [f"{silent} without an output token, counted as one token", *notes]
        outputs = [output or 1 for output in outputs]
    if named_blocks:
        prefixes, note = prefixes_of(source, prompts, prefixes, block_tokens)
        notes.append(note)
    if any(rows.cached):
        share = sum(picked(rows.cached, taken)) / sum(prompts)
        notes.append(f"its server had {share:.0%} of the prompt tokens in its cache, and here all are computed")
    arrivals_us = since_first_us(picked(times, taken), unit) if times else None
    if arrivals_us and arrivals_us[-1] > MOST_US:
        raise BadInput(f"{path}: {source.arrival}: expected times up to {MOST_US / 1e6:,.0f} s apart, found more")
    return Trace(Requests(prompts, outputs), arrivals_us, prefixes if any(prefixes or ()) else None, source.name,
                 len(left_out), closed, gaps_s and picked(gaps_s, taken), (*left_out_words(left_out, source), *notes))


def prefixes_of(source, prompts, hashes, block_tokens):
    """(What prompts share by their hash_ids, or None; a note)."""
    if not block_tokens:
        return None, f"{source.hashes} do not tell how many tokens are in a block: not used"
    prefixes = shared_prefixes(prompts, hashes, block_tokens)
    what = "and prompts share some" if any(prefixes) else "and no two prompts begin with the same one"
    return prefixes, f"{source.hashes} name blocks of {block_tokens} tokens, {what}"


def joined(traces, runs):
    """The Trace of several runs in a file: the lengths only, since their arrivals do not follow each other."""
    requests = Requests(*(list(chain(*columns)) for columns in zip(*(trace.requests for trace in traces))))
    notes = [f"{runs} runs in one file: when their requests arrived is not used"]
    notes += [f"run {number}: {note}" for number, trace in enumerate(traces, start=1) for note in trace.notes]
    left_out, closed = sum(trace.left_out for trace in traces), any(trace.closed for trace in traces)
    return Trace(requests, None, None, traces[0].source, left_out, closed, None, tuple(notes))


REASONS = {
    "failed": ("failed request", ""),
    "cached": ("request", " that the gateway answered from its own cache"),
    "promptless": ("request", " without a prompt"),
    "unended": ("last line", " without a line end, where the file may be cut off,"),
}


def left_out_words(left_out, source):
    """[(rows before it, why), ...] in words."""
    reasons = Counter(why for _, why in left_out)
    words = REASONS | {"other": source.counts[1:]}
    return [f"{counted(reasons[why], *words[why])} left out" for why in words if reasons[why]]


def picked(column, positions):
    """The entries of a column at these positions; the column itself if these are all, or it is empty."""
    if isinstance(positions, range) or not column:
        return column if len(positions) >= len(column) else column[: len(positions)]
    return [column[i] for i in positions]


# --- arrivals -------------------------------------------------------------------------------------


def settled(path, found, rows, block_tokens=None, time_unit=None, timed=True):
    """(Source, unit of its times) among sources with the same keys. Raises BadInput to ask for it.

    A key that no other source has tells a source, and the size of the blocks that hash_ids name. The
    size of its numbers tells a time since 1970. If they disagree, nothing is settled.
    """
    told = [one for one in found.sources
            if found.names.intersection(one.companions) or block_tokens and one.block_tokens == block_tokens]
    source, times = (told or found.sources[-1:])[0], rows.times
    if "date" in rows.forms:
        return source, "date"
    epoch = epoch_unit(min(times), max(times)) if times else None
    if source.unit == "date" and times and not epoch:
        raise BadInput(f"{path}: {source.arrival}: expected a date and time, found {shown(times[0])}")
    if len(found.sources) == 1 and source.unit not in ("", "date"):
        return source, epoch if epoch in ("ms", "us", "ns") else source.unit
    units = {time_unit} if time_unit else {epoch} if epoch else {one.unit for one in told}
    if len(units) == 1:
        unit = units.pop()
        return next((one for one in told if one.unit == unit), source), unit
    if timed and len(set(times)) > 1:
        raise BadInput(f"{path}: {source.arrival}: nothing in the file settles its unit: say --time-unit ms or "
                       "--time-unit s")
    return source, None if len(set(times)) > 1 else source.unit or "s"  # at one moment, no unit changes anything


def turns_of(sources, rows):
    """[a note] if requests are turns that wait for each other's answers: then no arrival is known."""
    sessions = Counter(str(session) for session in rows.sessions if session is not None)
    if None not in rows.times and len(sessions) == sum(sessions.values()):
        return []
    known, unit = [time for time in rows.times if time is not None], sources[0].unit
    over = f", over {(max(known) - min(known)) / UNITS[unit]:.1f} s," if known and len(sources) == 1 else ""
    turns = f"turns of {counted(len(sessions), 'session')}" if sources[0].session != DELAY else "turns of sessions"
    return [f"{turns}: their arrivals{over} depend on the answers before them, and are not used"]


def played(source, rows, unit, limits, names):
    """(when requests are due, or [] if that cannot be played; is it a closed loop; notes)."""
    due, sent, (limit, rate, _) = rows.times, rows.sent, limits
    latencies = rows.latencies or [None] * len(rows.prompts)
    if due and unit is None:
        return [], False, [f"{source.arrival}: nothing in the file tells its unit: not used"]
    clients = closed_loop_clients(sent, latencies, *limits) if due or limit else None
    late = max(map(sub, sent, due)) if sent is not due else 0
    longest = max((latency for latency in latencies if latency is not None), default=0)
    held = late > AT_ONCE * longest and late > 0
    if clients and not (held and max(due) - min(due) > AT_ONCE * (max(sent) - min(sent))):  # else a rate was kept
        asked = f", too few for its rate of {rate:g} requests/s" if due and rate and rate < ENDLESS_RPS else ""
        ours = ", whose start times are the server's doing: not used" if due else ""
        return [], True, [f"a closed loop of {counted(clients, 'client')}{asked}{ours}"]
    if not due:
        return [], False, unused(names - {source.arrival})
    if held:
        late_s = late / UNITS[unit]
        return due, False, [f"some were sent up to {late_s:.1f} s after they were due: taken when they were due"]
    if limit and None not in latencies and over_limit(sent, latencies, limit):
        return [], False, [f"more than its client's limit of {limit} would have been under way: start times not used"]
    if limit and None not in latencies and most_under_way(sent, latencies) >= limit:
        return due, False, [f"the client's limit of {limit} was reached: some were sent later than they were due"]
    back = clocks_back(due, unit) if rows.forms == {"date"} else []
    if back:
        hours = accumulate(i in back for i in range(len(due)))
        times = [time + hour * 3600 * UNITS[unit] for time, hour in zip(due, hours)]
        return times, False, [f"times step back by an hour before row {back[0]}, as clocks do in autumn: an hour is "
                              "added from there on"]
    return due, False, []


def unused(names):
    """A note for each column that looks like an arrival and is not used."""
    looks = re.compile("[^.]*(arriv|timestamp|start_time)[^.]*", re.IGNORECASE)
    return [f"{shown(name)} is not used" for name in sorted(names) if looks.fullmatch(name)]
