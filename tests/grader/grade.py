"""Are these result files right, whoever's program wrote them?

    make grade                                     lb2/, on the shipped requests
    make grade OUT=my/results REQUESTS=my.json

It needs the six files that the exercise names: static.txt, compare.txt, maxseqs.txt, queue.csv,
cost.txt and tune.txt. continuous.txt and tune.csv are checked where they are. It reads no programs.
What the exercise leaves open may be read in several ways; the grader replays each, accepts any, and
says which it recognised. Where numbers fit none, it says what belongs there, by which rule, and
which mistake gives what was found. What cannot hold on this request file is said, too.
"""

import os
import textwrap

import pytest

from fixture import LAB, SHIPPED
from grade_queue import grade_queue
from grade_report import ARTIFACTS, Lab, Ungradable
from grade_steps import grade_costs, grade_maxseqs, grade_speedup, grade_throughputs
from grade_tune import grade_tuning


def check(lab):
    """Fill in the Lab's failures and notes. Steps 1 to 4 come first: the others ask what a step costs there."""
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


@pytest.fixture(scope="module")
def graded():
    """(the Lab, None), or (None, why there is nothing to grade)."""
    try:
        return check(Lab(os.environ.get("OUT") or LAB, os.environ.get("REQUESTS") or SHIPPED)), None
    except Ungradable as error:
        return None, str(error)


def test_there_is_something_to_grade(graded):
    _, defect = graded
    if defect:
        pytest.fail(wrapped(defect), pytrace=False)


@pytest.mark.parametrize("name", ARTIFACTS)
def test_file(graded, name):
    lab, _ = graded
    if lab is None:
        pytest.skip("nothing to grade: the first failure says why")
    failures = [failure.text for failure in lab.failures if failure.file == name]
    if failures:
        pytest.fail("\n\n".join(map(wrapped, failures)), pytrace=False)


def test_say_what_was_recognised(graded, capsys):
    lab, _ = graded
    if lab is None:
        pytest.skip("nothing to grade: the first failure says why")
    with capsys.disabled():
        print("\n\nRecognised")
        for line in lab.recognised or ["nothing: the failures say why."]:
            print(wrapped(f"  {line}", 4))
        if lab.notes:
            print("Notes")
            for line in lab.notes:
                print(wrapped(f"  {line}", 4))
