"""Scales, labels and the stays in a slot, by hand-worked cases."""

import continuous
from drawing import slots as picture_slots
import pytest
import static
from drawing import svg
from drawing import labels as svg_labels
from drawing import scales as svg_scales
from common import Requests
from drawing.scales import Panel, Scale

HAND = Panel("hand", Scale(0, 100, 100, 500), Scale(1, 1000, 300, 0, True))  # 1 is at 300, 10 at 200


def test_scales_and_their_round_numbers():
    """40 wide from 0: 20 is halfway. 10 to 1000 on a log scale: 100 is. Numbers grow upwards: start is below end."""
    assert svg_scales.Scale(0, 40, 60, 620).at(10) == 200
    assert svg_scales.Scale(10, 1000, 300, 100, True).at(100) == 200
    assert svg_scales.ticks(svg_scales.Scale(0, 42, 60, 620)) == [0, 10, 20, 30, 40]
    assert svg_scales.ticks(svg_scales.Scale(0, 0.013, 60, 620)) == pytest.approx([0, 0.005, 0.01])
    assert svg_scales.ticks(svg_scales.Scale(5, 3000, 300, 60, True)) == [10, 100, 1000]
    assert svg_scales.ticks(svg_scales.Scale(1, 1e9, 300, 60, True), most=5) == [1, 100, 1e4, 1e6, 1e8]
    assert svg_scales.ticks(svg_scales.Scale(20, 50, 300, 60, True)) == [20, 50]
    assert svg_scales.from_zero([3, 1171], 1, 0)[:2] == (0, 1200) and svg_scales.from_zero([0], 1, 0)[:2] == (0, 1)
    assert svg_scales.decades([0, 22.6, 13_140], 1, 0)[:2] == (20, 20_000)
    assert svg_scales.decades([0, 0], 1, 0)[:2] == svg_scales.decades([1], 1, 0)[:2] == (1, 10)
    for values in ([0.3], [0.6], [7e-5], [999.5, 2], [5e12]):
        scale = svg_scales.from_zero(values, 1, 0)
        assert max(values) <= scale.high < 2 * max(values) + 1e-9 and len(svg_scales.ticks(scale)) <= 7
        log = svg_scales.decades(values, 1, 0)
        assert log.low <= min(values) and max(values) <= log.high < 10.1 * max(values)
    assert [svg_scales.number(n) for n in (0, 0.005, 12_597, 99_999, 100_000, 2_500_000, 5e12)] == [
        "0", "0.005", "12,597", "99,999", "100k", "2.5M", "5T"]


def test_labels_are_moved_apart_as_little_as_can_be():
    """Two at the same height: half a gap up, half a gap down. A third far away stays. At the edge, all stay inside."""
    assert svg_labels.spread([100, 100, 200], 0, 300, gap=20) == [90, 110, 200]
    assert svg_labels.spread([200, 100, 101], 0, 300, gap=20) == [200, 90.5, 110.5]
    assert svg_labels.spread([299, 300], 0, 300, gap=20) == [280, 300]
    assert svg_labels.spread([0, 1, 2], 0, 300, gap=20) == [0, 20, 40]
    assert svg_labels.spread([10, 29, 48], 0, 300, gap=20) == [9, 29, 49]


def test_a_freed_slot_is_the_lowest_that_is_free():
    """Three requests in two slots (static.py's example): the third takes the slot of the first, which ended first."""
    requests = Requests([100, 200, 100], [1, 3, 2])
    rows = picture_slots.stays(continuous.schedule(requests, 2), 2, 44_000)
    assert rows == [[(0, 23_000), (23_000, 44_000)], [(0, 44_000)]]
    rows = picture_slots.stays(static.schedule(requests, 2), 2, 50_000)
    assert rows == [[(0, 23_000), (39_000, 50_000)], [(0, 39_000)]]
    assert [picture_slots.gaps(row, 50_000) for row in rows] == [[(23_000, 39_000)], [(39_000, 50_000)]]


def test_times_in_words():
    """Seconds where ms would have five digits."""
    times = (0.5, 8, 44.845, 99.94, 99.96, 476.8, 9_999.4, 9_999.5, 12_345, 250_000_000)
    assert [svg_scales.milliseconds(ms) for ms in times] == [
        "0.5 ms", "8 ms", "44.8 ms", "99.9 ms", "100 ms", "477 ms", "9,999 ms", "10 s", "12.3 s", "250k s"]


def test_a_line_crosses_a_box_or_passes_it_by():
    around = (10, 10, 20, 20)
    assert svg_labels.crosses((0, 15, 30, 15), around) and svg_labels.crosses((0, 0, 30, 30), around)
    assert svg_labels.crosses((12, 12, 13, 13), around) and svg_labels.crosses((15, 15, 15, 15), around)
    assert not svg_labels.crosses((0, 5, 30, 5), around) and not svg_labels.crosses((0, 15, 9, 15), around)
    assert not svg_labels.crosses((0, 25, 25, 35), around) and not svg_labels.crosses((5, 5, 5, 5), around)
    assert not svg_labels.crosses((0, 18, 18, 0), (10, 10, 20, 20)), "past a corner"


def test_a_word_takes_the_first_free_place_or_none():
    """Right of the point and above it; below it, if a line is there; nowhere, if all is taken."""
    panel = Panel("p", Scale(0, 10, 100, 500), Scale(0, 10, 400, 100))
    boxes = []
    assert svg_labels.beside(panel, 5, 5, "word", "", [], boxes) == ['<text x="310" y="240">word</text>']
    assert len(boxes) == 1
    above = [(0, 235, 640, 235)]
    assert svg_labels.beside(panel, 5, 5, "word", "", above, []) == ['<text x="310" y="272">word</text>']
    everywhere = [(0, y, 640, y) for y in range(0, 640, 5)]
    assert svg_labels.beside(panel, 5, 5, "word", "", everywhere, boxes) == [] and len(boxes) == 1


def test_words_above_a_panel_stay_in_their_order_and_apart():
    panel = Panel("p", Scale(0, 100, 94, 546), Scale(0, 1, 300, 100))
    first, second = svg_labels.heads(panel, [(14, "14", "bad"), (15, "15", "good")])
    at = [float(word.split('x="')[1].split('"')[0]) for word in (first, second)]
    assert at[1] - at[0] == pytest.approx(svg_labels.width("14", "bad") + 6, abs=0.02)
    assert sum(at) / 2 == pytest.approx(panel.x.at(14.5), abs=0.02), "moved as little as can be"


# --- pieces -------------------------------------------------------------------------------------------------------


def test_pieces_of_a_picture():
    """Worked out by hand, in hundredths of a unit. A log scale has no place for 0."""
    assert [svg.units(length) for length in (0, 2.0, 2.5, 2.346, 100, -7.104)] == [
        "0", "2", "2.5", "2.35", "100", "-7.1"]
    assert svg.text(1, 2.5, 'a < "b" & c') == '<text x="1" y="2.5">a &lt; "b" &amp; c</text>'
    assert svg.text(1, 2, "a", "bad end") == '<text class="bad end" x="1" y="2">a</text>'
    assert svg.path("mark") == "" and svg.path("mark", "M1,2", "h3") == '<path class="mark" d="M1,2h3"/>'
    assert svg.rule(1, 2, 3, 4.5) == '<path class="rule" d="M1,2L3,4.5"/>'
    assert svg.bar(1, 2, 4.5, 8) == '<rect x="1" y="2" width="3.5" height="6"/>'
    assert svg.bar(1.004, 2, 4.006, 8, "hollow") == '<rect class="hollow" x="1" y="2" width="3.01" height="6"/>'
    assert svg.places(HAND, [(0, 10), (50, 0), (100, 1)]) == [(100, 200), (500, 300)]
    assert svg.places(HAND._replace(y=Scale(0, 10, 300, 0)), [(50, 0), (100, 1)]) == [(300, 300), (500, 270)]
    assert svg.marks(HAND, "square", [(0, 10)]) == '<path class="mark" d="M100,200m-4.5,-4.5h9v9h-9z"/>'
    assert svg.line(HAND, [(0, 10), (50, 1)], "dash") == '<polyline class="dash" points="100,200 300,300"/>'
    assert svg.line(HAND, [(0, 10)]) == '<polyline points="100,200"/>'
    assert svg.band(HAND, [(0, 1), (50, 1)], [(0, 10), (50, 100)]) == (
        '<path class="band" d="M100,300L300,300L300,100L100,200z"/>')
    assert svg.band(HAND, [(0, 0)], [(0, 0)]) == ""
    assert svg.key(20, 33, "work", "a", hollow=True) == (
        '<g class="work" data-series="key">\n<rect class="hollow" x="20" y="20" width="14" height="14"/>\n</g>'
        '<text x="42" y="33">a</text>')
    assert 'class="hollow"' not in svg.key(20, 33, "work", "a")
    assert svg.sample(20, 26, "bad", "bar", "a", "dash", "hollow") == (
        '<g class="bad" data-series="key">\n<polyline class="dash" points="20,20 60,20"/>\n'
        '<path class="hollow" d="M40,20m-7,-2.5h14v5h-14z"/>\n</g><text x="70" y="26">a</text>')
    assert '<polyline points="20,20 60,20"/>' in svg.sample(20, 26, "bad", "bar", "a")


def test_a_number_at_the_edge_of_the_paper_ends_there():
    assert svg.below(600, 9, "5") == '<text class="tick middle" x="600" y="9">5</text>'
    assert svg.below(600.1, 9, "5") == '<text class="tick end" x="634" y="9">5</text>'


def test_an_axis_without_a_title_has_no_numbers():
    """Three decades up, one line every 44 units at most; five steps across."""
    lines = svg.axes(HAND, "across", "up").splitlines()
    assert lines[0] == '<path class="grid" d="M100,300H500M100,200H500M100,100H500M100,0H500"/>'
    steps = "M100,300v5M180,300v5M260,300v5M340,300v5M420,300v5M500,300v5"
    assert lines[1] == f'<path class="axis" d="M100,300H500{steps}"/>'
    assert lines[2:6] == [f'<text class="tick end" x="92" y="{y}">{number}</text>'
                          for y, number in ((306, "1"), (206, "10"), (106, "100"), (6, "1,000"))]
    assert lines[6:12] == [f'<text class="tick middle" x="{100 + 4 * x}" y="325">{x}</text>' for x in range(0, 101, 20)]
    assert lines[12:] == ['<text class="tick" x="20" y="-16">up</text>',
                          '<text class="tick end" x="500" y="349">across</text>']
    assert svg.axes(HAND, "", "") == '<path class="axis" d="M100,300H500"/>'
    assert '<text class="tick" x="20" y="-34">up</text>' in svg.axes(HAND, "", "up", rise=34)
    low = HAND._replace(y=Scale(0, 10, 30, 0))
    assert svg.axes(low, "", "up").count("tick end") == 2, "room for a single step"


def test_a_whole_picture():
    text = svg.picture("What < that?", "Up & down.", 99.5, "", "<g/>", style="path.now {}\n")
    assert text == "\n".join([
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 99.5" role="img">', "<title>What &lt; that?</title>",
        "<desc>Up &amp; down.</desc>", f"<style>{svg.STYLE}path.now {{}}\n</style>",
        '<rect class="paper" width="640" height="99.5" rx="8"/>',
        '<text class="title" x="20" y="36">What &lt; that?</text>',
        "<g/>", "</svg>\n"])
    assert svg.draw(HAND, "", "<g/>") == (
        '<g data-panel="hand" data-x="linear 0 100 100 500" data-y="log 1 1000 300 0">\n<g/>\n</g>')


# --- labels -------------------------------------------------------------------------------------------------------


def test_how_wide_words_are():
    """Thin letters 0.42, wide ones 0.98, others 0.65 of 18 units; bold a tenth more; the title has 22 units."""
    assert svg_labels.width("il m") == pytest.approx(18 * (3 * 0.42 + 0.98))
    assert svg_labels.width("aa") == pytest.approx(18 * 1.3) and svg_labels.width("") == 0
    assert svg_labels.width("a", "bad end") == pytest.approx(18 * 0.65 * 1.1)
    assert svg_labels.width("a", "title") == pytest.approx(22 * 0.65 * 1.1)
    assert svg_labels.width("a", "tick end") == pytest.approx(18 * 0.65)


@pytest.mark.parametrize("kind, left", [("", 60), ("end", 60 - 11.7), ("middle", 60 - 5.85), ("tick end", 60 - 11.7)])
def test_the_box_of_a_word(kind, left):
    assert svg_labels.box(60, 24, "a", kind) == pytest.approx((left, 24 - 14.04, left + 11.7, 24 + 4.32))


def test_names_stand_right_of_their_lines_and_within_the_panel():
    """Two at one value are 22 apart; at the top the first is 15 below the edge; at the bottom the last is on it."""
    panel = Panel("p", Scale(0, 10, 100, 500), Scale(0, 100, 400, 100))
    assert svg_labels.names(panel, [(50, "a", "bad"), (50, "b", "")]) == [
        '<text class="bad" x="510" y="245">a</text>', '<text x="510" y="267">b</text>']
    assert svg_labels.names(panel, [(100, "a", ""), (0, "b", "")]) == [
        '<text x="510" y="115">a</text>', '<text x="510" y="400">b</text>']


def test_heads_stay_within_panel_and_paper():
    """A word of 11.7 units: half of it is 5.85. Left of the panel none begins; right of 620 none ends."""
    panel = Panel("p", Scale(0, 100, 94, 700), Scale(0, 1, 300, 100))
    assert svg_labels.heads(panel, [(0, "a", "tick")]) == ['<text class="tick middle" x="99.85" y="94">a</text>']
    assert svg_labels.heads(panel, [(100, "a", "tick")]) == ['<text class="tick middle" x="614.15" y="94">a</text>']
    assert svg_labels.heads(panel, []) == []


def test_dotted_lines():
    assert svg_labels.drop(HAND, 50, 10) == '<path class="rule" d="M300,200L300,300"/>'
    assert svg_labels.drop(HAND, 50) == '<path class="rule" d="M300,0L300,300"/>'
    assert svg_labels.across(HAND, 10) == '<path class="rule" d="M100,200L500,200"/>'
    assert svg_labels.segments(HAND, [(0, 10), (50, 1), (50, 0), (100, 1)]) == [
        (100, 200, 300, 300), (300, 300, 500, 300)]
    assert svg_labels.segments(HAND, [(0, 10)]) == [(100, 200, 100, 200)] and svg_labels.segments(HAND, []) == []


@pytest.mark.parametrize("other, touches", [
    ((20, 10, 30, 20), False), ((0, 10, 10, 20), False), ((10, 20, 20, 30), False), ((10, 0, 20, 10), False),
    ((19, 19, 30, 30), True), ((0, 0, 11, 11), True), ((12, 12, 13, 13), True), ((0, 12, 30, 13), True),
    ((0, 30, 30, 40), False), ((30, 0, 40, 30), False)])
def test_boxes_that_only_meet_do_not_overlap(other, touches):
    assert svg_labels.overlap((10, 10, 20, 20), other) == svg_labels.overlap(other, (10, 10, 20, 20)) == touches


def test_a_line_along_a_side_of_a_box_touches_it():
    around = (10, 10, 20, 20)
    along = [(10, 0, 10, 30), (20, 0, 20, 30), (0, 10, 30, 10), (0, 20, 30, 20)]
    apart = [(9, 0, 9, 30), (21, 0, 21, 30), (0, 9, 30, 9), (0, 21, 30, 21)]
    assert all(svg_labels.crosses(side, around) for side in along)
    assert not any(svg_labels.crosses(side, around) for side in apart)
    assert not svg_labels.crosses((0, 15, 9, 16), around) and not svg_labels.crosses((21, 15, 30, 16), around)
    assert svg_labels.crosses((0, 15, 10, 15), around) and svg_labels.crosses((20, 15, 30, 15), around)
    assert not svg_labels.crosses((15, 0, 15, 9), around) and not svg_labels.crosses((15, 21, 15, 30), around)


PLACES = ["310,240", "290,240 end", "310,272", "290,272 end", "300,236 middle", "300,276 middle", "314,256",
          "286,256 end", "314,216", "286,216 end", "314,296", "286,296 end", "300,210 middle", "314,192", "286,192 end",
          "300,186 middle", "300,302 middle"]


def test_the_places_around_a_point_in_their_order(monkeypatch):
    """The first so many are said to touch a line; after the last there is none."""
    panel = Panel("p", Scale(0, 10, 100, 500), Scale(0, 10, 400, 100))
    for number, place in enumerate(PLACES):
        answers = iter([True] * number + [False])
        monkeypatch.setattr(svg_labels, "crosses", lambda *_: next(answers))
        spot, _, side = place.partition(" ")
        x, y = map(float, spot.split(","))
        assert svg_labels.beside(panel, 5, 5, "a", "", [None], []) == [svg.text(x, y, "a", side)]
    monkeypatch.setattr(svg_labels, "crosses", lambda *_: True)
    assert svg_labels.beside(panel, 5, 5, "a", "", [None], []) == []


@pytest.mark.parametrize("dot, place", [
    ((306.9, 240), True), ((307.1, 240), False), ((324.6, 240), False), ((324.8, 240), True),
    ((315, 222.9), True), ((315, 223.1), False), ((315, 247.2), False), ((315, 247.4), True)])
def test_a_word_is_3_units_from_a_line_at_least(dot, place):
    """The box of "a" at (310, 240) is 310 to 321.7 and 225.96 to 244.32."""
    panel = Panel("p", Scale(0, 10, 100, 500), Scale(0, 10, 400, 100))
    (word,) = svg_labels.beside(panel, 5, 5, "a", "", [(*dot, *dot)], [])
    assert (word == '<text x="310" y="240">a</text>') == place


def test_a_word_is_within_its_panel():
    """Right of the middle there are 201.7 - 10 units: a word of 11.7 fits at 478.3 and not beyond."""
    panel = Panel("p", Scale(0, 400, 100, 500), Scale(0, 300, 400, 100))
    for x, y, word in ((378.3, 150, '<text x="488.3" y="240">a</text>'),
                       (378.4, 150, '<text class="end" x="468.4" y="240">a</text>'),
                       (5, 275.9, '<text x="115" y="114.1">a</text>'), (5, 276, '<text x="115" y="146">a</text>'),
                       (5, 0, '<text x="115" y="390">a</text>')):
        assert svg_labels.beside(panel, x, y, "a", "", [], []) == [word]
    up = [(100, y, 500, y) for y in range(100, 390, 5)]
    assert svg_labels.beside(panel, 5, 14.3, "a", "", up, []) == []


@pytest.mark.parametrize("side", [None, 0, 1, 2, 3])
def test_a_panel_that_is_just_as_large_as_a_word_holds_it(side):
    """A hundredth of a unit less on any side, and it does not."""
    left, top, right, bottom = (edge + (side == i) * (0.01 if i < 2 else -0.01)
                                for i, edge in enumerate(svg_labels.box(310, 240, "a")))
    panel = Panel("p", Scale(left, right, left, right), Scale(bottom, top, bottom, top))
    found = svg_labels.beside(panel, 300, 250, "a", "", [], [])
    assert found == (['<text x="310" y="240">a</text>'] if side is None else [])


# --- scales -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("span, most, size", [
    (6, 6, 1), (6.1, 6, 2), (12, 6, 2), (12.1, 6, 5), (30, 6, 5), (30.1, 6, 10), (60, 6, 10), (60.1, 6, 20),
    (0.5, 5, 0.1), (5, 5, 1), (0.06, 6, 0.01)])
def test_steps_are_1_2_5(span, most, size):
    assert svg_scales.step(span, most) == pytest.approx(size)


@pytest.mark.parametrize("values, ends", [
    ([1], (1, 10)), ([2, 5], (2, 5)), ([1.9, 5.1], (1, 10)), ([4.9, 10], (2, 10)), ([5, 10.1], (5, 20)),
    ([20], (20, 200)), ([0.05, 0.5], (0.05, 0.5)), ([0, 7, 71], (5, 100))])
def test_decades_begin_and_end_at_1_2_5(values, ends):
    scale = svg_scales.decades(values, 300, 60)
    assert scale[:2] == pytest.approx(ends) and scale[2:] == (300, 60, True)


@pytest.mark.parametrize("values, high", [([0], 1), ([6], 6), ([6.1], 8), ([0, 31], 40), ([99], 100), ([0.07], 0.08)])
def test_a_scale_from_zero_ends_at_a_whole_step(values, high):
    assert svg_scales.from_zero(values, 300, 60) == (0, pytest.approx(high), 300, 60, False)


@pytest.mark.parametrize("scale, most, round_values", [
    (Scale(1, 10, 0, 1, True), 5, [1, 10]), (Scale(2, 90, 0, 1, True), 5, [2, 90]),
    (Scale(1, 1e5, 0, 1, True), 5, [1, 100, 1e4]),
    (Scale(1, 1e4, 0, 1, True), 5, [1, 10, 100, 1000, 1e4]), (Scale(0.5, 120, 0, 1, True), 2, [1, 100]),
    (Scale(-45, 26, 0, 1), 5, [-40, -20, 0, 20]), (Scale(0, 10, 0, 1), 5, [0, 2, 4, 6, 8, 10]),
    (Scale(0, 10.5, 0, 1), 1, [0]), (Scale(0, 10, 0, 1), 1, [0, 10])])
def test_ticks(scale, most, round_values):
    assert svg_scales.ticks(scale, most) == pytest.approx(round_values)


def test_numbers_as_labels():
    """In full below 99,999.5; then three digits and k, M, G or T."""
    values = (99_999.4, 99_999.5, 999_400, 1e6, 999_400_000, 1e9, 1e12, 1_234_567, -20)
    assert [svg_scales.number(value) for value in values] == [
        "99,999.4", "100k", "999k", "1M", "999M", "1G", "1T", "1.23M", "-20"]
