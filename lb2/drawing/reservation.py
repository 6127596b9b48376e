"""How much reserved memory is ever used? orca_reservation.py's tokens, a bar for each mode at each
rate.

What is used is filled, what is reserved and not used is an empty frame, so that grey print tells
them apart too.
"""

from drawing.svg import LINE, MARGIN, RIGHT, axes, bar, draw, group, picture, rule, text
from drawing.scales import Panel, Scale

THICK, PITCH, TOP = 17, 27, 28


def draw_reservation(requests, capacity_tokens, runs):
    """Tokens used and reserved. runs: {(requests per second, mode): orca_reservation.Measures}."""
    x = Scale(0, capacity_tokens, 110, RIGHT - 54)
    used, unused, words, said = [], [], [], []
    y, last = TOP, max(rate for rate, _ in runs)
    words.append(text(RIGHT, y + 14, "reserved / used", "end"))
    for rate in dict.fromkeys(rate for rate, _ in runs):
        words.append(text(MARGIN, y + 14, f"{rate:g} requests per second", "head"))
        y += 26
        for mode in (mode for some_rate, mode in runs if some_rate == rate):
            measures = runs[rate, mode]
            middle, end = x.at(measures.mean_used_tokens), x.at(measures.mean_reserved_tokens)
            used.append(bar(x.start, y, middle, y + THICK))
            unused.append(bar(middle, y + 0.8, max(end, middle), y + THICK - 0.8, "hollow"))
            words.append(text(x.start - 8, y + 14, mode, "end"))
            words.append(text(RIGHT, y + 14, f"{measures.reserved_per_used:.2f}", "end"))
            said.append(f"{mode} at {rate:g} requests/s {measures.mean_reserved_tokens:,.0f} and "
                        f"{measures.mean_used_tokens:,.0f}")
            y += PITCH
            if measures.deadlock_s is not None:
                deadlock = f"deadlock at {measures.deadlock_s:.1f} s, {measures.finished:,} of {requests:,} served"
                words.append(text(MARGIN, y + 12, deadlock, "bad"))
                said.append(deadlock)
                y += PITCH
        y += 12
    panel = Panel("tokens", x, Scale(y, TOP, y, TOP))
    times = {mode: runs[last, mode].reserved_per_used for mode in ("max_seq", "paged")}
    return picture(
        f"Paging reserves {times['paged']:.2f} times what it uses, max_seq {times['max_seq']:.1f} times",
        ["Blue: tokens in use. Empty: reserved, not in use"],
        f"Mean tokens reserved and used: {'; '.join(said)}.",
        y + 64,
        draw(panel,
             axes(panel, f"mean tokens, of {capacity_tokens:,} that fit", ""),
             group("ink", "capacity", rule(x.end, panel.y.end + LINE, x.end, panel.y.start)),
             group("work", "used", *used), group("bad", "reserved", *unused),
             *words),
    )
