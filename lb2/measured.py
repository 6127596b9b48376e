"""How far are the lab's predictions from a real server?

One recorded run of each server calibrates (calibrate.py); its other runs are predicted: in
closed loop with the client's own number of clients, in open loop with its own start times. The
errors are printed as they are, in per cent of the measurement, worst run first.

    python3 lb2/measured.py        writes measured.csv, from fixtures/clocked and measured

Your own server, with its own limits:

    python3 lb2/measured.py --calibrate open.json --predict c16.json c64.json
        --max-num-seqs 128 --kv-tokens 250000

Summaries will do, too (calibrate.py --help says which): two loads or more calibrate, and
FILE:NAME or FILE:NUMBER chooses one load of a file. Loads that calibrate are not predicted again:

    python3 lb2/measured.py --calibrate sweep.json:c4 sweep.json:c64 --predict sweep.json

Left out: prefix caching, speculative decoding, several replicas, and that a machine's speed drifts.
"""

from pathlib import Path
from typing import NamedTuple

from common import BadInput, count, progress, run, save, say, table
from running.options import aligned, parser_of
from files.costs import Server, costs_line, load_costs, load_server
from files.benchmarks import load_benches
from calibrate import BUDGET, calibrated
from planning.engine import LEAST_KV_TOKENS
from calibration.replayed import MEASURES, measured, predicted
from calibration.summaries import FIGURES, is_summary, load_summaries, predicted_figures
from calibration.summaries_fit import MAX_NUM_SEQS, fitted

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
HEADER = ["server", "run", "role", "measure", "measured", "predicted", "error_percent"]


class Recorded(NamedTuple):
    """A server whose runs are in fixtures/, and by how much its identical runs differ (its README)."""

    name: str
    calibrate: list
    predict: list
    max_num_seqs: int
    noise: str
    noise_percent: float


def recorded(folder, calibrate, *predict):
    """The paths of runs in a folder."""
    return [FIXTURES / folder / f"{calibrate}.json.gz"], [FIXTURES / folder / f"{name}.json.gz" for name in predict]


CLOCKED = "identical runs differ by up to 1.7 % in TTFT, 1 % in ITL and 0.1 % in duration"
RECORDED = [
    Recorded("async", *recorded("clocked", "async_open5", "async_c01", "async_c04"), 32, CLOCKED, 1.7),
    Recorded("roofline", *recorded("clocked", "roofline_open4", "roofline_c16"), 128, CLOCKED, 1.7),
    Recorded("sync", *recorded("clocked", "sync_c16"), 32, CLOCKED, 1.7),
    Recorded("cpu", *recorded("measured", "open_060", "closed_01", "closed_04", "closed_16"), 32,
             "identical runs differ by 5 to 40 %", 40),
]


class Comparison(NamedTuple):
    """One measure of one run; error in per cent of the measurement."""

    server: str
    run: str
    role: str  # "predicted", or "calibrated" for the run that the costs come from
    measure: str
    measured: float
    predicted: float
    error_percent: float


def compare(name, benches, role, costs, server):
    """The Comparisons of some runs with what the engine predicts for them. Raises BadInput."""
    rows = []
    for bench in benches:
        ours = predicted(bench, costs, server.asynchronous, server.max_num_seqs, server.max_num_batched_tokens,
                         server.kv_tokens)
        for measure, theirs in measured(bench).items():
            if theirs:
                error = 100 * (ours[measure] / theirs - 1)
                rows.append(Comparison(name, bench.name, role, measure, theirs, ours[measure], error))
    return rows


def compared(name, calibrate, predict, server, costs=None):
    """(Comparisons of the runs of a server, its Costs, its Server), calibrated on some; those are compared, too.

    server: what is known of it; the calibration tells the rest. costs: known already, and none is fitted.
    """
    if costs is None:
        found = calibrated(calibrate, server.max_num_batched_tokens)
        costs = found.costs
        if server.asynchronous is None:
            server = server._replace(asynchronous=found.asynchronous)
    server = Server(
        server.asynchronous is not False, server.max_num_seqs or MAX_NUM_SEQS, server.max_num_batched_tokens or BUDGET,
        server.kv_tokens,
    )
    others = [bench for bench in predict if bench.name not in {known.name for known in calibrate}]
    rows = compare(name, calibrate, "calibrated", costs, server) + compare(name, others, "predicted", costs, server)
    return rows, costs, server


def summaries_result(paths, predict, told, costs):
    """The Result of a server of which some runs are summaries. Raises BadInput."""
    loads, others = ([load for path in some for load in load_summaries(path)] for some in (paths, predict))
    server = Server(told.asynchronous, told.max_num_seqs or MAX_NUM_SEQS, told.max_num_batched_tokens or BUDGET,
                    told.kv_tokens)
    if costs is None:
        found = fitted(loads, server)
        costs, server = found.costs, server._replace(asynchronous=found.asynchronous)
    server = server._replace(asynchronous=server.asynchronous is not False)
    others = [load for load in others if load not in loads]
    rows = []
    for load, role in [*((load, "calibrated") for load in loads), *((load, "predicted") for load in others)]:
        ours = predicted_figures(load, costs, server)
        rows += [Comparison("server", load.name, role, measure, theirs, ours[measure],
                            100 * (ours[measure] / theirs - 1))
                 for measure, theirs in load.figures.items() if measure in ours]
    words = settings("server", loads, costs, server)
    return Result(Recorded("server", paths, predict, None, "", 0), rows, [*loads, *others], words)


class Result(NamedTuple):
    """What came of one server."""

    server: Recorded
    rows: list
    benches: list
    settings: str  # how its predictions were made


def result_of(recorded, told=Server(), costs=None):
    """The Result of a server: its runs read, calibrated and predicted. told: what the options say. Raises BadInput."""
    calibrate, predict = ([bench for path in paths for bench in load_benches(path)] for paths in recorded[1:3])
    known = told._replace(max_num_seqs=told.max_num_seqs or recorded.max_num_seqs)
    rows, costs, known = compared(recorded.name, calibrate, predict, known, costs)
    return Result(recorded, rows, [*calibrate, *predict], settings(recorded.name, calibrate, costs, known))


# --- in words -------------------------------------------------------------------------------------


def worst_first(rows):
    return sorted(rows, key=lambda row: -abs(row.error_percent))


def cells(rows):
    """Lines of measured.csv."""
    return [[*row[:4], f"{row.measured:.2f}", f"{row.predicted:.2f}", f"{row.error_percent:.1f}"] for row in rows]


def error_table(rows):
    """One line a run, its errors in per cent side by side; the run with the worst one first."""
    runs, known = {}, {row.measure for row in rows}
    measures = MEASURES if known <= set(MEASURES) else [measure for measure in FIGURES if measure in known]
    for row in worst_first(rows):
        runs.setdefault((row.run, row.role), {})[row.measure] = f"{row.error_percent:+.1f}"
    header = ["run", "role", *(measure.removesuffix("_ms").removesuffix("_tps") for measure in measures)]
    lines = [[*run, *(errors.get(measure, "-") for measure in measures)] for run, errors in runs.items()]
    return aligned(header, lines)


def settings(name, calibrate, costs, server):
    """How the predictions of a server were made."""
    names = " and ".join(bench.name for bench in calibrate) or "a costs file"
    memory = f", a KV cache of {server.kv_tokens} tokens" if server.kv_tokens else ""
    return f"{name}: costs from {names}, max_num_seqs {server.max_num_seqs}, budget {server.max_num_batched_tokens}" \
           f"{memory}: {costs_line(costs, Server(server.asynchronous)).strip()}"


def print_recorded(server, rows):
    """What the errors of a recorded server are worth."""
    errors = [abs(row.error_percent) for row in rows if row.role == "predicted"]
    if errors:
        within = sum(error <= server.noise_percent for error in errors)
        say(f"Of {len(errors)} predicted figures {within} are within {server.noise_percent:g} %; {server.noise}.")


def parser():
    parser = parser_of(__doc__)
    parser.add_argument("--calibrate", nargs="+", type=Path, default=[], metavar="BENCH.json",
                        help="runs to fit the costs to (default: the recorded servers)")
    parser.add_argument("--predict", nargs="+", type=Path, default=[], metavar="BENCH.json", help="runs to predict")
    parser.add_argument("--costs", type=Path, metavar="FILE",
                        help="costs.txt of the server, instead of --calibrate")
    parser.add_argument("--max-num-seqs", type=count, metavar="N",
                        help=f"the server's (default: the recorded one's, or the costs file's, or {MAX_NUM_SEQS})")
    parser.add_argument("--max-num-batched-tokens", type=count, metavar="N",
                        help=f"the server's token budget of a step (default: the costs file's, or {BUDGET})")
    parser.add_argument("--kv-tokens", type=count, metavar="N",
                        help="the server's KV cache, as vLLM logs it (default: the costs file's, or never short)")
    scheduler = parser.add_mutually_exclusive_group()
    scheduler.add_argument("--synchronous", action="store_true", help="predict a synchronous scheduler")
    scheduler.add_argument("--asynchronous", action="store_true",
                           help="predict an asynchronous one (default: what the calibration finds)")
    return parser


def server_of(args):
    """The Server that the options describe, and for the rest the costs file."""
    if args.kv_tokens is not None and args.kv_tokens < LEAST_KV_TOKENS:
        raise BadInput(f"--kv-tokens: expected at least {LEAST_KV_TOKENS}, found {args.kv_tokens}")
    known = load_server(args.costs)
    asynchronous = not args.synchronous if args.synchronous or args.asynchronous else known.asynchronous
    told = Server(asynchronous, args.max_num_seqs, args.max_num_batched_tokens, args.kv_tokens)
    return Server(*(known_one if told_one is None else told_one for told_one, known_one in zip(told, known)))


def main():
    args = parser().parse_args()
    if bool(args.calibrate or args.costs) != bool(args.predict) or (args.calibrate and args.costs):
        raise BadInput("give --predict and either --calibrate or --costs, or none of them for the recorded servers")
    told, costs = server_of(args), load_costs(args.costs) if args.costs else None
    if any(map(is_summary, [*args.calibrate, *args.predict])):
        report([summaries_result(args.calibrate, args.predict, told, costs)], args.out)
        return
    servers = RECORDED if not args.predict else [Recorded("server", args.calibrate, args.predict, None, "", 0)]
    results = list(progress((result_of(server, told, costs) for server in servers), len(servers)))
    report(results, args.out)


def report(results, out):
    """Write the file of the Results, and print their tables."""
    all_rows = [row for result in results for row in result.rows]
    save(out, {"measured.csv": table(HEADER, cells(worst_first(all_rows)))})

    print("measured.csv: predicted against measured. Errors in per cent:")
    for result in results:
        print()
        say(result.settings)
        print(error_table(result.rows), end="")
        for bench in result.benches:
            for oddity in bench.oddities:
                say(f"{bench.name}: {oddity}")
        if result.server.noise:
            print_recorded(result.server, result.rows)
    worst = worst_first([row for row in all_rows if row.role == "predicted"] or all_rows)[0]
    say(f"The worst prediction is {worst.measure} of {worst.run}: {worst.predicted:.2f} instead of "
        f"{worst.measured:.2f}, {worst.error_percent:+.1f} %.")


if __name__ == "__main__":
    run(main)
