"""What does a token budget trade? p99 inter-token latency against p99 TTFT, a point for each
max_num_batched_tokens.

The numbers are those of paged_chunked.csv. Down is smoother output, left is an earlier first token.
Where points lie on one another, one word names them all.
"""

import paged_chunked
from common import progress
from files.costs import Costs
from drawing.svg import LEFT, MARGIN, RIGHT, axes, draw, group, line, marks, picture, text
from drawing.labels import beside, segments
from drawing.scales import Panel, decades, milliseconds


def chunked_data(requests, costs=Costs(), rows=None):
    """[(name of the budget, p99 TTFT in ms, p99 ITL in ms), ...]: played, or from
    paged_chunked.csv's rows.
    """
    if rows:
        return [(row["max_num_batched_tokens"], float(row["p99_ttft_ms"]), float(row["p99_itl_ms"])) for row in rows]
    budgets = paged_chunked.BUDGETS
    measures = progress((paged_chunked.measure(requests, budget, costs) for budget in budgets), len(budgets))
    return [(paged_chunked.name(budget), ttft / 1000, itl / 1000) for budget, (ttft, itl, _) in zip(budgets, measures)]


def together(panel, points):
    """{(TTFT, ITL): [names, ...]}: points that are drawn within 3 units are one."""
    groups = {}
    for name, *place in points:
        spot = panel.x.at(place[0]), panel.y.at(place[1])
        near = next((key for key in groups
                     if abs(panel.x.at(key[0]) - spot[0]) < 3 and abs(panel.y.at(key[1]) - spot[1]) < 3), tuple(place))
        groups.setdefault(near, []).append(name)
    return groups


def words_of(named, points):
    """One word for all budgets that are drawn at one place."""
    if len(named) == 1:
        return named[0]
    if len(named) == len(points):
        return "all budgets"
    return f"{named[0]} or more" if named[-1] == points[-1][0] else f"{named[0]} to {named[-1]}"


def draw_chunked(points):
    """points: [(name of the budget, p99 TTFT in ms, p99 ITL in ms), ...]."""
    ttfts_ms, itls_ms = ([point[column] for point in points] for column in (1, 2))
    x = decades([min(ttfts_ms) / 3, *ttfts_ms], LEFT, RIGHT - 20)  # with room for words
    panel = Panel("tail", x, decades([*itls_ms, 2 * max(itls_ms)], 400, 126))
    if not max(itls_ms):
        pieces = [text((x.start + x.end) / 2, 270, "no request has a second token", "head middle")]
        said = "No request has a second token, so there is no inter-token latency"
    else:
        places = [point[1:] for point in points]
        lines, boxes = segments(panel, places), []
        pieces = [group("quiet", "order", line(panel, places, "thin")),
                  group("good", "budgets", marks(panel, "circle", places))]
        for place, named in together(panel, points).items():
            pieces += beside(panel, *place, words_of(named, points), "good", lines, boxes)
        said = "; ".join(f"{name} {milliseconds(itl)} and {milliseconds(ttft)}" for name, ttft, itl in points)
        said = f"p99 inter-token latency and p99 TTFT by token budget: {said}"
    return picture(
        "What does a token budget trade?",
        f"{said}.",
        460,
        text(MARGIN, 68, f"A point a budget (max_num_batched_tokens); {paged_chunked.RPS} requests/s"),
        draw(panel, axes(panel, "p99 TTFT, ms, log scale", "p99 ITL, ms, log scale"), *pieces),
    )
