"""A plan in words: what decides first, then the answers, then why.

    decides(plan)    -> sentences about what the numbers rest on
    answered(plan)   -> sentences with the answers
"""

import math
from typing import NamedTuple

from paging.scheduler import UNLIMITED
from planning.answers import Answers, Asked
from planning.arrivals import Grid, most_at_once
from planning.own_run import TIMES, apart
from planning.results import number_of, state, three_digits
from planning.trials import FEW_BURSTS, Problem

FEW = 5  # requests beyond the percentile, below which it is not firm
CLIFF = 0.8  # of the answer: a slower answer below it is a cliff
NAMES = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "e2e_ms": "E2E", "itl_ms": "ITL"}


class Plan(NamedTuple):
    """What there is to say something about."""

    problem: Problem
    asked: Asked
    found: Answers
    own: float  # the trace's rate; None: it has none
    grid: Grid  # on which its arrivals lie, or None
    spread: bool  # --spread was given
    closed: bool  # a closed loop's result
    costs_name: str  # None: the lab's costs
    measured_to: tuple  # (sequences, prompt tokens) up to which costs were measured, each None if not known


def said(plan):
    """All sentences, in order."""
    return [*disagreement(plan), *decides(plan), *answered(plan)]


def ms(value):
    """Milliseconds or tokens/s with three digits: 18870.3 -> 18,900"""
    return three_digits(value) if value < 1000 else f"{float(three_digits(value)):,.0f}"


def counted(number, noun):
    """1 client, 2 clients."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent_name(plan):
    return f"p{plan.problem.targets.percentile:g}"


def targeted(plan):
    """The measures that have a target."""
    return [name for name, target in zip(TIMES, plan.problem.targets[1:]) if target != math.inf]


# --- first of all -----------------------------------------------------------------------------------


def disagreement(plan):
    """A measured run beside what the plan's server would have done; a contradiction comes first."""
    check, targets = plan.found.check, plan.problem.targets
    if check is None:
        return
    where = f"at its own {three_digits(check.predicted.load.rps)} requests/s" if check.predicted.load.rps else \
        f"with its own {check.predicted.load.clients} clients"
    parts = []
    for name in targeted(plan):
        theirs, ours = getattr(check.measured, name), getattr(check.predicted.trace, name)
        inside = check.predicted.range_of(name)
        if theirs is not None and inside:
            parts.append(f"{percent_name(plan)} {NAMES[name]} {ms(theirs)} ms measured, {ms(ours)} predicted "
                         f"(replays {ms(inside[0])} to {ms(inside[1])})")
    what = f"This file is a measured run; {where}: {'; '.join(parts) or 'it measured nothing that has a target'}."
    wrong = apart(check, targets)
    if wrong:
        names, lie = " and ".join(NAMES[name] for name in wrong), "lies" if len(wrong) == 1 else "lie"
        yield f"DISAGREEMENT: the measured {names} {lie} outside the range of the replays. Do not use the answers " \
              "before you know why: other costs, other limits, or a machine that drifts."
    best, own_rps = plan.found.limit and plan.found.open[plan.found.limit].best, check.predicted.load.rps
    if best and own_rps and not check.measured.meets(targets) and best.load.rps >= own_rps:
        yield f"DISAGREEMENT: the run itself missed a target {where}, and the plan allows " \
              f"{three_digits(best.load.rps)}."
    yield what


def decides(plan):
    """What the answers rest on, and the user may not know."""
    problem, found = plan.problem, plan.found
    requests, arrivals_us, prefixes = problem.traces[0]
    n = len(requests.prompt_tokens)
    if plan.costs_name is None:
        yield "Made-up costs: the lab's, 0.05 ms a prompt token and 8 ms a step. They are no server's: give --costs."
    if problem.server.kv_blocks == UNLIMITED:
        yield "Memory is taken as unlimited: give --kv-tokens. A server whose KV cache is short preempts, and is " \
              "slower."
    sequences, prompt = plan.measured_to
    bests = [one.best for one in (*found.open.values(), found.closed) if one and one.best]
    most = max((best.trace.peak_running for best in bests), default=0)
    if sequences and most > sequences:
        yield f"Extrapolated: up to {most} sequences run at the answers, and the costs were measured with up to " \
              f"{sequences}."
    if prompt and max(requests.prompt_tokens) > prompt:
        beyond = sum(tokens > prompt for tokens in requests.prompt_tokens)
        yield f"Extrapolated: {beyond} of {n} prompts are longer than {prompt} tokens, the longest that was measured."
    if plan.closed:
        yield "The file is the result of a closed loop: its start times are the server's doing, so they are not " \
              "played. Its lengths are used, in open loop with Poisson arrivals."
    elif plan.own is None:
        yield "The file has no arrivals with a rate: in open loop, Poisson arrivals are drawn (step 6's)."
    if plan.grid and not plan.spread:
        yield f"The arrivals lie on a grid of {plan.grid.step_us / 1e6:g} s: {n} requests at " \
              f"{counted(plan.grid.moments, 'moment')}, up to {plan.grid.most} at one. That is the trace's clock, " \
              "not your users: --spread spreads them evenly."
    if plan.spread:
        yield f"The arrivals are spread evenly over the {plan.grid.step_us / 1e6:g} s of their grid."
    if prefixes:
        yield "Prefix caching is on, because the trace names what its prompts share: --no-prefix-caching turns it off."
    beyond = 1000 - round(10 * problem.targets.percentile)  # thousandths of the requests
    if n * beyond < 1000 * FEW:
        slowest = -(-n * beyond // 1000)
        told = "the slowest one" if slowest == 1 else f"the {slowest} slowest"
        yield f"The {percent_name(plan)} of {counted(n, 'request')} is told by {told} of them, so it is not firm. " \
              f"Record {-(-1000 * FEW // beyond):,} or more."
    if found.bursts is not None and found.bursts < FEW_BURSTS:
        yield "Arrivals come in bursts, or long requests in rows, and the slowest requests lie in " \
              f"{counted(found.bursts, 'place')} of the trace. It is too short to know how bad the next day can be: " \
              "record more. Until then, the answers lie two steps, 10 %, below what all replays meet."


# --- the answers ------------------------------------------------------------------------------------


def answered(plan):
    found = plan.found
    if not found.feasible:
        parts = [f"{NAMES[name]} {ms(getattr(found.alone, name))} ms" for name in targeted(plan)
                 if getattr(found.alone, name) is not None]
        yield f"Infeasible: each request alone on the server has a {percent_name(plan)} {' and '.join(parts)}, and " \
              "that misses a target. No load, no limit and no number of servers can help."
        return
    yield from open_answer(plan)
    yield from limits_answer(plan)
    yield from closed_answer(plan)
    yield from replicas_answer(plan)


def measures(plan, point):
    """The measures of an accepted load with the replays' range."""
    parts = []
    for name in targeted(plan):
        inside = point.range_of(name)
        if inside:
            parts.append(f"{NAMES[name]} {ms(getattr(point.trace, name))} ms ({ms(inside[0])} to {ms(inside[1])})")
    return f"{percent_name(plan)} {', '.join(parts)}; {ms(point.trace.throughput_tps)} tokens/s; " \
           f"{math.floor(1000 * point.trace.goodput) / 10:g} % of the requests meet all targets" if parts else \
           f"{ms(point.trace.throughput_tps)} tokens/s"


def open_answer(plan):
    one, slower = plan.found.open[plan.found.limit], plan.found.slower_open
    if state(one) == "none":
        yield f"Open loop: {no_load(plan, one)}"
        return
    if state(one) == "no_edge":
        yield "Open loop: no edge found. All loads tried meet the targets, up to the capacity with max_num_seqs " \
              f"{plan.found.limit}, about {three_digits(one.capacity_rps)} requests/s. So the targets do not bind, " \
              "or the trace is too short to show how its line of waiting requests grows."
        return
    rps = one.best.load.rps
    times = f", {rps / plan.own:.2g} times its own rate of {three_digits(plan.own)}" if plan.own else ""
    yield f"Open loop: {three_digits(rps)} requests/s with max_num_seqs {plan.found.limit}{times}. " \
          f"{measures(plan, one.best)}. In brackets: the range of the middle 18 of 20 replays."
    yield f"If every step takes 10 % longer: {slower_words(plan, one, slower)}"


def slower_words(plan, one, slower):
    if slower.best is None:
        return "no load is accepted. The answer stands on the edge of a cliff."
    share = slower.best.load.rps / one.best.load.rps
    cliff = " The headroom falls off a cliff." if share < CLIFF else ""
    return f"{three_digits(slower.best.load.rps)} requests/s, {100 * (1 - share):.0f} % less.{cliff}"


def no_load(plan, one):
    """Why there is no load."""
    lowest = one.points[0]
    if lowest.trace.meets(plan.problem.targets):
        return "no load is accepted. The trace meets the targets at some, and at none of them do all of its 20 " \
               "replays: its bursts, moved closer together, are too much."
    missed = [f"{percent_name(plan)} {NAMES[name]} {ms(getattr(lowest.trace, name))} ms" for name, target
              in zip(TIMES, plan.problem.targets[1:]) if (getattr(lowest.trace, name) or 0) > target]
    most = most_at_once(plan.problem.traces[0].arrivals_us)
    why = f"Up to {most} requests arrive at one moment, and slower arrivals do not part them" if most > 1 else \
        "Its bursts are too dense even so"
    return f"no load is accepted, down to {three_digits(lowest.load.rps)} requests/s: {' and '.join(missed)} there. " \
           f"{why}{': see --spread' if plan.grid and not plan.spread else ''}."


def limits_answer(plan):
    """One sentence for all limits that were tried, if there are several."""
    parts = [f"{limit}: {number_of(one, 'rps').replace('_', ' ')}" for limit, one in plan.found.open.items()]
    if len(parts) > 1:
        yield f"Requests/s by max_num_seqs: {', '.join(parts)}."
    alike = plan.found.alike
    if len(alike) > 1:
        listed = f"{', '.join(map(str, alike[:-1]))} and {alike[-1]}"
        yield f"{listed} are alike: never more than {plan.found.most_running} ran at once."
    if targeted(plan) == ["ttft_ms"]:
        yield "Only TTFT has a target: nothing here says how slow the tokens after the first one may become."


def closed_answer(plan):
    found, slower = plan.found.closed, plan.found.slower_closed
    limit = plan.asked.limits[-1]
    if state(found) == "none":
        yield "Closed loop: no number of clients is accepted."
    elif state(found) == "no_edge":
        yield f"Closed loop: no edge found up to {counted(found.best.load.clients, 'client')}, the most tried, " \
              f"max_num_seqs {limit}."
    else:
        less = counted(slower.best.load.clients, "client") if slower.best else "no number of clients"
        yield f"Closed loop: {counted(found.best.load.clients, 'client')} with max_num_seqs {limit}. " \
              f"{measures(plan, found.best)}. If every step takes 10 % longer: {less}."
    if plan.found.tune is not None and plan.found.tune != (found.best.load.clients if found.best else 0):
        yield f"(tune.py says {plan.found.tune} for these requests, costs and this TTFT target: it plays one " \
              "order of the list, without overhead, token budget or asynchronous scheduling, and max_num_seqs is the " \
              "number of clients.)"


def replicas_answer(plan):
    found, slower = plan.found.replicas, plan.found.slower_replicas
    if found is None:
        return
    wanted = f"for {three_digits(plan.asked.rps)} requests/s, each with max_num_seqs {plan.found.limit}"
    if found.best is None:
        yield f"Servers: no number is accepted {wanted}."
        return
    servers = found.best.load.servers
    spare = plan.asked.spare
    number = f"{servers + spare}, of which {spare} may be down" if spare else f"{servers}"
    less = f"{slower.best.load.servers + spare}" if slower.best else "no number is enough"
    yield f"Servers: {number}, {wanted}; requests are dealt in turn. {measures(plan, found.best)}. " \
          f"If every step takes 10 % longer: {less}."
