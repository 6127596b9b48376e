"""How are several searches run at once, on all cores, so that nothing is left behind when it ends early?

    list(in_processes([(search_open, problem, 8), (search_open, problem, 16)], 2))  -> [(1, Found), (0, Found)]

Each job has a process and a pipe of its own. (A ProcessPoolExecutor has one pipe for all results: it waits
for ever if a process is ended while it writes there: 3 of 120 trials did.)
"""

import os
import signal
import threading
from collections import deque
from multiprocessing import Pipe, Process, parent_process
from multiprocessing.connection import wait

from common import BadInput


def cores():
    """How many processes can work at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_processes(jobs, processes):
    """Yield (index of the job, its result) as they end. A job is (function, *arguments). Raises what a job raises."""
    if processes == 1 or len(jobs) == 1:
        for index, (function, *arguments) in enumerate(jobs):
            yield index, function(*arguments)
        return
    waiting, running = deque(enumerate(jobs)), {}  # the reading end of a pipe -> (index, process)
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                start(running, *waiting.popleft())
            for end in wait(running):
                index, process = running[end]
                try:
                    result, refused = end.recv()
                except EOFError:
                    raise BadInput("a process of the plan ended early, killed by somebody or for want of memory; "
                                   "--processes 1 needs the least") from None
                del running[end]
                process.join()
                if refused:
                    raise refused
                yield index, result
    finally:
        for _, process in running.values():
            process.terminate()
            process.join()


def start(running, index, job):
    """Start the process of a job and enter it. Ctrl-C waits meanwhile, and never reaches the process."""
    reading, writing = Pipe(duplex=False)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process = Process(target=work, args=(writing, *job))
        process.start()
        running[reading] = index, process
    finally:
        writing.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def work(writing, function, *arguments):
    """In the process: do the job and send (its result, None) or (None, the user's mistake that it found)."""
    try:
        threading.Thread(target=end_with_parent, daemon=True).start()
    except RuntimeError:  # no memory for its stack
        os._exit(1)
    try:
        writing.send((function(*arguments), None))
    except (BadInput, OSError, MemoryError) as error:
        writing.send((None, error))


def end_with_parent():
    """Wait until the process that started this one has ended, for whatever reason, then end too."""
    parent_process().join()
    os._exit(1)
