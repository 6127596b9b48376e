"""Does our paged scheduler decide what vLLM decided, step by step?

It replays recorded cases. A case has a name, the configuration of the server, its requests
(arrivals in steps), and what vLLM's own scheduler decided: the sha256 of one line a step,

    step|request:tokens,...|preempted,...|finished,...|free blocks

and sometimes the lines themselves. Other lines are looked for in logs/NAME.log or .log.gz beside
the file. Where a case differs, the first step that does is shown, ours and theirs.
paging/scheduler.py decides, and says what a step is. It ignores time.

    python3 lb2/paged.py --replay fixtures/vllm/cases.json        writes nothing; a line a case
"""

import argparse
import hashlib
import os
import sys
from collections import deque
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from common import LAB, MOST, BadInput, Requests, run
from files.inputs import parse_json, read_text, shown
from paging.scheduler import Request, Scheduler, refuse_what_cannot_fit

CASES_FILE = LAB.parent / "fixtures" / "vllm" / "cases.json"
MOST_TOKENS = 1_000_000  # of all requests of a case; each may be a step of its own
CONFIG = {  # key: its type, or the least and most of a whole number
    "max_num_seqs": (1, MOST), "kv_blocks": (1, MOST), "block_size": (1, MOST), "max_num_batched_tokens": (1, MOST),
    "chunked_prefill": bool, "reserve_full_prompt": bool, "prefix_caching": bool,
}
REQUEST = {"prompt_tokens": (1, MOST_TOKENS), "output_tokens": (1, MOST_TOKENS), "arrival_step": (0, 1_000_000)}


class Case(NamedTuple):
    """A recorded case. Of the last two, one may be None."""

    name: str
    asynchronous: bool
    requests: Requests
    arrivals: list  # the step in which each request is there
    prefixes: list  # for each request [(name, tokens)] or []
    config: dict  # the keys of CONFIG, which are arguments of Scheduler
    decisions_sha256: str
    decisions: list  # of lines


# --- in -------------------------------------------------------------------------------------------


def load_cases(path):
    """The recorded cases of a file. Raises BadInput or OSError."""
    records = parse_json(path, read_text(path))
    if not isinstance(records, list) or not records:
        raise BadInput(f"{path}: expected a JSON list of recorded cases, found {shown(records)}")
    cases = []
    for number, record in enumerate(records):
        try:
            cases.append(case_of(record))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else error
            raise BadInput(f"{path}: case {number}: not as it is recorded: {what}") from None
    return cases


def case_of(record):
    """The Case in a JSON record. Raises whatever a wrong one leads to."""
    config, expected = record["config"], record["expected"]
    limits = checked(config, CONFIG, ["async_scheduling"])
    rows, prefixes = [], []
    for request in record["requests"]:
        rows.append(checked(request, REQUEST, ["prefix_id", "prefix_tokens"]).values())
        named = {"prefix_id": (str, int), "prefix_tokens": (0, request["prompt_tokens"])}
        begins = request.get("prefix_id") is not None
        prefixes.append([tuple(checked(request, named, REQUEST).values())] if begins else [])
    prompts, outputs, arrivals = map(list, zip(*rows)) if rows else ([], [], [])
    found = sum(prompts) + sum(outputs)
    if not 1 <= found <= MOST_TOKENS:
        raise ValueError(f"expected requests of up to {MOST_TOKENS:,} tokens in all, found {found}")
    lines, digest = expected.get("decisions"), expected.get("decisions_sha256")
    if lines is not None and not all(isinstance(line, str) for line in lines):
        raise ValueError(f"decisions: expected a list of lines, found {shown(lines)}")
    if lines is None or digest is not None:
        digest = value_of(expected, "decisions_sha256", str)
    return Case(value_of(record, "name", str), bool(config.get("async_scheduling")), Requests(prompts, outputs),
                arrivals, prefixes, limits, digest, lines)


def checked(record, kinds, also):
    """{key: value} of a record by a table of kinds. Only the keys in also may stand beside them."""
    for key in record:
        if key not in kinds and key not in also:  # a priority, a threshold: it may well have changed what was decided
            raise ValueError(f"this scheduler does not know {shown(key)}")
    return {key: value_of(record, key, kind) for key, kind in kinds.items()}


def value_of(record, key, kind):
    """A value of a record: of this type or one of these, or a whole number from least to most."""
    value = record[key]
    ranged = isinstance(kind, tuple) and isinstance(kind[0], int)
    if not isinstance(value, int if ranged else kind) or isinstance(value, bool) and kind is not bool:
        raise ValueError(f"{key}: found {shown(value)}")
    if ranged and not kind[0] <= value <= kind[1]:
        raise ValueError(f"{key}: expected {kind[0]} to {kind[1]:,}, found {shown(value)}")
    return value


def recorded(case, folder):
    """Their lines for a case, or None where only the checksum is known. Raises BadInput or OSError."""
    for path in (folder / f"{case.name}.log", folder / f"{case.name}.log.gz"):
        if case.decisions is None and os.path.isfile(path):  # False, too, for a name that no file can have
            return read_text(path).splitlines()
    return case.decisions


# --- the replay -----------------------------------------------------------------------------------


def decisions(case):
    """What our scheduler decides on a recorded Case: a line a step. Here the clock counts steps. Raises BadInput."""
    later = ("reserve_full_prompt", "prefix_caching")
    refuse_what_cannot_fit(case.requests, **{key: value for key, value in case.config.items() if key not in later})
    scheduler = Scheduler(**case.config)
    coming = deque(sorted(range(len(case.arrivals)), key=case.arrivals.__getitem__))
    asked = [Request(*request) for request in zip(range(len(coming)), *case.requests, case.prefixes)]
    in_flight, lines = deque(), []
    while coming or scheduler.waiting or scheduler.running:
        while coming and case.arrivals[coming[0]] <= len(lines) + len(in_flight):
            scheduler.waiting.append(asked[coming.popleft()])
        in_flight.append(scheduler.schedule())
        if len(in_flight) > case.asynchronous:
            lines.append(line(len(lines), in_flight[0], scheduler.update(in_flight.popleft())))
    return lines + [line(len(lines), step, []) for step in in_flight]


def line(number, step, finished):
    """One Step as a log has it: step|request:tokens,...|preempted,...|finished,...|free blocks."""
    scheduled = ",".join(f"{chunk.request.position}:{chunk.tokens}" for chunk in step.chunks)
    preempted, ended = (",".join(map(str, positions)) for positions in (step.preempted, finished))
    return f"{number}|{scheduled}|{preempted}|{ended}|{step.free}"


def verdict(case, folder):
    """(does it match?, the line or lines that say so)."""
    name = case.name.encode("ascii", "backslashreplace").decode("ascii")
    try:
        ours = decisions(case)
    except BadInput as error:
        return False, f"{name}: can never finish: {error}"
    try:
        theirs = recorded(case, folder)
    except (BadInput, OSError) as error:
        return False, f"{name}: its log cannot be read: {error}"
    digest = hashlib.sha256("".join(line + "\n" for line in ours).encode("ascii")).hexdigest()
    if digest == case.decisions_sha256 or (case.decisions_sha256 is None and ours == theirs):
        return True, f"{name}: all {len(ours)} steps match"
    if theirs is None:
        return False, f"{name}: differs; only the checksum is known, not the steps"
    for our_line, their_line in zip_longest(ours, theirs, fillvalue="(over)"):
        if our_line != their_line:
            return False, f"{name}: differs first here\n  ours   {our_line}\n  theirs {their_line}"
    return False, f"{name}: differs from its checksum, but not from the steps recorded beside it"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replay", type=Path, default=CASES_FILE, metavar="FILE",
                        help="recorded cases, logs/NAME.log.gz beside them (default: fixtures/vllm/cases.json)")
    path = parser.parse_args().replay
    cases = load_cases(path)
    differ = 0
    for case in cases:
        same, text = verdict(case, path.parent / "logs")
        differ += not same
        print(text)
    print(f"{len(cases)} cases, {differ} differ")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    run(main)
