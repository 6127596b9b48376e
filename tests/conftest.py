"""The tests heed Ctrl-C wherever they run: a shell starts what runs in the background with the signal ignored."""

import signal


def pytest_configure(config):
    signal.signal(signal.SIGINT, signal.default_int_handler)
