"""Which costs bring the engine nearest to what summaries of some loads say?

    fitted(loads, server) -> SummaryFit(costs=Costs(...), asynchronous=True, error=0.31, ...)

The engine plays every load. An error is the log of predicted over measured, in units of what a
prediction may miss (TOLERANCE). The sum of their squares is made least: first by closed forms, then
coordinate by coordinate in steps of the logs that shrink, for a synchronous and an asynchronous
scheduler. The better one is the server's.

What is fitted is step(S) at the number of sequences that each load had, the prefill of a prompt
token, and the overhead. A cost of the cache and a hidden part of a prefill enter only if lengths
differ, and if the error falls by more than noise. It ignores gaps between tokens (ITL): clients
count chunks of text for tokens.
"""

from math import exp, fsum, log
from operator import attrgetter
from statistics import fmean
from typing import NamedTuple

from common import BadInput, MOST, percentile, progress
from files.costs import Costs, Server
from calibration.fit import solved
from running.processes import cores, in_processes
from calibration.loads import predicted_figures

MOST_TOKENS = 1_000_000  # of a prompt or an output: each load is played some hundred times
MAX_NUM_SEQS = 256  # vLLM's, where nothing else is known
TOLERANCE = {  # the error that counts as one: medians and means are steadier than the 99th percentile
    "p50_ttft_ms": 0.15, "mean_ttft_ms": 0.15, "p99_ttft_ms": 0.20,
    "p50_tpot_ms": 0.08, "mean_tpot_ms": 0.08, "p99_tpot_ms": 0.20,
    "throughput_tps": 0.05,
}
SHARES = (0.1, 0.5)  # of the shortest TTFT that may be overhead: the search starts from both
FIRST_MOVE, LAST_MOVE = 0.4, 0.008  # of the log of a cost
MOST_SWEEPS = 40
SETTLED = 0.01  # a sum of squares that falls by a smaller share stands still
FAR = 1.0  # errors are squared up to here
FEW = 100  # requests
APART = 1.25  # loads whose sequences, or lengths, differ by less than this tell one thing
LOWER, SURELY = 0.2, 0.05  # a further term must lower the sum of squares by this share, and by this much
LEAST_US = 20.0  # an overhead below this is none
FREE = 0.05  # of a step or a TTFT: a cost begins with no less
TAKEN = 0.3  # of a step by the cache, of a prefill by what is hidden: where a further term starts


class SummaryFit(NamedTuple):
    """The costs of a server, and how near they come."""

    costs: Costs
    asynchronous: bool
    error: float  # root of the mean square of all errors; 1 is as far as a prediction may be
    other_error: float  # with the other scheduler; None: it was not tried
    points: list  # sequences at which step(S) was fitted
    terms: list  # further terms that the loads told
    figures: list  # the figures of each load as the engine plays it


class Search(NamedTuple):
    """The costs of a search, by term, as logs of microseconds."""

    logs: dict
    errors: list
    squares: float  # of the errors, summed; see loss


# --- what the loads tell --------------------------------------------------------------------------


def sequences_of(load, max_num_seqs):
    """The mean number of sequences that decode, by Little's law: of what was measured, or of a first guess's play."""
    tps = load.figures.get("throughput_tps")
    tpot_ms = load.figures.get("mean_tpot_ms") or load.figures.get("p50_tpot_ms")
    if not tpot_ms or (not tps and load.clients):
        return min(load.clients or 1, max_num_seqs)
    if not tps:
        guess = Costs(prefill_us_per_token=0, step_us=1000 * tpot_ms)
        tps = predicted_figures(load, guess, Server(False, max_num_seqs, MOST))["throughput_tps"]
    return min(max(1.0, tps * tpot_ms / 1000), load.clients or max_num_seqs, max_num_seqs)


def tells_step(load):
    """Has it a figure that tells how long a step takes? Requests of one token have no TPOT."""
    return "throughput_tps" in load.figures or \
        (max(load.output_tokens) > 1 and any(name.endswith("tpot_ms") for name in load.figures))


def points_of(loads, max_num_seqs):
    """The numbers of sequences at which the loads tell step(S), in order; of two close ones, one."""
    points = []
    for sequences in sorted(sequences_of(load, max_num_seqs) for load in loads):
        if not points or sequences > APART * points[-1]:
            points.append(sequences)
    return sorted({round(point) for point in points})


def further_terms(loads):
    """Terms that the lengths of the loads may tell: a hidden part of a prefill, a cost of the cache."""
    terms = {"hidden": prompt_alone, "context": held}
    return [term for term, of_request in terms.items() if lengths_differ(loads, of_request)]


def lengths_differ(loads, of_request):
    """Are some requests longer than others, of all loads together?"""
    lengths = [of_request(*request) for load in loads for request in zip(load.prompt_tokens, load.output_tokens)]
    low, high = (percentile(lengths, percent) for percent in (10, 90))
    return high > APART * low


def prompt_alone(prompt, _):
    return prompt


def held(prompt, output):
    """Tokens in the cache, on average while a request decodes."""
    return prompt + output / 2


# --- from logs to costs and back ------------------------------------------------------------------


def costs_of(logs):
    """The Costs of the terms of a search. The key of a point is its number of sequences; its value, what it adds."""
    us = {term: exp(value) for term, value in logs.items()}
    points, total_us = [], 0.0
    for sequences in sorted(term for term in us if not isinstance(term, str)):
        total_us += us[sequences]
        points.append((sequences, total_us))
    (first, first_us), (last, last_us) = points[0], points[-1]
    slope_us = (last_us - first_us) / (last - first) if last > first else 0.0
    step_us = max(1.0, first_us - slope_us * first)
    if len(points) == 2:
        slope_us = (last_us - step_us) / last
    overhead_us = us.get("overhead", 0.0)
    return Costs(us["prefill"], step_us, slope_us, overhead_us if overhead_us >= LEAST_US else 0.0,
                 us.get("context", 0.0), us.get("hidden", 0.0), tuple(points) if len(points) > 2 else ())


def closed_form(loads, points, share, max_num_seqs):
    """Logs to begin with: what TPOT and TTFT would be without waiting. share: of the shortest TTFT, the overhead."""
    prefill_us, overhead_us = first_prefill(loads, share)
    steps_us = {point: [] for point in points}
    for load in filter(tells_step, loads):
        sequences = sequences_of(load, max_num_seqs)
        tpot_us = 1000 * tpot_ms_of(load, sequences)
        beside_us = prefill_us * sequences * fmean(load.prompt_tokens) / fmean(load.output_tokens)
        steps_us[min(points, key=lambda point: abs(point - sequences))].append(max(tpot_us / 2, tpot_us - beside_us))
    logs, before_us = {}, 0.0
    for point in points:
        step_us = max(1.0, fmean(steps_us[point]))
        logs[point] = log(max(step_us - before_us, FREE * step_us))
        before_us = max(step_us, before_us)
    return logs | {"prefill": log(prefill_us), "overhead": log(overhead_us)}


def first_prefill(loads, share):
    """(prefill of a token, overhead) in us, from the load with the shortest TTFT; from the TPOT where there is none."""
    found = []
    for load in loads:
        ttft_ms = load.figures.get("p50_ttft_ms") or load.figures.get("mean_ttft_ms") or load.figures.get("p99_ttft_ms")
        tpot_ms = load.figures.get("p50_tpot_ms") or load.figures.get("mean_tpot_ms") or 0.0
        if ttft_ms:
            prefill_us = 1000 * max((1 - share) * ttft_ms - tpot_ms, FREE * ttft_ms) / fmean(load.prompt_tokens)
            found.append((prefill_us, 1000 * share * ttft_ms))
    if not found:
        tpot_us = 1000 * min(tpot_ms_of(load, 1) for load in filter(tells_step, loads))
        return FREE * tpot_us / fmean(loads[0].prompt_tokens), FREE * tpot_us
    return min(found)


def tpot_ms_of(load, sequences):
    """The measured TPOT, or what the throughput says of it."""
    figures = load.figures
    return figures.get("p50_tpot_ms") or figures.get("mean_tpot_ms") or figures.get("p99_tpot_ms") or \
        1000 * sequences / figures["throughput_tps"]


# --- the search -----------------------------------------------------------------------------------


def errors_of(load, figures):
    """The errors of the predicted figures, in units of TOLERANCE. The 99th percentile of a few is their worst one."""
    few = len(load.prompt_tokens) < FEW
    return [log(figures[name] / measured) / TOLERANCE[name] / (2 if few and name.startswith("p99") else 1)
            for name, measured in load.figures.items() if name in TOLERANCE and name in figures]


def tried(logs, loads, server):
    """The Search that stands at these logs."""
    costs = costs_of(logs)
    errors = [error for load in loads for error in errors_of(load, predicted_figures(load, costs, server))]
    return Search(logs, errors, fsum(map(loss, errors)))


def loss(error):
    """Its square; an error beyond FAR counts less than that, so that one odd figure does not pull all others."""
    return error * error if abs(error) < FAR else FAR * (2 * abs(error) - FAR)


def searched(logs, loads, server):
    """The Search that ends where no term's move of LAST_MOVE helps: Newton's steps, then a sweep over the terms."""
    best, move = tried(logs, loads, server), FIRST_MOVE
    for _ in range(MOST_SWEEPS):
        before = best
        best = swept(newton(best, move, loads, server), move, loads, server)
        if best.squares > (1 - SETTLED) * before.squares:
            move /= 2
            if move < LAST_MOVE:
                break
    return best


def swept(best, move, loads, server):
    """The best Search after each term was moved up or down."""
    for term in best.logs:
        for way in (move, -move):
            found = tried(best.logs | {term: best.logs[term] + way}, loads, server)
            if found.squares < best.squares:
                best = found
                break
    return best


def newton(best, move, loads, server):
    """The Search one step of Gauss and Newton further; the same one where none helps. move: of the logs, for slopes."""
    terms = list(best.logs)
    there = [tried(best.logs | {term: best.logs[term] + move / 2}, loads, server).errors for term in terms]
    slopes = [[(b - a) / (move / 2) for a, b in zip(best.errors, errors)] for errors in there]
    weights = [min(1.0, FAR / max(abs(error), 1e-9)) for error in best.errors]
    matrix = [[fsum(w * a * b for w, a, b in zip(weights, one, other)) for other in slopes] for one in slopes]
    right = [-fsum(w * a * b for w, a, b in zip(weights, one, best.errors)) for one in slopes]
    for damping in (0.01, 0.3, 10.0):
        damped = [[value + (damping * (value + 1e-6) if i == k else 0) for k, value in enumerate(row)]
                  for i, row in enumerate(matrix)]
        step = solved(damped, right)
        if step:
            logs = {term: best.logs[term] + max(-1.0, min(1.0, way)) for term, way in zip(terms, step)}
            found = tried(logs, loads, server)
            if found.squares < best.squares:
                return found
    return best


def with_further(best, loads, server):
    """(Search, its further terms): those that the loads may tell, and that lower the error by more than noise."""
    again, terms = revived(best.logs), []
    best = better(best, [again] if again != best.logs else [], loads, server)
    for term in further_terms(loads):
        more = better(None, [grown(revived(best.logs), term, loads)], loads, server)
        if more.squares < (1 - LOWER) * best.squares and more.squares < best.squares - SURELY:
            best = more
            terms.append(term)
    return best, terms


def better(best, starts, loads, server):
    """The best of a Search and of those that begin there."""
    searches = [searched(logs, loads, server) for logs in starts]
    return min(filter(None, [best, *searches]), key=attrgetter("squares"))


def revived(logs):
    """Logs in which nothing is so small that moving it would change nothing."""
    points = sorted(term for term in logs if not isinstance(term, str))
    least = logs[points[0]] + log(FREE)
    return logs | {term: max(logs[term], least) for term in points[1:]} | \
        {"overhead": max(logs["overhead"], least)}


def grown(logs, term, loads):
    """Logs with one more term, which takes a share of a step, or hides a share of a prefill."""
    costs = costs_of(logs)
    if term == "hidden":
        hidden_us = TAKEN * costs.prefill_us_per_token * fmean(loads[0].prompt_tokens)
        return logs | {"hidden": log(hidden_us), "prefill": logs["prefill"] + log(1 + TAKEN)}
    points = sorted(term for term in logs if not isinstance(term, str))
    load = max(loads, key=lambda load: len(load.prompt_tokens))
    cached = points[-1] * fmean(map(held, load.prompt_tokens, load.output_tokens))
    less = {point: logs[point] + log(1 - TAKEN) for point in points}
    return logs | less | {"context": log(TAKEN * costs.decode_us(points[-1]) / cached)}


def fitted(loads, server):
    """The SummaryFit of a server to its loads. server: its Server with limits; asynchronous None: both are tried.

    Raises BadInput where the figures cannot tell a step.
    """
    if len(loads) < 2:
        raise BadInput(f"summaries of two loads or more are needed to fit costs, found {len(loads)}")
    for load in loads:
        longest = max(*load.prompt_tokens, *load.output_tokens)
        if longest > MOST_TOKENS:
            raise BadInput(f"{load.name}: expected requests of at most {MOST_TOKENS:,} tokens, found {longest:,}")
    telling = list(filter(tells_step, loads))
    if not telling:
        raise BadInput("the loads have no figure that tells a step: TPOT or throughput")
    points = points_of(telling, server.max_num_seqs)
    kinds = [True, False] if server.asynchronous is None else [server.asynchronous]
    servers = [server._replace(asynchronous=kind) for kind in kinds]
    starts = [closed_form(loads, points, share, server.max_num_seqs) for share in SHARES]
    jobs = [(searched, start, loads, one) for one in servers for start in starts]
    done = dict(progress(in_processes(jobs, cores()), len(jobs)))
    best = [min((done[len(starts) * k + i] for i in range(len(starts))), key=attrgetter("squares"))
            for k in range(len(servers))]
    jobs = [(with_further, one_best, loads, one) for one_best, one in zip(best, servers)]
    more = dict(progress(in_processes(jobs, cores()), len(jobs)))
    order = sorted(range(len(servers)), key=lambda k: more[k][0].squares)
    search, terms = more[order[0]]
    costs = costs_of(search.logs)
    figures = [predicted_figures(load, costs, servers[order[0]]) for load in loads]
    count = sum(len(errors_of(load, own)) for load, own in zip(loads, figures))
    errors = [(more[k][0].squares / count) ** 0.5 for k in order]
    return SummaryFit(costs, servers[order[0]].asynchronous, errors[0], errors[1] if len(errors) > 1 else None, points,
                      terms, figures)
