"""How far is a run that takes long, and how long will the rest take?

On a terminal, from the third second on, one line on stderr, each second anew. It is read off the running loops, so that no
scheduler knows of it: a scheduler has admitted `head` of its `n` requests, and a loop that passes its results through
progress() has `done` of `total` of them. A scheduler inside a loop that does not, tells nothing of the whole: then the line
says only how long it took so far.
"""

import signal
import sys
import time

START_S = time.monotonic()


def progress(results, total):
    """Pass on results that are worked out as they are asked for, and count them."""
    done = 0
    for result in results:
        done += 1
        yield result


def fraction_done(frame):
    """The share of the whole run that is done, seen from the innermost frame; 0 where the frames do not tell."""
    fraction = 0
    while frame:
        at, outside = frame.f_locals, frame.f_back
        if "head" in at and "n" in at:
            alone = outside and outside.f_code.co_name == "main"
            fraction = at["head"] / at["n"] if alone or inside_progress(outside) else 0
        elif frame.f_code is progress.__code__:
            fraction = (at.get("done", 0) + fraction) / at["total"]
        frame = outside
    return fraction


def inside_progress(frame):
    while frame and frame.f_code is not progress.__code__:
        frame = frame.f_back
    return frame is not None


def report(_, frame):
    seconds, fraction = time.monotonic() - START_S, fraction_done(frame)
    done = f"{fraction:.0%} done, about {seconds / fraction - seconds:.0f} s to go" if fraction else f"{seconds:.0f} s so far"
    clear()
    print(done, end="", file=sys.stderr, flush=True)


def on_a_terminal():
    return sys.stderr is not None and sys.stderr.isatty()


def watch():
    """Report each second from the third on, if anybody looks."""
    if on_a_terminal():
        signal.signal(signal.SIGALRM, report)
        signal.setitimer(signal.ITIMER_REAL, 2, 1)


def unwatch():
    if on_a_terminal():
        signal.setitimer(signal.ITIMER_REAL, 0)
        clear()


def clear():
    """Take the line away."""
    if on_a_terminal():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
