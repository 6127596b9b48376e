"""What does a token budget trade? p99 inter-token latency against p99 TTFT, a point for each
max_num_batched_tokens.

The numbers are those of paged_chunked.csv. Down is smoother output, left is an earlier first token.
Where points lie on one another, the smallest budget is named.
"""

from drawing.svg import LEFT, RIGHT, axes, draw, group, line, marks, picture, text
from drawing.labels import beside, segments
from drawing.scales import Panel, decades, milliseconds

TOP, BOTTOM = 56, 330


def drawn_at(panel, ttft_ms, itl_ms):
    """Points that are drawn within about 4 units are one."""
    return round(panel.x.at(ttft_ms) / 4), round(panel.y.at(itl_ms) / 4)


def draw_chunked(points, rps):
    """points: [(name of the budget, p99 TTFT in ms, p99 ITL in ms), ...], the smallest budget first."""
    (small, slow_ms, smooth_ms), (_, fast_ms, rough_ms) = points[0], points[-1]
    ttfts_ms, itls_ms = ([point[column] for point in points] for column in (1, 2))
    x = decades([min(ttfts_ms) / 3, *ttfts_ms], LEFT, RIGHT - 20)  # with room for words
    panel = Panel("tail", x, decades([min(itls_ms) / 1.5, *itls_ms, 1.5 * max(itls_ms)], BOTTOM, TOP))
    if not max(itls_ms):
        pieces = [text((x.start + x.end) / 2, (TOP + BOTTOM) / 2, "no request has a second token", "head middle")]
        title = "No request has a second token to wait for"
    else:
        places = [point[1:] for point in points]
        lines, boxes = segments(panel, places), []
        pieces = [group("quiet", "order", line(panel, places, "thin")),
                  group("good", "budgets", marks(panel, "circle", places))]
        named = {drawn_at(panel, *place): point for place, point in zip(places[::-1], points[::-1])}
        for name, *place in named.values():
            pieces += beside(panel, *place, name, "good", lines, boxes)
        pieces.append(text(x.start + 12, BOTTOM - 14, "better: down and left", "tick"))
        title = (f"A budget of {small}: tokens wait {milliseconds(smooth_ms)}, not {milliseconds(rough_ms)}, the "
                 f"first {milliseconds(slow_ms)}, not {milliseconds(fast_ms)}"
                 if smooth_ms < rough_ms else "The token budget changes nothing here")
    return picture(
        title, [f"p99 at {rps} requests/s, by max_num_batched_tokens"],
        "; ".join(f"{name}: ITL {milliseconds(itl)}, TTFT {milliseconds(ttft)}" for name, ttft, itl in points) + ".",
        BOTTOM + 64,
        draw(panel, axes(panel, "p99 TTFT, ms, log scale", "p99 ITL, ms, log scale"), *pieces),
    )
