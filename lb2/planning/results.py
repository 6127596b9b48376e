"""What a plan writes: plan.txt, plan.csv, and the same as JSON; and the numbers of its picture.

plan.txt is one line of key=value. A number stands in it only where it is an answer: open= and
closed= say whether there is one (answer), none at all (infeasible), none that all replays meet
(none), or no edge up to the highest that could be tried (no_edge). File names are written as in a
URL (a blank is %20).

plan.csv has a row for every load that was tried.

    search       open, closed or replicas; around: beside the answer, for the picture; check: the run's own load
    steps        1.0, or 1.1: every step 10 % longer
    max_num_seqs, clients, servers, rps          the load; rps is empty in closed loop, clients in open loop
    percentile, ttft_ms, tpot_ms, e2e_ms, itl_ms of the trace; empty if no request has two tokens
    ttft_low_ms ... itl_high_ms                  the middle 18 of its 20 replays; empty if not all were played
    throughput_tps, goodput, peak_running        of the trace; goodput: the share that meets TTFT, TPOT and E2E together
    replays, replays_met, meets                  replays that were played, that met the targets; is the load accepted?
"""

import json
import math
from urllib.parse import quote

from common import pairs, table
from paging.scheduler import UNLIMITED
from drawing.plan import Shown
from planning.own_run import TIMES

HEADER = ["search", "steps", "max_num_seqs", "clients", "servers", "rps", "percentile", *TIMES,
          *(f"{name.removesuffix('_ms')}_{end}_ms" for name in TIMES for end in ("low", "high")),
          "throughput_tps", "goodput", "peak_running", "replays", "replays_met", "meets"]


def three_digits(value):
    """A number as text, three digits: the loads lie 5 % apart, so more would say nothing. 18870.3 -> 18900"""
    return f"{float(f'{value:.3g}'):.10g}"


def state(found):
    """answer, none or no_edge."""
    return "none" if found.best is None else "no_edge" if found.endless else "answer"


def number_of(found, field):
    """The load of an answer; none, or no_edge where there is no number."""
    if state(found) != "answer":
        return state(found)
    load = found.best.load
    return three_digits(load.rps) if field == "rps" else getattr(load, field)


# --- plan.txt ---------------------------------------------------------------------------------------


def plan_fields(problem, asked, names, own, found):
    """{key: value} of plan.txt. names: (trace, costs), costs None for the lab's; own: the trace's rate or None."""
    targets, server = problem.targets, problem.server
    fields = {"trace": quote(names[0]), "requests": len(problem.traces[0].requests.prompt_tokens)}
    fields |= {"trace_rps": three_digits(own)} if own else {}
    fields |= {"costs": quote(names[1]) if names[1] else "lab", "percentile": f"{targets.percentile:g}"}
    fields |= {f"target_{name}": "none" if ms == math.inf else f"{ms:.10g}" for name, ms in zip(TIMES, targets[1:])}
    fields |= {"scheduling": "asynchronous" if server.asynchronous else "synchronous",
               "max_num_batched_tokens": server.max_num_batched_tokens,
               "kv_blocks": "unlimited" if server.kv_blocks == UNLIMITED else server.kv_blocks,
               "prefix_caching": "on" if problem.traces[0].prefixes else "off"}
    fields |= {"gateway_clients": problem.clients} if problem.clients else {}
    if not found.feasible:
        return fields | {"open": "infeasible", "closed": "infeasible"}
    return fields | open_fields(found) | closed_fields(found) | replica_fields(asked, found)


def open_fields(found):
    one = found.open[found.limit]
    fields = {"open": state(one)}
    if fields["open"] != "answer":
        return fields
    best = one.best
    fields |= {"max_num_seqs": found.limit, "max_rps": three_digits(best.load.rps),
               "slower_max_rps": number_of(found.slower_open, "rps")}
    for name in TIMES:
        value = getattr(best.trace, name)
        fields |= {} if value is None else {name: three_digits(value)}
    return fields | {"throughput_tps": three_digits(best.trace.throughput_tps), "goodput": f"{best.trace.goodput:.4f}"}


def closed_fields(found):
    fields = {"closed": state(found.closed)}
    if fields["closed"] == "answer":
        fields |= {"max_clients": found.closed.best.load.clients,
                   "slower_max_clients": number_of(found.slower_closed, "clients")}
    return fields


def replica_fields(asked, found):
    if found.replicas is None:
        return {}
    servers, slower = (one.best.load.servers + asked.spare if one.best else "none"
                       for one in (found.replicas, found.slower_replicas))
    return {"replicas_rps": three_digits(asked.rps), "spare": asked.spare, "replicas": servers,
            "slower_replicas": slower}


def plan_line(fields):
    return pairs(**fields)


# --- plan.csv ---------------------------------------------------------------------------------------


def rows_of(problem, found):
    """[(search, steps, Point), ...] of every load tried."""
    rows = [("open", "1.0", point) for one in found.open.values() for point in one.points]
    rows += [("around", "1.0", point) for point in found.around]
    searches = (("open", "1.1", found.slower_open),
                ("closed", "1.0", found.closed), ("closed", "1.1", found.slower_closed),
                ("replicas", "1.0", found.replicas), ("replicas", "1.1", found.slower_replicas))
    rows += [(search, steps, point) for search, steps, one in searches if one for point in one.points]
    return rows + ([("check", "1.0", found.check.predicted)] if found.check else [])


def plan_table(problem, found):
    """The text of plan.csv."""
    return table(HEADER, [[search, steps, *cells(problem, point)] for search, steps, point in rows_of(problem, found)])


def cells(problem, point):
    load, trace = point.load, point.trace
    times = ["" if value is None else f"{value:.2f}" for value in trace[:4]]
    ranges = []
    for name in TIMES:
        both = point.range_of(name)
        ranges += [f"{ms:.2f}" for ms in both] if both else ["", ""]
    rps = "" if load.rps is None else f"{load.rps:.6g}"
    clients = load.clients or (load.rps is not None and problem.clients) or ""
    return [load.max_num_seqs, clients, load.servers, rps, f"{problem.targets.percentile:g}", *times, *ranges,
            f"{trace.throughput_tps:.2f}", f"{trace.goodput:.4f}", trace.peak_running,
            len(point.replays), point.met, str(point.meets).lower()]


def plan_json(problem, fields, found, said):
    """plan.txt, plan.csv and the sentences, as JSON."""
    tried = [dict(zip(HEADER, map(str, [search, steps, *cells(problem, point)])))
             for search, steps, point in rows_of(problem, found)]
    return json.dumps({"plan": fields, "said": said, "tried": tried}, indent=1)


# --- the picture ------------------------------------------------------------------------------------


def picture_of(problem, own, found):
    """The drawing.plan.Shown of the answers: the target that binds is the one nearest to its limit at the answer."""
    chosen = found.open.get(found.limit)
    answer = chosen.best.load if chosen and state(chosen) == "answer" else None
    targets = {name: ms for name, ms in zip(TIMES, problem.targets[1:]) if ms != math.inf}
    at = chosen.best.trace if answer else found.alone
    measure = max(targets, key=lambda name: (getattr(at, name) or 0) / targets[name])
    limits = {}
    for limit, one in found.open.items():
        points = {point.load.rps: point for point in (*one.points, *(found.around if limit == found.limit else ()))}
        ways = [(rps, getattr(point.trace, measure)) for rps, point in sorted(points.items())]
        limits[str(limit)] = [point for point in ways if point[1] is not None]
    slower = found.slower_open
    return Shown(
        f"p{problem.targets.percentile:g} {measure.removesuffix('_ms').upper()}", targets[measure], limits,
        answer and (str(found.limit), answer.rps, getattr(at, measure)),
        slower.best.load.rps if answer and slower.best else None, [], {}, own, chosen and chosen.capacity_rps,
        bool(chosen) and state(chosen) == "no_edge")
