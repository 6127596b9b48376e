"""Which refusals of the lab does no test reach?

It copies the project, makes BadInput and argparse's errors in the copy say where they are called,
and runs the tests there, scripts in processes of their own included. Each call in lb2 that refuses
and that none of them reached is printed: a test for it is missing. It does not tell whether a test
would fail without the refusal.

    python3 tests/refusals.py [TEST ...]      all tests take some minutes; status 1 if one is missing
"""

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CALLED = {"BadInput", "ArgumentTypeError", "error"}  # error: of a parser
WRITTEN_DOWN = '''

def _called(old):
    """The same function; it writes down who called it."""
    def new(self, *args, **kwargs):
        frame = sys._getframe(1)
        with open({log!r}, "a") as file:
            file.write(f"{{Path(frame.f_code.co_filename).name}}:{{frame.f_lineno}}\\n")
        old(self, *args, **kwargs)
    return new


import argparse
import sys

BadInput.__init__ = _called(ValueError.__init__)
argparse.ArgumentTypeError.__init__ = _called(Exception.__init__)
argparse.ArgumentParser.error = _called(argparse.ArgumentParser.error)
'''


def refusals(path):
    """(file name, first line, last line, its first words) of each call in a source file that refuses."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in CALLED:
                yield path.name, node.lineno, node.end_lineno, text.splitlines()[node.lineno - 1].strip()


def reached(tests):
    """{(file name, line), ...} of the calls that the tests reach, and the status of the tests."""
    with tempfile.TemporaryDirectory() as folder:
        copy, log = Path(folder) / "project", Path(folder) / "log"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__"))
        with open(copy / "lb2" / "files/inputs.py", "a", encoding="utf-8") as file:
            file.write(WRITTEN_DOWN.format(log=str(log)))
        log.touch()
        command = ["sh", str(copy / "tests" / "run"), "-q", *(str(copy / "tests" / Path(test).name) for test in tests)]
        status = subprocess.run(command, cwd=copy, env={**os.environ, "PYTHON": sys.executable}).returncode
        places = {line.rpartition(":")[::2] for line in log.read_text().splitlines()}
    return {(name, int(line)) for name, line in places}, status


def main():
    known = [refusal for path in sorted((ROOT / "lb2").glob("*.py")) for refusal in refusals(path)]
    places, status = reached(sys.argv[1:])
    missing = 0
    for name, first, last, words in known:
        if not any((name, line) in places for line in range(first, last + 1)):
            missing += 1
            print(f"no test reaches {name}:{first}: {words}")
    print(f"{len(known) - missing} of {len(known)} refusals are reached; the tests ended with status {status}")
    sys.exit(1 if missing or status else 0)


if __name__ == "__main__":
    main()
