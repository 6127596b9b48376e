"""Progress on a terminal, quiet elsewhere, and Ctrl-C: a pseudo-terminal plays the person."""

import io
import json
import os
import pty
import re
import sys
import time

import command_line
import pytest
from fixture import LAB, heed_ctrl_c


class Terminal(io.StringIO):
    def isatty(self):
        return True


def counted(monkeypatch, stderr, seconds_each, total=4):
    """What stderr got while progress() counted results that take so many seconds each, of a clock of our own."""
    clock = iter(range(10_000))
    monkeypatch.setattr(command_line.time, "monotonic", lambda: next(clock) * seconds_each)
    monkeypatch.setattr(sys, "stderr", stderr)
    assert list(command_line.progress(iter("abcd"[:total]), total)) == list("abcd"[:total])
    return stderr.getvalue()


def test_worked_by_hand(monkeypatch):
    """Four results of 2 s: after the first, 2 s each for three more; the line goes away in the end."""
    lines = counted(monkeypatch, Terminal(), 2).split("\r\033[K")
    assert lines == ["", "1 of 4, about 6 s to go", "2 of 4, about 4 s to go", "3 of 4, about 2 s to go",
                     "4 of 4, about 0 s to go", ""]


def test_at_most_one_line_a_second(monkeypatch):
    """Results of 0.4 s: a line at 1.2 s, after the third, and no other."""
    assert counted(monkeypatch, Terminal(), 0.4) == "\r\033[K3 of 4, about 0 s to go\r\033[K"


def test_a_quick_loop_and_a_stream_that_is_no_terminal_show_nothing(monkeypatch):
    assert counted(monkeypatch, Terminal(), 0.1) == ""
    assert counted(monkeypatch, io.StringIO(), 5) == ""


def test_a_closed_stderr_is_no_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert list(command_line.progress([1, 2], 2)) == [1, 2]


def test_an_error_takes_the_line_away_first(monkeypatch):
    stderr = Terminal()
    clock = iter(range(100))
    monkeypatch.setattr(command_line.time, "monotonic", lambda: next(clock) * 2)
    monkeypatch.setattr(sys, "stderr", stderr)

    def results():
        yield 1
        raise ValueError

    with pytest.raises(ValueError):
        list(command_line.progress(results(), 2))
    assert stderr.getvalue().endswith("\r\033[K")


@pytest.mark.parametrize("name", ["queueing", "tune"])
def test_progress_and_ctrl_c_on_a_terminal(tmp_path, name):
    """Both plays last several seconds; Ctrl-C comes as soon as a line is there."""
    requests = tmp_path / "requests.json"
    requests.write_text(json.dumps([{"prompt_tokens": 5, "output_tokens": 1 + i % 97} for i in range(60_000)]))
    command = [sys.executable, str(LAB / f"{name}.py"), "--requests", str(requests), "--out", str(tmp_path / "out")]
    pid, terminal = pty.fork()
    if pid == 0:
        heed_ctrl_c()
        os.execv(sys.executable, command)
    shown, deadline = b"", time.monotonic() + 60
    while not re.search(rb"\d+ of \d+, about \d+ s to go", shown):
        assert time.monotonic() < deadline, shown
        shown += os.read(terminal, 4096)
    os.write(terminal, b"\x03")  # the terminal makes a signal of it
    try:
        while more := os.read(terminal, 4096):
            shown += more
    except OSError:  # the terminal is gone with its last process
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert b"Traceback" not in shown and b"Interrupt" not in shown
    assert not (tmp_path / "out").exists()
