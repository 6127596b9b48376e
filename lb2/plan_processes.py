"""How are several searches run at once, on all cores, so that nothing is left behind when it ends
early?

    list(in_processes([(search_open, problem, 8), (search_open, problem, 16)], 2))  -> [(1, Found), (0, Found)]

Each job gets a process of its own, at most so many at a time. A process ends when the one that
started it has ended, for whatever reason.
"""

import os
import signal
import threading
from collections import deque
from multiprocessing import Pipe, Process, parent_process
from multiprocessing.connection import wait

from inputs import BadInput


def cores():
    """How many processes can work at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_processes(jobs, processes):
    """Yield (index of the job, its result) as they end. A job is (function, *arguments). Raises what a job raises."""
    if processes == 1 or len(jobs) == 1:
        for index, (function, *arguments) in enumerate(jobs):
            yield index, function(*arguments)
        return
    waiting, running = deque(enumerate(jobs)), {}  # the result's end of a pipe -> (index, process)
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                index, job = waiting.popleft()
                start(index, job, running)
            for result in wait(running):
                index, process = running[result]
                try:
                    outcome = result.recv()
                except EOFError:
                    raise BadInput("a process of the plan ended early, killed by somebody or for want of memory; "
                                   "--processes 1 needs the least") from None
                del running[result]
                process.join()
                if isinstance(outcome, Exception):
                    raise outcome
                yield index, outcome
    finally:
        for _, process in running.values():
            process.terminate()
            process.join()


def start(index, job, running):
    """Start a job's process and enter it. Ctrl-C is held back meanwhile, and in the process for good."""
    result, its_end = Pipe(duplex=False)
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process = Process(target=work, args=(its_end, *job))
        process.start()
        running[result] = index, process
    finally:
        its_end.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def work(result, function, *arguments):
    """In the process: do the job and send its result, or the mistake of the user that it found."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        result.send(function(*arguments))
    except (BadInput, OSError) as error:
        result.send(error)


def end_with_parent():
    """Wait until the process that started this one has ended, then end too."""
    parent_process().join()
    os._exit(1)
