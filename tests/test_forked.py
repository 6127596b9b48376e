"""A script in a fork ends and speaks as one with an interpreter of its own, and sees nothing of the tests' modules."""

import signal
import subprocess
import sys

import inputs
import pytest
from fixture import LAB
from forked import run_forked

ENDS = {  # what the script does
    "well": "print('\u00e9', __name__, sys.argv[1:])",
    "a number": "sys.exit(3)",
    "nothing": "sys.exit()",
    "a sentence": "print('out'); sys.exit('it is over')",
    "an error": "raise ValueError('ours')",
    "a hook of its own": "sys.excepthook = lambda *error: print('hook', error[1]); raise ValueError('ours')",
    "a signal": "import os; os.kill(os.getpid(), 15)",
    "a child": "import multiprocessing; p = multiprocessing.Process(target=print, args=('child',)); p.start(); p.join()",
    "where it is": "import os; print(os.getcwd(), sys.path[0], __file__)",
}


@pytest.mark.parametrize("case", ENDS)
def test_as_with_an_interpreter_of_its_own(tmp_path, case):
    path = tmp_path / "some.py"
    path.write_text(f"import sys\n{ENDS[case]}\n", encoding="utf-8")
    command = [str(path), "--one", "two"]
    theirs = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True)
    ours = run_forked(command, tmp_path)
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)
    assert ours.stderr.splitlines()[-1:] == theirs.stderr.splitlines()[-1:]


def test_a_script_without_an_end_is_ended(monkeypatch, tmp_path):
    monkeypatch.setattr(signal, "alarm", lambda seconds: signal.setitimer(signal.ITIMER_REAL, 0.2))
    path = tmp_path / "some.py"
    path.write_text("while True:\n    pass\n")
    assert run_forked([str(path)], tmp_path).returncode == -signal.SIGALRM


def test_modules_are_fresh_and_those_of_the_tests_are_not_there(monkeypatch, tmp_path):
    monkeypatch.setattr(inputs, "MOST", "changed in the tests")
    path = tmp_path / "some.py"
    path.write_text(f"import sys\nsys.path.insert(0, {str(LAB)!r})\nimport inputs\nprint(inputs.MOST)\nimport fixture\n")
    done = run_forked([str(path)], tmp_path)
    assert done.stdout == "1000000000\n" and done.returncode == 1 and "No module named 'fixture'" in done.stderr
