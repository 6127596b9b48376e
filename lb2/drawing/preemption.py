"""Does preempting often cost throughput? The policies of paged_preemption.py over max_num_seqs.

A line is a policy: is the whole prompt reserved at admission or not, and is a preempted request
computed again (recompute) or fetched from host memory (swap)? The marks are the rows of
paged_preemption.csv.
"""

from drawing.svg import LEFT, RIGHT, axes, draw, group, line, marks, picture
from drawing.labels import names
from drawing.scales import Panel, Scale, from_zero

TOP, BOTTOM = 50, 300
POLICIES = {  # (whole prompt reserved?, how a preempted request resumes): words, colour, mark
    (True, "recompute"): ("reserved, recompute", "good", "circle"),
    (True, "swap"): ("reserved, swap", "good", "diamond"),
    (False, "recompute"): ("not, recompute", "bad", "square"),
    (False, "swap"): ("not, swap", "bad", "diamond"),
}


def draw_preemption(points, noted, memory):
    """points: {policy: [(max_num_seqs, tokens per second, preemptions), ...]}; noted: limits with a mark."""
    everything = [point for some in points.values() for point in some]
    last = max(noted)
    x = Scale(0, max(limit for limit, *_ in everything), LEFT, RIGHT - 118)
    panel = Panel("throughput", x, from_zero([tps for _, tps, _ in everything], BOTTOM, TOP))
    pieces, labels, ends = [], [], []
    for policy, some in points.items():
        words, kind, shape = POLICIES[policy]
        at = [point[:2] for point in some if point[0] in noted]
        pieces.append(group(kind, words, line(panel, [point[:2] for point in some], "thin"),
                            marks(panel, shape, at, "hollow")))
        labels.append((some[-1][1], policy[1], kind))
        ends.append(f"{words} {at[-1][1]:,.0f} tokens/s")
    most = max(preemptions for *_, preemptions in everything)
    kept, lost = (dict(point[:2] for point in points[reserved, "recompute"])[last] for reserved in (True, False))
    return picture(
        f"Reserving the whole prompt: {kept / lost - 1:+.1%} tokens/s with {last} sequences" if most else
        "Nothing is preempted: there is room for all that run",
        [f"{memory}; up to {most:,} preemptions", "Blue: reserved at admission. Orange: not"],
        f"At max_num_seqs {last}: {'; '.join(ends)}.",
        BOTTOM + 64,
        draw(panel, axes(panel, "max_num_seqs", "tokens per second"), *pieces, *names(panel, labels)),
    )
