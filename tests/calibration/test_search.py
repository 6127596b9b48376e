"""The search for the costs that bring the engine nearest to figures, piece by piece and by hand."""

import random
from math import exp, log
from types import SimpleNamespace

import pytest
from calibration import search
from calibration.loads import FIGURES, Load, predicted_figures
from calibration.search import Way
from calibration.ways import fit_doubts
from common import BadInput
from files.costs import Costs, Server

LIMITS = Server(Costs(), None, 32, 2048)
LINE = Way(LIMITS)


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
    one = search.costs_of(logs_of(p4=8000, prefill=60, overhead=20.1), LINE)
    assert one == Costs(*map(pytest.approx, (60, 8000, 0, 20.1)))
    two = search.costs_of(logs_of(p4=8000, p8=1000, prefill=60, overhead=19.9, context=2, hidden=300), LINE)
    assert two == Costs(*map(pytest.approx, (60, 7000, 250, 0, 2, 300)))
    three = search.costs_of(logs_of(p2=5000, p4=1000, p12=2000, prefill=60), LINE)
    assert three[:3] == pytest.approx((60, 4400, 300)) and three.overhead_us == 0
    assert [(point, round(us)) for point, us in three.step_points] == [(2, 5000), (4, 6000), (12, 8000)]


def test_a_line_that_would_begin_below_one_microsecond_begins_there_and_ends_where_it_must():
    """10 us with 2 sequences and 90 with 4: the line would begin at -70."""
    costs = search.costs_of(logs_of(p2=10, p4=80, prefill=60), LINE)
    assert (costs.step_us, costs.step_us_per_sequence) == (1, pytest.approx(89 / 4))


@pytest.mark.parametrize("ratio, sequences, read", [(4, 1, 1), (4, 2, 1.75), (2, 3, 1.75), (16, 1000, 16)])
def test_how_many_experts_a_step_reads(ratio, sequences, read):
    """2 of 8 experts a token, E/k = 4: two tokens read 2, and of the 6 others 2 / 8 each: 3.5, in units of 2 1.75."""
    assert search.read_experts(ratio, sequences) == pytest.approx(read)


def test_the_shapes_of_a_step():
    """6 ms at 4 sequences and 8 at 16. Of the root, 2 and 4: 7 ms at 3^2 = 9. With 4 experts of 1 ms each above the
    first load's, (1 - 0.75^2) - (1 - 0.75) = 0.1875 of 4 come between one and two sequences: 0.75 ms."""
    logs = logs_of(p4=6000, p16=2000, prefill=60)
    root = search.costs_of(logs, LINE._replace(shape="root"))
    assert [root.decode_us(s) for s in (4, 16, 64)] == [6000, 8000, 12_000]
    assert root.decode_us(9) == pytest.approx(7000, rel=0.01), "between the points that are drawn"
    mixture = search.costs_of(logs | {"experts": log(1000)}, LINE._replace(experts=4))
    assert mixture.decode_us(4) == pytest.approx(6000, abs=1) and \
        mixture.decode_us(2) - mixture.decode_us(1) == pytest.approx(2000 / 12 + 750, abs=1)


def test_a_queue_at_the_server():
    """4 tokens/s of outputs of 2 are 2 requests/s. With 3 s of TTFT 6 wait; 0.5 s of TPOT let 2 run: many wait."""
    one = load(None, 4, output=2, throughput_tps=4, mean_ttft_ms=3000, p50_tpot_ms=500)
    assert search.queues(one, 32) and not search.queues(one._replace(figures=one.figures | {"mean_ttft_ms": 240}), 32)


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


def test_what_is_too_small_to_move_is_a_twentieth_of_the_first_step_again():
    small = logs_of(p2=5000, p4=1, prefill=60, overhead=1)
    assert search.movable(small) == pytest.approx(logs_of(p2=5000, p4=250, prefill=60, overhead=250))
    large = logs_of(p2=5000, p4=300, prefill=1, overhead=251)
    assert search.movable(large) == large


def test_a_further_term_starts_with_three_tenths():
    """The second load is the longer one: 210 tokens held by each of 4 sequences, 840; 0.3 of a step of 6 ms."""
    logs = logs_of(p2=5000, p4=1000, prefill=60, overhead=300)
    loads = [load(2, 2, output=20), load(4, 3, prompt=200, output=20)]
    context = search.grown(logs, "context", loads, LINE)
    assert context == pytest.approx(logs_of(p2=3500, p4=700, prefill=60, overhead=300, context=1800 / 840))
    hidden = search.grown(logs, "hidden", loads, LINE)
    assert hidden == pytest.approx(logs_of(p2=5000, p4=1000, prefill=78, overhead=300, hidden=1800))


# --- the fit --------------------------------------------------------------------------------------


def measured(name, costs, server, clients, arrivals_us=None, n=40, prompt=(50, 150), output=(20, 60)):
    """A load with the figures that the engine gives it."""
    r = random.Random(name)
    lengths = [[r.randint(*span) for _ in range(n)] for span in (prompt, output)]
    made = Load(name, *lengths, arrivals_us or [*range(n)], clients, {}, [])
    return made._replace(figures=predicted_figures(made, server._replace(costs=costs)))


def poisson(rps, n):
    r, now_s = random.Random(3), 0.0
    return [round(1e6 * (now_s := now_s + r.expovariate(rps))) for _ in range(n)]


def near(loads, server, rel=0.05):
    """Are the loads predicted?"""
    for one in loads:
        ours = predicted_figures(one, server)
        for name in ("p50_tpot_ms", "throughput_tps"):
            assert ours[name] == pytest.approx(one.figures[name], rel=rel), (one.name, name)


SERVER = Server(Costs(), True, 64, 2048)


def mixture(points=(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)):
    """4 ms and 0.5 ms for the experts that a token needs, of 16 times as many; 0.02 ms a sequence."""
    return Costs(60, 4_500, 150, 3_000, step_points=tuple(
        (s, 4_000 + 20 * s + 500 * search.read_experts(16, s)) for s in points))


@pytest.mark.parametrize("told, rel", [(16, 0.03), (None, 0.1)])
def test_a_mixture_of_experts(told, rel):
    """Two closed loops calibrate, those between them are predicted. A line would be a third too fast at 8 clients."""
    loads = [measured(f"c{clients}", mixture(), SERVER, clients) for clients in (2, 8, 16, 32, 56)]
    found = search.fitted([loads[0], loads[-1]], SERVER, told)
    near(loads, found.way.server, rel)


def test_a_dense_server_stays_a_line():
    loads = [measured(f"c{clients}", Costs(60, 5_000, 250, 3_000), SERVER, clients) for clients in (2, 40)]
    found = search.fitted(loads, SERVER)
    assert (found.way.shape, found.terms, found.way.server.kv_tokens) == ("line", [], None)


def test_the_budget_is_told():
    """Prompts of 1,000 to 4,000 tokens: with a budget of 8,192 most take one step, which all others wait for."""
    true = SERVER._replace(max_num_batched_tokens=8192)
    loads = [measured(f"{rps}/s", Costs(60, 8_000, 200, 3_000), true, None, poisson(rps, 30), 30, (1000, 4000))
             for rps in (1, 5)]
    found = search.fitted(loads, SERVER._replace(max_num_batched_tokens=None, asynchronous=True))
    assert found.way.server.max_num_batched_tokens == 8192 and found.error < 0.1
    small = [one._replace(figures=predicted_figures(one, SERVER._replace(costs=Costs(60, 8_000, 200, 3_000))))
             for one in loads]
    found = search.fitted(small, SERVER._replace(max_num_batched_tokens=None, asynchronous=True))
    assert found.way.server.max_num_batched_tokens == 2048


def test_a_short_memory_is_told():
    """3,000 tokens let some 8 of 60 requests run, where all might; the others wait."""
    true, costs = SERVER._replace(kv_tokens=3_000), Costs(60, 8_000, 200, 3_000)
    loads = [measured(f"{rps}/s", costs, true, None, poisson(rps, 60), 60, (200, 400)) for rps in (2, 80)]
    found = search.fitted(loads, SERVER._replace(asynchronous=True))
    assert "memory" in found.terms and found.way.server.kv_tokens == pytest.approx(3_000, rel=0.1)
    told = search.fitted(loads, true._replace(asynchronous=True))
    assert "memory" not in told.terms and told.way.server.kv_tokens == 3_000


def test_what_is_drawn_tells_no_further_term():
    loads = [load(4)._replace(drawn=True), load(8)._replace(prompt_tokens=[900])]
    assert search.further_terms(loads, [4, 8], LIMITS) == []
    assert ("experts", 32) in search.further_terms(loads[1:], [4, 8], LIMITS)


def test_a_load_that_was_not_what_it_seems_and_a_fit_that_is_far_off():
    """A tenth of the log: 110 tokens/s for 100 are another load's. An error of 1 is as far as a prediction may be."""
    def names(tps, error):
        found = SimpleNamespace(figures=[{"throughput_tps": tps}], error=error)
        return [doubt.name for doubt in fit_doubts([load(4, throughput_tps=100)], found)]

    assert names(110, 0.99) == names(91, 0.99) == [] and names(111, 0.99) == names(90, 0.99) == ["load"]
    assert names(100, 1.0) == ["fit"]


@pytest.mark.parametrize("text, value", [("128/8", 16), ("128/6", 128 / 6)])
def test_a_mixture_is_named_by_its_experts(text, value):
    assert search.ratio(text) == value
    for bad in ("8/8", "8", "8/0", "1/2", "a/b"):
        with pytest.raises(BadInput):
            search.ratio(bad)
