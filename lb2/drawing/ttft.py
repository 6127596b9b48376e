"""Why does the mean TTFT promise more clients than the p99 allows?

The distribution of TTFT at two concurrencies: the one that the target allows at p99, and the one
that it allows for the mean. Most requests are admitted alone and wait for one short prefill. A few
share the first burst, wait for the prefill of all, and hardly move the mean. A bar counts requests;
its width is a fifth of a doubling.

    bins([8.0, 8.1, 200.0])     -> {15: 2, 38: 1}     15: from 2 ** (15 / 5) = 8 to 2 ** (16 / 5) = 9.2
"""

from collections import Counter
from math import floor, log2

import continuous
from common import percentile
from files.costs import Costs
from drawing.tune import TARGET_MS, UP_TO, choices, tune_points
from drawing.svg import LEFT, LINE, MARGIN, RIGHT, axes, bar, draw, group, picture, text
from drawing.labels import drop, heads
from drawing.scales import Panel, decades, from_zero, milliseconds

PER_DOUBLING = 5
TALL = 150


def ttfts_ms(requests, clients, costs):
    """The TTFT of every request in the closed loop of so many clients, as tune.measure counts it.
    """
    result = continuous.schedule(requests, clients, costs=costs)
    pairs = zip(result.first_token_us, result.admitted_us)
    return [(first - admitted + costs.overhead_us) / 1000 for first, admitted in pairs]


def ttft_data(requests, costs=Costs(), target_ms=TARGET_MS, up_to=UP_TO, rows=None):
    """The target, and [("p99" or "mean", clients, [TTFT in ms, ...]), ...]: what each allows.

    Where both allow the same number there is one case; where neither allows any, it is one client.
    """
    points = tune_points(requests, costs, up_to, rows)
    chosen = {name: best.concurrency for name, best in choices(points, target_ms).items() if best}
    if not chosen:
        chosen = {"p99": 1}
    if chosen.get("p99") == chosen.get("mean"):
        del chosen["mean"]
    return target_ms, [(name, clients, ttfts_ms(requests, clients, costs)) for name, clients in chosen.items()]


def bins(values):
    """How many of the values (> 0) are in each bin."""
    return Counter(floor(PER_DOUBLING * log2(value)) for value in values)


def draw_ttft(target_ms, cases):
    """A histogram for each case, with mean, p50, p99 and target marked. The arguments are what
    ttft_data returns.
    """
    counts = [bins(values) for *_, values in cases]
    edges = [2 ** (edge / PER_DOUBLING) for count in counts for number in count for edge in (number, number + 1)]
    x = decades([target_ms, *edges], LEFT, RIGHT - 20)
    pieces, said, top = [], [], 180
    for (name, clients, values), count in zip(cases, counts):
        panel = Panel(name, x, from_zero([*count.values(), 5], top + TALL, top))
        p50, p99, mean = percentile(values, 50), percentile(values, 99), sum(values) / len(values)
        bars = [bar(x.at(2 ** (number / PER_DOUBLING)) + 0.5, panel.y.at(many),
                    x.at(2 ** ((number + 1) / PER_DOUBLING)) - 0.5, panel.y.start)
                for number, many in sorted(count.items())]
        upper = Panel("", x, panel.y._replace(end=top - LINE))
        marked = [(upper, "p50", p50, "ink", ""), (panel, "mean", mean, "good", "good"),
                  (upper, "target", target_ms, "ink", ""), (panel, "p99", p99, "bad", "bad")]
        words = [(over, (ms, label if label == "target" else f"{label} {milliseconds(ms)}", kind))
                 for over, label, ms, _, kind in marked]
        allowed = "mean of the TTFT" if name == "mean" else "p99 of the TTFT"
        pieces.append(text(MARGIN, top - 80, f"{clients} client{'s' if clients > 1 else ''}, by the {allowed}", "head"))
        x_title = "TTFT, ms, log scale" if values is cases[-1][2] else ""
        pieces.append(draw(panel, axes(panel, x_title, "requests", rise=54),
                           group("quiet", "requests", *bars),
                           *(group(color, label, drop(panel, ms)) for _, label, ms, color, _ in marked),
                           *(piece for over in (upper, panel)
                             for piece in heads(over, [label for which, label in words if which is over]))))
        said.append(f"{clients} client{'s' if clients > 1 else ''}: p50 {milliseconds(p50)}, "
                    f"mean {milliseconds(mean)}, p99 {milliseconds(p99)}")
        top += TALL + 138
    return picture(
        "Why does the mean promise too much?" if len(cases) > 1 else "How is the TTFT distributed?",
        f"TTFT against a target of {target_ms:,.12g} ms. {'; '.join(said)}.",
        top - 66,
        text(MARGIN, 68, f"TTFT of every request; target {target_ms:,.12g} ms"),
        *pieces,
    )
