"""The tests heed Ctrl-C wherever they run, and two processes can share them: see tests/run."""

import functools
import gc
import signal
from pathlib import Path

ENDLESS_S = 180


def pytest_addoption(parser):
    parser.addoption("--claim-in", type=Path, metavar="DIR", help="run the test files that nobody has claimed in DIR")


def pytest_configure(config):
    gc.disable()  # the search for circles among the many numbers of the tests took a tenth of their time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what runs in the background ignore it
    signal.signal(signal.SIGALRM, endless)  # a loop without end fails its test


def pytest_runtest_protocol(item):
    """True: this test is done; another process has claimed its file. None: run it."""
    claims = item.config.getoption("claim_in")
    if claims and not is_ours(claims / item.path.name):
        return True
    signal.alarm(ENDLESS_S)
    return None


def endless(number, frame):
    """SIGALRM: the time of a test is over."""
    raise TimeoutError(f"the test has not ended after {ENDLESS_S} s")


def pytest_sessionfinish():
    signal.alarm(0)


@functools.cache
def is_ours(claim):
    """Is this process the first that makes this file?"""
    try:
        claim.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
