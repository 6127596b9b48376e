"""Reads a picture back: scales, lines, marks, bars and words; and finds words that cannot be read."""

import re
from math import log10
from xml.etree import ElementTree

from drawing.labels import box as box_of
from drawing.labels import crosses

XMLNS = "{http://www.w3.org/2000/svg}"


class Axis:
    """data-x or data-y of a panel, read back."""

    def __init__(self, words):
        kind, *numbers = words.split()
        self.log = kind == "log"
        self.low, self.high, self.start, self.end = map(float, numbers)

    def value(self, place):
        share = (place - self.start) / (self.end - self.start)
        if self.log:
            return 10 ** (log10(self.low) + share * (log10(self.high) - log10(self.low)))
        return self.low + share * (self.high - self.low)

    def is_at(self, place, written):
        """Is this the place of a number that is written with so many decimals? Places are rounded to 0.01."""
        half = 0.5 / 10 ** len(f"{written}.".split(".")[1])
        ends = sorted(self.value(place + slip) for slip in (-0.006, 0.006))
        return ends[0] - half <= float(written) <= ends[1] + half


def panel_of(text, name):
    """(x axis, y axis, {series: its elements}) of a panel."""
    panel = ElementTree.fromstring(text).find(f".//*[@data-panel='{name}']")
    groups = {group.get("data-series"): list(group) for group in panel.iter(f"{XMLNS}g") if group.get("data-series")}
    return Axis(panel.get("data-x")), Axis(panel.get("data-y")), groups


def points(elements):
    """The places of a line."""
    line = next(element for element in elements if element.tag == f"{XMLNS}polyline")
    return [tuple(map(float, place.split(","))) for place in line.get("points").split()]


def marks(elements, kinds=("mark", "hollow")):
    """The places of the marks."""
    drawn = (element.get("d") for element in elements if element.get("class") in kinds)
    return [(float(x), float(y)) for path in drawn for x, y in re.findall(r"M([\d.]+),([\d.]+)", path)]


def bars(elements):
    return [tuple(float(bar.get(side)) for side in ("x", "y", "width", "height")) for bar in elements]


def words(text):
    return [element.text for element in ElementTree.fromstring(text).iter(f"{XMLNS}text")]


def title(text):
    """The finding, which may be drawn in two lines."""
    (found,) = (element.text for element in ElementTree.fromstring(text) if element.tag == f"{XMLNS}title")
    drawn = [element.text for element in ElementTree.fromstring(text) if element.get("class") == "title"]
    assert " ".join(drawn) == found
    return found


def notes(text):
    """The words between the title and the picture, as one."""
    root = ElementTree.fromstring(text)
    return " ".join(child.text for child in root if child.tag == f"{XMLNS}text" and child.get("class") is None)


def assert_drawn(axes, places, written):
    """Places against rows of (x, y) as they are written in a file."""
    assert len(places) == len(written)
    for (x, y), (x_written, y_written) in zip(places, written):
        assert axes[0].is_at(x, x_written), f"x {axes[0].value(x)}, and the file says {x_written}"
        assert axes[1].is_at(y, y_written), f"y {axes[1].value(y)}, and the file says {y_written}"


# --- can every word be read? --------------------------------------------------------------------------------------

def placed(text):
    """(element, how far it is moved down) of all that is drawn."""
    for child in ElementTree.fromstring(text):
        moved = re.fullmatch(r"translate\(0,(\d+)\)", child.get("transform") or "")
        for element in child.iter():
            if "sweep" not in (child.get("class") or ""):
                yield element, int(moved[1]) if moved else 0


def boxes(text):
    """(left, top, right, bottom, words) of every text."""
    return [(*box_of(float(element.get("x")), float(element.get("y")) + down, element.text, element.get("class") or ""),
             element.text) for element, down in placed(text) if element.tag == f"{XMLNS}text"]


def strokes(text):
    """[(x1, y1, x2, y2), ...] of every line that means something: of data, dotted lines, and marks as points."""
    found = []
    for element, down in placed(text):
        kind = (element.get("class") or "").split()
        if element.tag == f"{XMLNS}polyline":
            spots = [tuple(map(float, place.split(","))) for place in element.get("points").split()]
            lines = [(*a, *b) for a, b in zip(spots, spots[1:])]
        elif "rule" in kind:
            lines = [tuple(map(float, ends)) for ends in
                     re.findall(r"M([\d.]+),([\d.]+)L([\d.]+),([\d.]+)", element.get("d"))]
        elif "mark" in kind or "hollow" in kind and element.get("d"):
            lines = [(float(x), float(y), float(x), float(y)) for x, y in
                     re.findall(r"M([\d.]+),([\d.]+)", element.get("d"))]
        else:
            lines = []
        found += [(x1, y1 + down, x2, y2 + down) for x1, y1, x2, y2 in lines]
    return found


def assert_legible(text):
    """Nothing hangs over an edge, no word lies on another or on a line, nothing is drawn at no number."""
    root = ElementTree.fromstring(text)
    _, _, right, bottom = map(float, root.get("viewBox").split())
    words_at = boxes(text)
    for box in words_at:
        assert box[0] >= 0 and box[1] >= 0 and box[2] <= right and box[3] <= bottom, f"{box} leaves the picture"
    for i, a in enumerate(words_at):
        for b in words_at[:i]:
            apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
            assert apart, f"{a[4]!r} and {b[4]!r} overlap"
    for stroke in strokes(text):
        near = [box for box in words_at if box[0] < max(stroke[::2]) and min(stroke[::2]) < box[2]]
        for box in near:
            inner = box[0] + 0.01, box[1] + 0.01, box[2] - 0.01, box[3] - 0.01
            assert not crosses(stroke, inner), f"the line {stroke} runs through {box[4]!r}"
    assert not re.search(r"\b(nan|inf|None)\b", text)
    for element in root.iter():
        for name in ("points", "d", "x", "y", "width", "height"):
            shapes = re.sub(r"m[^M]*?z|[hv]-?[\d.]+", "", element.get(name) or "")
            numbers = map(float, re.findall(r"-?[\d.]+", shapes))
            assert all(-0.01 <= number <= max(right, bottom) + 0.01 for number in numbers), (element.tag, name)
