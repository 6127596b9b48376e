"""Costs and the overhead from gaps between tokens: each condition by hand, from both sides."""

import pytest
from calibration import gaps, overhead as of_overhead
from calibration.fit import Fit
from calibration.gaps import Calibration, calibrated, costs_of, errors_of, excess_us_of, steps_of, tells_prefill, with_prefill
from calibration.overhead import Overhead, Times, agreement, bounds_of
from calibration.samples import Sample, Steps
from common import BadInput
from files.benchmarks import Bench
from files.costs import Costs

ALL = ["step", "prefill", "sequence", "context"]
COSTS = Costs(50, 8_000, 100, 5_000, 0.2, 1_000)
OVERHEAD = Overhead(3_000.0, 2_000.0, 4_000.0, 4, 50, True, (0.5, 1.0))
MANY = [Sample(10_000, 1, 1 + i % 4, 100 * (i < 30), int(i < 30), i, 2) for i in range(41)]


def calibration(**more):
    """One of 41 steps, 30 with a prefill of 100 tokens, up to 4 sequences and 40 tokens in the cache."""
    made = Calibration(COSTS, True, Fit(dict.fromkeys(ALL, 1.0), [100.0 * (i - 20) for i in range(41)], 1.0), MANY,
                       [Steps(MANY, 1_234), None], OVERHEAD, 2048, "gaps")
    return made._replace(**more)


def bench_of(n=3, name="r", starts_s=(), **more):
    """A run of n requests one after the other: TTFT 0.1 s, two gaps of 10 ms."""
    starts_s = [float(i) for i in range(n)] if starts_s == () else starts_s
    made = Bench(name, [5 + 100 * i for i in range(n)], [3] * n, starts_s, [0.1] * n, [[0.01, 0.01]] * n, 10.0, None,
                 False,
                 None, 0, [])
    return made._replace(**more)


# --- what calibrate says ----------------------------------------------------------------------------


def test_the_budget_is_halved_while_much_is_left_and_taken_if_a_fifth_less_is_left(monkeypatch):
    tried = []

    def budgets(budget, *errors, terms=("prefill",)):
        """errors: what is left of steps of 10 ms, in us, at 2048, 1024 and so on."""
        tried.clear()
        monkeypatch.setattr(gaps, "fitted_at", lambda _, one, only=(): tried.append(one) or calibration(
            budget=one, fit=Fit(dict.fromkeys(terms, 1.0), [errors[min(len(tried), len(errors)) - 1]] * 41, 1.0)))
        monkeypatch.setattr(gaps, "with_overhead", lambda _, found: found)
        return gaps.calibrated([], budget).budget

    assert budgets(None, 101) == 2048 and tried == [2048, 1024, 512, 256, 128, 64], "no server has less"
    assert budgets(None, 100) == 2048 and tried == [2048], "a hundredth of a step is noise"
    assert budgets(None, 999, 101, 100) == 1024 and tried == [2048, 1024, 512, 1024], "it is fitted to all samples"
    assert budgets(None, 999, 801, 500, 401, 90) == 128 and budgets(None, 999, 801, 500, 401) == 512
    assert budgets(4096, 999, 1) == 4096 and tried == [4096], "it is told"
    few, many = (calibration(samples=MANY[:n], fit=Fit({}, [], 1.0)) for n in (4, 5))
    assert tells_prefill(few) and not tells_prefill(many)
    assert budgets(None, 50, 1, terms=()) == 2048 and len(tried) == 6, "many steps hold prompts, and none costs more"


def test_what_is_left_of_steps_in_a_row():
    """Four steps of 10 ms, 0.8 off in all, beside one that is 0.2 off: 1 of 50 ms. As noise the four are like one step
    that is 0.4 off, and 0.6 of 20 ms are left."""
    samples = [Sample(40_000, 4, 4, 0, 0, 0, 1), Sample(10_000, 1, 1, 0, 0, 0, 1)]
    both = errors_of(calibration(samples=samples, fit=Fit({}, [800.0, -200.0], 1.0)))
    assert both == pytest.approx((1_000 / 50_000, 600 / 20_000))


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
    flat = with_prefill([one_client(*range(100, 1_000, 30), us=lambda prompt: 20_000)], costs._replace(
        context_us_per_token=0), 2048)
    assert flat == (costs._replace(context_us_per_token=0), "ttft"), "it does not grow with the prompt"
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
    def sampled(gaps):
        return sum(sample.gaps for sample in steps_of(run, gaps).samples)

    assert sampled(12) == 8 and steps_of(run._replace(itls_s=[[]] * 4, output_tokens=[1] * 4), 0) is None
    monkeypatch.setattr("calibration.gaps.MOST_GAPS", 6)
    assert sampled(12) == 4 and sampled(6) == 8
    assert gaps.MOST_GAPS == 6 and steps_of(run._replace(starts_s=None), 12).samples[0].gaps == 2


def test_a_median_gap_of_less_than_a_microsecond_tells_no_step():
    def of(gap_s):
        return bench_of(9, itls_s=[[gap_s] * 9] * 9, output_tokens=[10] * 9)

    with pytest.raises(BadInput, match="^tokens came many at a time, the median gap between them is 0: no step can be "
                                       "told$"):
        calibrated([of(0.9e-6)])
    assert calibrated([of(1.1e-6)]).costs.step_us == pytest.approx(1.1)
    with pytest.raises(BadInput,
                       match="^no run has a request of two or more output tokens: nothing says how long a step "
                                       "takes$"):
        calibrated([bench_of(9, itls_s=[[]] * 9, output_tokens=[1] * 9)])


@pytest.mark.parametrize("terms, step_us", [
    ({"step": 1.0}, 1), ({"sequence": 700.0}, 1), ({"step": 0.9}, None), ({}, None),
])
def test_a_fit_without_a_step_is_refused_unless_sequences_make_it(monkeypatch, terms, step_us):
    monkeypatch.setattr(gaps, "fit", lambda samples: Fit(terms, [], 1.0))
    if step_us:
        assert calibrated([bench_of(9)], 2048).costs.step_us == step_us
    else:
        with pytest.raises(BadInput, match="^the gaps between tokens do not tell how long a step takes$"):
            calibrated([bench_of(9)], 2048)


# --- the overhead -----------------------------------------------------------------------------------


def alone_runs(*us):
    """A run of one client: prompts of 100, 8 ms + 5 ms, and TTFTs so much longer."""
    return bench_of(len(us), prompt_tokens=[100] * len(us), ttfts_s=[(13_000 + more) / 1e6 for more in us],
                    max_concurrency=1)


def overhead(monkeypatch, alone_us, synchronous=(), asynchronous=()):
    monkeypatch.setattr(of_overhead, "bounds_of", lambda *_: (list(synchronous), list(asynchronous)))
    return of_overhead.overhead_of([alone_runs(*alone_us)] if alone_us else [bench_of()], Costs(50, 8_000), 2048)


def test_the_overhead_of_requests_that_were_alone(monkeypatch):
    """The median; from the second of twenty to the second last. What would be negative is none."""
    twenty = overhead(monkeypatch, [-500, *range(1_000, 20_000, 1_000)])
    assert twenty[:6] == pytest.approx((9_500, 1_000, 18_000, 20, 0, None))
    assert overhead(monkeypatch, [-500, 300, 700])[:4] == pytest.approx((0, 0, 700, 3))
    assert overhead(monkeypatch, [900, 300, 700])[:4] == pytest.approx((300, 300, 900, 3)), "of a few, the least"


AGREE, APART = [(2_000.0, 6_000.0)] * 5, [(0.0, 1.0), (20_000.0, 30_000.0)] * 2 + [(50_000.0, 60_000.0)]


def test_the_overhead_of_requests_with_bounds(monkeypatch):
    nobody = dict(alone_us=[])
    monkeypatch.setattr(of_overhead, "alone_in", lambda bench: list(range(len(bench.ttfts_s)))
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


def test_agreement_from_both_sides():
    """Bounds of one step are 10 us apart at most. Where 1 % fewer agree, it may be as well."""
    assert agreement([(1_000, 2_000), (2_009, 3_000)])[0] == 1 and agreement([(1_000, 2_000), (2_010, 3_000)])[0] == 0.5
    assert agreement([(1_000, 5_000)] * 198 + [(1_000, 3_000)] * 2) == (1, (1_000, 5_000))
    assert agreement([(1_000, 5_000)] * 197 + [(1_000, 3_000)] * 3) == (1, (1_000, 3_000))
    assert agreement([(1_000, 5_000)] * 90 + [(1_000, 3_000)]) == (1, (1_000, 3_000)), "one of 91 is more than 1 %"
    assert agreement([(-20, -15)]) == (0, (0, 0)) and agreement([(-20, -5)]) == (1, (0, 0))


# --- the script calibrate ---------------------------------------------------------------------------
