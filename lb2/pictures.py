"""What does each lesson of the labs look like?

Draws the numbers that the scripts write: the same functions, the same settings. Blue is what one
hopes for and vermilion what one pays, in all pictures; words beside the lines say which is which.

    python3 lb2/pictures.py

    the eight steps   steps.svg slots.svg queue.svg tune.svg ttft.svg
    second lab        waste.svg orca_curves.svg orca_reservation.svg deadlock.svg
    third lab         preemption.svg prefix.svg chunked.svg
    fourth lab        clocked.svg measured.svg

Where they go: the pictures of the lab's own requests and costs into lb2/pictures. As soon as
--requests, --first, --costs or another target is given, into lb2/my_pictures, so that the lab's own
stay what they are. --out DIR overrides both.

The pictures of the second lab need requests with arrivals; of a list without, they are left out and
named.
"""

import csv
import re
from pathlib import Path

from drawing import chunked
from drawing import curves
from drawing import deadlock
from drawing import measured
from calibration import recorded
from drawing import preemption
from drawing import prefix
from drawing import waiting as queue
from drawing import reservation
from drawing import slots
from drawing import steps
from drawing import ttft
from drawing import tune
from drawing import waste
from common import BadInput, LAB, load_requests, number, REQUESTS_FILE, run, save
from files.inputs import read_text
from running.options import arguments, same_file
from files.costs import load_costs
from roofline.workload import RECORDED, load_workload

FOLDER = LAB / "pictures"  # committed
LONG = preemption.LONG
MY_FOLDER = LAB / "my_pictures"  # not committed
RESULTS = {  # what a result file looks like that can be drawn
    "tune.csv": r"concurrency,mean_ttft_ms,p99_ttft_ms,throughput_tps\n(\d{1,9}(,\d{1,15}\.\d\d){3}\n)+",
    "paged_preemption.csv": r"reserve_full_prompt,resume,max_num_seqs,preemptions,resumed_tokens,throughput_tps\n"
                            r"((true|false),(recompute|swap)(,\d{1,15}){3},\d{1,15}\.\d\d\n){12}",
    "paged_prefix.csv": r"system_tokens,ttft_off_p50_ms,ttft_on_p50_ms,ratio\n"
                        r"(\d{1,9}(,\d{1,15}\.\d\d){2},\d{1,15}\.\d{3}\n)+",
    "paged_chunked.csv": r"max_num_batched_tokens,p99_ttft_ms,p99_itl_ms,throughput_tps\n"
                         r"((\d{1,9}|unlimited)(,\d{1,15}\.\d\d){3}\n)+",
    "measured.csv": r"server,run,role,measure,measured,predicted,error_percent\n"
                    r"(\w+,\w+,(calibrated|predicted),\w+(,\d{1,15}\.\d\d){2},-?\d{1,9}\.\d\n)+",
}


def rows_of(results, name):
    """The rows of a result file, as dicts; None if there is no such file. Raises BadInput."""
    if results is None or not (results / name).exists():
        return None
    text = read_text(results / name)
    if not re.fullmatch(RESULTS[name], text, re.ASCII):
        raise BadInput(f"{results / name}: not as the lab's script wrote it")
    return list(csv.DictReader(text.splitlines()))


def recipes(requests, costs, target_ms, records, first=None, results=None):
    """{file name: a function that draws it}, in the order of the lessons.

    records: the file of the second lab's requests; first: how many of them. results: a folder with
    result files of the same requests, which are drawn where they are all that a picture needs; or
    None.
    """
    long = results if len(requests.output_tokens) > LONG else None  # pictures of short lists show more than the files
    return {
        "steps.svg": lambda: steps.draw_steps(steps.steps_data()),
        "slots.svg": lambda: slots.draw_slots(*slots.slots_data(requests, costs)),
        "queue.svg": lambda: queue.draw_queue(*queue.queue_data(requests, costs)),
        "tune.svg": lambda: tune.draw_tune(
            *tune.tune_data(requests, costs, target_ms, rows=rows_of(results, "tune.csv"))),
        "ttft.svg": lambda: ttft.draw_ttft(
            *ttft.ttft_data(requests, costs, target_ms, rows=rows_of(results, "tune.csv"))),
        "waste.svg": lambda: waste.draw_waste(waste.waste_data(load_workload(records, first))),
        "orca_curves.svg": lambda: curves.draw_curves(*curves.curves_data(load_workload(records, first))),
        "orca_reservation.svg": lambda: reservation.draw_reservation(
            *reservation.reservation_data(load_workload(records, first), records)),
        "deadlock.svg": lambda: deadlock.draw_deadlock(*deadlock.deadlock_data(load_workload(records, first), records)),
        "preemption.svg": lambda: preemption.draw_preemption(
            preemption.preemption_data(requests, costs, rows_of(long, "paged_preemption.csv"))),
        "prefix.svg": lambda: prefix.draw_prefix(
            *prefix.prefix_data(requests, costs, rows_of(long, "paged_prefix.csv"))),
        "chunked.svg": lambda: chunked.draw_chunked(
            chunked.chunked_data(requests, costs, rows_of(results, "paged_chunked.csv"))),
        "clocked.svg": lambda: measured.draw_measured(
            *recorded.drawn(("async", "roofline", "sync"), rows_of(results, "measured.csv"))),
        "measured.svg": lambda: measured.draw_measured(
            *recorded.drawn(("cpu",), rows_of(results, "measured.csv"))),
    }


def drawn(chosen):
    """({file name: picture}, [why another is not drawn, ...]) of some recipes."""
    pictures, refused = {}, []
    for name, recipe in chosen.items():
        try:
            pictures[name] = recipe()
        except BadInput as error:
            refused.append(f"{name} is not drawn: {error}")
    return pictures, refused


def is_the_labs(args):
    """Are these the lab's own requests, costs and target?"""
    settings = args.first, args.costs, args.target_ttft_ms
    return same_file(args.requests, REQUESTS_FILE) and settings == (None, None, tune.TARGET_MS)


def main():
    parser = arguments(__doc__, out=FOLDER)
    parser.set_defaults(out=None)
    parser.add_argument("--target-ttft-ms", type=number, default=float(tune.TARGET_MS), metavar="MS",
                        help=f"the target of tune.svg and ttft.svg, in ms (default: {tune.TARGET_MS})")
    parser.add_argument("--only", nargs="+", metavar="NAME.svg", help="draw these only (default: all)")
    parser.add_argument("--results", type=Path, metavar="DIR",
                        help="draw the result files of the same requests in this folder, where they are enough")
    args = parser.parse_args()
    records = RECORDED if same_file(args.requests, REQUESTS_FILE) else args.requests
    requests, costs = load_requests(args.requests, args.first), load_costs(args.costs)
    known = recipes(requests, costs, args.target_ttft_ms, records, args.first, args.results)
    unknown = [name for name in args.only or [] if name not in known]
    if unknown:
        raise BadInput(f"--only: expected some of {' '.join(known)}, found {unknown[0]}")
    pictures, refused = drawn({name: known[name] for name in args.only or known})
    out = args.out or (FOLDER if is_the_labs(args) else MY_FOLDER)
    save(out, pictures)
    print("\n".join([f"Pictures in {out}:", *pictures, *refused]))


if __name__ == "__main__":
    run(main)
