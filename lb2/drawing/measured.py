"""How far are predictions from a real server? Every measure of every recorded run, predicted
against measured.

A row is a measure, a mark a run, its place the error in per cent. The shaded band is the noise of
the machine: identical runs differ by so much. Hollow marks are runs that the costs were fitted to;
they are no test of the model.
"""

from drawing.svg import LINE, MARGIN, MARKS, RIGHT, axes, draw, group, marks, path, picture, text, units
from drawing.scales import Panel, Scale, step

SHAPES = [shape for shape in MARKS if shape != "bar"]
NAMES = {"p50_ttft_ms": "p50 TTFT", "p99_ttft_ms": "p99 TTFT", "p50_itl_ms": "p50 ITL", "p99_itl_ms": "p99 ITL",
         "p50_tpot_ms": "p50 TPOT", "p99_tpot_ms": "p99 TPOT", "throughput_tps": "tokens/s"}
LANE = 15  # of a run within a row


def errors(rows):
    """{measure: {run: error in per cent}}; what measured 0 is left out."""
    found = {}
    for run, measure, measured, predicted in rows:
        if measured:
            found.setdefault(measure, {})[run] = 100 * (predicted / measured - 1)
    return found


def worst(found, calibrated):
    """(error, measure, run) of the largest error among the runs that were predicted, or of all if
    there are none.
    """
    cases = [(error, measure, run) for measure, by_run in found.items() for run, error in by_run.items()]
    tested = [case for case in cases if case[2] not in calibrated]
    return max(tested or cases, key=lambda case: abs(case[0]))


def draw_measured(rows, calibrated, noise_percent):
    """rows: (run, measure, measured, predicted); calibrated: names of runs; noise_percent: of
    identical runs.
    """
    found = errors(rows)
    runs = list(dict.fromkeys(row[0] for row in rows))
    shapes = {run: SHAPES[i % len(SHAPES)] for i, run in enumerate(runs)}
    edges = [error for by_run in found.values() for error in by_run.values()] + [-noise_percent, noise_percent]
    size = step(max(edges) - min(edges), 5)
    x = Scale(min(edges) - size / 4, max(edges) + size / 4, 132, RIGHT - 20)
    key_rows = -(-len(runs) // 2)
    top = 130 + key_rows * LINE
    tall = LANE * len(runs) + 14
    panel = Panel("error", x, Scale(len(found), 0, top + tall * len(found), top))
    keys = []
    for i, run in enumerate(runs):
        left, y = MARGIN + 300 * (i % 2), 100 + i // 2 * LINE
        kind = "hollow" if run in calibrated else "mark"
        words = f"{run} (calibrated)" if run in calibrated else run
        keys.append(group("good", "key", path(kind, f"M{units(left + 7)},{units(y - 6)}{MARKS[shapes[run]]}")))
        keys.append(text(left + 22, y, words))
    pieces, words = [], []
    for row, (measure, by_run) in enumerate(found.items()):
        words.append(text(x.start - 10, panel.y.at(row + 0.5) + 6, NAMES.get(measure, measure), "end"))
        pieces.append(path("grid", f"M{MARGIN},{units(panel.y.at(row))}H{units(x.end)}"))
        for run, error in by_run.items():
            place = [(error, row + (7 + LANE * (runs.index(run) + 0.5)) / tall)]
            kind = "hollow" if run in calibrated else "mark"
            pieces.append(group("good" if abs(error) <= noise_percent else "bad", f"{measure} {run}",
                                marks(panel, shapes[run], place, kind)))
    error, measure, run = worst(found, calibrated)
    zone = (f'<rect class="noise" x="{units(x.at(-noise_percent))}" y="{top}" '
            f'width="{units(x.at(noise_percent) - x.at(-noise_percent))}" height="{tall * len(found)}"/>')
    said = f"worst of the runs predicted: {NAMES.get(measure, measure)} of {run}, {error:+.0f} %"
    within = sum(abs(error) <= noise_percent for by_run in found.values() for error in by_run.values())
    of_all = f"{within} of {sum(map(len, found.values()))} errors are within {noise_percent:g} %"
    return picture(
        "How far are predictions from a server?",
        f"{of_all}, the noise of the machine; {said}.",
        top + tall * len(found) + 62,
        text(MARGIN, 68, f"Grey: identical runs differ by {noise_percent:g} %"),
        *keys,
        zone,
        draw(panel, axes(panel, "error of the prediction in per cent", ""),
             group("ink", "zero", path("axis", f"M{units(x.at(0))},{top}V{top + tall * len(found)}")), *pieces, *words),
    )
