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
from fixture import LAB, heed_ctrl_c, script


class Terminal(io.StringIO):
    def isatty(self):
        return True


def counted(monkeypatch, stderr, total=4):
    """What stderr got while progress() counted results."""
    monkeypatch.setattr(sys, "stderr", stderr)
    assert list(common.progress(iter("abcd"[:total]), total)) == list("abcd"[:total])
    return stderr.getvalue()


def test_results_are_counted_and_the_line_goes_away_in_the_end(monkeypatch):
    assert counted(monkeypatch, Terminal()).split("\r\033[K") == ["", "1 of 4", "2 of 4", "3 of 4", ""]


def test_a_stream_that_is_no_terminal_shows_nothing(monkeypatch):
    assert counted(monkeypatch, io.StringIO()) == ""
    monkeypatch.setattr(sys, "stderr", None)
    assert list(common.progress([1, 2], 2)) == [1, 2]


def test_words_are_as_wide_as_the_terminal_and_100_columns_elsewhere(tmp_path):
    """--help at 60 columns; a terminal that does not know its width; a file."""
    widest = {}
    for columns in (60, 0):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv("/bin/sh", ["sh", "-c", f'stty cols {columns}; unset COLUMNS; exec "$@"', "sh", sys.executable, str(LAB / "tune.py"), "-h"])
        text = b""
        try:
            while more := os.read(terminal, 4096):
                text += more
        except OSError:
            os.waitpid(pid, 0)
        widest[columns] = max(len(line) for line in text.decode().splitlines() if not line.startswith(" "))
    assert 50 < widest[60] <= 60 and 90 < widest[0] <= 100
    assert max(map(len, script("tune", "--help").stdout.splitlines())) <= 100


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
    while not re.search(rb"\d+ of \d+", shown):
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
