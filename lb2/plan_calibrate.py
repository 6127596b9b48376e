"""What does a step cost on my own server?

Fits the lab's costs to detailed results of vllm bench serve (--save-result --save-detailed), one or more runs:

    prefill_ms_per_token   slope of TTFT against prompt length (least squares), in the run of lowest concurrency
    overhead_ms            what that line's intercept exceeds one step by, never below 0: time outside the scheduler
    step_ms                the median time between tokens of each run, against its concurrency: a line's value at 0,
    step_ms_per_sequence   and its slope; with one run, the median itself and 0

Whole microseconds. Failed requests are left out and counted. It ignores that attention grows with the context.

    python3 lb2/plan_calibrate.py closed_01.json closed_16.json        writes costs.txt, for --costs
"""

import json
import math
from pathlib import Path
from statistics import fmean, linear_regression, median
from typing import NamedTuple

from command_line import parser_of, run
from common import pairs, percentile, save
from cost_model import Costs
from inputs import BadInput, parse_json, read_text, shown


class Bench(NamedTuple):
    """One run of a benchmark, n requests in the order they were sent; times in seconds, as vLLM writes them."""

    name: str
    prompt_tokens: list
    output_tokens: list
    starts_s: list
    ttfts_s: list
    itls_s: list  # n lists
    duration_s: float
    concurrency: float  # of the client; in open loop, the mean number of requests under way (Little's law)
    closed: bool
    failed: int


def load_bench(path):
    """Read a detailed result. Raises BadInput or OSError; nothing that is not what it seems is averaged in."""
    record = parse_json(path, read_text(path))
    if not isinstance(record, dict) or "input_lens" not in record:
        raise BadInput(
            f"{path}: expected the JSON object of vllm bench serve --save-result --save-detailed (input_lens ...)"
        )
    duration_s, limit = record.get("duration"), record.get("max_concurrency")
    if not is_time(duration_s) or duration_s == 0:
        raise BadInput(f"{path}: duration: expected seconds, found {shown(duration_s)}")
    if limit is not None and not (is_count(limit) and limit):
        raise BadInput(f"{path}: max_concurrency: expected a whole number of clients or null, found {shown(limit)}")
    rows = bench_rows(path, record, duration_s)
    good = [row for row in rows if row[0] and row[1] and row[2]]
    if not good:
        raise BadInput(f"{path}: every request failed")
    prompts, outputs, ttfts_s, itls_s, starts_s = (list(column) for column in zip(*good))
    check_mean(path, record.get("mean_ttft_ms"), ttfts_s)
    first_s = min(starts_s)  # vLLM writes them from wherever its clock began
    closed = limit is not None and record.get("request_rate", "inf") in ("inf", math.inf)
    under_way = (sum(ttfts_s) + sum(map(sum, itls_s))) / duration_s
    return Bench(
        bench_name(path), prompts, outputs, [start - first_s for start in starts_s], ttfts_s, itls_s, duration_s,
        min(limit, len(good)) if closed else under_way, closed, len(rows) - len(good),
    )  # fmt: skip


def bench_rows(path, record, duration_s):
    """[(prompt tokens, output tokens, TTFT, gaps between tokens, start), ...] of a result, each checked, failed ones too."""
    fields = ["input_lens", "output_lens", "ttfts", "itls", "start_times"]
    missing = [field for field in fields if not isinstance(record.get(field), list)]
    if missing:
        raise BadInput(f"{path}: no list {', '.join(missing)}: was it run with --save-detailed?")
    if len({len(record[field]) for field in fields}) != 1 or not record["input_lens"]:
        raise BadInput(f"{path}: {', '.join(fields)} must have one entry a request each")
    rows = list(zip(*(record[field] for field in fields)))
    for i, (prompt, output, ttft, itls, start) in enumerate(rows):
        counts = is_count(prompt) and is_count(output)
        times = is_time(ttft) and is_time(start) and isinstance(itls, list) and all(map(is_time, itls))
        if not (counts and times):
            found = json.dumps(rows[i])[:60]
            raise BadInput(f"{path}: request {i}: expected counts of tokens and times in seconds, found {found}")
        if ttft + sum(itls) > 1.01 * duration_s:
            took = f"took {ttft + sum(itls):.6g} s in a run of {duration_s:.6g} s"
            raise BadInput(f"{path}: request {i}: {took}: are its times in milliseconds?")
    return rows


def check_mean(path, mean_ttft_ms, ttfts_s):
    """Refuse a file whose times are not in the unit that its own summary says."""
    if type(mean_ttft_ms) in (int, float) and mean_ttft_ms > 0:
        ratio = 1000 * fmean(ttfts_s) / mean_ttft_ms
        if not 0.5 < ratio < 2:
            raise BadInput(f"{path}: its ttfts are {ratio:.4g} times its own mean_ttft_ms: are they in seconds?")


def bench_name(path):
    """closed_01.json.gz -> closed_01"""
    return Path(path).name.removesuffix(".gz").removesuffix(".json")


def is_time(value):
    return type(value) in (int, float) and 0 <= value < 1e9


def is_count(value):
    return type(value) is int and 0 <= value <= 1_000_000_000


def typical_itl_s(bench):
    """The median time between tokens, over all tokens of the run; None where no request has two."""
    gaps = [gap for itls in bench.itls_s for gap in itls]
    return median(gaps) if gaps else None


def line(xs, ys):
    """Least squares: (slope, intercept); flat through the mean where the xs do not differ."""
    if len(set(xs)) < 2:
        return 0.0, fmean(ys)
    return tuple(linear_regression(xs, ys))


def fit(benches):
    """The Costs of the server behind one or more runs. Raises BadInput where they hold no time between tokens."""
    typical = [(bench.concurrency, typical_itl_s(bench)) for bench in benches]
    typical = [(concurrency, itl) for concurrency, itl in typical if itl is not None]
    if not typical:
        raise BadInput("no run has a request of two or more output tokens: nothing says how long a step takes")
    if min(itl for _, itl in typical) < 5e-7:
        raise BadInput("a run's median time between tokens is 0: its tokens came many at a time, and no step can be told")
    per_sequence_s, step_s = line(*zip(*typical))
    if per_sequence_s < 0 or step_s < 0:  # noise: steps cannot get shorter with more sequences in them
        per_sequence_s, step_s = 0.0, fmean(itl for _, itl in typical)
    quietest = min(benches, key=lambda bench: bench.concurrency)
    prefill_s, intercept_s = line(quietest.prompt_tokens, quietest.ttfts_s)
    prefill_s = max(0.0, prefill_s)
    overhead_s = max(0.0, intercept_s - (step_s + per_sequence_s))
    return Costs(*(round(1e6 * seconds) for seconds in (prefill_s, step_s, per_sequence_s, overhead_s)))


def residuals(benches, costs):
    """Lines that say how far the fit is from what it was fitted to, in per cent of the measurement."""
    quietest = min(benches, key=lambda bench: bench.concurrency)
    fitted = [
        (costs.overhead_us + costs.prefill_us(prompt) + costs.decode_us(1)) / 1e6 for prompt in quietest.prompt_tokens
    ]
    errors = [100 * (ours / theirs - 1) for ours, theirs in zip(fitted, quietest.ttfts_s)]
    yield (f"TTFT in {quietest.name}: {len(errors)} samples, residuals {min(errors):+.0f} % to {max(errors):+.0f} %, "
           f"median size {median(map(abs, errors)):.1f} %")
    for bench in benches:
        typical = typical_itl_s(bench)
        if typical is not None:
            gaps_ms = [1000 * gap for itls in bench.itls_s for gap in itls]
            spread = f"{percentile(gaps_ms, 5):.2f} to {percentile(gaps_ms, 95):.2f}" if len(gaps_ms) > 1 else "one"
            error = costs.decode_us(bench.concurrency) / 1e6 / typical - 1
            yield (
                f"median time between tokens in {bench.name}, concurrency {bench.concurrency:.4g}: "
                f"{1000 * typical:.2f} ms (5 % to 95 %: {spread}; {len(gaps_ms)} samples), residual {100 * error:+.1f} %"
            )


def warnings(benches, costs):
    """Lines that say what the runs cannot tell, and so where a plan will extrapolate."""
    for bench in benches:
        if bench.failed:
            yield f"Warning: {bench.failed} failed requests of {bench.name} were left out; the load they made was not."
        lumps = sum(len(itls) != output - 1 for itls, output in zip(bench.itls_s, bench.output_tokens))
        if lumps:
            yield (
                f"Warning: {lumps} requests of {bench.name} have other than output - 1 times between tokens: tokens came "
                "several at a time, and a step is overstated."
            )
    quietest = min(benches, key=lambda bench: bench.concurrency)
    if quietest.concurrency >= 2:
        yield (
            f"Warning: the lowest concurrency is {quietest.concurrency:.4g}: TTFT there holds the steps of other requests "
            "too. A run with --max-concurrency 1 tells prefill from waiting."
        )
    if len({bench.concurrency for bench in benches}) == 1:
        yield "With one concurrency, step_ms_per_sequence is 0: it takes two to tell how a step grows."
    elif costs.step_us_per_sequence == 0:
        yield "Warning: steps did not get longer with more sequences; step_ms_per_sequence is 0, step_ms their mean."
    if len(set(quietest.prompt_tokens)) < 2:
        yield f"Warning: all prompts of {quietest.name} have one length: its TTFT cannot be split, prefill_ms_per_token is 0."
    highest = max(bench.concurrency for bench in benches)
    yield (
        f"A plan extrapolates for prompts outside {min(quietest.prompt_tokens)} to {max(quietest.prompt_tokens)} tokens "
        f"and for more than {highest:.4g} sequences at once."
    )


def costs_line(costs):
    """The four figures of a --costs file."""
    prefill_ms, step_ms, per_sequence_ms, overhead_ms = (f"{us / 1000:.3f}" for us in costs[:4])
    return pairs(
        prefill_ms_per_token=prefill_ms, step_ms=step_ms, step_ms_per_sequence=per_sequence_ms, overhead_ms=overhead_ms
    )


def main():
    parser = parser_of(__doc__)
    parser.add_argument(
        "benches", nargs="+", type=Path, metavar="BENCH.json", help="detailed results, plain or gzipped"
    )
    args = parser.parse_args()
    benches = [load_bench(path) for path in args.benches]
    costs = fit(benches)
    text = costs_line(costs)
    save(args.out, {"costs.txt": text})
    print(f"costs.txt: {text}", end="")
    for said in (*residuals(benches, costs), *warnings(benches, costs)):
        print(said)


if __name__ == "__main__":
    run(main)
