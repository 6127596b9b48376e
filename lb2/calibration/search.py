"""Which costs bring the engine nearest to what summaries of some loads say?

    fitted(loads, server) -> SummaryFit(way=Way(server=Server(...), ...), error=0.31, ...)

The engine plays every load. An error is the log of predicted over measured, in units of what a
prediction may miss (TOLERANCE). The sum of their squares is made least: first by closed forms, then
coordinate by coordinate in steps of the logs that shrink, for a synchronous and an asynchronous
scheduler. The better one is the server's.

What is fitted is step(S) at the number of sequences that each load had, the prefill of a prompt
token, and the overhead. Between these numbers step(S) is a line, or a line of the root of S. All
else enters only if the error falls by more than noise: another token budget than vLLM's default, a
hidden part of a prefill, a cost of the cache, a KV cache that is short, and the experts of a
mixture. Each sequence of a step takes k of its E experts, and S of them read E (1 - (1 - k/E)^S).
It ignores gaps between tokens (ITL): clients count chunks of text for tokens.
"""

from math import exp, fsum, inf, log
from operator import attrgetter
from statistics import fmean
from typing import NamedTuple

from common import BadInput, MOST, count, percentile, progress
from files.costs import Costs, MAX_NUM_SEQS, Server, interpolated
from calibration.fit import solved
from running.processes import cores, in_processes
from calibration.loads import predicted_figures

MOST_TOKENS = 1_000_000  # of a prompt or an output: each load is played some hundred times
TOLERANCE = {  # the error that counts as one: medians and means are steadier than the 99th percentile
    "p50_ttft_ms": 0.15, "mean_ttft_ms": 0.15, "p99_ttft_ms": 0.20,
    "p50_tpot_ms": 0.08, "mean_tpot_ms": 0.08, "p99_tpot_ms": 0.20,
    "throughput_tps": 0.05,
}
BUDGETS = (2048, 8192, 16384)  # max_num_batched_tokens that vLLM takes by default on one GPU or another
EXPERTS = (16, 32)  # E/k of most mixtures: 8 of 128, 4 of 128, 8 of 256 experts serve a token
DRAWN = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)  # sequences: points of a curve
SHARES = (0.1, 0.5)  # of the shortest TTFT that may be overhead: the search starts from both
FIRST_MOVE, ROUGH_MOVE, LAST_MOVE = 0.4, 0.05, 0.008  # of the log of a cost
MOST_SWEEPS, FEW_SWEEPS = 40, 12  # of the last search, of one that only compares
SETTLED = 0.01  # a sum of squares that falls by a smaller share stands still
FAR = 1.0  # errors are squared up to here
FEW = 100  # requests
GOOD = 0.1  # an error so small is noise: no further term is looked for
APART = 1.25  # loads whose sequences, or lengths, differ by less than this tell one thing
LOWER, SURELY = 0.2, 0.05  # a further term must lower the sum of squares by this share, and by this much
QUEUED = 0.25  # of the running sequences: so many that wait are more than a prefill's time brings
LEAST_US = 20.0  # an overhead below this is none
FREE = 0.05  # of a step or a TTFT: a cost begins with no less
TAKEN = 0.3  # of a step by the cache, of a prefill by what is hidden: where a further term starts


class Way(NamedTuple):
    """What a search does not move: the server's limits and scheduler, and the shape of step(S)."""

    server: Server
    shape: str = "line"  # or "root"
    experts: float = None  # E/k, where a mixture of experts adds to the shape


class Search(NamedTuple):
    """The costs of a search, by term, as logs of microseconds; that of the memory in tokens."""

    logs: dict
    errors: list
    squares: float  # of the errors, summed; see loss
    way: Way


class SummaryFit(NamedTuple):
    """A server, and how near its costs come."""

    way: Way  # its server has the costs
    error: float  # root of the mean square of all errors; 1 is as far as a prediction may be
    other_error: float  # with the other scheduler; None: it was not tried
    points: list  # sequences at which step(S) was fitted
    terms: list  # further terms that the loads told
    figures: list  # the figures of each load as the engine plays it


def ratio(text):
    """argparse type: 128/8, how many times more experts there are than serve a token."""
    experts, _, active = text.partition("/")
    value = count(experts) / count(active)
    if value <= 1:
        raise BadInput(f"expected E/k, more experts than serve a token, as 128/8, found {text[:40]}")
    return value


# --- what the loads tell --------------------------------------------------------------------------


def sequences_of(load, max_num_seqs):
    """The mean number of sequences that decode, by Little's law: of what was measured, or of a first guess's play."""
    tps = load.figures.get("throughput_tps")
    tpot_ms = load.figures.get("mean_tpot_ms") or load.figures.get("p50_tpot_ms")
    if not tpot_ms or (not tps and load.clients):
        return min(load.clients or 1, max_num_seqs)
    if not tps:
        guess = Costs(prefill_us_per_token=0, step_us=1000 * tpot_ms)
        tps = predicted_figures(load, Server(guess, False, max_num_seqs, MOST))["throughput_tps"]
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


def lengths_differ(loads, of_request):
    """Are some requests longer than others, of all loads together?"""
    lengths = [of_request(*request) for load in loads for request in zip(load.prompt_tokens, load.output_tokens)]
    low, high = (percentile(lengths, percent) for percent in (10, 90))
    return high > APART * low


def queues(load, max_num_seqs):
    """Did many requests wait at the server, by Little's law? Then it may be its memory that let no more run."""
    ttft_ms = load.figures.get("mean_ttft_ms") or load.figures.get("p50_ttft_ms", 0)
    waiting = ttft_ms / 1000 * load.figures.get("throughput_tps", 0) / fmean(load.output_tokens)
    return waiting > QUEUED * sequences_of(load, max_num_seqs)


def least_memory(loads):
    """Tokens of a KV cache in which the longest request fits, with room to spare."""
    return 64 + max(prompt + output for load in loads for prompt, output in zip(load.prompt_tokens, load.output_tokens))


def prompt_alone(prompt, _):
    return prompt


def held(prompt, output):
    """Tokens in the cache, on average while a request decodes."""
    return prompt + output / 2


# --- from logs to costs and back ------------------------------------------------------------------


def read_experts(ratio, sequences):
    """How many experts a step reads, in units of those of one sequence: E/k (1 - (1 - k/E)^S). ratio: E/k."""
    return ratio * (1 - (1 - 1 / ratio) ** sequences)


def costs_of(logs, way):
    """The Costs of the terms of a search. The key of a point is its number of sequences; its value, what it adds."""
    us = {term: exp(value) for term, value in logs.items()}
    points, total_us = [], 0.0
    for sequences in sorted(term for term in us if not isinstance(term, str)):
        total_us += us[sequences]
        points.append((sequences, total_us))
    (first, first_us), (last, last_us) = points[0], points[-1]
    if len(points) > 1 and (way.shape == "root" or "experts" in us):
        bent = [(sequences**0.5 if way.shape == "root" else sequences, us) for sequences, us in points]
        points = []
        for sequences in DRAWN:
            step_us = interpolated(bent, sequences**0.5 if way.shape == "root" else sequences)
            if "experts" in us:
                step_us += us["experts"] * (read_experts(way.experts, sequences) - read_experts(way.experts, first))
            points.append((sequences, max(1.0, step_us)))
    slope_us = (last_us - first_us) / (last - first) if last > first else 0.0
    step_us = max(1.0, first_us - slope_us * first)
    if len(points) == 2:
        slope_us = (last_us - step_us) / last
    overhead_us = us.get("overhead", 0.0)
    return Costs(us["prefill"], step_us, slope_us, overhead_us if overhead_us >= LEAST_US else 0.0,
                 us.get("context", 0.0), us.get("hidden", 0.0), tuple(points) if len(points) > 2 else ())


def server_of(logs, way):
    """The Server of a search: its KV cache may be a term of it, too."""
    memory = {"kv_tokens": round(exp(logs["memory"]))} if "memory" in logs else {}
    return way.server._replace(costs=costs_of(logs, way), **memory)


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


def tried(logs, loads, way, most=inf):
    """The Search that stands at these logs. Where its squares exceed `most`, the other loads are not simulated."""
    if "memory" in logs:
        logs = logs | {"memory": max(logs["memory"], log(least_memory(loads)))}
    server = server_of(logs, way)
    errors = []
    for load in loads:
        errors += errors_of(load, predicted_figures(load, server))
        if fsum(map(loss, errors)) > most:
            break
    return Search(logs, errors, fsum(map(loss, errors)), way)


def loss(error):
    """Its square; an error beyond FAR counts less than that, so that one odd figure does not pull all others."""
    return error * error if abs(error) < FAR else FAR * (2 * abs(error) - FAR)


def searched(logs, loads, way, last_move):
    """The Search that ends where no term's move of last_move helps: Newton's steps, then a sweep over the terms."""
    best, move = tried(logs, loads, way), FIRST_MOVE
    for _ in range(MOST_SWEEPS if last_move == LAST_MOVE else FEW_SWEEPS):
        before = best
        best = swept(newton(best, move, loads), move, loads)
        if best.squares > (1 - SETTLED) * before.squares:
            move /= 2
            if move < last_move:
                break
    return best


def swept(best, move, loads):
    """The best Search after each term was moved up or down."""
    for term in best.logs:
        for by in (move, -move):
            found = tried(best.logs | {term: best.logs[term] + by}, loads, best.way, best.squares)
            if found.squares < best.squares:
                best = found
                break
    return best


def newton(best, move, loads):
    """The Search one step of Gauss and Newton further; the same one where none helps. move: of the logs, for slopes."""
    terms = list(best.logs)
    there = [tried(best.logs | {term: best.logs[term] + move / 2}, loads, best.way).errors for term in terms]
    slopes = [[(b - a) / (move / 2) for a, b in zip(best.errors, errors)] for errors in there]
    weights = [min(1.0, FAR / max(abs(error), 1e-9)) for error in best.errors]
    matrix = [[fsum(w * a * b for w, a, b in zip(weights, one, other)) for other in slopes] for one in slopes]
    right = [-fsum(w * a * b for w, a, b in zip(weights, one, best.errors)) for one in slopes]
    for damping in (0.01, 0.3, 10.0):
        damped = [[value + (damping * (value + 1e-6) if i == k else 0) for k, value in enumerate(row)]
                  for i, row in enumerate(matrix)]
        step = solved(damped, right)
        if step:
            logs = {term: best.logs[term] + max(-1.0, min(1.0, by)) for term, by in zip(terms, step)}
            found = tried(logs, loads, best.way, best.squares)
            if found.squares < best.squares:
                return found
    return best


# --- further terms --------------------------------------------------------------------------------


def chosen(loads, points, server, budgets, told_experts):
    """(Search, its further terms) of one scheduler: the plainest way, unless another lowers the error by more than
    noise.
    """
    plain = Way(server._replace(max_num_batched_tokens=budgets[0]))
    starts = [closed_form(loads, points, share, server.max_num_seqs) for share in SHARES]
    best = min((searched(start, loads, plain, ROUGH_MOVE) for start in starts), key=attrgetter("squares"))
    for budget in budgets[1:]:
        way = best.way._replace(server=server._replace(max_num_batched_tokens=budget))
        if tried(best.logs, loads, way).errors != best.errors:  # else no step is as large as that
            best = better(best, best.logs, way, loads)
    if len(points) > 1:
        best = better(best, best.logs, best.way._replace(shape="root"), loads, 0.0)
    terms, known = [], further_terms(loads, points, server)
    if told_experts and len(points) > 1:
        way = best.way._replace(shape="line", experts=told_experts)
        best = better(best, grown(movable(best.logs), "experts", loads, way), way, loads, 0.0)
        terms = [term for term in ("experts",) if term in best.logs]
    while best.squares > GOOD * GOOD * len(best.errors):
        more = best
        for term, ratio in known:
            way = best.way._replace(experts=ratio, shape="line") if ratio else best.way
            if term not in best.logs:
                found = better(best, grown(movable(best.logs), term, loads, way), way, loads)
                more = min(more, found, key=attrgetter("squares"))
        if more is best:
            break
        terms += [term for term in more.logs if term not in best.logs]
        best = more
    return searched(movable(best.logs), loads, best.way, LAST_MOVE), terms


def better(best, logs, way, loads, share=LOWER):
    """The Search from these logs if it lowers the squares by this share and by more than noise, else the best so far.

    share: 0 for what adds no constant, or what the user says of the server.
    """
    found = searched(movable(logs), loads, way, ROUGH_MOVE)
    least = SURELY if share else 0.0
    return found if found.squares < min((1 - share) * best.squares, best.squares - least) else best


def further_terms(loads, points, server):
    """(term, E/k or None) of each term that the loads may tell."""
    if any(load.drawn for load in loads):
        return []  # what a draw leaves would be taken for a term
    terms = {"hidden": prompt_alone, "context": held}
    found = [(term, None) for term, of_request in terms.items() if lengths_differ(loads, of_request)]
    if not server.kv_tokens and any(queues(load, server.max_num_seqs) for load in loads):
        found.append(("memory", None))
    if len(points) > 1:
        found += [("experts", ratio) for ratio in EXPERTS]
    return found


def movable(logs):
    """Logs in which nothing is so small that moving it would change nothing."""
    points = sorted(term for term in logs if not isinstance(term, str))
    least = logs[points[0]] + log(FREE)
    return logs | {term: max(logs[term], least) for term in points[1:]} | \
        {"overhead": max(logs["overhead"], least)}


def grown(logs, term, loads, way):
    """Logs with one more term, which takes a share of a step, hides a share of a prefill, or begins to bind."""
    costs = costs_of(logs, way)
    points = sorted(term for term in logs if not isinstance(term, str))
    if term == "hidden":
        hidden_us = TAKEN * costs.prefill_us_per_token * fmean(loads[0].prompt_tokens)
        return logs | {"hidden": log(hidden_us), "prefill": logs["prefill"] + log(1 + TAKEN)}
    if term == "memory":
        tokens = max(sequences_of(load, way.server.max_num_seqs) * fmean(map(held, load.prompt_tokens,
                                                                            load.output_tokens)) for load in loads)
        return logs | {"memory": log(max(tokens, 2 * least_memory(loads)))}
    if term == "experts":
        rise = read_experts(way.experts, points[-1]) - read_experts(way.experts, points[0])
        experts_us = (1 - TAKEN) * fsum(exp(logs[point]) for point in points[1:]) / rise
        return logs | {point: logs[point] + log(TAKEN) for point in points[1:]} | {"experts": log(experts_us)}
    load = max(loads, key=lambda load: len(load.prompt_tokens))
    cached = points[-1] * fmean(map(held, load.prompt_tokens, load.output_tokens))
    less = {point: logs[point] + log(1 - TAKEN) for point in points}
    return logs | less | {"context": log(TAKEN * costs.decode_us(points[-1]) / cached)}


# --- all of it ------------------------------------------------------------------------------------


def fitted(loads, server, experts=None):
    """The SummaryFit of a server to its loads. Raises BadInput where the figures cannot tell a step.

    server: what is known of it; asynchronous None: both schedulers are tried; no budget: BUDGETS are. experts: E/k.
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
    server = server._replace(max_num_seqs=server.max_num_seqs or MAX_NUM_SEQS)
    points = points_of(telling, server.max_num_seqs)
    budgets = [server.max_num_batched_tokens] if server.max_num_batched_tokens else BUDGETS
    kinds = [True, False] if server.asynchronous is None else [server.asynchronous]
    jobs = [(chosen, loads, points, server._replace(asynchronous=kind), budgets, experts) for kind in kinds]
    done = dict(progress(in_processes(jobs, cores()), len(jobs)))
    order = sorted(done, key=lambda k: done[k][0].squares)
    (search, terms), n = done[order[0]], len(done[0][0].errors)
    way = search.way._replace(server=server_of(search.logs, search.way))
    figures = [predicted_figures(load, way.server) for load in loads]
    errors = [(done[k][0].squares / n) ** 0.5 for k in order]
    return SummaryFit(way, errors[0], errors[1] if len(errors) > 1 else None, points, terms, figures)
