"""How do several result files change together, all of them or none?

New files are written into a stage, a hidden folder inside the folder of the results. Then they move
up:

    with stage_in(out) as stage:    makes out/.lab.XXXXXX, and removes it in the end in any case
        ...                         write files into it
        move_up(stage, out)         every file of the stage replaces the one of its name in out

While files move, signals such as Ctrl-C wait. If one file cannot be moved, those that were are put
back. Two runs into one folder move one after the other.
"""

import fcntl
import os
import shutil
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path

from inputs import BadInput

SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
STAGES = ".lab.*"  # what a run leaves that was killed; make clean removes it


@contextmanager
def stage_in(out):
    """A new folder inside the folder out, which is made if missing. Raises OSError, which names out."""
    waiting = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until the folder is sure to be removed again
    try:
        out.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=".lab.", dir=out))
    except OSError as error:
        signal.pthread_sigmask(signal.SIG_SETMASK, waiting)
        raise OSError(error.errno, error.strerror, str(out)) from None
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, waiting)
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def move_up(stage, out):
    """Replace the files of out by those of the stage. Raises BadInput or OSError, and then nothing has changed."""
    names = sorted(path.name for path in stage.iterdir())
    try:
        with signals_held(), locked(out):
            for name in names:  # looked at under the lock: another run may be moving its files
                refuse_what_is_no_file(out / name)
            with tempfile.TemporaryDirectory(prefix=".lab.", dir=out, ignore_cleanup_errors=True) as old:
                replace_all(names, stage, out, Path(old))
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or str(out)) from None


@contextmanager
def signals_held():
    """Ctrl-C and its like wait meanwhile. Gives the mask of signals from before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def locked(folder):
    """No other run moves files into the folder meanwhile."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def refuse_what_is_no_file(path):
    """Raise BadInput where a folder, a device, a pipe or a socket is in the way."""
    if path.is_dir():
        raise BadInput(f"{path}: expected a file, found a folder")
    if path.exists() and not path.is_file():
        raise BadInput(f"{path}: expected a file, found a device, a pipe or a socket")


def replace_all(names, stage, out, old):
    """Move each name from stage to out, and what was there to old. If a move fails, undo those before it."""
    moved = []
    try:
        for name in names:
            moved.append(name)
            if os.path.lexists(out / name):
                os.rename(out / name, old / name)
            os.rename(stage / name, out / name)
    except OSError:
        for name in reversed(moved):
            if os.path.lexists(old / name):
                os.replace(old / name, out / name)
            elif not os.path.lexists(stage / name):
                os.unlink(out / name)
        raise
