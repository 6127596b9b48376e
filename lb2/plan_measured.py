"""How far are the lab's predictions from a real server?

Calibrates on two recorded runs of a real vLLM server and predicts the others: in closed loop with the client's own
concurrency, in open loop with its own start times. The errors are printed as they are, worst first.

    python3 lb2/plan_measured.py        writes measured.csv

Your own server: plan_measured.py --calibrate closed_01.json closed_16.json --predict other.json ...
"""

from pathlib import Path
from typing import NamedTuple

import paged_fast
from plan_calibrate import costs_line, fit, load_bench
from command_line import count, parser_of, run
from common import aligned, percentile, save, table
from inputs import Requests
from plan import closed_loop_issues

FOLDER = Path(__file__).resolve().parent.parent / "fixtures" / "measured"
CALIBRATE = [FOLDER / "closed_01.json.gz", FOLDER / "closed_16.json.gz"]
PREDICT = [FOLDER / "closed_04.json.gz", FOLDER / "open_060.json.gz"]
MEASURES = ["p50_ttft_ms", "p99_ttft_ms", "p50_itl_ms", "p99_itl_ms", "throughput_tps"]
HEADER = ["run", "measure", "measured", "predicted", "error_percent"]
MAX_NUM_SEQS, MAX_NUM_BATCHED_TOKENS = 32, 2048  # of the recorded server


def measured(bench):
    """What the client saw: the five MEASURES of a run."""
    gaps_s = [gap for itls in bench.itls_s for gap in itls]
    times_s = [
        percentile(values, percent) if values else 0 for values in (bench.ttfts_s, gaps_s) for percent in (50, 99)
    ]
    return [*(1000 * seconds for seconds in times_s), sum(bench.output_tokens) / bench.duration_s]


def most_under_way(starts, ends):
    """The largest number of requests issued and not ended at one moment."""
    most = under_way = 0
    for _, change in sorted([(end, -1) for end in ends] + [(start, 1) for start in starts]):
        under_way += change
        most = max(most, under_way)
    return most


def predicted(bench, costs, max_num_seqs, max_num_batched_tokens):
    """(the same five measures, most requests under way), of the paged scheduler at these costs, memory unlimited."""
    requests = Requests(bench.prompt_tokens, bench.output_tokens)
    arrivals_us = None if bench.closed else [round(1e6 * start) for start in bench.starts_s]
    limit = min(max_num_seqs, bench.concurrency) if bench.closed else max_num_seqs
    result = paged_fast.schedule(
        requests, limit, arrivals_us, costs, max_num_batched_tokens=max_num_batched_tokens
    )
    issued_us = arrivals_us or closed_loop_issues(result.finished_us, bench.concurrency)
    ttfts_us = [first - issued + costs.overhead_us for first, issued in zip(result.first_token_us, issued_us)]
    gaps_us = list(result.gaps_us.elements())
    times_us = [percentile(values, percent) if values else 0 for values in (ttfts_us, gaps_us) for percent in (50, 99)]
    throughput_tps = sum(bench.output_tokens) * 1_000_000 / max(result.finished_us)
    return [*(us / 1000 for us in times_us), throughput_tps], most_under_way(issued_us, result.finished_us)


class Comparison(NamedTuple):
    """One measure of one run; error in per cent of the measurement."""

    run: str
    measure: str
    measured: float
    predicted: float
    error_percent: float


def compare(bench, costs, max_num_seqs, max_num_batched_tokens):
    """(the Comparisons of a run, most requests under way as measured, as predicted)."""
    ours, our_most = predicted(bench, costs, max_num_seqs, max_num_batched_tokens)
    rows = [Comparison(bench.name, measure, theirs, our, 100 * (our / theirs - 1) if theirs else 0.0)
            for measure, theirs, our in zip(MEASURES, measured(bench), ours)]
    spans_s = [(start, start + ttft + sum(itls)) for start, ttft, itls in zip(bench.starts_s, bench.ttfts_s, bench.itls_s)]
    starts_us, ends_us = ([round(1e6 * seconds) for seconds in edges] for edges in zip(*spans_s))
    return rows, most_under_way(starts_us, ends_us), our_most


def cells(rows):
    return [[*row[:2], f"{row.measured:.2f}", f"{row.predicted:.2f}", f"{row.error_percent:.1f}"] for row in rows]


def worst_first(rows):
    return sorted(rows, key=lambda row: -abs(row.error_percent))


def print_notices(rows, queues, max_num_seqs, recorded):
    """What the numbers say of the errors. queues: run -> (most under way as measured, as predicted)."""
    worst = worst_first(rows)[0]
    print(f"Notice: the worst is {worst.measure} of {worst.run}, {worst.error_percent:+.1f} %; "
          f"{sum(abs(row.error_percent) <= 20 for row in rows)} of {len(rows)} errors are within 20 %.")
    if recorded:
        print("Identical runs of the recorded machine differed by 5 to 40 % (fixtures/measured/README.md).")
    for name, (theirs, ours) in queues.items():
        if max(theirs, ours) > max_num_seqs:
            print(
                f"In {name} up to {theirs} requests were under way, and {ours} are predicted; {max_num_seqs} run and the "
                "others queue, so a difference there is a difference in the tail of TTFT."
            )
    print(
        "Left out of the model: how attention grows with the context, tokenisation and network beyond a constant, and that "
        "the machine's speed drifts."
    )


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--calibrate", nargs="+", type=Path, default=CALIBRATE, metavar="BENCH.json",
                        help="runs to fit the costs to (default: closed_01 and closed_16 of fixtures/measured)")
    parser.add_argument("--predict", nargs="+", type=Path, default=PREDICT, metavar="BENCH.json",
                        help="runs to predict (default: closed_04 and open_060)")
    parser.add_argument(
        "--max-num-seqs", type=count, default=MAX_NUM_SEQS, metavar="N", help="the server's (default: 32)"
    )
    parser.add_argument("--max-num-batched-tokens", type=count, default=MAX_NUM_BATCHED_TOKENS, metavar="N",
                        help="the server's (default: 2048)")
    args = parser.parse_args()
    costs = fit([load_bench(path) for path in args.calibrate])
    benches = [load_bench(path) for path in args.predict]
    rows, queues = [], {}
    for bench in benches:
        more, *queues[bench.name] = compare(bench, costs, args.max_num_seqs, args.max_num_batched_tokens)
        rows += more
    save(args.out, {"measured.csv": table(HEADER, cells(rows))})

    print(f"Calibrated on {' and '.join(path.name for path in args.calibrate)}: {costs_line(costs)}", end="")
    print("measured.csv, worst first:")
    print(aligned(HEADER, cells(worst_first(rows))), end="")
    for bench in benches:
        if bench.failed:
            print(f"Warning: {bench.failed} failed requests of {bench.name} were left out; the load they made was not.")
    print_notices(rows, queues, args.max_num_seqs, args.predict == PREDICT)


if __name__ == "__main__":
    run(main)
