"""What does the one line change, iteration by iteration? Three requests in two slots, as in
continuous.py's docstring.

Requests of (prompt, output) tokens = (100, 1), (200, 3), (100, 2). Static batching holds the first
one's slot until the longest of its batch has ended, at 39 ms; continuous batching gives it to the
third at 23 ms.
"""

from common import Requests
from drawing.slots import slot_bars, stays
from drawing.svg import MARGIN, RIGHT, draw, path, picture, text, units
from drawing.scales import Panel, Scale

REQUESTS = Requests([100, 200, 100], [1, 3, 2])
SLOTS = 2
TALL, TOPS = 88, (48, 216)
LABELS = {  # what stands on the bars: words, slot, the ms between which
    "static": [("A: 1 token", 0, 0, 23), ("idle", 0, 23, 39), ("C: 2 tokens", 0, 39, 60),
               ("B: 3 tokens", 1, 0, 39), ("idle", 1, 39, 60)],
    "continuous": [("A: 1 token", 0, 0, 23), ("C: 2 tokens", 0, 23, 44), ("B: 3 tokens", 1, 0, 44)],
}
TIMES_MS = {"static": (0, 23, 39, 60), "continuous": (0, 23, 44)}  # where a request begins or ends


def draw_steps(schedules):
    """schedules: {"static" or "continuous": its Schedule}, of REQUESTS."""
    x = Scale(0, 0.06, 76, RIGHT)
    pieces, ends_ms = [], {}
    for (name, schedule), top in zip(schedules.items(), TOPS):
        panel = Panel(name, x, Scale(SLOTS, 0, top + TALL, top))
        end_us = max(schedule.finished_us)
        ends_ms[name] = end_us // 1000
        axis = path("axis", f"M{units(x.start)},{units(panel.y.start)}H{units(x.end)}",
                    *(f"M{units(x.at(ms / 1000))},{units(panel.y.start)}v5" for ms in TIMES_MS[name]))
        times = [text(x.at(ms / 1000), panel.y.start + 25, f"{ms} ms" if ms else "0",
                      "tick middle" if ms < 60 else "tick end") for ms in TIMES_MS[name]]
        slots = [text(MARGIN, panel.y.at(slot) + 28, f"slot {slot + 1}", "tick") for slot in range(SLOTS)]
        words = [text(x.at((start + end) / 2000), panel.y.at(slot) + 28, label, "onbar middle")
                 for label, slot, start, end in LABELS[name]]
        pieces.append(text(MARGIN, top - 12, f"{name.capitalize()} batching", "head"))
        pieces.append(text(RIGHT, top - 12, f"done at {ends_ms[name]} ms", f"{'good' if top > 100 else 'bad'} end"))
        pieces.append(draw(panel, axis, *times, *slots, *slot_bars(panel, stays(schedule, SLOTS, end_us), end_us, 1),
                           *words))
    return picture(
        f"One line of code: {ends_ms['continuous']} ms instead of {ends_ms['static']}",
        ["C takes A's slot at 23 ms, not at 39"],
        "Three requests in two slots. Static batching keeps A's slot idle until B has ended.",
        TOPS[1] + TALL + 42,
        *pieces,
    )
