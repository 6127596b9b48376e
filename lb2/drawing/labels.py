"""Where does a word stand so that it covers no line and no other word, whatever the numbers are?

Three ways, from the surest to the nearest. Words beside a panel or above it are moved apart (names,
heads). Words inside a panel take the first free place around their point, and are left out if there
is none (beside).

    spread([100, 100, 200], 0, 300, 20)     -> [90, 110, 200]
    box(60, 24, "p99", "bad")               -> (60, 10, 95.1, 28.3)      left, top, right, bottom
"""

from drawing.svg import RIGHT, SIZE, places, rule, text, width

LINE_GAP = 22  # from one label to the next below it


def box(x, y, words, kind=""):
    """(left, top, right, bottom) of a text; the arguments are those of svg.text."""
    wide = width(words, kind)
    left = x - (wide if "end" in kind.split() else wide / 2 if "middle" in kind.split() else 0)
    return left, y - 0.78 * SIZE, left + wide, y + 0.24 * SIZE


def spread(heights, highest, lowest, gap=LINE_GAP):
    """Heights of labels, moved as little as can be: `gap` apart at least, none above highest or below lowest.

    In least squares: what is too close forms a block (pool adjacent violators).
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


def names(panel, labels):
    """Words at the right of a panel. labels: [(value of y, words, kind), ...]."""
    heights = spread([panel.y.at(value) + 6 for value, _, _ in labels], panel.y.end + 15, panel.y.start)
    return [text(panel.x.end + 10, height, words, kind) for height, (_, words, kind) in zip(heights, labels)]


def heads(panel, labels):
    """Words above a panel, each over its value of x. labels: [(value of x, words, kind), ...]."""
    wide = max((width(words, kind) for _, words, kind in labels), default=0)
    middles = [panel.x.at(value) for value, _, _ in labels]
    middles = spread(middles, panel.x.start + wide / 2, RIGHT - wide / 2, gap=wide + 6)
    return [text(x, panel.y.end - 6, words, f"{kind} middle") for x, (_, words, kind) in zip(middles, labels)]


def drop(panel, x, y=None):
    """A dotted line from a point (or from the top of the panel) down to the axis."""
    return rule(panel.x.at(x), panel.y.end if y is None else panel.y.at(y), panel.x.at(x), panel.y.start)


def across(panel, value):
    """A dotted line at a value of y."""
    return rule(panel.x.start, panel.y.at(value), panel.x.end, panel.y.at(value))


def segments(panel, points):
    """The pieces of a line, as obstacles: [(x1, y1, x2, y2), ...] on the paper. A point alone is one of no length."""
    spots = places(panel, points)
    return [(*a, *b) for a, b in zip(spots, spots[1:] or spots)]


def crosses(obstacle, around):
    """Does a segment touch a box? Liang and Barsky: cut the segment at the four sides; is anything left of it?"""
    x1, y1, x2, y2 = obstacle
    left, top, right, bottom = around
    enters, leaves = 0.0, 1.0
    for move, room in ((x1 - x2, x1 - left), (x2 - x1, right - x1), (y1 - y2, y1 - top), (y2 - y1, bottom - y1)):
        if move == 0:
            if room < 0:
                return False
        elif move < 0:
            enters = max(enters, room / move)
        else:
            leaves = min(leaves, room / move)
    return enters <= leaves


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def beside(panel, x, y, words, kind, lines, boxes):
    """The words at the first free place around a point of the panel, as a list of one text or of none.

    lines: segments that must not be touched; boxes: those of the words so far; this one's is added.
    """
    at_x, at_y = panel.x.at(x), panel.y.at(y)
    sides = [(0, -14, "middle"), (0, 26, "middle"), (10, -10, ""), (-10, -10, "end"), (10, 22, ""), (-10, 22, "end"),
             (14, 6, ""), (-14, 6, "end"), (14, -34, ""), (-14, -34, "end"), (14, 46, ""), (-14, 46, "end"),
             (0, -40, "middle"), (14, -58, ""), (-14, -58, "end"), (0, -64, "middle"), (0, 52, "middle")]
    for right, down, side in sides:
        label = at_x + right, at_y + down, words, f"{kind} {side}".strip()
        edges = box(*label)
        inside = (panel.x.start <= edges[0] and edges[2] <= panel.x.end
                  and panel.y.end <= edges[1] and edges[3] <= panel.y.start)
        near = edges[0] - 3, edges[1] - 3, edges[2] + 3, edges[3] + 3
        if inside and not any(overlap(near, other) for other in boxes) and not any(crosses(one, near) for one in lines):
            boxes.append(edges)
            return [text(*label)]
    return []
