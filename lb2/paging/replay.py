"""Does our paged scheduler decide what vLLM's did, step by step?  (python3 lb2/paged.py --replay FILE)

A recorded case has a name, the configuration of the server, its requests (arrivals in steps), and
what was recorded: the sha256 of the decisions, one line a step,

    step|request:tokens,...|preempted,...|finished,...|free blocks

and sometimes the lines themselves. Other lines are looked for in logs/NAME.log or .log.gz beside
the file (of an asynchronous case, in logs/async_NAME too). Where a case differs, the first step
that does is shown, ours and theirs.
"""

import hashlib
import os
from collections import deque
from pathlib import Path
from typing import NamedTuple

from common import MOST, BadInput, Requests
from files.inputs import parse_json, read_text, shown
from paging.scheduler import Request, Scheduler, refuse_what_cannot_fit

MOST_TOKENS = 1_000_000  # of all requests of a case; each may be a step of its own
MOST_STEPS = 1_000_000  # before the last arrival
LIMITS = ("max_num_seqs", "kv_blocks", "block_size", "max_num_batched_tokens")
SWITCHES = ("chunked_prefill", "reserve_full_prompt", "prefix_caching")
ASKED = ("prompt_tokens", "output_tokens", "arrival_step", "prefix_id", "prefix_tokens")


class Case(NamedTuple):
    """A recorded case. Of the last two, one may be None."""

    name: str
    asynchronous: bool
    requests: Requests
    arrivals: list  # the step in which each request is there
    prefixes: list  # for each request [(name, tokens)] or []
    max_num_seqs: int
    kv_blocks: int
    block_size: int
    max_num_batched_tokens: int
    chunked_prefill: bool
    reserve_full_prompt: bool
    prefix_caching: bool
    decisions_sha256: str
    decisions: list  # of lines


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
    config, requests, expected = record["config"], record["requests"], record["expected"]
    prompts = [whole(request, "prompt_tokens", 1, MOST_TOKENS) for request in requests]
    outputs = [whole(request, "output_tokens", 1, MOST_TOKENS) for request in requests]
    if not 1 <= sum(prompts) + sum(outputs) <= MOST_TOKENS:
        found = sum(prompts) + sum(outputs)
        raise ValueError(f"expected requests of up to {MOST_TOKENS:,} tokens in all, found {found}")
    arrivals = [whole(request, "arrival_step", 0, MOST_STEPS) for request in requests]
    prefixes = [[] for _ in requests]
    for request, prompt, prefix in zip(requests, prompts, prefixes):
        if request.get("prefix_id") is not None:
            prefix.append((of_type(request, "prefix_id", (str, int)), whole(request, "prefix_tokens", 0, prompt)))
    known = {*LIMITS, *SWITCHES, "async_scheduling", *ASKED}
    for key in (key for given in (config, *requests) for key in given):
        if key not in known:  # a priority, a threshold: it may well have changed what was decided
            raise ValueError(f"this scheduler does not know {shown(key)}")
    limits = [whole(config, key, 1, MOST) for key in LIMITS]
    switches = [of_type(config, key, bool) for key in SWITCHES]
    lines, digest = expected.get("decisions"), expected.get("decisions_sha256")
    if lines is not None and not all(isinstance(line, str) for line in lines):
        raise ValueError(f"decisions: expected a list of lines, found {shown(lines)}")
    if lines is None or digest is not None:
        digest = of_type(expected, "decisions_sha256", str)
    asynchronous = bool(config.get("async_scheduling"))
    return Case(of_type(record, "name", str), asynchronous, Requests(prompts, outputs), arrivals, prefixes,
                *limits, *switches, digest, lines)


def whole(record, key, least, most):
    """A whole number of a record."""
    value = of_type(record, key, int)
    if not least <= value <= most:
        raise ValueError(f"{key}: expected {least} to {most:,}, found {shown(value)}")
    return value


def of_type(record, key, kind):
    """A value of a record that has this type."""
    value = record[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{key}: found {shown(value)}")
    return value


def recorded(case, folder):
    """Their lines for a case, or None where only the checksum is known. Raises BadInput or OSError."""
    if case.decisions is not None:
        return case.decisions
    for name in [f"async_{case.name}", case.name] if case.asynchronous else [case.name]:
        for path in (folder / f"{name}.log", folder / f"{name}.log.gz"):
            if os.path.isfile(path):  # False, too, for a name that no file can have
                return read_text(path).splitlines()
    return None


def decisions(case):
    """What our scheduler decides on a recorded Case: a line a step. Here the clock counts steps. Raises BadInput."""
    requests = case.requests
    refuse_what_cannot_fit(requests, case.max_num_seqs, case.kv_blocks, case.block_size, case.max_num_batched_tokens,
                           case.chunked_prefill)
    scheduler = Scheduler(case.max_num_seqs, case.kv_blocks, case.block_size, case.max_num_batched_tokens,
                          case.chunked_prefill, case.reserve_full_prompt, case.prefix_caching)
    coming = deque(sorted(range(len(case.arrivals)), key=case.arrivals.__getitem__))
    asked = [Request(*request) for request in zip(range(len(coming)), *requests, case.prefixes)]
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
    for our_line, their_line in zip([*ours, *["(over)"] * len(theirs)], [*theirs, *["(over)"] * len(ours)]):
        if our_line != their_line:
            return False, f"{name}: differs first here\n  ours   {our_line}\n  theirs {their_line}"
    return False, f"{name}: differs from its checksum, but not from the steps recorded beside it"


def replay(path):
    """Replay every case of a file and print what came of each. Returns how many differ."""
    path = Path(path)
    cases = load_cases(path)
    differ = 0
    for case in cases:
        same, text = verdict(case, path.parent / "logs")
        differ += not same
        print(text)
    print(f"{len(cases)} cases, {differ} differ")
    return differ
