"""What a plan writes: plan.txt, plan.csv, and the same as JSON; and the numbers of its picture.

plan.txt is one line of key=value. A number stands in it only where it is an answer: open= and
closed= say whether there is one (answer), none at all (infeasible), none that the replays carry
(none), or no edge up to the highest load that could be tried (no_edge). In file names a blank is %20.

plan.csv has a row for every run: of the searches open, closed and servers, or of the check at the
file's own load; of the trace or a replay, by its number. rps are those of each server; clients those of
a closed loop or of a gateway. A measure is empty if no request has two tokens.
"""

import json
from urllib.parse import quote

from common import pairs, table
from drawing.plan import Shown
from planning.engine import TIMES, blocks_of

HEADER = ["search", "traffic", "max_num_seqs", "max_num_batched_tokens", "servers", "rps", "clients", "percentile",
          *TIMES, "throughput_tps", "goodput", "peak_running", "meets"]


def three(value):
    """A number of three digits: the loads lie 5 % apart, so more would say nothing. 18870.3 -> 18900"""
    return value and float(f"{value:.3g}")


def three_digits(value):
    return f"{three(value):.10g}"


def title(name):
    """ttft_ms -> TTFT"""
    return name.removesuffix("_ms").upper()


def shown(value, nothing="none"):
    """A field or cell as text."""
    if isinstance(value, float):
        return f"{value:.10g}"
    return nothing if value is None else str(value).lower() if isinstance(value, bool) else str(value)


# --- plan.txt ---------------------------------------------------------------------------------------


def plan_fields(plan):
    """{key: text, number or None} of plan.txt."""
    problem, asked, found, (trace, costs), own, *_ = plan
    targets, setup = problem.targets, found.open.setup if found.open else asked.setups[-1]
    server = setup.server
    fields = {"trace": quote(trace), "requests": problem.requests}
    fields |= {"trace_rps": three(own)} if own else {}
    fields |= {"costs": quote(costs) if costs else "lab", "percentile": targets.percentile}
    fields |= {f"target_{name}": targets.given.get(name) for name in TIMES}
    fields |= {"scheduling": "asynchronous" if server.asynchronous else "synchronous",
               "max_num_batched_tokens": server.max_num_batched_tokens,
               "kv_blocks": blocks_of(server.kv_tokens) if server.kv_tokens else "unlimited",
               "prefix_caching": "on" if problem.traffic.prefixes else "off"}
    fields |= {"gateway_clients": setup.gateway} if setup.gateway else {}
    if not found.open:
        return fields | {"open": "infeasible", "closed": "infeasible"}
    return fields | loop_fields(problem, asked, found) | more_fields(problem, asked, found)


def loop_fields(problem, asked, found):
    """Of open and closed loop."""
    one, many = found.open, found.closed
    fields = {"open": one.state}
    if one.state == "answer":
        rps = one.answer()
        fields |= {"max_num_seqs": one.setup.max_num_seqs, "max_rps": rps,
                   "slower_max_rps": one.answer(slower=True), "lowest_edge_rps": min(one.edges()),
                   "highest_edge_rps": max(one.edges()), "binds": next(iter(one.bound(problem.targets)))}
        fields |= {name: three(value) for name, value in zip(TIMES, found.at_answer) if value is not None}
        fields |= {"throughput_tps": three(tokens_per_s(problem, rps)), "goodput": round(found.at_answer.goodput, 4)}
        fields |= {"cost_per_million_tokens": three(million(problem, rps, asked.price))} if asked.price else {}
    fields["closed"] = many.state
    if many.state == "answer":
        fields |= {"max_clients": many.answer(), "slower_max_clients": many.answer(slower=True),
                   "closed_binds": next(iter(many.bound(problem.targets)))}
    return fields


def tokens_per_s(problem, rps):
    """Output tokens per second of the trace's requests at a rate."""
    return rps * sum(problem.traffic.requests.output_tokens) / problem.requests


def million(problem, rps, price):
    """What a million output tokens cost at a rate and a price of an hour; None without a price."""
    return price and price / (tokens_per_s(problem, rps) * 3600) * 1e6


def more_fields(problem, asked, found):
    """Of servers, hours and a burst."""
    fields, fleet, burst = {}, found.fleet, found.burst
    if asked.rps:
        fields = {"replicas": "unknown" if found.unbearable else "answer" if fleet else "none",
                  "replicas_rps": three(asked.rps), "spare": asked.spare}
    if fleet:
        servers = fleet.servers + asked.spare
        fields |= {"min_servers": servers, "slower_min_servers": fleet.slower and fleet.slower + asked.spare}
        price = asked.price and asked.price * servers
        fields |= {"servers_cost_per_hour": three(price), "servers_cost_per_million_tokens": three(
            million(problem, asked.rps, price))} if price else {}
    if found.hours:
        fields |= {"hours": len(found.hours), "server_hours": sum(found.hours),
                   "fixed_server_hours": len(found.hours) * fleet.servers}
    if burst:
        fields |= {"burst_rps": three(burst.rps), "burst_meets": burst.measures.meets(problem.targets),
                   "burst_empty_s": three(burst.empty_s)}
    return fields


def plan_line(fields):
    return pairs(**{key: shown(value) for key, value in fields.items()})


# --- plan.csv ---------------------------------------------------------------------------------------


def rows_of(plan):
    """The rows of plan.csv: text, numbers, and None where there is none."""
    found, check = plan.found, plan.found.check
    searches = [("open", found.open if one.setup == found.open.setup else one) for one in found.tried]
    searches += [("closed", found.closed)] if found.closed else []
    searches += [("servers", found.fleet.found)] if found.fleet and found.fleet.found is not found.open else []
    for search, one in searches:
        setup = one.setup
        for traffic, edge in [("trace", one.trace), *enumerate(one.replays, start=1)]:
            for load, measures in sorted(edge.tried.items()) if edge else ():
                rps, clients = (None, load) if setup.closed_to else (load, setup.gateway)
                yield [search, traffic, setup.max_num_seqs, setup.server.max_num_batched_tokens, setup.servers,
                       rps, clients, *measured_cells(plan.problem.targets, measures)]
    for traffic, one in [("trace", check.predicted), *enumerate(check.replays, start=1)] if check else ():
        yield ["check", traffic, None, None, 1, check.rps, check.clients, *measured_cells(plan.problem.targets, one)]


def measured_cells(targets, one):
    return [targets.percentile, *(value and round(value, 2) for value in one[:4]), round(one.throughput_tps, 2),
            round(one.goodput, 4), one.peak_running, one.meets(targets)]


def plan_table(plan):
    """The text of plan.csv."""
    return table(HEADER, [[shown(cell, "") for cell in row] for row in rows_of(plan)])


def plan_json(plan, fields, words):
    """plan.txt, plan.csv and the sentences, as JSON: numbers are numbers, and what is not there is null."""
    runs = [dict(zip(HEADER, row)) for row in rows_of(plan)]
    return json.dumps({"plan": fields, "sentences": words, "runs": runs}, indent=1)


# --- the picture ------------------------------------------------------------------------------------


def picture_of(plan):
    """What plan.svg shows."""
    targets, found, one = plan.problem.targets, plan.found, plan.found.open
    bound = one.bound(targets) if one else {}
    measure = next(iter(bound or targets.given))

    def label(setup):
        budget = f" ({setup.server.max_num_batched_tokens} tokens)" if plan.budgets > 1 else ""
        return f"{setup.max_num_seqs}{budget}"

    limits = {label(tried.setup): {rps: getattr(measures, measure) for rps, measures in tried.trace.tried.items()}
              for tried in found.tried if tried.trace}
    answer = None
    if one and one.state == "answer" and getattr(found.at_answer, measure) is not None:
        answer = label(one.setup), one.answer(), getattr(found.at_answer, measure)
        limits[answer[0]][answer[1]] = answer[2]
    limits = {name: sorted((rps, ms) for rps, ms in some.items() if ms is not None) for name, some in limits.items()}
    return Shown(
        f"{plan.percentile} {title(measure)}", targets.given[measure], limits, answer,
        answer and one.answer(slower=True), sorted(one.edges()) if answer else [],
        {title(name): times for name, times in bound.items()}, plan.own, one and one.capacity_rps,
        bool(one) and one.state == "no_edge")
