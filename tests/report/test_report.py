"""report.html: the answer on one page that needs nothing else, with the numbers of the result files."""

import json
import re
from html.parser import HTMLParser
from random import Random

import plan
import pytest
import report
from common import Costs, Requests
from fixture import LAB, assert_refused, files, read_pairs, read_rows, script
from reporting.page import STYLE, image, listed, page, table

TRACE = LAB.parent / "fixtures" / "clocked" / "async_open5.json.gz"
COSTS = "prefill_ms_per_token=0.05 step_ms=8 step_ms_per_sequence=0.05 overhead_ms=4"


class Page(HTMLParser):
    """Collects what a page refers to, its tables and the words of its elements; all must be closed."""

    def __init__(self, text):
        super().__init__()
        self.sources, self.alts, self.open, self.words, self.tables = [], [], [], {}, []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.words.setdefault(tag, []).append("")
        named = dict(attributes)
        self.sources += [named[name] for name in ("src", "href") if name in named]
        self.alts += [named["alt"]] if "alt" in named else []
        self.tables += [[]] if tag == "table" else []
        if tag in ("tr", "td", "th"):
            (self.tables[-1] if tag == "tr" else self.tables[-1][-1]).append([] if tag == "tr" else "")
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data
        for tag in set(self.open):
            self.words[tag][-1] += data

    @property
    def headline(self):
        (found,) = self.words["h1"]
        return found


def report_of(out, *options):
    """The Page of a report, and the finished process."""
    done = script("report", "--out", out, *options)
    assert (done.returncode, done.stderr) == (0, "") and f"\n{out / 'report.html'}: " in done.stdout, done.stderr
    return Page((out / "report.html").read_text(encoding="ascii")), done


@pytest.fixture
def reported(tmp_path, monkeypatch):
    """Gives the Page of a report made in this process, whose plan has streams a third as long as in truth, or less."""
    monkeypatch.setattr("planning.loads.LONG", 100)
    monkeypatch.setattr("planning.loads.WAVES", 2)
    monkeypatch.setattr(plan, "cores", lambda: 1)

    def page_of(*options):
        monkeypatch.setattr("sys.argv", ["report.py", "--out", str(tmp_path), *map(str, options)])
        report.main()
        return Page((tmp_path / "report.html").read_text(encoding="ascii"))

    return page_of


def requests_file(folder, n, seed=3, **more):
    r = Random(seed)
    path = folder / "mine.json"
    rows = [{"prompt_tokens": r.randint(1, 400), "output_tokens": r.randint(1, 60), **more} for _ in range(n)]
    path.write_text(json.dumps(rows))
    return path


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    out = tmp_path_factory.mktemp("lab")
    return (out / "report.html", *report_of(out))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    for name in ("static", "continuous", "compare", "maxseqs", "queueing", "cost", "tune"):
        script(name, "--out", out)
    return out


def test_the_answer_of_the_labs_list(lab, results):
    """Step 8's, with what it rests on in the same sentence: 14 average requests of 543.5 tokens each fill 7,610."""
    _, found, done = lab
    assert found.headline == ("14 clients meet a p99 TTFT of 200 ms on the lab's made-up server, "
                              "if its KV cache holds 7,610 tokens.")
    row = read_rows(results / "tune.csv")[int(read_pairs(results / "tune.txt")["max_concurrency"]) - 1]
    assert found.tables[0] == [["measure", "target", "14 clients"],
                               ["p99 time to first token (TTFT)", "200 ms", f"{float(row['p99_ttft_ms']):.0f} ms"],
                               ["mean TTFT", "", f"{float(row['mean_ttft_ms']):.3g} ms"],
                               ["tokens per second", "", f"{float(row['throughput_tps']):,.0f}"]]
    said = " ".join(found.words["li"])
    assert "Not measured: the server." in said and "Not known: the size of the KV cache." in said
    assert "The p99 of 100 requests rests on few: record 500 or more." in said
    assert found.alts[0].startswith("14 clients meet a p99 TTFT of 200 ms; the mean promises 33.")
    assert "python3 lb2/report.py --requests requests.json --target-ttft-ms 200" in said
    assert done.stdout.startswith("requests.json: 100 requests (this lab). The answer\nThe eight steps\n")


def test_the_eight_steps_carry_the_numbers_of_the_result_files(lab, results):
    _, found, _ = lab
    steps = [[[cell.replace(",", "") for cell in row] for row in rows] for rows in found.tables[1:]]
    assert [words[0] for words in found.words["summary"]] == list("12345678") and len(steps) == 8
    static, continuous, compare, maxseqs, cost = (read_pairs(results / f"{name}.txt") for name in (
        "static", "continuous", "compare", "maxseqs", "cost"))
    assert steps[0][1] == ["0", "16", "53", "1000", "28%"] and len(steps[0]) == 8
    for rows, name, pairs in ((steps[1], "static", static), (steps[2], "continuous", continuous)):
        assert rows[1] == [name, *pairs.values()]
    assert steps[3][1] == list(compare.values())
    assert steps[4][1][:2] == list(maxseqs.values())
    assert steps[5][1:] == [[row["rps"], row["avg_queue"], f"{float(row['p99_wait_ms']):.1f}"]
                            for row in read_rows(results / "queue.csv")]
    prefill, decode = (f"{float(cost[key]) / 1000:.1f}" for key in ("total_prefill_ms", "total_decode_ms"))
    assert steps[6][1] == [prefill, decode, cost["decode_share"]]
    tuned = {row["concurrency"]: list(row.values()) for row in read_rows(results / "tune.csv")}
    assert [row[0] for row in steps[7][1:]] == ["1", "2", "4", "8", "16", "32", "64", "100"]
    assert all(row == tuned[row[0]] for row in steps[7][1:])


def test_the_page_needs_nothing_else(lab):
    """No script, no address; pictures are in it; nothing of this machine is."""
    path, found, _ = lab
    text = path.read_text()
    assert all(source.startswith("data:image/svg+xml;base64,") for source in found.sources) and len(found.sources) == 2
    assert not re.search(r"<script|<link|https?:|@import|url\(", text) and str(LAB.parent) not in text
    assert "orca" not in text.lower() and "paged" not in text.lower()
    assert text.count('width="576" height="') == 2
    assert "@media screen and (max-width: 44rem)" in STYLE and "@media (max-width" not in STYLE, "paper is narrower"
    assert "@media screen and (prefers-color-scheme: dark)" in STYLE and "@media print" in STYLE


@pytest.mark.parametrize("options, words", [
    (["--first", "1"], "1 client, the most tried, still meets a p99 TTFT of 200 ms on the lab's made-up server, if "),
    (["--target-ttft-ms", "5"], "No number of clients meets a p99 TTFT of 5 ms on the lab's made-up server: one alone "
                                "has 79.2 ms."),
])
def test_headlines_of_lists(tmp_path, options, words):
    assert report_of(tmp_path, *options)[0].headline.startswith(words)


@pytest.mark.parametrize("more, words", [
    ("kv_tokens=3000", "5 clients meet a p99 TTFT of 200 ms on the server of my.txt, whose KV cache of 3,000 tokens "
                       "holds no more."),
    ("kv_tokens=3000000", "200 ms on the server of my.txt, whose KV cache of 3,000,000 tokens holds them."),
    ("kv_tokens=300", "Not one request fits into the KV cache of the server of my.txt: 300 tokens."),
    ("max_num_seqs=4", "4 clients, the most tried, still meet a p99 TTFT of 200 ms on the server of my.txt"),
])
def test_the_headline_heeds_the_servers_memory_and_limit(tmp_path, more, words):
    (tmp_path / "my.txt").write_text(f"{COSTS} {more} measured_sequences=2")
    found, _ = report_of(tmp_path, "--costs", tmp_path / "my.txt")
    assert words in found.headline
    said = " ".join(found.words["li"])
    assert "Measured on the server: 0.05 ms a prompt token" in said and "--costs my.txt" in said
    assert ("Extrapolated" in said) == ("kv_tokens=300" != more) and ("Not known: the size" in said) == ("max" in more)


def test_a_trace_has_the_plans_answer(reported, tmp_path, monkeypatch):
    """The load of plan.txt beside today's 5 requests/s, the measures at it, and the plan's own words."""
    options = ["--requests", str(TRACE), "--first", "60"]
    found = reported(*options)
    monkeypatch.setattr("sys.argv", ["plan.py", *options, "--out", str(tmp_path)])
    plan.main()
    planned = read_pairs(tmp_path / "plan.txt")
    today = float(planned["trace_rps"])
    assert found.headline == (
        f"The lab's made-up server carries {planned['max_rps']} requests/s within p99 TTFT 200 ms and TPOT 50 ms, "
        f"{float(planned['max_rps']) / today:.2g} times today's {planned['trace_rps']}.")
    assert found.tables[0][:3] == [["measure", "target", f"at {planned['max_rps']} requests/s"],
                                   ["p99 TTFT", "200 ms", f"{planned['ttft_ms']} ms"],
                                   ["p99 TPOT", "50 ms", f"{planned['tpot_ms']} ms"]]
    assert found.tables[0][3][:2] == ["p99 E2E", "none"]
    said = " ".join(found.words["li"])
    assert f"Today: {planned['trace_rps']} requests/s." in said and "Open loop: " in said
    assert "Planned with" not in said
    assert found.alts[0].startswith(f"One server carries {planned['max_rps']} requests/s")
    assert found.tables[8][0][0] == "clients", "step 8 is there, too"


def test_a_measured_run_that_disagrees_is_in_the_headline(reported, tmp_path):
    """The recorded server takes 8 ms a step; with costs of 4 ms the predictions miss what was measured."""
    (tmp_path / "my.txt").write_text(COSTS.replace("step_ms=8", "step_ms=4"))
    found = reported("--requests", TRACE, "--costs", tmp_path / "my.txt")
    assert found.headline.endswith(". But a measured run disagrees: see what this rests on.")
    assert "DISAGREEMENT" in " ".join(found.words["li"])


def test_a_trace_that_one_server_cannot_serve(reported, tmp_path):
    """50 requests a second of 2,000 prompt tokens, 0.1 s of prefill each: several servers are needed."""
    path = requests_file(tmp_path, 40, gap=0.02, output_tokens=400)
    found = reported("--requests", path)
    assert re.fullmatch(r"The lab's made-up server meets the targets up to its capacity of [\d.]+ requests/s; today "
                        r"comes 50\.", found.headline), found.headline
    path = requests_file(tmp_path, 150, gap=0.02, prompt_tokens=2000)
    found = reported("--requests", path, "--target-ttft-ms", "400")
    assert re.search(r"carries [\d.]+ requests/s within .*, 0\.\d+ times today's [\d.]+: today needs about \d+ of "
                     r"them\.$", found.headline), found.headline
    load, today, servers = map(float, re.search(r"carries ([\d.]+) .* today's ([\d.]+): .* about (\d+)",
                                                found.headline).groups())
    assert servers - 1 < today / load <= servers
    found = reported("--requests", path, "--target-ttft-ms", "2")
    assert re.fullmatch(r"No load meets p99 TTFT 2 ms on the lab's made-up server: a request alone misses it; today "
                        r"comes [\d.]+ requests/s\.", found.headline), found.headline
    assert found.tables[0][0] == ["measure", "target", "a request alone"] and len(found.sources) == 1


def test_long_files_take_the_time_of_short_ones(tmp_path, monkeypatch):
    """Beyond LONG requests step 8 ends at its first miss, or is left out for a trace; more than MOST are not taken."""
    monkeypatch.setattr(report, "LONG", 50)
    monkeypatch.setattr(report, "MOST", 80)
    monkeypatch.setattr(report, "PLANNED", 30)
    monkeypatch.setattr("planning.loads.WAVES", 2)
    monkeypatch.setattr("planning.loads.LONG", 100)
    monkeypatch.setattr(report, "save", lambda out, texts: pages.append(Page(texts["report.html"])))
    pages = []
    for more in ({}, {"gap": 0.5}):
        path = str(requests_file(tmp_path, 100, **more))
        monkeypatch.setattr("sys.argv", ["", "--requests", path, "--target-ttft-ms", "60", "--first", "90"])
        report.main()
    listed_only, trace = pages
    clients = int(listed_only.headline.split()[0])
    assert "the mean promises" not in listed_only.alts[0], "nobody knows: the scan ended before"
    assert int(listed_only.tables[-1][-1][0]) == clients + 1 < 80, "the first that misses is the last that is tried"
    assert "More clients were not tried: it takes long for 80 requests." in listed_only.words["p"]
    assert "Left out: it takes long for 80 requests. python3 lb2/tune.py answers it." in trace.words["p"]
    assert "Planned with the first 30 of 80 requests." in trace.words["li"]


def test_a_plan_is_asked_with_the_same_options(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(plan, "planned", lambda args: seen.append(args) or 1 / 0)
    (tmp_path / "my.txt").write_text(COSTS)
    args = report.arguments("").parse_args(["--requests", str(TRACE), "--costs", str(tmp_path / "my.txt")])
    args.target_ttft_ms, args.time_unit, args.columns = 300.0, "ms", ["unit=ms"]
    with pytest.raises(ZeroDivisionError):
        report.planned_answer(args, 400, 5.0)
    (asked,) = seen
    assert (asked.requests, asked.costs, asked.first, asked.target_ttft_ms, asked.time_unit, asked.columns) == (
        args.requests, args.costs, 400, 300.0, "ms", ["unit=ms"])


def test_bad_input_is_one_line_and_writes_nothing(tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text("[]")
    assert_refused(script("report", "--requests", bad, "--out", tmp_path / "out"), "report", "is empty")
    assert_refused(script("report", "--costs", bad, "--out", tmp_path / "out"), "report", "bad.json")
    assert files(tmp_path / "out") == {}


def test_words_are_escaped():
    """"table" and "listed" alike; an image has its finding and its size."""
    assert "<tr><th>a</th><th>&lt;</th></tr>" in table([["a", "<"]]) and "<li>a &amp; b</li>" in listed(["a & b"])
    shown = image('<svg width="576" height="99.5"><desc>It &lt; "that".</desc></svg>')
    assert shown.startswith('<img width="576" height="99.5" alt="It &lt; &quot;that&quot;." src="data:')
    assert "<h1>&#233; &amp; &lt;</h1>\n<p>x</p>\n</body>" in page("\u00e9 & <", ["", "<p>x</p>"])


@pytest.mark.parametrize("n, note", [(128, ""), (129, "The first of 9 batches.")])
def test_eight_batches_are_shown(n, note):
    """129 requests are eight batches of 16, and one of one."""
    _, rows, said = next(report.step_tables(Requests([5] * n, [2] * n), Costs(), []))
    assert len(rows) == 9 and rows[8][:2] == [7, 16] and said == note
