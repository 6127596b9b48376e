"""report.html: one page, of the user's own requests, that needs nothing else and that a phone can show."""

import base64
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
import report
from running import side_by_side as report_run
from common import BadInput, percentile, say
from paging.clock import percentile_of_counts
from files.costs import Costs
from fixture import LAB, ROOT, SHIPPED, fed, files, heed_ctrl_c, script
from reporting.blocks import Block, blocks, cells_of, sentences
from reporting.jobs import SCRIPTS, badge_of, inputs_of, jobs_of
from reporting.page import NUMBER, Section, answer, page, table

REQUESTS = '[{"prompt_tokens": 10, "output_tokens": 3}, {"prompt_tokens": 700, "output_tokens": 9600}]'


class Page(HTMLParser):
    """Collects what a page refers to, the words of its elements, and checks that all of them are closed."""

    def __init__(self, text):
        super().__init__()
        self.sources, self.alts, self.open, self.words = [], [], [], {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.words.setdefault(tag, []).append("")
        named = dict(attributes)
        self.sources += [named[name] for name in ("src", "href") if name in named]
        self.alts += [named["alt"]] if "alt" in named else []
        if tag not in ("meta", "img", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        for tag in set(self.open):
            self.words[tag][-1] += data


def copied_lab(folder):
    """A copy of the scripts and fixtures in which every recorded run of a server is the shortest of them."""
    shutil.copytree(LAB, folder / "lb2", ignore=shutil.ignore_patterns("*.txt", "*.csv", ".*", "__pycache__"))
    shutil.copytree(ROOT / "fixtures", folder / "fixtures")
    shortest = folder / "fixtures" / "clocked" / "async_c01.json.gz"
    for kind in ("clocked", "measured"):
        for path in (folder / "fixtures" / kind).glob("*.json.gz"):
            path.write_bytes(shortest.read_bytes())
    return folder / "lb2"


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """(the page of two requests without arrivals, what the script printed, a folder): from a pipe, which is read once.

    Its name looks like an option and is no ASCII. The second request cannot fit into the third lab's memory.
    """
    folder = tmp_path_factory.mktemp("a folder of mine")
    lab = copied_lab(folder / "project")
    path = folder / "-mine & <yours> \u00e9.json"
    fed(path, REQUESTS)
    command = [sys.executable, str(lab / "report.py"), f"--requests={path}", "--out", str(folder / "out"),
               "--target-ttft-ms", "300"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), "a refusal is no failure"
    assert list(files(folder / "out")) == ["report.html"]
    return (folder / "out" / "report.html").read_text(encoding="ascii"), done.stdout, str(folder)


def test_the_page_needs_nothing_else(mine):
    text, _, _ = mine
    page = Page(text)
    assert len(page.words["img"]) == 13 and "script" not in page.words and "pre" not in page.words
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.sources)
    drawn = [base64.b64decode(source.partition(",")[2]).decode() for source in page.sources]
    assert set(re.findall(r"https?://[^\s\"'<]+", text + "".join(drawn))) == {"http://www.w3.org/2000/svg"}


def test_the_first_block_is_the_answer(mine):
    text, _, _ = mine
    first = text[: text.index("<section>")]
    assert '<p class="first">2 clients or more at a time meet a p99 TTFT of 300 ms.</p>' in first
    assert "No upper edge found up to 2" in first and first.count("<img") == 1
    page = Page(first + "</body></html>")
    facts = dict(zip(page.words["dt"], page.words["dd"]))
    assert facts["prompt tokens"] == "median 355, p99 693, most 700"
    assert facts["target"] == "p99 TTFT of 300 ms" and "not measured" in facts["costs"]
    assert facts["command"].startswith("python3 lb2/report.py --requests -mine & <yours> ")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", facts["date"])
    assert facts["version"] == "none", "a copy is no repository of its own"


def test_the_version_of_a_repository(tmp_path, monkeypatch):
    """A repository of its own has one, and a folder in another's does not."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    described = subprocess.run([*git, "describe", "--always"], capture_output=True, text=True).stdout.strip()
    monkeypatch.setattr(report, "LAB", tmp_path / "lb2")
    assert report.version() == described and len(described) >= 7
    monkeypatch.setattr(report, "LAB", tmp_path / "inside" / "lb2")
    (tmp_path / "inside").mkdir()
    assert report.version() == "none"


@pytest.mark.parametrize("clients, tried, headline", [
    (0, 3, "No number of clients meets a p99 TTFT of 1,500 ms."),
    (1, 3, "1 client at a time meets a p99 TTFT of 1,500 ms."),
    (2, 3, "2 clients at a time meet a p99 TTFT of 1,500 ms."),
    (3, 3, "3 clients or more at a time meet a p99 TTFT of 1,500 ms."),
    (1, 1, "1 client or more at a time meets a p99 TTFT of 1,500 ms."),
])
def test_the_answer_in_one_sentence(tmp_path, clients, tried, headline):
    (tmp_path / "tune.txt").write_text(f"target_ttft_ms=1500 max_concurrency={clients} throughput_at_target=9.00\n")
    (tmp_path / "tune.csv").write_text("concurrency,mean_ttft_ms\n" + "1,2\n" * tried)
    assert report.tune_headline(tmp_path, 1500.0) == headline


def test_sentences_are_paragraphs_and_tables_are_tables(mine):
    page = Page(mine[0])
    assert any(words.startswith("Notice: 94% of the slots stood idle") for words in page.words["p"])
    assert "total_steps" in page.words["dt"] and "9600" in page.words["dd"]
    assert len(page.words["table"]) == len(page.words["thead"]) > 8
    assert len(page.words["h2"]) == 15
    assert any(words.startswith("rps") for words in page.words["tr"])


def test_what_is_not_about_the_readers_requests_has_a_badge(mine):
    text, printed, _ = mine
    badges = [words for words in Page(text).words["p"] if words.startswith("Recorded")]
    assert len(badges) == 5 and badges[-1] == "Recorded runs of real servers, not yours"
    assert badges[0] == ("Recorded requests, not yours (no arrivals, and this lab needs them: "
                         "a gap in each record, or a trace with arrivals)")
    assert printed == (
        f"report.html: 15 sections, 13 pictures, {len(text) // 1000} kB\n"
        "The second lab's part: recorded requests, not yours (no arrivals, and this lab needs them: "
        "a gap in each record, or a trace with arrivals).\n")


def test_nothing_of_the_readers_machine_is_in_it(mine):
    text, _, folder = mine
    assert folder not in text and "/tmp" not in text and str(LAB) not in text
    assert not re.search(r"found \{|&quot;prompt_tokens", text), "a piece of JSON"


def test_the_alternative_text_is_the_finding(mine):
    alts = Page(mine[0]).alts
    assert len(alts) == 13 and all(re.search(r"\d", alt) and alt.endswith(".") for alt in alts)
    assert alts[0].startswith("Clients that meet 300 ms. P99: 2 clients or more")


def test_it_can_be_printed_and_shown_on_a_phone(mine):
    style = mine[0].split("<style>")[1].split("</style>")[0]
    printed, phone = (style.split(query)[1] for query in ("@media print", "@media (max-width: 44rem)"))
    assert "color-scheme: light" in printed and "header { break-inside: avoid }" in printed
    assert "table-header-group" in style
    assert mine[0].count("<section><header><h2>") == mine[0].count("</header>") == 15
    assert "overflow-wrap: anywhere" in style and "margin: 1rem -1rem" in phone and "overflow-x" not in style


def test_a_refusal_stands_in_its_place(mine):
    assert '<p class="trouble">Request 1 can never fit: it grows to 10299 tokens' in mine[0]
    assert Page(mine[0]).words["h1"] == ["What a server would make of -mine & <yours> \u00e9.json"]


def arguments_for(path, **more):
    return SimpleNamespace(**{"requests": path, "first": None, "costs": None} | more)


def test_which_requests_each_script_gets(tmp_path):
    """Requests with gaps go to the second lab too, and costs go to the first and third lab only."""
    path, costs = tmp_path / "gaps.json", tmp_path / "mine.txt"
    path.write_text('[{"gap": 1, "prompt_tokens": 10, "output_tokens": 3}, '
                    '{"gap": 2, "prompt_tokens": 9, "output_tokens": 3}]')
    costs.write_text("prefill_ms_per_token=0.1 step_ms=9 step_ms_per_sequence=0 overhead_ms=0")
    inputs = inputs_of(arguments_for(path, costs=costs, first=2), tmp_path)
    assert inputs.recorded == "" and inputs.costs.step_us == 9000
    assert inputs.options == {"mine": ["--requests=gaps.json", "--first=2", "--costs=../costs.txt"],
                              "records": ["--requests=gaps.json", "--first=2"], "fixed": []}
    jobs = jobs_of(inputs, 300.0)
    assert list(jobs)[:2] == ["plan", "tune"] and sorted(jobs) == sorted(["plan", *SCRIPTS]), "gaps are arrivals"
    assert jobs["tune"][0][-1] == jobs["tune"][1][4] == "--target-ttft-ms=300"
    assert jobs["orca_waste"][1][-2:] == ["--only", "waste.svg"] and "--costs=../costs.txt" not in jobs["orca_waste"][1]


def test_the_labs_own_requests_and_a_trace(tmp_path):
    (tmp_path / "own").mkdir()
    inputs = inputs_of(arguments_for(SHIPPED), tmp_path / "own")
    assert inputs.options == {"mine": [], "records": [], "fixed": []}
    assert badge_of("tune", inputs) == "" and "recorded" in badge_of("orca_waste", inputs)
    (tmp_path / "trace").mkdir()
    path = tmp_path / "trace.json"
    path.write_text('[{"arrival_ms": 0, "prompt_tokens": 10, "output_tokens": 3}, '
                    '{"arrival_ms": 5, "prompt_tokens": 9, "output_tokens": 3}]')
    jobs = jobs_of(inputs_of(arguments_for(path), tmp_path / "trace"), 200.0)
    assert list(jobs)[0] == "plan" and jobs["plan"][0][-2:] == ["--requests=trace.json", "--target-ttft-ms=200"]


def test_a_plan_comes_before_the_clients(tmp_path):
    """With its picture, if plan.py drew one."""
    (tmp_path / "tune.txt").write_text("target_ttft_ms=200.00 max_concurrency=0 throughput_at_target=0.00\n")
    (tmp_path / "tune.csv").write_text("concurrency\n1\n")
    (tmp_path / "plan.svg").write_text("<svg><desc>3 requests/s.</desc></svg>")
    printed = "Memory is unlimited.\nCosts are made up.\nOpen loop: 3 requests/s.\nplan.txt: a=1\n"
    results = {"plan": [report_run.Result(printed, "")],
               "tune": [report_run.Result("Step 8: x\nInfeasible: one misses it.\n", "")]}
    first, second = report.answers(results, tmp_path, 200.0)
    assert re.findall(r"<p.*", first) == [
        '<p class="first">What load may these requests become?</p>', "<p>Open loop: 3 requests/s.</p>",
        "<p>Memory is unlimited.</p>", "<p>Costs are made up.</p>"], "the answer, then what it rests on"
    assert 'alt="3 requests/s."' in first
    assert "No number of clients meets a p99 TTFT of 200 ms." in second
    assert "<p>Infeasible: one misses it.</p>" in second
    results["plan"] = [report_run.Result("", "This part was ended by signal 9.", True)]
    assert '<p class="trouble">This part was ended by signal 9.</p>' in report.answers(results, tmp_path, 200.0)[0]


def test_a_bad_file_is_one_line_and_names_the_file(tmp_path):
    path = tmp_path / "bad.json"
    path.write_text('[{"prompt_tokens": 0, "output_tokens": 2}]')
    done = script("report", "--requests", path, "--out", tmp_path / "out")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and f"{path}: record 0: prompt_tokens" in done.stderr
    assert not (tmp_path / "out").exists()


def test_percentiles_from_counts():
    """Of a billion equal gaps and one long one; and the same as from the numbers, to the last bit."""
    assert percentile_of_counts({8_000: 10**9, 90_000: 1}, 99) == 8_000
    assert percentile_of_counts({7: 1}, 99) == 7
    for seed in range(300):
        r = Random(seed)
        values = [r.randint(1, 12) for _ in range(r.randint(1, 60))]
        counts, percent = {value: values.count(value) for value in values}, r.randint(1, 99)
        assert percentile_of_counts(counts, percent) == percentile(values, percent)


# --- the parts of the page ----------------------------------------------------------------------------------------

SVG = "<svg><desc>Up &amp; down:\n5 %.</desc></svg>"
IMAGE = ('<img alt="Up &amp; down:\n5 %." '
         f'src="data:image/svg+xml;base64,{base64.b64encode(SVG.encode()).decode()}">')


def test_a_whole_page():
    """Names may break at _ and /. What follows a header in print stands within it: a picture or the first block."""
    part = Section("Why <so>?", "Recorded", [SVG], [Block("pairs", [("a_b", "1/2")]), Block("words", "A < b.")],
                   [("x.csv", [["n"], ["1"]])], ["It failed.", "So did <this>."])
    plain = Section("How?", "", [], [Block("table", [["n", "m"], ["1", ""]], "y_z.csv")], [], [])
    text = page("A_title \u00e9", ["<hr>"], [("what", "a_b")], [part, plain, Section("Where?", "", [], [], [], [])])
    head, body = text.split("</style></head><body>\n")
    assert head.split("<style>")[0] == (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>A_title &#233;</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">')
    assert body == "\n".join([
        "<h1>A_<wbr>title &#233;</h1>", "<hr>", "<dl><dt>what</dt><dd>a_<wbr>b</dd></dl>",
        "<section><header><h2>Why &lt;so&gt;?</h2>", '<p class="badge">Recorded</p>',
        '<p class="trouble">It failed.</p>', '<p class="trouble">So did &lt;this&gt;.</p>', f"{IMAGE}</header>",
        "<dl><dt>a_<wbr>b</dt><dd>1/<wbr>2</dd></dl>", "<p>A &lt; b.</p>", "",
        '<table><caption>x.csv</caption><thead><tr><th class="n">n</th></tr></thead><tbody>',
        '<tr><td class="n">1</td></tr>', "</tbody></table>", "</section>",
        "<section><header><h2>How?</h2>",
        '<table><caption>y_<wbr>z.csv</caption><thead><tr><th class="n">n</th><th class="n">m</th></tr></thead><tbody>',
        '<tr><td class="n">1</td><td class="n"></td></tr>', "</tbody></table></header>", "", "</section>",
        "<section><header><h2>Where?</h2>", "</header>", "</section>", "</body></html>\n"])


def test_a_whole_answer():
    assert answer(["First < all.", "Second."], [SVG], ["It failed."]) == "\n".join([
        '<div class="answer">', '<p class="first">First &lt; all.</p>', "<p>Second.</p>",
        '<p class="trouble">It failed.</p>', IMAGE, "</div>"])


def test_a_table_without_rows_has_its_header():
    assert table([["a", "b"]]) == "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody>\n\n</tbody></table>"


def test_a_table_of_12_rows_is_not_folded():
    rows = [["a"], *([str(i)] for i in range(12))]
    assert "details" not in table(rows, "some.csv")
    assert table([*rows, ["12"]]).startswith("<details><summary>table, 13 rows</summary><table>")


@pytest.mark.parametrize("cell, is_number", [
    ("1", True), ("-1.5", True), ("+3", True), ("12,597", True), ("1e-05", True), ("2e+9", True), ("27%", True),
    ("-", False), ("2 ms", False), ("unlimited", False), ("e5", False), ("1 2", False), ("5%%", False)])
def test_what_is_a_number(cell, is_number):
    assert bool(NUMBER.fullmatch(cell)) == is_number


def small_inputs(folder, **more):
    """Three requests, given as a file of this folder."""
    path = folder / "three.json"
    path.write_text('[{"prompt_tokens": 10, "output_tokens": 1000}, {"prompt_tokens": 1200, "output_tokens": 1000}, '
                    '{"prompt_tokens": 30, "output_tokens": 1000}]')
    return inputs_of(arguments_for(path, **more), folder)


def test_facts(tmp_path, monkeypatch):
    """p99 of 10, 30 and 1,200: 30 + 0.98 x 1,170 = 1,176.6."""
    monkeypatch.setattr(report, "version", lambda: "v1")
    inputs = small_inputs(tmp_path)
    args = SimpleNamespace(requests=Path("/far/away/three.json"), first=None, costs=None, target_ttft_ms=1500.0)
    *found, (what, date) = report.facts(args, inputs)
    assert found == [
        ("requests", f"three.json: {inputs.trace}"), ("prompt tokens", "median 30, p99 1,177, most 1,200"),
        ("output tokens", "median 1,000, p99 1,000, most 1,000"), ("costs", "the lab's own, not measured on a server"),
        ("prefill", "0.05 ms a prompt token"), ("step", "8 ms with 1 sequence, 8 ms with 32"),
        ("target", "p99 TTFT of 1,500 ms"),
        ("command", "python3 lb2/report.py --requests three.json --target-ttft-ms 1500"), ("version", "v1")]
    assert what == "date" and re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    args = SimpleNamespace(requests=Path("a/b.json"), first=2, costs=Path("c/costs.txt"), target_ttft_ms=0.5)
    costs = Costs(prefill_us_per_token=120, step_us=7000, step_us_per_sequence=100, overhead_us=1500)
    found = dict(report.facts(args, inputs._replace(costs=costs)))
    assert (found["costs"], found["prefill"]) == ("from costs.txt", "0.12 ms a prompt token")
    assert found["step"] == "7.1 ms with 1 sequence, 10.2 ms with 32"
    assert found["outside the server"] == "1.5 ms of every TTFT"
    assert found["command"] == (
        "python3 lb2/report.py --requests b.json --target-ttft-ms 0.5 --first 2 --costs costs.txt")


@pytest.mark.parametrize("top, statuses, version", [
    (LAB.parent, (0, 0), "v1-5"), (LAB.parent.parent, (0, 0), "none"), (LAB.parent, (128, 0), "none"),
    (LAB.parent, (0, 128), "none")])
def test_the_version_is_of_this_project(monkeypatch, top, statuses, version):
    """Not of a repository around it; and without git there is none."""
    answers = {"rev-parse": (statuses[0], f"{top}\n"), "describe": (statuses[1], "v1-5\n")}

    def git(command, **_):
        status, printed = answers[command[3]]
        return SimpleNamespace(returncode=status, stdout=printed)

    monkeypatch.setattr(report.subprocess, "run", git)
    assert report.version() == version

    def missing(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(report.subprocess, "run", missing)
    assert report.version() == "none"


def test_a_section_holds_what_its_script_printed_and_drew(tmp_path):
    """What the file is was said at the top of the page; the second command is the drawing."""
    inputs = small_inputs(tmp_path)
    (tmp_path / "slots.svg").write_text(SVG)
    printed = f"three.json: {inputs.trace}, and more\nStep 1: x\nstatic.txt: a=1\n"
    results = [report_run.Result(printed, ""), report_run.Result("Pictures in x:\nsteps.svg is not drawn: odd\n", "")]
    assert report.section_of("static", results, inputs, tmp_path) == Section(
        report.question("static"), "", [SVG], [Block("words", "Step 1: x"), Block("pairs", [("a", "1")])], [],
        ["steps.svg is not drawn: odd"])
    results = [report_run.Result("", "Odd."), report_run.Result("steps.svg is not drawn: odd\n", "Odd.", True)]
    assert report.section_of("static", results, inputs, tmp_path).troubles == ["Odd."]


def test_the_sentences_and_the_picture_of_tune_are_the_answer(tmp_path):
    for name in ("tune.svg", "ttft.svg"):
        (tmp_path / name).write_text(name)
    results = [report_run.Result("Step 8: x\ntune.txt: a=1\nNotice: y.\n", "")]
    part = report.section_of("tune", results, small_inputs(tmp_path), tmp_path)
    assert (part.blocks, part.pictures) == ([Block("pairs", [("a", "1")])], ["ttft.svg"])


@pytest.mark.parametrize("printed, shown", [
    ("", True), ("queue.csv:\nrps,wait\n5,44\n", False), ("rps  wait  more\n  5    44     1\n", False),
    ("rps  other\n  5     44\n", True)])
def test_a_file_that_was_not_printed_is_a_table_of_the_section(tmp_path, printed, shown):
    """It was, if a table begins with its columns."""
    (tmp_path / "queueing.csv").write_text("rps,wait\n5,44\n")
    part = report.section_of("queueing", [report_run.Result(printed, "")], small_inputs(tmp_path), tmp_path)
    assert part.tables == ([("queueing.csv", [["rps", "wait"], ["5", "44"]])] if shown else [])


def test_the_question_of_a_section_is_the_first_sentence_of_its_script():
    assert report.question("tune") == (
        "How much concurrency can I allow and still meet my TTFT target, at p99?")


def test_jobs_in_full(tmp_path):
    """Those that take long first; pictures are drawn from the files that the script wrote."""
    inputs = small_inputs(tmp_path, first=3)
    jobs = jobs_of(inputs, 1500.0)
    assert list(jobs) == ["tune", "paged_chunked", "paged_prefix", "paged_preemption", "static", "continuous",
                          "compare", "maxseqs", "queueing", "cost", "orca_waste", "orca_curves", "orca_homogeneous",
                          "orca_reservation", "measured"]
    mine = ["--requests=three.json", "--first=3"]
    assert jobs["queueing"] == [
        [sys.executable, str(LAB / "queueing.py"), "--out=../made", *mine],
        [sys.executable, str(LAB / "pictures.py"), "--out=../made", "--results=../made", "--target-ttft-ms=1500", *mine,
         "--only", "queue.svg"]]
    assert jobs["tune"][0] == [sys.executable, str(LAB / "tune.py"), "--out=../made", *mine, "--target-ttft-ms=1500"]
    assert jobs["cost"] == [[sys.executable, str(LAB / "cost.py"), "--out=../made", *mine]]
    assert jobs["measured"][0] == [sys.executable, str(LAB / "measured.py"), "--out=../made"]
    drawn = {name: job[1][job[1].index("--only") + 1 :] for name, job in jobs.items() if len(job) > 1}
    assert drawn == {name: pictures for name, (_, pictures) in SCRIPTS.items() if pictures}
    assert sorted(picture for some in drawn.values() for picture in some) == sorted(files(LAB / "pictures"))
    assert badge_of("queueing", inputs) == "" and badge_of("measured", inputs) == (
        "Recorded runs of real servers, not yours")
    assert badge_of("orca_waste", inputs) == inputs.recorded == (
        "Recorded requests, not yours (no arrivals, and this lab needs them: a gap in each record, "
        "or a trace with arrivals)")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given", "made", "three.json"]


@pytest.mark.parametrize("broken", ["requests", "costs"])
def test_a_complaint_names_the_file_that_was_given(tmp_path, broken):
    """And not its copy."""
    bad, run = tmp_path / "bad.txt", tmp_path / "run"
    bad.write_text("nothing")
    run.mkdir()
    given = arguments_for(bad) if broken == "requests" else arguments_for(SHIPPED, costs=bad)
    with pytest.raises(BadInput) as refused:
        inputs_of(given, run)
    assert str(refused.value).startswith(f"{bad}: ") and str(run) not in str(refused.value)


# --- scripts side by side -----------------------------------------------------------------------------------------


def python(code):
    return [sys.executable, "-c", code]


def outcome(*commands, seconds=20):
    """The Results of one job."""
    ((name, results),) = report_run.play_all({"job": list(commands)}, LAB, 2, seconds)
    return results


def test_what_a_script_prints():
    first, second = outcome(python("print('one')"), python("print('two')"))
    assert first == ("one\n", "", False) and second == ("two\n", "", False)


def test_a_refusal_is_no_failure():
    code = "import sys; sys.stderr.write('x.py: error: a.json: record 3: odd, found {\"a\": 1}\\n'); sys.exit(2)"
    assert outcome(python(code)) == [("", "A.json: record 3: odd.", False)]


@pytest.mark.parametrize("error, sentence", [
    ("", ""), ("odd", "Odd."), ("odd.", "Odd."), ("Odd, found 5", "Odd, found 5."), ('odd, found {"a": 1}', "Odd."),
    ("odd found [1]", "Odd."), ('odd, found "x"', "Odd.")])
def test_an_error_is_a_sentence_without_the_json_that_was_found(error, sentence):
    assert report_run.plain(error) == sentence


def test_as_many_jobs_run_together_as_are_asked_for(tmp_path):
    """The first job ends as soon as the second has begun: two together end, and one alone waits until it is stopped."""
    flag = tmp_path / "flag"
    waits = python(f"import os, time\nwhile not os.path.exists({str(flag)!r}): time.sleep(0.01)\nprint('seen')")
    jobs = {"waits": [waits, python("print('after')")], "begins": [python(f"open({str(flag)!r}, 'w')")]}
    assert dict(report_run.play_all(jobs, LAB, 2, 20)) == {
        "waits": [report_run.Result("seen\n", ""), report_run.Result("after\n", "")],
        "begins": [report_run.Result("", "")]}
    flag.unlink()
    alone = list(report_run.play_all({"waits": [waits], "begins": jobs["begins"]}, LAB, 1, 0.3))
    assert [name for name, _ in alone] == ["waits", "begins"] and alone[0][1][0].trouble.startswith("Stopped after 0.3")


@pytest.mark.parametrize("code, trouble", [
    ("raise ValueError('oh')", "This part failed (status 1). ValueError: oh."),
    ("import sys; sys.exit(3)", "This part failed (status 3). It said nothing."),
    ("import sys; sys.stderr.write('two\\nlines\\n'); sys.exit(2)", "This part failed (status 2). Lines."),
    ("import sys; sys.stderr.write('x: error: a\\nand more\\n'); sys.exit(2)", "This part failed (status 2). And more."),
    ("import os; os.kill(os.getpid(), 9)", "This part was ended by signal 9."),
    ("import time; time.sleep(60)", "Stopped after 0.2 seconds. Run alone, the script has no time limit."),
])
def test_a_failure_says_so(code, trouble):
    limit = 0.2 if "sleep" in code else 20
    (result,) = outcome(python(code), seconds=limit)
    assert result == ("", trouble, True)


def test_a_script_that_is_stopped_leaves_no_process(tmp_path):
    """It and its child hold the end of a pipe. The pipe is at its end when both have ended."""
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    code = f"import os, time; pipe = open({str(tmp_path / 'pipe')!r}, 'w'); os.fork(); time.sleep(60)"
    (result,) = outcome(python(code), seconds=0.5)
    assert result.trouble.startswith("Stopped after 0.5 seconds.")
    assert select.select([reading], [], [], 20) == ([reading], [], []) and os.read(reading, 1) == b""
    os.close(reading)


def test_the_page_is_written_when_a_part_fails(tmp_path):
    """No time at all for any script: every section says so, and the status is 1."""
    done = script("report", "--out", tmp_path, "--seconds", 0.001)
    summary, missing = done.stdout.splitlines()
    assert done.returncode == 1 and re.fullmatch(r"report.html: 15 sections, 0 pictures, \d+ kB", summary)
    names, rest = missing.removeprefix("Parts of ").split(" are ")
    assert sorted(names.split(", ")) == sorted(SCRIPTS) and rest == "missing; report.html says why in their place."
    text = (tmp_path / "report.html").read_text()
    assert "How many clients meet the target is not known." in text
    assert text.count("Stopped after 0.001 seconds") >= 15


@pytest.mark.parametrize("left", [0, 1])
def test_an_interrupt_while_a_script_starts_ends_that_script_too(monkeypatch, left):
    """The first script of a job, or the one after it."""
    started, popen = [], subprocess.Popen

    def interrupted(*arguments, **options):
        started.append(popen(*arguments, **options))
        if len(started) == left + 1:
            signal.raise_signal(signal.SIGINT)
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    commands = [python("pass")] * left + [python("import time; time.sleep(60)")]
    with pytest.raises(KeyboardInterrupt):
        list(report_run.play_all({"a": commands}, LAB, 1, 30))
    assert len(started) == left + 1 and started[-1].poll() == -signal.SIGKILL


def test_a_script_starts_with_the_signals_of_the_report():
    code = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []))"
    (result,) = outcome(python(code), seconds=30)
    assert result.printed == "set()\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_and_its_scripts(tmp_path, number):
    child = subprocess.Popen([sys.executable, str(LAB / "report.py"), "--out", str(tmp_path)], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, preexec_fn=heed_ctrl_c)
    started = time.monotonic()
    while not children_of(child.pid) and time.monotonic() < started + 10:
        time.sleep(0.02)
    workers = children_of(child.pid)
    child.send_signal(number)
    said = child.communicate(timeout=10)
    assert workers and child.returncode == 128 + number and said == ("", "") and files(tmp_path) == {}
    assert not any(alive(pid) for pid in workers)


def children_of(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout.split()
    return [int(one) for one in found]


def alive(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


# --- words and tables ---------------------------------------------------------------------------------------------


def test_sentences_of_several_lines_are_one_again(capsys):
    random = Random(8)
    for _ in range(300):
        words = [random.choice(["a", "p99", "20 ms", "5 %", "requests", "with max_num_seqs=3;", "x" * random.randrange(1, 90)])
                 for _ in range(random.randrange(1, 60))]
        said = [f"Notice: {' '.join(words)}.", "Another one."]
        for sentence in said:
            say(sentence)
        assert sentences(blocks(capsys.readouterr().out)) == said
    say("A sentence that ends well before the end of a line.")
    say("Another one.")
    assert sentences(blocks(capsys.readouterr().out)) == [
        "A sentence that ends well before the end of a line.", "Another one."]
    long = "A line that no say has written is not joined with the next, however long it is: " + "word " * 9
    assert sentences(blocks(f"{long}\nNext.\n")) == [long.strip(), "Next."]


def test_blocks():
    printed = ("Step 6: the queue\nqueue.csv:\nrps,p99_wait_ms\n5,44.8\nstatic.txt: a=1 b=two\n"
               "rate  mode   deadlock_s  done\n   4  none               1000\n  12  paged        9.7   516\n"
               "Notice: it grows, x=1.\n")
    assert blocks(printed) == [
        Block("words", "Step 6: the queue"),
        Block("table", [["rps", "p99_wait_ms"], ["5", "44.8"]], "queue.csv"),
        Block("pairs", [("a", "1"), ("b", "two")]),
        Block("table", [["rate", "mode", "deadlock_s", "done"], ["4", "none", "", "1000"],
                        ["12", "paged", "9.7", "516"]]),
        Block("words", "Notice: it grows, x=1."),
    ]
    assert sentences(blocks(printed)) == ["Step 6: the queue", "Notice: it grows, x=1."]


def test_every_table_has_its_own_caption():
    printed = "a.csv, some words:\nx,y\n1,2\nNotice: a, b.\nx  y\n1  2\n\nb.csv:\nx,y\n3,4\n"
    assert blocks(printed) == [
        Block("table", [["x", "y"], ["1", "2"]], "a.csv, some words"), Block("words", "Notice: a, b."),
        Block("table", [["x", "y"], ["1", "2"]]), Block("table", [["x", "y"], ["3", "4"]], "b.csv")]
    assert blocks("a=1 b=\nfile.txt: c=x=y\n a, b \n") == [
        Block("pairs", [("a", "1"), ("b", "")]), Block("pairs", [("c", "x=y")]), Block("words", "a, b")]


def test_cells_are_where_columns_are_blank():
    """Two spaces part columns; one does not, even where it is below one."""
    assert cells_of(["a b  cc   d", "e f   g", "  h  i   jj"]) == [
        ["a b", "cc", "d"], ["e f", "g", ""], ["h", "i", "jj"]]
    assert cells_of(["a,b", "1,"]) == [["a", "b"], ["1", ""]]


def test_a_cell_of_two_words_is_one_cell():
    assert blocks("run  request 1\na    request 2\n") == [Block("table", [["run", "request 1"], ["a", "request 2"]])]


def test_a_table_has_numbers_right_and_a_long_one_is_folded():
    text = table([["run", "error_percent", "note"], ["a", "-1.5", "<x>"], ["b", "", "2 ms"]], "some.csv")
    assert '<td>a</td><td class="n">-1.5</td><td>&lt;x&gt;</td>' in text and "error_<wbr>percent" in text
    assert "<details>" not in text
    assert "<summary>some.csv, 13 rows</summary>" in table([["a"], *([str(i)] for i in range(13))], "some.csv")
    assert 'class="wide"' in table([list("abcdef")]) and 'class="wide"' not in table([list("abcde")])
