"""The grader tells wrong results from right ones, and names the reading or the mistake."""

import csv
import json
import os
import subprocess
import sys
from fractions import Fraction
from importlib import import_module
from random import Random
from unittest.mock import patch

import grades
import pytest
from fixture import ROOT, SHIPPED, STEPS, read_rows, words
from grade_report import ARTIFACTS, Lab, Ungradable, load_replays
from grades import check, closing
from readings import FIRST, FREE, INSIDE, MIXED, OWN, OWN_SLOT, SERIAL, TOGETHER, Reading, replay
from result_files import number_of

SETS = ROOT / "fixtures" / "student_sets"
SIX = [name for name, artifact in ARTIFACTS.items() if artifact.required]
REPLAYS = load_replays(SHIPPED)  # one memory of replays for all sets that are about the shipped requests


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def graded(folder, requests=SHIPPED):
    return check(Lab(folder, requests, REPLAYS if requests == SHIPPED else None))


def all_of(lab):
    """Everything that is said, in one line."""
    return words("\n".join(failure.text for failure in lab.failures) + "\n" + closing(lab))


def assert_says(lab, passed, said):
    text = all_of(lab)
    assert lab.passed() is passed, text
    for part in said.split(";"):
        assert part.strip() in text, f"{part}\n{text}"


def run_steps(out, requests=SHIPPED):
    """The lab's own results."""
    for name in STEPS:
        with patch.object(sys, "argv", [f"{name}.py", "--out", str(out), "--requests", str(requests)]):
            import_module(name).main()
    return out


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """{file: text} of the lab's own results."""
    out = run_steps(tmp_path_factory.mktemp("right"))
    return {name: (out / name).read_text() for name in ARTIFACTS}


# --- the replay ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reading, static, span_ms, iterations, ttft_ms", [
    (Reading(INSIDE), True, 60, 5, [23, 23, 13]),  # (5 + 10 + 8), 8 + 8; then (5 + 8), 8
    (Reading(INSIDE), False, 44, 3, [23, 23, 13]),  # (5 + 10 + 8), (5 + 8), 8
    (Reading(INSIDE, FREE), False, 24, 3, [8, 8, 8]),
    (Reading(INSIDE, TOGETHER), False, 39, 3, [18, 18, 13]),  # (10 + 8), (5 + 8), 8
    (Reading(INSIDE, OWN_SLOT), False, 34, 3, [13, 18, 13]),  # 10 + 24; the other slot: 13 + 21 is 34, too
    (Reading(OWN, SERIAL), False, 44, 5, [23, 23, 13]),
    (Reading(OWN, SERIAL, costs_step=True), False, 60, 5, [31, 31, 21]),
    (Reading(MIXED, FREE), False, 40, 5, [16, 16, 16]),  # admitted 0, 0, 16; outputs + 1 passes each
    (Reading(FIRST, FREE), False, 16, 2, [8, 8, 8]),  # the first has no pass; the third takes its slot at once
])
def test_three_requests_in_two_slots(reading, static, span_ms, iterations, ttft_ms):
    """(100, 1), (200, 3), (100, 2) prompt and output tokens: 5, 10 and 5 ms of prefill, as in static.py."""
    run = replay(([100, 200, 100], [1, 3, 2]), reading, 2, static)
    assert run.span == 1000 * span_ms
    assert run.passes + run.groups == iterations
    assert [(first - start) / 1000 for first, start in zip(run.firsts, run.starts)] == ttft_ms


@pytest.mark.parametrize("seed", range(3))
def test_the_labs_results_of_other_requests_pass(tmp_path, seed):
    """Two programs that share nothing agree."""
    draw = Random(seed)
    records = [{"prompt_tokens": draw.randint(1, 900), "output_tokens": draw.randint(1, 300)} for _ in range(50 + seed)]
    (tmp_path / "requests.json").write_text(json.dumps(records))
    lab = graded(run_steps(tmp_path / "out", tmp_path / "requests.json"), tmp_path / "requests.json")
    assert lab.passed(), all_of(lab)


def test_the_labs_own_results_pass(right, tmp_path):
    lab = graded(write(tmp_path, right))
    plain = "8 ms a step; prompts are prefilled one after the other"
    assert lab.notes == [] and lab.verdict() == f"{tmp_path}: passed, 7 of 7 met"
    assert_says(lab, True, "static.txt, continuous.txt, compare.txt: 8 ms a step; of 20 draws, pooled")
    assert f"tune.txt: closed loop; {plain}; TTFT ends with the decode pass." in lab.recognised()


# --- sets of students ---------------------------------------------------------------------------------------------


LINES = [line for line in (SETS / "README.md").read_text().splitlines() if line[:3] in ("| r", "| w")]
CELLS = [line.strip("|").split("|") for line in LINES]
STUDENTS = {name.strip(): (passed.strip() == "yes", said) for name, _, passed, said in CELLS}


def test_every_set_has_a_row():
    assert set(STUDENTS) == {path.name for path in SETS.iterdir() if path.is_dir()}


@pytest.mark.parametrize("name", STUDENTS)
def test_a_students_set_is_judged(name):
    assert_says(graded(SETS / name), *STUDENTS[name])


@pytest.mark.parametrize("row", read_rows(SETS / "made.csv"), ids=lambda row: row["set"])
def test_a_made_set_is_judged(row, tmp_path):
    files = {name: row[name].replace(" ", "\n") if name.endswith(".csv") else row[name] for name in SIX if row[name]}
    assert_says(graded(write(tmp_path, files)), row["passed"] == "yes", row["said"])


# --- what is right all the same: file, what is replaced, by what ---------------------------------------------------


@pytest.mark.parametrize("change", [
    lambda text: text,
    lambda text: text.replace(" ", "\n"),
    lambda text: " ".join(text.split()[::-1]) if "=" in text else text,
    lambda text: text.replace("\n", "  \r\n") + "\r\n",
    lambda text: "\ufeff" + text.replace(",", " , "),
    lambda text: text.replace("480.05", "480").replace("1231.32", "1231").replace("2.565", "2.56"),
    lambda text: text.replace("0.2502", "0.25").replace("2775.355", "2775.4").replace("1137.40", "1137"),
])
def test_another_way_to_write_it_passes(right, tmp_path, change):
    lab = graded(write(tmp_path, {name: change(text) for name, text in right.items()}))
    assert lab.passed(), all_of(lab)


@pytest.mark.parametrize("file, old, new, said", [
    ("static.txt", "total", "batch_size=16 total", "static.txt: further keys, not looked at: 'batch_size'."),
    ("queue.csv", "\n", ",mine\n", "queue.csv: further columns, not looked at: 'mine'."),
    ("static.txt", "0.2502", "0.2836", "slot_util counts only as many slots for the last batch as it has requests"),
])
def test_what_is_accepted_is_said(right, tmp_path, file, old, new, said):
    assert_says(graded(write(tmp_path, right | {file: right[file].replace(old, new)})), True, said)


# --- mistakes: file | what is replaced | by what | what must be said -------------------------------------------------

PLANTED = """
static.txt | 5036 | 1833 | that is continuous batching
static.txt | 5036 | 4246 | the last part-filled batch was left out
static.txt | 5036 | 7 | batches were counted
static.txt | 5036 | 20161 | one request was served at a time
static.txt | 5036 | 5035 | it fits no reading
static.txt | 5036 | 5043 | two readings are mixed; the other; a prefill is an iteration of its own
static.txt | 0.2502 | 25.02 | a percentage
static.txt | 0.2502 | 0.7498 | the idle share
static.txt | 480.05 | 0.48005 | tokens per millisecond
static.txt | 480.05 | 480050 | a time in milliseconds was taken for seconds
static.txt | 480.05 | 1294.16 | prompt tokens were counted
static.txt | 480.05 | 5e2 | too few digits
static.txt | 480.05 | 500.42 | Here: 8 ms a step; prefill costs nothing. In static.txt, continuous.txt
static.txt | 480.05 | 200.17 | two readings are mixed. Here: 20 ms a step; prefill costs nothing
continuous.txt | 1833 | 3027 | 8 slots instead of 16
continuous.txt | 1833 | 1261 | slots were taken as always full
continuous.txt | 1231.32 | 6.1074 | requests per second
continuous.txt | 1231.32 | nan | NaN or infinity
compare.txt | 480.05 continuous_tps=1231.32 speedup=2.565 | 1231.32 continuous_tps=480.05 speedup=0.390 | that is static
compare.txt | 1231.32 speedup=2.565 | 480.05 speedup=1.000 | that is static batching; the exercise wants speedup >= 1.8
compare.txt | 2.565 | 2.400 | it is from another run than they are
compare.txt | 2.565 | 0.390 | the ratio is upside down
compare.txt | 2.565 | 256.5 | a percentage, not a factor
compare.txt | 2.565 | 1.565 | the gain was written
compare.txt | 2.565 | 3 | too few digits
maxseqs.txt | 32 peak_running=32 | 16 peak_running=16 | the batch size of tasks 1 to 4
maxseqs.txt | peak_running=32 | peak_running=33 | beyond the free slots
maxseqs.txt | peak_running=32 | peak_running=1 | that of another moment
queue.csv | 10, | 30, | other rates were run
queue.csv | 40, | 20, | a rate is there twice
queue.csv | 1225.982 | 2775.355 | this is the p99 at 40/s: the waits of two rows are swapped
queue.csv | 2775.355 | 2775355 | in microseconds
queue.csv | 44.845 | 95.600 | another run than the others
queue.csv | 8.374 | 4.187 | half of the queue
queue.csv | 8.374 | 0.000 | no queue was counted
queue.csv | 1.956,1225.982 | 1225.982,1.956 | avg_queue and p99_wait_ms are swapped
queue.csv | 8.374 | -8.374 | a number from 0 up
queue.csv | , | ; | not separated by commas
queue.csv | wait_ms | wait (ms) | the header is missing
queue.csv | 8.374,2775.355 | 8.374 | a row was cut short
queue.csv | 40,8.374,2775.355 | | a row is missing
cost.txt | 1709.55 | 1.70955 | in seconds
cost.txt | 161288.00 | 14664 | batching shares the decode
cost.txt | 161288.00 | 84832 | it ran on the first 50 requests
cost.txt | 0.9895 | 98.95% | a percentage
cost.txt | 0.9895 | 0.0105 | the share of prefill
cost.txt | 0.9895 | 94.3453 | decode / prefill, not
cost.txt | share | ratio | a misspelt key (found 'decode_ratio')
tune.txt | 200 | 0.2 | in seconds
tune.txt | 200 | 200ms | a unit, or a message
tune.txt | 200 | 100 | another target was given
tune.txt | =14 | =14.5 | a whole number
tune.txt | =14 | =13 | every concurrency up to 14 meets the target
tune.txt | =14 throughput_at_target=1137.40 | =33 throughput_at_target=1831.89 | the mean was used instead of the p99
tune.txt | =14 throughput_at_target=1137.40 | =20 throughput_at_target=1393.34 | TTFT left something out
tune.txt | =14 throughput_at_target=1137.40 | =12 throughput_at_target=1019.59 | not the largest
tune.txt | =14 throughput_at_target=1137.40 | =101 throughput_at_target=1137.40 | more clients than that change nothing
tune.txt | =14 throughput_at_target=1137.40 | =0 throughput_at_target=0.00 | counted from time 0
tune.txt | 1137.40 | 1.13740 | tokens per millisecond
tune.txt | 1137.40 | 777.00 | it fits no reading
"""


@pytest.mark.parametrize("line", PLANTED.strip().splitlines())
def test_a_planted_mistake_is_named_and_no_other_file_is_blamed(right, tmp_path, line):
    file, old, new, said = (part.strip() for part in line.split("|"))
    assert old in right[file]
    lab = graded(write(tmp_path, right | {file: right[file].replace(old, new)}))
    assert {failure.file for failure in lab.failures} == {file}, all_of(lab)
    assert_says(lab, False, said)
    for failure in lab.failures:
        labels = [line.split()[0] for line in failure.text.split("\n")]
        assert labels == ["file:", "got:", "expected:", "rule:", "likely:", "rerun:"], failure.text
    assert not any(file in line.split(":")[0] for line in lab.recognised()), "what failed is not recognised"


# --- what cannot hold ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("requests, said", [
    ([(100, 20)], "speedup >= 1.8 cannot hold; on these requests it cannot, for too few of them ever wait"),
    ([(4000, 20)], "speedup >= 1.8 cannot hold"),  # nothing meets the target: 208 ms
    ([(100, 50)] * 100, "slot_util < 0.7 cannot hold on these requests; right is 0.8929; speedup >= 1.8 cannot hold"),
    ([(100, 1), (200, 3), (100, 2)], "speedup >= 1.8 cannot hold"),
    ([(500, 1), (1000, 5), (2000, 1), (3000, 5), (500, 6), (2000, 6), (500, 2), (2000, 5), (3000, 5)], ""),
], ids=["one", "none meets", "equal", "three", "a p99 that dips"])
def test_a_condition_that_cannot_hold_is_said(tmp_path, requests, said):
    records = [{"prompt_tokens": prompt, "output_tokens": output} for prompt, output in requests]
    (tmp_path / "requests.json").write_text(json.dumps(records))
    assert_says(graded(run_steps(tmp_path / "out", tmp_path / "requests.json"), tmp_path / "requests.json"), True, said)


# --- numbers as they are written ----------------------------------------------------------------------------------


@pytest.mark.parametrize("written, exact, agrees", [
    ("0.25", "0.2502", True),
    ("0.25", "0.2599", True),  # cut off
    ("0.26", "0.2551", True),  # rounded
    ("0.26", "0.2549", False),
    ("0.25", "0.2601", False),
    ("1709.5500000000002", "1709.55", True),
    ("1709.55001", "1709.55", False),
    ("1709.54", "1709.55", True),  # cut off a float just below
])
def test_a_written_number_stands_for_what_it_may_have_been(written, exact, agrees):
    assert number_of("", written, 2).agrees(Fraction(exact)) is agrees


@pytest.mark.parametrize("written, exact, decimals, says", [
    ("1.0", "1.04", 3, True),
    ("1", "1.04", 3, False),  # one digit, where the exercise asks for three decimals
    ("0.0003", "0.00031", 4, True),  # one digit, but all the decimals that are asked for
    ("0.0", "0.0311", 2, False),
    ("5036", "5036", 0, True),
    ("5036", "5035.8", 0, False),  # a count is exact
])
def test_a_written_number_has_digits_enough(written, exact, decimals, says):
    assert number_of("", written, decimals).says(Fraction(exact), decimals) is says


# --- the commands -------------------------------------------------------------------------------------------------


def grade_command(command, **environment):
    variables = {key: value for key, value in os.environ.items() if key not in ("OUT", "REQUESTS", "DIR")}
    variables |= {"PYTHON": sys.executable, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment}
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, encoding="utf-8", timeout=60)


def make_grade(out, **environment):
    command = ["sh", "tests/run", "--quiet", "--no-header", "-rN", "--tb=short", "tests/grader/grade.py"]
    return grade_command(command, OUT=str(out), **environment)


def test_grading_says_what_is_wrong_and_what_is_still_to_come(right, tmp_path):
    files = {name: right[name] for name in SIX[:4]}
    files["static.txt"] = files["static.txt"].replace("=", ":")
    done = make_grade(write(tmp_path / "two words \u00e9", files))
    assert done.returncode == 1
    last = done.stdout.splitlines()[-1]
    assert last.endswith("not passed, 3 of 6 met; still to come: cost.txt (task 7), tune.txt (task 8)"), done.stdout
    assert "likely:    a colon stands where an = belongs\n" in done.stdout
    assert "Traceback" not in done.stdout and done.stderr == ""
    assert all(len(line) <= 100 for line in done.stdout.splitlines()[:-1] if not line.startswith("rerun")), done.stdout


def test_grading_ends_with_status_0_if_all_is_met(right, tmp_path):
    done = make_grade(write(tmp_path, right))
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == f"{tmp_path}: passed, 7 of 7 met", done.stdout


@pytest.mark.parametrize("out, requests, said", [
    ("nowhere", SHIPPED, "OUT: nowhere: No such file"),
    (SETS, SETS / "README.md", "found no JSON"),
    (SETS, "long.json", "1,001 requests; the grader replays at most 1,000"),
])
def test_what_cannot_be_graded_is_said(tmp_path, monkeypatch, out, requests, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long.json").write_text(json.dumps([{"prompt_tokens": 1, "output_tokens": 1}] * 1001))
    with pytest.raises(Ungradable, match=said):
        Lab(out, requests)


def test_status_2_if_there_is_nothing_to_grade(tmp_path):
    done = make_grade(tmp_path, REQUESTS="nowhere.json")
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1].startswith("could not grade: REQUESTS: nowhere.json: No such file"), done.stdout


def test_a_class_is_graded_in_one_go(right, tmp_path):
    write(tmp_path / "Ren\u00e9, A.", {name: right[name] for name in SIX})
    write(tmp_path / "bob", {name: right[name] for name in SIX[:5]} | {"static.txt": "total_steps=7"})
    write(tmp_path / "zoe", {})
    write(tmp_path / ".git", {})
    command = [sys.executable, "tests/grader/grades.py"]
    done = grade_command(command, DIR=str(tmp_path), PYTHONPATH="lb2:tests:tests/grader")
    assert done.returncode == 1 and done.stderr == ""
    assert [line.split(": ")[1].split(";")[0] for line in done.stdout.splitlines()[:3]] == [
        "passed, 6 of 6 met", "not passed, 4 of 6 met", "not passed, 0 of 6 met"]
    assert done.stdout.splitlines()[-1].startswith("1 of 3 passed; ")
    with open(tmp_path / "grades.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["student"] for row in rows] == ["Ren\u00e9, A.", "bob", "zoe"]
    assert [row["passed"] for row in rows] == ["yes", "no", "no"]
    assert [rows[1][name] for name in SIX] == ["not met", "met", "met", "met", "met", "missing"]
    assert rows[1]["first_mistake"].startswith("static.txt: the line was cut short")


def test_nobody_to_grade_is_status_2(tmp_path, capsys):
    with patch.dict(os.environ, {"DIR": str(tmp_path)}):
        assert grades.main() == 2
    assert "expected a folder for each student, found none" in capsys.readouterr().err


# --- what cannot be read ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make, said", [
    (lambda path: path.symlink_to(path.name), "symbolic links"),
    (lambda path: os.mkfifo(path), "a pipe or a device of that name"),
    (lambda path: path.mkdir(), "a folder of that name"),
    (lambda path: path.write_bytes("total_steps=1".encode("utf-16")), "saved as UTF-16"),
    (lambda path: path.write_text("\n"), "an empty file"),
    (lambda path: path.write_text("a=1 " * 50_000), "appended to again and again"),
], ids=["a link loop", "a pipe", "a folder", "UTF-16", "empty", "huge"])
def test_a_result_that_cannot_be_read_is_reported(right, tmp_path, make, said):
    for name in ("static.txt", "queue.csv"):
        folder = write(tmp_path / name.replace(".", "_"), right)
        (folder / name).unlink()
        make(folder / name)
        (failure,) = graded(folder).failures
        assert failure.file == name and said in failure.text


def test_what_was_found_is_quoted_and_cut_short(right, tmp_path):
    files = right | {"maxseqs.txt": "5\u00b7" + "!" * 100}
    (failure,) = graded(write(tmp_path, files)).failures
    assert f"got:       '5\\xb7{'!' * 51}...\n" in failure.text


def test_the_command_to_rerun_is_complete(tmp_path):
    lab = Lab(write(tmp_path / "my results", {}))
    lab.wrong("cost.txt", "", "", "", "", "")
    assert lab.failures[-1].text.endswith(f"the program that wrote it, then make grade 'OUT={tmp_path}/my results'")
