"""What if a freed slot were filled at once? Who sits in which slot, static batching above continuous.

A bar is a request, from its admission to its last token; what is left of a slot's time is idle. Of
a long list the first eight static batches or 1,000 requests are shown, and the edge is torn. For
ten seconds a line sweeps over both panels and uncovers the bars; then the whole picture stays.

    stays(schedule, 2, 44_000) -> [[(0, 23000), (23000, 44000)], [(0, 44000)]]     a slot: (from, to) in us
"""

from heapq import heappop, heappush

from drawing.svg import MARGIN, RIGHT, axes, bar, draw, group, joined, path, picture, text
from drawing.scales import Panel, Scale, milliseconds

BATCHES_DRAWN, REQUESTS_DRAWN = 8, 1000  # the beginning of a long list
TALL, TOPS = 152, (48, 248)  # of the panels
SWEEP = f"""g.sweep {{ display: none }}
@media screen and (prefers-reduced-motion: no-preference) {{
g.sweep {{ display: inline; animation: sweep 10s linear both }}
@keyframes sweep {{ to {{ transform: translateX({RIGHT - MARGIN}px); visibility: hidden }} }}
}}
"""


def stays(schedule, slots, until_us):
    """Who sits where: for each slot its [(from, to), ...] in us. A request takes the lowest slot that is free."""
    rows = [[] for _ in range(slots)]
    free, busy = list(range(slots)), []  # heaps: slots; (when it falls free, slot)
    for position in sorted(range(len(schedule.admitted_us)), key=schedule.admitted_us.__getitem__):
        start, end = schedule.admitted_us[position], schedule.finished_us[position]
        if start >= until_us:
            break
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        slot = heappop(free)
        heappush(busy, (end, slot))
        rows[slot].append((start, min(end, until_us)))
    return rows


def gaps(row, until_us):
    """The times between the stays in a slot, up to until_us."""
    edges = [0, *(edge for stay in row for edge in stay), until_us]
    return [(start, end) for start, end in zip(edges[::2], edges[1::2]) if start < end]


def slot_bars(panel, rows, until_us, seam=0.6):
    """A row a slot, a bar a request, and what is idle until until_us. The panel's x: seconds."""
    pitch = (panel.y.start - panel.y.end) / len(rows)
    thickness = pitch - min(1, pitch / 5)
    idle, held = [], []
    for slot, row in enumerate(rows):
        for pieces, times, space in ((idle, gaps(row, until_us), 0), (held, row, seam)):
            for start, end in times:
                left, right = panel.x.at(start / 1e6), panel.x.at(end / 1e6)
                pieces.append(bar(left, panel.y.at(slot), max(right - space, left + 0.1), panel.y.at(slot) + thickness))
    return group("idle", "idle", *idle), group("work", "requests", *held)


def torn(panel):
    """The right edge of a panel that goes on beyond it."""
    right, teeth = panel.x.end, round(TALL / 8)
    edge = [(right - 7 * (tooth % 2), panel.y.end + tooth * TALL / teeth) for tooth in range(teeth + 1)]
    return path("paper", f"M{joined([(right + 1, panel.y.end), *edge, (right + 1, panel.y.start)], 'L')}z")


def window_us(slots, by_batch, by_iteration):
    """The time that is shown: all of it, or the beginning of a long list."""
    until_us = max(by_batch.finished_us[: BATCHES_DRAWN * slots])
    if len(by_batch.finished_us) > REQUESTS_DRAWN:
        until_us = min(until_us, by_iteration.admitted_us[REQUESTS_DRAWN])
    return until_us


def sweep():
    """What covers both panels, and the line before it."""
    covers = (f'<rect class="paper" x="{MARGIN}" y="{top - 1}" width="{RIGHT - MARGIN + 2}" height="{TALL + 2}"/>'
              for top in TOPS)
    return group("ink sweep", "sweep", *covers, path("now", *(f"M{MARGIN},{top}v{TALL}" for top in TOPS)))


def draw_slots(requests, slots, by_batch, by_iteration):
    """Both schedulers' slots on one time axis. by_batch, by_iteration: the Schedules, all requests there at time 0."""
    n, tokens = len(requests.output_tokens), sum(requests.output_tokens)
    shown_us = window_us(slots, by_batch, by_iteration)
    ends_us = [max(schedule.finished_us) for schedule in (by_batch, by_iteration)]
    times = ends_us[0] / ends_us[1]
    x = Scale(0, shown_us / 1e6, MARGIN, RIGHT)
    pieces, said = [], []
    for name, schedule, end_us, top in zip(("Static", "Continuous"), (by_batch, by_iteration), ends_us, TOPS):
        panel = Panel(name.lower(), x, Scale(slots, 0, top + TALL, top))
        cut = end_us > shown_us
        rows = stays(schedule, slots, shown_us)
        done = sum(finished <= shown_us for finished in schedule.finished_us)
        end = f"{done:,} done here" if cut else f"done at {milliseconds(end_us / 1000)}"
        share = tokens / (slots * schedule.iterations)
        said.append(f"{name} batching is done at {end_us / 1e6:,.2f} s, and {share:.0%} of its slots work.")
        pieces.append(text(MARGIN, top - 10, f"{name}: {share:.0%} of slots work", "head"))
        pieces.append(text(RIGHT, top - 10, end, f"{'bad' if name == 'Static' else 'good'} end"))
        pieces.append(draw(panel, *slot_bars(panel, rows, min(end_us, shown_us)), torn(panel) if cut else ""))
    cut = shown_us < ends_us[0]
    return picture(
        f"Filling free slots at once: {times:.1f} times as fast" if times >= 1.05 else
        "Filling free slots at once changes little here",
        [f"{n:,} request{'' if n == 1 else 's'} in {slots} slots. Blue works, orange idles"],
        f"{' '.join(said)} The throughput is {times:.3f} times as high.",
        TOPS[1] + TALL + 64,
        *pieces,
        draw(Panel("time", *panel[1:]), axes(panel, f"the first {x.high:,.4g} seconds" if cut else "seconds", "")),
        sweep(),
        style=SWEEP,
    )
