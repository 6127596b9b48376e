"""Where the project is, how its scripts are run, and what they say; shared by the tests."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAB = ROOT / "lb2"
SHIPPED = ROOT / "fixtures" / "llms" / "requests.json"
STEPS = ["static", "continuous", "compare", "maxseqs", "queueing", "cost", "tune"]
RESULTS = [
    "static.txt",
    "continuous.txt",
    "compare.txt",
    "maxseqs.txt",
    "queue.csv",
    "cost.txt",
    "tune.txt",
    "tune.csv",
]


def script(name, *arguments, cwd=ROOT, python=sys.executable):
    """Run lb2/NAME.py; returns the finished process with its text."""
    command = [python, str(LAB / f"{name}.py"), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env={**os.environ, "PYTHONUTF8": "1"})


def heed_ctrl_c():
    """For a child that will be interrupted: where the tests run in the background, SIGINT comes ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def files(folder):
    """{name: bytes} of everything in the folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} if folder.is_dir() else {}


def read_pairs(path):
    return dict(pair.split("=") for pair in path.read_text().split())
