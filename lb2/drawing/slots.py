"""What if a freed slot were filled at once? Who sits in which slot, static batching above
continuous.

A bar is a request, from its admission to its last token; what is left of a slot's time is idle.
Both panels have one time axis. A long list is cut: its first eight static batches or 1,000 requests
are shown, and the edge is torn.

    stays(schedule, 2, 44_000) -> [[(0, 23000), (23000, 44000)], [(0, 44000)]]     a slot: (from, to) in us
"""

from heapq import heappop, heappush

import continuous
import static
from static import slot_util, throughput_tps
from files.costs import Costs
from drawing.svg import LINE, MARGIN, RIGHT, axes, bar, draw, group, joined, key, path, picture, text
from drawing.scales import Panel, Scale

SLOTS = 16  # static.py's and continuous.py's
BATCHES_DRAWN, REQUESTS_DRAWN = 8, 1000  # the beginning of a long list
TALL = 152  # of a panel


def slots_data(requests, costs=Costs(), slots=SLOTS):
    """The requests, the slots and the Schedules of both batchings, all requests there at time 0."""
    both = (module.schedule(requests, slots, None, costs) for module in (static, continuous))
    return requests, slots, *both


def stays(schedule, slots, until_us):
    """Who sits where: for each slot its [(from, to), ...] in us. A request takes the lowest slot
    that is free.
    """
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


def slot_bars(panel, schedule, slots):
    """A row a slot, a bar a request, and what is idle until the last one ends. The panel's x:
    seconds.
    """
    until_us = min(max(schedule.finished_us), panel.x.high * 1e6)
    pitch = (panel.y.start - panel.y.end) / slots
    thickness = pitch - min(1, pitch / 5)
    idle, held = [], []
    for slot, row in enumerate(stays(schedule, slots, until_us)):
        for pieces, times, seam in ((idle, gaps(row, until_us), 0), (held, row, 0.6)):
            for start, end in times:
                left, right = panel.x.at(start / 1e6), panel.x.at(end / 1e6)
                pieces.append(bar(left, panel.y.at(slot), max(right - seam, left + 0.1), panel.y.at(slot) + thickness))
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


def draw_slots(requests, slots, by_batch, by_iteration):
    """Both schedulers' slots on one time axis. by_batch, by_iteration: the Schedules, all requests
    there at time 0.
    """
    n = len(requests.output_tokens)
    until_us = window_us(slots, by_batch, by_iteration)
    x = Scale(0, until_us / 1e6, MARGIN, RIGHT)
    speedup = f"{throughput_tps(requests, by_iteration) / throughput_tps(requests, by_batch):.3f} times the throughput"
    pieces, said = [], []
    for name, schedule, top in (("static", by_batch, 176), ("continuous", by_iteration, 402)):
        panel = Panel(name, x, Scale(slots, 0, top + TALL, top))
        end_us = max(schedule.finished_us)
        util = f"slot_util {slot_util(requests, schedule, slots):.4f}"
        cut = end_us > until_us
        done = sum(finished <= until_us for finished in schedule.finished_us)
        words = f"{done:,} of {n:,} finished here" if cut else f"ends at {end_us / 1e6:,.2f} s"
        said.append(f"{name.capitalize()} batching ends at {end_us / 1e6:,.2f} s with {util}.")
        pieces.append(text(MARGIN, top - 10 - LINE, f"{name.capitalize()} batching", "head"))
        pieces.append(text(MARGIN, top - 10, f"{words}, {util}"))
        pieces.append(draw(panel, *slot_bars(panel, schedule, slots), torn(panel) if cut else ""))
    cut = until_us < max(by_batch.finished_us)
    return picture(
        "What if a freed slot were filled at once?",
        " ".join([*said, f"The same {n:,} requests in {slots} slots: continuous batching has {speedup}."]),
        612,
        text(MARGIN, 68, f"Continuous: {speedup}", "good"),
        key(MARGIN, 100, "work", f"a request ({n:,} in {slots} slots)"),
        key(380, 100, "idle", "an idle slot"),
        *pieces,
        draw(Panel("time", *panel[1:]), axes(panel, f"the first {x.high:,.4g} seconds" if cut else "seconds", "")),
    )
