"""How does all of this look for my own requests, on one page that I can send to a colleague?

Runs the steps and the questions of the labs on a request file. The answer, the pictures, the
numbers and the settings go into one HTML file that needs nothing else: no network, no script, no
font. A part that fails, or that takes longer than --seconds, says so in its place, and the others
are there. The second lab's part needs requests with arrivals; for others it shows the recorded
ones, and says so. For a trace with arrivals the page begins with the plan.

    python3 lb2/report.py --requests mine.json --target-ttft-ms 300        writes report.html
"""

import ast
import csv
import os
import signal
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

from common import LAB, number, percentile, progress, run, save
from running.options import arguments
from drawing.tune import TARGET_MS
from reporting.blocks import blocks, sentences
from reporting.jobs import GIVEN, MADE, SCRIPTS, badge_of, inputs_of, jobs_of
from reporting.page import Section, answer, page
from running.side_by_side import play_all
from files.sources import counted

SECONDS = 300


def question(name):
    """The first sentence of a script's docstring."""
    return ast.get_docstring(ast.parse((LAB / f"{name}.py").read_text(encoding="utf-8"))).split("\n\n")[0]


def version():
    """git describe of this project; "none" where it is no repository of its own."""
    git = ["git", "-C", str(LAB.parent)]
    try:
        top = subprocess.run([*git, "rev-parse", "--show-toplevel"], capture_output=True, text=True)
        described = subprocess.run([*git, "describe", "--always", "--dirty"], capture_output=True, text=True)
    except OSError:
        return "none"
    own = top.returncode == described.returncode == 0 and Path(top.stdout.strip()) == LAB.parent
    return described.stdout.strip() if own else "none"


def command(args):
    """The command that made the page, without the folders of this machine."""
    words = ["python3 lb2/report.py", "--requests", args.requests.name, "--target-ttft-ms", f"{args.target_ttft_ms:g}"]
    words += ["--first", str(args.first)] if args.first is not None else []
    return " ".join([*words, *(["--costs", args.costs.name] if args.costs else [])])


def facts(args, inputs):
    """Rows of (what, value) that say what the page is about."""
    yield "requests", f"{inputs.name}: {inputs.trace}"
    for name, column in zip(("prompt tokens", "output tokens"), inputs.trace.requests):
        yield name, f"median {percentile(column, 50):,.0f}, p99 {percentile(column, 99):,.0f}, most {max(column):,}"
    costs = inputs.costs
    yield "costs", f"from {args.costs.name}" if args.costs else "the lab's own, not measured on a server"
    yield "prefill", f"{costs.prefill_us_per_token / 1000:g} ms a prompt token"
    yield "step", f"{costs.decode_us(1) / 1000:g} ms with 1 sequence, {costs.decode_us(32) / 1000:g} ms with 32"
    if costs.overhead_us:
        yield "outside the server", f"{costs.overhead_us / 1000:g} ms of every TTFT"
    yield "target", f"p99 TTFT of {args.target_ttft_ms:,.12g} ms"
    yield "command", command(args)
    yield "version", version()
    yield "date", date.today().isoformat()


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


def tune_headline(made, target_ms):
    """The answer of tune.txt in one sentence."""
    values = dict(pair.split("=") for pair in (made / "tune.txt").read_text().split())
    clients, tried = int(values["max_concurrency"]), len(rows_of(made / "tune.csv")) - 1
    target = f"a p99 TTFT of {target_ms:,.12g} ms"
    if not clients:
        return f"No number of clients meets {target}."
    who = f"{counted(clients, 'client')}{' or more' if clients == tried else ''} at a time"
    return f"{who} {'meets' if clients == 1 else 'meet'} {target}."


def answer_first(words):
    """The sentences of plan.py with its answer to the first question before what it rests on."""
    return sorted(words, key=lambda sentence: not sentence.startswith("Open loop: "))


def svgs(made, names):
    return [(made / name).read_text(encoding="ascii") for name in names if (made / name).exists()]


def answers(results, made, target_ms):
    """The HTML of the first blocks: what tune found, and for a trace with arrivals first what plan
    found.
    """
    found = []
    if "plan" in results:
        (planned,) = results["plan"]
        words = ["What load may these requests become?", *answer_first(sentences(blocks(planned.printed)))]
        found.append(answer(words, svgs(made, ["plan.svg"]), [planned.trouble] if planned.trouble else []))
    tuned, *_ = results["tune"]
    if tuned.trouble:
        found.append(answer(["How many clients meet the target is not known."], [], [tuned.trouble]))
    else:
        words = [line for line in sentences(blocks(tuned.printed)) if not line.startswith("Step ")]
        found.append(answer([tune_headline(made, target_ms), *words], svgs(made, ["tune.svg"]), []))
    return found


def section_of(name, results, inputs, made):
    """The Section of a script, from what it printed and what it wrote."""
    heard = f"{inputs.name}: {inputs.trace}"  # is said once, at the top
    shown = [block for block in blocks(results[0].printed) if not str(block.content).startswith(heard)]
    if name == "tune":  # its sentences are the answer
        shown = [block for block in shown if block.kind != "words"]
    names = [picture for picture in SCRIPTS[name][1] if not (name == "tune" and picture == "tune.svg")]
    pictures = svgs(made, names)
    troubles = list(dict.fromkeys(result.trouble for result in results if result.trouble))
    if len(results) > 1 and not troubles:
        troubles = [words for words in sentences(blocks(results[1].printed)) if " is not drawn: " in words]
    path = made / f"{name}.csv"
    rows = rows_of(path) if path.exists() else []
    headers = [block.content[0] for block in shown if block.kind == "table"]
    unseen = rows and not any(header[: len(rows[0])] == rows[0] for header in headers)
    tables = [(path.name, rows)] if unseen else []
    return Section(question(name), badge_of(name, inputs), pictures, shown, tables, troubles)


def stop(signal_number, frame):
    sys.exit(128 + signal_number)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--target-ttft-ms", type=number, default=float(TARGET_MS), metavar="MS",
                        help=f"p99 time to first token allowed, in ms (default: {TARGET_MS})")
    parser.add_argument("--seconds", type=number, default=SECONDS, metavar="S",
                        help=f"the longest that one script may take (default: {SECONDS})")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)  # so that no child outlives us
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        inputs = inputs_of(args, folder)
        jobs = jobs_of(inputs, args.target_ttft_ms)
        played = play_all(jobs, folder / GIVEN, min(len(jobs), os.cpu_count() or 1), args.seconds)
        results = dict(progress(played, len(jobs)))
        made = folder / MADE
        sections = [section_of(name, results[name], inputs, made) for name in SCRIPTS]
        text = page(f"What a server would make of {args.requests.name}", answers(results, made, args.target_ttft_ms),
                    facts(args, inputs), sections)
        pictures = len(list(made.glob("*.svg")))
    save(args.out, {"report.html": text})
    print(f"report.html: {len(sections)} sections, {pictures} pictures, {len(text) // 1000} kB")
    if inputs.recorded.startswith("Recorded"):
        print(f"The second lab's part: {inputs.recorded[0].lower()}{inputs.recorded[1:]}.")
    broken = [name for name, parts in results.items() if any(part.broken for part in parts)]
    if broken:
        print(f"Parts of {', '.join(broken)} are missing; report.html says why in their place.")
        sys.exit(1)


if __name__ == "__main__":
    run(main)
