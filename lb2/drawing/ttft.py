"""Why does the mean TTFT promise more clients than the p99 allows?

The distribution of TTFT at two concurrencies: the one that the target allows at p99, and the one
that it allows for the mean. Most requests are admitted alone and wait for one short prefill. A few
share the first burst, wait for the prefill of all, and hardly move the mean. A bar counts requests;
its width is a fifth of a doubling.

    bins([8.0, 8.1, 200.0])     -> {15: 2, 38: 1}     15: from 2 ** (15 / 5) = 8 to 2 ** (16 / 5) = 9.2
"""

from collections import Counter
from math import floor, log2

from common import percentile
from drawing.svg import LEFT, MARGIN, RIGHT, axes, bar, draw, group, picture, text
from drawing.labels import drop, heads
from drawing.scales import Panel, decades, from_zero, milliseconds

PER_DOUBLING = 5
TALL = 120


def bins(values):
    """How many of the values (> 0) are in each bin."""
    return Counter(floor(PER_DOUBLING * log2(value)) for value in values)


def bars(panel, count):
    """A bar for each bin."""
    at = [(panel.x.at(2 ** (number / PER_DOUBLING)), panel.x.at(2 ** ((number + 1) / PER_DOUBLING)), many)
          for number, many in sorted(count.items())]
    return [bar(left + 0.5, panel.y.at(many), right - 0.5, panel.y.start) for left, right, many in at]


def edges(count):
    """Where bins begin and end."""
    return [2 ** (edge / PER_DOUBLING) for number in count for edge in (number, number + 1)]


def draw_ttft(target_ms, cases):
    """A histogram for each case, with mean, p99 and target marked.

    cases: [("p99" or "mean", clients that it allows, [TTFT in ms, ...], how many share the first burst), ...]
    """
    counts = [bins(values) for _, _, values, _ in cases]
    x = decades([target_ms, *(edge for count in counts for edge in edges(count))], LEFT, RIGHT - 20)
    pieces, said, top = [], [], 92
    for (name, clients, values, burst), count in zip(cases, counts):
        panel = Panel(name, x, from_zero([*count.values(), 5], top + TALL, top))
        p99, mean = percentile(values, 99), sum(values) / len(values)
        who = f"{clients} client{'' if clients == 1 else 's'}"
        kind = "good" if p99 <= target_ms else "bad"
        pieces.append(text(MARGIN, top - 60, f"{who}, by the {name}", "head"))
        pieces.append(text(RIGHT, top - 60, f"burst of {burst}: {milliseconds(values[0])}", f"{kind} end"))
        pieces.append(draw(
            panel, axes(panel, "TTFT, ms, log scale" if values is cases[-1][2] else "", "", rise=54),
            group("quiet", "requests", *bars(panel, count)),
            *(group(color, label, drop(panel, ms)) for label, ms, color in (
                ("mean", mean, "ink"), ("target", target_ms, "ink"), ("p99", p99, kind))),
            *heads(panel._replace(y=panel.y._replace(end=top - 24)), [(target_ms, "target", "")]),
            *heads(panel, [(mean, f"mean {milliseconds(mean)}", ""), (p99, f"p99 {milliseconds(p99)}", kind)])))
        said.append(f"{who}: mean {milliseconds(mean)}, p99 {milliseconds(p99)}, {burst} in the first burst")
        top += TALL + 112
    name, clients, values, burst = cases[-1]
    return picture(
        f"The first burst of {burst} waits {milliseconds(values[0])}: the mean hides it" if name == "mean" else
        f"99 % have their first token within {milliseconds(percentile(values, 99))}",
        [f"TTFT of every request; target {target_ms:,.12g} ms"], f"{'; '.join(said)}.", top - 50, *pieces,
    )
