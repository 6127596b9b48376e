"""How long do requests wait as load grows, and where does the server no longer keep up?

The wait is from arrival to admission: Poisson arrivals, continuous batching, the 20 draws of
queueing.py. Rates go from 0 to 1.3 times the capacity of these requests at these costs. Capacity
means: all requests are there, and every slot is always full. n requests then take (the sum of their
output tokens / slots) passes and the prefill of their prompts. Beyond it more arrives than is
worked off, so that the wait depends on how long the list is.
"""

import queueing
from common import percentile, progress
from files.costs import Costs
from drawing.svg import LEFT, MARGIN, RIGHT, axes, draw, group, line, marks, picture, text
from drawing.labels import beside, drop, heads, names, segments
from drawing.scales import Panel, Scale, decades, milliseconds, number

NOTED_RPS, MAX_NUM_SEQS = (5, 10, 20, 40), 32  # queueing.py's
BEYOND = 1.3  # times capacity
STEPS = 52  # rates that are played; a quarter of them for a long list, whose curves are smooth
LONG = 1000


def queue_data(requests, costs=Costs(), max_num_seqs=MAX_NUM_SEQS, noted_rps=NOTED_RPS):
    """max_num_seqs, how many requests, the capacity, the noted rates in reach, and the points.

    A point is (requests per second, mean wait in ms, p99 wait in ms).
    """
    n = len(requests.output_tokens)
    capacity = queueing.capacity_rps(requests, max_num_seqs, costs)
    noted = [rps for rps in noted_rps if capacity / 20 <= rps <= BEYOND * capacity]
    if len(noted) < 2:  # a server of quite another speed
        noted = [capacity / 2, 0.9 * capacity]
    steps = STEPS if n <= LONG else STEPS // 4
    rates = sorted({*noted, *(BEYOND * capacity * k / steps for k in range(1, steps + 1))})
    draws = [queueing.unit_arrivals(seed, n) for seed in range(queueing.DRAWS)]
    plays = (queueing.waits_at(requests, draws, rps, max_num_seqs, costs)[0] for rps in rates)
    points = [(rps, sum(waits_us) / len(waits_us) / 1000, percentile(waits_us, 99) / 1000)
              for rps, waits_us in zip(rates, progress(plays, len(rates)))]
    return max_num_seqs, n, capacity, noted, points


def draw_queue(max_num_seqs, n, capacity, noted_rps, points):
    """Mean and p99 wait against the rate, with a number at the noted ones. As queue_data returns
    them.
    """
    waits_ms = [ms for point in points for ms in point[1:]]
    x = Scale(0, points[-1][0], LEFT, RIGHT - 120)
    panel = Panel("wait", x, decades(waits_ms, 400, 160))
    noted = [point for point in points if point[0] in noted_rps]
    pieces, labels, numbers = [], [], []
    lines = [(x.at(capacity), 160, x.at(capacity), 400)]
    series = (("p99", "bad", "square", 2), ("mean", "good", "circle", 1))
    for name, kind, shape, column in series:
        way, some = ([(point[0], point[column]) for point in these if point[column]] for these in (points, noted))
        if way:
            pieces.append(group(kind, name, line(panel, way), marks(panel, shape, some)))
            lines += segments(panel, way)
            labels.append((way[-1][1], f"{name} wait", kind))
    boxes = []
    for name, kind, shape, column in series:
        for point in noted:
            if point[column]:
                words = milliseconds(point[column])
                numbers += beside(panel, point[0], point[column], words, kind, lines, boxes)
    if max(waits_ms):
        said = "; ".join(f"at {rps:.3g} requests/s {milliseconds(mean)} and {milliseconds(p99)}"
                         for rps, mean, p99 in noted)
        said = f"Capacity is {capacity:.3g} requests/s. Mean and p99 of the wait: {said}."
    else:
        said = f"At no rate up to {points[-1][0]:.3g} requests/s does a request wait: there is always a free slot."
        numbers.append(text((x.start + x.end) / 2, 280, "nobody waits", "good middle"))
    return picture(
        "How long do requests wait?",
        said,
        462,
        text(MARGIN, 68, f"Poisson arrivals, continuous batching, {max_num_seqs} slots"),
        f'<rect class="zone" x="{MARGIN}" y="83" width="14" height="14"/>',
        text(MARGIN + 22, 96, "never catches up: more comes than is served" if n > max_num_seqs else
             "never catches up; but no request waits for a slot"),
        f'<rect class="zone" x="{x.at(capacity):.2f}" y="160" width="{x.end - x.at(capacity):.2f}" height="240"/>',
        draw(panel,
             axes(panel, "requests per second", "wait, ms, log scale" if max(waits_ms) else "", rise=34),
             group("ink", "capacity", drop(panel, capacity)),
             *pieces, *numbers, *heads(panel, [(capacity, f"capacity {number(float(f'{capacity:.3g}'))}/s", "head")]),
             *names(panel, labels)),
    )
