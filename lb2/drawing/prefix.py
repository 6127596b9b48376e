"""How much TTFT does a cached system prompt save? paged_prefix.py's ratio over the length of the
prompt.

The ratio is the median TTFT without prefix caching by the median TTFT with it. The marks are the
rows of paged_prefix.csv; the diamond is the shortest system prompt that makes it more than 8, if
that lies in the picture.
"""

import paged_prefix
from common import progress
from files.costs import Costs
from drawing.svg import LEFT, MARGIN, RIGHT, axes, draw, group, line, marks, picture, rule, text
from drawing.labels import beside, drop, segments
from drawing.scales import Panel, Scale, from_zero

SYSTEM_TOKENS = range(0, 4097, 256)
LONG = 1000  # of longer lists only the lengths of the file are played


def prefix_data(requests, costs=Costs(), rows=None):
    """[(system tokens, ratio of the medians), ...] and the shortest prompt beyond RATIO, one of
    them, or None.
    """
    if rows:  # of paged_prefix.csv
        return [(int(row["system_tokens"]), float(row["ratio"])) for row in rows], None
    short = len(requests.output_tokens) <= LONG
    lengths = sorted({*(SYSTEM_TOKENS if short else ()), *paged_prefix.SYSTEM_TOKENS})
    plays = (paged_prefix.measure(requests, tokens, costs) for tokens in lengths)
    measured = list(progress(plays, len(lengths)))
    beyond = None
    if short and measured[-1][1] > paged_prefix.RATIO * measured[-1][2]:  # or else it lies outside, perhaps far away
        beyond = paged_prefix.shortest_beyond(requests, paged_prefix.RATIO, costs)
        measured = sorted({*measured, paged_prefix.measure(requests, beyond, costs)})
    return [(tokens, off / on) for tokens, off, on in measured], beyond


def draw_prefix(ratios, beyond):
    """The arguments are what prefix_data returns."""
    y = from_zero([ratio for _, ratio in ratios], 336, 126)
    panel = Panel("ratio", Scale(0, ratios[-1][0], LEFT, RIGHT - 30), y)
    noted = [point for point in ratios if point[0] in paged_prefix.SYSTEM_TOKENS]
    pieces = [group("good", "ratio", line(panel, ratios), marks(panel, "circle", noted))]
    said = f"A cached system prompt of {ratios[-1][0]:,} tokens makes the median TTFT {ratios[-1][1]:.1f} times shorter"
    if beyond is not None:
        ratio = dict(ratios)[beyond]
        left = rule(panel.x.start, panel.y.at(ratio), panel.x.at(beyond), panel.y.at(ratio))
        mark = marks(panel, "diamond", [(beyond, ratio)])
        pieces.append(group("ink", "beyond", left, drop(panel, beyond, ratio), mark))
        lines = [*segments(panel, ratios), *segments(panel, [(0, ratio), (beyond, ratio), (beyond, 0)])]
        words = f"{paged_prefix.RATIO} times from {beyond:,} on"
        pieces += (beside(panel, beyond / 2, ratio, words, "head", lines, [])
                   or beside(panel, beyond, ratio, words, "head", lines, []))
        said += f", more than {paged_prefix.RATIO} times from {beyond:,} tokens on"
    return picture(
        "What does a cached system prompt save?",
        f"{said}.",
        396,
        text(MARGIN, 68, "Times that the median TTFT gets shorter"),
        draw(panel, axes(panel, "tokens of system prompt", "without the cache / with it"), *pieces),
    )
