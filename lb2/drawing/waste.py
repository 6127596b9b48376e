"""How much of what request-level batching computes is nobody's token? orca_waste.py's shares, by
rate.

Useful are the tokens that a request asked for. Prompts are padded to the longest of their batch.
Rows whose request has finished go on until the longest answer of the batch has ended.
"""

import orca_waste
from drawing.svg import LINE, MARGIN, RIGHT, axes, bar, draw, group, key, picture, text
from drawing.scales import Panel, Scale

THICK = 26


def waste_data(workload):
    """{requests per second: its orca_waste.Waste}."""
    return {rate: run.waste for rate, run in orca_waste.results(workload).items()}


def draw_waste(wastes):
    """A bar for each rate: the shares of all token positions computed. wastes: {requests per
    second: Waste}.
    """
    x = Scale(0, 100, MARGIN, RIGHT - 20)
    useful, padding, finished, words, said = [], [], [], [], []
    y = 148
    for rate, waste in wastes.items():
        middle = 100 * waste.useful_tokens / waste.computed_tokens
        end = middle + 100 * waste.padding_tokens / waste.computed_tokens
        words.append(text(MARGIN, y, f"{rate:g} request{'' if rate == 1 else 's'} per second", "head"))
        words.append(text(x.end, y, f"{waste.share:.0%} waste", "bad end"))
        top, bottom = y + 8, y + 8 + THICK
        useful.append(bar(x.at(0), top, x.at(middle), bottom))
        padding.append(bar(x.at(middle), top + 1, x.at(end), bottom - 1, "hollow"))
        finished.append(bar(x.at(end), top, x.at(100), bottom))
        said.append(f"at {rate:g} requests/s {waste.share:.0%} is waste, {end - middle:.0f} % padding and "
                    f"{100 - end:.0f} % rows of finished requests")
        y += THICK + 2 * LINE
    panel = Panel("share", x, Scale(0, 1, y - 24, 130))
    return picture(
        "What does request-level batching waste?",
        f"{'; '.join(said).capitalize()}.",
        y + 40,
        text(MARGIN, 68, f"Request level, batches of up to {orca_waste.MAX_BATCH}, cut by memory"),
        key(MARGIN, 104, "work", "useful"),
        key(134, 104, "idle", "padding of prompts", hollow=True),
        key(362, 104, "idle", "rows that have finished"),
        draw(panel, axes(panel, "per cent of the token positions computed", ""),
             group("work", "useful", *useful), group("idle", "padding", *padding),
             group("idle", "finished", *finished), *words),
    )
