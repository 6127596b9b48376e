"""Which load does each scheduler carry? orca_curves.py's curves, as in Orca's Figure 10.

The marks are the rates of orca_curves.csv. Where the curves of several limits meet, none hides
another. What each system serves within the target is orca_curves.py's search.
"""

from drawing.svg import LEFT, RIGHT, axes, draw, group, line, marks, picture
from drawing.labels import across, beside, names, segments
from drawing.scales import Panel, Scale, decades, milliseconds

TOP, BOTTOM = 56, 376


def finding(within):
    """(title, note): the best of the iteration level within the target, against the best of the request level."""
    (slow, slow_name), (fast, fast_name) = (max((rps, name) for name, rps in within.items() if name.startswith(level))
                                            for level in ("request", "iteration"))
    title = f"Iteration level serves {fast / slow:.1f} times as much within the target" if slow else \
        "Only iteration level meets the target"
    return title, f"{fast_name}: {fast:.2f} requests/s; {slow_name}: {slow:.2f}"


def draw_curves(target_ms, curves, within):
    """curves: {"iteration 32": [(requests served per second, median ms per token), ...]};

    within: {"iteration 32": requests served per second within the target}.
    """
    points = [point for way in curves.values() for point in way]
    x = Scale(0, 1.35 * max(rps for rps, _ in points), LEFT, RIGHT - 96)
    room = target_ms / 4, 2 * max(ms for _, ms in points)  # for words, below and above the lines
    panel = Panel("latency", x, decades([*room, *(ms for _, ms in points)], BOTTOM, TOP))
    lines = segments(panel, [(0, target_ms), (x.high, target_ms)])
    lines += [one for way in curves.values() for one in segments(panel, way)]
    pieces, words, boxes = [group("ink", "target", across(panel, target_ms))], [], []
    for name, way in curves.items():
        kind = "bad" if name.startswith("request") else "good"
        shape = "square" if kind == "bad" else "circle"
        pieces.append(group(kind, name, line(panel, way, "thin"), marks(panel, shape, way, "hollow")))
        words += beside(panel, *way[-1], name, kind, lines, boxes)
    title, note = finding(within)
    return picture(
        title, [note, "GPT-3 13B on an A100, modelled"],
        f"Requests served per second within {target_ms:.1f} ms per output token: "
        + ", ".join(f"{name} {rps:.2f}" for name, rps in within.items()) + ".",
        BOTTOM + 64,
        draw(panel, axes(panel, "requests served per second", "median ms per output token, log scale"),
             *pieces, *words, *names(panel, [(target_ms, milliseconds(target_ms), "")])),
    )
