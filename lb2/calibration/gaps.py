"""What does a step cost on a server of which every gap between two tokens is known?

    calibrated(benches) -> Calibration(costs=Costs(...), asynchronous=True, ...)

Every gap is a sample of one step (samples.py). The costs that explain most of them are fitted
(fit.py), and the way to the scheduler is told by the TTFTs (overhead.py). Where no gap is known to
hold a prefill, the TTFTs of requests that found the server empty tell it, or the mean gap.
"""

from math import ceil, fsum
from statistics import median
from typing import NamedTuple

from common import BadInput
from files.costs import BUDGET, Costs
from calibration.fit import Fit, applied, fit, roughly
from calibration.overhead import ENOUGH, Overhead, alone_in, overhead_of
from calibration.samples import Sample, at_budget, computed_tokens, mean_sequences, step_samples, typical_samples

LEAST_BUDGET = 64  # with a smaller one hardly a prompt goes through in one step
ROUGH = 0.01  # of a step, the mean residual: prompts may have been cut in chunks
LARGER_BUDGETS = (8192, 16384)  # that vLLM takes on large GPUs
LOWER = 0.2  # a smaller budget is the server's if the residuals become smaller by this share
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

    budget: its max_num_batched_tokens. None: BUDGET; or more, if steps hold more; or less, if that explains the steps.
    """
    gaps = sum(len(itls) for bench in benches for itls in bench.itls_s)
    runs = [steps_of(bench, gaps) for bench in benches]
    best = cut = fitted_at(runs, budget or BUDGET)
    for larger in LARGER_BUDGETS:
        if not budget and holds_more(best):
            best = fitted_at(runs, larger)
    while not budget and best.budget <= BUDGET and cut.budget > LEAST_BUDGET and \
            (min(errors_of(cut)) > ROUGH or not tells_prefill(cut)):
        cut = fitted_at(runs, cut.budget // 2, list(cut.fit.terms | {"prefill": 0.0}))
        lower = [less < (1 - LOWER) * more for less, more in zip(errors_of(cut), errors_of(best))]
        if "prefill" in cut.fit.terms and all(lower):
            best = cut
    if not budget and best.budget < BUDGET:
        best = fitted_at(runs, best.budget)
    return with_overhead(benches, best)


def errors_of(found):
    """The mean residual as a share of a step, two ways. Of n steps told together it counts whole, and as one of them.

    Where a fit is wrong, both are large. Noise alone makes the first one smaller, the more steps are told together:
    it grows as root n. A part of the run that is otherwise slow makes the second one smaller.
    """
    sums, of_steps = 0.0, 0.0
    for residual, sample in zip(found.fit.residuals_us, found.samples):
        sums += abs(residual) * sample.gaps
        of_steps += abs(residual) * sample.gaps / sample.steps**0.5
    return sums / fsum(sample.us * sample.gaps for sample in found.samples), \
        of_steps / fsum(sample.us * sample.gaps / sample.steps for sample in found.samples)


def tells_prefill(found):
    """Does the fit have a prefill, or did hardly a step have one?"""
    return "prefill" in found.fit.terms or sum(sample.prefills > 0 for sample in found.samples) < ENOUGH


def holds_more(found):
    """Do steps take as long as all prompts need whose first token came with them, though these exceed the budget?

    If a step cannot hold more than the budget, it takes as long as so many tokens need: which of the two is nearer?
    """
    big = [sample for steps in found.steps if steps for _, sample in steps.single
           if sample.prompt_tokens > found.budget]
    prefill_us = found.fit.terms.get("prefill", 0.0)
    if len(big) < ENOUGH or not prefill_us:
        return False
    residuals = applied(found.fit.terms, big).residuals_us
    all_of_it = sum(residual > -prefill_us * (sample.prompt_tokens - found.budget) / 2
                    for residual, sample in zip(residuals, big))
    return all_of_it > len(big) / 2


def fitted_at(runs, budget, terms=()):
    """The Calibration if the server's token budget is this, without prefill that only TTFTs tell, and overhead.

    terms: to fit only these, and roughly.
    """
    steps = [steps and at_budget(steps, budget) for steps in runs]
    samples = [sample for of_run in steps if of_run for sample in of_run.samples]
    if not samples:
        raise BadInput("no run has a request of two or more output tokens: nothing says how long a step takes")
    if median(sample.us for sample in samples) < 1:
        raise BadInput("tokens came many at a time, the median gap between them is 0: no step can be told")
    best = roughly(terms, samples) if terms else fit(samples)
    if best.terms.get("step", 0) < 1 and "sequence" not in best.terms:
        raise BadInput("the gaps between tokens do not tell how long a step takes")
    source = "gaps" if "prefill" in best.terms else "nothing"
    return Calibration(costs_of(best, samples), None, best, samples, steps, None, budget, source)


def with_overhead(benches, found):
    """The Calibration with what TTFTs tell: the overhead, the scheduler, and a prefill that no gap told."""
    costs, source = found.costs, found.prefill_from
    if source == "nothing":
        costs, source = with_prefill(benches, costs, found.budget)
    overhead = overhead_of(benches, costs, found.budget)
    return found._replace(costs=costs._replace(overhead_us=overhead.us), asynchronous=overhead.asynchronous,
                          overhead=overhead, prefill_from=source)


def steps_of(bench, gaps):
    """The Steps of one run of those that have so many gaps in all; None where it says nothing."""
    if bench.starts_s is None:
        return typical_samples(bench)
    mine = sum(map(len, bench.itls_s))
    if not mine:
        return None
    return step_samples(bench, mine if gaps <= MOST_GAPS else -(-MOST_GAPS * mine // gaps))


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
    found = [(computed_tokens(bench)[i], 1e6 * bench.ttfts_s[i]) for bench in benches for i in alone_in(bench)]
    if len(found) < ENOUGH:
        excess_us = fsum(excess for bench in benches if (excess := excess_us_of(bench)))
        tokens = sum(sum(computed_tokens(bench)) for bench in benches if excess_us_of(bench))
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
