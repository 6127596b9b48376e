"""The pictures say what the result files say, to the last digit written."""

import csv
import re
from random import Random
from types import SimpleNamespace
from xml.etree import ElementTree

import oracle
from drawing import chunked as picture_chunked
from drawing import deadlock as picture_deadlock
from drawing import measured as picture_measured
from drawing import plan as picture_plan
from drawing import preemption as picture_preemption
from drawing import prefix as picture_prefix
from drawing import waiting as picture_queue
from drawing import slots as picture_slots
from drawing import steps as picture_steps
from drawing import ttft as picture_ttft
from drawing import tune as picture_tune
import pictures
import pytest
import queueing
import static
from drawing import svg
from common import BadInput, percentile, Requests, table
from files.costs import Costs
from fixture import LAB, SHIPPED, files, read_pairs, script, started
from forked import run_forked
from orca_reservation import CAPACITY_TOKENS
from roofline.workload import RECORDED, Workload, load_workload
from picture_reader import XMLNS, assert_drawn, bars, description, marks, panel_of, points, words
from measured import HEADER, Comparison, cells
from queueing import at_rate, unit_arrivals
from files.sources import load_trace

NAMES = ["chunked.svg", "clocked.svg", "deadlock.svg", "measured.svg", "orca_curves.svg", "orca_reservation.svg",
         "preemption.svg", "prefix.svg", "queue.svg", "slots.svg", "steps.svg", "ttft.svg", "tune.svg", "waste.svg"]
ELSEWHERE = ["preemption.svg", "clocked.svg", "measured.svg"]  # drawn again in the next test, and in test_measured.py
SCRIPTS = ["static", "continuous", "compare", "queueing", "tune", "paged_preemption", "paged_prefix", "paged_chunked",
           "orca_waste", "orca_curves", "orca_reservation"]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The result files of the lab's own requests, and a measured.csv of two runs."""
    out = tmp_path_factory.mktemp("results")
    for name in SCRIPTS:
        assert script(name, "--out", out).returncode == 0, name
    runs = [Comparison("cpu", "a", role, "p50_ttft_ms", 100.0, 121.0, 21.0) for role in ("calibrated", "predicted")]
    (out / "measured.csv").write_text(table(HEADER, cells(runs)))
    return out


@pytest.fixture(scope="module")
def shipped():
    return load_trace(SHIPPED).requests


def committed(name):
    return (LAB / "pictures" / name).read_text()


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


# --- the same numbers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ELSEWHERE])
def test_the_committed_pictures_are_those_of_today(shipped, name):
    """To the last unit. `make check` plays the policies of preemption.svg again, too."""
    recipes = pictures.recipes(shipped, Costs(), 200, RECORDED)
    assert sorted(files(LAB / "pictures")) == sorted(recipes) == NAMES
    assert recipes[name]() == committed(name), "run make pictures"


def test_the_committed_preemption_is_drawn_like_this():
    """Of the points that are read back from it, to half a token per second."""
    text = committed("preemption.svg")
    x, y, series = panel_of(text, "throughput")
    most = int(re.search(r"Up to ([\d,]+) preemptions", description(text))[1].replace(",", ""))
    data = {policy: [(round(x.value(across)), y.value(up), most) for across, up in points(series[name])]
            for policy, (name, *_) in picture_preemption.POLICIES.items()}
    assert [limit for limit, *_ in data[True, "swap"]] == sorted(picture_preemption.LIMITS)
    again, number = picture_preemption.draw_preemption(data), re.compile(r"([\d,]+)(?= tokens/s)")
    assert number.sub("", again) == number.sub("", text), "run make pictures"
    ends = [float(end.replace(",", "")) for end in number.findall(text)]
    assert ends == pytest.approx([some[-1][1] for some in data.values()], abs=0.55)


def test_the_script_writes_those_that_are_asked_for(tmp_path):
    done = script("pictures", "--out", tmp_path, "--only", "waste.svg", "steps.svg")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Pictures in {tmp_path}:\nwaste.svg\nsteps.svg\n"
    assert files(tmp_path) == {name: committed(name).encode() for name in ("waste.svg", "steps.svg")}


def test_steps_is_the_example_of_the_lessons():
    """The bars of the three requests begin and end at 0, 23, 39, 44 and 60 ms, iteration by iteration as the oracle."""
    for name, refill in (("static", "batch"), ("continuous", "iteration")):
        played = oracle.play(picture_steps.REQUESTS, 2, [0] * 3, refill)
        starts = [start for start, *_ in played.batches] + [max(played.finished_us)]
        assert tuple(start // 1000 for start in starts[1:]) == picture_steps.ENDS_MS[name]
        x, _, series = panel_of(committed("steps.svg"), name)
        work = bars(series["work"])
        drawn = sorted((round(x.value(left)), round(x.value(left + width + 1))) for left, _, width, _ in work)
        edges_ms = [[at // 1000 for at in times] for times in (played.admitted_us, played.finished_us)]
        assert drawn == sorted(zip(*edges_ms))
    said = set(words(committed("steps.svg")))
    assert {"all done at 60 ms", "all done at 44 ms", "23 ms", "36 ms", "39 ms", "44 ms", "60 ms"} <= said
    assert "prefers-reduced-motion: no-preference" in committed("steps.svg")


def test_slots_show_every_request_and_every_idle_slot(results, shipped):
    """Bars of the requests against the oracle, one iteration at a time; what is idle is the rest; and the numbers."""
    said = words(committed("slots.svg"))
    for name, refill in (("static", "batch"), ("continuous", "iteration")):
        played = oracle.play(shipped, 16, [0] * 100, refill)
        end = max(played.finished_us)
        x, y, series = panel_of(committed("slots.svg"), name)
        held, idle = bars(series["requests"]), bars(series["idle"])
        starts, ends = sorted(x.value(bar[0]) for bar in held), sorted(x.value(bar[0] + bar[2] + 0.6) for bar in held)
        assert starts == pytest.approx([at / 1e6 for at in sorted(played.admitted_us)], abs=0.001)
        assert ends == pytest.approx([at / 1e6 for at in sorted(played.finished_us)], abs=0.002)
        slots = sorted({bar[1] for bar in held + idle})
        assert len(slots) == 16 and [y.value(at) for at in slots] == pytest.approx(range(16), abs=0.001)
        for slot in slots:  # the bars of a slot meet, and fill it from 0 to the end
            row = sorted([(at, at + width + 0.6) for at, on, width, _ in held if on == slot]
                         + [(at, at + width) for at, on, width, _ in idle if on == slot])
            edges = [x.value(edge) for stay in row for edge in stay]
            assert edges[0] == 0 and edges[-1] == pytest.approx(end / 1e6, abs=0.002)
            assert edges[1:-1:2] == pytest.approx(edges[2:-1:2], abs=0.002)
        util = read_pairs(results / f"{name}.txt")["slot_util"]
        assert f"ends at {end / 1e6:.2f} s, slot_util {util}" in said
    assert f"Continuous: {read_pairs(results / 'compare.txt')['speedup']} times the throughput" in said


@pytest.mark.parametrize("slots", [1, 16, 500])
def test_a_long_list_is_shown_by_its_beginning(slots):
    """Both panels of 3000 requests stop at one moment, say what finished until then, and have a torn edge."""
    r = Random(1)
    requests = Requests([r.randint(1, 600) for _ in range(3000)], [r.randint(1, 1000) for _ in range(3000)])
    text = picture_slots.draw_slots(*picture_slots.slots_data(requests, slots=slots))
    played = static.schedule(requests, slots)
    for name in ("static", "continuous"):
        x, _, series = panel_of(text, name)
        drawn = bars(series["requests"]) + bars(series["idle"])
        assert max(at + width for at, _, width, _ in drawn) <= 620.01
        assert len(bars(series["requests"])) <= 1000 + slots
        assert len({top for _, top, _, _ in drawn}) == slots
    done = sum(finished <= round(x.high * 1e6) for finished in played.finished_us)
    assert any(line.startswith(f"{done:,} of 3,000 finished here") for line in words(text))
    assert text.count('class="paper" d=') == 2 and "torn" not in text
    assert f"the first {x.high:,.4g} seconds" in text and "times the throughput" in text
    assert 'class="paper" d=' not in committed("slots.svg"), "a whole list has no torn edge"


def test_queue(results, shipped):
    """The p99 waits of queue.csv; the mean, and another rate, recomputed with the oracle."""
    text = committed("queue.svg")
    x, y, series = panel_of(text, "wait")
    capacity = queueing.capacity_rps(shipped, 32, Costs())
    within = [row for row in rows(results / "queue.csv") if float(row["rps"]) <= 1.3 * capacity]
    assert_drawn((x, y), marks(series["p99"]), [(row["rps"], row["p99_wait_ms"]) for row in within])
    assert len(within) == 2 and x.high == pytest.approx(1.3 * capacity)
    at = float(re.match(r"M([\d.]+)", series["capacity"][0].get("d"))[1])
    assert x.value(at) == pytest.approx(capacity, rel=1e-4) and f"capacity {capacity:.1f}/s" in words(text)
    last = x.high
    for rps in (5, last):
        waits = []
        for seed in range(20):
            arrivals = at_rate(unit_arrivals(seed, 100), rps)
            played = oracle.play(shipped, 32, arrivals, "iteration")
            waits += [start - arrival for start, arrival in zip(played.admitted_us, arrivals)]
        mean, p99 = sum(waits) / len(waits) / 1000, percentile(waits, 99) / 1000
        for name, ms in (("mean", mean), ("p99", p99)):
            (spot,) = [spot for spot in points(series[name]) if abs(x.value(spot[0]) - rps) < 0.01]
            assert y.value(spot[1]) == pytest.approx(ms, rel=1e-3)
    assert {"p99 wait", "mean wait", "44.8 ms", "never catches up: more comes than is served"} <= set(words(text))


def test_queue_of_one_request():
    """Nobody waits, so there is nothing to draw; nothing on a log axis is called 0."""
    text = picture_queue.draw_queue(*picture_queue.queue_data(Requests([100], [5])))
    assert "nobody waits" in words(text) and set(panel_of(text, "wait")[2]) == {"capacity"}
    assert "log scale" not in text


def test_queue_of_a_list_shorter_than_the_slots():
    text = picture_queue.draw_queue(*picture_queue.queue_data(Requests([10] * 31, [20] * 31)))
    assert "never catches up; but no request waits for a slot" in words(text)


def test_tune(results):
    text = committed("tune.svg")
    ttft, tps = (panel_of(text, name) for name in ("ttft", "throughput"))
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
    assert {"p99: 14 clients, 1,137 tokens/s", "p99: 6 to 17 in 20 random orders",
            "mean: 33 clients, 1,832 tokens/s, p99 477 ms", "14", "33"} <= set(words(text))
    target = re.match(r"M[\d.]+,([\d.]+)", ttft[2]["target"][0].get("d"))[1]
    assert ttft[1].is_at(float(target), answer["target_ttft_ms"])
    left, right = map(float, re.match(r"M([\d.]+),[\d.]+H([\d.]+)", ttft[2]["orders"][0].get("d")).groups())
    assert (ttft[0].value(left), ttft[0].value(right)) == pytest.approx((5.5, 17.5), abs=0.01)


@pytest.mark.parametrize("target_ms, p99, mean", [
    (1, "p99: none; 1 client has 79.2 ms", "mean: none; 1 client has 25.1 ms"),
    (30, "p99: none; 1 client has 79.2 ms", "mean: 7 clients"),
    (200, "p99: 14 clients, 1,137 tokens/s", "mean: 33 clients"),
    (1e6, "p99: 100 clients or more", "mean: 100 clients or more"),
])
def test_any_target(shipped, target_ms, p99, mean):
    """The p99's answer is said, "none" too; marks stand only where there is an answer."""
    text = picture_tune.draw_tune(*picture_tune.tune_data(shipped, target_ms=target_ms))
    for begin in (p99, mean):
        assert any(line.startswith(begin) for line in words(text)), (begin, words(text))
    series = panel_of(text, "ttft")[2]
    assert ("p99 choice" in series) == ("none" not in p99) and ("mean choice" in series) == ("none" not in mean)


def test_the_first_burst_of_a_long_list():
    """Of 1,000 requests a burst of 10 is 1 %: the p99 does not see it, and it sees a burst of 12."""
    requests = Requests([1000] * 1000, [20] * 1000)
    data = picture_tune.tune_data(requests, up_to=30)
    text = picture_tune.draw_tune(*data)
    assert "up to 10 clients the p99 misses the first burst" in words(text)
    points_drawn = data[1]
    assert points_drawn[9].p99_ttft_ms < points_drawn[11].p99_ttft_ms
    assert not any("first burst" in line for line in words(committed("tune.svg")))


def test_ttft(shipped):
    """Every request is in a bar, and the marks are at the mean, p50 and p99 of the oracle's times."""
    text = committed("ttft.svg")
    for name, clients in (("p99", 14), ("mean", 33)):
        played = oracle.play(shipped, clients, [0] * 100, "iteration")
        times = [(first - admitted) / 1000 for first, admitted in zip(played.first_token_us, played.admitted_us)]
        x, y, series = panel_of(text, name)
        drawn = bars(series["requests"])
        counts = [round(y.value(top)) for _, top, _, _ in drawn]
        assert sum(counts) == 100
        for (left, _, width, _), count in zip(drawn, counts):
            low, high = x.value(left - 0.5), x.value(left + width + 0.5)
            assert sum(low * 0.9999 <= ms < high * 0.9999 for ms in times) == count
        wanted = {"mean": sum(times) / 100, "p50": percentile(times, 50), "p99": percentile(times, 99), "target": 200}
        for label, ms in wanted.items():
            at = float(re.match(r"M([\d.]+)", series[label][0].get("d"))[1])
            assert x.value(at) == pytest.approx(ms, rel=1e-3)
    assert {"14 clients, by the p99 of the TTFT", "mean 176 ms", "p99 477 ms"} <= set(words(text))
    assert picture_ttft.bins([8.0, 8.1, 200.0]) == {15: 2, 38: 1}


def test_one_histogram_where_mean_and_p99_agree_and_where_nothing_is_allowed(shipped):
    for target_ms in (1, 1e6):
        _, cases = picture_ttft.ttft_data(shipped, target_ms=target_ms)
        assert [(name, clients) for name, clients, _ in cases] == [("p99", 1 if target_ms == 1 else 100)]


def test_preemption(results):
    x, y, series = panel_of(committed("preemption.svg"), "throughput")
    table = rows(results / "paged_preemption.csv")
    for (reserve, resume), (name, *_) in picture_preemption.POLICIES.items():
        wanted = [row for row in table if (row["reserve_full_prompt"], row["resume"]) == (str(reserve).lower(), resume)]
        assert_drawn((x, y), marks(series[name]), [(row["max_num_seqs"], row["throughput_tps"]) for row in wanted])
        assert set(marks(series[name])) <= set(points(series[name]))
        assert (series[name][0].get("class") == "dash") == (resume == "swap")
    assert "reserve the prompt, recompute" in words(committed("preemption.svg"))
    data = picture_preemption.preemption_data(None, rows=table)
    assert data[False, "recompute"][-1] == (32, float(table[8]["throughput_tps"]), int(table[8]["preemptions"]))


def test_prefix(results):
    x, y, series = panel_of(committed("prefix.svg"), "ratio")
    table = rows(results / "paged_prefix.csv")
    assert_drawn((x, y), marks(series["ratio"]), [(row["system_tokens"], row["ratio"]) for row in table])
    ((at, ratio),) = marks(series["beyond"])
    assert x.is_at(at, "2928") and y.value(ratio) == pytest.approx(8, abs=0.05)  # 2928: as paged_prefix.py prints
    assert "8 times from 2,928 on" in words(committed("prefix.svg"))
    ratios, beyond = picture_prefix.prefix_data(None, rows=table)
    assert ratios[-1] == (4096, float(table[-1]["ratio"])) and beyond is None


def test_chunked(results):
    x, y, series = panel_of(committed("chunked.svg"), "tail")
    table = rows(results / "paged_chunked.csv")
    assert_drawn((x, y), marks(series["budgets"]), [(row["p99_ttft_ms"], row["p99_itl_ms"]) for row in table])
    assert {"64", "128", "256", "512"} <= set(words(committed("chunked.svg")))
    text = picture_chunked.draw_chunked(picture_chunked.chunked_data(None, rows=table))
    drawn = marks(panel_of(text, "tail")[2]["budgets"])
    assert_drawn((x, y), drawn, [(row["p99_ttft_ms"], row["p99_itl_ms"]) for row in table])


def test_chunked_names_points_that_lie_on_one_another():
    names = ["64", "128", "unlimited"]
    assert "all budgets" in words(picture_chunked.draw_chunked([(name, 100.0, 8.0) for name in names]))
    text = picture_chunked.draw_chunked([("64", 900.0, 8.0), ("128", 100.0, 20.0), ("unlimited", 100.0, 20.0)])
    assert "128 or more" in words(text)
    text = picture_chunked.draw_chunked([("64", 100.0, 8.0), ("128", 100.0, 80.0)])
    assert {"64", "128"} <= set(words(text)), "one above the other is not on one another"
    assert "no request has a second token" in words(picture_chunked.draw_chunked([("64", 100.0, 0.0)]))


def test_waste(results):
    x, _, series = panel_of(committed("waste.svg"), "share")
    shares = zip(*(bars(series[kind]) for kind in ("useful", "padding", "finished")))
    for row, (useful, padding, finished) in zip(rows(results / "orca_waste.csv"), shares, strict=True):
        assert x.value(useful[0] + useful[2]) == pytest.approx(100 * (1 - float(row["waste"])), abs=0.01)
        assert padding[0] == useful[0] + useful[2] and finished[0] == pytest.approx(padding[0] + padding[2])
        assert x.value(finished[0] + finished[2]) == pytest.approx(100, abs=0.01)
    assert "27% waste" in words(committed("waste.svg"))


def test_orca_curves(results):
    text = committed("orca_curves.svg")
    x, y, series = panel_of(text, "latency")
    slo = rows(results / "orca_slo.csv")
    wanted = {f"{row['scheduler']} {row['max_batch']}": [] for row in slo}
    for row in rows(results / "orca_curves.csv"):
        wanted[f"{row['scheduler']} {row['max_batch']}"].append((row["throughput_rps"], row["p50_ms_per_token"]))
    for name, places in wanted.items():
        assert_drawn((x, y), points(series[name]), places)
        assert series[name][1].get("class") == "hollow"
    for name, row in zip(wanted, slo):
        ((at, _),) = marks(series[f"{name} within"])
        assert x.is_at(at, row["throughput_rps"]), "what the search found"
    slow, fast = (float(row["throughput_rps"]) for row in (slo[1], slo[4]))
    assert f"request 8 serves {slow:.2f} requests/s within it" in words(text)
    assert f"iteration 32 serves {fast / slow:.1f} times as much" in words(text)
    target = re.match(r"M[\d.]+,([\d.]+)", series["target"][0].get("d"))[1]
    assert y.is_at(float(target), slo[0]["target_ms_per_token"])


def test_orca_reservation(results):
    text = committed("orca_reservation.svg")
    x, _, series = panel_of(text, "tokens")
    table = rows(results / "orca_reservation.csv")
    assert x.high == 12_597
    used, reserved = bars(series["used"]), bars(series["reserved"])
    assert len(used) == len(reserved) == len(table)
    for mine, theirs, row in zip(used, reserved, table):
        assert x.is_at(mine[0] + mine[2], row["mean_used_tokens"])
        assert x.is_at(theirs[0] + theirs[2], row["mean_reserved_tokens"])
    assert {bar.get("class") for bar in series["reserved"]} == {"hollow"}, "told apart in grey print"
    assert {bar.get("class") for bar in series["used"]} == {None}
    (stuck,) = (row for row in table if row["deadlock_s"])
    ((at, _),) = marks(series["deadlock"])
    assert x.is_at(at, stuck["mean_used_tokens"])
    said = words(text)
    assert f"deadlock at {float(stuck['deadlock_s']):.1f} s, {stuck['finished']} of 1,000 served" in said
    modes = [row["reserve"] for row in table]
    assert [line for line in said if line in set(modes)] == modes, "a bar's name stands beside it, in the file's order"


def test_deadlock(results):
    """`none` hits the ceiling where orca_reservation.csv says, and goes flat; nothing is above the ceiling."""
    text = committed("deadlock.svg")
    x, y, series = panel_of(text, "cache")
    (stuck,) = (row for row in rows(results / "orca_reservation.csv") if row["deadlock_s"])
    flat = points(series["flat"])
    assert x.value(flat[0][0]) == pytest.approx(float(stuck["deadlock_s"]), abs=0.05)
    assert [y.value(place) for _, place in flat] == pytest.approx([CAPACITY_TOKENS] * 2, abs=1)
    assert x.value(flat[1][0]) == pytest.approx(x.high)
    for mode in picture_deadlock.MODES:
        tokens = [y.value(place) for _, place in points(series[mode])]
        assert 0 <= min(tokens) and max(tokens) <= CAPACITY_TOKENS + 1 and len(tokens) > 100
    assert points(series["none"])[-1] == flat[0]


def test_the_tokens_of_deadlock_are_those_of_a_step_by_step_sum():
    """Two requests that need no memory beyond the first iteration: (300, 1) at 0 s and (500, 1) at 1 s."""
    workload = Workload(Requests([300, 500], [1, 1]), [0.0, 12.0])  # at 12 requests/s: 0 and 1 s
    data, stuck_s = picture_deadlock.deadlock_data(workload, "")
    assert stuck_s is None
    for mode in ("max_seq", "max_gen", "none"):
        assert data[mode] == [(0.0, 300), (1.0, 500)]
    assert [tokens for _, tokens in data["paged"]] == [304, 512], "whole blocks of 16"
    assert picture_deadlock.sampled([(0.0, 5), (0.1, 6), (9.0, 7)], 10, 10.0) == [(0.1, 6), (9.0, 7)]


def test_measured():
    """Beyond the noise is vermilion. The errors of the recorded runs: see test_measured.py."""
    runs = [("a", "p50_ttft_ms", 100, 121), ("b", "p50_ttft_ms", 100, 119), ("c", "p50_ttft_ms", 100, 150)]
    text = picture_measured.draw_measured(runs, ["c"], 20)
    groups = ElementTree.fromstring(text).iter(f"{XMLNS}g")
    colours = {group.get("data-series"): group.get("class") for group in groups}
    assert colours["p50_ttft_ms a"] == "bad" and colours["p50_ttft_ms b"] == "good"
    assert description(text).endswith("worst of the runs predicted: p50 TTFT of a, +21 %.")


# --- the plan -----------------------------------------------------------------------------------------------------

LIMITS = {8: [(1.0, 50.0, 40.0, 80.0), (2.0, 150.0, 100.0, 300.0), (3.0, 900.0, 500.0, 2000.0)],
          16: [(1.0, 60.0, 50.0, 70.0), (2.5, 180.0, 150.0, 190.0), (3.5, 400.0, 300.0, 900.0)]}


def test_plan():
    text = picture_plan.draw_plan(LIMITS, 200, "p99 TTFT", today_rps=2.0, capacity_rps=3.2, answer=(16, 2.5),
                                  slower_rps=2.1)
    x, y, series = panel_of(text, "p99")
    assert_drawn((x, y), points(series["8"]), [("1.0", "50.00"), ("2.0", "150.00"), ("3.0", "900.00")])
    assert_drawn((x, y), points(series["16"]), [("1.0", "60.00"), ("2.5", "180.00")])
    assert_drawn((x, y), points(series["16 beyond"]), [("2.5", "180.00"), ("3.5", "400.00")])
    assert_drawn((x, y), marks(series["answer"]), [("2.5", "180.00")])
    assert_drawn((x, y), marks(series["slower"], ("hollow",)), [("2.1", "200.00")])
    edge = [tuple(map(float, place.split(","))) for place in series["16 replays"][0].get("d")[1:-1].split("L")]
    lows, highs = edge[:3], edge[:2:-1]
    assert_drawn((x, y), lows, [("1.0", "50.00"), ("2.5", "150.00"), ("3.5", "300.00")])
    assert_drawn((x, y), highs, [("1.0", "70.00"), ("2.5", "190.00"), ("3.5", "900.00")])
    assert {"2.5 requests/s with max_num_seqs 16", "2.1 if every step takes 10 % longer",
            "today 2; capacity 3.2; at the lines: max_num_seqs",
            "answer", "10 % slower", "today", "capacity", "target"} <= set(words(text))


def test_plan_without_an_answer():
    """Then no number stands where one could be taken for it."""
    for no_edge, said in ((False, "No load meets p99 TTFT 200 ms"), (True, "No edge found: every load meets 200 ms")):
        text = picture_plan.draw_plan(LIMITS, 200, no_edge=no_edge)
        assert said in words(text) and not any("requests/s" in line for line in words(text))
        assert {"answer", "slower"}.isdisjoint(panel_of(text, "p99")[2])
    text = picture_plan.draw_plan(LIMITS, 200, answer=(8, 2.0))
    assert "none if every step takes 10 % longer" in words(text)


# --- the file itself ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_stands_alone(name):
    """Well-formed, with a title and a description for screen readers, nothing fetched, nothing run, two themes."""
    text = committed(name)
    root = ElementTree.fromstring(text)
    assert root.tag == f"{XMLNS}svg" and root.get("role") == "img" and root.get("viewBox").startswith("0 0 640 ")
    title, finding = root[0], root[1]
    assert title.tag == f"{XMLNS}title" and title.text.endswith("?") and title.text in words(text)
    assert finding.tag == f"{XMLNS}desc" and re.search(r"\d", finding.text) and finding.text.endswith(".")
    assert text.count("http") == 1, "the namespace"
    assert not re.search(r"href|url\(|@import|@font-face|<script|<image|<foreignObject", text)
    assert "@media (prefers-color-scheme: dark)" in text
    assert text.isascii() and text.endswith("</svg>\n") and len(text) < 25_000
    used = {kind for element in root.iter() for kind in (element.get("class") or "").split()}
    assert all(re.search(rf"\.{kind}\b", text) for kind in used), "a class without a style"
    sizes = [int(size) for size in re.findall(r"(\d+)px", re.sub(r"stroke-width: \d+px|translateX\(\d+px\)", "", text))]
    assert min(sizes) * 400 / 640 >= 11, "text of 11 px on a phone"


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1])
def test_contrast(theme):
    """WCAG 2: letters 4.5 : 1 on their paper, lines and bars that mean something 3 : 1. Work outshines idleness."""
    def ratio(a, b):
        dark, light = sorted((luminance(svg.COLOURS[a][theme]), luminance(svg.COLOURS[b][theme])))
        return (light + 0.05) / (dark + 0.05)

    for letters in ("text, g.ink", "text.tick", "g.good, text.good", "text.bad"):
        assert ratio(letters, svg.PAPER) >= 4.5
        assert ratio(letters, "rect.zone") >= 4
    assert ratio("g.work", svg.PAPER) >= 4.5, "white words stand on it"
    for drawn in ("g.good, text.good", "g.bad", "g.work", "g.idle", "g.quiet"):
        assert ratio(drawn, svg.PAPER) >= 3
    assert ratio("g.work", svg.PAPER) > 1.5 * ratio("g.idle", svg.PAPER)
    assert ratio("g.work", "g.idle") >= 2, "told apart in grey print"


# --- the script ---------------------------------------------------------------------------------------------------


def test_what_cannot_be_drawn_is_said_and_left_out(tmp_path):
    path = tmp_path / "requests.json"
    path.write_text('[{"prompt_tokens": 10, "output_tokens": 3}]')
    needy = ["waste.svg", "orca_curves.svg", "orca_reservation.svg", "deadlock.svg"]
    done = script("pictures", "--requests", path, "--out", tmp_path / "out", "--only", *needy, "slots.svg")
    assert done.returncode == 0 and done.stdout.count("is not drawn: ") == done.stdout.count("no arrivals") == 4
    assert list(files(tmp_path / "out")) == ["slots.svg"]
    path.write_text('[{"gap": 1, "prompt_tokens": 9590, "output_tokens": 3}]')
    done = script("pictures", "--requests", path, "--out", tmp_path / "more", "--only", "preemption.svg", "steps.svg")
    assert "preemption.svg is not drawn: request 0 can never fit" in done.stdout
    assert list(files(tmp_path / "more")) == ["steps.svg"]


def test_only_and_results(tmp_path, results):
    """tune.csv with another p99 for 14 clients: the picture follows the file."""
    text = (results / "tune.csv").read_text()
    row = next(line for line in text.splitlines() if line.startswith("14,"))
    n, mean, _, tps = row.split(",")
    (tmp_path / "tune.csv").write_text(text.replace(row, f"{n},{mean},201.00,{tps}"))
    done = script("pictures", "--out", tmp_path, "--results", tmp_path, "--only", "tune.svg")
    assert done.stdout.splitlines()[1:] == ["tune.svg"] and sorted(files(tmp_path)) == ["tune.csv", "tune.svg"]
    assert any(line.startswith("p99: 13 clients") for line in words((tmp_path / "tune.svg").read_text()))
    done = script("pictures", "--out", tmp_path, "--only", "tune.svg", "nothing.svg")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "--only: expected some of steps.svg" in done.stderr and "found nothing.svg" in done.stderr


@pytest.mark.parametrize("changed, own", [
    ({}, False), ({"first": 3}, True), ({"costs": SHIPPED}, True), ({"target_ttft_ms": 201.0}, True),
    ({"requests": RECORDED}, True)])
def test_what_is_the_labs_own(changed, own):
    given = {"requests": SHIPPED, "first": None, "costs": None, "target_ttft_ms": 200.0} | changed
    assert pictures.is_the_labs(SimpleNamespace(**given)) != own


@pytest.mark.parametrize("n, drawn", [
    (1000, {"tune", "ttft", "chunked"}), (1001, {"tune", "ttft", "chunked", "preemption", "prefix"})])
def test_pictures_of_short_lists_show_more_than_the_files(monkeypatch, results, n, drawn):
    """So three pictures are drawn of the files, and of more than 1000 requests five."""
    given = {}
    for name in ("tune", "ttft", "chunked", "preemption", "prefix"):
        module = getattr(pictures, name)
        monkeypatch.setattr(module, f"{name}_data", lambda *data, name=name, **rows: given.update(
            {name: rows.get("rows", data[-1])}) or ())
        monkeypatch.setattr(module, f"draw_{name}", lambda *_: "")
    recipes = pictures.recipes(Requests([1] * n, [1] * n), Costs(), 200, RECORDED, results=results)
    for name in ("tune", "ttft", "chunked", "preemption", "prefix"):
        recipes[f"{name}.svg"]()
    assert {name for name, rows in given.items() if rows} == drawn


def test_own_requests_never_overwrite_the_committed_pictures(tmp_path):
    """A copy of the project: without --out they go to lb2/my_pictures, and the text says where."""
    lab = tmp_path / "project" / "lb2"
    (lab / "pictures").mkdir(parents=True)
    for path in LAB.glob("*.py"):
        (lab / path.name).write_bytes(path.read_bytes())
    (tmp_path / "project" / "fixtures" / "llms").mkdir(parents=True)
    (tmp_path / "project" / "fixtures" / "llms" / "requests.json").write_bytes(SHIPPED.read_bytes())
    (tmp_path / "mine.json").write_text('[{"prompt_tokens": 10, "output_tokens": 3}]')

    def draw(*options):
        done = run_forked([str(lab / "pictures.py"), "--only", "slots.svg", *map(str, options)], tmp_path)
        assert done.returncode == 0, done.stderr
        found = sorted(path.parent.name for path in lab.glob("*/slots.svg"))
        for path in lab.glob("*/slots.svg"):
            path.unlink()
        return found, done.stdout.splitlines()[0]

    assert draw() == (["pictures"], f"Pictures in {lab / 'pictures'}:")
    assert draw("--requests", tmp_path / "mine.json") == (["my_pictures"], f"Pictures in {lab / 'my_pictures'}:")
    assert draw("--first", 3, "--out", lab / "elsewhere")[0] == ["elsewhere"]
    assert "lb2/my_pictures" in started("pictures", "--help").stdout


def test_a_bad_file_draws_nothing(tmp_path):
    path = tmp_path / "requests.json"
    path.write_text("[]")
    done = script("pictures", "--requests", path, "--out", tmp_path / "out")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", pictures.RESULTS)
def test_a_result_file_that_the_lab_did_not_write_is_named(tmp_path, results, name):
    """Cut off, with a word for a number, with other columns, without rows, or no text: then it is not drawn."""
    good = (results / name).read_bytes()
    header, first, *_ = good.splitlines(keepends=True)
    assert len(pictures.rows_of(results, name)) == good.count(b"\n") - 1
    assert pictures.rows_of(tmp_path, name) is None and pictures.rows_of(None, name) is None
    for bad in (good[:-1], header, header + first[:-1].rpartition(b",")[0] + b",many\n", good.replace(b"_", b"-", 1),
                header + first[:-1] + b"0\n", b"\xff" + good):
        (tmp_path / name).write_bytes(bad)
        with pytest.raises(BadInput, match=f"{name}: (not as the lab's script wrote it|expected UTF-8)"):
            pictures.rows_of(tmp_path, name)


def test_the_second_lab_is_drawn_of_requests_with_gaps():
    """A workload file of one's own: the recorded one's first 50 give other pictures than all of it."""
    workload = load_workload(RECORDED, 50)
    data, _ = picture_deadlock.deadlock_data(workload, RECORDED)
    assert max(tokens for _, tokens in data["none"]) < CAPACITY_TOKENS
