"""How do many scripts run side by side, so that the failure of one is said in its place and leaves
nothing behind?

    play_all({"tune": [["python3", "tune.py"], ["python3", "pictures.py"]]}, folder, 2, 300)
        -> ("tune", [Result("...", ""), Result("...", "")])          one by one, as they end

The commands of one job run one after the other. A command that takes too long is ended, with
whatever it has started.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple


POLL_S = 0.02
SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}

@contextmanager
def signals_held():
    """Ctrl-C and its like wait meanwhile. Gives the mask of signals from before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Result(NamedTuple):
    printed: str
    trouble: str  # why there is no result, in a sentence; "" if there is one
    broken: bool = False  # a fault of the script, not a refusal of these requests

class Running(NamedTuple):
    process: subprocess.Popen
    out: object  # files that collect what it prints
    err: object
    ends_s: float
    results: list  # of the job's commands before
    left: list  # the job's commands after

def start(command, folder, seconds, results, left, mask):
    """Start a command with this mask of signals; returns its Running."""
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    unmask = partial(signal.pthread_sigmask, signal.SIG_SETMASK, mask)
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                               start_new_session=True, preexec_fn=unmask)
    return Running(process, out, err, time.monotonic() + seconds, results, left)

def end(process):
    """End a process and all that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()

def text_of(file):
    with file:
        file.seek(0)
        return file.read().decode("utf-8", "replace")

def result_of(running, seconds, late):
    """The Result of a command that has ended."""
    printed, said, status = text_of(running.out), text_of(running.err), running.process.returncode
    lines = said.strip().splitlines()
    if late:
        return Result("", f"Stopped after {seconds:g} seconds. Run alone, the script has no time limit.", broken=True)
    if status == 0:
        return Result(printed, "")
    if status == 2 and len(lines) == 1 and ": error: " in lines[0]:
        return Result("", plain(lines[0].split(": error: ", 1)[1]))
    if status < 0:
        return Result("", f"This part was ended by signal {-status}.", broken=True)
    why = plain(lines[-1]) if lines else "It said nothing."
    return Result("", f"This part failed (status {status}). {why}", broken=True)

def plain(error):
    """An error as a sentence of a page: without the JSON that was found."""
    error = re.sub(r",? found [\[{\"].*", "", error)
    return f"{error[0].upper()}{error[1:].rstrip('.')}." if error else ""

def play_all(jobs, folder, at_once, seconds):
    """Run jobs {name: [command, ...]} in a folder; yield (name, [Result of each command]) as the
    jobs end.
    """
    waiting, running = list(jobs.items()), {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                name, (first, *left) = waiting.pop(0)
                with signals_held() as mask:  # until it is among those that can be ended
                    running[name] = start(first, folder, seconds, [], left, mask)
            time.sleep(POLL_S)
            for name, job in list(running.items()):
                late = time.monotonic() > job.ends_s
                if job.process.poll() is None and not late:
                    continue
                end(job.process)
                results = [*job.results, result_of(job, seconds, late)]
                if job.left:
                    with signals_held() as mask:
                        running[name] = start(job.left[0], folder, seconds, results, job.left[1:], mask)
                else:
                    del running[name]
                    yield name, results
    finally:
        for job in running.values():
            end(job.process)
