"""A script in a fork of the tests' process: hundreds of runs need not wait for an interpreter to start.

The script is __main__, imports the project's modules afresh, and has options, a folder, streams and an exit status of its
own. What only a new interpreter can show is tested with one: see fixture.started.
"""

import os
import runpy
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ENDLESS_S = 120
OURS = (str(TESTS), str(TESTS.parent / "lb2"))


def run_forked(command, cwd):
    """Run [script, option, ...]; returns the finished process with its text."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            status = 70  # if something of ours fails here
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(ENDLESS_S)  # a script that does not end is ended, and the test that runs it fails
            try:
                status = status_of(command, cwd, out, err)
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        printed, complained = (text_of(file) for file in (out, err))
    return subprocess.CompletedProcess(command, status, printed, complained)


def text_of(file):
    file.seek(0)
    return file.read().decode()


def status_of(command, cwd, out, err):
    """Run it here, and end as an interpreter does; returns the exit status."""
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
    os.chdir(cwd)
    for name in [name for name, module in sys.modules.items() if (getattr(module, "__file__", None) or "").startswith(OURS)]:
        del sys.modules[name]
    sys.argv, sys.path = command, [os.path.dirname(command[0]), *(path for path in sys.path if not path.startswith(OURS))]
    status = 0
    try:
        runpy.run_path(command[0], run_name="__main__")
    except SystemExit as ended:
        status = ended.code or 0
        if not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status
