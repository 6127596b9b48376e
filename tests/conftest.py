"""The tests heed Ctrl-C wherever they run, and none runs without end."""

import gc
import signal

ENDLESS_S = 180


def pytest_configure():
    gc.disable()  # the search for circles among the many numbers of the tests took a tenth of their time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what runs in the background ignore it
    signal.signal(signal.SIGALRM, endless)  # a loop without end fails its test


def pytest_runtest_setup():
    signal.alarm(ENDLESS_S)


def pytest_sessionfinish():
    signal.alarm(0)


def endless(number, frame):
    """SIGALRM: the time of a test is over."""
    raise TimeoutError(f"the test has not ended after {ENDLESS_S} s")
