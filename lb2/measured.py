"""How far are the lab's predictions from a real server?

One recorded run of each server calibrates (calibrate.py); its other runs are predicted: in
closed loop with the client's own number of clients, in open loop with its own start times.

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

from common import BadInput, count, progress, run, save, say, table
from running.options import aligned, options, parser_of
from files.costs import BUDGET, MAX_NUM_SEQS, load_server
from planning.engine import LEAST_KV_TOKENS
from calibration.recorded import RECORDED, Recorded, result_of
from calibration.search import ratio

HEADER = ["server", "run", "role", "measure", "measured", "predicted", "error_percent"]


def worst_first(rows):
    return sorted(rows, key=lambda row: -abs(row.error_percent))


def error_table(rows):
    """One line a run, its errors in per cent side by side; the run with the worst one first."""
    runs, measures = {}, dict.fromkeys(row.measure for row in rows)
    for row in worst_first(rows):
        runs.setdefault((row.run, row.role), {})[row.measure] = f"{row.error_percent:+.1f}"
    header = ["run", "role", *(measure.removesuffix("_ms").removesuffix("_tps") for measure in measures)]
    lines = [[*run, *(errors.get(measure, "-") for measure in measures)] for run, errors in runs.items()]
    return aligned(header, lines)


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
    parser.add_argument("--experts", type=ratio, metavar="E/k", help="a mixture of E experts, k of which serve a token")
    scheduler = parser.add_mutually_exclusive_group()
    scheduler.add_argument("--synchronous", action="store_true", help="predict a synchronous scheduler")
    scheduler.add_argument("--asynchronous", action="store_true",
                           help="predict an asynchronous one (default: what the calibration finds)")
    return parser


def server_of(args):
    """The Server that the options describe, and for the rest the costs file."""
    if args.kv_tokens is not None and args.kv_tokens < LEAST_KV_TOKENS:
        raise BadInput(f"--kv-tokens: expected at least {LEAST_KV_TOKENS}, found {args.kv_tokens}")
    told = {limit: getattr(args, limit) for limit in ("max_num_seqs", "max_num_batched_tokens", "kv_tokens")}
    if args.synchronous or args.asynchronous:
        told["asynchronous"] = args.asynchronous
    return load_server(args.costs)._replace(**{name: value for name, value in told.items() if value is not None})


def main():
    args = options(parser())
    if bool(args.calibrate or args.costs) != bool(args.predict) or (args.calibrate and args.costs):
        raise BadInput("give --predict and either --calibrate or --costs, or none of them for the recorded servers")
    told = server_of(args)
    servers = [Recorded("server", args.calibrate, args.predict)] if args.predict else RECORDED
    results = list(progress((result_of(server, told, args.experts) for server in servers), len(servers)))
    report(results, args.out)


def report(results, out):
    """Write the file of the Results, and print their tables."""
    all_rows = worst_first(row for result in results for row in result.rows)
    lines = [[*row[:4], f"{row.measured:.2f}", f"{row.predicted:.2f}", f"{row.error_percent:.1f}"] for row in all_rows]
    save(out, {"measured.csv": table(HEADER, lines)})

    print("measured.csv: predicted against measured. Errors in per cent:")
    for result in results:
        print()
        say(result.settings)
        print(error_table(result.rows), end="")
        for load in result.loads:
            for oddity in load.oddities:
                say(f"{load.name}: {oddity}")
        errors = [abs(row.error_percent) for row in result.rows if row.role == "predicted"]
        if result.server.noise and errors:
            within = sum(error <= result.server.noise_percent for error in errors)
            say(f"Of {len(errors)} predicted figures {within} are within {result.server.noise_percent:g} %; "
                f"{result.server.noise}.")
    worst = next((row for row in all_rows if row.role == "predicted"), all_rows[0])
    say(f"The worst prediction is {worst.measure} of {worst.run}: {worst.predicted:.2f} instead of "
        f"{worst.measured:.2f}, {worst.error_percent:+.1f} %.")


if __name__ == "__main__":
    run(main)
