"""Every word of every picture, and its description, for small hand-made data; and the branches of the recorded ones."""

from xml.etree import ElementTree

import paged_prefix
from drawing import chunked as picture_chunked
from drawing import curves as picture_curves
from drawing import deadlock as picture_deadlock
from drawing import measured as picture_measured
from drawing import plan as picture_plan
from drawing import preemption as picture_preemption
from drawing import prefix as picture_prefix
from drawing import waiting as picture_queue
from drawing import reservation as picture_reservation
from drawing import slots as picture_slots
from drawing import ttft as picture_ttft
from drawing import tune as picture_tune
from drawing import waste as picture_waste
import pytest
import queueing
import tune
from common import Requests, Schedule
from files.costs import Costs
from orca_reservation import Measures
from roofline.systems import Point
from orca_waste import Waste
from roofline.workload import Workload
from picture_reader import XMLNS, bars, colour_of, description, marks, panel_of, points, words
from drawing.scales import Panel, Scale

NUMBERS = Panel("hand", Scale(0, 100, 0, 100), Scale(0, 100, 0, 100))  # a value is drawn where it says


def said(text):
    """Description and words of a picture: those that are no number on an axis, with their class."""
    elements = ElementTree.fromstring(text).iter(f"{XMLNS}text")
    kinds = [(element.text, element.get("class") or "") for element in elements]
    return [description(text), *(f"{kind}: {line}" if kind else line for line, kind in kinds if "tick" not in kind)]


# --- the eight steps ----------------------------------------------------------------------------------------------

LOOP = [tune.Point(1, 25.0, 79.2, 60.0), tune.Point(2, 30.0, 90.0, 110.0), tune.Point(3, 40.0, 250.0, 150.4)]


@pytest.mark.parametrize("target_ms, answers, n, lines, numbers", [
    (200, [2, 2, 2], 3, ["bad: p99: 2 clients, 110 tokens/s", "bad: p99: 2 in any order tried",
                         "good: mean: 3 clients or more, 150 tokens/s, p99 250 ms"],
     ["bad middle: 2", "good middle: 3"]),
    (90, [1, 2], 299, ["bad: p99: 2 clients, 110 tokens/s", "bad: p99: 1 to 2 in 2 random orders",
                       "good: mean: 3 clients or more, 150 tokens/s, p99 250 ms",
                       "head: up to 2 clients the p99 misses the first burst"], ["bad middle: 2", "good middle: 3"]),
    (30, [0, 2, 1], 199, ["bad: p99: none; 1 client has 79.2 ms", "bad: p99: 0 to 2 in 3 random orders",
                          "good: mean: 2 clients, 110 tokens/s, p99 90 ms"], ["good middle: 2"]),
    (80, None, 499, ["bad: p99: 1 client, 60 tokens/s", "good: mean: 3 clients or more, 150 tokens/s, p99 250 ms",
                     "head: up to 4 clients the p99 misses the first burst"], ["bad middle: 1", "good middle: 3"]),
    (20, [0, 0], 599, ["bad: p99: none; 1 client has 79.2 ms", "good: mean: none; 1 client has 25 ms"], []),
    (1e6, None, 3, ["bad: p99: 3 clients or more, 150 tokens/s", "good: mean: 3 clients or more, 150 tokens/s"],
     ["bad middle: 3"]),
])
def test_tune_says_both_answers_the_orders_and_the_unseen_burst(target_ms, answers, n, lines, numbers):
    """Of 200 requests one is 0.5 %, and a burst of 2 is 1 %; the axis ends at 5 clients, and 5 is not within it."""
    text = picture_tune.draw_tune(target_ms, LOOP, answers, n)
    sentences = "; ".join(line.split(": ", 1)[1] for line in lines)
    assert said(text) == [
        f"Clients that meet {target_ms:,.12g} ms. P{sentences[1:]}.", "title: How many clients meet the TTFT target?",
        f"One request in flight each; target {target_ms:,.12g} ms", *lines, *numbers,
        "target", "bad: p99", "good: mean"]
    assert ("unseen" in panel_of(text, "ttft")[2]) == any("first burst" in line for line in lines)
    assert ("orders" in panel_of(text, "ttft")[2]) == any("order" in line for line in lines)


def test_orders_are_varied_up_to_1000_requests(monkeypatch):
    """And of one request there is no order. The loop is played once for every concurrency, up to the limit."""
    monkeypatch.setattr(tune, "answer_in_random_order", lambda requests, seed, up_to, *settings: (seed, up_to))
    monkeypatch.setattr(tune, "measure", lambda requests, clients, costs: clients)
    for n, up_to, varied in ((1, 256, None), (2, 256, 2), (1000, 256, 256), (1001, 7, None)):
        target, played, answers, count = picture_tune.tune_data(Requests([1] * n, [1] * n), up_to=up_to)
        assert (target, played, count) == (200, list(range(1, min(n, up_to) + 1)), n)
        assert answers == (varied and [(seed, varied) for seed in range(20)])


TTFTS = [10.0, 12.0, 300.0]  # mean 107.3, p50 12, p99 12 + 0.98 x 288 = 294.2


def test_ttft_of_one_case_and_of_two():
    text = picture_ttft.draw_ttft(200, [("p99", 1, TTFTS)])
    assert said(text) == [
        "TTFT against a target of 200 ms. 1 client: p50 12 ms, mean 107 ms, p99 294 ms.",
        "title: How is the TTFT distributed?", "TTFT of every request; target 200 ms",
        "head: 1 client, by the p99 of the TTFT", " middle: p50 12 ms", " middle: target", "good middle: mean 107 ms",
        "bad middle: p99 294 ms"]
    assert words(text).count("TTFT, ms, log scale") == 1
    text = picture_ttft.draw_ttft(1500, [("p99", 2, TTFTS), ("mean", 3, [8.0])])
    assert said(text) == [
        "TTFT against a target of 1,500 ms. 2 clients: p50 12 ms, mean 107 ms, p99 294 ms; "
        "3 clients: p50 8 ms, mean 8 ms, p99 8 ms.",
        "title: Why does the mean promise too much?", "TTFT of every request; target 1,500 ms",
        "head: 2 clients, by the p99 of the TTFT", " middle: p50 12 ms", " middle: target", "good middle: mean 107 ms",
        "bad middle: p99 294 ms",
        "head: 3 clients, by the mean of the TTFT", " middle: p50 8 ms", " middle: target", "good middle: mean 8 ms",
        "bad middle: p99 8 ms"]
    assert words(text).count("TTFT, ms, log scale") == 1, "below the last one"


def test_ttfts_count_the_time_outside_the_server():
    """One request of 100 prompt tokens: 5 ms of prefill, a pass of 8 ms, and 2 ms outside."""
    assert picture_ttft.ttfts_ms(Requests([100], [3]), 1, Costs(overhead_us=2000)) == [15.0]


def test_queue_words():
    """The mean of the first noted rate is 0: no number stands there, and no mark."""
    text = picture_queue.draw_queue(32, 33, 12.34, [5, 10], [(5, 0, 40.0), (10, 2.0, 20.0), (20, 30.0, 500.0)])
    assert said(text) == [
        "Capacity is 12.3 requests/s. Mean and p99 of the wait: at 5 requests/s 0 ms and 40 ms; "
        "at 10 requests/s 2 ms and 20 ms.",
        "title: How long do requests wait?", "Poisson arrivals, continuous batching, 32 slots",
        "never catches up: more comes than is served", "bad: 40 ms", "bad end: 20 ms", "good end: 2 ms",
        "head middle: capacity 12.3/s", "bad: p99 wait", "good: mean wait"]
    _, _, series = panel_of(text, "wait")
    assert len(points(series["mean"])) == 2 and len(marks(series["mean"])) == 1 and len(marks(series["p99"])) == 2
    text = picture_queue.draw_queue(32, 32, 12.34, [5, 10], [(5, 0, 0), (10, 0, 0), (20.04, 0, 0)])
    assert said(text) == [
        "At no rate up to 20 requests/s does a request wait: there is always a free slot.",
        "title: How long do requests wait?", "Poisson arrivals, continuous batching, 32 slots",
        "never catches up; but no request waits for a slot", "good middle: nobody waits",
        "head middle: capacity 12.3/s"]


@pytest.mark.parametrize("capacity, noted", [
    (10, [5, 10]), (8, [5, 10]), (100, [5, 10, 20, 40]), (101, [10, 20, 40]), (7.6, [3.8, 6.84]), (7.7, [5, 10]),
    (800, [400, 720]), (799, [399.5, 719.1]), (400, [20, 40]), (401, [200.5, 360.9]),
])
def test_rates_that_are_noted(monkeypatch, capacity, noted):
    """Those of queue.csv from a 20th of the capacity to 1.3 times of it; where they are less than two, two others."""
    monkeypatch.setattr(queueing, "capacity_rps", lambda *_: capacity)
    monkeypatch.setattr(queueing, "waits_at", lambda *_: ([1000, 3000], 0))
    for n, steps in ((1000, 52), (1001, 13)):
        slots, count, found, some, played = picture_queue.queue_data(Requests([1] * n, [1] * n))
        assert (slots, count, found) == (32, n, capacity) and some == pytest.approx(noted)
        rates = {round(1.3 * capacity * k / steps, 6) for k in range(1, steps + 1)} | {round(rps, 6) for rps in noted}
        assert sorted(rates) == sorted({round(rps, 6) for rps, *_ in played})
        assert all(point[1:] == pytest.approx((2, 2.98)) for point in played)


def test_where_a_long_list_is_cut():
    """Eight static batches, or the admission of the request after 1000 where that is earlier."""
    times = list(range(2000))
    by_batch = Schedule(times, times, [10 * time for time in times], 1, 1)
    by_iteration = Schedule([3 * time for time in times], times, times, 1, 1)
    assert picture_slots.window_us(16, by_batch, by_iteration) == 1270
    assert picture_slots.window_us(100, by_batch, by_iteration) == 3000
    first = by_batch._replace(finished_us=by_batch.finished_us[:1000])
    assert picture_slots.window_us(100, first, by_iteration) == 7990, "1000 requests are not cut by their number"
    assert picture_slots.window_us(200, first, by_iteration) == 9990, "nor by their batches"


def test_slots_words():
    """10 requests of one token in one slot, 8 ms each: eight batches are drawn, and continuous is no faster."""
    data = picture_slots.slots_data(Requests([20] * 10, [1] * 10), Costs(prefill_us_per_token=100), slots=1)
    text = picture_slots.draw_slots(*data)
    assert said(text) == [
        "Static batching ends at 0.10 s with slot_util 1.0000. "
        "Continuous batching ends at 0.10 s with slot_util 1.0000. "
        "The same 10 requests in 1 slots: continuous batching has 1.000 times the throughput.",
        "title: What if a freed slot were filled at once?", "good: Continuous: 1.000 times the throughput",
        "a request (10 in 1 slots)", "an idle slot", "head: Static batching", "8 of 10 finished here, slot_util 1.0000",
        "head: Continuous batching", "8 of 10 finished here, slot_util 1.0000"]
    assert words(text)[-1] == "the first 0.08 seconds"
    torn = [path.get("d") for path in ElementTree.fromstring(text).iter(f"{XMLNS}path") if path.get("class") == "paper"]
    assert torn[0] == (
        "M621,176L620,176L613,184L620,192L613,200L620,208L613,216L620,224L613,232L620,240L613,248L620,256"
        "L613,264L620,272L613,280L620,288L613,296L620,304L613,312L620,320L613,328L621,328z")


# --- the second lab -----------------------------------------------------------------------------------------------


def test_waste_words():
    """100 computed: 50 useful, 25 padding, 25 of finished requests."""
    text = picture_waste.draw_waste({1: Waste(3, 2, 100, 50, 25), 2.5: Waste(3, 2, 200, 50, 30)})
    assert said(text) == [
        "At 1 requests/s 50% is waste, 25 % padding and 25 % rows of finished requests; "
        "at 2.5 requests/s 75% is waste, 15 % padding and 60 % rows of finished requests.",
        "title: What does request-level batching waste?", "Request level, batches of up to 8, cut by memory",
        "useful", "padding of prompts", "rows that have finished",
        "head: 1 request per second", "bad end: 50% waste", "head: 2.5 requests per second", "bad end: 75% waste"]


SYSTEMS = {("request", 1): [Point(1, 0.9, 30.0, 1)], ("request", 8): [Point(1, 0.95, 40.0, 1), Point(2, 1.5, 90.0, 1)],
           ("iteration", 32): [Point(1, 1.0, 20.0, 1), Point(4, 3.9, 25.0, 1)]}


def test_curves_words():
    """What a level serves is what its best system serves within the target."""
    within = {("request", 1): Point(1, 0.9, 30.0, 1), ("request", 8): Point(1, 0.8, 40.0, 1),
              ("iteration", 32): Point(4, 4.0, 39.0, 1)}
    text = picture_curves.draw_curves(40.0, SYSTEMS, within)
    assert said(text) == [
        "Requests served per second within 40.0 ms per output token: request 1 0.90, request 8 0.80, "
        "iteration 32 4.00; iteration 32 serves 4.4 times as much.",
        "title: Which load does each scheduler carry?", "GPT-3 13B on an A100, modelled; target 40.0 ms",
        "bad: request 1 serves 0.90 requests/s within it", "good: iteration 32 serves 4.00 requests/s within it",
        "good: iteration 32 serves 4.4 times as much", "bad: request 1", "bad: request 8", "good end: iteration 32",
        "target"]
    never = Point(0.05, 0, 9, 0)
    within |= {("request", 1): never, ("request", 8): never}
    text = picture_curves.draw_curves(40.0, SYSTEMS, within)
    assert said(text)[0] == ("Requests served per second within 40.0 ms per output token: request 1 0.00, "
                             "request 8 0.00, iteration 32 4.00; At no rate does request level meet it.")
    assert said(text)[3:6] == ["bad: request level serves 0.00 requests/s within it",
                               "good: iteration 32 serves 4.00 requests/s within it",
                               "good: At no rate does request level meet it"]
    x, y, series = panel_of(text, "latency")
    assert [name for name in series if "within" in name] == ["iteration 32 within"], "no mark at 0 requests/s"
    ((across, up),) = marks(series["iteration 32 within"])
    assert (x.value(across), y.value(up)) == pytest.approx((4, 39), rel=1e-3)


CACHE = {"max_seq": [(0.0, 2048)], "max_gen": [(0.0, 500), (3.0, 1500), (3.1, 12)],
         "paged": [(0.0, 16), (2.0, 1600), (5.0, 320)], "none": [(0.0, 10), (1.5, 12597)]}
KEYS = ["max_seq", "max_gen", "paged", "none"]


def test_deadlock_words():
    """After a deadlock at 1.5 s as much again is drawn; without, until paged is done."""
    text = picture_deadlock.draw_deadlock(CACHE, 1.5)
    full = "With none the cache is full, and all stops, at 1.5 s."
    peaks = "Most tokens in the cache, of 12,597 that fit: max_seq 2,048, max_gen 1,500, paged 1,600, none 12,597."
    title, under = "title: What if nobody reserves memory?", "Tokens in the cache at 12 requests/s; 12,597 fit"
    assert said(text) == [f"{full} {peaks}", title, under, *KEYS, f"bad: {full}"]
    x, y, series = panel_of(text, "cache")
    assert x.high == 3.0 and len(points(series["max_gen"])) == 2 and len(points(series["paged"])) == 2
    ((across, up),) = marks(series["flat"])
    assert (x.value(across), y.value(up)) == pytest.approx((1.5, 12597), rel=1e-3)
    text = picture_deadlock.draw_deadlock(CACHE, None)
    assert said(text) == [
        f"Nobody runs out of memory. {peaks}", title, under, *KEYS, "good: Nobody runs out of memory."]
    x, _, series = panel_of(text, "cache")
    assert x.high == 5.0 and "flat" not in series


def test_a_bin_keeps_its_last_point():
    """Ten bins of a second: 0.99 is in the first, 1.0 in the second, and the end in the last."""
    assert picture_deadlock.sampled([(0.0, 5), (0.99, 6), (1.0, 7), (9.5, 8), (10.0, 9)], 10, 10.0) == [
        (0.99, 6), (1.0, 7), (10.0, 9)]


def test_a_cache_is_seen_when_requests_are_admitted():
    """A prompt of 300 is there at 0 s, when it is prefilled, and with the next prompt of 500 it is 800."""
    workload = Workload(Requests([300, 500], [100, 1]), [0.0, 0.12])  # at 12 requests/s: 0 and 10 ms
    data, stuck_s = picture_deadlock.deadlock_data(workload, "")
    (first_s, first), (second_s, second) = data["none"]
    assert stuck_s is None and (first_s, first) == (0.0, 300)
    assert 0.01 <= second_s < 0.1 and second == 800


def test_reservation_words():
    """9,000 reserved and 4,500 used: 2.00. A deadlock is said below its bar, and a cross is at its end."""
    text = picture_reservation.draw_reservation(1000, {
        (4, "max_seq"): Measures(9000.0, 4500.0, 1.0, 1.0, None, 1000),
        (4, "none"): Measures(3000.4, 3000.4, None, None, 12.34, 45),
        (2.5, "paged"): Measures(2100.0, 2000.0, 1, 1, None, 9)})
    assert said(text) == [
        "Mean tokens reserved and used: max_seq at 4 requests/s 9,000 and 4,500; none at 4 requests/s 3,000 and 3,000; "
        "deadlock at 12.3 s, 45 of 1,000 served; paged at 2.5 requests/s 2,100 and 2,000.",
        "title: How much reserved memory is ever used?", "tokens in use", "reserved, not in use",
        "end: reserved / used",
        "head: 4 requests per second", "end: max_seq", "end: 2.00", "end: none", "end: 1.00",
        "bad: deadlock at 12.3 s, 45 of 1,000 served", "head: 2.5 requests per second", "end: paged", "end: 1.05"]
    x, _, series = panel_of(text, "tokens")
    ((across, up),) = marks(series["deadlock"])
    top, tall = bars(series["used"])[1][1::2]
    assert x.value(across) == pytest.approx(3000.4, rel=1e-3) and up == top + tall / 2
    assert "deadlock" not in panel_of(picture_reservation.draw_reservation(
        9, {(4, "max_gen"): Measures(9.0, 9.0, 1.0, 1.0, None, 9)}), "tokens")[2]


# --- the third lab ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most, below, full", [
    (0, "nothing is preempted", "Nothing is preempted: there is room for all that run."),
    (1234, "up to 1,234 preemptions", "Up to 1,234 preemptions."),
])
def test_preemption_words(most, below, full):
    """Marks at 8 only, of 1 and 8: those are the rows of the file."""
    ends = zip(picture_preemption.POLICIES, (50.0, 55.4, 1040.6, 1050.0), (0, most, 0, most // 2))
    text = picture_preemption.draw_preemption({policy: [(1, 10.0, 0), (8, tps, preemptions)]
                                               for policy, tps, preemptions in ends})
    names = ["reserve the prompt, recompute", "reserve the prompt, swap", "reserve nothing, recompute",
             "reserve nothing, swap"]
    assert said(text) == [
        "At max_num_seqs 8: reserve the prompt, recompute 50 tokens/s; reserve the prompt, swap 55 tokens/s; "
        f"reserve nothing, recompute 1,041 tokens/s; reserve nothing, swap 1,050 tokens/s. {full}",
        "title: Does preempting often cost throughput?", f"599 blocks of 16 tokens; {below}", *names]
    for name in names:
        assert colour_of(text, name) == ("good" if "the prompt" in name else "bad")
        assert len(marks(panel_of(text, "throughput")[2][name])) == 1


@pytest.mark.parametrize("n, limits", [(1000, [1, *range(2, 41, 2)]), (1001, [8, 16, 32])])
def test_limits_of_preemption(monkeypatch, n, limits):
    """A long list is played at the limits of the file only."""
    monkeypatch.setattr(picture_preemption.paged_preemption, "measure",
                        lambda requests, reserve, resume, limit, costs: Schedule([], [], [limit], 1, 1))
    monkeypatch.setattr(picture_preemption, "throughput_tps", lambda requests, result: 2.0 * result.finished_us[0])
    monkeypatch.setattr(Schedule, "preemptions", 7, raising=False)
    data = picture_preemption.preemption_data(Requests([1] * n, [1] * n))
    assert data == {policy: [(limit, 2.0 * limit, 7) for limit in limits] for policy in picture_preemption.POLICIES}


def test_prefix_words():
    text = picture_prefix.draw_prefix([(0, 1.0), (256, 3.0), (1024, 8.04), (2048, 16.0), (2100, 16.5)], 1024)
    title, under = "title: What does a cached system prompt save?", "Times that the median TTFT gets shorter"
    assert said(text) == ["A cached system prompt of 2,100 tokens makes the median TTFT 16.5 times shorter, "
                          "more than 8 times from 1,024 tokens on.", title, under, "head: 8 times from 1,024 on"]
    assert len(marks(panel_of(text, "ratio")[2]["ratio"])) == 4, "2,100 is no row of the file"
    text = picture_prefix.draw_prefix([(0, 1.0), (1024, 8.0)], None)
    assert said(text) == [
        "A cached system prompt of 1,024 tokens makes the median TTFT 8.0 times shorter.", title, under]
    assert "beyond" not in panel_of(text, "ratio")[2]


@pytest.mark.parametrize("beyond, at", [(2048, 94 + 248 / 2), (128, 94 + 31 / 2 + 6.25)])
def test_a_word_stands_above_its_dotted_line_or_else_beside_its_end(beyond, at):
    """A system prompt of 4096 tokens is 496 units wide: half of it is 248, and of that the middle is meant."""
    text = picture_prefix.draw_prefix([(0, 1.0), (beyond, 8.1), (4096, 20.0)], beyond)
    place = next(element for element in ElementTree.fromstring(text).iter() if "head" in (element.get("class") or ""))
    assert float(place.get("x")) == pytest.approx(at)


@pytest.mark.parametrize("n, slope, lengths, beyond", [
    (1000, 0.01, [*range(0, 4097, 256), 777], 777), (1001, 0.01, [0, 256, 512, 1024, 2048, 4096], None),
    (1000, 8 / 4096, [*range(0, 4097, 256)], None),
])
def test_lengths_of_system_prompts(monkeypatch, n, slope, lengths, beyond):
    """Short lists have more points and the point beyond a ratio of 8; 8 itself is not beyond it."""
    monkeypatch.setattr(paged_prefix, "measure", lambda requests, tokens, costs: (tokens, slope * tokens, 1.0))
    monkeypatch.setattr(paged_prefix, "shortest_beyond", lambda requests, ratio, costs: 777 if ratio == 8 else None)
    ratios, found = picture_prefix.prefix_data(Requests([1] * n, [1] * n))
    assert ratios == [(tokens, slope * tokens) for tokens in sorted(lengths)] and found == beyond


def test_chunked_words():
    """Two budgets at one place are one word; 20 and 20.5 ms are drawn 1.8 units apart."""
    text = picture_chunked.draw_chunked(
        [("64", 900.0, 8.0), ("128", 500.0, 20.0), ("256", 500.0, 20.5), ("unlimited", 100.0, 90.0)])
    title = "title: What does a token budget trade?"
    under = "A point a budget (max_num_batched_tokens); 10 requests/s"
    assert said(text) == [
        "p99 inter-token latency and p99 TTFT by token budget: 64 8 ms and 900 ms; 128 20 ms and 500 ms; "
        "256 20.5 ms and 500 ms; unlimited 90 ms and 100 ms.",
        title, under, "good end: 64", "good end: 128 to 256", "good: unlimited"]
    assert said(picture_chunked.draw_chunked([("64", 100.0, 0.0)])) == [
        "No request has a second token, so there is no inter-token latency.", title, under,
        "head middle: no request has a second token"]


def test_points_within_3_units_are_together():
    """Across and up; the first one's place holds for all."""
    points = [("a", 10, 10), ("b", 12.9, 7.1), ("c", 13, 10), ("d", 10, 6.9), ("e", 10, 12.5), ("f", 15.5, 10)]
    assert picture_chunked.together(NUMBERS, points) == {
        (10, 10): ["a", "b", "e"], (13, 10): ["c", "f"], (10, 6.9): ["d"]}


@pytest.mark.parametrize("named, word", [
    ("b", "b"), ("d", "d"), ("abcd", "all budgets"), ("cd", "c or more"), ("bc", "b to c")])
def test_one_word_for_budgets_at_one_place(named, word):
    assert picture_chunked.words_of(list(named), [(name, 1, 1) for name in "abcd"]) == word


# --- the fourth lab -----------------------------------------------------------------------------------------------


def test_measured_words():
    """What measured 0 is left out. 25 % is within 25 %. -40 % is the worst, but that run was calibrated."""
    rows = [("a", "p50_ttft_ms", 100, 130), ("a", "p99_itl_ms", 0, 3), ("b", "p50_ttft_ms", 100, 119.6),
            ("c", "p50_ttft_ms", 100, 60), ("b", "other", 10, 12.5)]
    text = picture_measured.draw_measured(rows, ["c"], 25)
    assert said(text) == [
        "2 of 4 errors are within 25 %, the noise of the machine; worst of the runs predicted: p50 TTFT of a, +30 %.",
        "title: How far are predictions from a server?", "Grey: identical runs differ by 25 %",
        "a", "b", "c (calibrated)", "end: p50 TTFT", "end: other"]
    assert [colour_of(text, name) for name in ("p50_ttft_ms a", "p50_ttft_ms b", "p50_ttft_ms c", "other b")] == [
        "bad", "good", "bad", "good"]
    x, _, series = panel_of(text, "error")
    assert x.value(marks(series["p50_ttft_ms c"])[0][0]) == pytest.approx(-40, abs=0.02)
    noise = next(element for element in ElementTree.fromstring(text).iter() if element.get("class") == "noise")
    left, wide = float(noise.get("x")), float(noise.get("width"))
    assert (x.value(left), x.value(left + wide)) == pytest.approx((-25, 25), abs=0.02)
    assert (x.low, x.high) == pytest.approx((-45, 35)), "a quarter of a step of 20 more than the errors"


def test_the_worst_is_of_all_runs_where_none_was_predicted():
    found = picture_measured.errors([("a", "p50_ttft_ms", 10, 12), ("b", "p50_ttft_ms", 10, 7)])
    assert picture_measured.worst(found, ["a", "b"])[1:] == ("p50_ttft_ms", "b")
    assert picture_measured.worst(found, ["b"])[1:] == ("p50_ttft_ms", "a")


def test_measured_rows_are_those_of_the_named_servers_in_order():
    """By server as named, calibrated runs first, then by run, then by the order of the measures."""
    rows = [dict(zip(("server", "run", "role", "measure", "measured", "predicted"), line)) for line in (
        ("sync", "s", "predicted", "p50_ttft_ms", "1.50", "2.00"), ("cpu", "z", "predicted", "p50_ttft_ms", "9", "9"),
        ("async", "b", "predicted", "throughput_tps", "3", "4"), ("async", "b", "predicted", "p99_ttft_ms", "5", "6"),
        ("async", "a", "predicted", "p50_itl_ms", "7", "8"), ("async", "c", "calibrated", "p50_itl_ms", "7", "8"))]
    assert picture_measured.measured_data(("async", "sync"), rows) == ([
        ("c", "p50_itl_ms", 7.0, 8.0), ("a", "p50_itl_ms", 7.0, 8.0), ("b", "p99_ttft_ms", 5.0, 6.0),
        ("b", "throughput_tps", 3.0, 4.0), ("s", "p50_ttft_ms", 1.5, 2.0)], {"c"}, 1.7)
    assert picture_measured.measured_data(("cpu",), rows) == ([("z", "p50_ttft_ms", 9.0, 9.0)], set(), 40)


LIMITS = {8: [(1.0, 50.0, 40.0, 80.0), (2.0, 150.0, 100.0, 300.0)],
          16: [(1.0, 60.0, 50.0, 70.0), (2.5, 180.0, 150.0, 190.0), (3.5, 400.0, 300.0, 900.0)]}


@pytest.mark.parametrize("given, lines, heads", [
    (dict(answer=(16, 2.5), slower_rps=2.1, today_rps=2, capacity_rps=3.2),
     ["good: 2.5 requests/s with max_num_seqs 16", "bad: 2.1 if every step takes 10 % longer",
      "today 2; capacity 3.2; at the lines: max_num_seqs"],
     [" middle: today", " middle: capacity", "good middle: answer", "bad middle: 10 % slower"]),
    (dict(answer=(16, 2.5), capacity_rps=1234.56),
     ["good: 2.5 requests/s with max_num_seqs 16", "bad: none if every step takes 10 % longer",
      "capacity 1,230; at the lines: max_num_seqs"], [" middle: capacity", "good middle: answer"]),
    (dict(answer=(8, 1.0)), ["good: 1 requests/s with max_num_seqs 8", "bad: none if every step takes 10 % longer",
                             "at the lines: max_num_seqs"], ["good middle: answer"]),
    (dict(today_rps=2, slower_rps=1), ["bad: No load meets p99 TTFT 1,500 ms"], [" middle: today"]),
    (dict(no_edge=True), ["bad: No edge found: every load meets 1,500 ms"], []),
])
def test_plan_words(given, lines, heads):
    text = picture_plan.draw_plan(LIMITS, 1500, **given)
    sentences = [line.split(": ", 1)[1] if line.startswith(("good", "bad")) else line for line in lines]
    found = [line for line in said(text) if not line.endswith((": 8", ": 16"))]  # beside the lines, if there is room
    assert found == [f"{'; '.join(sentences)}; target p99 TTFT 1,500 ms.", "title: Which load meets the target?",
                     "Target 1,500 ms; bands: the middle 18 of 20 replays", *lines, *heads, "target"]
    x, _, _ = panel_of(text, "p99")
    assert x.high == pytest.approx(1.04 * max(3.5, given.get("capacity_rps", 0)))
    assert ('class="zone"' in text) == (given.get("capacity_rps") is not None)


def test_a_plan_of_no_load_at_all():
    text = picture_plan.draw_plan({8: []}, 1500)
    assert said(text) == ["No load meets p99 TTFT 1,500 ms; target p99 TTFT 1,500 ms.",
                          "title: Which load meets the target?", "Target 1,500 ms; one request alone misses a target",
                          "bad: No load meets p99 TTFT 1,500 ms"]


def test_what_lies_where_in_a_plan():
    """Lines below one another, signs in two rows above the panel, the zone from the capacity to the panel's end."""
    text = picture_plan.draw_plan(LIMITS, 200, "p99 ITL", 2.0, 3.2, (16, 2.5), 2.1)
    spots = {element.text: (float(element.get("x")), float(element.get("y")))
             for element in ElementTree.fromstring(text).iter(f"{XMLNS}text")}
    x, y, series = panel_of(text, "p99")
    assert [spots[line][1] for line in ("Target 200 ms; bands: the middle 18 of 20 replays",
                                        "2.5 requests/s with max_num_seqs 16", "2.1 if every step takes 10 % longer",
                                        "today 2; capacity 3.2; at the lines: max_num_seqs")] == [68, 92, 116, 140]
    assert (y.start, y.end) == (474, 224) and "viewBox=\"0 0 640 536\"" in text
    assert spots["today"][1] == spots["capacity"][1] == 194 and spots["answer"][1] == spots["10 % slower"][1] == 218
    assert spots["p99 ITL, ms, log scale"] == (20, 166) and spots["target"][0] == x.end + 10
    zone = next(element for element in ElementTree.fromstring(text).iter() if element.get("class") == "zone")
    left, top, wide, tall = (float(zone.get(side)) for side in ("x", "y", "width", "height"))
    assert x.value(left) == pytest.approx(3.2, rel=1e-3) and left + wide == pytest.approx(x.end)
    assert (top, tall) == (224, 250)
    for name, rps, from_y in (("today", 2, 224), ("capacity", 3.2, 224), ("answer", 2.5, 180), ("slower", 2.1, 200)):
        left, top, _, bottom = map(float, series[name][0].get("d")[1:].replace("L", ",").split(","))
        assert x.value(left) == pytest.approx(rps, rel=1e-3) and bottom == y.start
        assert top == from_y or y.value(top) == pytest.approx(from_y, rel=1e-3)
    assert {name: colour_of(text, name) for name in series} == {
        "8 replays": "quiet", "8": "quiet", "target": "ink", "16 replays": "good", "16 beyond": "bad", "16": "good",
        "today": "ink", "capacity": "ink", "answer": "good", "slower": "bad"}
    assert series["8"][0].get("class") == "thin" and series["16"][0].get("class") is None
    assert {"tick end: 8", "good middle: 16"} <= {f"{element.get('class')}: {element.text}"
                                              for element in ElementTree.fromstring(text).iter(f"{XMLNS}text")}
