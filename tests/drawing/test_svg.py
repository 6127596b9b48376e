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


def test_scales_hold_their_values():
    """40 wide from 0: 20 is halfway. 10 to 1000 on a log scale: 100 is. Numbers grow upwards: start is below end."""
    for values, high in (([0], 1), ([6], 6), ([6.1], 8), ([0, 31], 40), ([99], 100), ([0.07], 0.08)):
        assert svg_scales.from_zero(values, 300, 60) == (0, pytest.approx(high), 300, 60, False)
    assert Scale(0, 40, 60, 620).at(10) == 200 and Scale(10, 1000, 300, 100, True).at(100) == 200
    for values in ([0.3], [0.6], [7e-5], [999.5, 2], [5e12]):
        scale, log = svg_scales.from_zero(values, 1, 0), svg_scales.decades(values, 1, 0)
        assert max(values) <= scale.high < 2 * max(values) + 1e-9 and len(svg_scales.ticks(scale)) <= 7
        assert log.low <= min(values) and max(values) <= log.high < 10.1 * max(values)


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
    assert svg.line(HAND, [(0, 10), (50, 1)], "thin") == '<polyline class="thin" points="100,200 300,300"/>'
    assert svg.line(HAND, [(0, 10)]) == '<polyline points="100,200"/>'


def test_an_axis_without_a_title_has_no_numbers():
    """Three decades up, one line every 44 units at most; five steps across."""
    lines = svg.axes(HAND, "across", "up").splitlines()
    assert lines[0] == '<path class="grid" d="M100,300H500M100,200H500M100,100H500M100,0H500"/>'
    steps = "M100,300v5M180,300v5M260,300v5M340,300v5M420,300v5M500,300v5"
    assert lines[1] == f'<path class="axis" d="M100,300H500{steps}"/>'
    assert [line.split(">")[1].split("<")[0] for line in lines[2:]] == [
        "1", "10", "100", "1,000", *map(str, range(0, 101, 20)), "up", "across"]
    assert '<text class="tick" x="16" y="-34">up</text>' in svg.axes(HAND, "", "up", rise=34)
    edge = svg.axes(HAND._replace(x=Scale(0, 1e4, 100, 570)), "across", "")
    assert '<text class="tick middle" x="536.97" y="325">10,000</text>' in edge, "it ends 6 from the edge of the paper"
    assert svg.axes(HAND, "", "") == '<path class="axis" d="M100,300H500"/>'
    low = HAND._replace(y=Scale(0, 10, 30, 0))
    assert svg.axes(low, "", "up").count("tick end") == 2, "room for a single step"


def test_a_whole_picture():
    """A title of two lines of 24 units and a note: the pieces begin at 34 + 2 x 24 units."""
    title = "What is < that which is longer than a line & not two"
    text = svg.picture(title, ["A note"], "Up & down.", 99.5, "", "<g/>", style="path.now {}\n")
    escaped = title.replace("&", "&amp;").replace("<", "&lt;")
    assert text == "\n".join([
        '<svg xmlns="http://www.w3.org/2000/svg" width="576" height="181.5" viewBox="0 0 576 181.5" role="img">',
        f"<title>{escaped}</title>", f"<desc>{escaped}. A note. Up &amp; down.</desc>",
        f"<style>{svg.STYLE}path.now {{}}\n</style>", '<rect class="paper" width="576" height="181.5" rx="8"/>',
        '<text class="title" x="16" y="34">What is &lt; that which is longer than a line &amp;</text>',
        '<text class="title" x="16" y="58">not two</text>', '<text x="16" y="82">A note</text>',
        '<g transform="translate(0,82)">', "<g/>", "</g>\n</svg>\n"])
    assert svg.draw(HAND, "", "<g/>") == (
        '<g data-panel="hand" data-x="linear 0 100 100 500" data-y="log 1 1000 300 0">\n<g/>\n</g>')
    assert svg.zone("zone", HAND, 50, 75) == '<rect class="zone" x="300" y="0" width="100" height="300"/>'


def test_how_wide_words_are():
    """Thin letters 0.42, wide ones 0.98, others 0.65 of 18 units; bold a tenth more; the title has 20 units."""
    assert svg.width("il m") == pytest.approx(18 * (3 * 0.42 + 0.98))
    assert svg.width("aa") == pytest.approx(18 * 1.3) and svg.width("") == 0
    assert svg.width("a", "bad end") == pytest.approx(18 * 0.65 * 1.1)
    assert svg.width("a", "title") == pytest.approx(20 * 0.65 * 1.1)
    assert svg.width("a", "tick end") == pytest.approx(18 * 0.65)
    for kind, left in (("", 60), ("end", 60 - 11.7), ("middle", 60 - 5.85), ("tick end", 60 - 11.7)):
        assert svg_labels.box(60, 24, "a", kind) == pytest.approx((left, 24 - 14.04, left + 11.7, 24 + 4.32))


def test_names_stand_right_of_their_lines_and_within_the_panel():
    """Two at one value are 22 apart; at the top the first is 15 below the edge; at the bottom the last is on it."""
    panel = Panel("p", Scale(0, 10, 100, 500), Scale(0, 100, 400, 100))
    assert svg_labels.names(panel, [(50, "a", "bad"), (50, "b", "")]) == [
        '<text class="bad" x="510" y="245">a</text>', '<text x="510" y="267">b</text>']
    assert svg_labels.names(panel, [(100, "a", ""), (0, "b", "")]) == [
        '<text x="510" y="115">a</text>', '<text x="510" y="400">b</text>']


def test_heads_stay_within_panel_and_paper():
    """A word of 11.7 units: half of it is 5.85. Left of the panel none begins; right of 560 none ends."""
    panel = Panel("p", Scale(0, 100, 94, 700), Scale(0, 1, 300, 100))
    assert svg_labels.heads(panel, [(0, "a", "tick")]) == ['<text class="tick middle" x="99.85" y="94">a</text>']
    assert svg_labels.heads(panel, [(100, "a", "tick")]) == ['<text class="tick middle" x="554.15" y="94">a</text>']


def test_dotted_lines():
    assert svg_labels.drop(HAND, 50, 10) == '<path class="rule" d="M300,200L300,300"/>'
    assert svg_labels.drop(HAND, 50) == '<path class="rule" d="M300,0L300,300"/>'
    assert svg_labels.across(HAND, 10) == '<path class="rule" d="M100,200L500,200"/>'
    assert svg_labels.segments(HAND, [(0, 10), (50, 1), (50, 0), (100, 1)]) == [
        (100, 200, 300, 300), (300, 300, 500, 300)]
    assert svg_labels.segments(HAND, [(0, 10)]) == [(100, 200, 100, 200)] and svg_labels.segments(HAND, []) == []


def test_boxes_that_only_meet_do_not_overlap():
    box, beside = (10, 10, 20, 20), [(20, 10, 30, 20), (0, 10, 10, 20), (10, 20, 20, 30), (10, 0, 20, 10)]
    over = [(19, 19, 30, 30), (0, 0, 11, 11), (12, 12, 13, 13), (0, 12, 30, 13)]
    assert all(svg_labels.overlap(box, other) and svg_labels.overlap(other, box) for other in over)
    assert not any(svg_labels.overlap(box, other) or svg_labels.overlap(other, box) for other in beside)


def test_a_line_along_a_side_of_a_box_touches_it():
    around = (10, 10, 20, 20)
    along = [(10, 0, 10, 30), (20, 0, 20, 30), (0, 10, 30, 10), (0, 20, 30, 20)]
    apart = [(9, 0, 9, 30), (21, 0, 21, 30), (0, 9, 30, 9), (0, 21, 30, 21)]
    assert all(svg_labels.crosses(side, around) for side in along)
    assert not any(svg_labels.crosses(side, around) for side in apart)
    assert not svg_labels.crosses((0, 15, 9, 16), around) and not svg_labels.crosses((21, 15, 30, 16), around)
    assert svg_labels.crosses((0, 15, 10, 15), around) and svg_labels.crosses((20, 15, 30, 15), around)
    assert not svg_labels.crosses((15, 0, 15, 9), around) and not svg_labels.crosses((15, 21, 15, 30), around)
    assert svg_labels.crosses((15, 15, 15, 15), around) and svg_labels.crosses((0, 0, 30, 30), around)
    assert not svg_labels.crosses((0, 18, 18, 0), around), "past a corner"


def test_a_word_is_within_its_panel_and_3_units_from_lines():
    """The box of "a" in the middle above (300, 250) is 294.15 to 305.85 and 221.96 to 240.32."""
    box = svg_labels.box(300, 236, "a", "middle")
    for side in (None, 0, 1, 2, 3):  # a panel a hundredth of a unit smaller on a side does not hold it
        left, top, right, bottom = (edge + (side == i) * (0.01 if i < 2 else -0.01) for i, edge in enumerate(box))
        panel = Panel("p", Scale(left, right, left, right), Scale(bottom, top, bottom, top))
        assert len(svg_labels.beside(panel, 300, 250, "a", "", [], [])) == (side is None)
    panel = Panel("p", Scale(0, 10, 100, 500), Scale(0, 10, 400, 100))
    for dot, free in (((291.1, 230), True), ((291.2, 230), False), ((308.9, 230), True), ((308.8, 230), False),
                      ((300, 218.9), True), ((300, 219), False), ((300, 243.4), True), ((300, 243.3), False)):
        (word,) = svg_labels.beside(panel, 5, 5, "a", "", [(*dot, *dot)], boxes := [])
        assert (word == '<text class="middle" x="300" y="236">a</text>') == free and len(boxes) == 1
    (word,) = svg_labels.beside(panel, 5, 5, "a", "", [], [(294, 230, 306, 240)])
    assert word == '<text class="middle" x="300" y="276">a</text>', "below, where another word stands above"
    everywhere = [(0, y, 640, y) for y in range(0, 640, 5)]
    assert svg_labels.beside(panel, 5, 5, "a", "", everywhere, []) == []


@pytest.mark.parametrize("values, ends", [
    ([1], (1, 10)), ([2, 5], (2, 5)), ([1.9, 5.1], (1, 10)), ([4.9, 10], (2, 10)), ([5, 10.1], (5, 20)),
    ([20], (20, 200)), ([0.05, 0.5], (0.05, 0.5)), ([0, 7, 71], (5, 100))])
def test_decades_begin_and_end_at_1_2_5(values, ends):
    scale = svg_scales.decades(values, 300, 60)
    assert scale[:2] == pytest.approx(ends) and scale[2:] == (300, 60, True)


@pytest.mark.parametrize("scale, most, round_values", [
    (Scale(1, 10, 0, 1, True), 5, [1, 2, 5, 10]), (Scale(2, 90, 0, 1, True), 5, [2, 5, 10, 20, 50]),
    (Scale(2, 90, 0, 1, True), 4, [10]), (Scale(0.02, 0.2, 0, 1, True), 5, [0.02, 0.05, 0.1, 0.2]),
    (Scale(1, 1e5, 0, 1, True), 5, [1, 100, 1e4]), (Scale(0, 0.013, 60, 620), 5, [0, 0.005, 0.01]),
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
