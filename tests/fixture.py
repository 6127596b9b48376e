"""Where the project is, how its scripts are run and refused, and what they wrote; shared by the tests."""

import csv
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from forked import run_forked
from common import load_requests

ROOT = Path(__file__).resolve().parent.parent
LAB = ROOT / "lb2"
SHIPPED = ROOT / "fixtures" / "llms" / "requests.json"
STEPS = ["static", "continuous", "compare", "maxseqs", "queueing", "cost", "tune"]
RESULTS = ["static.txt", "continuous.txt", "compare.txt", "maxseqs.txt", "queue.csv", "cost.txt", "tune.txt", "tune.csv"]


def shipped():
    """The Requests of the shipped file."""
    return load_requests(SHIPPED)


def script(name, *arguments, cwd=ROOT):
    """Run lb2/NAME.py in a fork, within milliseconds; returns the finished process with its text."""
    return run_forked([str(LAB / f"{name}.py"), *map(str, arguments)], cwd)


def started(name, *arguments, cwd=ROOT):
    """Run lb2/NAME.py with an interpreter of its own, as users do; returns the finished process with its text."""
    command = [sys.executable, str(LAB / f"{name}.py"), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env={**os.environ, "PYTHONUTF8": "1"})


def make_command(*arguments):
    """(command, environment) of a make as from a shell of its own: nothing of a make around the tests is passed on."""
    around = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES", "OUT", "REQUESTS", "COSTS", "OPTIONS", "PYTHON"}
    environment = {name: value for name, value in os.environ.items() if name not in around}
    return ["make", "--no-print-directory", "-C", str(ROOT), f"PYTHON={sys.executable}", *arguments], environment


def make(*arguments):
    """Run make; returns the finished process with its text."""
    command, environment = make_command(*arguments)
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def assert_refused(done, name, says):
    """A user's mistake: one line on stderr that says it, status 2, nothing on stdout."""
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith(f"{name}.py: error: "), done.stderr
    assert says in done.stderr
    assert len(done.stderr) < 800


def assert_usage(done, name, says):
    """A flag that makes no sense: argparse's own form."""
    assert done.returncode == 2 and done.stderr.startswith("usage: ")
    assert f"{name}.py: error: argument" in done.stderr.splitlines()[-1] and says in done.stderr


def words(text):
    """A text in one line: sentences are printed in lines of at most 100 columns."""
    return " ".join(text.split())


def fed(path, text):
    """Make a named pipe from which the text can be read once; returns the thread that writes it.

    A script that never opens the pipe keeps nobody waiting.
    """
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=(text,), daemon=True)
    writer.start()
    return writer


def heed_ctrl_c():
    """For a child that will be interrupted: where the tests run in the background, SIGINT comes ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def files(folder):
    """{name: bytes} of everything in the folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} if folder.is_dir() else {}


def read_pairs(path):
    """{key: text} of a key=value file."""
    return dict(pair.split("=", 1) for pair in path.read_text().split())


def read_rows(path):
    """[{column: text}, ...] of a csv file."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))
