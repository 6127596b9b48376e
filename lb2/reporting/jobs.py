"""Which scripts does a report run, with which options, on which bytes?

    jobs_of(inputs, 200.0) -> {"tune": [[python, "tune.py", ...], [python, "pictures.py", ...]], ...}

A job is a script and then the script that draws its pictures. The inputs are copied once into a
folder of the run, so that every part sees the same bytes, a pipe can be an input, and no message
names a folder of the reader's machine.
"""

import sys
from typing import NamedTuple

from common import BadInput, LAB, REQUESTS_FILE
from running.options import same_file
from files.costs import Costs, load_costs
from roofline.workload import load_workload
from files.sources import load_trace

MINE, RECORDS, FIXED = "mine", "records", "fixed"  # which requests a script takes: ours, the second lab's, none
SCRIPTS = {  # in the order of the page: whose requests, and the pictures
    "static": (MINE, ["steps.svg", "slots.svg"]),
    "continuous": (MINE, []),
    "compare": (MINE, []),
    "maxseqs": (MINE, []),
    "queueing": (MINE, ["queue.svg"]),
    "cost": (MINE, []),
    "tune": (MINE, ["tune.svg", "ttft.svg"]),
    "paged_preemption": (MINE, ["preemption.svg"]),
    "paged_prefix": (MINE, ["prefix.svg"]),
    "paged_chunked": (MINE, ["chunked.svg"]),
    "orca_waste": (RECORDS, ["waste.svg"]),
    "orca_curves": (RECORDS, ["orca_curves.svg"]),
    "orca_homogeneous": (RECORDS, []),
    "orca_reservation": (RECORDS, ["orca_reservation.svg", "deadlock.svg"]),
    "measured": (FIXED, ["clocked.svg", "measured.svg"]),
}
LONGEST = ["plan", "tune", "paged_chunked", "paged_prefix", "paged_preemption"]  # are started first
GIVEN, MADE = "given", "made"  # folders of a run: where the scripts start, and where their files go


class Inputs(NamedTuple):
    """What a report is about."""

    name: str  # of the request file
    trace: object  # sources.Trace
    costs: Costs
    options: dict  # kind of requests: the options that say so
    recorded: str  # why the second lab's part is about recorded requests; "" if it is not


def copied(path, copy, read):
    """What read(copy) returns after the bytes are copied; its complaints name the original."""
    copy.write_bytes(path.read_bytes())
    try:
        return read(copy)
    except BadInput as error:
        raise BadInput(str(error).replace(str(copy), str(path))) from None


def inputs_of(args, folder):
    """Copy and check the inputs of a run in this folder. Raises BadInput or OSError."""
    for name in (GIVEN, MADE):
        (folder / name).mkdir()
    costs, priced = Costs(), []
    if args.costs:
        costs = copied(args.costs, folder / "costs.txt", load_costs)
        priced = ["--costs=../costs.txt"]
    first = [] if args.first is None else [f"--first={args.first}"]
    if same_file(args.requests, REQUESTS_FILE):
        options = {MINE: [*first, *priced], RECORDS: [], FIXED: []}
        trace, recorded = load_trace(args.requests, args.first), "The second lab's recorded requests"
        return Inputs(args.requests.name, trace, costs, options, recorded)
    copy = folder / GIVEN / args.requests.name
    trace = copied(args.requests, copy, lambda path: load_trace(path, args.first))
    lengths, recorded = [f"--requests={copy.name}", *first], ""
    try:
        load_workload(copy, args.first)
    except BadInput as error:
        why = str(error).replace(f"{copy}: ", "").split(", found ")[0]
        recorded = f"Recorded requests, not yours ({why})"
    options = {MINE: [*lengths, *priced], RECORDS: [] if recorded else lengths, FIXED: []}
    return Inputs(copy.name, trace, costs, options, recorded)


def jobs_of(inputs, target_ms):
    """{script: its commands, to be run in GIVEN}, those that take long first."""
    jobs = {}
    out, target = f"--out=../{MADE}", f"--target-ttft-ms={target_ms:.12g}"
    for name, (kind, pictures) in SCRIPTS.items():
        more = [target] if name == "tune" else []
        jobs[name] = [[sys.executable, str(LAB / f"{name}.py"), out, *inputs.options[kind], *more]]
        if pictures:
            jobs[name].append([sys.executable, str(LAB / "pictures.py"), out, f"--results=../{MADE}", target,
                               *inputs.options[kind], "--only", *pictures])
    if inputs.trace.arrivals_us:
        jobs["plan"] = [[sys.executable, str(LAB / "plan.py"), out, *inputs.options[MINE], target]]
    return {name: jobs[name] for name in dict.fromkeys([*LONGEST, *SCRIPTS]) if name in jobs}


def badge_of(name, inputs):
    """What a section is about, if it is not the reader's requests."""
    kind, _ = SCRIPTS[name]
    return {MINE: "", RECORDS: inputs.recorded, FIXED: "Recorded runs of real servers, not yours"}[kind]
