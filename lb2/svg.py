"""How is a number drawn so that everybody can read it, and a test can read it back?

A picture is a few strings of SVG, joined. Lengths are in units of a viewBox 640 wide, and no letter is smaller than 15:
legible on a phone 400 pixels wide. Colours follow the reader's light or dark theme. No fonts to load, no scripts.

    Scale(0, 40, 60, 620).at(10)            -> 200.0           where a value is drawn
    ticks(Scale(0, 42, 60, 620))            -> [0, 10, 20, 30, 40]
    ticks(Scale(5, 3000, 300, 60, True))    -> [10, 100, 1000]
    number(12597), number(2500000)          -> "12,597", "2.5M"
    text(60, 24, "p99", "bad")              -> '<text class="bad" x="60" y="24">p99</text>'

A panel writes its scales into the file, data-x="linear 0 40 60 620": low and high value, and where they are drawn.
"""

from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

WIDTH, MARGIN = 640, 20
LINE = 20  # from one line of text to the next
MARKS = {  # around the point where the pen is
    "circle": "m-4.5,0a4.5,4.5 0 1 0 9,0a4.5,4.5 0 1 0 -9,0z",
    "square": "m-4,-4h8v8h-8z",
    "triangle": "m0,-5.5l5,9h-10z",
    "diamond": "m-5.5,0l5.5,-5.5l5.5,5.5l-5.5,5.5z",
    "cross": "m-6,-4l2,-2l4,4l4,-4l2,2l-4,4l4,4l-2,2l-4,-4l-4,4l-2,-2l4,-4z",
}
# On light and on dark paper. Blue, sky blue and vermilion are of the set that readers of every colour vision can tell
# apart (Okabe and Ito, Color Universal Design, 2008); vermilion letters have a shade with a contrast of 4.5 : 1.
COLOURS = {
    "text, g.ink": ("#1f2328", "#e6edf3"),
    "text.tick": ("#59636e", "#9198a1"),
    "g.good, text.good": ("#0072b2", "#56b4e9"),
    "g.bad": ("#d55e00", "#d55e00"),
    "text.bad": ("#b84800", "#f0803c"),
    "g.quiet": ("#a9bccb", "#48586a"),
    "path.axis": ("#8c959f", "#656c76"),
    "path.grid": ("#e3e7eb", "#21262d"),
    "rect.paper": ("#ffffff", "#0d1117"),
}
LIGHT, DARK = (
    "\n".join(f"{what} {{ color: {pair[theme]} }}" for what, pair in COLOURS.items())
    + f"\ng text, path.mark {{ stroke: {COLOURS['rect.paper'][theme]} }}"  # words and marks stand clear of lines
    for theme in (0, 1)
)
STYLE = f"""
text {{ fill: currentColor; font: 16px system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif }}
text.title {{ font-size: 20px }}
text.tick {{ font-size: 15px }}
text.title, text.head, text.good, text.bad {{ font-weight: 600 }}
text.middle {{ text-anchor: middle }}
text.end {{ text-anchor: end }}
g text, path.mark {{ paint-order: stroke; stroke-width: 4px; stroke-linejoin: round }}
rect, path.mark {{ fill: currentColor }}
path, polyline {{ fill: none; stroke: currentColor }}
path.rule {{ stroke-width: 1.5; stroke-dasharray: 1.5 4; stroke-linecap: round }}
polyline {{ stroke-width: 2.5; stroke-linejoin: round; stroke-linecap: round }}
polyline.dash {{ stroke-dasharray: 6 6; stroke-linecap: butt }}
{LIGHT}
@media (prefers-color-scheme: dark) {{
{DARK}
}}
"""


class Scale(NamedTuple):
    """Values from low to high are drawn from start to end."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value):
        low, high = self.low, self.high
        if self.log:
            value, low, high = log10(value), log10(low), log10(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


class Panel(NamedTuple):
    name: str
    x: Scale
    y: Scale  # start is below end


# --- round numbers ------------------------------------------------------------------------------------------------


def step(span, most=6):
    """The smallest of ... 1 2 5 10 20 50 ... that goes into span at most `most` times."""
    size = 10.0 ** floor(log10(span / most))
    return next(factor * size for factor in (1, 2, 5, 10, 20) if span <= factor * size * most)


def from_zero(values, start, end):
    """A linear scale from 0 to a round number that holds all the values (>= 0)."""
    highest = max(values) or 1
    size = step(highest)
    return Scale(0, ceil(highest / size) * size, start, end)


def decades(values, start, end):
    """A logarithmic scale that holds all the values above 0, from and to one of ... 1 2 5 10 20 50 ..."""
    positive = [value for value in values if value > 0] or [1]
    low, high = (10.0 ** floor(log10(value)) for value in (min(positive), max(positive)))
    low *= max(factor for factor in (1, 2, 5) if factor * low <= min(positive))
    high *= min(factor for factor in (1, 2, 5, 10) if factor * high >= max(positive))
    return Scale(low, high if high > low else 10 * low, start, end, log=True)


def ticks(scale, most=6):
    """Round values within the scale, in at most `most` steps. Logarithmic: decades, or the ends if less than two."""
    if scale.log:
        powers = range(ceil(log10(scale.low)), floor(log10(scale.high)) + 1)
        return [10.0**power for power in powers[:: ceil(len(powers) / most)]] if len(powers) > 1 else list(scale[:2])
    size = step(scale.high - scale.low, most)
    return [k * size for k in range(ceil(scale.low / size), floor(scale.high / size + 1e-9) + 1)]


def number(value):
    """As a label: 12,597 in full, and three digits of what is 100,000 and more."""
    for size, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= max(size, 99_999.5):
            return f"{value / size:.3g}{name}"
    return f"{value:,.6g}"


def spread(heights, highest, lowest, gap=18):
    """Where labels go that belong at these heights: `gap` apart at least, none above highest or below lowest.

    As little is moved as can be, in least squares: what is too close forms a block (pool adjacent violators).
    """
    order = sorted(range(len(heights)), key=heights.__getitem__)
    blocks = []  # [sum, count] of heights, each less a gap for every label above it
    for rank, label in enumerate(order):
        blocks.append([heights[label] - rank * gap, 1])
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] > blocks[-1][0] * blocks[-2][1]:
            total, count = blocks.pop()
            blocks[-1] = [blocks[-1][0] + total, blocks[-1][1] + count]
    tops = [total / count for total, count in blocks for _ in range(count)]
    placed = {label: max(min(top, lowest - (len(order) - 1) * gap), highest) for label, top in zip(order, tops)}
    return [placed[label] + order.index(label) * gap for label in range(len(heights))]


# --- pieces -------------------------------------------------------------------------------------------------------


def units(length):
    """Hundredths of a unit, the same on every machine."""
    return f"{length:.2f}".rstrip("0").rstrip(".")


def text(x, y, words, kind=""):
    """kind: classes of STYLE, such as "bad end": vermilion, and x is where the words end."""
    kind = f' class="{kind}"' if kind else ""
    return f'<text{kind} x="{units(x)}" y="{units(y)}">{escape(words, quote=False)}</text>'


def path(kind, *moves):
    return f'<path class="{kind}" d="{"".join(moves)}"/>' if moves else ""


def rule(x1, y1, x2, y2):
    """A dotted line, for the eye to follow."""
    return path("rule", f"M{units(x1)},{units(y1)}L{units(x2)},{units(y2)}")


def bar(x1, y1, x2, y2):
    """Edges are rounded, not lengths, so that bars that meet are seen to meet."""
    x1, y1, x2, y2 = (round(edge, 2) for edge in (x1, y1, x2, y2))
    return f'<rect x="{units(x1)}" y="{units(y1)}" width="{units(x2 - x1)}" height="{units(y2 - y1)}"/>'


def places(panel, points):
    """ "x,y" of each point; a logarithmic scale has no place for 0."""
    return [f"{units(panel.x.at(x))},{units(panel.y.at(y))}" for x, y in points if y > 0 or not panel.y.log]


def marks(panel, shape, points):
    return path("mark", *(f"M{place}{MARKS[shape]}" for place in places(panel, points)))


def line(panel, points, dashed=False):
    dash = ' class="dash"' if dashed else ""
    return f'<polyline{dash} points="{" ".join(places(panel, points))}"/>'


def axes(panel, x_title, y_title):
    """Quiet lines and numbers. The titles say the units; where one is empty, there are no numbers either."""
    x, y = panel.x, panel.y
    columns = ticks(x) if x_title else []
    rows = ticks(y, max(1, round((y.start - y.end) / 40))) if y_title else []
    return "\n".join(filter(None, [
        path("grid", *(f"M{units(x.start)},{units(y.at(value))}H{units(x.end)}" for value in rows)),
        path("axis", f"M{units(x.start)},{units(y.start)}H{units(x.end)}",
             *(f"M{units(x.at(value))},{units(y.start)}v5" for value in columns)),
        *(text(x.start - 7, y.at(value) + 5, number(value), "tick end") for value in rows),
        *(text(x.at(value), y.start + 21, number(value), "tick middle") for value in columns),
        text(MARGIN, y.end - 14, y_title, "tick") if y_title else "",
        text(x.end, y.start + 21 + LINE, x_title, "tick end") if x_title else "",
    ]))


# --- the whole ----------------------------------------------------------------------------------------------------


def group(kind, name, *pieces):
    """Pieces of one colour that show one thing."""
    return f'<g class="{kind}" data-series="{name}">\n' + "\n".join(filter(None, pieces)) + "\n</g>"


def draw(panel, *pieces):
    """The pieces of a panel, and its scales."""
    x, y = (" ".join(["log" if scale.log else "linear", *map("{:.12g}".format, scale[:4])]) for scale in panel[1:])
    return f'<g data-panel="{panel.name}" data-x="{x}" data-y="{y}">\n' + "\n".join(filter(None, pieces)) + "\n</g>"


def picture(title, description, height, *pieces):
    """The text of the file. title: up to 44 letters; description: the finding, for whoever cannot see it."""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title, quote=False)}</title>",
        f"<desc>{escape(description, quote=False)}</desc>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="8"/>',
        text(MARGIN, 33, title, "title"),
        *pieces,
        "</svg>\n",
    ])
