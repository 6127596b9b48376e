"""The pictures say what the result files say, to the last digit written, and their titles say what they show."""

import re
from random import Random
from types import SimpleNamespace
from xml.etree import ElementTree

import oracle
import orca_reservation
import pictures
import pytest
import queueing
import static
from common import Requests, percentile
from drawing import svg
from drawing.plan import Shown
from drawing.preemption import POLICIES
from drawing.steps import REQUESTS
from drawing.traffic import draw_traffic
from drawing.ttft import bins
from files.costs import Costs
from fixture import LAB, SHIPPED, files, read_pairs, read_rows, script, shipped
from picture_reader import XMLNS, assert_drawn, bars, marks, notes, panel_of, points, title, words
from queueing import at_rate, unit_arrivals
from roofline.workload import RECORDED

NAMES = ["chunked.svg", "measured.svg", "orca_curves.svg", "orca_reservation.svg", "plan.svg", "preemption.svg",
         "queue.svg", "slots.svg", "steps.svg", "ttft.svg", "tune.svg"]
SCRIPTS = ["static", "continuous", "compare", "queueing", "tune", "paged_preemption", "paged_chunked",
           "orca_curves", "orca_reservation"]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The result files of the lab's own requests."""
    out = tmp_path_factory.mktemp("results")
    for name in SCRIPTS:
        assert script(name, "--out", out).returncode == 0, name
    return out


def committed(name):
    return (LAB / "pictures" / name).read_text()


def across(element):
    """Where a dotted line begins."""
    return tuple(map(float, re.match(r"M([\d.]+),([\d.]+)", element.get("d")).groups()))


def test_every_picture_that_is_drawn_is_committed():
    """What they show is compared by make check, to the last unit."""
    assert sorted(files(LAB / "pictures")) == sorted(pictures.recipes(shipped(), Costs(), 200, RECORDED)) == NAMES


def test_steps_is_the_example_of_the_lessons():
    """The bars of the three requests begin and end at 0, 23, 39, 44 and 60 ms, as the oracle's, and so do the words."""
    for name, refill in (("static", "batch"), ("continuous", "iteration")):
        played = oracle.play(REQUESTS, 2, [0] * 3, refill)
        x, y, series = panel_of(committed("steps.svg"), name)
        drawn = sorted((x.value(left), x.value(left + width + 1)) for left, _, width, _ in bars(series["requests"]))
        edges = sorted(zip((at / 1e6 for at in played.admitted_us), (at / 1e6 for at in played.finished_us)))
        assert drawn == [pytest.approx(edge, abs=1e-4) for edge in edges]
        panel = ElementTree.fromstring(committed("steps.svg")).find(f".//*[@data-panel='{name}']")
        for word in (element for element in panel if element.get("class") == "onbar middle"):
            at = float(word.get("x")), float(word.get("y"))
            kind = "idle" if word.text == "idle" else "requests"
            assert any(left < at[0] < left + wide and top < at[1] < top + high
                       for left, top, wide, high in bars(series[kind])), word.text
    assert title(committed("steps.svg")) == "One line of code: 44 ms instead of 60"


def test_slots_show_every_request_and_every_idle_slot(results):
    """Bars of the requests against the oracle, one iteration at a time; what is idle is the rest; and the numbers."""
    said = words(committed("slots.svg"))
    for name, refill in (("static", "batch"), ("continuous", "iteration")):
        played = oracle.play(shipped(), 16, [0] * 100, refill)
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
        util = float(read_pairs(results / f"{name}.txt")["slot_util"])
        assert {f"{name.capitalize()}: {util:.0%} of slots work", f"done at {end / 1e6:.3g} s"} <= set(said)
    speedup = float(read_pairs(results / "compare.txt")["speedup"])
    assert title(committed("slots.svg")) == f"Filling free slots at once: {speedup:.1f} times as fast"


def test_what_sweeps_over_the_slots_covers_both_panels_and_then_is_gone():
    """Without motion it is not there; with it, it moves by its own width, within ten seconds, once."""
    text = committed("slots.svg")
    covers = bars(ElementTree.fromstring(text).findall(f".//*[@data-series='sweep']/{XMLNS}rect"))
    for name, (left, top, width, height) in zip(("static", "continuous"), covers, strict=True):
        x, y, _ = panel_of(text, name)
        assert left <= x.start and left + width >= x.end and top <= y.end and top + height >= y.start
    style = text.split("<style>")[1].split("</style>")[0]
    before, during = style.split("@media screen and (prefers-reduced-motion: no-preference)")
    assert "g.sweep { display: none }" in before and "animation: sweep 10s linear both" in during
    moved = int(re.search(r"to \{ transform: translateX\((\d+)px\); visibility: hidden \}", during)[1])
    assert moved == x.end - x.start


@pytest.mark.parametrize("slots", [1, 16, 500])
def test_a_long_list_is_shown_by_its_beginning(slots):
    """Both panels of 3000 requests stop at one moment, say what is done until then, and have a torn edge."""
    r = Random(1)
    requests = Requests([r.randint(1, 600) for _ in range(3000)], [r.randint(1, 1000) for _ in range(3000)])
    text = pictures.draw_slots(requests, slots, *pictures.schedules(requests, slots).values())
    played = static.schedule(requests, slots)
    for name in ("static", "continuous"):
        x, _, series = panel_of(text, name)
        drawn = bars(series["requests"]) + bars(series["idle"])
        assert max(at + width for at, _, width, _ in drawn) <= 560.01
        assert len(bars(series["requests"])) <= 1000 + slots
        assert len({top for _, top, _, _ in drawn}) == slots
    done = sum(finished <= round(x.high * 1e6) for finished in played.finished_us)
    assert f"{done:,} done here" in words(text) and f"the first {x.high:,.4g} seconds" in words(text)
    assert text.count('class="paper" d=') == 2 and 'class="paper" d=' not in committed("slots.svg"), "torn edges"
    one = pictures.draw_slots(Requests([100], [5]), slots, *pictures.schedules(Requests([100], [5]), slots).values())
    assert title(one) == "Filling free slots at once changes little here"


def test_queue(results):
    """The p99 waits of queue.csv; the mean, and another rate, recomputed with the oracle."""
    text = committed("queue.svg")
    x, y, series = panel_of(text, "wait")
    capacity = queueing.capacity_rps(shipped(), 32, Costs())
    table = read_rows(results / "queue.csv")
    assert_drawn((x, y), marks(series["p99"]), [(row["rps"], row["p99_wait_ms"]) for row in table])
    assert len(table) == 4 and x.high == 40
    assert x.value(across(series["capacity"][0])[0]) == pytest.approx(capacity, rel=1e-4)
    for rps in (5, x.high):
        waits = []
        for seed in range(20):
            arrivals = at_rate(unit_arrivals(seed, 100), rps)
            played = oracle.play(shipped(), 32, arrivals, "iteration")
            waits += [start - arrival for start, arrival in zip(played.admitted_us, arrivals)]
        mean, p99 = sum(waits) / len(waits) / 1000, percentile(waits, 99) / 1000
        for name, ms in (("mean", mean), ("p99", p99)):
            (spot,) = [spot for spot in points(series[name]) if abs(x.value(spot[0]) - rps) < 0.01]
            assert y.value(spot[1]) == pytest.approx(ms, rel=1e-3)
    assert {"44.8 ms", "63 ms", "1,226 ms", "2,775 ms", "5.65 ms", "7.89 ms", "234 ms", "952 ms", "p99", "mean",
            "capacity"} <= set(words(text)), "every rate of step 6 has its number"
    assert title(text) == f"Beyond {capacity:.3g} requests/s, the capacity, the wait grows with the list"


def test_queues_in_which_nobody_waits_for_a_slot():
    """Nothing on a log axis is called 0; rates of a server of quite another speed are around its own capacity."""
    text = pictures.queue_picture(Requests([100], [5]), Costs())
    assert "nobody waits" in words(text) and set(panel_of(text, "wait")[2]) == {"capacity"}
    assert "log scale" not in text and title(text).startswith("Nobody waits up to ")
    fast = Costs(1, 200)
    text = pictures.queue_picture(Requests([10] * 31, [20] * 31), fast)
    assert title(text) == "The list is shorter than the slots: nobody waits for one"
    x, _, series = panel_of(text, "wait")
    capacity = queueing.capacity_rps(Requests([10] * 31, [20] * 31), 32, fast)
    assert [x.value(at) for at, _ in marks(series["p99"])] == pytest.approx([capacity / 2, 0.9 * capacity], rel=1e-3)


def test_tune(results):
    text = committed("tune.svg")
    ttft, tps = (panel_of(text, name) for name in ("ttft", "throughput"))
    table = read_rows(results / "tune.csv")
    lines = ((ttft, "mean", "mean_ttft_ms"), (ttft, "p99", "p99_ttft_ms"), (tps, "throughput", "throughput_tps"))
    for (x, y, series), name, column in lines:
        assert_drawn((x, y), points(series[name]), [(row["concurrency"], row[column]) for row in table])
    answer = read_pairs(results / "tune.txt")
    chosen = {"p99": int(answer["max_concurrency"]), "mean": 33}  # 33: what tune.py says that the mean would promise
    for name, n in chosen.items():
        row = table[n - 1]
        assert_drawn(ttft[:2], marks(ttft[2][f"{name} choice"]), [(n, row[f"{name}_ttft_ms"])])
        assert_drawn(tps[:2], marks(tps[2][f"{name} choice"]), [(n, row["throughput_tps"])])
    assert ttft[1].is_at(across(ttft[2]["target"][0])[1], answer["target_ttft_ms"])
    left, right = map(float, re.match(r"M([\d.]+),[\d.]+H([\d.]+)", ttft[2]["orders"][0].get("d")).groups())
    assert (ttft[0].value(left), ttft[0].value(right)) == pytest.approx((5.5, 17.5), abs=0.01)
    assert {"14", "33", "p99", "mean", "200 ms"} <= set(words(text)) and "give 6 to 17" in notes(text)
    assert 'class="good" data-series="p99 choice"' in text and 'class="bad" data-series="mean choice"' in text


@pytest.mark.parametrize("target_ms, said, choices", [
    (1, "One client alone misses a p99 TTFT of 1 ms: 79.2 ms", set()),
    (30, "One client alone misses a p99 TTFT of 30 ms: 79.2 ms", {"mean"}),
    (79.5, "7 clients meet a p99 TTFT of 79.5 ms; the mean promises 19", {"p99", "mean"}),
    (200, "14 clients meet a p99 TTFT of 200 ms; the mean promises 33", {"p99", "mean"}),
    (1e6, "No edge up to 100 clients, the most tried, at a p99 TTFT of 1,000,000 ms", {"p99"}),
])
def test_any_target(target_ms, said, choices):
    """Marks stand only where there is an answer, and one where both agree."""
    points, chosen = pictures.tune_data(shipped(), Costs(), target_ms)
    text = pictures.draw_tune(target_ms, points, chosen, [14, 14], 100)
    assert title(text) == said and "2 random orders of the list all give 14" in notes(text)
    assert {name for name in ("p99", "mean") if f"{name} choice" in panel_of(text, "ttft")[2]} == choices


def test_the_first_burst_of_a_long_list():
    """Of 1,000 requests a burst of 10 is 1 %: the p99 does not see it, and it sees a burst of 12."""
    requests = Requests([1000] * 1000, [20] * 1000)
    points = [pictures.tune.measure(requests, clients) for clients in range(1, 31)]
    text = pictures.draw_tune(200, points, {"p99": points[9], "mean": None}, None, 1000)
    assert "Up to 10 clients the p99 does not see the first burst" in notes(text)
    assert points[9].p99_ttft_ms < points[11].p99_ttft_ms and "first burst" not in notes(committed("tune.svg"))


def test_ttft():
    """Every request is in a bar, and the marks are at the mean and p99 of the oracle's times."""
    text = committed("ttft.svg")
    for name, clients in (("p99", 14), ("mean", 33)):
        played = oracle.play(shipped(), clients, [0] * 100, "iteration")
        times = [(first - admitted) / 1000 for first, admitted in zip(played.first_token_us, played.admitted_us)]
        x, y, series = panel_of(text, name)
        drawn = bars(series["requests"])
        counts = [y.value(top) for _, top, _, _ in drawn]
        assert sum(counts) == pytest.approx(100, abs=0.1)
        for (left, _, width, _), count in zip(drawn, counts):
            low, high = x.value(left - 0.5), x.value(left + width + 0.5)
            assert sum(low * 0.9999 <= ms < high * 0.9999 for ms in times) == round(count)
        for label, ms in {"mean": sum(times) / 100, "p99": percentile(times, 99), "target": 200}.items():
            assert x.value(across(series[label][0])[0]) == pytest.approx(ms, rel=1e-3)
        assert sum(ms == times[0] for ms in times) >= clients
    assert title(text) == "The first burst of 33 waits 477 ms: the mean hides it"
    assert {"14 clients, by the p99", "burst of 14: 189 ms", "mean 176 ms", "p99 477 ms"} <= set(words(text))
    assert bins([8.0, 8.1, 200.0]) == {15: 2, 38: 1}
    for target_ms, who in ((1, "1 client, by the p99"), (1e6, "100 clients, by the p99")):
        alone = pictures.ttft_picture(shipped(), Costs(overhead_us=500), target_ms,
                                      pictures.tune_data(shipped(), Costs(), target_ms)[1])
        assert who in words(alone) and "by the mean" not in " ".join(words(alone))
        if target_ms == 1:  # each alone: 8 ms, 0.05 ms a prompt token, and 0.5 ms outside the server
            longest = 8.5 + 0.05 * percentile(shipped().prompt_tokens, 99)
            assert title(alone) == f"99 % have their first token within {longest:.3g} ms"


def test_preemption(results):
    text = committed("preemption.svg")
    x, y, series = panel_of(text, "throughput")
    table = read_rows(results / "paged_preemption.csv")
    for (reserve, resume), (name, *_) in POLICIES.items():
        wanted = [row for row in table if (row["reserve_full_prompt"], row["resume"]) == (str(reserve).lower(), resume)]
        assert_drawn((x, y), marks(series[name]), [(row["max_num_seqs"], row["throughput_tps"]) for row in wanted])
        assert set(marks(series[name])) <= set(points(series[name]))
    kept, lost = (float(table[i]["throughput_tps"]) for i in (2, 8))
    assert title(text) == f"Reserving the whole prompt: {kept / lost - 1:+.1%} tokens/s with 32 sequences"
    calm = pictures.draw_preemption({policy: [(8, 700.0, 0)] for policy in POLICIES}, [8], "memory")
    assert title(calm).startswith("Nothing is preempted")


def test_chunked(results):
    text = committed("chunked.svg")
    x, y, series = panel_of(text, "tail")
    table = read_rows(results / "paged_chunked.csv")
    assert_drawn((x, y), marks(series["budgets"]), [(row["p99_ttft_ms"], row["p99_itl_ms"]) for row in table])
    assert {"64", "128", "256", "512", "better: down and left"} <= set(words(text))
    first, last = ([float(row[column]) for column in ("p99_itl_ms", "p99_ttft_ms")] for row in (table[0], table[-1]))
    assert title(text) == (f"A budget of 64: tokens wait {first[0]:.3g} ms, not {last[0]:.3g} ms, the first "
                           f"{first[1]:,.0f} ms, not {last[1]:.0f} ms")
    text = pictures.draw_chunked([("64", 900.0, 8.0), ("128", 100.0, 20.0), ("unlimited", 100.0, 20.0)], 10)
    assert {"64", "128"} <= set(words(text)) and "unlimited" not in words(text), "the smaller is named"
    assert {"64", "128"} <= set(words(pictures.draw_chunked([("64", 100.0, 8.0), ("128", 100.0, 80.0)], 10)))
    assert "changes nothing" in title(pictures.draw_chunked([("64", 90.0, 8.0), ("128", 90.0, 8.0)], 10))
    assert "no request has a second token" in words(pictures.draw_chunked([("64", 100.0, 0.0)], 10))


def test_orca_curves(results):
    text = committed("orca_curves.svg")
    x, y, series = panel_of(text, "latency")
    slo = read_rows(results / "orca_slo.csv")
    wanted = {f"{row['scheduler']} {row['max_batch']}": [] for row in slo}
    for row in read_rows(results / "orca_curves.csv"):
        wanted[f"{row['scheduler']} {row['max_batch']}"].append((row["throughput_rps"], row["p50_ms_per_token"]))
    for name, places in wanted.items():
        assert_drawn((x, y), points(series[name]), places)
        assert marks(series[name]) == points(series[name]) and name in words(text)
    slow, fast = (float(row["throughput_rps"]) for row in (slo[1], slo[4]))
    assert title(text) == f"Iteration level serves {fast / slow:.1f} times as much within the target"
    assert f"iteration 32: {fast:.2f} requests/s; request 8: {slow:.2f}" in notes(text)
    assert y.is_at(across(series["target"][0])[1], slo[0]["target_ms_per_token"])
    ways = {"request 1": [(1.0, 50.0)], "iteration 8": [(2.0, 40.0)]}
    assert title(pictures.draw_curves(45, ways, {"request 1": 0.0, "iteration 8": 2.0})).startswith("Only iteration")


def test_orca_reservation(results):
    text = committed("orca_reservation.svg")
    x, _, series = panel_of(text, "tokens")
    table = read_rows(results / "orca_reservation.csv")
    assert x.high == orca_reservation.CAPACITY_TOKENS == 12_597
    for mine, theirs, row in zip(bars(series["used"]), bars(series["reserved"]), table, strict=True):
        assert x.is_at(mine[0] + mine[2], row["mean_used_tokens"])
        assert x.is_at(theirs[0] + theirs[2], row["mean_reserved_tokens"])
    assert {bar.get("class") for bar in series["reserved"]} == {"hollow"}, "told apart in grey print"
    (stuck,) = (row for row in table if row["deadlock_s"])
    said = words(text)
    assert f"deadlock at {float(stuck['deadlock_s']):.1f} s, {stuck['finished']} of 1,000 served" in said
    modes = [row["reserve"] for row in table]
    assert [line for line in said if line in set(modes)] == modes, "a bar's name stands beside it, in the file's order"
    times = [float(row["mean_reserved_tokens"]) / float(row["mean_used_tokens"]) for row in table]
    assert title(text) == f"Paging reserves {times[-1]:.2f} times what it uses, max_seq {times[-4]:.1f} times"


def test_measured():
    """Each error is at its place; what the costs were fitted to is hollow; beyond the noise is vermilion."""
    def row(run, role, measure, error):
        return SimpleNamespace(run=run, role=role, measure=measure, error_percent=error)

    rows = [row("a", "predicted", "p50_ttft_ms", 21.0), row("b", "predicted", "p99_itl_ms", -19.0),
            row("c", "calibrated", "p50_ttft_ms", 50.0)]
    text = pictures.draw_measured({"a server": (rows, 20)})
    x, y, series = panel_of(text, "noise 20")
    assert set(series) == {"zero", "predicted bad", "predicted good", "calibrated bad"}
    assert_drawn((x, y), marks(series["predicted bad"], ["mark"]), [("21.0", "0.5")])
    assert_drawn((x, y), marks(series["predicted good"], ["mark"]), [("-19.0", "1.5")])
    assert_drawn((x, y), marks(series["calibrated bad"], ["hollow"]), [("50.0", "0.5")])
    assert title(text) == "The worst prediction is off by 21 % on a server"
    assert "2 of 3" not in text and "1 of 3 errors are within 20 %" in text and "a +21.0 %" in words(text)
    assert "50 % on a server" in title(pictures.draw_measured({"a server": (rows[2:], 20)})), "none was predicted"


def test_traffic():
    """Every request is in a bar of either panel."""
    text = draw_traffic(Requests([1, 2, 4, 5], [8, 8, 8, 100]))
    for name, most in (("prompt", 1), ("answer", 3)):
        _, y, series = panel_of(text, name)
        counts = [round(y.value(top)) for _, top, _, _ in bars(series["requests"])]
        assert sum(counts) == 4 and max(counts) == most
    assert title(text) == "Half of the prompts have 3 tokens or fewer, half of the answers 8"


LIMITS = {"8": [(1.0, 50.0), (2.0, 150.0), (3.0, 900.0)], "16": [(1.0, 60.0), (2.5, 180.0), (3.5, 400.0)]}


def test_plan():
    """The line is cut where it misses the target; of four replays two end at one load, two below the answer."""
    text = pictures.draw_plan(Shown("p99 TTFT", 200, LIMITS, ("16", 2.5, 180.0), 2.1, [0, 2.25, 2.5, 2.5],
                                    {"TTFT": 3, "TPOT": 1}, 2.0, 3.2))
    x, y, series = panel_of(text, "latency")
    assert_drawn((x, y), points(series["8"]), [("1.0", "50.00"), ("2.0", "150.00"), ("3.0", "900.00")])
    assert_drawn((x, y), points(series["16"]), [("1.0", "60.00"), ("2.5", "180.00")])
    assert_drawn((x, y), points(series["16 beyond"]), [("2.5", "180.00"), ("3.5", "400.00")])
    assert_drawn((x, y), marks(series["answer"], ["mark"]), [("2.5", "180.00")])
    assert y.is_at(across(series["target"][0])[1], "200")
    for name, rps in (("today", 2.0), ("capacity", 3.2), ("answer", 2.5)):
        assert x.value(across(series[name][0])[0]) == pytest.approx(rps, abs=0.01)
    x, y, edges = panel_of(text, "replays")
    drawn = {kind: [(round(x.value(left + 2), 2), round(y.value(top))) for left, top, _, _ in bars(edges[kind])]
             for kind in ("bad edges", "good edges")}
    assert drawn == {"bad edges": [(0, 1), (2.25, 1)], "good edges": [(2.5, 2)]}
    assert title(text) == "One server carries 2.5 requests/s, 1.2 times today's; p99 TTFT decides"
    assert {"how far each of 4 replays goes", "answer 2.5", "today", "capacity", "200 ms", "8"} <= set(words(text))
    assert notes(text) == "With max_num_seqs 16; at the lines: max_num_seqs 2.1 if the server is 10 % slower " \
        "Replays are stopped: 3 by TTFT, 1 by TPOT"


def test_plan_without_an_answer():
    """Then no number stands where one could be taken for it."""
    text = pictures.draw_plan(Shown("p99 TTFT", 200, LIMITS, no_edge=True))
    assert title(text) == "Every load tried meets p99 TTFT 200 ms" and "answer" not in panel_of(text, "latency")[2]
    assert not any("requests/s" in line for line in words(text))
    text = pictures.draw_plan(Shown("p99 TTFT", 200, LIMITS, ("8", 2.0, 150.0)))
    assert "Nothing if the server is 10 % slower" in notes(text)
    text = pictures.draw_plan(Shown("p99 TTFT", 5, {}))
    assert title(text) == "No load meets p99 TTFT 5 ms" and notes(text) == "Target: p99 TTFT 5 ms"


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_stands_alone(name):
    """Well-formed, with its size, a finding for its title, nothing fetched, nothing run, two themes."""
    text = committed(name)
    root = ElementTree.fromstring(text)
    assert root.tag == f"{XMLNS}svg" and root.get("role") == "img"
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}" and root.get("width") == "576"
    assert float(root.get("height")) < 700
    assert not title(text).endswith("?") and re.search(r"\d", title(text)), "a finding, with its number"
    assert root[1].tag == f"{XMLNS}desc" and root[1].text.startswith(f"{title(text)}.") and root[1].text.endswith(".")
    assert text.count("http") == 1, "the namespace"
    assert not re.search(r"href|url\(|@import|@font-face|<script|<image|<foreignObject", text)
    assert "@media (prefers-color-scheme: dark)" in text
    assert text.isascii() and text.endswith("</svg>\n") and len(text) < 25_000
    used = {kind for element in root.iter() for kind in (element.get("class") or "").split()}
    assert all(re.search(rf"\.{kind}\b", text) for kind in used - {"now"}), "a class without a style"
    sizes = [int(size) for size in re.findall(r"(\d+)px", re.sub(r"stroke-width: \d+px|translateX\(\d+px\)", "", text))]
    assert min(sizes) * 358 / 576 >= 11, "text of 11 px on a page of GitHub on a phone"


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

    letters = "text, g.ink", "text.tick", "g.good, text.good", "text.bad"
    assert all(ratio(kind, svg.PAPER) >= 4.5 and ratio(kind, "rect.zone") >= 4 for kind in letters)
    assert all(ratio(kind, svg.PAPER) >= 3 for kind in ("g.good, text.good", "g.bad", "g.work", "g.idle", "g.quiet"))
    assert ratio("g.work", svg.PAPER) >= 4.5, "white words stand on it"
    assert ratio("g.work", svg.PAPER) > 1.5 * ratio("g.idle", svg.PAPER)
    assert ratio("g.work", "g.idle") >= 2, "told apart in grey print"


def test_what_cannot_be_drawn_is_said_and_left_out(tmp_path):
    path = tmp_path / "requests.json"
    path.write_text('[{"prompt_tokens": 10, "output_tokens": 3}]')
    needy = ["orca_curves.svg", "orca_reservation.svg"]
    done = script("pictures", "--requests", path, "--out", tmp_path / "out", "--only", *needy, "slots.svg")
    assert done.returncode == 0 and done.stdout.count("is not drawn: ") == done.stdout.count("no arrivals") == 2
    assert list(files(tmp_path / "out")) == ["slots.svg"]
    done = script("pictures", "--out", tmp_path / "two", "--only", "slots.svg", "steps.svg")
    assert (done.returncode, done.stdout) == (0, f"Pictures in {tmp_path / 'two'}:\nslots.svg\nsteps.svg\n")
    assert files(tmp_path / "two") == {name: committed(name).encode() for name in ("slots.svg", "steps.svg")}
    path.write_text('[{"gap": 1, "prompt_tokens": 9590, "output_tokens": 3}]')
    done = script("pictures", "--requests", path, "--out", tmp_path / "more", "--only", "preemption.svg", "steps.svg")
    assert "preemption.svg is not drawn: request 0 can never fit" in done.stdout
    done = script("pictures", "--out", tmp_path / "none", "--only", "waste.svg")
    assert done.returncode == 2 and "found waste.svg" in done.stderr and not (tmp_path / "none").exists()


@pytest.mark.parametrize("options, own", [
    ([], False), (["--requests", str(SHIPPED)], False), (["--first", "3"], True), (["--target-ttft-ms", "100"], True)])
def test_own_requests_never_overwrite_the_committed_pictures(tmp_path, monkeypatch, capsys, options, own):
    monkeypatch.setattr(pictures, "FOLDER", tmp_path / "labs")
    monkeypatch.setattr(pictures, "MY_FOLDER", tmp_path / "mine")
    monkeypatch.setattr("sys.argv", ["pictures.py", *options, "--only", "steps.svg"])
    monkeypatch.setattr(pictures, "arguments", lambda doc, out, real=pictures.arguments: real(doc))
    pictures.main()
    assert [path.name for path in tmp_path.iterdir()] == ["mine" if own else "labs"]
