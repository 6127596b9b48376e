"""What a user can get wrong, and where a user can stand: every script says it in one line, and nothing is lost."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import command_line
import inputs
import pytest
from fixture import (LAB, RESULTS, ROOT, SHIPPED, STEPS, assert_refused, assert_usage, fed, files, heed_ctrl_c,
                     make, make_command, script, started)
from forked import run_forked

GOOD = {"prompt_tokens": 10, "output_tokens": 3}


def records(second):
    return json.dumps([GOOD, second, GOOD]).encode()


def field(literal):
    return f'[{json.dumps(GOOD)}, {{"prompt_tokens": 10, "output_tokens": {literal}}}]'.encode()


WHOLE = "record 1: output_tokens: expected a whole number from 1 to 1,000,000,000, found "
BAD_FILES = {  # name: (content, what the one line must say)
    "empty file": (b"", "not a request file"),
    "not JSON": (b"prompt_tokens,output_tokens\n1,2\n", 'begins with "prompt_tokens,output_tokens'),
    "truncated": (b'[{"prompt_tokens": 1, "output_tokens": 2}', "not JSON"),
    "not a list": (b'{"requests": [{"prompt_tokens": 1, "output_tokens": 2}]}', "not a request file"),
    "a number": (b"17", "not a request file"),
    "empty list": (b"[]", "the list of requests is empty"),
    "no object": (records([10, 3]), "record 1: expected an object with prompt_tokens and output_tokens, found [10, 3]"),
    "null": (records(None), "record 1: expected an object with prompt_tokens and output_tokens, found null"),
    "a string": (records("prompt_tokens"), "record 1: expected an object"),
    "no output": (records({"prompt_tokens": 10}), "record 1: output_tokens is missing"),
    "no prompt": (records({"output_tokens": 10}), "record 1: prompt_tokens is missing"),
    "true": (field("true"), WHOLE + "true"),
    "3.0": (field("3.0"), WHOLE + "3.0"),
    '"7"': (field('"7"'), WHOLE + '"7"'),
    "null count": (field("null"), WHOLE + "null"),
    "NaN": (field("NaN"), WHOLE + "NaN"),
    "Infinity": (field("Infinity"), WHOLE + "Infinity"),
    "-1": (field("-1"), WHOLE + "-1"),
    "0": (field("0"), WHOLE + "0"),
    "a billion and one": (field("1000000001"), WHOLE + "1000000001"),
    "5000 digits": (field("7" * 5000), WHOLE + "7" * 37 + "..."),
    "minus 5000 digits": (field("-" + "7" * 5000), WHOLE + "-" + "7" * 36 + "..."),
    "a long string": (field('"' + "x" * 1000 + '"'), WHOLE + '"' + "x" * 36 + "..."),
    "a line break": (field('"a\\nb"'), WHOLE + '"a\\nb"'),
    "a nested list": (field("[[1]]"), WHOLE + "[[1]]"),
    "UTF-16": (records(GOOD).decode().encode("utf-16"), "expected UTF-8 text"),
    "100,000 brackets": (b"[" * 100_000, "nested too deeply"),
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
    assert str(path) in done.stderr
    assert files(out) == before


@pytest.mark.parametrize("name", STEPS)
def test_every_script_refuses(tmp_path, name):
    """A defect deep in a good file, a missing file, a folder: no script reads requests in a way of its own."""
    path = tmp_path / "bad.json"
    path.write_bytes(field("0"))
    assert_refused(script(name, "--requests", path, "--out", tmp_path / "o"), name, WHOLE + "0")
    assert_refused(script(name, "--requests", tmp_path / "no.json", "--out", tmp_path / "o"), name, "No such file")
    assert_refused(script(name, "--requests", tmp_path, "--out", tmp_path / "o"), name, "found a folder")
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("name", STEPS)
def test_an_out_that_cannot_be_written(tmp_path, name):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("precious")
    for out in (in_the_way, in_the_way / "below"):
        assert_refused(script(name, "--out", out), name, f"{out}: ")
    assert in_the_way.read_text() == "precious"


def test_a_result_that_cannot_be_replaced_leaves_its_pair_alone(tmp_path):
    """tune writes two files: where tune.csv cannot be written, tune.txt is not left as if the run had succeeded."""
    (tmp_path / "tune.csv").mkdir()
    assert script("tune", "--out", tmp_path).returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["tune.csv"]


def test_closed_streams_are_no_traceback(tmp_path):
    command = f'"{sys.executable}" "{LAB}/cost.py" --out "{tmp_path}" >&-'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and (tmp_path / "cost.txt").exists()
    command = f'"{sys.executable}" "{LAB}/labs.py" run static cost --out "{tmp_path}/more" >&-'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and set(files(tmp_path / "more")) == {"static.txt", "cost.txt"}


def test_a_strange_file_name_still_makes_one_line(tmp_path):
    path = tmp_path / "two\nlines \x1b[31m.json"
    path.write_text("[]")
    assert_refused(script("cost", "--requests", path), "cost", "two?lines ?[31m.json: the list of requests is empty")


@pytest.mark.parametrize("name", ["queueing", "tune"])
def test_ctrl_c_ends_quietly(tmp_path, name):
    """Once it reads the requests, from a pipe, the imports are over; then it plays for several seconds."""
    path = tmp_path / "requests.json"
    writer = fed(path, json.dumps([{"prompt_tokens": 5, "output_tokens": 1 + i % 97} for i in range(20_000)]))
    command = [sys.executable, str(LAB / f"{name}.py"), "--requests", str(path), "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c)
    writer.join(60)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 130
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "name, flags, says",
    [
        ("static", ["--batch-size", "0"], "expected a whole number from 1"),
        ("static", ["--batch-size", "1000000001"], "expected a whole number from 1"),
        ("static", ["--batch-size", "9" * 5000], "expected a whole number from 1"),
        ("static", ["--batch-size", "-3"], "expected a whole number from 1"),
        ("static", ["--batch-size", "1.5"], "expected a whole number from 1 to 1,000,000,000, found"),
        ("continuous", ["--max-num-seqs", "0"], "expected a whole number from 1"),
        ("compare", ["--batch-size", "0"], "expected a whole number from 1"),
        ("maxseqs", ["--max-num-seqs", "many"], "expected a whole number from 1 to 1,000,000,000, found"),
        ("queueing", ["--rps", "5", "-1"], "expected a number from 0.000001"),
        ("queueing", ["--rps", "0.0000009"], "expected a number from 0.000001"),
        ("queueing", ["--rps", "fast"], "expected a number from 0.000001"),
        ("queueing", ["--rps", "inf"], "expected a number from 0.000001"),
        ("queueing", ["--rps", "nan"], "expected a number from 0.000001"),
        ("queueing", ["--rps", "0"], "expected a number from 0.000001"),
        ("queueing", ["--rps"], "expected at least one argument"),
        ("tune", ["--target-ttft-ms", "-5"], "expected a number from 0.000001"),
        ("tune", ["--up-to", "0"], "expected a whole number from 1"),
    ],
)
def test_a_flag_that_makes_no_sense(tmp_path, name, flags, says):
    assert_usage(script(name, "--out", tmp_path, *flags), name, says)
    assert files(tmp_path) == {}


def test_rates_at_the_edges_of_what_is_allowed(tmp_path):
    done = script("queueing", "--out", tmp_path, "--rps", "0.000001", "1000000000")
    assert done.returncode == 0
    assert [line.split(",")[0] for line in (tmp_path / "queue.csv").read_text().splitlines()] == [
        "rps",
        "1e-06",
        "1000000000",
    ]


def test_without_the_projects_requests_it_takes_the_courses(tmp_path, monkeypatch):
    own, course = tmp_path / "own.json", tmp_path / "course.json"
    monkeypatch.setattr(inputs, "REQUESTS_FILES", (own, course))
    assert inputs.default_requests() == own
    with pytest.raises(inputs.BadInput, match=f"neither {own} nor {course} exists; name your file with --requests"):
        inputs.read_text(own)
    course.write_text(json.dumps([GOOD]))
    assert inputs.default_requests() == course
    own.write_text(json.dumps([GOOD]))
    assert inputs.default_requests() == own


def test_a_copied_folder_names_both_places(tmp_path):
    """Skipped where the course is installed: there the copy works."""
    if inputs.REQUESTS_FILES[1].exists():
        pytest.skip("the course's requests are here")
    lab = copied_lab(tmp_path)
    shutil.rmtree(tmp_path / "fixtures")
    done = subprocess.run([sys.executable, str(lab / "static.py")], capture_output=True, text=True)
    assert_refused(done, "static", f"neither {tmp_path / 'fixtures' / 'llms' / 'requests.json'} nor /opt/fixtures/")


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
    command = f'"{sys.executable}" "{LAB}/static.py" --out "{tmp_path}" | true'
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=buffered)
    assert done.stderr == "" and (tmp_path / "static.txt").exists()


def test_a_reader_that_closes_early_does_not_keep_results_from_being_written(tmp_path):
    """Not even where each line is written at once, and the first one comes before the results."""
    (tmp_path / "requests.json").write_text(json.dumps({**GOOD, "arrival_ms": 0}))
    command = [sys.executable, str(LAB / "cost.py"), "--out", tmp_path, "--requests", tmp_path / "requests.json"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"") and (tmp_path / "cost.txt").exists()


def test_an_option_of_two_dashes_is_one_line(tmp_path):
    assert_refused(script("static", "--out=--"), "static", "--out=--: expected a value after the =")


def test_a_full_disk_behind_stdout_is_one_line(tmp_path):
    """argparse itself overlooks it for --help; then at least Python must not complain at the end (status 120)."""
    command = [sys.executable, str(LAB / "cost.py"), "--out", str(tmp_path)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
        helped = subprocess.run([*command, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "cost.py: error: No space left on device\n")
    assert helped.returncode in (0, 2) and "Exception" not in helped.stderr


def test_help_for_a_reader_that_has_gone():
    done = subprocess.run(["sh", "-c", f'"{sys.executable}" "{LAB}/cost.py" --help | true'], capture_output=True, text=True)
    assert done.stderr == ""


def test_a_name_that_the_terminal_cannot_show(tmp_path):
    """A byte that is no UTF-8, and a letter that ASCII lacks: both are printed as escapes."""
    path = os.fsencode(tmp_path) + b"/caf\xe9 \xc3\xa9.json"
    with open(path, "w") as file:
        file.write(json.dumps({**GOOD, "arrival_ms": 0}))
    command = [sys.executable, str(LAB / "cost.py"), "--requests", path, "--out", str(tmp_path)]
    for environment in ({"PYTHONUTF8": "1"}, {"PYTHONIOENCODING": "ascii"}):
        done = subprocess.run(command, capture_output=True, env={**os.environ, **environment})
        assert done.returncode == 0 and b"caf\\udce9" in done.stdout, done.stderr


def test_too_little_memory_is_one_line(capsys, monkeypatch):
    def needs_too_much():
        raise MemoryError

    monkeypatch.setattr(sys, "argv", ["cost.py"])
    with pytest.raises(SystemExit) as ended:
        command_line.run(needs_too_much)
    assert ended.value.code == 2
    assert capsys.readouterr().err == "cost.py: error: there is not enough memory for this\n"


def test_an_error_is_one_line_of_bounded_length(tmp_path):
    """A path of 6,000 characters, and a value with a line break in it."""
    done = script("cost", "--requests", "x/" * 3000, "--out", tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and len(done.stderr) < 1600
    assert done.stderr.endswith("File name too long\n")
    options = [("static", "--batch-size"), ("queueing", "--rps"), ("plan", "--percentile"), ("traces", "--time-unit")]
    for name, option in options:
        assert script(name, option, "a\nb" + "x" * 5000).stderr.endswith(f"found a?b{'x' * 37}\n")


def test_a_script_that_labs_does_not_know(tmp_path):
    done = script("labs", "run", "static", "tuna", "--out", tmp_path / "out")
    assert done.returncode == 2 and done.stderr.startswith("labs.py: error: tuna is none of static, ")
    assert not (tmp_path / "out").exists()


def test_ctrl_c_outside_of_main_has_no_traceback(capsys):
    """During imports, for example. Any other error keeps its traceback."""
    command_line.quiet_interrupt(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert capsys.readouterr().err == ""
    command_line.quiet_interrupt(ValueError, ValueError("ours"), None)
    assert "ValueError: ours" in capsys.readouterr().err


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
    assert done.returncode == 2 and "empty" in done.stderr and "Step" not in done.stdout
    path.unlink()
    assert files(tmp_path) == before and len(list(tmp_path.iterdir())) == len(before)


def copied_lab(folder):
    """A copy of the scripts, to break one of them."""
    shutil.copytree(LAB, folder / "lb2", ignore=shutil.ignore_patterns("*.txt", "*.csv", ".*", "__pycache__"))
    shutil.copytree(ROOT / "fixtures" / "llms", folder / "fixtures" / "llms")
    return folder / "lb2"


def run_steps(lab, out, *options):
    command = [sys.executable, str(lab / "labs.py"), "run", *STEPS, "--out", str(out), *options]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_step_that_fails_stops_the_run(tmp_path):
    """Step 7 ends with status 3: step 8 does not start, and nothing is left."""
    lab = copied_lab(tmp_path)
    (lab / "cost.py").write_text("raise SystemExit(3)\n")
    done = run_steps(lab, tmp_path / "out")
    assert done.returncode == 3 and "Step 6" in done.stdout and "Step 8" not in done.stdout
    assert list((tmp_path / "out").iterdir()) == []
    for ends, error in (("raise ValueError('ours')", "ValueError: ours\n"), ("raise SystemExit('ours')", "ours\n")):
        (lab / "static.py").write_text(f"{ends}\n")
        done = run_steps(lab, tmp_path / "out")
        assert done.returncode == 1 and done.stderr.endswith(error) and list((tmp_path / "out").iterdir()) == []


def test_a_step_that_forgets_its_file_is_named(tmp_path):
    lab = copied_lab(tmp_path)
    (lab / "cost.py").write_text("")
    done = run_steps(lab, tmp_path / "out")
    assert done.returncode == 2 and done.stderr == "labs.py: error: cost.py ended well, but did not write cost.txt\n"
    assert list((tmp_path / "out").iterdir()) == []


def test_requests_that_change_during_the_run_are_noticed(tmp_path):
    """Step 7 rewrites the list, so that step 8 would read another one."""
    lab = copied_lab(tmp_path)
    requests = tmp_path / "requests.json"
    requests.write_text(json.dumps([GOOD] * 3))
    with open(lab / "cost.py", "a") as file:
        file.write(f"    open({str(requests)!r}, 'w').write('[{json.dumps(GOOD)}]')\n")
    done = run_steps(lab, tmp_path / "out", "--requests", requests)
    assert done.returncode == 2 and "changed while the scripts read it" in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_requests_from_a_pipe_are_read_once(tmp_path):
    pipe = tmp_path / "requests.json"
    fed(pipe, json.dumps([GOOD] * 3))
    done = run_steps(LAB, tmp_path / "out", "--requests", pipe)
    assert (done.returncode, done.stderr) == (0, "") and sorted(files(tmp_path / "out")) == sorted(RESULTS)


@pytest.mark.parametrize("name, options", [("plan", ["--up-to", "1", "--processes", "1"]),
                                           ("pictures", ["--only", "slots.svg", "waste.svg"])])
def test_a_script_that_reads_its_files_twice_takes_pipes(tmp_path, name, options):
    """With a pipe for the requests and one for the costs, each is read once, and its copy is removed."""
    texts = {"requests": json.dumps([{**GOOD, "gap": 1.0}] * 20),
             "costs": "prefill_ms_per_token=0.05 step_ms=8 step_ms_per_sequence=0 overhead_ms=0"}
    for what, text in texts.items():
        fed(tmp_path / what, text)
    command = [sys.executable, str(LAB / f"{name}.py"), "--out", str(tmp_path / "out"), *options,
               *(f"--{what}={tmp_path / what}" for what in texts)]
    (tmp_path / "copies").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "copies")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stderr) == (0, "") and files(tmp_path / "out")
    assert not list((tmp_path / "copies").iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_ended_leaves_nothing(tmp_path, number):
    lab = copied_lab(tmp_path)
    (lab / "compare.py").write_text("import time\ntime.sleep(60)\n")
    command = [sys.executable, str(lab / "labs.py"), "run", *STEPS, "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c)
    wait_for(lambda: list((tmp_path / "out").glob(".lab.*/continuous.txt")))
    process.send_signal(number)
    assert process.communicate(timeout=30)[1] == b"" and process.returncode == 128 + number
    assert list((tmp_path / "out").iterdir()) == []


def wait_for(condition, seconds=30):
    """Look every 10 ms until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_make_all_again_with_other_requests_writes_everything_again(made, tmp_path):
    path = tmp_path / "requests.json"
    path.write_text(json.dumps([GOOD] * 40))
    shutil.copytree(made[0], tmp_path / "out")
    shipped = files(tmp_path / "out")
    make(f"OUT={tmp_path / 'out'}", f"REQUESTS={path}")
    assert all(files(tmp_path / "out")[name] != shipped[name] for name in RESULTS if name != "maxseqs.txt")


def test_an_interrupted_make_all_leaves_nothing_that_looks_done(tmp_path):
    """Interrupted in step 3 or thereabouts: requests enough to keep the steps busy, and the signal a Ctrl-C sends."""
    path = tmp_path / "requests.json"
    path.write_text(json.dumps([{"prompt_tokens": 5, "output_tokens": 1 + i % 97} for i in range(40_000)]))
    out = tmp_path / "out"
    command = ["make", "-C", str(ROOT), f"PYTHON={sys.executable}", f"OUT={out}", f"REQUESTS={path}"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=heed_ctrl_c
    )
    wait_for(lambda: list(out.glob(".lab.*/static.txt")))
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert list(out.iterdir()) == []
    assert b"Traceback" not in errors


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
    (out / ".lab.123456").mkdir()
    assert make("clean", f"OUT={out}").returncode == 0 and make("clean").returncode == 0
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
    assert files(tmp_path / "lb2") == {"static.txt": b"another's"}
    assert make("clean", f"OUT={tmp_path / 'none'}").returncode == 0


@pytest.mark.parametrize("name", ["a$b c", "it's", "-x", "$(x)", "é批"])
def test_make_takes_names_as_they_are(tmp_path, name):
    (tmp_path / name).mkdir()
    requests = tmp_path / name / f"{name}.json"
    requests.write_text(json.dumps([GOOD]))
    assert make("cost", f"OUT={tmp_path / name / 'out'}", f"REQUESTS={requests}").returncode == 0
    assert (
        tmp_path / name / "out" / "cost.txt"
    ).read_text() == "total_prefill_ms=0.50 total_decode_ms=24.00 decode_share=0.9796\n"


@pytest.mark.parametrize("name", ["-x", "it's a$b $(x) é批"])
def test_make_all_takes_names_as_they_are(tmp_path, name):
    (tmp_path / name).mkdir()
    requests = tmp_path / name / f"{name}.json"
    requests.write_text(json.dumps([GOOD]))
    assert make(f"OUT={tmp_path / name / 'all'}", f"REQUESTS={requests}").returncode == 0
    assert sorted(files(tmp_path / name / "all")) == sorted(RESULTS)


def test_install_copies_the_scripts_and_runs_them_there(tmp_path):
    home = tmp_path / "a$b root" / "lb2"
    requests = tmp_path / "requests.json"
    requests.write_text(json.dumps([GOOD]))
    done = make("install", f"DIR={home}", f"REQUESTS={requests}")
    assert done.returncode == 0 and set(RESULTS) < set(files(home)) and "static.py" in files(home)
    again = subprocess.run([sys.executable, "static.py", "--requests", requests], cwd=home, capture_output=True)
    assert again.returncode == 0
    refused = make("install")
    assert refused.returncode == 2 and "name a folder: make install DIR=/root/lb2" in refused.stderr


def test_options_reach_a_single_script(tmp_path):
    make("tune", f"OUT={tmp_path}", "OPTIONS=--target-ttft-ms 100 --up-to 3")
    assert (tmp_path / "tune.txt").read_text().startswith("target_ttft_ms=100 max_concurrency=3 ")


def test_a_folder_in_the_way_stops_make_all_before_it_starts(tmp_path):
    (tmp_path / "continuous.txt").mkdir()
    done = make(f"OUT={tmp_path}")
    assert done.returncode == 2 and "continuous.txt is a folder, and in the way" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["continuous.txt"]


def test_the_shipped_requests_are_what_their_script_makes(tmp_path):
    shutil.copy(SHIPPED.with_name("make_requests.py"), tmp_path)
    subprocess.run([sys.executable, str(tmp_path / "make_requests.py")], check=True)
    assert (tmp_path / "requests.json").read_bytes() == SHIPPED.read_bytes()
    records = json.loads(SHIPPED.read_text())
    outputs = sorted(record["output_tokens"] for record in records)
    assert len(records) == 100 and (outputs[0], outputs[-1]) == (10, 1000)
    assert outputs[49] <= 129 <= outputs[50]
