"""How far are predictions from a real server? Every measure of every recorded run, predicted
against measured.

A panel is a kind of server, a row a measure, a mark a run, its place the error in per cent. The
shaded band is the noise of the machine: identical runs differ by so much. Hollow marks are runs
that the costs were fitted to; they are no test of the model.
"""

from drawing.svg import MARGIN, RIGHT, axes, draw, group, marks, path, picture, text, units, zone
from drawing.scales import Panel, Scale, step

NAMES = {"p50_ttft_ms": "p50 TTFT", "p99_ttft_ms": "p99 TTFT", "p50_itl_ms": "p50 ITL", "p99_itl_ms": "p99 ITL",
         "p50_tpot_ms": "p50 TPOT", "p99_tpot_ms": "p99 TPOT", "throughput_tps": "tokens/s"}
ROW = 30


def worst(rows):
    """The row with the largest error among the runs that were predicted, or of all if there are none."""
    tested = [row for row in rows if row.role == "predicted"]
    return max(tested or rows, key=lambda row: abs(row.error_percent))


def draw_panel(top, rows, noise_percent):
    """(pieces, bottom) of one panel."""
    measures = [measure for measure in NAMES if measure in {row.measure for row in rows}]
    errors = [row.error_percent for row in rows] + [-noise_percent, noise_percent]
    size = step(max(errors) - min(errors), 5)
    x = Scale(min(errors) - size / 4, max(errors) + size / 4, 110, RIGHT - 10)
    bottom = top + ROW * len(measures)
    panel = Panel(f"noise {noise_percent:g}", x, Scale(len(measures), 0, bottom, top))
    pieces = [text(x.start - 8, panel.y.at(row + 0.5) + 6, NAMES[measure], "end")
              for row, measure in enumerate(measures)]
    for role, kind in (("calibrated", "hollow"), ("predicted", "mark")):
        for colour, within in (("good", True), ("bad", False)):
            spots = [(row.error_percent, measures.index(row.measure) + 0.5) for row in rows
                     if row.role == role and (abs(row.error_percent) <= noise_percent) == within]
            pieces.append(group(colour, f"{role} {colour}", marks(panel, "circle", spots, kind)) if spots else "")
    zero = group("ink", "zero", path("axis", f"M{units(x.at(0))},{top}V{bottom}"))
    return [zone("noise", panel, -noise_percent, noise_percent),
            draw(panel, axes(panel, "error in per cent", ""), zero, *pieces)], bottom


def draw_measured(servers):
    """servers: {words for a kind of server: (its Comparisons, by how much identical runs differ in per cent)}."""
    pieces, notes, said, bottom = [], [], [], -16
    for words, (rows, noise_percent) in servers.items():
        within = sum(abs(row.error_percent) <= noise_percent for row in rows)
        far = worst(rows)
        said.append(f"{words}: {within} of {len(rows)} errors are within {noise_percent:g} %, the worst prediction is "
                    f"{NAMES[far.measure]} of {far.run}, {far.error_percent:+.1f} %.")
        notes.append(f"{abs(far.error_percent):.0f} % on {words}")
        pieces.append(text(MARGIN, bottom + 56, f"{words[0].upper()}{words[1:]}", "head"))
        pieces.append(text(RIGHT, bottom + 56, f"{far.run} {far.error_percent:+.1f} %", "bad end"))
        more, bottom = draw_panel(bottom + 70, rows, noise_percent)
        pieces += more
        bottom += 42
    return picture(
        f"The worst prediction is off by {', by '.join(notes)}",
        ["A mark is a run, hollow if the costs come from it", "Shaded: how much identical runs differ"],
        " ".join(said), bottom + 14, *pieces,
    )
