"""Grade a folder, and word what was found; for one student (grade.py) and for a class (grades.py)."""

import textwrap

from grade_queue import grade_queue
from grade_steps import grade_costs, grade_maxseqs, grade_speedup, grade_throughputs
from grade_tune import grade_tuning


def check(lab):
    """Fill in what the Lab says. Steps 1 to 4 come first: the others ask what a step costs there."""
    grade_throughputs(lab)
    grade_speedup(lab)
    grade_maxseqs(lab)
    grade_queue(lab)
    grade_costs(lab)
    grade_tuning(lab)
    return lab


def wrapped(text, indent=11):
    """Lines of at most 100 columns; a command stays in one, to be copied."""
    wrap = textwrap.TextWrapper(100, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(line if line.startswith("rerun:") else wrap.fill(line) for line in text.split("\n"))


def closing(lab):
    """What follows the failures: the readings that were recognised, the notes, and the verdict as the last line."""
    lines = []
    for title, found in (("Recognised", lab.recognised()), ("Notes", lab.notes)):
        if found:
            lines += [title, *(wrapped(f"  {line}", 4) for line in found)]
    return "\n".join([*lines, lab.verdict()])
