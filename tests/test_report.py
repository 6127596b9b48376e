"""report.html: one page, of the user's own requests, that needs nothing else."""

import base64
import re
from html.parser import HTMLParser

import pytest
from fixture import files, script

REQUESTS = '[{"prompt_tokens": 10, "output_tokens": 3}, {"prompt_tokens": 700, "output_tokens": 9}]'


class Page(HTMLParser):
    """Collects what a page refers to, and its headings and tables."""

    def __init__(self, text):
        super().__init__()
        self.sources, self.counts, self.open = [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.sources += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    path = folder / "mine & <yours> é.json"
    path.write_text(REQUESTS)
    done = script("report", "--requests", path, "--out", folder / "out", "--target-ttft-ms", 300)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the second lab's part is about its own recorded requests" in done.stdout and list(files(folder / "out")) == ["report.html"]
    return (folder / "out" / "report.html").read_text(encoding="ascii")


def test_the_page_needs_nothing_else(report):
    page = Page(report)
    assert page.open == [] and page.counts["img"] == 7 and "script" not in page.counts
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.sources)
    drawn = [base64.b64decode(source.partition(",")[2]).decode() for source in page.sources]
    text = report + "".join(drawn)
    assert set(re.findall(r"https?://[^\s\"'<]+", text)) == {"http://www.w3.org/2000/svg"}


def test_it_is_about_the_users_requests_and_settings(report):
    assert "What a server would make of mine &amp; &lt;yours&gt; &#233;.json" in report
    assert "median 355, p99 693" in report and "p99 TTFT of 300 ms" in report
    assert "static.txt: total_steps=9 throughput_tps=111.63 slot_util=0.0833" in report
    assert "target_ttft_ms=300" in report
    assert Page(report).counts["h2"] == 15
    assert "tune.csv, 2 rows" in report and "<td>2</td>" in report


def test_the_page_says_what_is_not_about_the_users_requests(report):
    assert "orca_curves.svg is not drawn: " in report and "gap, the seconds since the arrival before, is missing" in report
    assert "the second lab&#x27;s part is about its own recorded requests, not about these" in report


def test_requests_with_gaps_are_shown_in_the_second_lab_too(tmp_path):
    path = tmp_path / "gaps.json"
    path.write_text('[{"gap": 1, "prompt_tokens": 10, "output_tokens": 3}, {"gap": 2, "prompt_tokens": 9, "output_tokens": 3}]')
    assert "recorded" not in script("report", "--requests", path, "--out", tmp_path).stdout
    assert "462560" not in (tmp_path / "report.html").read_text(), "which the recorded workload computes at 1 request/s"


def test_what_a_script_refuses_is_said_in_its_place(tmp_path):
    path = tmp_path / "long.json"
    path.write_text('[{"prompt_tokens": 9600, "output_tokens": 2}]')
    assert script("report", "--requests", path, "--out", tmp_path).returncode == 0
    assert "request 0 can never fit: it grows to 9601 tokens" in (tmp_path / "report.html").read_text()
