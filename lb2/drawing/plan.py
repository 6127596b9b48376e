"""Which load meets the targets, and what decides it? The latency that binds, against the load, for
each max_num_seqs; below it, how far each replay of the trace goes.

The line of the answer's limit is vermilion where it misses the target; the other limits are grey.
"""

from collections import Counter
from typing import NamedTuple

from drawing.svg import LEFT, LINE, RIGHT, axes, bar, draw, group, line, marks, picture, text, zone
from drawing.labels import across, beside, drop, heads, names, segments
from drawing.scales import Panel, Scale, decades, milliseconds, number

TOP, BOTTOM, STRIP = 88, 318, 34  # the strip is that of the replays


class Shown(NamedTuple):
    """What a plan's picture shows. Loads are requests per second of one server."""

    measure: str  # "p99 TTFT": the one that binds, or the first that has a target
    target_ms: float
    limits: dict  # {"32": [(rps, ms of the trace), ...]}, in order of load
    answer: tuple = None  # ("32", rps, ms of the trace there); None: there is no answer
    slower_rps: float = None  # the answer if the server is 10 % slower; None: none
    edges: list = ()  # how far each replay meets the targets, in rps
    bound: dict = {}  # {"TTFT": 19, "TPOT": 1}: how many replays each is the first to stop
    today_rps: float = None  # None: the trace has no rate
    capacity_rps: float = None  # of the answer's limit
    no_edge: bool = False  # there is no answer since every load meets the targets


def rate(rps):
    """Requests per second in three digits."""
    return number(float(f"{rps:.3g}"))


def title_of(shown):
    if not shown.answer:
        every = "Every load tried meets" if shown.no_edge else "No load meets"
        return f"{every} {shown.measure} {shown.target_ms:,.12g} ms"
    rps = shown.answer[1]
    today = f", {rps / shown.today_rps:.2g} times today's" if shown.today_rps else ""
    return f"One server carries {rate(rps)} requests/s{today}; {shown.measure} decides"


def notes_of(shown):
    if not shown.answer:
        return []
    slower = rate(shown.slower_rps) if shown.slower_rps else "Nothing"
    limits = "; at the lines: max_num_seqs" if len(shown.limits) > 1 else ""
    stops = ", ".join(f"{times} by {name}" for name, times in shown.bound.items())
    return [f"With max_num_seqs {shown.answer[0]}{limits}", f"{slower} if the server is 10 % slower",
            *([f"Replays are stopped: {stops}"] if stops else [])]


def curves(panel, shown):
    """Pieces: the line of each limit, that of the answer last, and cut where it misses the target."""
    quiet, bright = [], []
    for limit, way in shown.limits.items():
        if shown.answer and limit == shown.answer[0]:
            met = next((i for i, (_, ms) in enumerate(way) if ms > shown.target_ms), len(way))
            bright = [group("bad", f"{limit} beyond", line(panel, way[max(met - 1, 0):])),
                      group("good", limit, line(panel, way[:met]))]
        else:
            quiet.append(group("quiet", limit, line(panel, way, "thin")))
    return [*quiet, *bright]


def replays(panel, edges, answer_rps):
    """The strip with a bar for each load at which replays end: its height says how many."""
    count = Counter(edges)
    low = panel.y.start + 100 + STRIP
    strip = Panel("replays", panel.x, Scale(0, max(count.values()), low, low - STRIP))
    bars = {kind: [bar(strip.x.at(rps) - 2, strip.y.at(many), strip.x.at(rps) + 2, low)
                   for rps, many in sorted(count.items()) if (rps < answer_rps) == (kind == "bad")]
            for kind in ("good", "bad")}
    return draw(strip, text(LEFT, strip.y.end - 10, f"how far each of {len(edges)} replays goes"), axes(strip, "", ""),
                *(group(kind, f"{kind} edges", *some) for kind, some in bars.items() if some),
                group("good", "answer below", drop(strip, answer_rps)))


def draw_plan(shown):
    """The text of plan.svg."""
    said = f"Target: {shown.measure} {shown.target_ms:,.12g} ms."
    points = [point for way in shown.limits.values() for point in way]
    if not points:  # no load was tried: one request alone misses the target
        return picture(title_of(shown), [f"Target: {shown.measure} {shown.target_ms:,.12g} ms"], said, 20)
    best, answer_rps, answer_ms = shown.answer or (None, None, None)
    loads = {"today": shown.today_rps, "capacity": shown.capacity_rps, "answer": answer_rps}
    highest = max(rps for rps in (*(point[0] for point in points), *loads.values(), *shown.edges) if rps)
    x = Scale(0, 1.04 * highest, LEFT, RIGHT - 96)
    panel = Panel("latency", x, decades([shown.target_ms, *(ms for _, ms in points)], BOTTOM, TOP))
    lines = [(x.start, panel.y.at(shown.target_ms), x.end, panel.y.at(shown.target_ms))]
    lines += [(x.at(rps), TOP, x.at(rps), BOTTOM) for rps in loads.values() if rps]
    lines += [one for way in shown.limits.values() for one in segments(panel, way)]
    pieces, labels, boxes = [], [], []
    for name, kind in (("today", "ink"), ("capacity", "ink"), ("answer", "good")):
        if loads[name]:
            pieces.append(group(kind, name, drop(panel, loads[name]), "" if name != "answer" else marks(
                panel, "circle", [(answer_rps, answer_ms)])))
    upper = panel._replace(y=panel.y._replace(end=panel.y.end - LINE))
    signs = [*heads(upper, [(loads[name], name, "") for name in ("today", "capacity") if loads[name]]),
             *heads(panel, [(answer_rps, f"answer {rate(answer_rps)}", "good")] if answer_rps else [])]
    for limit, way in shown.limits.items():
        if len(shown.limits) > 1:
            labels += beside(panel, *way[-1], limit, "good" if limit == best else "tick", lines, boxes)
    strip = replays(panel, shown.edges, answer_rps) if answer_rps and shown.edges else ""
    return picture(
        title_of(shown), notes_of(shown), said, BOTTOM + 64 + (STRIP + 50 if strip else 0),
        zone("zone", panel, shown.capacity_rps, x.high) if shown.capacity_rps else "",
        draw(panel, axes(panel, "requests per second", f"{shown.measure}, ms, log scale", rise=62),
             group("ink", "target", across(panel, shown.target_ms)),
             *curves(panel, shown), *pieces, *signs, *labels,
             *names(panel, [(shown.target_ms, milliseconds(shown.target_ms), "")])),
        strip,
    )
