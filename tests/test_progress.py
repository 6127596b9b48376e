"""Progress on a terminal, quiet elsewhere, and Ctrl-C: a pseudo-terminal plays the person."""

import json
import os
import pty
import re
import sys
import time

import continuous
import orca_iteration
import paged
import progress
import pytest
import static
from fixture import LAB, heed_ctrl_c


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    path = tmp_path_factory.mktemp("many") / "requests.json"
    path.write_text(json.dumps([{"prompt_tokens": 5, "output_tokens": 1 + i % 97} for i in range(60_000)]))
    return path


def on_a_terminal(name, requests, out, seconds):
    """(exit status, what the terminal showed) of a script interrupted after so many seconds."""
    pid, terminal = pty.fork()
    if pid == 0:
        heed_ctrl_c()
        os.execv(
            sys.executable, [sys.executable, str(LAB / f"{name}.py"), "--requests", str(requests), "--out", str(out)]
        )
    deadline, shown = time.monotonic() + seconds, b""
    os.set_blocking(terminal, False)
    while time.monotonic() < deadline:
        try:
            shown += os.read(terminal, 4096)
        except BlockingIOError:
            time.sleep(0.05)
    os.write(terminal, b"\x03")  # what Ctrl-C sends; the terminal makes a signal of it, for the whole group
    os.set_blocking(terminal, True)
    try:
        while more := os.read(terminal, 4096):
            shown += more
    except OSError:  # the terminal is gone with its last process
        pass
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()


@pytest.mark.parametrize("name", ["queueing", "plan"])
def test_progress_and_an_interrupt(many, tmp_path, name):
    status, shown = on_a_terminal(name, many, tmp_path / "out", 4.5)
    assert status == 130
    assert re.search(r"\d+% done, about \d+ s to go|\d+ s so far", shown)
    assert "Traceback" not in shown and "Interrupt" not in shown
    assert not (tmp_path / "out").exists()


def test_fractions_of_loops_within_loops():
    """A scheduler 3/4 through its requests, in the third of four results, in the second of two: (1 + (2 + 3/4) / 4) / 2."""
    seen = []

    def schedule(look):
        head, n = 3, 4
        if look:
            seen.append(progress.fraction_done(sys._getframe()))
        return head / n

    loops = ((schedule(i and j == 2) for j in range(4)) for i in range(2))
    list(progress.progress((list(progress.progress(loop, 4)) for loop in loops), 2))
    assert seen == [(1 + (2 + 3 / 4) / 4) / 2]


def test_a_scheduler_alone_speaks_for_the_run_only_where_main_called_it():
    """In a loop that does not count itself, its share says nothing of the whole."""

    def schedule():
        head, n = 3, 4
        return (head < n) * progress.fraction_done(sys._getframe())

    def main():
        return schedule(), [schedule() for _ in range(1)]

    alone, in_a_loop = main()
    assert alone == 0.75 and (in_a_loop == [0] or sys.version_info >= (3, 12)), "3.12 inlines comprehensions"


@pytest.mark.parametrize("schedule", [static.schedule, continuous.schedule, paged.schedule, orca_iteration.schedule])
def test_every_scheduler_has_the_names_that_progress_reads(schedule):
    assert {"head", "n"} <= set(schedule.__code__.co_varnames)
