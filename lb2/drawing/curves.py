"""Which load does each scheduler carry? orca_curves.py's curves, as in Orca's Figure 10.

Hollow marks are the rates of orca_curves.csv; where the curves of several limits meet, none hides
another. The filled mark of a curve is what orca_curves.py's search found: the highest rate of
arrivals within the target, and what is served then.
"""

import orca_curves
from roofline.systems import name
from drawing.svg import LEFT, LINE, MARGIN, RIGHT, axes, draw, group, line, marks, picture, text
from drawing.labels import across, beside, names, segments
from drawing.scales import Panel, Scale, decades

SHAPES = {1: "triangle", 8: "square", 16: "diamond", 32: "circle"}


def curves_data(workload):
    """Target in ms per token, {system: its Points}, {system: the Point of its highest rate within
    the target}.
    """
    found = orca_curves.results(workload)
    return found.target_ms, found.points, found.best


def factor_words(within):
    """The best of the request level and of the iteration level within the target, and what is
    between them.
    """
    best = {}
    for system, point in within.items():
        known = best.get(system[0], (0, f"{system[0]} level"))
        best[system[0]] = max(known, (point.throughput_rps, name(system)))
    (slow, slow_name), (fast, fast_name) = best["request"], best["iteration"]
    times = f"{fast_name} serves {fast / slow:.1f} times as much" if slow else "At no rate does request level meet it"
    return [(f"{slow_name} serves {slow:.2f} requests/s within it", "bad"),
            (f"{fast_name} serves {fast:.2f} requests/s within it", "good"), (times, "good")]


def draw_curves(target_ms, curves, within):
    """Median latency against throughput, and what the search found. As curves_data returns them."""
    points = [point for some in curves.values() for point in some]
    x = Scale(0, max(point.throughput_rps for point in points), LEFT, RIGHT - 74)
    room = target_ms / 4, 2 * max(point.p50_ms_per_token for point in points)  # for words, below and above the lines
    panel = Panel("latency", x, decades([*room, *(point.p50_ms_per_token for point in points)], 500, 190))
    ways = {system: [(point.throughput_rps, point.p50_ms_per_token) for point in some]
            for system, some in curves.items()}
    lines = [*segments(panel, [(0, target_ms), (x.high, target_ms)])]
    lines += [one for way in ways.values() for one in segments(panel, way)]
    pieces, words, boxes = [group("ink", "target", across(panel, target_ms))], [], []
    for system, way in ways.items():
        label, kind = name(system), "bad" if system[0] == "request" else "good"
        shape = SHAPES.get(system[1], "circle")
        pieces.append(group(kind, label, line(panel, way, "thin"), marks(panel, shape, way, "hollow")))
        if within[system].throughput_rps:
            found = [(within[system].throughput_rps, within[system].p50_ms_per_token)]
            pieces.append(group(kind, f"{label} within", marks(panel, shape, found)))
        words += beside(panel, *way[-1], label, kind, lines, boxes)
    said = ", ".join(f"{name(system)} {point.throughput_rps:.2f}" for system, point in within.items())
    best = factor_words(within)
    return picture(
        "Which load does each scheduler carry?",
        f"Requests served per second within {target_ms:.1f} ms per output token: {said}; {best[2][0]}.",
        560,
        text(MARGIN, 68, f"GPT-3 13B on an A100, modelled; target {target_ms:.1f} ms"),
        *(text(MARGIN, 68 + LINE * row, *line) for row, line in enumerate(best, start=1)),
        draw(panel, axes(panel, "requests served per second", "median ms per output token, log scale"),
             *pieces, *words, *names(panel, [(target_ms, "target", "")])),
    )
