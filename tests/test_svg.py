"""Scales, labels and the stays in a slot, by hand-worked cases."""

import continuous
import picture_slots
import pytest
import static
import svg_labels
import svg_scales
from inputs import Requests
from svg_scales import Panel, Scale

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
