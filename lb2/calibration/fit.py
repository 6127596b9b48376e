"""Which costs explain the samples of steps best?

    us = steps x step + sequences x per sequence + cached x context
         + max(0, prompt x prefill - prefills x hidden)

Least absolute deviations: half of the gaps lie above, half below, and a few that are far off do not
pull. The method is iteratively reweighted least squares: a sample weighs one by its last residual.
The max is solved by taking sides: the samples above the bend and those below it are fitted each
with their own form, then they take sides again, until all stand still.

    fit(samples) -> Fit(terms={"step": 8002.7, "prefill": 51.6, "sequence": 48.0}, ...)

A term enters only if it lowers the residuals by more than noise does and changes what a step takes,
the one that lowers them most first. No cost is negative. Only a bend of step(S) may be: where one
line does not do, step(S) has straight pieces between 1, 2, 4, 8 ... sequences.
"""

from math import fsum, log
from operator import attrgetter, mul
from typing import NamedTuple

SURELY = 10.0  # a term must raise the log of the likelihood (of Laplace's distribution) by this much,
LOWER = 0.02  # and lower the mean residual by this share, or move what is explained of a step:
USEFUL = 0.005  # of a step on average. No smaller residual and no smaller move is worth a term
RESOLUTION_US = 1.0  # of a clock: no residual is told from a smaller one
PICKED = 3_000  # samples that are enough to choose the terms by
FEW = 500  # samples that are enough to compare two fits by
ROUNDS = 40
SETTLED = 1e-5  # a sum of residuals that falls by a smaller share stands still


class Fit(NamedTuple):
    """Costs in microseconds by term, what they leave of each sample, and of a gap on average."""

    terms: dict
    residuals_us: list
    mean_us: float


# --- least absolute deviations --------------------------------------------------------------------


def solved(matrix, right):
    """The solution of a small system of linear equations, by elimination; None if it has none or many."""
    rows = [[*row, value] for row, value in zip(matrix, right)]
    for i in range(len(rows)):
        pivot = max(range(i, len(rows)), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        if abs(rows[i][i]) < 1e-9 * abs(matrix[i][i]) or rows[i][i] == 0:
            return None
        for k in range(len(rows)):
            if k != i:
                factor = rows[k][i] / rows[i][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i])]
    return [row[-1] / row[i] for i, row in enumerate(rows)]


def least_deviations(columns, ys, times, residuals):
    """(coefficients, residuals) that make the sum of the absolute residuals least; None if columns depend on others.

    times: how many times each row counts. residuals: those of a similar fit, to begin with.
    """
    weights, least = reweighted(times, residuals), None
    for _ in range(ROUNDS):
        weighted = [list(map(mul, weights, column)) for column in columns]
        half = [[fsum(map(mul, row, column)) for column in columns[i:]] for i, row in enumerate(weighted)]
        matrix = [[half[min(i, j)][abs(i - j)] for j in range(len(half))] for i in range(len(half))]  # symmetric
        found = solved(matrix, [fsum(map(mul, row, ys)) for row in weighted])
        if found is None:
            return None
        residuals = left(ys, zip(found, columns))
        total = fsum(map(mul, times, map(abs, residuals)))
        if total < RESOLUTION_US * fsum(times) or (least and total > (1 - SETTLED) * least):
            break
        least = total
        weights = reweighted(times, residuals)
    return found, residuals


def left(ys, parts):
    """What is left of ys without the parts (coefficient, column)."""
    for coefficient, column in parts:
        ys = [y - coefficient * x for y, x in zip(ys, column)]
    return ys


def reweighted(times, residuals):
    """What each row weighs in a least squares fit, so that the fit becomes one of least absolute deviations."""
    return [count / max(abs(residual), RESOLUTION_US) for count, residual in zip(times, residuals)]


# --- terms ----------------------------------------------------------------------------------------


def column(term, samples, above):
    """What a term's cost is multiplied with, in each sample. above: is the sample on the steep side of the bend?"""
    if term == "step":
        return [sample.steps for sample in samples]
    if term == "sequence":
        return [sample.sequences for sample in samples]
    if term == "context":
        return [sample.cached_tokens for sample in samples]
    if term == "prefill":
        return [sample.prompt_tokens if side else 0 for sample, side in zip(samples, above)]
    if term == "hidden":
        return [-sample.prefills if side else 0 for sample, side in zip(samples, above)]
    return [max(0, sample.sequences - term * sample.steps) for sample in samples]  # step(S) bends at this number


def fitted(terms, samples, near):
    """The Fit of these terms; None where they cannot be told apart or one comes out negative.

    near: costs to begin with.
    """
    if "hidden" not in terms or "hidden" in near:
        return from_sides(terms, samples, near, [is_steep(sample, near) for sample in samples])
    prompts = sorted(sample.prompt_tokens / sample.prefills for sample in samples if sample.prefills)
    if not prompts:
        return None
    bends = {prompts[len(prompts) * quarter // 4] for quarter in range(4)}  # where it bends is not known: try a few
    fits = []
    for bend in bends:
        steep = [sample.prefills > 0 and sample.prompt_tokens >= bend * sample.prefills for sample in samples]
        fits += [fit for fit in [from_sides(terms, samples, near, steep)] if fit]
    return min(fits, key=attrgetter("mean_us"), default=None)


def from_sides(terms, samples, near, steep):
    """The Fit of these terms that is found when it begins with these sides of the bend."""
    ys, gaps = [sample.us for sample in samples], [sample.gaps for sample in samples]
    residuals, best = applied(near, samples).residuals_us, None
    for _ in range(ROUNDS):
        found = least_deviations([column(term, samples, steep) for term in terms], ys, gaps, residuals)
        if found is None:
            return best
        costs, residuals = dict(zip(terms, found[0])), found[1]
        if costs.get("step", 0) < 0:  # all of a step grows with what is in it
            return fitted([term for term in terms if term != "step"], samples, near)
        if any(cost < 0 for term, cost in costs.items() if isinstance(term, str)):
            return best
        fit = applied(costs, samples)
        if best and fit.mean_us >= best.mean_us:
            return best
        best, before = fit, steep
        steep = [is_steep(sample, costs) for sample in samples]
        if steep == before:
            return best
    return best


def applied(costs, samples):
    """The Fit that these costs are to other samples than those that they were fitted to."""
    steep = [is_steep(sample, costs) for sample in samples]
    ys, gaps = [sample.us for sample in samples], [sample.gaps for sample in samples]
    residuals = left(ys, [(costs[term], column(term, samples, steep)) for term in costs])
    return Fit(costs, residuals, RESOLUTION_US + fsum(map(mul, gaps, map(abs, residuals))) / fsum(gaps))


def is_steep(sample, costs):
    """Does more of a prefill take longer here, or would it still be hidden?"""
    hidden = sample.prefills * costs.get("hidden", 0)
    return sample.prefills > 0 and sample.prompt_tokens * costs.get("prefill", 0) >= hidden


def is_better(more, less, samples):
    """Does one Fit leave less than another by more than noise, so that the steps are explained otherwise?

    Beside large noise, a cost that many samples tell lowers the residuals little. It counts if it moves the steps.
    """
    gaps = [sample.gaps for sample in samples]
    step_us = fsum(map(mul, gaps, [sample.us for sample in samples])) / fsum(gaps)
    ratio = (less.mean_us + USEFUL * step_us) / (more.mean_us + USEFUL * step_us)
    if ratio > 1 / (1 - LOWER):
        return len(samples) * log(ratio) > SURELY
    moved = [abs(a - b) for a, b in zip(more.residuals_us, less.residuals_us)]
    return len(samples) * log(ratio) > SURELY and fsum(map(mul, gaps, moved)) > USEFUL * step_us * fsum(gaps)


def candidates(terms, samples):
    """Terms that may come next: hidden needs a prefill to hide, a bend needs a line. A step may come back."""
    most = max(sample.sequences / sample.steps for sample in samples)
    bends = [2**k for k in range(1, 20) if 2**k < most] if "sequence" in terms else []
    hidden = ["hidden"] if "prefill" in terms else []
    return [term for term in ["step", "prefill", "sequence", "context", *hidden, *bends] if term not in terms]


def roughly(terms, samples):
    """The Fit of these terms to a few of the samples, to compare: with a hidden part of a prefill, if that is better."""
    some = samples[:: -(-len(samples) // FEW)]
    fits = [fitted(each, some, {}) for each in (["step"], terms, [*terms, "hidden"])]
    return applied(min(filter(None, fits), key=attrgetter("mean_us")).terms, samples)


def fit(samples):
    """The Fit of the terms that the samples tell."""
    some = samples[:: -(-len(samples) // PICKED)]
    best = fitted(["step"], some, {})
    while True:
        terms = list(best.terms)
        more = [fit for term in candidates(terms, some) if (fit := fitted([*terms, term], some, best.terms))]
        better = min(more, key=attrgetter("mean_us"), default=best)
        if not is_better(better, best, some):
            return fitted(terms, samples, best.terms) or applied(best.terms, samples)
        best = better
