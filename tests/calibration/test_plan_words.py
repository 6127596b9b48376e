"""calibrate and measured: each sentence whole, from a Calibration made by hand, and each condition from both sides."""

import json
import sys

import calibrate
import measured
from calibration import overhead as plan_overhead
import pytest
from bench_file import bench
from files.costs import Costs, Server, costs_line
from fixture import read_rows
from common import BadInput, Requests
from files.benchmarks import Bench, load_benches
from calibrate import Calibration, costs_of, excess_us_of, looks_cut, steps_of, with_prefill
from calibration.fit import Fit
from measured import Comparison, Recorded, Result, compared, error_table, print_recorded, report, server_of
from measured import settings, worst_first
from calibration.overhead import Overhead, Times, agreement, alone_in, bounds_of, decided, queued_in, times_of
from calibration.samples import Sample, Steps
from calibration.summaries import Load
from calibration.words import extrapolates, meaning, missing, oddities, residuals, said, scheduler

ALL = ["step", "prefill", "sequence", "context"]
COSTS = Costs(50, 8_000, 100, 5_000, 0.2, 1_000)
OVERHEAD = Overhead(3_000.0, 2_000.0, 4_000.0, 4, 50, True, (0.5, 1.0))
MANY = [Sample(10_000, 1, 1 + i % 4, 100 * (i < 30), int(i < 30), i, 2) for i in range(41)]


def calibration(**more):
    """One of 41 steps, 30 with a prefill of 100 tokens, up to 4 sequences and 40 tokens in the cache."""
    made = Calibration(COSTS, True, Fit(dict.fromkeys(ALL, 1.0), [100.0 * (i - 20) for i in range(41)], 1.0), MANY,
                       [Steps(MANY, 1_234, 1, 0), None], OVERHEAD, 2048, "gaps")
    return made._replace(**more)


def with_terms(*terms):
    return calibration()._replace(fit=calibration().fit._replace(terms=dict.fromkeys(terms, 1.0)))


def bench_of(n=3, name="r", starts_s=(), **more):
    """A run of n requests one after the other: TTFT 0.1 s, two gaps of 10 ms."""
    starts_s = [float(i) for i in range(n)] if starts_s == () else starts_s
    made = Bench(name, [5 + 100 * i for i in range(n)], [3] * n, starts_s, [0.1] * n, [[0.01, 0.01]] * n, 10.0, None,
                 False,
                 None, 0, [])
    return made._replace(**more)


# --- what calibrate says ----------------------------------------------------------------------------

STEP = ("A step takes 8.10 ms with 1, 8.40 ms with 4, 8.80 ms with 8, 11.20 ms with 32 sequences; the runs had up to 4 "
        "at once.")
PREFILL = "A prompt token adds 0.05 ms: 20,000 tokens/s of prefill"
HIDDEN = "Of a prefill 1.00 ms are hidden: the first 20 prompt tokens of a step cost nothing."
CACHE = "10,000 tokens in the cache add 2.00 ms to a step."
WAY = "The overhead, from the client to the scheduler and back, is "
BETWEEN = WAY + "between 2.00 and 4.00 ms; the middle is taken."
NOT_TOLD = "The overhead, from the client to the scheduler and back, is not told: overhead_ms is 0."
RESIDUALS = ("41 steps told by 1,234 gaps between tokens, 30 of them with a prefill. Residuals: median size 10.00 %, 5 "
             "to 95 %: -18.00 to +18.00 %.")
ASYNCHRONOUS = ("Scheduler: asynchronous. One overhead explains when 100 % of 50 requests were scheduled if it is "
                "asynchronous, 50 % if it is synchronous.")
BEYOND = ("A plan extrapolates for more than 4 sequences at once, for prompts outside 5 to 205 tokens, and for more "
          "than 40 tokens in the cache.")


def test_all_that_calibrate_says_in_order():
    assert said([bench_of()], calibration(), True) == [
        STEP, PREFILL + ".", HIDDEN, CACHE, BETWEEN, RESIDUALS, ASYNCHRONOUS, BEYOND]


@pytest.mark.parametrize("overhead, sentence", [
    (OVERHEAD, BETWEEN),
    (OVERHEAD._replace(alone=5), WAY + "3.00 ms: the median of 5 requests that found the server empty."),
    (OVERHEAD._replace(alone=1, asynchronous=None), WAY + "3.00 ms: the median of 1 request that found the server "
                                                          "empty."),
    (OVERHEAD._replace(us=0.0, low_us=0.0, high_us=0.0), NOT_TOLD),
    (OVERHEAD._replace(us=0.0, low_us=0.0, high_us=500.0), WAY + "between 0.00 and 0.50 ms; the middle is taken."),
])
def test_what_the_overhead_means(overhead, sentence):
    assert list(meaning(calibration(overhead=overhead)))[-1] == sentence


@pytest.mark.parametrize("source, end", [
    ("gaps", "."), ("ttft", ", told by the TTFTs of requests that found the server empty."),
    ("one length", ", if all of a TTFT beside the step is prefill: one prompt length cannot tell it from the "
                   "overhead."),
    ("excess", ", roughly: without start times only the mean gap tells it, which exceeds the median one."),
])
def test_whence_a_prefill_is_known(source, end):
    sentences = list(meaning(calibration(prefill_from=source)))
    assert sentences[1] == PREFILL + end and sentences[-1] == (NOT_TOLD if source == "one length" else BETWEEN)


def test_costs_that_are_not_there_are_not_said():
    plain = calibration(costs=Costs(0, 8_000))
    assert list(meaning(plain)) == \
        [STEP.replace("8.10", "8.00").replace("8.40", "8.00").replace("8.80", "8.00").replace(
        "11.20", "8.00"), BETWEEN]
    one = with_terms("step")._replace(samples=[Sample(9_000, 2, 2, 0, 0, 0, 1)])
    assert list(meaning(one))[0] == "A step takes 8.10 ms with 1 sequence; the runs had up to 1 at once."
    half = with_terms("step")._replace(samples=[Sample(9_000, 2, 5, 0, 0, 0, 1)])
    assert list(meaning(half))[0] == "A step takes 8.20 ms with 2 sequences; the runs had up to 2.5 at once."


def test_residuals_without_a_prefill():
    none = [sample._replace(prefills=0) for sample in MANY]
    assert "gaps between tokens, 0 of them with a prefill" in residuals(calibration(samples=none))


@pytest.mark.parametrize("agreeing, asynchronous, end", [
    ((0.0, 0.03), True, "3 % of 50 requests were scheduled if it is asynchronous, 0 % if it is synchronous; a shorter "
                        "overhead decides."),
    ((0.0, 0.031), True, "3 % of 50 requests were scheduled if it is asynchronous, 0 % if it is synchronous."),
    ((0.9, 0.5), False, "50 % of 50 requests were scheduled if it is asynchronous, 90 % if it is synchronous."),
])
def test_the_scheduler_in_words(agreeing, asynchronous, end):
    found = calibration(overhead=OVERHEAD._replace(agreeing=agreeing, asynchronous=asynchronous))
    name = "asynchronous" if asynchronous else "synchronous"
    assert scheduler(found) == f"Scheduler: {name}. One overhead explains when {end}"


def test_the_scheduler_is_not_told():
    assert scheduler(calibration(overhead=OVERHEAD._replace(asynchronous=None))) == \
        "Scheduler: not told by these runs; taken to be asynchronous, vLLM's default."


def test_how_far_the_runs_went():
    added = [Sample(9_000, 2, 9, 0, 0, 3_000, 1)]
    assert extrapolates([bench_of(1), bench_of(1, prompt_tokens=[2_000])], calibration(samples=added)) == (
        "A plan extrapolates for more than 4.5 sequences at once, for prompts outside 5 to 2,000 tokens, and for more "
        "than 1,500 tokens in the cache.")
    assert extrapolates([bench_of(1)], calibration(samples=[added[0]._replace(cached_tokens=0)])) == \
        "A plan extrapolates for more than 4.5 sequences at once, for prompts outside 5 to 5 tokens."


NO_SEQUENCE = "Missing: step_ms_per_sequence is 0, {}. A run with 16 clients, or at half your highest rate, tells it."
NO_CONTEXT = ("Not told: a cost of the cache. Either it is small, or sequences and cached tokens grew together. Runs "
              "with long and with short prompts tell them apart.")
NO_PREFILL = ("Missing: nothing tells prefill_ms_per_token{} A run with --max-concurrency 1 and prompts of several "
              "lengths tells it.")
ONE_LENGTH = "Missing: a run of one client with another prompt length, to tell prefill from overhead."
FEW = "Few steps had a prefill: fewer than 30. A longer run tells it better."
NO_OVERHEAD = "Missing: the overhead. A run with --max-concurrency 1, or one at a rate of its own, tells it."
UNSURE = OVERHEAD._replace(high_us=4_001.0)


@pytest.mark.parametrize("found, sentences", [
    (calibration(), []),
    (with_terms("step", "context"), [NO_SEQUENCE.format("steps did not grow with the sequences")]),
    (with_terms("step", "context")._replace(samples=[sample._replace(sequences=1.2) for sample in MANY]),
     [NO_SEQUENCE.format("the runs have one number of sequences")]),
    (with_terms("step", "sequence"), [NO_CONTEXT]),
    (calibration(prefill_from="nothing"), [NO_PREFILL.format(", and it is 0: plans are too hopeful.")]),
    (calibration(prefill_from="excess"), [NO_PREFILL.format(" well.")]),
    (calibration(prefill_from="one length"), [ONE_LENGTH]),
    (calibration(samples=MANY[1:]), [FEW]),
    (calibration(samples=MANY[1:], prefill_from="ttft"), []),
    (calibration(overhead=UNSURE), [NO_OVERHEAD]),
    (calibration(overhead=OVERHEAD._replace(asynchronous=None)), [NO_OVERHEAD]),
    (calibration(overhead=UNSURE._replace(alone=5)), []),
    (calibration(overhead=UNSURE, prefill_from="one length"), [ONE_LENGTH]),
])
def test_what_is_missing(found, sentences):
    assert list(missing([], found)) == sentences


def odd(run, steps, budget_told=True, **more):
    return list(oddities([run], calibration(steps=[steps], **more), budget_told))


def test_what_is_odd_in_a_run():
    plain, steps = bench_of(), Steps(MANY, 1_234, 1, 0)
    assert odd(plain, steps) == []
    assert odd(plain._replace(oddities=["one.", "two."]), steps) == ["r: one.", "r: two."]
    no_starts = ("r has no start times. Its gaps tell a typical step, but not which of them held a prefill, how much "
                 "was cached, or whether the scheduler is asynchronous.")
    assert odd(plain._replace(starts_s=None), steps) == [no_starts]
    assert odd(plain._replace(starts_s=None), None) == [
        no_starts, "r says nothing of a step: it has neither start times nor a duration."]
    assert odd(plain, None) == ["r says nothing of a step: it has no gaps."]
    assert odd(plain, steps._replace(every=2)) == ["r has 1,234 gaps; those of every 2. request are used."]
    short = ("r: {} a request got nothing while others got tokens: the KV cache was short, and it was preempted. Give "
             "--kv-tokens to plan and measured.")
    assert odd(plain, steps._replace(preemptions=2)) == [short.format("2 times")]
    assert odd(plain, steps._replace(preemptions=1)) == [short.format("1 time")]


def test_requests_that_waited_at_the_server():
    """Nine sent at once, one ran at a time: each found more than 1.25 x 1 + 1 under way, till two were left."""
    ends = [0.12 * (i + 1) for i in range(9)]
    waiting = bench_of(9, starts_s=[0.0] * 9, ttfts_s=[end - 0.02 for end in ends])
    words = ("r: 9 of 9 requests waited at the server, and never more than {} ran together: its max_num_seqs, or its "
             "memory. Their TTFT holds the waiting; it tells no overhead.")
    assert odd(waiting, Steps([Sample(10_000, 2, 2, 0, 0, 0, 1)], 9, 1, 0)) == [words.format("1 sequence")]
    assert odd(waiting, Steps(MANY, 9, 1, 0)) == [words.format("4 sequences")]
    assert odd(waiting, Steps([], 9, 1, 0)) == [] and \
        odd(waiting._replace(starts_s=None), Steps(MANY, 9, 1, 0))[1:] == []


def test_prompts_that_may_have_been_cut():
    def of(tokens, budget, told=False, prefills=1):
        sample = Sample(10_000, 1, 1, tokens, prefills, 0, 1)
        return odd(bench_of(), Steps(MANY, 9, 1, 0), told, samples=[sample], budget=budget)

    better = "; --max-num-batched-tokens tells it better."
    assert of(1_025, 2048) == ["A step is taken to hold at most 2048 tokens" + better]
    assert of(257, 512) == ["Steps look as if prompts were cut in chunks of 512" + better]
    assert of(1_024, 2048) == of(256, 512) == of(257, 512, told=True) == of(512, 512, prefills=2) == []
    assert of(257, 512, prefills=0) != []


# --- how costs are found ----------------------------------------------------------------------------


def cut(before, long, others, long_others=0, residual=2_501.0):
    """looks_cut of samples of 10 ms: so many steps just before one with a first token, the first ones long; and
    others."""
    rest, first = Sample(10_000, 1, 1, 0, 0, 0, 1), Sample(10_000, 1, 1, 9, 1, 0, 1)
    samples = [rest] * others + [rest, first] * before
    residuals_us = [residual * (i < long_others) for i in range(others)]
    residuals_us += [us for i in range(before) for us in (residual * (i < long), 9_999.0)]
    return looks_cut(calibration(samples=samples, fit=Fit({}, residuals_us, 1.0)))


def test_when_steps_look_cut():
    assert cut(10, 5, 100) and not cut(10, 4, 100), "at least five"
    assert not cut(10, 5, 100, residual=2_500.0), "a quarter of the step"
    assert cut(100, 5, 1_000) and not cut(101, 5, 1_000), "at least 5 % of them"
    assert cut(10, 5, 20) and not cut(10, 5, 19), "at least three times as often as elsewhere"
    assert cut(10, 10, 50, 10) and not cut(10, 10, 50, 11)
    assert not looks_cut(calibration(samples=[], fit=Fit({}, [], 1.0)))


def test_the_budget_is_halved_while_steps_look_cut(monkeypatch):
    tried = []

    def budgets(budget, cut_above):
        tried.clear()
        monkeypatch.setattr(calibrate, "at_budget", lambda _, one: tried.append(one) or calibration(budget=one))
        monkeypatch.setattr(calibrate, "looks_cut", lambda found: found.budget > cut_above)
        return calibrate.calibrated([], budget).budget

    assert budgets(None, 0) == 64 and tried == [2048, 1024, 512, 256, 128, 64], "no server has less"
    assert budgets(None, 512) == 512 and tried == [2048, 1024, 512] and budgets(None, 2048) == 2048 and tried == [2048]
    assert budgets(4096, 0) == 4096 and tried == [4096], "it is told"


def test_costs_of_a_fit_worked_by_hand():
    """8,000 + 100 S + 50 above 4: 8,100, 8,400 and 8,000 + 1,000 + 300 at 10. The line: 1,200 / 9 a sequence."""
    samples = [Sample(10_000, 2, 19, 0, 0, 0, 1), Sample(10_000, 1, 3, 0, 0, 0, 1)]
    terms = {"step": 8_000.0, "sequence": 100.0, "prefill": 50.0, "context": 0.2, "hidden": 9.0}
    assert costs_of(Fit(terms, [], 1), samples) == Costs(50.0, 8_000.0, 100.0, 0.0, 0.2, 9.0, ())
    bent = costs_of(Fit(terms | {4: 50.0}, [], 1), samples)
    assert bent.step_points == ((1, 8_100.0), (4, 8_400.0), (10, 9_300.0))
    assert bent.step_us_per_sequence == pytest.approx(1_200 / 9) and bent.step_us == pytest.approx(8_100 - 1_200 / 9)
    down = costs_of(Fit({"step": 8_000.0, "sequence": 100.0, 2: -200.0}, [], 1), samples)
    assert down[:3] == (0.0, 8_100.0, 0.0) and down.step_points[-1] == (10, 7_400.0)
    steep = costs_of(Fit({"sequence": 100.0, 4: 900.0}, [], 1), samples)
    assert steep.step_us == 1.0 and steep.step_points[0] == (1, 101.0), "a step of nothing would be no server"
    assert costs_of(Fit({"sequence": 700.0}, [], 1), samples) == Costs(0.0, 1.0, 700.0)


def one_client(*prompts, us):
    """A run of one client whose TTFTs are us(prompt)."""
    return bench_of(len(prompts), prompt_tokens=list(prompts), ttfts_s=[us(prompt) / 1e6 for prompt in prompts],
                    max_concurrency=1)


def test_a_prefill_told_by_ttfts():
    """Four requests that were alone are too few. One length: all beside a step is prefill. Two: 100 us a token."""
    costs = Costs(0, 8_000, 100, 0, 1.0)
    few = one_client(100, 100, 100, 100, us=lambda prompt: 20_000)
    assert with_prefill([few], costs, 2048) == (costs, "nothing")
    found, source = with_prefill([few, one_client(100, us=lambda prompt: 20_000)], costs, 2048)
    assert source == "one length" and found == costs._replace(prefill_us_per_token=(20_000 - 100 - 8_100) / 100)
    found, source = with_prefill([one_client(*[150] * 5, us=lambda prompt: 40_000)], costs, 100)
    assert source == "one length" and found.prefill_us_per_token == \
        (40_000 - 150 - 8_000 - 8_100) / 150, "in two chunks"
    found, _ = with_prefill([one_client(*[100] * 5, us=lambda prompt: 900)], costs, 2048)
    assert found.prefill_us_per_token == 0
    lengths = one_client(*range(100, 1_000, 30), us=lambda prompt: 8_100 + 101 * prompt)
    found, source = with_prefill([lengths], costs, 2048)
    assert source == "ttft" and found.prefill_us_per_token == pytest.approx(100, rel=1e-3) and found.hidden_us == 0
    hidden = one_client(*range(100, 1_000, 30), us=lambda prompt: 8_100 + prompt + max(0, 100 * (prompt - 300)))
    assert with_prefill([hidden], costs, 2048)[0].hidden_us == pytest.approx(30_000, rel=0.02)


def test_a_prefill_told_by_the_mean_gap():
    """Gaps of 10, 10, 10 and 50 ms: 40 more than four medians. Two sequences on average share them: 20 ms, of 400
    tokens."""
    run = bench_of(1, prompt_tokens=[400], starts_s=None, itls_s=[[0.01, 0.01, 0.01, 0.05]], duration_s=0.04)
    assert excess_us_of(run) == pytest.approx(20_000) and excess_us_of(run._replace(duration_s=0.041)) == 0
    assert excess_us_of(run._replace(starts_s=[0.0])) == excess_us_of(run._replace(duration_s=None)) == 0
    assert excess_us_of(run._replace(itls_s=[[0.01, 0.01, 0.01, 0.009]], duration_s=0.01)) == 0
    costs, source = with_prefill([run, bench_of(3)], Costs(0, 8_000), 2048)
    assert source == "excess" and costs.prefill_us_per_token == pytest.approx(50)


def test_gaps_are_shared_among_runs(monkeypatch):
    """At most six gaps of 12: of this run, which has eight, four: every second request."""
    run = bench_of(4)
    assert steps_of(run, 2048, 12).every == 1 and \
        steps_of(run._replace(itls_s=[[]] * 4, output_tokens=[1] * 4), 9, 0) is None
    monkeypatch.setattr("calibrate.MOST_GAPS", 6)
    assert steps_of(run, 2048, 12).every == 2 and steps_of(run, 2048, 6).every == 1
    assert calibrate.MOST_GAPS == 6 and steps_of(run._replace(starts_s=None), 9, 12).samples[0].gaps == 2


def test_a_median_gap_of_less_than_a_microsecond_tells_no_step():
    def of(gap_s):
        return bench_of(9, itls_s=[[gap_s] * 9] * 9, output_tokens=[10] * 9)

    with pytest.raises(BadInput, match="^tokens came many at a time, the median gap between them is 0: no step can be "
                                       "told$"):
        calibrate.at_budget([of(0.9e-6)], 2048)
    assert calibrate.at_budget([of(1.1e-6)], 2048).costs.step_us == pytest.approx(1.1)
    with pytest.raises(BadInput,
                       match="^no run has a request of two or more output tokens: nothing says how long a step "
                                       "takes$"):
        calibrate.at_budget([bench_of(9, itls_s=[[]] * 9, output_tokens=[1] * 9)], 2048)


@pytest.mark.parametrize("terms, step_us", [
    ({"step": 1.0}, 1), ({"sequence": 700.0}, 1), ({"step": 0.9}, None), ({}, None),
])
def test_a_fit_without_a_step_is_refused_unless_sequences_make_it(monkeypatch, terms, step_us):
    monkeypatch.setattr(calibrate, "fit", lambda samples: Fit(terms, [], 1.0))
    if step_us:
        assert calibrate.at_budget([bench_of(9)], 2048).costs.step_us == step_us
    else:
        with pytest.raises(BadInput, match="^the gaps between tokens do not tell how long a step takes$"):
            calibrate.at_budget([bench_of(9)], 2048)


# --- the overhead -----------------------------------------------------------------------------------


def alone_runs(*us):
    """A run of one client: prompts of 100, 8 ms + 5 ms, and TTFTs so much longer."""
    return bench_of(len(us), prompt_tokens=[100] * len(us), ttfts_s=[(13_000 + more) / 1e6 for more in us],
                    max_concurrency=1)


def overhead(monkeypatch, alone_us, synchronous=(), asynchronous=()):
    monkeypatch.setattr(plan_overhead, "bounds_of", lambda *_: (list(synchronous), list(asynchronous)))
    return plan_overhead.overhead_of([alone_runs(*alone_us)] if alone_us else [bench_of()], Costs(50, 8_000), 2048)


def test_the_overhead_of_requests_that_were_alone(monkeypatch):
    """The median; from the second of twenty to the second last. What would be negative is none."""
    twenty = overhead(monkeypatch, [-500, *range(1_000, 20_000, 1_000)])
    assert twenty[:6] == pytest.approx((9_500, 1_000, 18_000, 20, 0, None))
    assert overhead(monkeypatch, [-500, 300, 700])[:4] == pytest.approx((300, 0, 700, 3))


AGREE, APART = [(2_000.0, 6_000.0)] * 5, [(0.0, 1.0), (20_000.0, 30_000.0)] * 2 + [(50_000.0, 60_000.0)]


def test_the_overhead_of_requests_with_bounds(monkeypatch):
    nobody = dict(alone_us=[])
    monkeypatch.setattr(plan_overhead, "alone_in", lambda bench: list(range(len(bench.ttfts_s)))
                        if bench.max_concurrency else [])
    assert overhead(monkeypatch, **nobody, synchronous=APART, asynchronous=AGREE)[:6] == \
        (4_000, 2_000, 6_000, 0, 5, True)
    assert overhead(monkeypatch, **nobody, synchronous=AGREE, asynchronous=APART).asynchronous is False
    four = overhead(monkeypatch, **nobody, synchronous=APART[:4], asynchronous=AGREE[:4])
    assert four[:6] == (0, 0, 0, 0, 4, None), "bounds of five requests are enough, of four they are not"
    assert overhead(monkeypatch, **nobody, synchronous=APART,
                    asynchronous=APART).asynchronous is None, "two of five agree"
    three = [*AGREE[:3], *APART[3:]]
    assert overhead(monkeypatch, **nobody, synchronous=APART, asynchronous=three).asynchronous is True, "three of five"
    monkeypatch.undo()
    lower = overhead(monkeypatch, [3_000, 3_000], APART, AGREE)
    assert lower[:6] == pytest.approx((2_500, 2_000, 3_000, 2, 5, True)), "no longer than of those that were alone"
    assert overhead(monkeypatch, [7_000, 7_000], APART, AGREE)[:3] == (4_000, 2_000, 6_000)
    assert overhead(monkeypatch, [1_000, 1_000], APART, AGREE)[:3] == (4_000, 2_000, 6_000)
    assert overhead(monkeypatch, [7_000] * 5, APART, AGREE)[:6] == pytest.approx((7_000, 7_000, 7_000, 5, 5, True))


def test_bounds_from_both_sides():
    """Steps end at 0, 1 ... 4 s. Sent at 1.5, first token with the step to 4: decided at 3, and too late for the one
    at 2."""
    times = Times([1.5, 0.25, 0.5], [4.0, 3.0, 2.0], [9.0, 9.0, 9.0], [0.0, 1.0, 2.0, 3.0, 4.0], 0.5, 1.4)
    first, second = ((500_000, 1_500_000), (-500_000, 500_000)), ((750_000, 1_750_000), (-250_000, 750_000))
    prompts = [30, 20, 40]

    def of(budget=1_000, empty=(), **more):
        return bounds_of(times._replace(**more), prompts, budget, set(empty))

    assert of() == tuple(map(list, zip(first, second))), "of the third, the step before the last three is not known"
    assert of(empty=[0]) == ([second[0]], [second[1]]) and of(lump=1.5) == ([], []) and of(lump=1.49) == of()
    assert of(budget=120) == of() and of(budget=118) == \
        ([first[0]], [first[1]]), "with it and just before it came 20 + 40"
    assert of(budget=100) == ([first[0]], [first[1]]) and of(budget=98) == ([], [])


def test_who_waited_from_both_sides():
    """Four ran at once. More than 1.25 x 4 + 1 under way, and one waited; who ended when another was sent is gone."""
    def of(more):
        ran = Times([0.0] * (4 + more), [1.0] * 4 + [2.0] * more, [2.0] * 4 + [3.0] * more, [], 0.1, 1)
        return queued_in(ran)

    assert of(2) == [] and of(3) == list(range(7))
    late = Times([0.0] * 6 + [2.0] * 2, [1.0] * 4 + [2.0] * 4, [2.0] * 4 + [3.0] * 4, [], 0.1, 1)
    assert queued_in(late) == []


def test_who_was_alone_from_both_sides():
    """Steps of 10 ms. A request that is sent up to an eighth of a step before the last token of another is alone."""
    def of(start, **more):
        return alone_in(bench_of(2, starts_s=[0.0, start], **more))

    assert of(0.119) == [0, 1] and of(0.1185) == [0]
    assert alone_in(bench_of(2, starts_s=None)) == []
    assert alone_in(bench_of(2, starts_s=None, max_concurrency=1)) == [0, 1]
    assert alone_in(bench_of(2, starts_s=[0.0, 0.0], max_concurrency=2)) == []


def test_the_times_of_a_run():
    """Tokens of A at 100, 110 and 120 ms, of B 4 ms later: the same steps. 6 ms later, others."""
    def of(start, **more):
        return times_of(bench_of(2, starts_s=[0.0, start], **more))

    one = of(0.004)
    assert one.steps_s == pytest.approx([0.102, 0.112, 0.122]) and one.half_s == pytest.approx(0.005) and one.lump == 1
    assert one.first_s == pytest.approx([0.1, 0.104]) and one.last_s == pytest.approx([0.12, 0.124])
    assert of(0.006).steps_s == pytest.approx([0.1, 0.108, 0.118, 0.126]), "A, B and A, B and A, B"
    assert of(0.004, output_tokens=[5, 5]).lump == pytest.approx(5 / 3), "chunks of two tokens"


def test_the_scheduler_from_both_sides():
    assert decided((0.0, 0.03), ((0, 1), (9, 9_000))) is False and decided((0.0, 0.031), ((0, 1), (9, 9_000))) is True
    assert decided((1.0, 1.0), ((5, 9), (5, 500))) is True, "as short"
    assert decided((1.0, 1.0), ((5, 9), (6, 500))) is False and decided((1.0, 1.0), ((5, 9), (5, 499))) is False


def test_agreement_from_both_sides():
    """Bounds of one step are 10 us apart at most. Where 1 % fewer agree, it may be as well."""
    assert agreement([(1_000, 2_000), (2_009, 3_000)])[0] == 1 and agreement([(1_000, 2_000), (2_010, 3_000)])[0] == 0.5
    assert agreement([(1_000, 5_000)] * 198 + [(1_000, 3_000)] * 2) == (1, (1_000, 5_000))
    assert agreement([(1_000, 5_000)] * 197 + [(1_000, 3_000)] * 3) == (1, (1_000, 3_000))
    assert agreement([(1_000, 5_000)] * 90 + [(1_000, 3_000)]) == (1, (1_000, 3_000)), "one of 91 is more than 1 %"
    assert agreement([(-20, -15)]) == (0, (0, 0)) and agreement([(-20, -5)]) == (1, (0, 0))


# --- the script calibrate ---------------------------------------------------------------------------


@pytest.fixture
def script(monkeypatch, tmp_path, capsys):
    """Runs the main of a module in this process, in tmp_path; returns its words."""

    def runs(module, *options):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [f"{module.__name__}.py", "--out", str(tmp_path), *map(str, options)])
        module.main()
        lines = capsys.readouterr().out
        assert max(map(len, lines.splitlines())) <= 100
        return lines

    return runs


def write(path, record):
    path.write_text(json.dumps(record))
    return path


def one_run(path, clients=1, n=6):
    requests = Requests([100 * (i + 1) for i in range(n)], [4] * n)
    return write(path, bench(requests, clients, Costs(50, 8_000, 0, 5_000)))


def test_calibrate_needs_a_file_or_a_point(script, tmp_path):
    with pytest.raises(BadInput, match="^give results of a benchmark, or --point two times or more$"):
        script(calibrate)
    words = script(calibrate, one_run(tmp_path / "r.json"), "--max-num-seqs", 9, "--kv-tokens", 4_000)
    line = ("prefill_ms_per_token=0.05 step_ms=8 step_ms_per_sequence=0 overhead_ms=5 scheduling=asynchronous "
            "max_num_seqs=9 kv_tokens=4000 measured_sequences=1 measured_prompt_tokens=600")
    assert (tmp_path / "costs.txt").read_text() == line + "\n"
    assert " ".join(words.split()).startswith(f"costs.txt: {line} A step takes 8.00 ms with 1 sequence; the runs had "
                                              f"up to 1 at")


# --- measured ---------------------------------------------------------------------------------------


ROWS = [Comparison("s", "a", "calibrated", "p50_ttft_ms", 10.0, 10.0, 0.0),
        Comparison("s", "b", "predicted", "p99_ttft_ms", 10.0, 12.5, 25.0),
        Comparison("s", "b", "predicted", "throughput_tps", 200.0, 196.0, -2.0),
        Comparison("s", "c", "predicted", "p99_tpot_ms", 10.0, 9.0, -10.0)]
SERVER = Recorded("s", [], [], 32, "runs differ", 2.0)


def test_a_report_of_hand_made_rows(tmp_path, capsys):
    report([Result(SERVER, ROWS, [bench_of(name="b", oddities=["odd."])], "s: costs from a")], tmp_path)
    assert capsys.readouterr().out == """\
measured.csv: predicted against measured. Errors in per cent:

s: costs from a
run  role        p50_ttft  p99_ttft  p50_itl  p99_itl  p99_tpot  throughput
b    predicted          -     +25.0        -        -         -        -2.0
c    predicted          -         -        -        -     -10.0           -
a    calibrated      +0.0         -        -        -         -           -
b: odd.
Of 3 predicted figures 1 are within 2 %; runs differ.
The worst prediction is p99_ttft_ms of b: 12.50 instead of 10.00, +25.0 %.
"""
    assert (tmp_path / "measured.csv").read_text() == """\
server,run,role,measure,measured,predicted,error_percent
s,b,predicted,p99_ttft_ms,10.00,12.50,25.0
s,c,predicted,p99_tpot_ms,10.00,9.00,-10.0
s,b,predicted,throughput_tps,200.00,196.00,-2.0
s,a,calibrated,p50_ttft_ms,10.00,10.00,0.0
"""


def test_errors_in_per_cent_of_the_measurement(monkeypatch):
    monkeypatch.setattr(measured, "measured", lambda bench: {"a": 10.0, "b": None, "c": 0.0, "d": 8.0})
    monkeypatch.setattr(measured, "predicted", lambda bench, *server: {"a": 12.5, "b": 1.0, "c": 1.0, "d": 6.0})
    assert measured.compare("s", [bench_of()], "predicted", Costs(), Server()) == [
        Comparison("s", "r", "predicted", "a", 10.0, 12.5, 25.0),
        Comparison("s", "r", "predicted", "d", 8.0, 6.0, -25.0)]


def test_errors_of_summaries(monkeypatch):
    """One load calibrates, another is predicted, and a figure that the engine does not give is left out."""
    one, two = (Load(name, [9], [9], [0], 2, {"throughput_tps": 200.0, "p99_itl_ms": 8.0}, []) for name in "ab")
    monkeypatch.setattr(measured, "load_summaries", {"x": [one], "y": [one, two]}.get)
    monkeypatch.setattr(measured, "predicted_figures", lambda load, costs, server: {"throughput_tps": 150.0})
    result = measured.summaries_result(["x"], ["y"], Server(), Costs())
    assert result.rows == [Comparison("server", "a", "calibrated", "throughput_tps", 200.0, 150.0, -25.0),
                           Comparison("server", "b", "predicted", "throughput_tps", 200.0, 150.0, -25.0)]
    assert result.benches == [one, two] and result.server.noise == ""
    assert result.settings.startswith("server: costs from a, max_num_seqs 256, budget 2048: prefill_ms_per_token=0.05 ")
    assert result.settings.endswith(" scheduling=asynchronous")
    told = measured.summaries_result(["x"], ["y"], Server(False, 3, 64, 4_000), Costs()).settings
    assert "max_num_seqs 3, budget 64, a KV cache of 4000 tokens" in told and told.endswith(" scheduling=synchronous")


def test_a_report_of_calibrated_runs_alone(tmp_path, capsys):
    report([Result(SERVER._replace(noise=""), ROWS[:1], [], "s: costs from a")], tmp_path)
    said_of_it = capsys.readouterr().out
    assert "predicted figures" not in said_of_it
    assert said_of_it.endswith("The worst prediction is p50_ttft_ms of a: 10.00 instead of 10.00, +0.0 %.\n")
    print_recorded(SERVER, ROWS[:1])
    assert capsys.readouterr().out == "", "nothing was predicted"


def test_figures_of_summaries_have_columns_of_their_own():
    rows = [ROWS[1]._replace(measure=measure) for measure in ("mean_ttft_ms", "throughput_tps")]
    assert error_table(rows).splitlines()[0].split() == ["run", "role", "mean_ttft", "throughput"]
    assert [row.error_percent for row in worst_first(ROWS)] == [25.0, -10.0, -2.0, 0.0]


def test_how_predictions_were_made():
    end = "prefill_ms_per_token=0.05 step_ms=8 step_ms_per_sequence=0 overhead_ms=0 scheduling="
    assert settings("s", [bench_of(name="a"), bench_of(name="b")], Costs(), Server(True, 4, 99, 4_000)) == \
        f"s: costs from a and b, max_num_seqs 4, budget 99, a KV cache of 4000 tokens: {end}asynchronous"
    assert settings("s", [], Costs(), Server(False, 4, 99)) == \
        f"s: costs from a costs file, max_num_seqs 4, budget 99: {end}synchronous"


def test_what_the_options_and_the_costs_file_say_of_the_server(tmp_path):
    costs = tmp_path / "costs.txt"
    costs.write_text(costs_line(Costs(), Server(False, 3, 64, 4_000)))

    def of(*options):
        return server_of(measured.parser().parse_args(["--costs", str(costs), *options]))

    assert of()[:4] == (False, 3, 64, 4_000) and of("--asynchronous")[0] is True and of("--synchronous")[0] is False
    assert of("--max-num-seqs", "9", "--max-num-batched-tokens", "99", "--kv-tokens", "32")[:4] == (False, 9, 99, 32)
    with pytest.raises(BadInput, match="^--kv-tokens: expected at least 32, found 31$"):
        of("--kv-tokens", "31")
    assert server_of(measured.parser().parse_args([])) == Server()


def test_what_is_not_known_of_a_server_is_vllms_default():
    rows, costs, server = compared("s", [], [], Server(), Costs())
    assert (rows, costs, server) == ([], Costs(), Server(True, 256, 2048, None))
    known = Server(False, 3, 64, 4_000)
    assert compared("s", [], [], known, Costs())[2] == known


def test_a_calibrated_run_is_not_predicted_again(tmp_path):
    run, other = (load_benches(one_run(tmp_path / f"{name}.json"))[0] for name in "ab")
    rows, costs, server = compared("s", [run], [run, other], Server())
    assert {(row.run, row.role) for row in rows} == {("a", "calibrated"), ("b", "predicted")} and len(rows) == 12
    assert costs.step_us == pytest.approx(8_000, rel=1e-3) and server.asynchronous is True, "as nothing tells it"
    assert max(abs(row.error_percent) for row in rows) < 0.1


@pytest.mark.parametrize("options", [["--predict", "r.json"], ["--calibrate", "r.json"], ["--costs", "c.txt"],
                                     ["--calibrate", "r.json", "--costs", "c.txt", "--predict", "r.json"]])
def test_measured_needs_runs_to_predict_and_one_way_to_the_costs(script, tmp_path, options):
    one_run(tmp_path / "r.json")
    (tmp_path / "c.txt").write_text(costs_line(Costs(50, 8_000, 0, 5_000)))
    with pytest.raises(BadInput, match="^give --predict and either --calibrate or --costs, or none of them for the "
                                       "recorded"):
        script(measured, *options)
    assert not (tmp_path / "measured.csv").exists()
    assert "server: costs from a costs file" in script(measured, "--costs", "c.txt", "--predict", "r.json")
    assert {row["role"] for row in read_rows(tmp_path / "measured.csv")} == {"predicted"}
