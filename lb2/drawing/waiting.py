"""How long do requests wait as load grows, and where does the server no longer keep up?

The wait is from arrival to admission: Poisson arrivals, continuous batching, the 20 draws of
queueing.py. Capacity means: all requests are there, and every slot is always full. Beyond it more
arrives than is worked off, so that the wait depends on how long the list is.
"""

from drawing.svg import LEFT, RIGHT, axes, draw, group, line, marks, picture, text, zone
from drawing.labels import beside, drop, names, segments
from drawing.scales import Panel, Scale, decades, milliseconds

TOP, BOTTOM = 60, 320


def draw_queue(max_num_seqs, n, capacity, noted_rps, points):
    """n: how many requests; points: (requests per second, mean wait in ms, p99 wait in ms), in order."""
    waits_ms = [ms for point in points for ms in point[1:]]
    x = Scale(0, points[-1][0], LEFT, RIGHT - 62)
    panel = Panel("wait", x, decades([ms * room for ms in waits_ms for room in (0.25, 3)], BOTTOM, TOP))
    noted = [point for point in points if point[0] in noted_rps]
    pieces, labels, numbers, boxes = [], [], [], []
    lines = [(x.at(capacity), TOP, x.at(capacity), BOTTOM)]
    series = (("p99", "bad", "square", 2), ("mean", "good", "circle", 1))
    for name, kind, shape, column in series:
        way, some = ([(point[0], point[column]) for point in these if point[column]] for these in (points, noted))
        if way:
            pieces.append(group(kind, name, line(panel, way), marks(panel, shape, some)))
            lines += segments(panel, way)
            labels.append((way[-1][1], name, kind))
    for name, kind, shape, column in series:
        for point in reversed(noted):
            if point[column]:
                numbers += beside(panel, point[0], point[column], milliseconds(point[column]), kind, lines, boxes)
    limit = f"{capacity:.3g} requests/s"
    if not max(waits_ms):
        title = f"Nobody waits up to {points[-1][0]:.3g} requests/s: a slot is always free"
    elif n <= max_num_seqs:
        title = "The list is shorter than the slots: nobody waits for one"
    else:
        title = f"Beyond {limit}, the capacity, everybody waits for seconds" if points[-1][1] > 1000 else \
            f"Beyond {limit}, the capacity, the wait grows with the list"
    numbers += beside(panel, capacity, panel.y.high / 1.6, "capacity", "head", lines, boxes)
    return picture(
        title,
        [f"{max_num_seqs} slots, Poisson arrivals. Shaded: too much comes"],
        "Mean and p99 of the wait: " + "; ".join(f"at {rps:.3g} requests/s {milliseconds(mean)} and "
                                                  f"{milliseconds(p99)}" for rps, mean, p99 in noted) + ".",
        BOTTOM + 64,
        zone("zone", panel, capacity, x.high) if capacity < x.high else "",
        draw(panel, axes(panel, "requests per second", "wait, ms, log scale" if max(waits_ms) else ""),
             group("ink", "capacity", drop(panel, capacity)) if capacity < x.high else "",
             *pieces, *numbers, *names(panel, labels),
             "" if max(waits_ms) else text((x.start + x.end) / 2, 190, "nobody waits", "good middle")),
    )
