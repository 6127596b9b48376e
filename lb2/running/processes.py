"""How are several searches run at once, on all cores, so that nothing is left behind when it ends early?

    list(in_processes([(search_open, problem, 8), (search_open, problem, 16)], 2))  -> [(1, Found), (0, Found)]
"""

import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

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
    pool = ProcessPoolExecutor(min(processes, len(jobs)), initializer=end_with_parent)
    try:
        indices = {pool.submit(*job): index for index, job in enumerate(jobs)}
        for future in as_completed(indices):
            yield indices[future], future.result()
    except BrokenProcessPool:
        raise BadInput("a process of the plan ended early, killed by somebody or for want of memory; "
                       "--processes 1 needs the least") from None
    finally:
        for process in multiprocessing.active_children():
            process.terminate()
        pool.shutdown(cancel_futures=True)


def end_with_parent():
    """In a new process: leave Ctrl-C to the one that started it, and end when that has ended, for whatever reason."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=lambda: (multiprocessing.parent_process().join(), os._exit(1)), daemon=True).start()
