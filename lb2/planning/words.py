"""A plan in words: a contradiction first, then the answers, then what they rest on.

    sentences(plan)    -> all of them, in order
"""

import math
from collections import Counter
from typing import NamedTuple

from files.inputs import counted
from planning.answers import Answers, Asked, beyond
from planning.arrivals import Grid
from planning.loads import Problem, rows_for
from planning.own_run import apart, compared
from planning.results import million, three_digits, title, tokens_per_s
from planning.search import FLOOR
from planning.servers import AFTER

FEW = 5  # requests beyond the percentile, below which it is not firm
CLIFF = 0.8  # of the answer: a slower answer below it is a cliff


class Plan(NamedTuple):
    """What there is to say something about."""

    problem: Problem
    asked: Asked
    found: Answers
    names: tuple  # of the trace and of the costs; None: the lab's
    own: float  # the trace's rate; None: it has none
    grid: Grid  # on which its arrivals lie, or None
    spread: bool  # --spread was given
    closed: bool  # a closed loop's result

    @property
    def percentile(self):
        return f"p{self.problem.targets.percentile:g}"

    @property
    def server(self):
        """As the costs file and the options describe it."""
        return self.asked.setups[0].server

    @property
    def budgets(self):
        """How many token budgets were tried."""
        return len({one.setup.server.max_num_batched_tokens for one in self.found.tried})


def sentences(plan):
    return [*disagreement(plan), *answered(plan), *rests_on(plan)]


def digits(value):
    """Milliseconds, rates and tokens/s with three digits: 18870.3 -> 18,900"""
    return three_digits(value) if value < 1000 else f"{float(three_digits(value)):,.0f}"


def rate(load, one):
    """A load with its unit."""
    return counted(load, "client") if one.setup.closed_to else f"{three_digits(load)} requests/s"


def disagreement(plan):
    """Costs that their calibration does not trust, and a measured run that contradicts the plan."""
    if doubts := plan.server.why or plan.server.trusted:
        yield f"DISAGREEMENT: the costs are not to be trusted, says their calibration ({doubts}). Run calibrate " \
              "again, and do what it says there."
    check, one = plan.found.check, plan.found.open
    if not check:
        return
    wrong, answer = apart(check, plan.problem.targets), one and one.answer()
    if wrong:
        yield f"DISAGREEMENT: the measured {' and '.join(map(title, wrong))} {'lies' if len(wrong) == 1 else 'lie'} " \
              "outside the range of the replays. Do not use the answers before you know why: other costs, other " \
              "limits, or a machine that drifts."
    if check.rps and answer and answer >= check.rps and not check.measured.meets(plan.problem.targets):
        yield f"DISAGREEMENT: the run itself missed a target at its own {three_digits(check.rps)} requests/s, and " \
              f"the plan allows {three_digits(answer)}."


# --- the answers ------------------------------------------------------------------------------------


def answered(plan):
    found, one = plan.found, plan.found.open
    if not one:
        parts = [f"{title(name)} {digits(value)} ms" for name in plan.problem.targets.given
                 if (value := getattr(found.alone, name)) is not None]
        yield f"Infeasible: each request alone on the server has a {plan.percentile} {' and '.join(parts)}, and that " \
              "misses a target. No load, no limit and no number of servers can help."
        return
    if one.state == "none":
        yield f"Open loop: no load is accepted. {no_load(plan, one)}"
    elif one.state == "no_edge":
        yield f"Open loop: no edge found. All loads tried meet the targets, up to the capacity with " \
              f"{named(plan, one.setup)}, about {rate(one.capacity_rps, one)}. So the targets do not bind, or the " \
              "trace is too short to show how its line of waiting requests grows."
    else:
        load, slower, tps = one.answer(), one.answer(slower=True) or 0, tokens_per_s(plan.problem, one.answer())
        times = f", {load / plan.own:.2g} times the trace's own {three_digits(plan.own)}" if plan.own else ""
        cost = million(plan.problem, load, plan.asked.price)
        yield f"Open loop: {rate(load, one)} with {named(plan, one.setup)}{times}; {digits(tps)} output " \
              f"tokens/s{f'; a million of them cost {digits(cost)}' if cost else ''}."
        yield f"{binding(plan, one)} {confidence(plan, one)}"
        cliff = " The headroom falls off a cliff." if slower < CLIFF * load else ""
        yield f"If the server is 10 % slower: {rate(slower, one)}, {100 * (1 - slower / load):.0f} % less.{cliff}"
    yield from setups_answer(plan)
    yield closed_answer(plan, found.closed)
    yield from servers_answer(plan)
    yield from burst_answer(plan)


def named(plan, setup):
    budget = f" and max_num_batched_tokens {setup.server.max_num_batched_tokens}" if plan.budgets > 1 else ""
    return f"max_num_seqs {setup.max_num_seqs}{budget}"


def binding(plan, one):
    """Which target is missed first, with its value on both sides of the edge that decides."""
    targets, edge = plan.problem.targets, one.decides
    (first, times), *others = one.bound(targets).items()
    rest = "".join(f", {title(name)} in {count}" for name, count in others)
    above = edge.above()
    name = edge.tried[above].share(targets)[1]
    at, over = (getattr(edge.tried[load], name) or 0 for load in (edge.load, above))
    where = "trace" if edge is one.trace else "middle one"
    return f"{title(first)} binds, in {times} of 20 replays{rest}. In the {where} the {plan.percentile} " \
           f"{title(name)} is {digits(at)} ms at {rate(edge.load, one)} and {digits(over)} at {three_digits(above)}; " \
           f"{digits(getattr(targets, name))} is allowed."


def confidence(plan, one):
    """Of how many futures the answer is true."""
    edges, rows = sorted(one.edges()), rows_for(plan.problem, one.setup)
    lie = f"The edges of the replays lie between {three_digits(edges[0])} and {three_digits(edges[-1])}"
    if one.carries() <= 1.0001 * FLOOR * one.decides.load:
        return f"{lie}, too far apart to tell more than half of what decides. Record a longer trace."
    return f"{lie}; about nine of ten other stretches of such traffic, {rows:,} requests long, carry the answer."


def no_load(plan, one):
    """Why there is none."""
    lowest = min(one.trace.tried)
    measures, arrivals_us = one.trace.tried[lowest], plan.problem.traffic.arrivals_us
    share, name = measures.share(plan.problem.targets)
    if share <= 1:
        return "The trace meets the targets at some, and most of its replays at none: its bursts are too much."
    most = max(Counter(arrivals_us).values()) if arrivals_us else 1
    why = f"Up to {most} requests arrive at one moment, and slower arrivals do not part them" if most > 1 else \
        "Its bursts are too dense even so"
    return f"At {rate(lowest, one)} the {plan.percentile} {title(name)} is {digits(getattr(measures, name))} ms. " \
           f"{why}{': see --spread' if plan.grid and not plan.spread else ''}."


def setups_answer(plan):
    """One sentence for all setups that were tried, if there are several."""
    parts = []
    for one in plan.found.tried:
        name = named(plan, one.setup).removeprefix("max_num_seqs ")
        alike = plan.found.alike[1:] if one.setup.max_num_seqs in plan.found.alike else ()
        edge = f"at most {three_digits(one.capacity_rps)}" if one.trace is None else \
            three_digits(one.trace.load) if one.trace.load else "none"
        parts.append(f"{' = '.join([name, *map(str, alike)])}: {edge}")
    if len(parts) > 1 or len(plan.found.alike) > 1:
        yield f"The edge of the trace itself, requests/s by max_num_seqs: {'; '.join(parts)}."


def closed_answer(plan, one):
    limit = f"max_num_seqs {one.setup.max_num_seqs}"
    if one.state == "none":
        return "Closed loop: no number of clients is accepted."
    if one.state == "no_edge":
        return f"Closed loop: no edge found up to {rate(one.setup.closed_to, one)}, the most tried, {limit}."
    slower = one.answer(slower=True) or "none"
    return f"Closed loop: {rate(one.answer(), one)} with {limit}, {slower} if the server is 10 % slower. " \
           f"{binding(plan, one)} (All first requests come at once and are left out; tune.py counts them, as its " \
           "exercise asks.)"


def servers_answer(plan):
    fleet, asked, problem = plan.found.fleet, plan.asked, plan.problem
    wanted = f"for {digits(asked.rps)} requests/s" if asked.rps else ""
    if plan.found.unbearable:
        yield f"Servers: this recording cannot tell how many {wanted}. Each server would see its " \
              f"{counted(problem.requests, 'request')} again and again, and none of them lies beyond the " \
              f"{plan.percentile}. {record(plan)}"
    elif fleet:
        servers = fleet.servers + asked.spare
        spare = f", of which {asked.spare} may be down" if asked.spare else ""
        less = f"{fleet.slower + asked.spare:,}" if fleet.slower else "no number is enough"
        price = (asked.price or 0) * servers
        cost = price and f" They cost {digits(price)} an hour, a million output tokens " \
            f"{digits(million(problem, asked.rps, price))}."
        apart = ", so a burst that is too much for one is spread over all" if plan.found.open.state == "none" else ""
        yield f"Servers: {servers:,}{spare}, {wanted}, each with {named(plan, plan.found.open.setup)}; requests are " \
              f"dealt in turn{apart}. If they are 10 % slower: {less}.{cost or ''}"
    elif asked.rps:
        yield f"Servers: no number is accepted {wanted}."
    if plan.found.hours:
        each = plan.found.hours
        fixed = len(each) * fleet.servers
        yield f"Hour by hour, {min(each)} to {max(each)} servers: {sum(each):,} server-hours in {len(each)} hours. A " \
              f"fixed number takes {fixed:,}, so adding and removing servers saves at most " \
              f"{100 * (1 - sum(each) / fixed):.0f} %."


def burst_answer(plan):
    burst = plan.found.burst
    if burst:
        times, seconds = plan.asked.burst
        share, name = burst.measures.share(plan.problem.targets)
        value = f": {plan.percentile} {title(name)} {digits(getattr(burst.measures, name))} ms" if name else ""
        empty = f"is gone {burst.empty_s:.0f} s" if burst.empty_s is not None else f"is not gone {AFTER * seconds:g} s"
        yield f"Burst: {times:g} times {three_digits(burst.rps)} requests/s for {seconds:g} s. For its requests the " \
              f"targets {'hold' if share <= 1 else 'do not hold'}{value}. The queue {empty} after it."
    elif plan.asked.burst:
        yield "Burst: it has too many requests to be simulated, or there is no load to begin with."


# --- what the answers rest on -----------------------------------------------------------------------


def record(plan):
    """The advice to record so many that enough lie beyond the percentile."""
    return f"Record {-(-1000 * FEW // (1000 - round(10 * plan.problem.targets.percentile))):,} or more."


def rests_on(plan):
    """What the user may not know."""
    problem, found, check, grid = plan.problem, plan.found, plan.found.check, plan.grid
    n, prompts = problem.requests, problem.traffic.requests.prompt_tokens
    if check:
        parts = [f"{plan.percentile} {title(name)} {digits(theirs)} ms, {digits(low)} to {digits(high)}"
                 for name, theirs, low, high in compared(check, problem.targets)]
        load = f"{three_digits(check.rps)} requests/s" if check.rps else counted(check.clients, "client")
        yield f"This file is a measured run. Measured at its own {load}, and in the middle 18 of 20 replays: " \
              f"{'; '.join(parts) or 'nothing that has a target'}."
    if plan.names[1] is None:
        yield "Made-up costs, 0.05 ms a prompt token and 8 ms a step, that are no server's: give --costs."
    if plan.server.kv_tokens is None:
        yield "Memory is taken as unlimited: give --kv-tokens. A server whose KV cache is short is slower."
    sequences, prompt = plan.server.measured_sequences, plan.server.measured_prompt_tokens
    most = max((edge.tried[edge.load].peak_running for one in (found.open, found.closed) if one
                for edge in one.replays if edge.load), default=0)
    if sequences and most > sequences:
        yield f"Extrapolated: up to {most} sequences run, and the costs were measured with up to {sequences}."
    longer = sum(tokens > prompt for tokens in prompts) if prompt else 0
    if longer:
        yield f"Extrapolated: {longer} of {n} prompts are longer than {prompt} tokens, the longest that was measured."
    if plan.closed:
        yield "The file is the result of a closed loop: its start times are the server's doing, so only its lengths " \
              "are used, in open loop with Poisson arrivals."
    elif plan.own is None:
        yield "The file has no arrivals with a rate: in open loop, Poisson arrivals are drawn."
    if grid and plan.spread:
        yield f"The arrivals are spread evenly over the {grid.step_us / 1e6:g} s of their grid."
    elif grid:
        yield f"The arrivals lie on a grid of {grid.step_us / 1e6:g} s: {n} requests at " \
              f"{counted(grid.moments, 'moment')}, up to {grid.most} at one. That is the trace's clock, not your " \
              "users: --spread spreads them evenly."
    if problem.traffic.prefixes:
        yield "Prefix caching is on, because the trace names what its prompts share: --no-prefix-caching turns it off."
    if beyond(problem) < FEW:
        slowest = math.ceil(beyond(problem))
        told = "the slowest one" if slowest == 1 else f"the {slowest} slowest"
        yield f"The {plan.percentile} of {counted(n, 'request')} is told by {told} of them, so it is not firm. " \
              f"{record(plan)}"
    if list(problem.targets.given) == ["ttft_ms"]:
        yield "Only TTFT has a target: nothing here says how slow the tokens after the first one may become."
