"""The pictures say what the result files say, to the last digit written, and every word in them can be read."""

import csv
import re
from math import log10
from random import Random
from xml.etree import ElementTree

import continuous
import oracle
import orca_reservation
import pictures
import pytest
import static
import svg
from common import Requests, load_requests
from fixture import LAB, SHIPPED, files, read_pairs, script
from orca_workload import Workload
from queueing import at_rate, unit_arrivals
from test_cli import make

NAMES = ["measured.svg", "orca_curves.svg", "orca_reservation.svg", "paged.svg", "queue.svg", "slots.svg", "tune.svg"]
SCRIPTS = [
    "measured",
    "static",
    "continuous",
    "compare",
    "queueing",
    "tune",
    "paged_preemption",
    "paged_prefix",
    "orca_curves",
    "orca_reservation",
]
XMLNS = "{http://www.w3.org/2000/svg}"
COMMITTED = {name: (LAB / "pictures" / name).read_text() for name in NAMES}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    for name in SCRIPTS:
        assert script(name, "--out", out).returncode == 0
    return out


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


# --- read a picture -----------------------------------------------------------------------------------------------


class Axis:
    """data-x or data-y of a panel, read back."""

    def __init__(self, words):
        kind, *numbers = words.split()
        self.log = kind == "log"
        self.low, self.high, self.start, self.end = map(float, numbers)

    def value(self, place):
        share = (place - self.start) / (self.end - self.start)
        if self.log:
            return 10 ** (log10(self.low) + share * (log10(self.high) - log10(self.low)))
        return self.low + share * (self.high - self.low)

    def is_at(self, place, written):
        """Is this the place of a number that is written with so many decimals? Places are rounded to 0.01."""
        half = 0.5 / 10 ** len(f"{written}.".split(".")[1])
        ends = sorted(self.value(place + slip) for slip in (-0.006, 0.006))
        return ends[0] - half <= float(written) <= ends[1] + half


def panel_of(text, name):
    """(x axis, y axis, {series: its elements}) of a panel."""
    panel = ElementTree.fromstring(text).find(f".//*[@data-panel='{name}']")
    groups = {group.get("data-series"): list(group) for group in panel.iter(f"{XMLNS}g") if group.get("data-series")}
    return Axis(panel.get("data-x")), Axis(panel.get("data-y")), groups


def points(elements):
    """The places of a line."""
    line = next(element for element in elements if element.tag == f"{XMLNS}polyline")
    return [tuple(map(float, place.split(","))) for place in line.get("points").split()]


def marks(elements):
    """The places of the marks."""
    drawn = (element.get("d") for element in elements if element.get("class") == "mark")
    return [(float(x), float(y)) for path in drawn for x, y in re.findall(r"M([\d.]+),([\d.]+)", path)]


def bars(elements):
    return [tuple(float(bar.get(side)) for side in ("x", "y", "width", "height")) for bar in elements]


def words(text):
    return [element.text for element in ElementTree.fromstring(text).iter(f"{XMLNS}text")]


def assert_drawn(axes, places, written):
    """Places against rows of (x, y) as they are written in a file."""
    assert len(places) == len(written)
    for (x, y), (x_written, y_written) in zip(places, written):
        assert axes[0].is_at(x, x_written), f"x {axes[0].value(x)}, and the file says {x_written}"
        assert axes[1].is_at(y, y_written), f"y {axes[1].value(y)}, and the file says {y_written}"


# --- the same numbers ---------------------------------------------------------------------------------------------


def test_the_committed_pictures_are_those_of_today(tmp_path):
    """Written by the script, with a list of them; to be renewed by `make pictures`."""
    done = script("pictures", "--out", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()[1:]) == NAMES
    assert files(tmp_path) == files(LAB / "pictures"), "stale: run make pictures"


def test_slots_show_every_request_and_every_idle_slot(results):
    """Bars of the requests against the oracle, one iteration at a time; what is idle is the rest; and the numbers."""
    requests = load_requests(SHIPPED)
    said = words(COMMITTED["slots.svg"])
    for name, refill in (("static", "batch"), ("continuous", "iteration")):
        played = oracle.play(requests, 16, [0] * 100, refill)
        end = max(played.finished_us)
        x, y, series = panel_of(COMMITTED["slots.svg"], name)
        held, idle = bars(series["requests"]), bars(series["idle"])
        starts, ends = sorted(x.value(bar[0]) for bar in held), sorted(x.value(bar[0] + bar[2] + 0.6) for bar in held)
        assert starts == pytest.approx([at / 1e6 for at in sorted(played.admitted_us)], abs=0.001)
        assert ends == pytest.approx([at / 1e6 for at in sorted(played.finished_us)], abs=0.002)
        slots = sorted({bar[1] for bar in held + idle})
        assert len(slots) == 16 and [y.value(at) for at in slots] == pytest.approx(range(16), abs=0.001)
        assert all(0.8 <= y.value(top + height) - y.value(top) < 1 for _, top, _, height in held + idle)
        for slot in slots:  # the bars of a slot meet, and fill it from 0 to the end
            row = sorted([(at, at + width + 0.6) for at, on, width, _ in held if on == slot]
                         + [(at, at + width) for at, on, width, _ in idle if on == slot])
            edges = [x.value(edge) for stay in row for edge in stay]
            assert edges[0] == 0 and edges[-1] == pytest.approx(end / 1e6, abs=0.002)
            assert edges[1:-1:2] == pytest.approx(edges[2:-1:2], abs=0.002)
        util = read_pairs(results / f"{name}.txt")["slot_util"]
        assert any(f"slot_util {util}" in line for line in said)
        assert any(f"ends at {end / 1e6:.2f} s" in line for line in said)
    assert f"{read_pairs(results / 'compare.txt')['speedup']} times the throughput" in said


def test_queue(results):
    """The p99 waits of queue.csv; all else, the mean too, recomputed with the oracle at a few rates."""
    x, y, series = panel_of(COMMITTED["queue.svg"], "wait")
    table = rows(results / "queue.csv")
    assert_drawn((x, y), marks(series["p99"]), [(row["rps"], row["p99_wait_ms"]) for row in table])
    rates = [x.value(at) for at, _ in points(series["mean"])]
    assert rates == pytest.approx([half / 2 for half in range(2, 81)], abs=0.001)
    requests = load_requests(SHIPPED)
    for rps in (1, 14, 40):
        waits = []
        for seed in range(20):
            arrivals = at_rate(unit_arrivals(seed, 100), rps)
            played = oracle.play(requests, 32, arrivals, "iteration")
            waits += [start - arrival for start, arrival in zip(played.admitted_us, arrivals)]
        waits.sort()
        rank = 0.99 * (len(waits) - 1)
        p99 = waits[int(rank)] + (rank - int(rank)) * (waits[int(rank) + 1] - waits[int(rank)])
        for name, ms in (("mean", sum(waits) / len(waits) / 1000), ("p99", p99 / 1000)):
            assert_drawn((x, y), [points(series[name])[2 * rps - 2]], [(rps, f"{ms:.6f}")])
    said = words(COMMITTED["queue.svg"])
    assert all(f"{float(row['p99_wait_ms']):,.0f}" in said for row in table)


def test_tune(results):
    ttft, tps = (panel_of(COMMITTED["tune.svg"], name) for name in ("ttft", "throughput"))
    table = rows(results / "tune.csv")
    lines = ((ttft, "mean", "mean_ttft_ms"), (ttft, "p99", "p99_ttft_ms"), (tps, "throughput", "throughput_tps"))
    for (x, y, series), name, column in lines:
        assert_drawn((x, y), points(series[name]), [(row["concurrency"], row[column]) for row in table])
    answer = read_pairs(results / "tune.txt")
    chosen = {"p99": int(answer["max_concurrency"]), "mean": 33}  # 33: what tune.py says that the mean would promise
    for name, n in chosen.items():
        row = table[n - 1]
        assert_drawn(ttft[:2], marks(ttft[2][f"{name} choice"]), [(n, row[f"{name}_ttft_ms"])])
        assert_drawn(tps[:2], marks(tps[2][f"{name} choice"]), [(n, row["throughput_tps"])])
    assert {"p99: 14", "mean: 33 (p99 477 ms)", "1,137", "1,832"} <= set(words(COMMITTED["tune.svg"]))
    target = re.match(r"M[\d.]+,([\d.]+)", ttft[2]["target"][0].get("d"))[1]
    assert ttft[1].is_at(float(target), answer["target_ttft_ms"])


def test_paged(results):
    x, y, series = panel_of(COMMITTED["paged.svg"], "throughput")
    table = rows(results / "paged_preemption.csv")
    for reserve, resume in (("true", "recompute"), ("true", "swap"), ("false", "recompute"), ("false", "swap")):
        name = ("with" if reserve == "true" else "without") + (", swap" if resume == "swap" else "")
        wanted = [row for row in table if (row["reserve_full_prompt"], row["resume"]) == (reserve, resume)]
        assert_drawn((x, y), marks(series[name]), [(row["max_num_seqs"], row["throughput_tps"]) for row in wanted])
        assert set(marks(series[name])) <= set(points(series[name]))
        assert (series[name][0].get("class") == "dash") == (resume == "swap")
    x, y, series = panel_of(COMMITTED["paged.svg"], "ratio")
    table = rows(results / "paged_prefix.csv")
    assert_drawn((x, y), marks(series["ratio"]), [(row["system_tokens"], row["ratio"]) for row in table])
    ((at, ratio),) = marks(series["beyond"])
    assert x.is_at(at, "2928") and y.value(ratio) == pytest.approx(8, abs=0.05)  # 2928: as paged_prefix.py prints
    assert "8 times from 2,928 tokens on" in words(COMMITTED["paged.svg"])


def test_orca_curves(results):
    x, y, series = panel_of(COMMITTED["orca_curves.svg"], "latency")
    slo = rows(results / "orca_slo.csv")
    wanted = {f"{row['scheduler']} {row['max_batch']}": [] for row in slo}
    for row in rows(results / "orca_curves.csv"):
        wanted[f"{row['scheduler']} {row['max_batch']}"].append((row["throughput_rps"], row["p50_ms_per_token"]))
    for name, places in wanted.items():
        assert_drawn((x, y), points(series[name]), places)
    for name, row in zip(wanted, slo):
        if name not in ("request 8", "iteration 32"):  # the best of either scheduler
            continue
        assert f"{float(row['throughput_rps']):.2f} by {name}" in words(COMMITTED["orca_curves.svg"])
        at = re.match(r"M([\d.]+),", series[f"{name} within"][0].get("d"))[1]
        assert x.is_at(float(at), row["throughput_rps"])
    target = re.match(r"M[\d.]+,([\d.]+)", series["target"][0].get("d"))[1]
    assert y.is_at(float(target), slo[0]["target_ms_per_token"])


def test_orca_reservation(results):
    x, _, series = panel_of(COMMITTED["orca_reservation.svg"], "tokens")
    table = rows(results / "orca_reservation.csv")
    assert x.high == 12_597
    used, reserved = bars(series["used"]), bars(series["reserved"])
    assert len(used) == len(reserved) == len(table)
    for mine, theirs, row in zip(used, reserved, table):
        assert mine[0] == x.start and mine[1] == theirs[1]
        assert x.is_at(mine[0] + mine[2], row["mean_used_tokens"])
        assert x.is_at(theirs[0] + theirs[2], row["mean_reserved_tokens"])
    (stuck,) = (row for row in table if row["deadlock_s"])
    ((at, y),) = marks(series["deadlock"])
    assert x.is_at(at, stuck["mean_used_tokens"]) and used[table.index(stuck)][1] < y < used[table.index(stuck)][1] + 16
    said = words(COMMITTED["orca_reservation.svg"])
    assert f"deadlock at {float(stuck['deadlock_s']):.1f} s, {stuck['finished']} of 1,000 served" in said
    modes = [row["reserve"] for row in table]
    assert [line for line in said if line in set(modes)] == modes, "a bar's name stands beside it, in the file's order"


def test_measured(results):
    """The runs that are predicted are where measured.csv says; those that the costs were fitted to are beside them."""
    x, y, series = panel_of(COMMITTED["measured.svg"], "ttft")
    table = {row["run"]: row for row in rows(results / "measured.csv") if row["measure"] == "p99_ttft_ms"}
    for column in ("measured", "predicted"):
        closed, alone = marks(series[column]), marks(series[f"{column} open"])
        assert [round(x.value(at)) for at, _ in closed] == [1, 4, 16] and len(alone) == 1
        assert y.is_at(closed[1][1], table["closed_04"][column])
        assert y.is_at(alone[0][1], table["open_060"][column])


# --- words that can be read ---------------------------------------------------------------------------------------

THIN, WIDE = set("ijlftrI1 .,:;'!|()[]/-"), set("mwMWGOQ@%")
SIZES = {"title": 20, "tick": 15}


def width(line, size, bold):
    """No less than what DejaVu Sans takes, the widest of the fonts that a browser may choose: units a letter."""
    letters = sum(0.42 if letter in THIN - {"1"} else 0.98 if letter in WIDE else 0.65 for letter in line)
    return size * letters * (1.1 if bold else 1)


def boxes(text):
    """(left, top, right, bottom, words) of every text."""
    found = []
    for element in ElementTree.fromstring(text).iter(f"{XMLNS}text"):
        kind = (element.get("class") or "").split()
        size = next((SIZES[name] for name in kind if name in SIZES), 16)
        wide = width(element.text, size, {"title", "head", "good", "bad"} & set(kind))
        left = float(element.get("x")) - (wide if "end" in kind else wide / 2 if "middle" in kind else 0)
        y = float(element.get("y"))
        found.append((left, y - 0.78 * size, left + wide, y + 0.24 * size, element.text))
    return found


def assert_legible(text):
    """Nothing hangs over an edge, no two words share a place, and nothing is written or drawn at no number."""
    root = ElementTree.fromstring(text)
    _, _, right, bottom = map(float, root.get("viewBox").split())
    placed = boxes(text)
    for box in placed:
        assert box[0] >= 0 and box[1] >= 0 and box[2] <= right and box[3] <= bottom, f"{box} leaves the picture"
    for i, a in enumerate(placed):
        for b in placed[:i]:
            apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
            assert apart, f"{a[4]!r} and {b[4]!r} overlap"
    assert not re.search(r"\b(nan|inf|None)\b", text)
    for element in root.iter():
        for name in ("points", "d", "x", "y", "width", "height"):
            numbers = map(float, re.findall(r"-?[\d.]+", re.sub(r"m[^M]*?z|v5", "", element.get(name) or "")))
            assert all(-0.01 <= number <= max(right, bottom) + 0.01 for number in numbers), (element.tag, name)


@pytest.mark.parametrize("name", NAMES)
def test_every_word_has_its_own_place(name):
    assert_legible(COMMITTED[name])
    assert min(map(int, re.findall(r"(\d+)px system-ui|font-size: (\d+)px", COMMITTED[name])[0][:1])) >= 15


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_stands_alone(name):
    """Well-formed, with a title and a description for screen readers, nothing fetched, nothing run, two themes."""
    text = COMMITTED[name]
    root = ElementTree.fromstring(text)
    assert root.tag == f"{XMLNS}svg" and root.get("role") == "img" and root.get("viewBox").startswith("0 0 640 ")
    title, description = root[0], root[1]
    assert title.tag == f"{XMLNS}title" and title.text.endswith("?") and title.text in words(text)
    assert description.tag == f"{XMLNS}desc" and re.search(r"\d", description.text) and description.text.endswith(".")
    assert text.count("http") == 1, "the namespace"
    assert not re.search(r"href|url\(|@import|@font-face|<script|<image|<foreignObject", text)
    assert "@media (prefers-color-scheme: dark)" in text
    assert text.isascii() and text.endswith("</svg>\n") and len(text) < 25_000
    used = {kind for element in root.iter() for kind in (element.get("class") or "").split()}
    assert all(re.search(rf"\.{kind}\b", svg.STYLE) for kind in used - {"end", "key"}), "a class without a style"


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1])
def test_contrast(theme):
    """WCAG 2: letters 4.5 : 1 on their paper, lines and bars that mean something 3 : 1; and idle against busy slots."""
    def ratio(a, b):
        dark, light = sorted((luminance(svg.COLOURS[a][theme]), luminance(svg.COLOURS[b][theme])))
        return (light + 0.05) / (dark + 0.05)

    for letters in ("text, g.ink", "text.tick", "g.good, text.good", "text.bad"):
        assert ratio(letters, "rect.paper") >= 4.5
    for drawn in ("g.good, text.good", "g.bad"):
        assert ratio(drawn, "rect.paper") >= 3
    assert ratio("g.bad", "rect.paper") > ratio("g.quiet", "rect.paper") > ratio("path.grid", "rect.paper")


# --- whatever the requests ----------------------------------------------------------------------------------------


def some_requests(seed):
    r = Random(seed)
    n = r.randint(1, 60)
    longest, most = r.choice((1, 40, 1000, 9000)), (1, 30, 3000)
    return Requests([r.randint(1, longest) for _ in range(n)], [r.randint(1, r.choice(most)) for _ in range(n)])


ODD = {
    "one": Requests([100], [5]),
    "one token": Requests([1], [1]),
    "two": Requests([300, 100], [700, 2]),
    "equal": Requests([200] * 40, [100] * 40),
    "all short": Requests([1] * 33, [1] * 33),
    "one giant prompt": Requests([9000] + [1] * 50, [1] * 51),
    "one giant output": Requests([10] * 40, [1_000_000_000] + [1] * 39),
    "late mean": Requests([1] * 200 + [20_000_000], [1] * 201),
    **{f"seed {seed}": some_requests(seed) for seed in range(12)},
}


@pytest.mark.parametrize("case", ODD)
def test_odd_requests_make_legible_pictures(case):
    requests = ODD[case]
    assert_legible(pictures.draw_slots(*pictures.slots_data(requests)))
    assert_legible(pictures.draw_queue(*pictures.queue_data(requests)))
    assert_legible(pictures.draw_tune(*pictures.tune_data(requests)))
    if max(map(sum, zip(*requests))) < 9584:  # or else it can never fit into the cache
        assert_legible(pictures.draw_paged(*pictures.paged_data(requests)))


def test_where_nobody_waits_a_log_scale_says_so():
    text = pictures.draw_queue(*pictures.queue_data(ODD["one"]))
    assert "on which 0 has no place" in text
    assert points(panel_of(text, "wait")[2]["p99"]) == []
    assert "on which" not in COMMITTED["queue.svg"]


@pytest.mark.parametrize("slots", [1, 3, 16, 500])
def test_a_long_list_is_shown_by_its_beginning(slots):
    """Both pictures of 3000 requests stop at one moment, before which every slot's time is accounted for."""
    r = Random(1)
    requests = Requests([r.randint(1, 600) for _ in range(3000)], [r.randint(1, 1000) for _ in range(3000)])
    data = pictures.slots_data(requests, slots=slots)
    text = pictures.draw_slots(*data)
    assert_legible(text)
    for name in ("static", "continuous"):
        x, _, series = panel_of(text, name)
        drawn = bars(series["requests"]) + bars(series["idle"])
        assert max(at + width for at, _, width, _ in drawn) <= 620.01
        assert len(bars(series["requests"])) <= 1000 + slots
        assert len({top for _, top, _, _ in drawn}) == slots
    assert f"the first {x.high:,.0f} seconds" in text
    end_s = max(static.schedule(requests, slots).finished_us) / 1e6
    assert x.high < end_s and f"ends at {end_s:,.2f} s" in text, "the numbers are of the whole list"


@pytest.mark.parametrize("target_ms", [1, 20, 30, 79.3, 200, 1700, 1e6])
def test_any_target(target_ms):
    """Missed by one client, met by the mean alone, met by all: marks and words only where there is an answer."""
    data = pictures.tune_data(load_requests(SHIPPED), target_ms=target_ms)
    text = pictures.draw_tune(*data)
    assert_legible(text)
    p99s, means = ([row[column] for row in data[1]] for column in (2, 1))
    series = panel_of(text, "ttft")[2]
    assert ("p99 choice" in series) == (p99s[0] <= target_ms) and ("mean choice" in series) == (means[0] <= target_ms)
    assert ("p99: 100 or more" in words(text)) == (max(p99s) <= target_ms)


def test_odd_workloads_of_the_second_lab():
    for seed in range(4):
        r = Random(seed)
        n = (1, 2, 30, 60)[seed]
        requests = Requests([r.randint(1, 1000) for _ in range(n)], [r.randint(1, 500) for _ in range(n)])
        workload = Workload(requests, sorted(r.uniform(0, n) for _ in range(n)))
        assert_legible(pictures.draw_curves(*pictures.curves_data(workload)))
        assert_legible(pictures.draw_reservation(*pictures.reservation_data(workload, "")))


def test_a_mode_that_is_added_is_drawn():
    """Whatever modes the data hold, and a deadlock anywhere."""
    measures = orca_reservation.Measures(9000.0, 8500.0, None, None, 12.3, 45)
    runs = {(rate, mode): measures for rate in (4, 8, 12) for mode in ("max_seq", "max_gen", "none", "paged")}
    text = pictures.draw_reservation(1000, runs)
    assert_legible(text)
    _, _, series = panel_of(text, "tokens")
    assert len(bars(series["used"])) == len(marks(series["deadlock"])) == words(text).count("1.06") == 12
    assert words(text).count("paged") == 3


# --- the script ---------------------------------------------------------------------------------------------------


def test_what_cannot_be_drawn_is_said_and_left_out(tmp_path):
    path = tmp_path / "requests.json"
    path.write_text('[{"prompt_tokens": 10, "output_tokens": 3}]')
    done = make("pictures", f"OUT={tmp_path / 'out'}", f"REQUESTS={path}")
    assert done.returncode == 0 and done.stdout.count("is not drawn: ") == done.stdout.count("gap, the seconds") == 2
    assert sorted(files(tmp_path / "out")) == ["measured.svg", "paged.svg", "queue.svg", "slots.svg", "tune.svg"]
    path.write_text('[{"gap": 1, "prompt_tokens": 9590, "output_tokens": 3}]')
    done = script("pictures", "--requests", path, "--out", tmp_path / "more")
    assert "paged.svg is not drawn: request 0 can never fit" in done.stdout
    assert sorted(files(tmp_path / "more")) == ["measured.svg", "queue.svg", "slots.svg", "tune.svg"]
    path.write_text('[{"gap": 1, "prompt_tokens": 10, "output_tokens": 513}]')
    done = script("pictures", "--requests", path, "--out", tmp_path / "most")
    assert "orca_reservation.svg is not drawn" in done.stdout and "which max_gen declares, found 513" in done.stdout
    assert sorted(files(tmp_path / "most")) == sorted({*NAMES} - {"orca_reservation.svg"})


def test_all_are_drawn_of_requests_with_gaps(tmp_path):
    path = tmp_path / "requests.json"
    path.write_text('[{"gap": 1, "prompt_tokens": 10, "output_tokens": 3}]')
    assert "not drawn" not in script("pictures", "--requests", path, "--out", tmp_path / "out").stdout
    drawn = files(tmp_path / "out")
    assert sorted(drawn) == NAMES
    assert [name for name in NAMES if drawn[name].decode() == COMMITTED[name]] == ["measured.svg"], "the recorded runs'"


def test_make_pictures_writes_beside_the_scripts_unless_it_is_told_where():
    """lb2/pictures is the script's own default; OUT's is lb2, where everything else goes."""
    assert "--out" not in make("-n", "pictures").stdout
    assert "--out" in make("-n", "pictures", "OUT=elsewhere").stdout
    assert pictures.FOLDER == LAB / "pictures"


def test_a_bad_file_draws_nothing(tmp_path):
    path = tmp_path / "requests.json"
    path.write_text("[]")
    done = script("pictures", "--requests", path, "--out", tmp_path / "out")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and not (tmp_path / "out").exists()


# --- scales and labels --------------------------------------------------------------------------------------------


def test_scales_and_their_round_numbers():
    """40 wide from 0: 20 is halfway. 10 to 1000 on a log scale: 100 is. Numbers grow upwards: start is below end."""
    assert svg.Scale(0, 40, 60, 620).at(10) == 200
    assert svg.Scale(10, 1000, 300, 100, True).at(100) == 200
    assert svg.ticks(svg.Scale(0, 42, 60, 620)) == [0, 10, 20, 30, 40]
    assert svg.ticks(svg.Scale(0, 0.013, 60, 620)) == pytest.approx([0, 0.005, 0.01])
    assert svg.ticks(svg.Scale(5, 3000, 300, 60, True)) == [10, 100, 1000]
    assert svg.ticks(svg.Scale(1, 1e9, 300, 60, True), most=5) == [1, 100, 1e4, 1e6, 1e8]
    assert svg.ticks(svg.Scale(20, 50, 300, 60, True)) == [20, 50]
    assert svg.from_zero([3, 1171], 1, 0)[:2] == (0, 1200) and svg.from_zero([0], 1, 0)[:2] == (0, 1)
    assert svg.decades([0, 22.6, 13_140], 1, 0)[:2] == (20, 20_000)
    assert svg.decades([0, 0], 1, 0)[:2] == svg.decades([1], 1, 0)[:2] == (1, 10)
    for values in ([0.3], [0.6], [7e-5], [999.5, 2], [5e12]):
        scale = svg.from_zero(values, 1, 0)
        assert max(values) <= scale.high < 2 * max(values) + 1e-9 and len(svg.ticks(scale)) <= 7
        log = svg.decades(values, 1, 0)
        assert log.low <= min(values) and max(values) <= log.high < 10.1 * max(values)
    assert [svg.number(n) for n in (0, 0.005, 12_597, 99_999, 100_000, 2_500_000, 5e12)] == [
        "0", "0.005", "12,597", "99,999", "100k", "2.5M", "5T"]


def test_labels_are_moved_apart_as_little_as_can_be():
    """Two at the same height: half a gap up, half a gap down. A third far away stays. At the edge, all stay inside."""
    assert svg.spread([100, 100, 200], 0, 300, gap=20) == [90, 110, 200]
    assert svg.spread([200, 100, 101], 0, 300, gap=20) == [200, 90.5, 110.5]
    assert svg.spread([299, 300], 0, 300, gap=20) == [280, 300]
    assert svg.spread([0, 1, 2], 0, 300, gap=20) == [0, 20, 40]
    assert svg.spread([10, 29, 48], 0, 300, gap=20) == [9, 29, 49]


def test_a_freed_slot_is_the_lowest_that_is_free():
    """Three requests in two slots (static.py's example): the third takes the slot of the first, which ended first."""
    requests = Requests([100, 200, 100], [1, 3, 2])
    rows = pictures.stays(continuous.schedule(requests, 2), 2, 44_000)
    assert rows == [[(0, 23_000), (23_000, 44_000)], [(0, 44_000)]]
    rows = pictures.stays(static.schedule(requests, 2), 2, 50_000)
    assert rows == [[(0, 23_000), (39_000, 50_000)], [(0, 39_000)]]
    assert pictures.gaps(rows[0], 50_000) == [(23_000, 39_000)] and pictures.gaps(rows[1], 50_000) == [(39_000, 50_000)]
