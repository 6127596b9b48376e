"""What a user can get wrong, and where a user can stand: every script says it in one line, and nothing is lost."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys

import common
import pytest
from fixture import (LAB, RESULTS, ROOT, SHIPPED, STEPS, assert_refused, assert_usage, fed, files, heed_ctrl_c, make,
                     make_command, read_rows, script, started)
from forked import run_forked

GOOD = {"prompt_tokens": 10, "output_tokens": 3}


def records(second):
    return json.dumps([GOOD, second, GOOD]).encode()


def field(literal):
    return f'[{json.dumps(GOOD)}, {{"prompt_tokens": 10, "output_tokens": {literal}}}]'.encode()


WHOLE = "record 1: output_tokens: expected a whole number, 1 to 1,000,000,000, found "
CONVERT = "python3 lb2/traces.py FILE --convert OUT.json"
LIST = "expected a JSON list of requests, found "
BAD_FILES = {  # name: (content, what the one line must say)
    "empty file": (b"", LIST + "no JSON"),
    "not JSON": (b"prompt_tokens,output_tokens\n1,2\n", CONVERT),
    "truncated": (b'[{"prompt_tokens": 1, "output_tokens": 2}', LIST + "no JSON"),
    "not a list": (b'{"requests": [{"prompt_tokens": 1, "output_tokens": 2}]}', CONVERT),
    "a number": (b"17", LIST + "17"),
    "empty list": (b"[]", LIST + "[]"),
    "no object": (records([10, 3]), "record 1: prompt_tokens: expected a whole number"),
    "null": (records(None), "record 1: prompt_tokens"),
    "a string": (records("prompt_tokens"), 'in "prompt_tokens"'),
    "no output": (records({"prompt_tokens": 10}), 'found null in {"prompt_tokens": 10}'),
    "another's names": (b'[{"input_length": 1, "output_length": 2}]', CONVERT),
    "true": (field("true"), WHOLE + "true"),
    "3.0": (field("3.0"), WHOLE + "3.0"),
    '"7"': (field('"7"'), WHOLE + '"7"'),
    "NaN": (field("NaN"), WHOLE + "NaN"),
    "-1": (field("-1"), WHOLE + "-1"),
    "0": (field("0"), WHOLE + "0"),
    "a billion and one": (field("1000000001"), WHOLE + "1000000001"),
    "5000 digits": (field("7" * 5000), LIST + "no JSON: Exceeds the limit (4300"),
    "a long string": (field('"' + "x" * 1000 + '"'), WHOLE + '"' + "x" * 39 + " in"),
    "a line break": (field('"a\\nb"'), WHOLE + '"a\\nb"'),
    "UTF-16": (records(GOOD).decode().encode("utf-16"), LIST + "no JSON"),
    "gzipped": (gzip.compress(records(GOOD)), CONVERT),
    "100,000 brackets": (b"[" * 100_000, LIST + "no JSON"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_request_file_is_one_line_and_changes_nothing(tmp_path, case):
    """Every case through one script in turn, so that each script meets several; the next test meets them all."""
    content, says = BAD_FILES[case]
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    out = tmp_path / "out"
    out.mkdir()
    for name in RESULTS:
        (out / name).write_text("earlier\n")
    before = files(out)
    name = STEPS[list(BAD_FILES).index(case) % len(STEPS)]
    done = script(name, "--requests", path, "--out", out)
    assert_refused(done, name, says)
    assert path.name in done.stderr
    assert files(out) == before


@pytest.mark.parametrize("name", STEPS)
def test_every_script_refuses(tmp_path, name):
    """A defect deep in a good file, a missing file, a folder: no script reads requests in a way of its own."""
    path = tmp_path / "bad.json"
    path.write_bytes(field("0"))
    assert_refused(script(name, "--requests", path, "--out", tmp_path / "o"), name, WHOLE + "0")
    assert_refused(script(name, "--requests", tmp_path / "no.json", "--out", tmp_path / "o"), name, "No such file")
    assert_refused(script(name, "--requests", tmp_path, "--out", tmp_path / "o"), name, "Is a directory")
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("name", STEPS)
def test_an_out_that_cannot_be_written(tmp_path, name):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("precious")
    for out in (in_the_way, in_the_way / "below"):
        assert_refused(script(name, "--out", out), name, "file")
    assert in_the_way.read_text() == "precious"


def test_a_result_that_cannot_be_replaced_is_named_and_leaves_nothing_beside_it(tmp_path):
    (tmp_path / "cost.txt").mkdir()
    assert_refused(script("cost", "--out", tmp_path), "cost", "cost.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["cost.txt"]


def test_closed_streams_are_no_traceback(tmp_path):
    command = ["sh", "-c", '"$@" >&-', "sh", sys.executable, LAB / "cost.py", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and (tmp_path / "cost.txt").exists()


def test_a_strange_file_name_still_makes_one_line(tmp_path):
    path = tmp_path / "two\nlines \x1b[31m.json"
    path.write_text("[]")
    assert_refused(script("cost", "--requests", path), "cost", "two lines \x1b[31m.json: expected a JSON list of requests, found []")


@pytest.mark.parametrize(
    "name, flags, says",
    [
        *[("static", ["--batch-size", text], "expected a whole number, 1 to 1,000,000,000, found")
          for text in ("0", "1000000001", "9" * 5000, "1.5", "\u0663")],
        ("continuous", ["--max-num-seqs", "0"], "expected a whole number, 1"),
        ("compare", ["--batch-size", "0"], "expected a whole number, 1"),
        ("maxseqs", ["--max-num-seqs", "many"], "expected a whole number, 1 to 1,000,000,000, found"),
        *[("queueing", ["--rps", "5", text], "expected a number, 1e-06")
          for text in ("-1", "0.0000009", "inf", "nan", "1_0")],
        ("queueing", ["--rps"], "expected at least one argument"),
        ("tune", ["--target-ttft-ms", "-5"], "expected a number, 1e-06"),
        ("tune", ["--up-to", "0"], "expected a whole number, 1"),
    ],
)
def test_a_flag_that_makes_no_sense(tmp_path, name, flags, says):
    assert_usage(script(name, "--out", tmp_path, *flags), name, says)
    assert files(tmp_path) == {}


def test_rates_at_the_edges_of_what_is_allowed(tmp_path):
    assert script("queueing", "--out", tmp_path, "--rps", "0.000001", "1000000000").returncode == 0
    assert [row["rps"] for row in read_rows(tmp_path / "queue.csv")] == ["1e-06", "1000000000"]


def test_requests_are_the_projects_or_those_beside_the_scripts_or_the_courses(tmp_path):
    lab = copied_lab(tmp_path)
    kept, beside = tmp_path / "fixtures/llms/requests.json", lab / "requests.json"
    beside.write_text(json.dumps([GOOD]))
    command = [sys.executable, "-c", "import common; print(common.REQUESTS_FILE)"]
    found = []
    for path in (kept, beside):
        found.append(subprocess.run(command, cwd=lab, capture_output=True, text=True).stdout.strip())
        path.unlink()
    assert found == [str(kept), str(beside)]
    found = subprocess.run(command, cwd=lab, capture_output=True, text=True).stdout.strip()
    assert found == "/opt/fixtures/llms/requests.json" if os.path.exists("/opt/fixtures/llms/requests.json") else str(kept)


def test_a_byte_order_mark_and_extra_fields_are_accepted(tmp_path):
    path = tmp_path / "requests.json"
    path.write_bytes(b"\xef\xbb\xbf" + records({**GOOD, "user": "\u00e9", "output_tokens": 3}))
    assert script("static", "--requests", path, "--out", tmp_path).returncode == 0
    assert (tmp_path / "static.txt").read_text().startswith("total_steps=3 ")


def test_scripts_run_from_anywhere_with_any_path(tmp_path):
    """The lab copied to a folder with spaces and other letters, run from a third folder, relative paths and all."""
    home = tmp_path / "la leçon 批处理"
    copied_lab(home)
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    for name in STEPS:
        path = str(home / "lb2" / f"{name}.py")
        subprocess.run([sys.executable, path], cwd=elsewhere, check=True, capture_output=True)
        assert run_forked([path, "--out", "résultats 1"], elsewhere).returncode == 0
    assert set(RESULTS) <= set(files(home / "lb2"))
    assert sorted(files(elsewhere / "résultats 1")) == sorted(RESULTS)


@pytest.mark.parametrize("name", STEPS)
def test_help_says_what_is_answered_and_written(name):
    done = started(name, "--help")
    assert done.returncode == 0
    assert "?" in done.stdout.split("\n\n")[1].splitlines()[0], "the help opens with the question"
    assert "writes" in done.stdout and "default:" in done.stdout


def test_a_reader_that_closes_early_is_no_error(tmp_path):
    command = ["sh", "-c", '"$@" | true', "sh", sys.executable, LAB / "static.py", "--out", tmp_path]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(command, capture_output=True, text=True, env=buffered)
    assert done.stderr == "" and (tmp_path / "static.txt").exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_one_line(tmp_path):
    """argparse itself overlooks it for --help; then at least Python must not complain at the end (status 120)."""
    command = [sys.executable, str(LAB / "cost.py"), "--out", str(tmp_path)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
        helped = subprocess.run([*command, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "cost.py: error: [Errno 28] No space left on device\n")
    assert helped.returncode in (0, 2) and "Exception" not in helped.stderr


def test_too_little_memory_is_one_line(capsys, monkeypatch):
    def needs_too_much():
        raise MemoryError

    monkeypatch.setattr(sys, "argv", ["cost.py"])
    with pytest.raises(SystemExit) as ended:
        common.run(needs_too_much)
    assert ended.value.code == 2
    assert capsys.readouterr().err == "cost.py: error: there is not enough memory\n"


def test_numbers_of_users_are_shown_in_one_line_and_cut(tmp_path):
    for name, option in [("static", "--batch-size"), ("queueing", "--rps"), ("plan", "--percentile"), ("traces", "--time-unit")]:
        said = script(name, option, "a\nb" + "x" * 5000).stderr
        assert said.endswith("found 'a\\nb" + "x" * 37 + "'\n"), said


# --- costs --------------------------------------------------------------------------------------------------------

PLAIN = "prefill_ms_per_token=0.05 step_ms=8 step_ms_per_sequence=0 overhead_ms=0"


def test_the_steps_take_the_line_of_a_costs_file_and_say_what_they_leave_out(tmp_path):
    (tmp_path / "costs.txt").write_text(f"{PLAIN} context_ms_per_token=0.001 hidden_ms=5 step_ms_at=1:9,2:10\n")
    done = script("cost", "--costs", tmp_path / "costs.txt", "--out", tmp_path)
    assert done.stdout.startswith("Of the costs, the steps leave out context_ms_per_token, hidden_ms, step_ms_at.\n")
    assert (tmp_path / "cost.txt").read_text() == "total_prefill_ms=1709.55 total_decode_ms=161288.00 decode_share=0.9895\n"


@pytest.mark.parametrize("text, says", [
    ("step_ms=8 step_ms_per_sequence=0 overhead_ms=0", "prefill_ms_per_token: expected a number, 0 to 1,000,000,000, found ''"),
    (f"{PLAIN} step_ms=9", "each key once"),
    *[(PLAIN.replace("=8", f"={text}"), "step_ms: expected a number") for text in ("8ms", "1_0", "-1", "nan")],
    ("\xff", "prefill_ms_per_token: expected"),
])
def test_bad_costs_are_one_line(tmp_path, text, says):
    (tmp_path / "costs.txt").write_bytes(text.encode("latin-1"))
    assert_refused(script("cost", "--costs", tmp_path / "costs.txt", "--out", tmp_path / "out"), "cost", says)
    assert not (tmp_path / "out").exists()


def test_costs_in_hundredths_of_a_microsecond_by_hand(tmp_path):
    """51.64 us a token: 10 tokens take 516 us; a pass of two sequences 8000 + 2 x 0.25 = 8000.5, rounded to even."""
    (tmp_path / "c").write_text("prefill_ms_per_token=0.05164 step_ms=8 step_ms_per_sequence=0.00025 overhead_ms=1.5")
    costs = common.load_costs(tmp_path / "c")
    assert costs == common.Costs(51.64, 8000, 0.25, 1500)
    assert (costs.prefill_us(10), costs.decode_us(2), costs.decode_us(3)) == (516, 8000, 8001)
    assert common.Costs(step_us=0).decode_us(5) == 1, "a step takes time"


# --- make ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(the folder, the finished process) of `make all`."""
    out = tmp_path_factory.mktemp("made") / "it's a folder"
    return out, make(f"OUT={out}")


def test_make_all_writes_the_eight_files_and_says_each_line(made):
    out, done = made
    assert done.returncode == 0
    assert [path.name for path in sorted(out.iterdir())] == sorted(RESULTS)
    for name in RESULTS[:-1]:
        assert (out / name).read_text() in done.stdout
    assert [f"Step {number}:" in done.stdout for number in range(1, 9)] == [True] * 8


def test_make_all_on_bad_requests_stops_and_loses_nothing(made, tmp_path):
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    before = files(tmp_path)
    path = tmp_path / "bad.json"
    path.write_text("[]")
    done = make(f"OUT={tmp_path}", f"REQUESTS={path}")
    assert done.returncode == 2 and "found []" in done.stderr and "Step" not in done.stdout
    path.unlink()
    assert files(tmp_path) == before and len(list(tmp_path.iterdir())) == len(before)


def copied_lab(folder):
    """A copy of the scripts, to break one of them."""
    shutil.copytree(LAB, folder / "lb2", ignore=shutil.ignore_patterns("*.txt", "*.csv", ".*", "__pycache__"))
    shutil.copytree(ROOT / "fixtures" / "llms", folder / "fixtures" / "llms")
    for path in folder.rglob("*"):
        path.chmod(0o755)  # the project itself may be read-only
    return folder / "lb2"


def test_a_step_that_fails_stops_make(tmp_path):
    """Step 7 ends with status 3: step 8 does not start, and the files of the steps before it are new."""
    lab = copied_lab(tmp_path)
    shutil.copy(ROOT / "Makefile", tmp_path)
    (lab / "cost.py").write_text("raise SystemExit(3)\n")
    command, environment = make_command(f"OUT={tmp_path / 'out'}")
    command[command.index(str(ROOT))] = str(tmp_path)
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 2 and "Step 6" in done.stdout and "Step 8" not in done.stdout
    assert set(files(tmp_path / "out")) == {*RESULTS} - {"cost.txt", "tune.txt", "tune.csv"}


@pytest.mark.parametrize("name, options, writes", [
    ("static", [], ["static.txt"]),
    ("plan", ["--target-ttft-ms", "8", "--processes", "1"], ["plan.csv", "plan.svg", "plan.txt"]),
    ("pictures", ["--only", "slots.svg", "orca_curves.svg"], ["orca_curves.svg", "slots.svg"])])
def test_requests_and_costs_from_pipes(tmp_path, name, options, writes):
    """Each can be read once only, and the last two scripts need the requests twice; no copy is left."""
    fed(tmp_path / "requests", json.dumps([{**GOOD, "gap": 1.0}] * 20))
    fed(tmp_path / "costs", PLAIN)
    (tmp_path / "copies").mkdir()
    command = [sys.executable, LAB / f"{name}.py", "--requests", tmp_path / "requests", "--costs", tmp_path / "costs",
               "--out", tmp_path / "out", *options]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "copies")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stderr) == (0, "") and sorted(files(tmp_path / "out")) == writes
    assert not list((tmp_path / "copies").iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_result_is_whole_or_untouched_whenever_a_step_is_ended(tmp_path, number):
    """Between writing beside and replacing: what stands there is the old file, and clean takes what was beside it."""
    (tmp_path / "cost.txt").write_text("old\n")
    stop = "import os, sys; sys.path.insert(0, sys.argv[1]); import common, pathlib\n" \
        "def replace(self, path): print('there', flush=True); import time; time.sleep(60)\n" \
        "pathlib.Path.replace = replace\n" \
        "common.run(lambda: common.save(pathlib.Path(sys.argv[2]), {'cost.txt': 'new\\n'}))\n"
    process = subprocess.Popen([sys.executable, "-c", stop, LAB, tmp_path], stdout=subprocess.PIPE, preexec_fn=heed_ctrl_c)
    assert process.stdout.readline() == b"there\n"
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode != 0 and (tmp_path / "cost.txt").read_text() == "old\n"
    assert len(list(tmp_path.iterdir())) == (1 if number == signal.SIGINT else 2)
    assert make("clean", f"OUT={tmp_path}").returncode == 0 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments, says", [
    (["all", "REQUEST=x"], "No variable REQUEST here"), (["tune", "OPTION=--up-to 3"], "No variable OPTION here"),
    (["all", "OPTIONS=--first 3"], "OPTIONS are those of one script"), (["OPTIONS=--first 3"], "OPTIONS are those"),
    (["cost", "tune", "OPTIONS=--first 3"], "OPTIONS are those of one script"),
])
def test_make_refuses_what_it_would_silently_leave_out(tmp_path, arguments, says):
    done = make(*arguments, f"OUT={tmp_path}")
    assert done.returncode == 2 and says in done.stderr and not list(tmp_path.iterdir())


def test_make_finds_the_modules_beside_a_script_in_any_environment(tmp_path):
    command, environment = make_command("static", f"OUT={tmp_path}")
    done = subprocess.run(command, capture_output=True, env={**environment, "PYTHONSAFEPATH": "1"})
    assert (done.returncode, done.stderr, list(files(tmp_path))) == (0, b"", ["static.txt"])


def test_make_clean_takes_the_results_and_nothing_else(made, tmp_path, monkeypatch):
    """Not even where CDPATH would lead a cd elsewhere; and what an interrupted run left goes too."""
    monkeypatch.setenv("CDPATH", str(tmp_path))
    (tmp_path / "lb2").mkdir()
    (tmp_path / "lb2" / "static.txt").write_text("another's")
    out = tmp_path / "out"
    shutil.copytree(made[0], out)
    (out / "mine.txt").write_text("mine")
    (out / ".lab.123.cost.txt").write_text("half")
    assert make("clean", f"OUT={out}").returncode == 0
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
    assert files(tmp_path / "lb2") == {"static.txt": b"another's"}


@pytest.mark.parametrize("name", ["a$b c", "it's", "-x", "$(x)", "é批"])
def test_make_takes_names_as_they_are(tmp_path, name):
    (tmp_path / name).mkdir()
    requests = tmp_path / name / f"{name}.json"
    requests.write_text(json.dumps([GOOD]))
    assert make("cost", f"OUT={tmp_path / name / 'out'}", f"REQUESTS={requests}").returncode == 0
    assert (
        tmp_path / name / "out" / "cost.txt"
    ).read_text() == "total_prefill_ms=0.50 total_decode_ms=24.00 decode_share=0.9796\n"


@pytest.mark.parametrize("name", ["a$b root/it's lb2", "-y"])
def test_install_copies_the_steps_and_they_run_there(tmp_path, name):
    """Without the project, and without the course's requests, a step in the folder reads the list that lies beside it."""
    project = tmp_path / "project"
    copied_lab(project)
    shutil.copy(ROOT / "Makefile", project)
    command, environment = make_command("install", f"DIR={name}")
    command[command.index(str(ROOT))] = str(project)
    assert subprocess.run(command, env=environment, capture_output=True).returncode == 0
    home = project / name
    steps = {"common.py", *(f"{step}.py" for step in STEPS)}
    course = os.path.exists("/opt/fixtures/llms/requests.json")
    assert set(files(home)) == (steps if course else {*steps, "requests.json"})
    alone = tmp_path / "alone"
    shutil.move(home, alone)
    done = subprocess.run([sys.executable, "static.py"], cwd=alone, capture_output=True, text=True)
    assert done.returncode == 0 and "static.txt: total_steps=" in done.stdout


def test_install_replaces_nothing_that_differs(tmp_path):
    (tmp_path / "static.py").write_text("# mine\n")
    refused = make("install", f"DIR={tmp_path}")
    assert refused.returncode == 2 and f"{tmp_path}/static.py is there and differs: nothing was copied" in refused.stderr
    assert files(tmp_path) == {"static.py": b"# mine\n"}
    (tmp_path / "static.py").unlink()
    assert [make("install", f"DIR={tmp_path}").returncode for _ in "12"] == [0, 0], "what is the same is no obstacle"
    refused = make("install")
    assert refused.returncode == 2 and "name a folder: make install DIR=/root/lb2" in refused.stderr


def test_options_reach_a_single_script(tmp_path):
    make("tune", f"OUT={tmp_path}", "OPTIONS=--target-ttft-ms 100 --up-to 3")
    assert (tmp_path / "tune.txt").read_text().startswith("target_ttft_ms=100 max_concurrency=3 ")


def test_the_shipped_requests_are_what_their_script_makes(tmp_path):
    shutil.copy(SHIPPED.with_name("make_requests.py"), tmp_path)
    subprocess.run([sys.executable, str(tmp_path / "make_requests.py")], check=True)
    assert (tmp_path / "requests.json").read_bytes() == SHIPPED.read_bytes()
    records = json.loads(SHIPPED.read_text())
    outputs = sorted(record["output_tokens"] for record in records)
    assert len(records) == 100 and (outputs[0], outputs[-1]) == (10, 1000)
    assert outputs[49] <= 129 <= outputs[50]
