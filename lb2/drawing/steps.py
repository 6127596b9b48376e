"""What does the one line change, iteration by iteration? Three requests in two slots, as in
continuous.py's docstring.

Requests of (prompt, output) tokens = (100, 1), (200, 3), (100, 2). Static batching holds the first
one's slot until the longest of its batch has ended, at 39 ms; continuous batching gives it to the
third at 23 ms.

A line runs along the time axis twice, unless the reader's system asks for less motion; on paper it
is not there.
"""

import continuous
import static
from common import Requests
from drawing.slots import gaps, stays
from drawing.svg import MARGIN, RIGHT, bar, draw, group, key, path, picture, text, units
from drawing.scales import Panel, Scale

REQUESTS = Requests([100, 200, 100], [1, 3, 2])
NAMES = "ABC"
SLOTS = 2
LEFT_OF_TIME, TALL, TOPS = 88, 88, (166, 338)
ENDS_MS = {"static": (23, 31, 39, 52, 60), "continuous": (23, 36, 44)}  # of the iterations
SAID_MS = (0, 23, 36, 39, 44, 60)  # those that are written out
MOTION = f"""path.now {{ opacity: 0; stroke-width: 2.5 }}
@media screen and (prefers-reduced-motion: no-preference) {{
path.now {{ animation: now 8s linear 1s 2 }}
@keyframes now {{ 0%, 95% {{ opacity: 0.8 }} 100% {{ opacity: 0; transform: translateX({RIGHT - LEFT_OF_TIME}px) }} }}
}}
"""


def steps_data():
    """{"static" or "continuous": its Schedule of the three requests}."""
    return {module.__name__: module.schedule(REQUESTS, SLOTS) for module in (static, continuous)}


def named(panel, schedule, rows):
    """Each request's name and tokens on its bar."""
    words = []
    for slot, row in enumerate(rows):
        for start, end in row:
            (request,) = (i for i in range(3) if (schedule.admitted_us[i], schedule.finished_us[i]) == (start, end)
                          and (slot == 1) == (i == 1))
            tokens = REQUESTS.output_tokens[request]
            label = f"{NAMES[request]}: {tokens} token{'s' if tokens > 1 else ''}"
            middle = (panel.x.at(start / 1000) + panel.x.at(end / 1000)) / 2
            words.append(text(middle, panel.y.at(slot) + 26, label, "onbar middle"))
    return words


def draw_steps(schedules):
    """schedules: {"static" or "continuous": its Schedule}, of REQUESTS."""
    x = Scale(0, 60, LEFT_OF_TIME, RIGHT)
    pieces, ends_ms = [], {}
    for (name, schedule), top in zip(schedules.items(), TOPS):
        panel = Panel(name, x, Scale(SLOTS, 0, top + TALL, top))
        end_us = max(schedule.finished_us)
        ends_ms[name] = end_us // 1000
        rows = stays(schedule, SLOTS, end_us)
        bars = {"idle": [gaps(row, end_us) for row in rows], "work": rows}
        drawn = []
        for kind, by_slot in bars.items():
            drawn.append(group(kind, kind, *(
                bar(x.at(start / 1000), panel.y.at(slot) + 2, x.at(end / 1000) - 1, panel.y.at(slot) + TALL / SLOTS - 2)
                for slot, times in enumerate(by_slot) for start, end in times
            )))
        axis = path("axis", f"M{units(x.start)},{units(panel.y.start)}H{units(x.end)}",
                    *(f"M{units(x.at(ms))},{units(panel.y.start)}v5" for ms in (0, *ENDS_MS[name])))
        seams = [f"M{units(x.at(ms) - 1)},{units(panel.y.at(slot) - 2)}h1.5v-10h-1.5z"
                 for ms in ENDS_MS[name] for slot in (1, 2)]
        times = [text(x.at(ms), panel.y.start + 25, f"{ms} ms" if ms else "0", "tick middle" if ms < 60 else "tick end")
                 for ms in (0, *ENDS_MS[name]) if ms in SAID_MS]
        slots = [text(MARGIN, panel.y.at(slot) + 28, f"slot {slot + 1}", "tick") for slot in range(SLOTS)]
        verdict = f"all done at {ends_ms[name]} ms"
        pieces.append(text(MARGIN, top - 12, f"{name.capitalize()} batching", "head"))
        pieces.append(text(RIGHT, top - 12, verdict, "good end" if name == "continuous" else "bad end"))
        pieces.append(draw(panel, axis, *times, *slots, *drawn, path("paper", *seams),
                           *named(panel, schedule, rows)))
    now = path("now", *(f"M{units(x.start)},{top}v{TALL}" for top in TOPS))
    return picture(
        "What does the one line change?",
        f"Three requests in two slots: static batching ends at {ends_ms['static']} ms, continuous at "
        f"{ends_ms['continuous']} ms, because the third request takes the first one's slot at 23 ms instead of 39 ms.",
        478,
        key(MARGIN, 80, "work", "a request, from admission to last token"),
        key(440, 80, "idle", "an idle slot"),
        text(MARGIN, 106, "A notch: an iteration ends, and a token is there."),
        *pieces,
        group("ink", "now", now),
        style=MOTION,
    )
