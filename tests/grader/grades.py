"""Grade a folder, and word what was found (for grade.py, too). As a script: who of a class has passed?

It grades every folder in DIR, prints a line a student, and writes DIR/grades.csv.

    make grades DIR=students
    make grades DIR=students REQUESTS=my.json      the same list for all

Status 0 if all have passed, 1 if not, 2 if there is nobody or nothing to grade. For one student's messages:
make grade OUT=students/NAME.
"""

import csv
import os
import sys
import textwrap
from pathlib import Path

from fixture import SHIPPED
from grade_queue import grade_queue
from grade_report import ARTIFACTS, Lab, Ungradable, load_replays
from grade_steps import grade_costs, grade_maxseqs, grade_speedup, grade_throughputs
from grade_tune import grade_tuning

FILES = [name for name, artifact in ARTIFACTS.items() if artifact.required]


def check(lab):
    """Fill in what the Lab says. Tasks 1 to 4 come first: the others ask what a step costs there."""
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


def grade_class(folder, requests_file):
    """[(student, the graded Lab)]"""
    try:
        students = sorted(path for path in Path(folder).iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        raise Ungradable(f"DIR: {folder}: {error.strerror}") from None
    if not students:
        raise Ungradable(f"DIR: {folder}: expected a folder for each student, found none")
    replays = load_replays(requests_file)
    return [(path.name, check(Lab(path, requests_file, replays))) for path in students]


def row_of(student, lab):
    """A line of grades.csv: what of each file, and the likely mistake behind the first that is not met."""
    words = [("met" if name in lab.met() else "missing" if name in lab.to_come else "not met") for name in FILES]
    first = f"{lab.failures[0].file}: {lab.failures[0].likely}" if lab.failures else ""
    return [student, "yes" if lab.passed() else "no", len(lab.met()), len(lab.asked), *words, first]


def main():
    folder = os.environ.get("DIR") or "students"
    try:
        labs = grade_class(folder, os.environ.get("REQUESTS") or SHIPPED)
        with open(Path(folder) / "grades.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["student", "passed", "met", "asked", *FILES, "first_mistake"])
            writer.writerows(row_of(student, lab) for student, lab in labs)
    except (Ungradable, OSError) as error:
        print(f"grades.py: error: {error}", file=sys.stderr)
        return 2
    for _, lab in labs:
        print(lab.verdict())
    passed = sum(lab.passed() for _, lab in labs)
    print(f"{passed} of {len(labs)} passed; {Path(folder) / 'grades.csv'} has a line for each")
    return 0 if passed == len(labs) else 1


if __name__ == "__main__":
    sys.exit(main())
