"""What do the requests look like? How long prompts and answers are: a bar counts requests, and its
width is a fifth of a doubling.
"""

from common import percentile
from drawing.svg import MARGIN, RIGHT, axes, draw, group, picture, text
from drawing.labels import drop, heads
from drawing.scales import Panel, decades, from_zero
from drawing.ttft import bars, bins, edges

TALL = 100


def draw_traffic(requests):
    """Two histograms. requests: Requests."""
    pieces, said, top = [], [], 66
    for name, tokens in zip(("prompt", "answer"), requests):
        count = bins(tokens)
        panel = Panel(name, decades(edges(count), MARGIN + 24, RIGHT - 20), from_zero(count.values(), top + TALL, top))
        half, most = (percentile(tokens, percent) for percent in (50, 99))
        marked = [(half, f"half: {half:,.0f}", ""), (most, f"p99: {most:,.0f}", "")]
        pieces.append(text(MARGIN, top - 34, f"Tokens of the {name}", "head"))
        pieces.append(draw(panel, axes(panel, "tokens, log scale", ""), group("quiet", "requests", *bars(panel, count)),
                           group("ink", "marked", *(drop(panel, tokens) for tokens, *_ in marked)),
                           *heads(panel, marked)))
        said.append(f"{name}s have {half:,.0f} tokens in the median, {most:,.0f} at p99")
        top += TALL + 112
    return picture(f"Half of the prompts have {percentile(requests[0], 50):,.0f} tokens or fewer, "
                   f"half of the answers {percentile(requests[1], 50):,.0f}", [], f"{'; '.join(said).capitalize()}.",
                   top - 42, *pieces)
