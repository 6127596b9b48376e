"""Does our paged scheduler decide what vLLM's did, step by step? (Run it as paged.py --replay FILE.)

A recorded case has a name, a config, requests (arrivals in steps) and what was expected: the sha256 of its decisions,
one line a step, `step|request:tokens,...|preempted,...|finished,...|free`, and sometimes the lines themselves. Where a
case differs, the first step that does is shown, ours and theirs; theirs come from the case or from logs/NAME.log(.gz)
beside the file.
"""

import hashlib
import json
import os
from pathlib import Path

from inputs import BadInput, Requests, read_text, shown
from paged import schedule

CONFIG = {"max_num_seqs": int, "max_num_batched_tokens": int, "block_size": int, "kv_blocks": int,
          "prefix_caching": bool, "chunked_prefill": bool, "reserve_full_prompt": bool}
REQUEST = {"arrival_step": int, "prompt_tokens": int, "output_tokens": int}


def load_cases(path):
    """Read and check a list of cases. Raises BadInput or OSError."""
    try:
        cases = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not JSON: {error}") from None
    if not isinstance(cases, list) or not cases:
        raise BadInput(f"{path}: expected a JSON list of recorded cases")
    for number, case in enumerate(cases):
        where = f"{path}: case {number}"
        check(where, case, {"name": str, "config": dict, "requests": list, "expected": dict})
        check(f"{where}: config", case["config"], CONFIG)
        known = "decisions" if "decisions" in case["expected"] else "decisions_sha256"
        check(f"{where}: expected", case["expected"], {known: list if known == "decisions" else str})
        if not all(isinstance(line, str) for line in case["expected"].get("decisions", [])):
            raise BadInput(f"{where}: expected: decisions: expected a list of lines")
        if not case["requests"]:
            raise BadInput(f"{where}: requests is empty")
        for position, request in enumerate(case["requests"]):
            at = f"{where}: request {position}"
            check(at, request, REQUEST)
            if min(request["prompt_tokens"], request["output_tokens"]) < 1 or request["arrival_step"] < 0:
                raise BadInput(f"{at}: expected counts from 1 and an arrival from 0")
            if request.get("prefix_id") is not None:
                check(at, request, {"prefix_tokens": int})
                if not isinstance(request["prefix_id"], (str, int)):
                    raise BadInput(f"{at}: prefix_id: expected a name, found {shown(request['prefix_id'])}")
                if not 0 <= request["prefix_tokens"] <= request["prompt_tokens"]:
                    raise BadInput(f"{at}: prefix_tokens: expected 0 to prompt_tokens, found {request['prefix_tokens']}")
    return cases


def check(where, record, fields):
    if not isinstance(record, dict):
        raise BadInput(f"{where}: expected an object")
    for name, kind in fields.items():
        if type(record.get(name)) is not kind:
            raise BadInput(f"{where}: {name}: expected {kind.__name__}, found {json.dumps(record.get(name))[:40]}")


def decisions(case):
    """Our lines for a case. Raises BadInput where a request could never fit."""
    config, requests, steps = case["config"], case["requests"], []
    prefixes = [[(r["prefix_id"], r["prefix_tokens"])] if r.get("prefix_id") is not None else [] for r in requests]
    schedule(
        Requests([r["prompt_tokens"] for r in requests], [r["output_tokens"] for r in requests]),
        config["max_num_seqs"],
        [r["arrival_step"] for r in requests],
        step_us=lambda chunks, rows, cached: 1,  # the clock counts steps
        kv_blocks=config["kv_blocks"],
        block_size=config["block_size"],
        max_num_batched_tokens=config["max_num_batched_tokens"],
        chunked_prefill=config["chunked_prefill"],
        reserve_full_prompt=config["reserve_full_prompt"],
        prefixes=prefixes if config["prefix_caching"] else None,
        log=steps,
    )
    lines = []
    for step in steps:
        while len(lines) < step.start_us:  # nobody was there
            lines.append(f"{len(lines)}||||{config['kv_blocks']}")
        scheduled = ",".join(f"{position}:{tokens}" for position, tokens in step.scheduled)
        preempted, finished = (",".join(map(str, positions)) for positions in (step.preempted, step.finished))
        lines.append(f"{step.start_us}|{scheduled}|{preempted}|{finished}|{step.free}")
    return lines


def recorded(case, folder):
    """Their lines for a case, or None where only the checksum is known."""
    if "decisions" in case["expected"]:
        return case["expected"]["decisions"]
    for path in (folder / f"{case['name']}.log", folder / f"{case['name']}.log.gz"):
        if os.path.isfile(path):  # False, too, for a name that no file can have
            return read_text(path).splitlines()
    return None


def verdict(case, folder):
    """(does it match?, the line or lines that say so)."""
    name = case["name"].encode("ascii", "backslashreplace").decode("ascii")
    try:
        ours = decisions(case)
    except BadInput as error:
        return False, f"{name}: can never finish: {error}"
    try:
        theirs = recorded(case, folder)
    except (BadInput, OSError) as error:
        return False, f"{name}: its log cannot be read: {error}"
    digest = hashlib.sha256("".join(line + "\n" for line in ours).encode("ascii")).hexdigest()
    if case["expected"].get("decisions_sha256", digest if ours == theirs else None) == digest:
        return True, f"{name}: all {len(ours)} steps match"
    if theirs is None:
        return False, f"{name}: differs; only the checksum is known, not the steps"
    both = zip([*ours, *["(over)"] * len(theirs)], [*theirs, *["(over)"] * len(ours)])
    for ours_line, theirs_line in both:
        if ours_line != theirs_line:
            return False, f"{name}: differs first here\n  ours   {ours_line}\n  theirs {theirs_line}"
    return False, f"{name}: differs from its checksum, but not from the steps recorded beside it"


def replay(path):
    """Replay every case of a file, say what came of each; returns how many differ."""
    path = Path(path)
    cases = load_cases(path)
    differ = 0
    for case in cases:
        same, text = verdict(case, path.parent / "logs")
        differ += not same
        print(text)
    print(f"{len(cases)} cases, {differ} differ")
    return differ
