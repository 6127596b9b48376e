"""The demos of the second lab: files, what is printed, the lecture's numbers, the paper's order, fresh workloads."""

import csv
import json
from random import Random

from common import Requests
import orca_curves
import orca_homogeneous
import orca_lecture
import orca_reservation
import orca_waste
import pytest
from fixture import SHIPPED, assert_refused, files, make, script, started, words
from orca_curves import Curves
from orca_oracle import per_token
from orca_reservation import Measures
from orca_waste import Run, Times, Waste
from roofline import request_level as orca_request
from roofline.systems import Point, at_once_rps, curve, highest_within, measure, peak_rps
from roofline.workload import RECORDED, Workload, draw_workload, load_workload
from running.options import aligned

SCRIPTS = ["orca_waste", "orca_curves", "orca_homogeneous", "orca_reservation", "orca_lecture"]
HEADERS = {
    "orca_waste.csv": "rate_rps,batches,mean_batch,computed_tokens,useful_tokens,waste",
    "orca_curves.csv": "scheduler,max_batch,rate_rps,throughput_rps,p50_ms_per_token",
    "orca_slo.csv": "scheduler,max_batch,target_ms_per_token,max_rate_rps,throughput_rps,peak_throughput_rps",
    "orca_homogeneous.csv": "prompt_tokens,output_tokens,scheduler,max_batch,peak_throughput_rps",
    "orca_reservation.csv": "rate_rps,reserve,mean_reserved_tokens,mean_used_tokens,throughput_rps,p50_ms_per_token,"
    "deadlock_s,finished",
}
SYSTEMS = (("request", 1), ("request", 8), ("iteration", 8), ("iteration", 16), ("iteration", 32))
ONE, BATCH, ITERATION_8, _, MANY = SYSTEMS


@pytest.fixture(scope="module")
def recorded():
    return load_workload(RECORDED)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder and the output of `make orca`."""
    out = tmp_path_factory.mktemp("a folder's")
    done = make("orca", f"OUT={out}")
    assert (done.returncode, done.stderr) == (0, "")
    return out, done.stdout


def rows(folder, name):
    return list(csv.reader((folder / name).read_text().splitlines()))


# --- the files ----------------------------------------------------------------------------------------------------


def test_one_command_writes_the_five_files_and_nothing_differs(made):
    out, text = made
    assert sorted(path.name for path in out.iterdir()) == sorted(HEADERS)
    for name, header in HEADERS.items():
        content = (out / name).read_bytes()
        assert content.startswith(header.encode() + b"\n") and content.endswith(b"\n") and b"\r" not in content
    assert "all 15 numbers are the lecture's" in words(text) and " NO\n" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_rows_and_their_decimals(made):
    out, _ = made
    assert rows(out, "orca_waste.csv")[1:] == [
        ["1.000", "495", "2.020", "462560", "339304", "0.2665"],
        ["2.000", "188", "5.319", "550738", "339304", "0.3839"],
        ["4.000", "169", "5.917", "556320", "339304", "0.3901"],
    ]
    curves = rows(out, "orca_curves.csv")[1:]
    systems = [[scheduler, f"{limit}"] for scheduler, limit in SYSTEMS]
    rates = ["0.500", "1.000", "2.000", "4.000", "6.000", "8.000", "12.000", "16.000"]
    assert [row[:3] for row in curves] == [[*system, rate] for system in systems for rate in rates]
    assert ["request", "8", "2.000", "1.945", "170.666"] in curves
    slo = rows(out, "orca_slo.csv")[1:]
    assert [row[:3] for row in slo] == [[*system, "45.216"] for system in systems]
    assert slo[-1] == ["iteration", "32", "45.216", "12.434", "11.921", "12.136"]
    assert rows(out, "orca_homogeneous.csv")[1:5] == [
        ["32", "32", "request", "8", "7.869"],
        ["32", "32", "iteration", "6", "7.902"],
        ["32", "32", "iteration", "8", "10.798"],
        ["32", "32", "iteration", "32", "31.268"],
    ]
    assert [row[:2] for row in rows(out, "orca_reservation.csv")[1:]] == [
        [rate, mode] for rate in ("4.000", "8.000", "12.000") for mode in ("max_seq", "max_gen", "none", "paged")
    ]
    assert rows(out, "orca_reservation.csv")[-2] == ["12.000", "none", "8159.4", "8159.4", "", "", "49.745", "516"]
    assert rows(out, "orca_reservation.csv")[-3][4:] == ["7.596", "384.453", "", "1000"]
    paged = ["12.000", "paged", "8610.2", "8411.9", "11.555", "38.128", "", "1000"]
    assert rows(out, "orca_reservation.csv")[-1] == paged


def test_a_table_for_people_has_words_flush_left_and_numbers_flush_right():
    text = "scheduler   max\nrequest       8\niteration  32.5\n"
    assert aligned(["scheduler", "max"], [["request", 8], ["iteration", "32.5"]]) == text


def test_every_script_says_what_it_answers_and_refuses_what_it_cannot_read(tmp_path):
    for name in SCRIPTS:
        done = started(name, "--help")
        assert "?" in done.stdout.split("\n\n")[1].splitlines()[0] and "writes" in done.stdout
        assert "(default: fixtures/orca/requests.json)" in words(done.stdout)
        done = script(name, "--requests", SHIPPED, "--out", tmp_path / "out")
        assert_refused(done, name, "no arrivals, and this lab needs them: a gap in each record")
    assert not (tmp_path / "out").exists()


def test_make_clean_takes_these_results_too(tmp_path):
    for name in [*HEADERS, "mine.csv"]:
        (tmp_path / name).write_text("earlier")
    assert make("clean", f"OUT={tmp_path}").returncode == 0
    assert list(files(tmp_path)) == ["mine.csv"]


def test_an_output_longer_than_max_gen_declares_is_refused(tmp_path):
    path = tmp_path / "requests.json"
    path.write_text(json.dumps([{"gap": 1, "prompt_tokens": 5, "output_tokens": 512 + extra} for extra in (0, 1)]))
    says = f"{path}: record 1: output_tokens: expected at most 512, which max_gen declares, found 513"
    assert_refused(script("orca_reservation", "--requests", path, "--out", tmp_path / "out"), "orca_reservation", says)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("n", [1, 5])
def test_few_and_far_between_is_enough_for_every_demo(tmp_path, n):
    """A billion seconds apart, next to nothing is served per second; and that these numbers differ is no error."""
    path = tmp_path / "requests.json"
    path.write_text(json.dumps([{"gap": 10**9, "prompt_tokens": 40, "output_tokens": 1}] * n))
    done = make("orca", f"OUT={tmp_path / 'out'}", f"REQUESTS={path}")
    assert (done.returncode, done.stderr) == (0, "")
    assert "not the requests that the lecture's numbers come from" in done.stdout
    assert rows(tmp_path / "out", "orca_waste.csv")[1] == ["1.000", f"{n}", "1.000", f"{40 * n}", f"{40 * n}", "0.0000"]


# --- the lecture --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played(recorded):
    return orca_lecture.all_results(recorded)


def test_the_lecture_s_numbers(played):
    """Not rounded; what the definitions give on the recorded workload, and the throughputs behind the two gains."""
    assert orca_lecture.numbers(*played) == pytest.approx(
        [26.6465, 39.0092, 0.688473, 1.94456, 37.2300, 26.3158]
        + [144.4342, 1297.653, 6.408727, 46.29651, 384.4534, 2.476411, 30.65702, 49.74482, 516],
        rel=2e-6,
    )
    assert list(played[2].values()) == pytest.approx([10.79825, 7.86856, 1.203391, 0.945842], rel=2e-6)


def test_a_number_that_is_not_there_differs_and_of_other_requests_that_is_no_error(capsys, played):
    """Nothing deadlocks, so two of the numbers are none or another."""
    wastes, points, peaks, runs = played
    runs = runs | {(12, "none"): Measures(9.0, 9.0, 4.0, 50.0, None, 1000)}
    orca_lecture.show(wastes, points, peaks, runs, draw_workload(Random(0)))
    said = capsys.readouterr().out
    lines = [line for line in said.splitlines() if line.endswith("NO")]
    assert [line.split("  ", 1)[0] for line in lines] == [
        "none at 12 requests/s, time of the deadlock", "none at 12 requests/s, finished before it"]
    assert lines[0].split()[-3:] == ["49.7", "s", "NO"] and lines[1].split()[-3:] == ["1000", "requests", "NO"]
    assert said.endswith("Notice: 2 differ; these are not the requests that the lecture's numbers come from.\n")


@pytest.mark.parametrize("printed, right, wrong", [
    ("27", 26.5001, 26.4999), ("49.7", 49.7448, 49.7501), ("< 0.7", 0.699, 0.7), ("> 6", 6.001, 6), ("516", 516, 515)])
def test_a_number_holds_to_the_digits_printed(printed, right, wrong):
    assert [orca_lecture.holds(printed, value) for value in (right, wrong, None)] == [True, False, False]


def test_a_single_number_that_differs_is_an_error(monkeypatch, capsys):
    """One of the fifteen changed in what the lecture is said to print."""
    changed = (("waste at 1 request/s", "28", "%"), *orca_lecture.LECTURE[1:])
    monkeypatch.setattr(orca_lecture, "LECTURE", changed)
    monkeypatch.setattr("sys.argv", ["orca_lecture.py"])
    with pytest.raises(SystemExit, match="^1 of the lecture's 15 numbers differ$"):
        orca_lecture.main()
    assert capsys.readouterr().out.count("  NO\n") == 1


# --- what is noticed: each condition from both sides --------------------------------------------------------------

def said_by(capsys, function, *arguments):
    function(*arguments)
    return words(capsys.readouterr().out)


def curves_of(last=(16, 0.5, 900, 0.75), slow=2.0, fast=5.0, fast_rate=6.0, one_at_once=0.8, many_at_once=6.0):
    """The results of demo 2 with these values, all others alike."""
    points = {system: [Point(1, 1.0, 20, 1.0), Point(16, 5.5, 90, 5.5)] for system in SYSTEMS}
    points[ONE][-1] = Point(*last)
    best = {system: Point(1, 1.0, 40, 1.0) for system in SYSTEMS}
    best[BATCH], best[MANY] = Point(2, slow, 40, slow), Point(fast_rate, fast, 40, fast)
    return Curves(points, 40.0, best, one_at_once, many_at_once)


def test_the_factor_is_of_throughputs_within_the_target(capsys):
    """5 / 2 = 2.5, whatever the rates are; nobody serves 0 so many times as much."""
    assert said_by(capsys, orca_curves.notice_target, curves_of()).endswith(" 5.00, 2.5 times as much.")
    said = said_by(capsys, orca_curves.notice_target, curves_of(slow=0))
    assert said.endswith("request 8 serves 0.00 requests/s and iteration 32 5.00.")


def test_a_system_that_never_misses_the_target_has_no_limit(capsys):
    """The last of 14 halvings is at 64 / 1280^(2^-14) = 63.97 requests/s."""
    said = said_by(capsys, orca_curves.notice_target, curves_of(fast_rate=63.97))
    assert said.endswith("Notice: the target holds up to 64 requests/s, the highest rate tried, for iteration 32.")
    assert "highest rate tried" not in said_by(capsys, orca_curves.notice_target, curves_of(fast_rate=63.9))


def test_the_peak_of_a_grid_is_below_what_a_system_can_do_or_nothing_is_said(capsys):
    said = said_by(capsys, orca_curves.notice_peak, curves_of(many_at_once=5.6))
    assert said.endswith("iteration 32 peaks at 5.500 requests/s, and serves 5.600 if all requests come at once.")
    assert said_by(capsys, orca_curves.notice_peak, curves_of(many_at_once=5.5)) == ""


def test_overload_is_noticed_only_where_more_comes_than_is_served(capsys):
    assert said_by(capsys, orca_curves.notice_overload, curves_of(one_at_once=15.9)).startswith("Notice: in overload")
    assert said_by(capsys, orca_curves.notice_overload, curves_of(one_at_once=16)) == ""


def test_the_warm_up_and_not_the_last_requests_make_overload_read_low():
    """Four times as many requests, and still a fifth is missing, as long as a fifth is warm-up; all counted, it is the
    capacity. If the requests that waited longest were the cause, they would still be in the run."""
    draws = [draw_workload(Random(seed)) for seed in range(4)]
    prompts, outputs = ([n for draw in draws for n in draw.requests[column]] for column in (0, 1))
    ends = [sum(draw.arrivals_s[-1] for draw in draws[:k]) for k in range(4)]
    arrivals = [end + arrival for end, draw in zip(ends, draws) for arrival in draw.arrivals_s]
    for workload in (draws[0], Workload(Requests(prompts, outputs), arrivals)):
        for system in (ONE, BATCH, ITERATION_8):
            point, capacity = measure(system, workload, 16), at_once_rps(system, workload.requests)
            assert 0.79 < point.throughput_rps / capacity < 0.88
            assert point.all_rps / capacity == pytest.approx(1, abs=0.005)


@pytest.mark.parametrize("held_s, speaks", [(1.05e-6, True), (1e-6, False)])
def test_less_than_a_microsecond_is_a_rounding_error_and_nobody_is_held(capsys, held_s, speaks):
    run = Run(Waste(8, 2, 100, 70, 30), Times(0.07, 0.0, 9.0, 3.0, held_s))
    said = said_by(capsys, orca_waste.notice_waste, {4: run})
    assert "30% pad prompts and 0% are decoded" in said and ("The loss is waiting" in said) is speaks


def test_where_nothing_is_wasted_nothing_else_is_said(capsys):
    alone = Run(Waste(2, 2, 50, 50, 0), Times(0.07, 0.0, 9.0, 3.0, 1.0))
    said = said_by(capsys, orca_waste.notice_waste, {4: alone})
    assert said == "Notice: nothing is computed in vain at 4 requests/s."


def test_without_a_deadlock_or_without_a_latency_nothing_is_said_of_it(capsys):
    went, stuck = Measures(900.0, 300.0, 4.0, 50.0, None, 8), Measures(99.0, 99.0, None, None, 12.34, 5)
    assert said_by(capsys, orca_reservation.notice_deadlocks, {(12, "max_gen"): went}, 8) == ""
    assert "median" not in said_by(capsys, orca_reservation.notice_memory, {"none": stuck})


# --- waste --------------------------------------------------------------------------------------------------------


def test_the_waste_of_a_batch_of_two():
    """(3, 1) and (5, 3): 2 x 5 + 2 x 2 = 14 positions, 3 + 0 + 5 + 2 = 10 useful, 2 of the rest padding, 2 in vain."""
    requests = Requests([3, 5], [1, 3])
    waste = orca_waste.waste_of(requests, orca_request.schedule(requests, 2, [0, 0]))
    assert waste == (2, 1, 14, 10, 2)
    assert waste.share == pytest.approx(4 / 14)


def test_the_times_of_a_batch_of_two():
    """It takes 20 + 22 + 24 = 66. Without the row in vain: 20, 10 + 5 + 1 = 16 and 17, together 53. Without padding
    two tokens less are in the cache each time: 18 + 20 + 22 = 60. The first request came at 0, its own last token at
    20, and it is held for 46; the second is held for 0."""
    requests = Requests([3, 5], [1, 3])
    schedule = orca_request.schedule(requests, 2, [0, 0], per_token)
    times = orca_waste.times_of(requests, [0, 0], schedule, per_token)
    assert times == pytest.approx((6 / 66, 13 / 66, 0, (20 + 66) / 2e6, 46 / 2e6))


def test_only_prompts_have_squares():
    """1 us for each square of a prompt's length: the padded batch takes 2 x 25, without padding it takes 9 + 25, and
    decoding takes nothing, so nobody is held."""
    requests = Requests([3, 5], [1, 3])
    schedule = orca_request.schedule(requests, 2, [0, 0], lambda *features: (features[1], 0, 0, 0))
    times = orca_waste.times_of(requests, [0, 0], schedule, lambda *features: (features[1], 0, 0, 0))
    assert (schedule.finished_us, times) == ([50, 50], pytest.approx((16 / 50, 0, 0, 50e-6, 0)))


def test_the_time_in_line_is_before_the_own_batch():
    """One slot: 10 + 3 = 13 and 10 + 5, 16, 17 = 48. The second came at 4 and starts at 13; nobody is held."""
    requests = Requests([3, 5], [1, 3])
    schedule = orca_request.schedule(requests, 1, [0, 4], per_token)
    assert orca_waste.times_of(requests, [0, 4], schedule, per_token) == pytest.approx((0, 0, 4.5e-6, 30.5e-6, 0))


def test_trimmed_batches_against_every_iteration_one_by_one():
    """Each row is in the prefill and then in one iteration less than it has tokens, with its own cache."""
    for seed in range(300):
        r = Random(seed)
        n = r.randint(1, 6)
        prompts, outputs = [r.randint(1, 9) for _ in range(n)], [r.randint(1, 9) for _ in range(n)]
        expected = 10 + sum(prompts)
        for step in range(1, max(outputs)):
            rows = [prompt + step for prompt, output in zip(prompts, outputs) if output > step]
            expected += 10 + sum(rows)
        assert orca_waste.batch_us(prompts, outputs, per_token) == expected


def test_alone_or_among_its_like_a_request_wastes_nothing():
    requests = Requests([3, 5, 7], [1, 3, 2])
    waste = orca_waste.waste_of(requests, orca_request.schedule(requests, 1, [0, 0, 0]))
    assert waste == (3, 3, 3 + 7 + 8, 18, 0) and waste.share == 0
    requests = Requests([5] * 4, [9] * 4)
    assert orca_waste.waste_of(requests, orca_request.schedule(requests, 2, [0] * 4)) == (4, 2, 52, 52, 0)


# --- the paper's curves -------------------------------------------------------------------------------------------


def test_the_order_of_the_curves(recorded):
    """From worst to best as in Orca's Figure 10: more rows share one reading of the weights, and deciding at every
    iteration beats deciding at every batch. Below the knee larger limits tie (within 1 %: the rows that share an
    iteration differ a little); beyond it each has at least 1.4 times the throughput of the one before."""
    curves = [curve(system, recorded, orca_curves.RATES_RPS) for system in SYSTEMS]
    for points in zip(*curves):
        for worse, better in zip(points, points[1:]):
            assert better.p50_ms_per_token <= 1.01 * worse.p50_ms_per_token
            assert better.throughput_rps >= 0.99 * worse.throughput_rps
    peaks = [peak_rps(points) for points in curves]
    assert all(better > 1.4 * worse for worse, better in zip(peaks, peaks[1:]))
    for points in curves:  # unloaded, throughput is what arrives; overloaded, waiting dominates the latency
        assert points[0].throughput_rps == pytest.approx(0.502, abs=0.001)
        latencies = [point.p50_ms_per_token for point in points]
        assert latencies == sorted(latencies)


def test_the_highest_rate_within_the_target(recorded):
    """It meets the target, and one step of the last halving, a factor of (64 / 0.05)^(2^-14), above it does not."""
    for system in (("request", 8), ("iteration", 16)):
        best = highest_within(system, recorded, 45)
        assert best == measure(system, recorded, best.rate_rps)
        assert best.p50_ms_per_token <= 45 < measure(system, recorded, best.rate_rps * 1280 ** 2**-14).p50_ms_per_token
    assert highest_within(("request", 1), recorded, 20) == (0, 0, 0, 0)


def test_a_latency_that_is_just_the_target_meets_it():
    """A request alone takes as long at every rate. So the target holds up to the last of the 14 halvings."""
    alone = Workload(Requests([40], [9]), [0])
    ms = measure(MANY, alone, 1).p50_ms_per_token
    assert highest_within(MANY, alone, ms).rate_rps == pytest.approx(64 / 1280 ** 2**-14, rel=1e-9)
    assert highest_within(MANY, alone, ms * 0.999) == (0, 0, 0, 0)
    assert at_once_rps(MANY, alone.requests) == pytest.approx(1000 / (9 * ms), rel=1e-9), "one that comes at time 0"


def test_all_at_once_is_lockstep_and_no_maximum(capsys):
    """256 + 256: 12,597 // 512 = 24 fit. By the roofline's own sides, in ms: 24 prompts together compute 2 P x 6144 +
    4 L h x 24 x 256^2 / 2 operations in 846.9 + 1 ms, 35.3 each; the peak of arrivals one by one lies above it."""
    said = said_by(capsys, orca_homogeneous.notice_lockstep)
    flops = 2 * 12_840_227_840 * 6144 + 4 * 40 * 5120 * 24 * 256**2 / 2
    each_ms = (1000 * flops / (0.6 * 312e12) + 1) / 24
    assert "24 requests of 256 + 256 tokens fit" in said and f"together, {each_ms:.1f} ms each" in said
    assert "joins 23 decoding requests makes their iteration 12.0 ms longer" in said


def test_equal_lengths_gain_by_memory_and_not_by_scheduling(recorded):
    """All at once, six slots for both: the same work in the same iterations, so exactly the same time. With eight slots
    iteration level is 4 / 3 faster at most, less what the prompts cost that no slot shares."""
    for lengths in orca_homogeneous.LENGTHS:
        requests = orca_homogeneous.equal_lengths(recorded, *lengths).requests
        rates = [at_once_rps(system, requests) for system in (("request", 8), ("iteration", 6), ("iteration", 8))]
        assert rates[0] == rates[1]
        assert 1.25 < rates[2] / rates[1] < 4 / 3


# --- fresh workloads ----------------------------------------------------------------------------------------------

RANGES = [  # what comes out of 8 seeds, from least to most
    # the lecture's numbers, in its order: waste in %, peaks of request 1 and 8, gains at equal lengths in %
    *[(23.5, 27.8), (38.0, 39.7), (0.631, 0.671), (1.855, 2.007), (29.7, 40.8), (23.9, 29.1)],
    # max_seq: ms per token at 4 and at 8 requests/s, tokens reserved for one used; max_gen: at 8 and at 12, the same
    *[(74, 314), (1205, 1399), (6.25, 6.76), (39.4, 113.9), (348, 441), (2.44, 2.56)],
    # none: ms per token at 8 requests/s; at 12 the time of the deadlock in s, and how many have finished by then
    *[(29.9, 31.0), (5.0, 37.9), (25, 399)],
    # the throughputs behind the gains
    *[(10.47, 10.82), (7.50, 8.34), (1.174, 1.209), (0.927, 0.968)],
    # by system: ms per token at 0.5 requests/s, then the peaks of the iteration level
    *[(41.8, 56.1), (27.7, 32.1), (22.52, 22.67), (22.52, 22.67), (22.52, 22.67)],
    *[(4.39, 4.67), (7.39, 8.06), (11.47, 12.01)],
]


def test_what_a_fresh_workload_changes():
    """Stable are the waste, the peaks, the unloaded latency of all but batch 1 and the tokens reserved for one used.
    The latencies at the knee are not."""
    found = []
    for seed in range(8):
        workload = draw_workload(Random(seed))
        wastes, points, peaks, runs = orca_lecture.all_results(workload)
        points |= {system: curve(system, workload, (0.5, 6, 8, 12, 16)) for system in SYSTEMS[2:]}
        unloaded = [points[system][0].p50_ms_per_token for system in SYSTEMS]
        highest = [peak_rps(points[system]) for system in SYSTEMS[2:]]
        found.append([*orca_lecture.numbers(wastes, points, peaks, runs), *peaks.values(), *unloaded, *highest])
    for (low, high), values in zip(RANGES, zip(*found, strict=True), strict=True):
        values = [value for value in values if value is not None]
        assert low <= min(values) and max(values) <= high
        assert max(values) - min(values) >= 0.8 * (high - low), "wider than what comes out"


def test_the_time_of_the_deadlock_is_chance():
    """Of 20 seeds: from 3.6 to 56.4 s at 12 requests/s. One of them deadlocks at 8 requests/s already."""
    workloads = [draw_workload(Random(seed)) for seed in range(20)]
    at_8, at_12 = ([orca_reservation.measure("none", one, rate) for one in workloads] for rate in (8, 12))
    times_s = [one.deadlock_s for one in at_12]
    assert (min(times_s), max(times_s)) == pytest.approx((3.6, 56.4), abs=0.05)
    assert [one.deadlock_s is None for one in at_8].count(False) == 1
