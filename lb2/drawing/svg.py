"""How is a number drawn so that everybody can read it, and a test can read it back?

A picture is a few strings of SVG, joined. Lengths are in units of a viewBox 576 wide. No letter is
smaller than 18 units: 11 pixels in the 358 that a page of GitHub has on a phone. Colours follow the
reader's light or dark theme. No fonts to load, no scripts.

    text(60, 24, "p99", "bad")              -> '<text class="bad" x="60" y="24">p99</text>'
    marks(panel, "square", [(5, 30)])       -> '<path class="mark" d="..."/>'

A panel writes its scales into the file, data-x="linear 0 40 60 620": low and high value, and where
they are drawn. The y of all but the title and the notes counts from the last line of these.
"""

from html import escape
from math import fsum

from drawing.scales import number, ticks

WIDTH, MARGIN = 576, 16
LEFT, RIGHT = 84, WIDTH - MARGIN  # of a panel with numbers on its left
SIZE, TITLE_SIZE = 18, 20
LINE = 24  # from one line of text to the next
THIN, WIDE, BOLD = set("ijlftrI .,:;'!|()[]/-"), set("mwMWGOQ@%"), {"title", "head", "good", "bad"}
MARKS = {  # around the point where the pen is
    "circle": "m-5,0a5,5 0 1 0 10,0a5,5 0 1 0 -10,0z",
    "square": "m-4.5,-4.5h9v9h-9z",
    "diamond": "m-6.5,0l6.5,-6.5l6.5,6.5l-6.5,6.5z",
}
# On light and on dark paper: blue, sky blue and vermilion of the set that every colour vision can tell apart (Okabe and
# Ito, Color Universal Design, 2008). Contrast with the paper: letters 4.5 : 1, lines and bars 3 : 1. Work is darker
# than idleness on light paper and brighter on dark paper, so that grey print tells them apart.
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
text.title, text.head, text.good, text.bad, text.onbar {{ font-weight: 600 }}
text.middle {{ text-anchor: middle }} text.end {{ text-anchor: end }}
g text, path.mark {{ paint-order: stroke; stroke-width: 4px; stroke-linejoin: round }} g text.onbar {{ stroke: none }}
rect, path.mark, path.paper, path.band {{ fill: currentColor }}
path, polyline {{ fill: none; stroke: currentColor }}
path.hollow {{ stroke-width: 2.2 }}
path.paper, path.band {{ stroke: none }}
path.band {{ opacity: 0.25 }}
rect.hollow {{ fill: none; stroke: currentColor; stroke-width: 1.6 }}
path.rule {{ stroke-width: 1.5; stroke-dasharray: 1.5 4; stroke-linecap: round }}
polyline {{ stroke-width: 2.5; stroke-linejoin: round; stroke-linecap: round }} polyline.thin {{ stroke-width: 1.5 }}
{LIGHT}
@media (prefers-color-scheme: dark) {{
{DARK}
}}
"""


def width(words, kind=""):
    """Units that the words take: at least what DejaVu Sans takes, the widest font that a browser may choose."""
    letters = fsum(0.42 if letter in THIN else 0.98 if letter in WIDE else 0.65 for letter in words)
    return (TITLE_SIZE if "title" in kind.split() else SIZE) * letters * (1.1 if BOLD & set(kind.split()) else 1)


def wrapped(words, kind):
    """The words in lines as wide as the paper."""
    lines = []
    for word in words.split():
        longer = f"{lines[-1]} {word}" if lines else word
        lines[-1:] = [longer] if width(longer, kind) <= RIGHT - MARGIN else [*lines[-1:], word]
    return lines


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


def zone(kind, panel, low, high):
    """A shaded part of a panel, between two values of x."""
    return bar(panel.x.at(low), panel.y.end, panel.x.at(high), panel.y.start, kind)


def places(panel, points):
    """(x, y) on the paper of each point; a logarithmic scale has no place for 0."""
    return [(panel.x.at(x), panel.y.at(y)) for x, y in points if y > 0 or not panel.y.log]


def joined(spots, between=" "):
    return between.join(f"{units(x)},{units(y)}" for x, y in spots)


def marks(panel, shape, points, kind="mark"):
    """kind: "mark" is filled and hides what is behind it; "hollow" is an outline and hides nothing."""
    return path(kind, *(f"M{units(x)},{units(y)}{MARKS[shape]}" for x, y in places(panel, points)))


def line(panel, points, kind=""):
    """kind: "thin" or nothing."""
    kind = f' class="{kind}"' if kind else ""
    return f'<polyline{kind} points="{joined(places(panel, points))}"/>'


def axes(panel, x_title, y_title, rise=16):
    """Quiet lines and numbers. The titles say the units; where one is empty, there are no numbers either.

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
        *(text(min(x.at(value), WIDTH - 6 - width(number(value)) / 2), y.start + 25, number(value), "tick middle")
          for value in columns),
        text(MARGIN, y.end - rise, y_title, "tick") if y_title else "",
        text(x.end, y.start + 25 + LINE, x_title, "tick end") if x_title else "",
    ]))


def group(kind, name, *pieces):
    """Pieces of one colour that show one thing."""
    return f'<g class="{kind}" data-series="{name}">\n' + "\n".join(filter(None, pieces)) + "\n</g>"


def draw(panel, *pieces):
    """The pieces of a panel, and its scales."""
    x, y = (" ".join(["log" if scale.log else "linear", *map("{:.12g}".format, scale[:4])]) for scale in panel[1:])
    return f'<g data-panel="{panel.name}" data-x="{x}" data-y="{y}">\n' + "\n".join(filter(None, pieces)) + "\n</g>"


def picture(title, notes, said, height, *pieces, style=""):
    """The text of the file. title: the finding; notes: what else one must know; said: numbers for who cannot see them.

    height: of the pieces; the words above them are added.
    """
    lines = [(words, kind) for some, kind in ((title, "title"), *((note, "") for note in notes))
             for words in wrapped(some, kind)]
    top = 34 + LINE * (len(lines) - 1)
    whole = units(top + height)
    said = " ".join([f"{title}.", *(f"{note}." for note in notes), said]).strip()
    return "\n".join(filter(None, [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{whole}" viewBox="0 0 {WIDTH} {whole}" '
        'role="img">',
        f"<title>{escape(title, quote=False)}</title>",
        f"<desc>{escape(said, quote=False)}</desc>",
        f"<style>{STYLE}{style}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{whole}" rx="8"/>',
        *(text(MARGIN, 34 + LINE * row, *line) for row, line in enumerate(lines)),
        f'<g transform="translate(0,{top})">',
        *pieces,
        "</g>\n</svg>\n",
    ]))
