"""How much reserved memory is ever used? orca_reservation.py's tokens, a bar for each mode at each
rate.

What is used is filled, what is reserved and not used is an empty frame, so that grey print tells
them apart too.
"""

from itertools import product

import orca_reservation
from common import progress
from roofline.model import CAPACITY_TOKENS
from drawing.svg import MARGIN, RIGHT, axes, bar, draw, group, key, marks, picture, rule, text
from drawing.scales import Panel, Scale

THICK, PITCH = 17, 27


def reservation_data(workload, path):
    """How many requests there are, and {(requests per second, mode): Measures}. Raises BadInput,
    naming the path.
    """
    orca_reservation.refuse_longer_than_declared(path, workload.requests.output_tokens)
    cases = list(product(orca_reservation.RATES_RPS, orca_reservation.MODES))
    measures = (orca_reservation.measure(mode, workload, rate) for rate, mode in cases)
    return len(workload.arrivals_s), dict(zip(cases, progress(measures, len(cases))))


def draw_reservation(requests, runs):
    """Tokens used and reserved. runs: {(requests per second, mode): Measures}."""
    x = Scale(0, CAPACITY_TOKENS, 116, RIGHT - 66)
    used, unused, stuck, words, said = [], [], [], [], []
    y = 118
    for rate in dict.fromkeys(rate for rate, _ in runs):
        words.append(text(MARGIN, y + 14, f"{rate:g} requests per second", "head"))
        y += 26
        for mode in (mode for some_rate, mode in runs if some_rate == rate):
            measures = runs[rate, mode]
            middle, end = x.at(measures.mean_used_tokens), x.at(measures.mean_reserved_tokens)
            used.append(bar(x.start, y, middle, y + THICK))
            unused.append(bar(middle, y + 0.8, max(end, middle), y + THICK - 0.8, "hollow"))
            words.append(text(x.start - 10, y + 14, mode, "end"))
            words.append(text(RIGHT, y + 14, f"{measures.reserved_per_used:.2f}", "end"))
            tokens = f"{measures.mean_reserved_tokens:,.0f} and {measures.mean_used_tokens:,.0f}"
            said.append(f"{mode} at {rate:g} requests/s {tokens}")
            y += PITCH
            if measures.deadlock_s is not None:
                stuck.append((measures.mean_used_tokens, y - PITCH + THICK / 2))
                deadlock = f"deadlock at {measures.deadlock_s:.1f} s, {measures.finished:,} of {requests:,} served"
                words.append(text(MARGIN, y + 12, deadlock, "bad"))
                said.append(deadlock)
                y += PITCH
        y += 12
    panel = Panel("tokens", x, Scale(y, 112, y, 112))
    return picture(
        "How much reserved memory is ever used?",
        f"Mean tokens reserved and used: {'; '.join(said)}.",
        y + 64,
        key(MARGIN, 68, "work", "tokens in use"),
        key(204, 68, "bad", "reserved, not in use", hollow=True),
        text(RIGHT, 96, "reserved / used", "end"),
        draw(panel,
             axes(panel, f"mean tokens, of {CAPACITY_TOKENS:,} that fit", ""),
             group("ink", "capacity", rule(x.end, panel.y.end, x.end, panel.y.start)),
             group("work", "used", *used), group("bad", "reserved", *unused),
             group("ink", "deadlock", marks(panel, "cross", stuck)) if stuck else "",
             *words),
    )
