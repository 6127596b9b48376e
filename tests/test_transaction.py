"""Result files change together, all of them or none: with a failure and with a signal at each move."""

import errno
import fcntl
import os
import signal
import tempfile
import threading

import common
import pytest
import transaction
from fixture import files
from inputs import BadInput

OLD = {"a.txt": "old a\n", "c.txt": "old c\n"}
NEW = {"a.txt": "new a\n", "b.txt": "new b\n", "c.txt": "new c\n"}
MOVES = 5  # a and c move away, a, b and c move in


def as_bytes(texts):
    return {name: text.encode() for name, text in texts.items()}


@pytest.fixture
def out(tmp_path):
    for name, text in OLD.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def at_move(monkeypatch, number, act):
    """Let os.rename act first at its call of this number, from 0; returns the list of its calls."""
    calls, rename = [], os.rename

    def counted(old, new):
        calls.append((old, new))
        if len(calls) - 1 == number:
            act()
        rename(old, new)

    monkeypatch.setattr(os, "rename", counted)
    return calls


def fail():
    raise OSError(errno.EPERM, "Operation not permitted")


def test_new_files_and_old_ones(out):
    common.save(out, NEW)
    assert files(out) == as_bytes(NEW) and len(list(out.iterdir())) == 3


@pytest.mark.parametrize("number", range(MOVES))
def test_a_move_that_fails_undoes_those_before_it(out, monkeypatch, number):
    calls = at_move(monkeypatch, number, fail)
    with pytest.raises(OSError, match="not permitted"):
        common.save(out, NEW)
    assert len(calls) == number + 1
    assert files(out) == as_bytes(OLD) and len(list(out.iterdir())) == 2


@pytest.mark.parametrize("number", range(MOVES))
def test_a_signal_waits_until_all_have_moved(out, monkeypatch, number):
    at_move(monkeypatch, number, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        common.save(out, NEW)
    assert files(out) == as_bytes(NEW) and len(list(out.iterdir())) == 3


def test_ctrl_c_while_files_are_written_changes_nothing(out):
    with pytest.raises(KeyboardInterrupt):
        with transaction.stage_in(out) as stage:
            (stage / "a.txt").write_text("half")
            signal.raise_signal(signal.SIGINT)
    assert files(out) == as_bytes(OLD) and len(list(out.iterdir())) == 2


def test_ctrl_c_while_the_stage_is_made_leaves_none(out, monkeypatch):
    make = tempfile.mkdtemp

    def interrupted(**options):
        made = make(**options)
        signal.raise_signal(signal.SIGINT)
        return made

    monkeypatch.setattr(tempfile, "mkdtemp", interrupted)
    with pytest.raises(KeyboardInterrupt):
        with transaction.stage_in(out):
            raise AssertionError("the signal comes first")
    assert files(out) == as_bytes(OLD) and len(list(out.iterdir())) == 2


def test_signals_come_through_after_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="file"):
        common.save(tmp_path / "file" / "below", NEW)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_signals_come_through_again_afterwards(out):
    common.save(out, NEW)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_folder_in_the_way_is_named_and_nothing_moves(out):
    (out / "b.txt").mkdir()
    with pytest.raises(BadInput, match="b.txt: expected a file, found a folder"):
        common.save(out, NEW)
    assert files(out) == as_bytes(OLD)


def test_a_pipe_in_the_way_is_not_replaced_but_a_link_to_nothing_is(out):
    """Whoever says --convert /dev/stdout as root would lose it."""
    os.unlink(out / "c.txt")
    os.mkfifo(out / "c.txt")
    with pytest.raises(BadInput, match="c.txt: expected a file, found a device, a pipe or a socket"):
        common.save(out, NEW)
    assert files(out) == {"a.txt": b"old a\n"} and (out / "c.txt").is_fifo()
    os.unlink(out / "c.txt")
    os.symlink("nothing", out / "c.txt")
    common.save(out, {"c.txt": "new"})
    assert (out / "c.txt").read_text() == "new" and not (out / "c.txt").is_symlink()


def test_an_error_names_the_folder_of_the_user(out, tmp_path, monkeypatch):
    at_move(monkeypatch, 0, fail)
    with pytest.raises(OSError) as refused:
        common.save(out, NEW)
    assert refused.value.filename == str(out)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError) as refused:
        common.save(tmp_path / "file" / "below", NEW)
    assert refused.value.filename == str(tmp_path / "file" / "below")


def test_files_move_only_when_no_other_run_moves_its_files(out):
    other = os.open(out, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    saving = threading.Thread(target=common.save, args=(out, NEW), daemon=True)
    saving.start()
    saving.join(0.2)
    assert saving.is_alive() and files(out) == as_bytes(OLD)
    os.close(other)
    saving.join(20)
    assert files(out) == as_bytes(NEW)


def test_two_at_once_never_mix(out):
    """Two threads save sets of their own, again and again: none fails, and what is there in the end is one set."""
    done = []

    def save(letter):
        for _ in range(50):
            common.save(out, dict.fromkeys(NEW, letter))
        done.append(letter)

    threads = [threading.Thread(target=save, args=(letter,)) for letter in "xy"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == ["x", "y"] and len(set(files(out).values())) == 1 and len(list(out.iterdir())) == 3
