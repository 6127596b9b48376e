"""What does each lesson of the labs look like?

Draws the numbers that the scripts write: the same functions, the same settings. Blue is what one
hopes for and vermilion what one pays, in all pictures. The title of each says what it shows.

    python3 lb2/pictures.py

    the eight steps   steps.svg slots.svg queue.svg tune.svg ttft.svg
    second lab        orca_curves.svg orca_reservation.svg
    third lab         preemption.svg chunked.svg
    fourth lab        measured.svg plan.svg

The pictures of the lab's own requests and costs go into lb2/pictures. Those of other requests, costs
or targets go into lb2/my_pictures; --out DIR overrides both. Requests without arrivals have no
pictures of the second lab.
"""

from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import continuous
import orca_curves
import orca_reservation
import paged_chunked
import paged_preemption
import plan
import queueing
import static
import tune
from calibration.recorded import RECORDED, result_of
from calibration.ways import found_in
from common import BadInput, LAB, number, percentile, progress, REQUESTS_FILE, run, save
from drawing.chunked import draw_chunked
from drawing.curves import draw_curves
from drawing.measured import draw_measured
from drawing.plan import draw_plan
from drawing.preemption import POLICIES, draw_preemption
from drawing.reservation import draw_reservation
from drawing.slots import draw_slots
from drawing.steps import REQUESTS, SLOTS, draw_steps
from drawing.ttft import draw_ttft
from drawing.tune import draw_tune
from drawing.waiting import draw_queue
from files.costs import BUDGET, Server, costs_line, load_server
from files.sources import load_trace
from planning.results import picture_of
from roofline.model import CAPACITY_TOKENS
from roofline.systems import name as system_name
from roofline.workload import RECORDED as RECORDED_WORKLOAD, load_workload
from running.options import arguments, options

FOLDER, MY_FOLDER = LAB / "pictures", LAB / "my_pictures"  # the first is committed
TARGET_MS, UP_TO, STATIC_SLOTS, QUEUE_SLOTS = 200.0, 256, 16, 32  # the steps'
NOTED_RPS = (5, 10, 20, 40)  # queueing.py's
LONG = 1000  # of longer lists the order is not varied, and a curve has fewer points


def watched(function, cases):
    """The results of a function for some cases, counted on a terminal."""
    return list(progress((function(*case) for case in cases), len(cases)))


def schedules(requests, slots, *more):
    """{"static" or "continuous": its Schedule}, all requests there at time 0."""
    return {module.__name__: module.schedule(requests, slots, *more) for module in (static, continuous)}


def queue_picture(requests, costs):
    """Step 6: rates up to the highest that it asks about, or, on a server of quite another speed, around its own."""
    n = len(requests.output_tokens)
    capacity = queueing.capacity_rps(requests, QUEUE_SLOTS, costs)
    noted = [rps for rps in NOTED_RPS if capacity / 20 <= rps <= 3 * capacity]
    if len(noted) < 2:
        noted = [capacity / 2, 0.9 * capacity]
    highest, steps = max(1.3 * capacity, *noted), 52 if n <= LONG else 13
    rates = sorted({*noted, *(highest * k / steps for k in range(1, steps + 1))})
    draws = [queueing.unit_arrivals(seed, n) for seed in range(queueing.DRAWS)]
    waits = watched(queueing.waits_at, [(requests, draws, rps, QUEUE_SLOTS, costs) for rps in rates])
    points = [(rps, sum(us) / len(us) / 1000, percentile(us, 99) / 1000) for rps, (us, _) in zip(rates, waits)]
    return draw_queue(QUEUE_SLOTS, n, capacity, noted, points)


def tune_data(requests, costs, target_ms):
    """Step 8's Points, and {"p99" or "mean": the Point that the target allows by it, or None}."""
    up_to = min(UP_TO, len(requests.output_tokens))
    points = watched(tune.measure, [(requests, clients, costs) for clients in range(1, up_to + 1)])
    return points, {"p99": tune.largest_within(points, target_ms, tune.p99),
                    "mean": tune.largest_within(points, target_ms, tune.mean)}


def tune_picture(requests, costs, target_ms, points, chosen):
    n, answers = len(requests.output_tokens), None
    if 1 < n <= LONG:
        answers = watched(tune.answer_in_random_order, [
            (requests, seed, min(UP_TO, n), target_ms, costs) for seed in range(tune.ORDERS)])
    return draw_tune(target_ms, points, chosen, answers, n)


def ttft_picture(requests, costs, target_ms, chosen):
    """Where both allow the same number there is one case; where neither allows any, it is one client."""
    clients = {name: best.concurrency for name, best in chosen.items() if best} or {"p99": 1}
    if clients.get("p99") == clients.get("mean"):
        del clients["mean"]
    cases = []
    for name, many in clients.items():
        result = continuous.schedule(requests, many, costs=costs)
        ttfts_ms = [(first - admitted + costs.overhead_us) / 1000
                    for first, admitted in zip(result.first_token_us, result.admitted_us)]
        cases.append((name, many, ttfts_ms, min(many, len(ttfts_ms))))
    return draw_ttft(target_ms, cases)


def curves_picture(workload):
    found = orca_curves.results(workload)
    curves = {system_name(system): [(point.throughput_rps, point.p50_ms_per_token) for point in points]
              for system, points in found.points.items()}
    return draw_curves(found.target_ms, curves,
                       {system_name(system): best.throughput_rps for system, best in found.best.items()})


def reservation_picture(workload, path):
    orca_reservation.refuse_longer_than_declared(path, workload.requests.output_tokens)
    cases = list(product(orca_reservation.RATES_RPS, orca_reservation.MODES))
    measures = watched(orca_reservation.measure, [(mode, workload, rate) for rate, mode in cases])
    return draw_reservation(len(workload.arrivals_s), CAPACITY_TOKENS, dict(zip(cases, measures)))


def preemption_picture(requests, costs):
    cases = list(product(POLICIES, (1, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40)))
    points = {policy: [] for policy in POLICIES}
    results = watched(paged_preemption.measure, [(requests, *policy, limit, costs) for policy, limit in cases])
    for (policy, limit), result in zip(cases, results):
        points[policy].append((limit, static.throughput_tps(requests, result), result.preemptions))
    memory = f"{paged_preemption.KV_BLOCKS} blocks of {paged_preemption.BLOCK_SIZE} tokens"
    return draw_preemption(points, paged_preemption.MAX_NUM_SEQS, memory)


def chunked_picture(requests, costs):
    budgets = paged_chunked.BUDGETS
    found = watched(paged_chunked.measure, [(requests, budget, costs) for budget in budgets])
    return draw_chunked([(paged_chunked.name(budget), ttft_us / 1000, itl_us / 1000)
                         for budget, (ttft_us, itl_us, _) in zip(budgets, found)], paged_chunked.RPS)


def measured_picture():
    """The recorded servers, those of one noise together."""
    rows = {}
    for server in RECORDED:
        rows.setdefault(server.noise_percent, []).extend(result_of(server).rows)
    quiet, noisy = sorted(rows)
    return draw_measured({"three quiet servers": (rows[quiet], quiet), "a noisy one": (rows[noisy], noisy)})


def plan_picture():
    """The plan of plan.md: the recorded run that calibrates the first server is its traffic, too."""
    (run_file,), limits = RECORDED[0].calibrate, Server(max_num_seqs=32, max_num_batched_tokens=BUDGET)
    found = found_in([run_file], limits)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "costs.txt"
        path.write_text(costs_line(found.server))
        found_plan, *_ = plan.planned(plan.parser().parse_args(["--requests", str(run_file), "--costs", str(path)]))
    return draw_plan(picture_of(found_plan))


def recipes(requests, costs, target_ms, records, first=None):
    """{file name: a function that draws it}. records: the second lab's requests, of which first so many are taken."""
    return {
        "steps.svg": lambda: draw_steps(schedules(REQUESTS, SLOTS)),
        "slots.svg": lambda: draw_slots(requests, STATIC_SLOTS, *schedules(
            requests, STATIC_SLOTS, None, costs).values()),
        "queue.svg": lambda: queue_picture(requests, costs),
        "tune.svg": lambda: tune_picture(requests, costs, target_ms, *tune_data(requests, costs, target_ms)),
        "ttft.svg": lambda: ttft_picture(requests, costs, target_ms, tune_data(requests, costs, target_ms)[1]),
        "orca_curves.svg": lambda: curves_picture(load_workload(records, first)),
        "orca_reservation.svg": lambda: reservation_picture(load_workload(records, first), records),
        "preemption.svg": lambda: preemption_picture(requests, costs),
        "chunked.svg": lambda: chunked_picture(requests, costs),
        "measured.svg": measured_picture,
        "plan.svg": plan_picture,
    }


def main():
    parser = arguments(__doc__, out=FOLDER)
    parser.set_defaults(out=None)
    parser.add_argument("--target-ttft-ms", type=number, default=TARGET_MS, metavar="MS",
                        help=f"the target of tune.svg and ttft.svg, in ms (default: {TARGET_MS:g})")
    parser.add_argument("--only", nargs="+", metavar="NAME.svg", help="draw these only (default: all)")
    args = options(parser)
    ours = args.requests.samefile(REQUESTS_FILE)
    requests, costs = load_trace(args.requests, args.first, timed=False).requests, load_server(args.costs).costs
    known = recipes(requests, costs, args.target_ttft_ms, RECORDED_WORKLOAD if ours else args.requests, args.first)
    unknown = [name for name in args.only or [] if name not in known]
    if unknown:
        raise BadInput(f"--only: expected some of {' '.join(known)}, found {unknown[0]}")
    pictures, refused = {}, []
    for name in args.only or known:
        try:
            pictures[name] = known[name]()
        except BadInput as error:
            refused.append(f"{name} is not drawn: {error}")
    own = not ours or (args.first, args.costs, args.target_ttft_ms) != (None, None, TARGET_MS)
    out = args.out or (MY_FOLDER if own else FOLDER)
    save(out, pictures)
    print("\n".join([f"Pictures in {out}:", *pictures, *refused]))


if __name__ == "__main__":
    run(main)
