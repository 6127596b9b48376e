"""Who of a class has passed? Grades every folder in DIR, prints a line a student, and writes DIR/grades.csv.

    make grades DIR=students
    make grades DIR=students REQUESTS=my.json      the same list for all

Status 0 if all have passed, 1 if not, 2 if there is nobody or nothing to grade. For one student's messages:
make grade OUT=students/NAME.
"""

import csv
import os
import sys
from pathlib import Path

from fixture import SHIPPED
from grade_report import ARTIFACTS, Lab, Ungradable, load_replays
from grading import check

FILES = [name for name, artifact in ARTIFACTS.items() if artifact.required]


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
