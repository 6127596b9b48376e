"""The search for the costs that bring the engine nearest to figures, piece by piece and by hand."""

from math import exp, log

import pytest
from calibration import search
from calibration.loads import FIGURES, Load, load_of_point
from calibration.search import Search
from common import BadInput
from files.costs import Costs, Server

LIMITS = Server(None, 32, 2048)


def load(clients, n=1, prompt=100, output=10, **figures):
    """A load of n requests of 100 and 10 tokens."""
    return Load(f"c{clients}", [prompt] * n, [output] * n, [*range(n)], clients, figures, [])


def of_lengths(prompts):
    return load(1)._replace(prompt_tokens=prompts, output_tokens=[1] * len(prompts))


# --- what the loads tell --------------------------------------------------------------------------


@pytest.mark.parametrize("clients, figures, sequences", [
    (4, {}, 4),
    (40, {}, 32),
    (None, {}, 1),
    (4, {"p50_tpot_ms": 10}, 4),
    (4, {"throughput_tps": 300}, 4),
    (4, {"throughput_tps": 300, "p50_tpot_ms": 10}, 3),
    (4, {"throughput_tps": 300, "p50_tpot_ms": 10, "mean_tpot_ms": 9}, 2.7),
    (4, {"throughput_tps": 50, "p50_tpot_ms": 10}, 1),
    (4, {"throughput_tps": 500, "p50_tpot_ms": 10}, 4),
    (None, {"throughput_tps": 500, "p50_tpot_ms": 10}, 5),
    (None, {"throughput_tps": 5000, "p50_tpot_ms": 10}, 32),
])
def test_the_sequences_of_a_load_by_littles_law(clients, figures, sequences):
    """300 tokens a second, each the work of 10 ms: 3 sequences. At most clients or max_num_seqs, and one at least."""
    assert search.sequences_of(load(clients, **figures), 32) == pytest.approx(sequences)


def test_the_sequences_of_an_open_loop_without_throughput_come_from_a_first_play():
    """Two requests of 11 tokens at one moment, 10 ms a step: 22 tokens in 110 ms, 200 a second, 2 sequences."""
    both = load(None, 2, output=11, p50_tpot_ms=10)._replace(arrivals_us=[0, 0])
    assert search.sequences_of(both, 32) == pytest.approx(2)


@pytest.mark.parametrize("clients, points", [
    ([4], [4]), ([5, 4], [4]), ([6, 4], [4, 6]), ([4, 5, 6], [4, 6]), ([9, 8, 10, 11], [8, 11]),
])
def test_two_loads_within_a_quarter_tell_one_point(clients, points):
    assert search.points_of([load(c) for c in clients], 32) == points


@pytest.mark.parametrize("high, differ", [(125, False), (126, True)])
def test_lengths_differ_if_the_ninth_tenth_is_above_the_first_by_more_than_a_quarter(high, differ):
    """Eleven prompts: the 10th percentile is the second one, the 90th the tenth one."""
    loads = [of_lengths([10, 100, *[110] * 4]), of_lengths([110, 110, 110, high, 2000])]
    assert search.lengths_differ(loads, search.prompt_alone) is differ


def test_a_request_holds_its_prompt_and_half_of_its_output():
    assert search.held(100, 30) == 115 and search.prompt_alone(100, 30) == 100


# --- from logs to costs ---------------------------------------------------------------------------


def logs_of(**us):
    """Logs of costs: p2=5000 is what the point of two sequences adds."""
    return {int(term[1:]) if term[1:].isdigit() else term: log(value) for term, value in us.items()}


def test_costs_of_one_two_and_three_points():
    one = search.costs_of(logs_of(p4=8000, prefill=60, overhead=20.1))
    assert one == Costs(*map(pytest.approx, (60, 8000, 0, 20.1)))
    two = search.costs_of(logs_of(p4=8000, p8=1000, prefill=60, overhead=19.9, context=2, hidden=300))
    assert two == Costs(*map(pytest.approx, (60, 7000, 250, 0, 2, 300)))
    three = search.costs_of(logs_of(p2=5000, p4=1000, p12=2000, prefill=60))
    assert three[:3] == pytest.approx((60, 4400, 300)) and three.overhead_us == 0
    assert [(point, round(us)) for point, us in three.step_points] == [(2, 5000), (4, 6000), (12, 8000)]


def test_a_line_that_would_begin_below_one_microsecond_begins_there_and_ends_where_it_must():
    """10 us with 2 sequences and 90 with 4: the line would begin at -70."""
    costs = search.costs_of(logs_of(p2=10, p4=80, prefill=60))
    assert (costs.step_us, costs.step_us_per_sequence) == (1, pytest.approx(89 / 4))


# --- where the search starts ----------------------------------------------------------------------


def started(loads, points, share=0.1):
    """{term: us} of the closed form, rounded to whole microseconds."""
    return {term: round(exp(value)) for term, value in search.closed_form(loads, points, share, 32).items()}


def test_where_a_search_starts():
    """Of a TTFT of 20 ms a tenth is overhead; of the rest a step takes 8, so 100 tokens of prefill take 10. For each
    token of an output 10 of a prompt are prefilled, by each of the sequences: 1 ms a step with one, 4 ms with four."""
    one = load(1, p50_ttft_ms=20, p50_tpot_ms=8)
    four, five, eight = load(4, p50_tpot_ms=12), load(5, p50_tpot_ms=15), load(8, p50_tpot_ms=15)
    common = {"prefill": 100, "overhead": 2000}
    assert started([one, four], [1, 4]) == {1: 7000, 4: 1000} | common
    assert started([one, four, five], [1, 4]) == {1: 7000, 4: 2000} | common, "the mean of 8 and 10 ms is 9"
    assert started([one, load(4, p50_tpot_ms=11)], [1, 4]) == {1: 7000, 4: 350} | common, "a twentieth at least"
    fast = load(4, p50_tpot_ms=6)
    assert started([one, fast, eight], [1, 4, 8]) == {1: 7000, 4: 150, 8: 500} | common, "half a TPOT at least"
    assert started([one, load(4, throughput_tps=4000 / 12)], [1, 4]) == {1: 7000, 4: 1000} | common


@pytest.mark.parametrize("figures, share, start", [
    ({"p50_ttft_ms": 20, "mean_ttft_ms": 30, "p99_ttft_ms": 40, "p50_tpot_ms": 8}, 0.1, (100, 2000)),
    ({"mean_ttft_ms": 20, "p99_ttft_ms": 40, "p50_tpot_ms": 8, "mean_tpot_ms": 5}, 0.1, (100, 2000)),
    ({"p99_ttft_ms": 20, "mean_tpot_ms": 8}, 0.1, (100, 2000)),
    ({"p50_ttft_ms": 20, "p99_tpot_ms": 8}, 0.1, (180, 2000)),
    ({"p50_ttft_ms": 20, "p50_tpot_ms": 8}, 0.5, (20, 10000)),
    ({"p50_ttft_ms": 20, "p50_tpot_ms": 18}, 0.1, (10, 2000)),
    ({"p50_tpot_ms": 8}, 0.1, (4, 400)),
    ({"mean_tpot_ms": 8}, 0.1, (4, 400)),
    ({"p99_tpot_ms": 8}, 0.1, (4, 400)),
    ({"throughput_tps": 125}, 0.1, (4, 400)),
])
def test_the_first_prefill_and_overhead(figures, share, start):
    """A twentieth of a TTFT is prefill at least; without a TTFT a twentieth of a step is, and another one overhead."""
    assert search.first_prefill([load(1, **figures)], share) == pytest.approx(start)
    slower = {name: value / 2 if name == "throughput_tps" else value * 2 for name, value in figures.items()}
    both = [load(1, **slower), load(1, **figures)]
    assert search.first_prefill(both, share) == pytest.approx(start), "the load with the least tells it"


# --- the search -----------------------------------------------------------------------------------


def test_errors_are_counted_in_units_of_what_a_prediction_may_miss():
    tolerated = {"p50_ttft_ms": 0.15, "mean_ttft_ms": 0.15, "p99_ttft_ms": 0.2, "p50_tpot_ms": 0.08,
                 "mean_tpot_ms": 0.08, "p99_tpot_ms": 0.2, "throughput_tps": 0.05}
    measured = dict.fromkeys(FIGURES, 10.0)
    predicted = {name: 10 * exp(tolerated.get(name, 1)) for name in FIGURES}
    assert search.errors_of(load(1, 100, **measured), predicted) == pytest.approx([1] * 7)
    few = search.errors_of(load(1, 99, **measured), predicted)
    assert few == pytest.approx([1, 1, 0.5, 1, 1, 0.5, 1]), "the 99th percentile of a few requests counts half"
    assert search.errors_of(load(1, **measured), {"p50_ttft_ms": 10}) == [0]


def fake_tried(monkeypatch, errors_at, refused=lambda logs: False):
    """tried() with errors that are worked by hand; a Search that is refused is worse than all others."""
    def tried(logs, loads, server):
        errors = errors_at(logs)
        return Search(logs, errors, 1e9 if refused(logs) else sum(error * error for error in errors))
    monkeypatch.setattr(search, "tried", tried)
    return tried


@pytest.mark.parametrize("most, reached", [(2, 1 / 1.01), (0.8, 1 / 1.3), (0.1, 1 / 11), (0.05, 0)])
def test_newtons_step_is_damped_until_it_helps(monkeypatch, most, reached):
    """The error a - 1 has a slope of 1, so the step is 1, over 1 + the damping."""
    tried = fake_tried(monkeypatch, lambda logs: [logs["a"] - 1], lambda logs: logs["a"] > most)
    found = search.newton(tried({"a": 0.0}, [], None), 0.02, [], None)
    assert found.logs["a"] == pytest.approx(reached, abs=1e-5)


def test_a_step_that_changes_nothing_is_not_taken(monkeypatch):
    monkeypatch.setattr(search, "tried", lambda logs, loads, server: Search(logs, [logs["a"] - 1], 1.0))
    best = Search({"a": 0.0}, [-1.0], 1.0)
    assert search.newton(best, 0.02, [], None) is search.swept(best, 0.4, [], None) is best


def test_a_sweep_moves_each_term_the_way_that_helps(monkeypatch):
    tried = fake_tried(monkeypatch, lambda logs: [logs["a"] - 1, logs["b"] + 1, logs["c"]])
    found = search.swept(tried(dict.fromkeys("abcd", 0.0), [], None), 0.4, [], None)
    assert found.logs == {"a": 0.4, "b": -0.4, "c": 0.0, "d": 0.0}, "d changes nothing"


@pytest.mark.parametrize("target, reached", [(1, 1), (76, 16), (81, 0.7875)])
def test_a_search_moves_less_when_it_stands_still_and_ends_after_forty_sweeps(monkeypatch, target, reached):
    """Moves of 0.4. To 76 each sweep of 40 takes off more than 1 % of the square, to 81 less: then moves are halved."""
    fake_tried(monkeypatch, lambda logs: [logs["a"] - target])
    monkeypatch.setattr(search, "newton", lambda best, *_: best)
    assert search.searched({"a": 0.0}, [], None).logs["a"] == pytest.approx(reached)


# --- further terms --------------------------------------------------------------------------------


def test_what_is_too_small_to_move_is_a_twentieth_of_the_first_step_again():
    small = logs_of(p2=5000, p4=1, prefill=60, overhead=1)
    assert search.revived(small) == pytest.approx(logs_of(p2=5000, p4=250, prefill=60, overhead=250))
    large = logs_of(p2=5000, p4=300, prefill=1, overhead=251)
    assert search.revived(large) == large


def test_a_further_term_starts_with_three_tenths():
    """The second load is the longer one: 210 tokens held by each of 4 sequences, 840; 0.3 of a step of 6 ms."""
    logs = logs_of(p2=5000, p4=1000, prefill=60, overhead=300)
    loads = [load(2, 2, output=20), load(4, 3, prompt=200, output=20)]
    context = search.grown(logs, "context", loads)
    assert context == pytest.approx(logs_of(p2=3500, p4=700, prefill=60, overhead=300, context=1800 / 840))
    hidden = search.grown(logs, "hidden", loads)
    assert hidden == pytest.approx(logs_of(p2=5000, p4=1000, prefill=78, overhead=300, hidden=1800))


@pytest.mark.parametrize("before, after, terms", [
    (1.0, {"hidden": 0.79, "context": 0.9, "both": 0.64}, ["hidden"]),
    (1.0, {"hidden": 0.81, "context": 0.79, "both": 0}, ["context"]),
    (1.0, {"hidden": 0.79, "context": 2, "both": 0.62}, ["hidden", "context"]),
    (0.2, {"hidden": 0.149, "context": 1, "both": 1}, ["hidden"]),
    (0.2, {"hidden": 0.155, "context": 0.151, "both": 0}, []),
])
def test_a_further_term_must_lower_the_error_by_a_fifth_and_by_more_than_noise(monkeypatch, before, after, terms):
    def searched(logs, loads, server):
        names = [name for name in ("hidden", "context") if name in logs]
        return Search(logs, [], after["both" if len(names) == 2 else names[0]])
    monkeypatch.setattr(search, "searched", searched)
    loads = [of_lengths([100, 1000])]
    best = Search(logs_of(p2=5000, prefill=60, overhead=300), [], before)
    found, told = search.with_further(best, loads, LIMITS)
    assert told == terms and set(found.logs) == {*best.logs, *terms}


def test_a_term_that_had_become_too_small_is_searched_again(monkeypatch):
    monkeypatch.setattr(search, "searched", lambda logs, loads, server: Search(logs, [], 0.5))
    best = Search(logs_of(p2=5000, prefill=60, overhead=1), [], 0.6)
    found, terms = search.with_further(best, [load(2)], LIMITS)
    assert (found.squares, terms) == (0.5, []) and exp(found.logs["overhead"]) == pytest.approx(250)
    worse = best._replace(squares=0.4)
    assert search.with_further(worse, [load(2)], LIMITS) == (worse, [])
    whole = Search(logs_of(p2=5000, prefill=60, overhead=300), [], 0.6)
    assert search.with_further(whole, [load(2)], LIMITS) == (whole, []), "nothing to search again"


# --- the fit --------------------------------------------------------------------------------------


def by_hand_at(monkeypatch, overhead_us):
    """fitted() whose searches end where they start, with squares of 9 from this overhead, else 16; or 36 and 49."""
    def searched(logs, loads, server):
        far = round(exp(logs["overhead"])) != overhead_us
        return Search(logs, [], (49 if far else 36) if server.asynchronous else (16 if far else 9))
    def in_processes(jobs, processes):
        return [(i, function(*arguments)) for i, (function, *arguments) in enumerate(jobs)]
    monkeypatch.setattr(search, "searched", searched)
    monkeypatch.setattr(search, "in_processes", in_processes)
    monkeypatch.setattr(search, "with_further", lambda best, loads, server: (best, ["context"]))
    monkeypatch.setattr(search, "predicted_figures",
                        lambda load, costs, server: {"p50_ttft_ms": 1.0, "p50_tpot_ms": 2.0, "p50_itl_ms": 3.0})


@pytest.fixture
def by_hand(monkeypatch):
    by_hand_at(monkeypatch, 2000)


def test_the_better_scheduler_and_the_better_start_are_taken(by_hand):
    """Three figures are compared, a squared error of 9 in all: the root of their mean is the root of 3."""
    loads = [load(1, p50_ttft_ms=20, p50_tpot_ms=8), load(4, p50_tpot_ms=12, p50_itl_ms=9)]
    found = search.fitted(loads, LIMITS)
    assert found.costs == Costs(*map(pytest.approx, (100, 7000 - 1000 / 3, 1000 / 3, 2000)))
    assert (found.asynchronous, found.points, found.terms) == (False, [1, 4], ["context"])
    assert (found.error, found.other_error) == (pytest.approx(3**0.5), pytest.approx(12**0.5))
    assert found.figures == [{"p50_ttft_ms": 1.0, "p50_tpot_ms": 2.0, "p50_itl_ms": 3.0}] * 2
    told = search.fitted(loads, LIMITS._replace(asynchronous=True))
    assert (told.asynchronous, told.error, told.other_error) == (True, pytest.approx(12**0.5), None)


def test_the_second_start_takes_half_of_the_ttft_for_overhead(monkeypatch):
    """10 ms of 20. A step takes 8 of the rest, so 20 us a token of prefill: 0.2 ms a step with one, 0.8 with four."""
    by_hand_at(monkeypatch, 10_000)
    found = search.fitted([load(1, p50_ttft_ms=20, p50_tpot_ms=8), load(4, p50_tpot_ms=12)], LIMITS)
    assert found.costs == Costs(*map(pytest.approx, (20, 7800 - 3400 / 3, 3400 / 3, 10_000)))
    assert found.error == pytest.approx(3**0.5)


@pytest.mark.parametrize("change", [{"prompt_tokens": [1_000_000]}, {"output_tokens": [1_000_000]}])
def test_a_million_tokens_are_fitted(by_hand, change):
    loads = [load(1, p50_ttft_ms=20, p50_tpot_ms=8), load(4, p50_tpot_ms=12)._replace(**change)]
    assert search.fitted(loads, LIMITS).points == [1, 4]


@pytest.mark.parametrize("figures", [{"p50_ttft_ms": 20}, {"p50_itl_ms": 9}, {}])
def test_a_load_without_tpot_and_throughput_tells_no_step_and_no_point(by_hand, figures):
    loads = [load(1, p50_ttft_ms=20, p50_tpot_ms=8), load(4, **figures)]
    assert search.fitted(loads, LIMITS).points == [1]


@pytest.mark.parametrize("points", [
    ["clients=2 prompt=10 output=3 p50_ttft_ms=5", "clients=4 prompt=10 output=3 p50_itl_ms=5"],
    ["clients=2 prompt=10 output=1 p50_tpot_ms=5", "clients=4 prompt=10 output=1 mean_tpot_ms=5"],
])
def test_loads_that_tell_no_step_are_refused(points):
    """Requests of one token have no time between tokens."""
    with pytest.raises(BadInput, match="^the loads have no figure that tells a step: TPOT or throughput$"):
        search.fitted(list(map(load_of_point, points)), LIMITS)


def test_one_request_of_two_tokens_has_a_tpot(by_hand):
    loads = [load(1, p50_tpot_ms=8), load(4, p50_tpot_ms=12)._replace(output_tokens=[1, 1, 2], prompt_tokens=[9] * 3)]
    assert search.fitted(loads, LIMITS).points == [1, 4]


def test_a_throughput_of_single_tokens_tells_a_step(by_hand):
    loads = [load(clients, output=1, throughput_tps=100, p50_ttft_ms=20) for clients in (1, 4)]
    assert search.fitted(loads, LIMITS).points == [1, 4]
