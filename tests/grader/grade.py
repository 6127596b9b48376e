"""Are these result files right, whoever's program wrote them?

    make grade                                     lb2/, on the shipped requests
    make grade OUT=my/results REQUESTS=my.json

It needs the six files that the exercise names: static.txt, compare.txt, maxseqs.txt, queue.csv,
cost.txt and tune.txt; those that are still to come are said. continuous.txt is checked where it is.
It reads no programs. What the exercise leaves open may be read in several ways; the grader replays
each, accepts any, and says which it recognised. Where numbers fit none, it says what belongs there,
by which rule, and which mistake gives what was found.

pytest ends with status 0 if all is met, 1 if not, and 2 if there is nothing to grade.
"""

import os

import pytest

from fixture import LAB, SHIPPED
from grade_report import ARTIFACTS, Lab, Ungradable
from grades import check, closing, wrapped


@pytest.fixture(scope="module")
def graded(pytestconfig):
    """The Lab. The last lines of the run, and its status, come from it (conftest)."""
    try:
        lab = check(Lab(os.environ.get("OUT") or LAB, os.environ.get("REQUESTS") or SHIPPED))
    except Ungradable as error:
        pytestconfig.closing = f"could not grade: {error}", 2
        pytest.skip(str(error))
    pytestconfig.closing = closing(lab), 0 if lab.passed() else 1
    return lab


@pytest.mark.parametrize("name", ARTIFACTS)
def test_file(graded, name):
    if name not in graded.asked or name in graded.to_come:
        pytest.skip("not there")
    failures = [failure.text for failure in graded.failed(name)]
    if failures:
        pytest.fail("\n\n".join(map(wrapped, failures)), pytrace=False)
