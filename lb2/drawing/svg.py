"""How is a number drawn so that everybody can read it, and a test can read it back?

A picture is a few strings of SVG, joined. Lengths are in units of a viewBox 640 wide. No letter is
smaller than 18 units, which is 11 pixels on a phone 400 pixels wide. Colours follow the reader's
light or dark theme. No fonts to load, no scripts.

    text(60, 24, "p99", "bad")              -> '<text class="bad" x="60" y="24">p99</text>'
    marks(panel, "square", [(5, 30)])       -> '<path class="mark" d="..."/>'

A panel writes its scales into the file, data-x="linear 0 40 60 620": low and high value, and where
they are drawn.
"""

from html import escape

from drawing.scales import number, ticks

WIDTH, MARGIN = 640, 20
LEFT, RIGHT = 94, WIDTH - MARGIN  # of a panel with numbers on its left
SIZE, TITLE_SIZE = 18, 22
LINE = 24  # from one line of text to the next
MARKS = {  # around the point where the pen is
    "circle": "m-5,0a5,5 0 1 0 10,0a5,5 0 1 0 -10,0z",
    "square": "m-4.5,-4.5h9v9h-9z",
    "triangle": "m0,-6.5l6,10.5h-12z",
    "diamond": "m-6.5,0l6.5,-6.5l6.5,6.5l-6.5,6.5z",
    "cross": "m-6,-4l2,-2l4,4l4,-4l2,2l-4,4l4,4l-2,2l-4,-4l-4,4l-2,-2l4,-4z",
    "bar": "m-7,-2.5h14v5h-14z",
}
# On light and on dark paper. Blue, sky blue and vermilion are of the set that readers of every colour vision can tell
# apart (Okabe and Ito, Color Universal Design, 2008). Letters have a contrast of 4.5 : 1 with the paper, lines and bars
# of 3 : 1. Work is darker than idleness on light paper and brighter on dark paper, so that grey print tells them apart.
PAPER = "rect.paper, path.paper, text.onbar"
COLOURS = {
    "text, g.ink": ("#1f2328", "#e6edf3"),
    "text.tick": ("#59636e", "#9198a1"),
    "g.good, text.good": ("#0072b2", "#56b4e9"),
    "g.bad": ("#d55e00", "#e8702a"),
    "text.bad": ("#b84800", "#f0803c"),
    "g.work": ("#00609a", "#56b4e9"),
    "g.idle": ("#e5762a", "#a85016"),
    "g.quiet": ("#7f8b97", "#7f8b97"),
    "path.axis": ("#8c959f", "#656c76"),
    "path.grid": ("#e3e7eb", "#21262d"),
    "rect.zone": ("#fbeee4", "#2b1b12"),
    "rect.noise": ("#dde3e9", "#2a323b"),
    PAPER: ("#ffffff", "#0d1117"),
}
LIGHT, DARK = (
    "\n".join(f"{what} {{ color: {pair[theme]} }}" for what, pair in COLOURS.items())
    + f"\ng text, path.mark {{ stroke: {COLOURS[PAPER][theme]} }}"  # both stand clear of lines
    for theme in (0, 1)
)
STYLE = f"""
text {{ fill: currentColor; font: {SIZE}px system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif }}
text.title {{ font-size: {TITLE_SIZE}px }}
text.title, text.head, text.good, text.bad {{ font-weight: 600 }}
text.onbar {{ font-weight: 600 }}
text.middle {{ text-anchor: middle }}
text.end {{ text-anchor: end }}
g text, path.mark {{ paint-order: stroke; stroke-width: 4px; stroke-linejoin: round }}
g text.onbar {{ stroke: none }}
rect, path.mark, path.paper, path.band {{ fill: currentColor }}
path, polyline {{ fill: none; stroke: currentColor }}
path.hollow {{ stroke-width: 2.2 }}
path.band {{ stroke: none; opacity: 0.25 }}
g.quiet path.band {{ opacity: 0.12 }}
path.paper {{ stroke: none }}
rect.hollow {{ fill: none; stroke: currentColor; stroke-width: 1.6 }}
path.rule {{ stroke-width: 1.5; stroke-dasharray: 1.5 4; stroke-linecap: round }}
polyline {{ stroke-width: 2.5; stroke-linejoin: round; stroke-linecap: round }}
polyline.dash {{ stroke-dasharray: 6 6; stroke-linecap: butt }}
polyline.thin {{ stroke-width: 1.5 }}
{LIGHT}
@media (prefers-color-scheme: dark) {{
{DARK}
}}
"""


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


def bar(x1, y1, x2, y2, kind=""):
    """Edges are rounded, not lengths, so that bars that meet are seen to meet."""
    x1, y1, x2, y2 = (round(edge, 2) for edge in (x1, y1, x2, y2))
    kind = f'class="{kind}" ' if kind else ""
    return f'<rect {kind}x="{units(x1)}" y="{units(y1)}" width="{units(x2 - x1)}" height="{units(y2 - y1)}"/>'


def places(panel, points):
    """(x, y) on the paper of each point; a logarithmic scale has no place for 0."""
    return [(panel.x.at(x), panel.y.at(y)) for x, y in points if y > 0 or not panel.y.log]


def joined(spots, between=" "):
    return between.join(f"{units(x)},{units(y)}" for x, y in spots)


def marks(panel, shape, points, kind="mark"):
    """kind: "mark" is filled and hides what is behind it; "hollow" is an outline and hides nothing.
    """
    return path(kind, *(f"M{units(x)},{units(y)}{MARKS[shape]}" for x, y in places(panel, points)))


def line(panel, points, kind=""):
    """kind: "dash", "thin" or nothing."""
    kind = f' class="{kind}"' if kind else ""
    return f'<polyline{kind} points="{joined(places(panel, points))}"/>'


def band(panel, lows, highs):
    """The area between two lines, given as points (x, y) in the order of x."""
    edge = places(panel, lows) + places(panel, highs)[::-1]
    return path("band", f"M{joined(edge, 'L')}z") if edge else ""


def key(x, y, kind, words, hollow=False):
    """A little bar in a colour, and what the colour means."""
    return group(kind, "key", bar(x, y - 13, x + 14, y + 1, "hollow" if hollow else "")) + text(x + 22, y, words)


def sample(x, y, kind, shape, words, dash="", mark="mark"):
    """A little line with its mark, and the name of what it stands for."""
    way = f'<polyline class="{dash}"' if dash else "<polyline"
    way += f' points="{joined([(x, y - 6), (x + 40, y - 6)])}"/>'
    middle = path(mark, f"M{units(x + 20)},{units(y - 6)}{MARKS[shape]}")
    return group(kind, "key", way, middle) + text(x + 50, y, words)


def below(x, y, words):
    """A number below an axis; at the edge of the paper it ends there."""
    return text(WIDTH - 6, y, words, "tick end") if x > WIDTH - 40 else text(x, y, words, "tick middle")


def axes(panel, x_title, y_title, rise=16):
    """Quiet lines and numbers. The titles say the units; where one is empty, there are no numbers
    either.

    rise: how far above the panel the title of y stands.
    """
    x, y = panel.x, panel.y
    columns = ticks(x) if x_title else []
    rows = ticks(y, max(1, round((y.start - y.end) / 44))) if y_title else []
    return "\n".join(filter(None, [
        path("grid", *(f"M{units(x.start)},{units(y.at(value))}H{units(x.end)}" for value in rows)),
        path("axis", f"M{units(x.start)},{units(y.start)}H{units(x.end)}",
             *(f"M{units(x.at(value))},{units(y.start)}v5" for value in columns)),
        *(text(x.start - 8, y.at(value) + 6, number(value), "tick end") for value in rows),
        *(below(x.at(value), y.start + 25, number(value)) for value in columns),
        text(MARGIN, y.end - rise, y_title, "tick") if y_title else "",
        text(x.end, y.start + 25 + LINE, x_title, "tick end") if x_title else "",
    ]))


# --- the whole ----------------------------------------------------------------------------------------------------


def group(kind, name, *pieces):
    """Pieces of one colour that show one thing."""
    return f'<g class="{kind}" data-series="{name}">\n' + "\n".join(filter(None, pieces)) + "\n</g>"


def draw(panel, *pieces):
    """The pieces of a panel, and its scales."""
    x, y = (" ".join(["log" if scale.log else "linear", *map("{:.12g}".format, scale[:4])]) for scale in panel[1:])
    return f'<g data-panel="{panel.name}" data-x="{x}" data-y="{y}">\n' + "\n".join(filter(None, pieces)) + "\n</g>"


def picture(title, description, height, *pieces, style=""):
    """The text of the file. title: up to 40 letters; description: the finding, for whoever cannot
    see it.
    """
    return "\n".join(filter(None, [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {units(height)}" role="img">',
        f"<title>{escape(title, quote=False)}</title>",
        f"<desc>{escape(description, quote=False)}</desc>",
        f"<style>{STYLE}{style}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{units(height)}" rx="8"/>',
        text(MARGIN, 36, title, "title"),
        *pieces,
        "</svg>\n",
    ]))
