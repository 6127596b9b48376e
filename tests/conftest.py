"""The tests heed Ctrl-C wherever they run, none runs without end, and none writes outside its own folder."""

import gc
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

ENDLESS_S = 180
ROOT = Path(__file__).resolve().parent.parent
NOT_OURS = {".git", ".venv", ".pytest_cache", "__pycache__"}  # what git, Python and pytest keep


def pytest_configure():
    gc.disable()  # the search for circles among the many numbers of the tests took a tenth of their time
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what runs in the background ignore it
    signal.signal(signal.SIGALRM, endless)  # a loop without end fails its test
    # Hundreds of scripts start: what Python has compiled is kept until the end, elsewhere than in the project.
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def pytest_unconfigure():
    gc.freeze()  # pytest searches all objects five times at its end
    shutil.rmtree(sys.pycache_prefix or "", ignore_errors=True)


def pytest_runtest_setup():
    signal.alarm(ENDLESS_S)


def pytest_sessionfinish():
    signal.alarm(0)


def endless(number, frame):
    """SIGALRM: the time of a test is over."""
    raise TimeoutError(f"the test has not ended after {ENDLESS_S} s")


def files_of_the_project():
    """{path: when it was written}"""
    found = {}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = set(folders) - NOT_OURS
        found |= {os.path.join(folder, name): os.stat(os.path.join(folder, name)).st_mtime_ns for name in names}
    return found


@pytest.fixture(scope="session", autouse=True)
def the_project_is_untouched():
    """After all tests every file of the project is as it was, the user's results in lb2 too."""
    before = files_of_the_project()
    yield
    after = files_of_the_project()
    changed = sorted(path for path in {**before, **after} if before.get(path) != after.get(path))
    assert not changed, f"the tests wrote or removed what is not theirs: {changed}"
