"""What is graded, and how is a failure worded? Shared by the graders of the steps.

    lab = Lab("results", "requests.json")       reads everything once; raises Ungradable
    lab.wrong("cost.txt", "decode_share", ...)  notes a failure: where, got, expected, rule, likely
    lab.say("tune.txt", "closed loop")          the reading that was recognised in a file
    lab.note("queue.csv", "...")                what is accepted, but should be said
"""

import os
import shlex
from pathlib import Path
from typing import NamedTuple

from fixture import LAB, SHIPPED
from common import BadInput, load_requests
from readings import STEP_US, Reading, Replays
from result_files import Defect, read

SLOTS = 16
MAX_NUM_SEQS = 32
MOST_REQUESTS = 1000  # a longer list takes minutes to be replayed in every way
UNKNOWN = "it fits no reading of these requests, and no mistake that the grader knows"
TOO_COARSE = "too few digits to tell it from a wrong one"


class Artifact(NamedTuple):
    step: str
    columns: dict  # key -> decimals, 0 for a whole number
    required: bool = True


MEASURES = {"total_steps": 0, "throughput_tps": 2, "slot_util": 4}
ARTIFACTS = {
    "static.txt": Artifact("2", MEASURES),
    "continuous.txt": Artifact("3", MEASURES, required=False),
    "compare.txt": Artifact("4", {"static_tps": 2, "continuous_tps": 2, "speedup": 3}),
    "maxseqs.txt": Artifact("5", {"max_num_seqs": 0, "peak_running": 0}),
    "queue.csv": Artifact("6", {"rps": 1, "avg_queue": 3, "p99_wait_ms": 3}),
    "cost.txt": Artifact("7", {"total_prefill_ms": 2, "total_decode_ms": 2, "decode_share": 4}),
    "tune.txt": Artifact("8", {"target_ttft_ms": 2, "max_concurrency": 0, "throughput_at_target": 2}),
}


class Failure(NamedTuple):
    file: str
    text: str
    likely: str


class Ungradable(Exception):
    """There is nothing to grade; its text says why."""


def load_replays(requests_file):
    """The Replays of this file's requests."""
    try:
        requests = load_requests(Path(requests_file))
    except BadInput as error:
        raise Ungradable(f"REQUESTS: {error}") from None
    except OSError as error:
        raise Ungradable(f"REQUESTS: {requests_file}: {error.strerror}") from None
    if len(requests.output_tokens) > MOST_REQUESTS:
        found = f"{len(requests.output_tokens):,} requests; the grader replays at most {MOST_REQUESTS:,}"
        raise Ungradable(f"REQUESTS: {requests_file}: {found}")
    return Replays(requests)


class Lab:
    """A folder of results, the requests they were made from, and what was found so far."""

    def __init__(self, out=LAB, requests_file=SHIPPED, replays=None):
        self.out, self.requests_file = Path(out), Path(requests_file)
        self.failures, self.notes, self.said, self.to_come = [], [], [], []
        self.reading, self.step_us = Reading(), STEP_US  # of tasks 1 to 4, once they are recognised
        self.replays = replays or load_replays(requests_file)
        try:
            names = os.listdir(self.out)
        except OSError as error:
            raise Ungradable(f"OUT: {self.out}: {error.strerror}") from None
        self.asked = [name for name, artifact in ARTIFACTS.items() if artifact.required or name in names]
        self.values = {}  # file -> its numbers, where they can be read
        for name in self.asked:
            if name in names:
                self.read_file(name)
            else:
                self.to_come.append(name)

    def read_file(self, name):
        columns = ARTIFACTS[name].columns
        try:
            self.values[name], notes = read(self.out / name, columns)
        except Defect as defect:
            kind = "a row for each run, under" if name.endswith(".csv") else "key=value for"
            where, got, expected, likely = defect.args
            self.wrong(name, where, got, expected, f"{kind} {', '.join(columns)}; numbers from 0 up", likely)
        else:
            for note in notes:
                self.note(name, note)

    # --- saying ---------------------------------------------------------------------------------

    def note(self, name, sentence):
        self.notes.append(f"{name}: {sentence}.")

    def say(self, name, reading):
        self.said.append((name, reading))

    def recognised(self):
        """{reading: files} of the files that are right."""
        found = {}
        for name, reading in self.said:
            if not self.failed(name):
                found.setdefault(reading, []).append(name)
        return [f"{', '.join(names)}: {reading}." for reading, names in found.items()]

    def failed(self, name):
        return [failure for failure in self.failures if failure.file == name]

    def met(self):
        return [name for name in self.asked if name not in self.to_come and not self.failed(name)]

    def passed(self):
        return self.met() == self.asked

    def verdict(self):
        """The last line."""
        words = f"{self.out}: {'passed' if self.passed() else 'not passed'}, {len(self.met())} of {len(self.asked)} met"
        if self.to_come:
            words += "; still to come: "
            words += ", ".join(f"{name} (task {ARTIFACTS[name].step})" for name in self.to_come)
        return printable(words)

    def wrong(self, name, where, got, expected, rule, likely):
        """Note a failure: `where` in the file, what is there, what belongs there, the rule, and the likely mistake."""
        options = [] if same(self.out, LAB) else [f"OUT={self.out}"]
        options += [] if same(self.requests_file, SHIPPED) else [f"REQUESTS={self.requests_file}"]
        rerun = f"the program that wrote it, then {shlex.join(['make', 'grade', *options])}"
        where = f"{name}, {where}" if where else name
        lines = {"file": where, "got": got, "expected": expected, "rule": rule, "likely": likely, "rerun": rerun}
        text = "\n".join(printable(f"{label + ':':10} {line}") for label, line in lines.items())
        self.failures.append(Failure(name, text, printable(likely)))

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


def printable(text):
    return "".join(character if character.isprintable() else "?" for character in text)


def same(one, other):
    """Is it the same file or folder, by whatever name?"""
    return os.path.realpath(one) == os.path.realpath(other)
