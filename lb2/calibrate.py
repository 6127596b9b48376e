"""What does a step cost on my own server?

Reads detailed results of vllm bench serve (--save-result --save-detailed) or of sglang's
bench_serving (--output-details), one run or several of the same server, of any load. Every gap
between two tokens is a sample of one step, and the client's own times tell what was in it:

    prefill_ms_per_token   what a prompt token adds to a step
    hidden_ms              the part of a prefill that costs nothing, as long as weights are read
    step_ms                a step with nothing in it
    step_ms_per_sequence   what each sequence that emits a token adds; or step_ms_at, the ms of a
                           step by number of sequences, where one straight line does not do
    context_ms_per_token   what a token in the cache adds
    overhead_ms            from the client to the scheduler and back
    scheduling             asynchronous (vLLM's default) or synchronous, whichever explains more

A cost enters only if the samples tell it. What is missing is said, and which run would tell it.
It ignores speculative decoding, prefix caching, and that a server's speed may drift.

Without the times of each request, summaries of two loads or more of one server will do. Then the
costs are those with which the engine comes nearest to their TTFT, TPOT and throughput
(calibration/summaries_fit.py). A summary is one of these:

    a result of vllm bench serve without --save-detailed
    a list of {"name", "clients" or null, "prompt", "output", "arrivals_ms", "measured"}, of which
        FILE:NAME or FILE:NUMBER chooses one load
    --point "clients=16 prompt=1024 output=1024 p50_ttft_ms=34 p50_tpot_ms=4.7 tps=3265", with
        rps=5 in place of clients for an open loop

    python3 lb2/calibrate.py closed_16.json open_5.json    writes costs.txt, for --costs
"""

from math import ceil, fsum
from pathlib import Path
from statistics import median
from typing import NamedTuple

from common import BadInput, count, run, save, say
from running.options import parser_of
from files.costs import Costs, Server, costs_line, parsed
from files.benchmarks import load_benches
from calibration.fit import Fit, fit
from calibration.overhead import ENOUGH, Overhead, alone_in, overhead_of
from calibration.samples import Sample, mean_sequences, step_samples, typical_samples
from calibration.summaries import is_summary, load_of_point, load_summaries
from calibration.summaries_fit import MAX_NUM_SEQS, fitted
from calibration.summaries_words import said_of_summaries
from calibration.words import most_sequences, said

BUDGET = 2048  # vLLM's max_num_batched_tokens where nothing else is known
LEAST_BUDGET = 64  # with a smaller one hardly a prompt goes through in one step
LONG, OFTEN = 0.25, 0.05  # a step is long if this share of it is not explained; so many of them are not noise
MOST_GAPS = 100_000  # of all runs together; above that, those of every second, third ... request


class Calibration(NamedTuple):
    """The costs of a server and how they were found."""

    costs: Costs
    asynchronous: bool  # None: the runs do not tell
    fit: Fit
    samples: list
    steps: list  # Steps of each run; None where it says nothing of them
    overhead: Overhead
    budget: int  # max_num_batched_tokens, as told or as it looks
    prefill_from: str  # "gaps", "ttft", "one length", "excess" or "nothing"


def calibrated(benches, budget=None):
    """The Calibration of the server behind one or more runs. Raises BadInput where no step can be told.

    budget: its max_num_batched_tokens. None: BUDGET, and less if steps look as if they held chunks of prompts.
    """
    found = at_budget(benches, budget or BUDGET)
    while not budget and looks_cut(found) and found.budget > LEAST_BUDGET:
        found = at_budget(benches, found.budget // 2)
    return found


def looks_cut(found):
    """Do steps without a first token take longer just before one with a first token? Then prompts were cut."""
    samples, residuals = found.samples, found.fit.residuals_us
    long = [residual > LONG * sample.us for sample, residual in zip(samples, residuals)]
    rest = [i for i in range(len(samples) - 1) if not samples[i].prefills]
    before = [long[i] for i in rest if samples[i + 1].prefills]
    as_elsewhere = sum(long[i] for i in rest) / max(1, len(rest))
    return sum(before) >= max(ENOUGH, OFTEN * len(before), 3 * as_elsewhere * len(before))


def at_budget(benches, budget):
    """The Calibration if the server's token budget is this."""
    gaps = sum(len(itls) for bench in benches for itls in bench.itls_s)
    steps = [steps_of(bench, budget, gaps) for bench in benches]
    samples = [sample for of_run in steps if of_run for sample in of_run.samples]
    if not samples:
        raise BadInput("no run has a request of two or more output tokens: nothing says how long a step takes")
    if median(sample.us for sample in samples) < 1:
        raise BadInput("tokens came many at a time, the median gap between them is 0: no step can be told")
    best = fit(samples)
    if best.terms.get("step", 0) < 1 and "sequence" not in best.terms:
        raise BadInput("the gaps between tokens do not tell how long a step takes")
    costs, source = costs_of(best, samples), "gaps" if "prefill" in best.terms else "nothing"
    if source == "nothing":
        costs, source = with_prefill(benches, costs, budget)
    overhead = overhead_of(benches, costs, budget)
    costs = costs._replace(overhead_us=overhead.us)
    return Calibration(costs, overhead.asynchronous, best, samples, steps, overhead, budget, source)


def steps_of(bench, budget, gaps):
    """The Steps of one run of those that have so many gaps in all; None where it says nothing."""
    if bench.starts_s is None:
        return typical_samples(bench)
    mine = sum(map(len, bench.itls_s))
    if not mine:
        return None
    return step_samples(bench, budget, mine if gaps <= MOST_GAPS else -(-MOST_GAPS * mine // gaps))


def costs_of(best, samples):
    """The Costs of a Fit."""
    terms = best.terms
    bends = sorted(term for term in terms if not isinstance(term, str))
    step_us, slope_us = max(1.0, terms.get("step", 0.0)), terms.get("sequence", 0.0)
    points = ()
    if bends:
        ends = [1, *bends, ceil(max(sample.sequences / sample.steps for sample in samples))]
        points = tuple((s, step_us + slope_us * s + fsum(terms[bend] * max(0, s - bend) for bend in bends))
                       for s in sorted(set(ends)))
        slope_us = max(0.0, (points[-1][1] - points[0][1]) / (points[-1][0] - 1))
        step_us = max(1.0, points[0][1] - slope_us)
    prefill_us, context_us, hidden_us = (terms.get(term, 0.0) for term in ("prefill", "context", "hidden"))
    return Costs(prefill_us, step_us, slope_us, 0.0, context_us, hidden_us, points)


def with_prefill(benches, costs, budget):
    """(costs with a prefill, what tells it), where no gap is known to hold one.

    "ttft"        the TTFTs of requests that found the server empty; those of others hold waiting, too
    "one length"  the same, but all prompts have one length: the overhead counts as prefill, to be on the safe side
    "excess"      the mean gap exceeds the median one by what others' prefills add: a rough value
    """
    found = [(bench.prompt_tokens[i], 1e6 * bench.ttfts_s[i]) for bench in benches for i in alone_in(bench)]
    if len(found) < ENOUGH:
        excess_us = fsum(excess for bench in benches if (excess := excess_us_of(bench)))
        tokens = sum(sum(bench.prompt_tokens) for bench in benches if excess_us_of(bench))
        return (costs._replace(prefill_us_per_token=excess_us / tokens), "excess") if tokens else (costs, "nothing")
    samples = []
    for prompt, ttft_us in found:
        chunks = -(-prompt // budget)
        known_us = costs.context_us(prompt) + (chunks - 1) * costs.decode_us(0)
        samples.append(Sample(ttft_us - known_us, 1, 0, prompt, chunks, 0, 1))
    if len({prompt for prompt, _ in found}) == 1:
        beside_us = median(sample.us for sample in samples) - costs.decode_us(1)
        return costs._replace(prefill_us_per_token=max(0.0, beside_us) / found[0][0]), "one length"
    terms = fit(samples).terms
    return costs._replace(prefill_us_per_token=terms.get("prefill", 0.0), hidden_us=terms.get("hidden", 0.0)), "ttft"


def excess_us_of(bench):
    """What prefills took in a run without start times: what gaps have above their median, shared by the sequences."""
    sequences, gaps_s = mean_sequences(bench), [gap for itls in bench.itls_s for gap in itls]
    if bench.starts_s or sequences is None or sequences < 2:
        return 0.0
    return max(0.0, 1e6 * (fsum(gaps_s) - median(gaps_s) * len(gaps_s)) / sequences)


def from_summaries(loads, args):
    """(text of costs.txt, sentences) of the Costs that come nearest to the figures of some loads."""
    told = Server(None, args.max_num_seqs, args.max_num_batched_tokens, args.kv_tokens)
    limits = told._replace(max_num_seqs=told.max_num_seqs or MAX_NUM_SEQS,
                           max_num_batched_tokens=told.max_num_batched_tokens or BUDGET)
    found = fitted(loads, limits)
    server = told._replace(asynchronous=found.asynchronous, measured_sequences=found.points[-1],
                           measured_prompt_tokens=max(tokens for load in loads for tokens in load.prompt_tokens))
    return costs_line(found.costs, server), list(said_of_summaries(loads, found, limits))


def from_gaps(paths, args):
    """The same of detailed results."""
    benches = [bench for path in paths for bench in load_benches(path)]
    found = calibrated(benches, args.max_num_batched_tokens)
    server = Server(found.asynchronous is not False, args.max_num_seqs, args.max_num_batched_tokens, args.kv_tokens,
                    round(most_sequences(found)), max(tokens for bench in benches for tokens in bench.prompt_tokens))
    return costs_line(found.costs, server), said(benches, found, args.max_num_batched_tokens is not None)


def parser():
    parser = parser_of(__doc__)
    parser.add_argument("benches", nargs="*", type=Path, metavar="BENCH.json",
                        help="detailed results, plain or gzipped; a file may hold several runs. Or summaries")
    parser.add_argument("--point", action="append", default=[], metavar="FIGURES",
                        help="figures of one load; two times or more, or beside summaries")
    parser.add_argument("--max-num-batched-tokens", type=count, metavar="N",
                        help=f"the server's token budget of a step (default: {BUDGET}, and not written)")
    parser.add_argument("--max-num-seqs", type=count, metavar="N", help="the server's, written for plan and measured")
    parser.add_argument("--kv-tokens", type=count, metavar="N",
                        help="size of the server's KV cache, as vLLM logs it; written for plan and measured")
    return parser


def main():
    args = parser().parse_args()
    if not args.benches and not args.point:
        raise BadInput("give results of a benchmark, or --point two times or more")
    if args.point or any(map(is_summary, args.benches)):
        loads = [load for path in args.benches for load in load_summaries(path)] + list(map(load_of_point, args.point))
        text, sentences = from_summaries(loads, args)
    else:
        text, sentences = from_gaps(args.benches, args)
    parsed("costs.txt", text)  # what is written can be read
    save(args.out, {"costs.txt": text})
    say(f"costs.txt: {text}")
    for sentence in sentences:
        say(sentence)


if __name__ == "__main__":
    run(main)
