"""What is graded, and how is a failure worded? Shared by grade_steps, grade_queue and grade_tune.

    lab = Lab("results", "requests.json")       reads everything once; raises Ungradable
    lab.wrong("cost.txt", "decode_share", ...)  notes a failure: where, got, expected, rule, likely
    lab.note("tune.csv", "...")                 notes what is accepted, but should be said
"""

import os
import shlex
import stat
from pathlib import Path
from typing import NamedTuple

from fixture import LAB, SHIPPED
from common import BadInput
from readings import STEP_US, Reading, Replays
from result_files import Defect, read
from files.sources import load_trace

SLOTS = 16
MAX_NUM_SEQS = 32
TOO_COARSE = "too few digits to tell it from a wrong one"
OTHER_REQUESTS = (
    "other requests than REQUESTS, another order of them, or another cost of a step than in the other files"
)


class Artifact(NamedTuple):
    script: str
    columns: dict  # key -> decimals, 0 for a whole number
    required: bool = True


MEASURES = {"total_steps": 0, "throughput_tps": 2, "slot_util": 4}
ARTIFACTS = {
    "static.txt": Artifact("static.py", MEASURES),
    "continuous.txt": Artifact("continuous.py", MEASURES, required=False),
    "compare.txt": Artifact("compare.py", {"static_tps": 2, "continuous_tps": 2, "speedup": 3}),
    "maxseqs.txt": Artifact("maxseqs.py", {"max_num_seqs": 0, "peak_running": 0}),
    "queue.csv": Artifact("queueing.py", {"rps": 1, "avg_queue": 3, "p99_wait_ms": 3}),
    "cost.txt": Artifact("cost.py", {"total_prefill_ms": 2, "total_decode_ms": 2, "decode_share": 4}),
    "tune.txt": Artifact("tune.py", {"target_ttft_ms": 2, "max_concurrency": 0, "throughput_at_target": 2}),
    "tune.csv": Artifact(
        "tune.py", {"concurrency": 0, "mean_ttft_ms": 2, "p99_ttft_ms": 2, "throughput_tps": 2}, required=False
    ),
}


class Failure(NamedTuple):
    file: str
    text: str


class Ungradable(Exception):
    """There is nothing to grade; its text is a failure's."""


class Lab:
    """A folder of results, the requests they were made from, and what was found so far."""

    def __init__(self, out=LAB, requests_file=SHIPPED):
        self.out, self.requests_file = Path(out), Path(requests_file)
        self.failures, self.notes, self.recognised = [], [], []
        self.step_us, self.reading = STEP_US, Reading()  # of steps 1 to 4, once they are recognised
        self.replays = Replays(self.read_requests())
        self.check_folder()
        self.values = {}  # file -> its numbers, where they can be read
        for name in ARTIFACTS:
            self.read_file(name)

    # --- reading --------------------------------------------------------------------------------

    def read_requests(self):
        rule = 'REQUESTS is a JSON list of {"prompt_tokens": int, "output_tokens": int}'
        try:
            if stat.S_ISFIFO(os.stat(self.requests_file).st_mode):
                raise BadInput(f"{self.requests_file}: a pipe; put the requests into a file first")
            return load_trace(self.requests_file, timed=False).requests
        except BadInput as error:
            defect = str(error)
        except OSError as error:
            defect = f"{self.requests_file}: {error.strerror}"
        likely = "another file's name, or another folder's"
        raise Ungradable(self.worded("REQUESTS", defect, "a list of requests", rule, likely))

    def check_folder(self):
        try:
            is_folder = stat.S_ISDIR(os.stat(self.out).st_mode)
            if is_folder:
                os.listdir(self.out)
            defect = "" if is_folder else f"{self.out}: not a folder"
        except OSError as error:
            defect = f"{self.out}: {error.strerror}"
        if defect:
            command = shlex.join(["make", "all", *self.options()])
            rule = "OUT is the folder that holds the result files"
            likely = "the steps were not run yet, or the name is another one"
            raise Ungradable(self.worded("OUT", defect, "a folder of results", rule, likely, command))

    def read_file(self, name):
        artifact = ARTIFACTS[name]
        if not artifact.required and not os.path.lexists(self.out / name):
            return
        try:
            content = read(self.out / name, artifact.columns, artifact.required)
        except Defect as defect:
            kind = "a row for each run, under" if name.endswith(".csv") else "key=value for"
            where, got, expected, likely = defect.args
            self.wrong(name, where, got, expected, f"{kind} {', '.join(artifact.columns)}; numbers from 0 up", likely)
            return
        if content.values is not None:
            self.values[name] = content.values
        for note in content.notes:
            self.note(name, note)

    def numbers(self, name, key):
        """[the number of this key], or [] where the file or the key is missing or cannot be read."""
        values = self.values.get(name, {})
        return [values[key]] if key in values else []

    # --- saying ---------------------------------------------------------------------------------

    def note(self, name, sentence):
        self.notes.append(f"{name}: {sentence}.")

    def options(self):
        options = [] if same(self.out, LAB) else [f"OUT={self.out}"]
        return options if same(self.requests_file, SHIPPED) else [*options, f"REQUESTS={self.requests_file}"]

    def worded(self, where, got, expected, rule, likely, command=""):
        rerun = (f"{command}, then " if command else "") + shlex.join(["make", "grade", *self.options()])
        lines = {"file": where, "got": got, "expected": expected, "rule": rule, "likely": likely, "rerun": rerun}
        text = "\n".join(f"{label + ':':10} {line}" for label, line in lines.items())
        return "".join(character if character == "\n" or character.isprintable() else "?" for character in text)

    def wrong(self, name, where, got, expected, rule, likely):
        """Note a failure: `where` in the file, what is there, what belongs there, the rule, and the likely mistake."""
        words = ["python3", f"lb2/{ARTIFACTS[name].script}"]
        if not same(self.requests_file, SHIPPED):
            words += ["--requests", str(self.requests_file)]
        command = shlex.join(words)
        if not same(self.out, LAB):  # no --out: obeying it must not overwrite a student's file with ours
            command = f"the program that wrote it (here: {command})"
        text = self.worded(f"{name}, {where}" if where else name, got, expected, rule, likely, command)
        self.failures.append(Failure(name, text))

    def require(self, name, key, number, exact, rule, mistakes, otherwise):
        """A failure unless the number is the exact one; mistakes: (what a known one would give, its name)."""
        decimals = ARTIFACTS[name].columns[key]
        if not number.says(exact, decimals):
            likely = likely_mistake(number, exact, decimals, mistakes, otherwise)
            self.wrong(name, key, number.text, f"{float(exact):.{decimals}f}", rule, likely)


def likely_mistake(number, exact, decimals, mistakes, otherwise):
    """The name of the first mistake that gives this number instead of the exact one."""
    if decimals and number.agrees(exact):
        return TOO_COARSE
    like = number.resembles if decimals else number.value.__eq__
    return next((name for value, name in mistakes if value != exact and like(value)), otherwise)


def other_units(exact_ms):
    return [(exact_ms / 1000, "in seconds, not milliseconds"), (exact_ms * 1000, "in microseconds, not milliseconds")]


def same(one, other):
    """Is it the same file or folder, by whatever name?"""
    return os.path.realpath(one) == os.path.realpath(other)
