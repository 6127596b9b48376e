"""Is everything that the pages show what the programs print, and do their links lead somewhere?

    python3 tests/readme.py --write     run the commands and put their output in (make readme)
    python3 tests/readme.py --check     say what is stale, fails or leads nowhere (make check)

The pages are README.md and lb2/*.md. A fenced block whose first line begins with `$ ` is a session.
Each such line is run, in a copy of the project, and what it prints belongs below it. Lines have at
most 100 columns. Commands in running text (`python3 lb2/...`, `make ...`) are run too and must not
fail. Not run are commands with a placeholder in capitals, and those that check or time the project;
of a make in another fenced block only the target is tried. A number in running text stands between
<!-- = FILE KEY --> and <!-- / -->. It is read from a result file. KEY of a csv is
COLUMN=VALUE,COLUMN: the row, and what to read in it. The paragraph behind <!-- $ COMMAND --> is
what a command prints, as it is: a table, for example. No line begins with a comment, since on GitHub
that ends the paragraph.
"""

import argparse
import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "lb2").glob("*.md"))]
WIDEST = 100  # columns of a line that a session prints
SESSION = re.compile(r"^```[a-z]*\n(\$ .*?)^```$", re.M | re.S)
NUMBER = re.compile(r"(<!-- = (\S+) (\S+) -->)(.*?)(<!-- / -->)")
PRINTED = re.compile(r"(<!-- \$ (.*?) -->\n\n)(.*?)(?=\n\n|\Z)", re.S)
INLINE = re.compile(r"`([^`\n]*python3 lb2/[^`]*|make\b[^`]*)`")
FENCED = re.compile(r"^make +([a-z]+)", re.M)  # shown, with placeholders, and not run: the target must be there
NOT_RUN = re.compile(r"[A-Z]{3,}|/path/|\.\.\.|^make (test|bench|check|readme|pictures|grade|clean|report)\b")
SHOWN_IN_A_SESSION = {"make measured"}  # its script runs long, and a session runs it; here it says its --help
NAMED = re.compile(r"`((?:lb2|tests|fixtures)/[\w/.]*\.(?:py|json|md))`")
LINK = re.compile(r"\]\(([^)\s]+)\)|<img[^>]* src=\"([^\"]+)\"")


class Stale(Exception):
    """What is wrong with a page, and what to run."""


# --- running ------------------------------------------------------------------------------------------------------


def copy_of(root, folder):
    """A copy of the project to run commands in, and an environment in which python3 is this Python."""
    hidden = shutil.ignore_patterns(".git", ".venv", "__pycache__", "*.html")
    copy = Path(folder) / "project"
    shutil.copytree(root, copy, ignore=hidden)
    for result in [*(copy / "lb2").glob("*.txt"), *(copy / "lb2").glob("*.csv")]:
        result.unlink()
    python = Path(folder) / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    makes = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "OUT", "REQUESTS", "COSTS", "OPTIONS", "PYTHON", "MAKEOVERRIDES"}
    makes.add("PYTHONDONTWRITEBYTECODE")  # the copy may keep what is compiled
    kept = {name: value for name, value in os.environ.items() if name not in makes}
    return copy, {**kept, "PATH": f"{python.parent}:{os.environ['PATH']}", "PYTHONUTF8": "1"}


def runner(root, folder):
    """A function that runs a command in a copy of the project and returns what it prints. It raises Stale if that fails."""
    copy, environment = copy_of(root, folder)

    def run(command):
        done = subprocess.run(["sh", "-c", command], cwd=copy, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise Stale(f"the command `{command}` fails with status {done.returncode}: {done.stdout.strip()[-300:]}")
        return done.stdout

    return run, copy


# --- what belongs there -------------------------------------------------------------------------------------------


def fresh_sessions(text, run):
    """The text with the output of its sessions put in."""

    def session(match):
        commands = [line[2:] for line in match[1].splitlines() if line.startswith("$ ")]
        shown = "".join(f"$ {command}\n{run(command)}" for command in commands)
        return f"{match[0][: match.start(1) - match.start()]}{shown}```"

    return SESSION.sub(session, text)


def fresh_tables(text, run):
    """The text with what its commands print, where that is part of the page."""
    return PRINTED.sub(lambda match: f"{match[1]}{run(match[2]).rstrip()}", text)


def fresh_numbers(text, results):
    """The text with its numbers read from the result files of a folder."""

    def number(match):
        before, name, key, _, after = match.groups()
        return f"{before}{value(results / name, key)}{after}"

    return NUMBER.sub(number, text)


def value(path, key):
    try:
        if path.suffix == ".txt":
            return dict(pair.split("=") for pair in path.read_text().split())[key]
        *wanted, column = key.split(",")
        with open(path, newline="") as file:
            rows = [
                row for row in csv.DictReader(file) if all(row[c] == v for c, v in (pair.split("=") for pair in wanted))
            ]
        (row,) = rows
        return row[column]
    except (OSError, KeyError, ValueError) as error:
        raise Stale(f"the number {path.name} {key} cannot be read: {error!r}") from None


def fresh(text, run, results):
    return fresh_numbers(fresh_tables(fresh_sessions(text, run), run), results)


# --- what is wrong ------------------------------------------------------------------------------------------------


def stale_lines(text, renewed):
    """The first line that is not what the programs print."""
    for number, (ours, theirs) in enumerate(zip(text.splitlines() + [""], renewed.splitlines() + [""]), start=1):
        if ours != theirs:
            return [f"line {number} is stale: run make readme\n  there   {ours}\n  printed {theirs}"]
    return []


def wide_lines(text):
    for match in SESSION.finditer(text):
        for line in match[1].splitlines():
            if len(line) > WIDEST and not line.startswith("$ "):
                yield f"a line of a session has {len(line)} columns, and {WIDEST} fit: {line[:60]} ..."


def comments_in_front(text):
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("<!--"):
            yield f"line {number} begins with a comment, which ends the paragraph: {line[:60]}"


def failing_commands(text, run):
    for command in dict.fromkeys(INLINE.findall(SESSION.sub("", text))):
        if not NOT_RUN.search(command):
            try:
                run(f"{command} OPTIONS=--help" if command in SHOWN_IN_A_SESSION else command)
            except Stale as error:
                yield str(error)


def missing_targets(text, run):
    shown = "\n".join(re.findall(r"^```\n(.*?)^```$", SESSION.sub("", text), re.M | re.S))
    for target in dict.fromkeys(FENCED.findall(shown)):
        try:
            run(f"make -n {target}")
        except Stale:
            yield f"the command `make {target}` has no such target"


def slug(heading):
    """The anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def broken_links(text, root, folder):
    """Links that lead nowhere, from a page in the folder of a project at root."""
    prose = without_fences(text)
    for match in LINK.finditer(prose):
        target = match[1] or match[2]
        if target.startswith(("https://", "http://")):
            continue
        name, _, anchor = target.partition("#")
        if name and not (folder / name).exists():
            yield f"the link {target} leads to no file: mend it"
        elif anchor and anchor not in anchors((folder / name).read_text(encoding="utf-8") if name else text):
            yield f"the anchor {target} is no heading: mend the link"
    for name in dict.fromkeys(NAMED.findall(prose)):
        if not (root / name).exists():
            yield f"the file {name} is named and does not exist"


def without_fences(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def anchors(text):
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", without_fences(text), re.M)}


def stale_pictures(pictures, drawn):
    """Compare the committed pictures with fresh ones."""
    names = {path.name for folder in (pictures, drawn) for path in folder.glob("*.svg")}
    for name in sorted(names):
        files = [folder / name for folder in (pictures, drawn)]
        if not all(file.exists() for file in files) or files[0].read_bytes() != files[1].read_bytes():
            yield f"the picture {name} is stale: run make pictures"


def problems(text, root, folder, run, copy):
    """What is wrong with the text of a page in a folder of the project: complaints, one line or more each."""
    found = []
    try:
        found += stale_lines(text, fresh(text, run, copy / "lb2"))
    except Stale as error:
        found.append(f"{error}: mend it, then run make readme")
    found += wide_lines(text)
    found += comments_in_front(text)
    found += failing_commands(text, run)
    found += missing_targets(text, run)
    found += broken_links(text, root, folder)
    return found


def picture_problems(root, run, copy):
    """Pictures that are not what the programs draw."""
    try:
        run("python3 lb2/pictures.py --out drawn")
    except Stale as error:
        return [str(error)]
    return list(stale_pictures(root / "lb2" / "pictures", copy / "drawn"))


def remembering(run):
    """The same function, which runs a command once and remembers what it printed."""
    printed = {}

    def run_once(command):
        if command not in printed:
            printed[command] = run(command)
        return printed[command]

    return run_once


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true", help="put the programs' output into the pages")
    what.add_argument("--check", action="store_true", help="say what is stale or broken")
    args = parser.parse_args()
    complaints = []
    with tempfile.TemporaryDirectory() as folder:
        run, copy = runner(ROOT, folder)
        run = remembering(run)
        for page in PAGES:
            text, name = page.read_text(encoding="utf-8"), page.relative_to(ROOT)
            if args.write:
                page.write_text(fresh(text, run, copy / "lb2"), encoding="utf-8")
                continue
            found = problems(text, ROOT, page.parent, run, copy)
            complaints += [f"{name}: {complaint}" for complaint in found]
            print(f"{name}: {len(SESSION.findall(text))} sessions, {len(NUMBER.findall(text))} numbers, "
                  f"{len(LINK.findall(text))} links: {len(found) or 'nothing'} to mend", flush=True)
        if args.check:
            complaints += picture_problems(ROOT, run, copy)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
