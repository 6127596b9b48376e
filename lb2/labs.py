"""Which scripts make up each lab, and which files does each script write?

    python3 lb2/labs.py run static continuous --out DIR    keep the files only if all succeed
    python3 lb2/labs.py clean --out DIR                    remove the result files of all labs

The scripts run in the order given, each on the same bytes of the request file. Their files move
into the folder DIR when all of them are there. So a run that fails, or that Ctrl-C ends, changes
nothing. The Makefile calls this script.
"""

from command_line import LAB, arguments, run  # first: from here on Ctrl-C is quiet

import os
import runpy
import shutil
import signal
import sys
from contextlib import contextmanager, suppress

from inputs import BadInput
from transaction import SIGNALS, STAGES, move_up, stage_in

FIRST = {
    "static": ["static.txt"],
    "continuous": ["continuous.txt"],
    "compare": ["compare.txt"],
    "maxseqs": ["maxseqs.txt"],
    "queueing": ["queue.csv"],
    "cost": ["cost.txt"],
    "tune": ["tune.txt", "tune.csv"],
}
SECOND = {
    "orca_waste": ["orca_waste.csv"],
    "orca_curves": ["orca_curves.csv", "orca_slo.csv"],
    "orca_homogeneous": ["orca_homogeneous.csv"],
    "orca_reservation": ["orca_reservation.csv"],
}
THIRD = {
    "paged_preemption": ["paged_preemption.csv"],
    "paged_prefix": ["paged_prefix.csv"],
    "paged_chunked": ["paged_chunked.csv"],
}
FOURTH = {
    "plan_calibrate": ["costs.txt"],
    "plan_measured": ["measured.csv"],
    "plan": ["plan.txt", "plan.csv", "plan.svg"],
    "report": ["report.html"],
}
WRITES = FIRST | SECOND | THIRD | FOURTH


def run_all(args):
    """Run the scripts in order and keep what they write. If one fails, exit with its status. May raise BadInput."""
    with stage_in(args.out) as stage:
        for name in (name for script in args.scripts for name in WRITES[script]):
            if (args.out / name).is_dir():
                raise BadInput(f"{args.out / name} is a folder, and in the way")
        options = [f"--{name}={value}" for name, value in (("first", args.first), ("costs", args.costs)) if value]
        with same_bytes(args.requests) as requests:
            if requests:
                options.append(f"--requests={requests}")
            for script in args.scripts:
                status = status_of([str(LAB / f"{script}.py"), f"--out={stage}", *options])
                if status:
                    sys.exit(status if status > 0 else 128 - status)
                missing = [name for name in WRITES[script] if not (stage / name).exists()]
                if missing:
                    raise BadInput(f"{script}.py ended well, but did not write {missing[0]}")
        move_up(stage, args.out)
    print("Done:", *(name for script in args.scripts for name in WRITES[script]), f"are in {args.out}")


def status_of(command):
    """Run [script, option, ...] in a fork, and return its status. Whatever ends this script ends the fork too.

    A fork, since a new interpreter for each script takes longer to start than most of them to run.
    """
    waiting = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until there is a process that can be ended
    child = os.fork()
    if not child:
        play(command, waiting)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, waiting)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except BaseException:
        with suppress(ProcessLookupError, ChildProcessError):  # it has just ended by itself
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)
        raise


def play(command, waiting):
    """In a fork: run the script as if it had been started, and end. Ctrl-C is for the parent, which ends the fork."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, waiting)
        sys.argv = command
        runpy.run_path(command[0], run_name="__main__")
        status = 0
    except SystemExit as ended:
        status = ended.code or 0
        if isinstance(status, str):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)  # run() has flushed what was printed


@contextmanager
def same_bytes(path):
    """The path of a request file that must not change meanwhile, or None. Raises BadInput in the end if it has."""
    before = path and fingerprint(path)
    yield path
    if path and fingerprint(path) != before:
        raise BadInput(f"{path}: changed while the scripts read it: nothing was replaced, run it again")


def fingerprint(path):
    """What changes when a file does; None without a file, which the first script will say."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def clean(out):
    """Remove the results of all labs from a folder, and what a run left there that was killed."""
    for names in WRITES.values():
        for name in names:
            (out / name).unlink(missing_ok=True)
    for folder in (*out.glob(STAGES), *out.glob("my_pictures")):
        shutil.rmtree(folder)


def stop(number, _):
    """A signal ends the run as Ctrl-C does, with its own status."""
    sys.exit(128 + number)


def main():
    parser = arguments(__doc__)
    parser.set_defaults(requests=None)  # each script has its own
    parser.add_argument("action", choices=("run", "clean"))
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help="for run: names without .py, in order")
    args = parser.parse_args()
    if args.action == "clean":
        clean(args.out)
        return
    unknown = [name for name in args.scripts if name not in WRITES]
    if unknown:
        raise BadInput(f"{unknown[0]} is none of {', '.join(WRITES)}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    run_all(args)


if __name__ == "__main__":
    run(main)
