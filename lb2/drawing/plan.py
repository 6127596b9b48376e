"""Which load meets the target, and how far is the cliff? The p99 of a latency against the load, for
each max_num_seqs.

A line is the p99 of the trace itself, the band around it the middle 18 of 20 replays of the trace.
The line of the answer is blue up to the answer and vermilion beyond; the other limits are grey.
Beyond the capacity more requests arrive than the server works off. plan.py has the numbers; nothing
is simulated here.

    draw_plan({8: [(rps, p99, low, high), ...], ...}, 200, "p99 TTFT", today_rps=2.0,
              capacity_rps=6.1, answer=(8, 4.1), slower_rps=3.4)
"""

from drawing.svg import LEFT, LINE, MARGIN, RIGHT, axes, band, draw, group, line, marks, picture, text, units
from drawing.labels import across, beside, drop, heads, names, segments
from drawing.scales import Panel, Scale, decades, number


def rate(rps):
    """Requests per second in three digits."""
    return number(float(f"{rps:.3g}"))


def verdicts(target_ms, measure, today_rps, capacity_rps, answer, slower_rps, no_edge):
    """The lines of words above the picture: [(words, kind), ...]."""
    if answer is None:
        return [(f"No edge found: every load meets {target_ms:,.12g} ms" if no_edge else
                 f"No load meets {measure} {target_ms:,.12g} ms", "bad")]
    lines = [(f"{rate(answer[1])} requests/s with max_num_seqs {answer[0]}", "good")]
    if slower_rps is not None:
        lines.append((f"{rate(slower_rps)} if every step takes 10 % longer", "bad"))
    else:
        lines.append(("none if every step takes 10 % longer", "bad"))
    facts = [f"today {rate(today_rps)}" if today_rps else "", f"capacity {rate(capacity_rps)}" if capacity_rps else ""]
    lines.append(("; ".join([*filter(None, facts), "at the lines: max_num_seqs"]), ""))
    return lines


def split(points, rps):
    """(points up to a load, points from it on): both parts of a line that is cut at one of its
    points.
    """
    return [point for point in points if point[0] <= rps], [point for point in points if point[0] >= rps]


def curves(panel, limits, answer):
    """(pieces of the other limits, pieces of the answer's limit): lines, and bands of the replays."""
    quiet, bright = [], []
    for limit, points in limits.items():
        way = [point[:2] for point in points]
        lows, highs = ([(point[0], point[column]) for point in points] for column in (2, 3))
        if answer and limit == answer[0]:
            below, beyond = split(way, answer[1])
            bright = [group("good", f"{limit} replays", band(panel, lows, highs)),
                      group("bad", f"{limit} beyond", line(panel, beyond)),
                      group("good", f"{limit}", line(panel, below))]
        else:
            quiet.append(group("quiet", f"{limit} replays", band(panel, lows, highs)))
            quiet.append(group("quiet", f"{limit}", line(panel, way, "thin")))
    return quiet, bright


def signs(panel, loads, target_ms, p99_ms):
    """The loads that have a name: a dotted line each, and the name above the panel.

    loads: {"today", "capacity", "answer", "slower": requests per second, or None}. p99_ms: of the answer.
    """
    upper = panel._replace(y=panel.y._replace(end=panel.y.end - LINE))
    pieces, facts, verdict = [], [], []
    for name in ("today", "capacity"):
        if loads[name]:
            facts.append((loads[name], name, ""))
            pieces.append(group("ink", name, drop(panel, loads[name])))
    if loads["answer"]:
        verdict.append((loads["answer"], "answer", "good"))
        mark = marks(panel, "circle", [(loads["answer"], p99_ms)])
        pieces.append(group("good", "answer", drop(panel, loads["answer"], p99_ms), mark))
    if loads["slower"]:
        verdict.append((loads["slower"], "10 % slower", "bad"))
        mark = marks(panel, "diamond", [(loads["slower"], target_ms)], "hollow")
        pieces.append(group("bad", "slower", drop(panel, loads["slower"], target_ms), mark))
    return [*pieces, *heads(upper, facts), *heads(panel, verdict)]


def zone(panel, capacity_rps):
    """The shaded part beyond the capacity."""
    if not capacity_rps or capacity_rps >= panel.x.high:
        return ""
    left, y = panel.x.at(capacity_rps), panel.y
    return (f'<rect class="zone" x="{units(left)}" y="{units(y.end)}" width="{units(panel.x.end - left)}" '
            f'height="{units(y.start - y.end)}"/>')


def draw_plan(limits, target_ms, measure="p99 TTFT", today_rps=None, capacity_rps=None, answer=None, slower_rps=None,
              no_edge=False):
    """limits: {max_num_seqs: [(requests per second, p99 in ms, low and high of the replays), ...]}.

    The points are in order of load. answer: (max_num_seqs, requests per second), one of the points,
    or None; no_edge: None because all loads meet the target. capacity_rps: of the answer's limit.
    slower_rps: the answer if every step takes 10 % longer, or None.
    """
    words = verdicts(target_ms, measure, today_rps, capacity_rps, answer, slower_rps, no_edge)
    said = f"{'; '.join(line[0] for line in words)}; target {measure} {target_ms:,.12g} ms."
    written = [text(MARGIN, 68 + LINE * row, *line) for row, line in enumerate(words, start=1)]
    points = [point for some in limits.values() for point in some]
    if not points:  # no load was tried: one request alone misses the target
        lonely = text(MARGIN, 68, f"Target {target_ms:,.12g} ms; one request alone misses a target")
        return picture("Which load meets the target?", said, 120 + LINE, lonely, *written)
    top = 152 + LINE * len(words)
    x = Scale(0, 1.04 * max(*(point[0] for point in points), today_rps or 0, capacity_rps or 0), LEFT, RIGHT - 74)
    panel = Panel("p99", x, decades([target_ms, *(ms for point in points for ms in point[1:])], top + 250, top))
    best, answer_rps = answer or (None, None)
    p99_ms = dict(point[:2] for point in limits[best])[answer_rps] if answer else None
    loads = {"today": today_rps, "capacity": capacity_rps, "answer": answer_rps, "slower": answer and slower_rps}
    quiet, bright = curves(panel, limits, answer)
    lines = [(x.start, panel.y.at(target_ms), x.end, panel.y.at(target_ms))]
    lines += [(x.at(rps), top, x.at(rps), top + 250) for rps in loads.values() if rps]
    lines += [one for some in limits.values() for one in segments(panel, [point[:2] for point in some])]
    labels, boxes = [], []
    for limit, some in limits.items():
        labels += beside(panel, *some[-1][:2], str(limit), "good" if limit == best else "tick", lines, boxes)
    return picture(
        "Which load meets the target?",
        said,
        top + 312,
        text(MARGIN, 68, f"Target {target_ms:,.12g} ms; bands: the middle 18 of 20 replays"),
        *written,
        zone(panel, capacity_rps),
        draw(panel, axes(panel, "requests per second", f"{measure}, ms, log scale", rise=58),
             *quiet, group("ink", "target", across(panel, target_ms)), *bright,
             *signs(panel, loads, target_ms, p99_ms), *labels, *names(panel, [(target_ms, "target", "")])),
    )
