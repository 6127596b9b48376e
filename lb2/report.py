"""How does all of this look for my own requests, on one page that I can send to a colleague?

Runs the steps and the questions of the labs on a request file and puts what they print, the pictures and the settings into
one HTML file that needs nothing else: no network, no script, no font. The second lab's part needs requests with a gap; for
others it shows the recorded ones, and says so.

    python3 lb2/report.py --requests mine.json --target-ttft-ms 300        writes report.html
"""

import ast
import base64
import csv
import html
import subprocess
import sys
import tempfile
from pathlib import Path

from command_line import amount, arguments, progress, run
from common import load_requests, percentile, save
from cost_model import load_costs
from orca_workload import RECORDED
from pictures import TARGET_MS, drawn, recipes, records_of

HERE = Path(__file__).resolve().parent
STEPS = {
    "static": "slots",
    "continuous": None,
    "compare": None,
    "maxseqs": None,
    "queueing": "queue",
    "cost": None,
    "tune": "tune",
    "paged_preemption": "paged",
    "paged_prefix": None,
    "paged_chunked": None,
}  # script: its picture
DEMOS = {
    "orca_waste": None,
    "orca_curves": "orca_curves",
    "orca_homogeneous": None,
    "orca_reservation": "orca_reservation",
    "plan_measured": "measured",
}
STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2328; --box: #f6f8fa }
@media (prefers-color-scheme: dark) { :root { --paper: #0d1117; --ink: #e6edf3; --box: #161b22 } }
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; max-width: 52rem;
       margin: 2rem auto; padding: 0 1rem }
pre { background: var(--box); padding: .8rem; overflow-x: auto; font-size: 13px; line-height: 1.4 }
img { width: 100%; max-width: 42rem; display: block; margin: 1rem 0 }
td, th { padding: .1rem .8rem .1rem 0; text-align: right; font-variant-numeric: tabular-nums }
td:first-child, th:first-child { text-align: left }
"""


def question(name):
    """The first sentence of a script's docstring."""
    return ast.get_docstring(ast.parse((HERE / f"{name}.py").read_text(encoding="utf-8"))).split("\n\n")[0]


def printed(name, options, out):
    """What a script prints; where it refuses the requests, why."""
    command = [sys.executable, str(HERE / f"{name}.py"), "--out", str(out), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else done.stderr.splitlines()[-1] + "\n"


def table_of(path):
    """A csv file as a table to unfold."""
    with open(path, newline="") as file:
        header, *rows = csv.reader(file)
    lines = ["".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells)
             for kind, cells in (("th", header), *(("td", row) for row in rows))]
    return (f"<details><summary>{path.name}, {len(rows)} rows</summary><table>"
            + "\n".join(f"<tr>{line}</tr>" for line in lines) + "</table></details>")


def image(svg):
    """An SVG text as an image of the page's own; its title is what it says where it is not shown."""
    title = svg.split("<title", 1)[1].split(">", 1)[1].split("<", 1)[0]
    encoded = base64.b64encode(svg.encode("utf-8")).decode("ascii")
    return f'<img alt="{title}" src="data:image/svg+xml;base64,{encoded}">'


def settings(args, requests, costs):
    """Rows of (what, value) that say what the page is about."""
    spread = {
        name: [percentile(column, percent) for percent in (50, 99)] for name, column in zip(requests._fields, requests)
    }
    yield "requests", f"{args.requests.name}, {len(requests.prompt_tokens)}"
    for name, (p50, p99) in spread.items():
        yield name.replace("_", " "), f"median {p50:.0f}, p99 {p99:.0f}"
    yield "prefill", f"{costs.prefill_us_per_token / 1000:g} ms a prompt token"
    yield "step", f"{costs.step_us / 1000:g} ms, and {costs.step_us_per_sequence / 1000:g} ms a sequence in it"
    yield "outside the server", f"{costs.overhead_us / 1000:g} ms of every TTFT"
    yield "target", f"p99 TTFT of {args.target_ttft_ms:g} ms"


def page(title, rows, notes, sections):
    """The HTML text. rows: (what, value); notes: sentences; sections: (question, picture or "", what was printed, more)."""
    facts = "\n".join(f"<tr><td>{html.escape(what)}</td><td>{html.escape(value)}</td></tr>" for what, value in rows)
    said = "".join(f"<p>{html.escape(note)}</p>\n" for note in notes)
    parts = [f"<h2>{html.escape(asked)}</h2>\n{picture}<pre>{html.escape(words)}</pre>\n{more}"
             for asked, picture, words, more in sections]
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>\n'
            f"<h1>{html.escape(title)}</h1>\n<table>{facts}</table>\n{said}" + "\n".join(parts) + "\n</body></html>\n")


def main():
    parser = arguments(__doc__)
    parser.add_argument("--target-ttft-ms", type=amount, default=float(TARGET_MS), metavar="MS",
                        help=f"p99 time to first token allowed, in ms (default: {TARGET_MS})")
    args = parser.parse_args()
    requests, costs = load_requests(args.requests, args.first), load_costs(args.costs)
    records = records_of(args)
    pictures, notes = drawn(recipes(requests, costs, args.target_ttft_ms, records, args.first))
    if any(note.startswith("orca") for note in notes):
        recorded = recipes(requests, costs, args.target_ttft_ms, RECORDED)
        pictures |= drawn({name: recipe for name, recipe in recorded.items() if name.startswith("orca")})[0]
        notes.append("So the second lab's part is about its own recorded requests, not about these.")
        records = RECORDED

    lengths = ["--requests", str(args.requests), *([] if args.first is None else ["--first", str(args.first)])]
    mine = [*lengths, *([] if args.costs is None else ["--costs", str(args.costs)])]
    theirs = [] if records == RECORDED else lengths
    options = dict.fromkeys(STEPS, mine) | dict.fromkeys(DEMOS, theirs) | {"plan_measured": []}
    options["tune"] = [*mine, "--target-ttft-ms", str(args.target_ttft_ms)]
    shown = STEPS | DEMOS
    with tempfile.TemporaryDirectory() as folder:
        said = progress((printed(name, options[name], folder) for name in shown), len(shown))
        sections = []
        for (name, picture), words in zip(shown.items(), said):
            svg = pictures.get(f"{picture}.svg")
            curve = Path(folder) / f"{name}.csv"
            sections.append(
                (question(name), image(svg) if svg else "", words, table_of(curve) if curve.exists() else "")
            )
    title = f"What a server would make of {args.requests.name}"
    text = page(title, settings(args, requests, costs), notes, sections)
    save(args.out, {"report.html": text.encode("ascii", "xmlcharrefreplace").decode("ascii")})
    print(f"report.html: {len(sections)} sections, {len(pictures)} pictures, {len(text) // 1000} kB")
    for note in notes:
        print(note)


if __name__ == "__main__":
    run(main)
