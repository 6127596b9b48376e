"""Progress on a terminal, quiet elsewhere, and Ctrl-C: a pseudo-terminal plays the person."""

import io
import json
import os
import pty
import re
import sys
import time

import common
import pytest
from fixture import LAB, heed_ctrl_c


class Terminal(io.StringIO):
    def isatty(self):
        return True


def counted(monkeypatch, stderr, seconds_each, total=4):
    """What stderr got while progress() counted results that take so many seconds each, of a clock of our own."""
    clock = iter(range(10_000))
    monkeypatch.setattr(common.time, "monotonic", lambda: next(clock) * seconds_each)
    monkeypatch.setattr(sys, "stderr", stderr)
    assert list(common.progress(iter("abcd"[:total]), total)) == list("abcd"[:total])
    return stderr.getvalue()


def test_worked_by_hand(monkeypatch):
    """Four results of 2 s: after the first, 2 s each for three more; the line goes away in the end."""
    lines = counted(monkeypatch, Terminal(), 2).split("\r\033[K")
    assert lines == ["", "1 of 4, about 6 s to go", "2 of 4, about 4 s to go", "3 of 4, about 2 s to go", ""]


def test_a_stream_that_is_no_terminal_shows_nothing(monkeypatch):
    assert counted(monkeypatch, io.StringIO(), 5) == ""
    monkeypatch.setattr(sys, "stderr", None)
    assert list(common.progress([1, 2], 2)) == [1, 2]


@pytest.mark.parametrize("columns, width", [(60, 60), (0, 100)])
def test_sentences_are_as_wide_as_the_terminal(monkeypatch, columns, width):
    monkeypatch.setattr(common.os, "get_terminal_size", lambda: os.terminal_size((columns, 24)))
    for stream, expected in ((Terminal(), width), (io.StringIO(), 100)):
        monkeypatch.setattr(sys, "stdout", stream)
        common.say("word " * 50)
        assert expected - 5 < max(map(len, stream.getvalue().splitlines())) <= expected


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
