"""How large is each room of the project, beside its budget? Lines of Python, comments and docstrings too.

    python3 tests/size.py        or: make size

A budget is a question, not a law. A change that adds lines says what it took out.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = {  # room: (budget in lines, what lies in it)
    "steps and common": (800, "lb2/common.py lb2/static.py lb2/continuous.py lb2/compare.py lb2/maxseqs.py "
                              "lb2/queueing.py lb2/cost.py lb2/tune.py"),
    "quiz": (90, "lb2/quiz.py"),
    "running": (150, "lb2/running/*.py"),
    "files": (1350, "lb2/files/*.py lb2/traces.py"),
    "orca": (1300, "lb2/roofline/*.py lb2/orca_*.py"),
    "paging": (1400, "lb2/paging/*.py lb2/paged*.py"),
    "calibration": (1750, "lb2/calibration/*.py lb2/calibrate.py lb2/measured.py"),
    "planning": (1450, "lb2/planning/*.py lb2/plan.py"),
    "drawing": (1350, "lb2/drawing/*.py lb2/pictures.py"),
    "report": (300, "lb2/reporting/*.py lb2/report.py"),
    "tests, the grader included": (11500, "tests/**/*.py"),
}


def lines(patterns):
    """Lines of all files that the patterns name."""
    return sum(len(path.read_text().splitlines()) for pattern in patterns.split() for path in ROOT.glob(pattern))


def main():
    sizes = {room: lines(patterns) for room, (_, patterns) in ROOMS.items()}
    *product, tests = sizes
    rows = [(room, sizes[room], ROOMS[room][0]) for room in product]
    rows.append(("product", lines("lb2/**/*.py"), sum(ROOMS[room][0] for room in product)))
    rows += [(f"  {path.name}/", lines(f"tests/{path.name}/*.py"), "") for path in sorted(ROOT.glob("tests/[a-z]*/"))]
    rows.append((tests, sizes[tests], ROOMS[tests][0]))
    for room, size, budget in [("room", "lines", "budget"), *rows]:
        print(f"{room:<28}{size:>7}{budget:>8}")


if __name__ == "__main__":
    main()
