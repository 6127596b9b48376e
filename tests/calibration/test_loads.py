"""Calibration from summaries: known costs come back, every defect is one line, and the scheduler is recognised."""

import json
import math
from random import Random
from statistics import stdev

import pytest
from bench_file import bench as bench_of
from fixture import assert_refused, read_rows, script, words
from calibration import loads as of_loads
from calibration import search
from files.costs import Costs, Server, parsed
from calibration.doubts import Doubt
from common import BadInput, MOST, Requests
from files.benchmarks import Bench

SERVER = Server(Costs(), None, 32, 2048)
ENTRY = {"name": "c2", "clients": 2, "prompt": [10, 20], "output": [5, 6], "measured": {"p50_ttft": 30, "tps": 90}}
RESULT = {"completed": 4, "total_input_tokens": 400, "total_output_tokens": 40, "max_concurrency": 2,
          "request_rate": "inf", "output_throughput": 99.5, "median_ttft_ms": 20.5, "p99_ttft_ms": 30.0}
POINT = "clients=16 prompt=1024 output=512 p50_ttft_ms=34 p50_tpot_ms=4.7 tps=3265"


def load_of(clients, costs, asynchronous, count=20):
    """A load of requests of 50 to 150 and 10 to 30 tokens, with the figures that the engine gives it at these costs."""
    random = Random(clients)
    prompts, outputs = ([random.randint(low, 3 * low) for _ in range(count)] for low in (50, 10))
    load = of_loads.Load(f"c{clients}", prompts, outputs, list(range(count)), clients, {}, [])
    figures = of_loads.predicted_figures(load, SERVER._replace(costs=costs, asynchronous=asynchronous))
    return load._replace(figures=figures)


def write(path, value):
    path.write_text(json.dumps(value))
    return path


# --- the fit --------------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [True, False])
def test_known_costs_come_back_from_two_summaries(asynchronous):
    """5 ms + 0.25 a sequence, 0.06 a prompt token, 3 ms overhead: the figures of 2 and 16 clients tell them."""
    true = Costs(60, 5000, 250, 3000)
    loads = [load_of(clients, true, asynchronous) for clients in (2, 16)]
    found = search.fitted(loads, SERVER)
    server = found.way.server
    costs = server.costs
    assert server.asynchronous is asynchronous, (found.error, found.other_error)
    for sequences in (2, 8, 15):
        assert costs.decode_us(sequences) == pytest.approx(true.decode_us(sequences), rel=0.03), costs
    assert costs.prefill_us(100) == pytest.approx(6000, rel=0.1), costs
    assert costs.overhead_us == pytest.approx(3000, rel=0.25), costs
    assert not costs.context_us_per_token * 2000 > 0.05 * 5000, "a cost of the cache that is not there"
    other = load_of(8, true, asynchronous)
    figures = of_loads.predicted_figures(other, server)
    for name, value in other.figures.items():
        if name in search.TOLERANCE:
            assert figures[name] == pytest.approx(value, rel=0.05), name


def test_three_loads_give_a_piecewise_line():
    """A step of 4 ms up to 4 sequences, 8 ms at 8 and 9 at 16: no line goes through them."""
    true = Costs(50, 4000, 0, 2000, step_points=((2, 4000), (4, 4000), (8, 8000), (16, 9000)))
    loads = [load_of(clients, true, True, 32) for clients in (4, 8, 16)]
    found = search.fitted(loads, SERVER._replace(asynchronous=True))
    costs = found.way.server.costs
    assert len(costs.step_points) >= 3
    for sequences in (4, 8, 15):
        assert costs.decode_us(sequences) == pytest.approx(true.decode_us(sequences), rel=0.12), costs
    assert found.other_error is None


def test_an_error_beyond_one_counts_less_than_its_square():
    assert [search.loss(error) for error in (0.5, -1, 3)] == [0.25, 1, 5]


def test_a_term_needs_lengths_that_differ():
    def terms(*loads):
        return [term for term, ratio in search.further_terms(loads, [16], SERVER)]

    load = of_loads.load_of_point(POINT)
    assert terms(load, load) == []
    longer = load._replace(output_tokens=[2048] * 160)
    assert terms(load, longer) == ["context"]
    assert terms(load, longer._replace(prompt_tokens=[3072] * 160)) == ["hidden", "context"]


def test_one_load_is_refused():
    with pytest.raises(BadInput, match="two loads or more"):
        search.fitted([load_of(4, Costs(), True, 5)], SERVER)


# --- what is read ---------------------------------------------------------------------------------


def test_a_point():
    load = of_loads.load_of_point(POINT)
    assert (load.name, load.clients, len(load.prompt_tokens)) == ("16 clients", 16, 160)
    assert load.figures == {"p50_ttft_ms": 34, "p50_tpot_ms": 4.7, "throughput_tps": 3265}
    open_loop = of_loads.load_of_point("rps=10 prompt=8 output=4 requests=1000 p99_ttft_ms=3")
    assert open_loop.clients is None and open_loop.arrivals_us[-1] == pytest.approx(100e6, rel=0.1)
    assert open_loop == of_loads.load_of_point("rps=10 prompt=8 output=4 requests=1000 p99_ttft_ms=3")


def test_how_many_requests_a_point_has():
    """Ten for each client, 100 at least, or what it says; and up to a million."""
    def sent(text):
        load = of_loads.load_of_point(f"{text} prompt=8 output=4 tps=3")
        return load.name, len(load.prompt_tokens), load.oddities

    means = "only means are known. Played: {} requests of 8 prompt and 4 output tokens on average{}."
    assert sent("clients=10") == ("10 clients", 100, [means.format(100, "")])
    assert sent("clients=11") == ("11 clients", 110, [means.format(110, "")])
    assert sent("clients=1") == ("1 client", 100, [means.format(100, "")])
    assert sent("clients=1 requests=1000000") == ("1 client", 1_000_000, [means.format(1_000_000, "")])
    for rps, said in (("2.5", "2.5"), ("0.000001", "1e-06"), ("1000000000", "1e+09")):
        assert sent(f"rps={rps}") == (f"{said}/s", 100, [means.format(100, f", at random times, {said} a second")])
    with pytest.raises(BadInput, match="requests: expected at most 1,000,000, or give requests=, found 1000001"):
        sent("rps=1 requests=1000001")


def test_random_arrivals_are_those_of_the_first_seed():
    """The first gap at 2 requests/s is -ln(1 - u) / 2 with the first random number u of seed 0."""
    load = of_loads.load_of_point("rps=2 prompt=8 output=4 tps=3")
    assert load.arrivals_us[:2] == [0, round(1e6 * -math.log(1 - 0.8444218515250481) / 2)]


@pytest.mark.parametrize("text, says", [
    ("", "expected prompt, output, and either clients or rps, found nothing"),
    ("prompt=1 output=1 tps=3", "prompt, output, and either clients or rps, found prompt, output, throughput_tps"),
    ("clients=16 prompt=1 prompt=2 output=1 tps=3", "at most once, found prompt=2"),
    ("clients=1 prompt=1 output=1000000001 tps=3", "output: expected a number, 1e-06 to 1,000,000,000, found .1"),
    ("clients=1 prompt=1 output=1 tps=3 throughput_tps=4", "at most once, found throughput_tps=4"),
    ("rps=0.00000099 prompt=1 output=1 tps=3", "rps: expected a number, 1e-06 to"),
    ("rps=1 requests=2.5 prompt=1 output=1 tps=3", "requests: expected a whole number, found 2.5"),
    ("rps=1 prompt=2.5 output=1 tps=3", "prompt: expected a whole number, found 2.5"),
    ("rps=1 prompt=1 output=2.5 tps=3", "output: expected a whole number, found 2.5"),
    ("clients=16 prompt=1 output=1 tps=3 tps=" + "4" * 50, f"found tps={'4' * 36}$"),
    ("x" * 70, f"^--point {'x' * 60}: expected each of clients, .*throughput_tps, tps at most once, found {'x' * 40}$"),
    ("clients=16 prompt=1 output=1 tps=" + "y" * 50, f"tps: expected a number, .*, found .{'y' * 40}.$"),
    ("clients=16 prompt=1 tps=3", "expected prompt, output"),
    ("clients=16 rps=3 prompt=1 output=1 tps=3", "either clients or rps"),
    ("clients=16 prompt=1 output=1", "expected figures such as"),
    ("clients=16 prompt=1 output=1 speed=3", "found speed=3"),
    ("clients=16 prompt=1 output=1 tps=fast", "expected a number, .*, found .fast"),
    ("clients=1.5 prompt=1 output=1 tps=3", "expected a whole number, found 1.5"),
    ("clients=0 prompt=1 output=1 tps=3", "expected a number, 1e-06 to"),
    ("clients=nan prompt=1 output=1 tps=3", "expected a number, 1e-06 to"),
    ("clients=1_6 prompt=1 output=1 tps=3", "clients: expected a number"),
    ("clients=٣ prompt=1 output=1 tps=3", "clients: expected a number"),
    ("clients=100001 prompt=1 output=1 tps=3", "or give requests=, found 1000010"),
])
def test_a_bad_point_is_refused(text, says):
    with pytest.raises(BadInput, match=says) as refused:
        of_loads.load_of_point(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("change, says", [
    ({"prompt": []}, "prompt: expected a list of tokens from 1 to 1,000,000,000 for each request, found "),
    ({"output": [10, MOST + 1]}, "output: expected a list of tokens"),
    ({"prompt": [10, True]}, "prompt: expected a list of tokens"),
    ({"clients": MOST + 1}, "clients: expected a whole number or null"),
    ({"clients": None, "arrivals_ms": [1]}, "arrivals_ms: expected 2 times in ms, or clients, found "),
    ({"arrivals_ms": [1]}, "arrivals_ms: expected 2 times in ms"),
    ({"clients": None, "arrivals_ms": [0, MOST + 1]}, "arrivals_ms: expected 2 times in ms"),
    ({"clients": None, "arrivals_ms": [0, -MOST - 1]}, "arrivals_ms: expected 2 times in ms"),
    ({"measured": {"tps": MOST + 1}}, "tps: expected a number above 0, found 1000000001"),
    ({"measured": {"tps": -1}}, "tps: expected a number above 0, found -1"),
    ({"measured": {"p50_ttft": -1}}, "p50_ttft: expected a number above 0, found -1"),
    ({"measured": {"p50_ttft": 0}}, "expected figures such as p50_ttft_ms or median_ttft_ms, and tps, found none"),
    ({"prompt": [10]}, r"output: expected 1 lengths, as of prompt, found \[5, 6\]"),
    ({"prompt": [10, 0]}, "prompt: expected a list of tokens"),
    ({"output": None}, "output: expected a list of tokens"),
    ({"clients": 0}, "clients: expected a whole number or null, found 0"),
    ({"clients": None}, "arrivals_ms: expected 2 times in ms"),
    ({"clients": None, "arrivals_ms": [1, "2"]}, "arrivals_ms: expected 2 times in ms"),
    ({"measured": {"p50_ttft": "30"}}, "p50_ttft: expected a number above 0"),
    ({"measured": {"tps": 0}}, "tps: expected a number above 0"),
    ({"measured": {}}, "expected figures such as"),
    ({"measured": 3}, "measured: expected an object"),
])
def test_a_bad_entry_is_refused(tmp_path, change, says):
    path = write(tmp_path / "sweep.json", [ENTRY, ENTRY | change])
    assert of_loads.is_summary(path)
    with pytest.raises(BadInput, match=says) as refused:
        of_loads.load_summaries(path)
    assert "load 2" in str(refused.value) and "\n" not in str(refused.value)


def test_every_figure_has_its_name_in_both_kinds_of_files(tmp_path):
    """As a list of summaries names them, as vLLM's benchmark does, and as the tables do. The file's own come first."""
    names = ["p50_ttft", "mean_ttft", "p99_ttft", "p50_tpot", "mean_tpot", "p99_tpot", "p50_itl", "p99_itl", "tps"]
    theirs = ["median_ttft_ms", "mean_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "mean_tpot_ms", "p99_tpot_ms",
              "median_itl_ms", "p99_itl_ms", "output_throughput"]
    ours = [*(f"{name}_ms" for name in names[:-1]), "throughput_tps"]
    entry = ENTRY | {"measured": {name: i for i, name in enumerate(names, 1)}}
    result = RESULT | {name: i for i, name in enumerate(theirs, 1)}
    for record in ([entry], result, [ENTRY | {"measured": {name: i for i, name in enumerate(ours, 1)}}]):
        load, = of_loads.load_summaries(write(tmp_path / "sweep.json", record))
        assert load.figures == {name: i for i, name in enumerate(ours, 1)}


def test_loads_are_chosen_by_name_or_number(tmp_path):
    path = write(tmp_path / "a:b.json", [ENTRY, ENTRY | {"name": "1k/4k 0.2/s"}])
    assert [load.name for load in of_loads.load_summaries(path)] == ["c2", "1k/4k 0.2/s"]
    assert [load.name for load in of_loads.load_summaries(f"{path}:1k/4k 0.2/s")] == ["1k/4k 0.2/s"]
    assert [load.name for load in of_loads.load_summaries(f"{path}:1")] == ["c2"]
    assert [load.name for load in of_loads.load_summaries(f"{path}:2")] == ["1k/4k 0.2/s"]
    for name in ("c3", "0", "3", "", "z" * 50):
        expected = f"a load's name or its number from 1 to 2, found {name[:40]}; its loads are c2, 1k"
        with pytest.raises(BadInput, match=expected):
            of_loads.load_summaries(f"{path}:{name}")
    write(path, [ENTRY | {"name": "2"}, ENTRY, ENTRY])
    assert [load.name for load in of_loads.load_summaries(f"{path}:2")] == ["2"], "a name goes before a number"
    with pytest.raises(BadInput, match="found c2; its loads are 2, c2, c2"):
        of_loads.load_summaries(f"{path}:c2")


def test_arrivals_count_from_the_first_and_are_put_in_order(tmp_path):
    entry = ENTRY | {"clients": None, "arrivals_ms": [12.5, 2.5]}
    load, = of_loads.load_summaries(write(tmp_path / "sweep.json", [entry]))
    assert (load.arrivals_us, load.prompt_tokens, load.output_tokens) == ([0, 10000], [20, 10], [6, 5])
    load, = of_loads.load_summaries(write(tmp_path / "sweep.json", [entry | {"arrivals_ms": [-MOST, MOST]}]))
    assert load.arrivals_us == [0, 2000 * MOST]
    load, = of_loads.load_summaries(write(tmp_path / "sweep.json", [ENTRY]))
    assert load.arrivals_us == [0, 1], "clients begin one after the other"


def test_a_result_without_its_requests(tmp_path):
    path = write(tmp_path / "run.json", RESULT)
    assert of_loads.is_summary(path)
    load, = of_loads.load_summaries(path)
    assert (load.name, load.clients, load.prompt_tokens, load.output_tokens) == ("run", 2, [100] * 4, [10] * 4)
    assert load.figures == {"p50_ttft_ms": 20.5, "p99_ttft_ms": 30.0, "throughput_tps": 99.5}
    assert load.arrivals_us == [0, 1, 2, 3]
    uncapped, = of_loads.load_summaries(write(path, RESULT | {"request_rate": 2.0, "max_concurrency": None}))
    load, = of_loads.load_summaries(write(path, RESULT | {"request_rate": 2.0}))
    assert uncapped.arrivals_us == load.arrivals_us, "nothing says how long it lasted"
    assert load.clients == 2 and load.arrivals_us[1] > 1 and "at random times, 2 a second" in load.oddities[0]


def test_results_of_several_runs_and_of_the_extremes(tmp_path):
    path = tmp_path / "run.json"
    path.write_text("\n" + json.dumps(RESULT) + "\n" + json.dumps(RESULT | {"completed": 0, "num_prompts": 5}))
    first, second = of_loads.load_summaries(path)
    assert (first.name, second.name, len(first.prompt_tokens), len(second.prompt_tokens)) == ("run-1", "run-2", 4, 5)
    path.write_text(json.dumps(RESULT) + json.dumps(RESULT | {"output_throughput": None, "median_ttft_ms": None,
                                                              "p99_ttft_ms": 0}))
    with pytest.raises(BadInput, match="run 2: expected figures such as .* median_ttft_ms"):
        of_loads.load_summaries(path)
    for change, clients in [({"request_rate": None}, 2), ({"request_rate": "Infinity"}, 2),
                            ({"request_rate": "gone"}, 2), ({"request_rate": 1e-6}, 2), ({"request_rate": MOST}, 2),
                            ({"max_concurrency": 1}, 1)]:
        record = {key: value for key, value in (RESULT | change).items() if value != "gone"}
        load, = of_loads.load_summaries(write(path, record))
        assert load.clients == clients and load.drawn is (type(change.get("request_rate")) in (int, float)), change
    load, = of_loads.load_summaries(write(path, RESULT | {"max_concurrency": None}))
    assert (load.clients, load.arrivals_us, len(load.oddities)) == (None, [0, 1, 2, 3], 1), "all at once"
    load, = of_loads.load_summaries(write(path, RESULT | {"total_input_tokens": 4, "total_output_tokens": 6}))
    assert (load.prompt_tokens, load.output_tokens) == ([1] * 4, [2] * 4)
    many = {"completed": 1_000_000, "total_input_tokens": 10**8, "total_output_tokens": MOST}
    assert len(of_loads.load_summaries(write(path, RESULT | many))[0].prompt_tokens) == 1_000_000


def test_arrivals_as_the_client_made_them():
    """A ramp of 1 to 3 requests/s over three requests: 1, 2 and 3; or 1, sqrt(3) and 3. A burstiness of 1 is Poisson's,
    and one of 10,000 is as even as a clock: 4 requests at 2/s are 0.5 s apart."""
    ramp = {"ramp_up_strategy": "linear", "ramp_up_start_rps": 1, "ramp_up_end_rps": 3}
    assert of_loads.rates_of({}, 5.0, 2) == [5.0, 5.0] and of_loads.rates_of(ramp, math.inf, 3) == [1, 2, 3]
    exponential = of_loads.rates_of(ramp | {"ramp_up_strategy": "exponential"}, math.inf, 3)
    assert exponential == pytest.approx([1, 3**0.5, 3])
    even = of_loads.load_of_means("x", 4, 9, 9, None, [2.0] * 4, {}, 10_000)
    assert even.arrivals_us == pytest.approx([0, 500_000, 1_000_000, 1_500_000], rel=0.05) and even.drawn
    spread = [of_loads.load_of_means("x", 400, 9, 9, None, [2.0] * 400, {}, shape).arrivals_us for shape in (0.2, 1)]
    gaps = [[b - a for a, b in zip(us, us[1:])] for us in spread]
    assert stdev(gaps[0]) > 1.5 * stdev(gaps[1]), "below 1 they come in bursts"
    assert of_loads.load_of_means("x", 4, 9, 9, 2, [math.inf] * 4, {}).arrivals_us == [0, 1, 2, 3]


def test_a_ramp_is_read_from_a_result(tmp_path):
    """A rate of inf with a ramp is not all at once; the last arrival is as long before the end as a request takes."""
    record = RESULT | {"max_concurrency": None, "ramp_up_strategy": "linear", "ramp_up_start_rps": 1,
                       "ramp_up_end_rps": 3, "duration": 4.0, "mean_ttft_ms": 100.0, "mean_tpot_ms": 10.0}
    load, = of_loads.load_summaries(write(tmp_path / "run.json", record))
    assert load.clients is None and load.arrivals_us[-1] == pytest.approx(4e6 - 100_000 - 10 * 10_000)
    assert "at random times, 1 to 3 a second" in load.oddities[0]


def test_what_a_result_doubts_of_itself(tmp_path):
    def doubted(**change):
        load, = of_loads.load_summaries(write(tmp_path / "run.json", RESULT | change))
        return [doubt.name for doubt in load.doubts], load.drawn

    assert doubted() == ([], False), "400 and 40 tokens of 4 requests may all be alike"
    assert doubted(total_input_tokens=401) == (["lengths"], True) and doubted(failed=1) == (["failed"], False)
    assert doubted(spec_decode_acceptance_length=2.5)[0] == ["several_tokens"]


def test_lengths_from_a_file_keep_the_means():
    """Of 100 and 10 tokens on average: lengths of 1 and 3, and of 2, in proportion."""
    varied = of_loads.load_of_means("x", 50, 100, 10, 4, None, {})
    varied = varied._replace(doubts=(Doubt("lengths", ""), Doubt("a", "")))
    load = of_loads.with_lengths(varied, Requests([1, 3], [2, 2]))
    assert sum(load.prompt_tokens) == pytest.approx(5_000, rel=0.01) and load.output_tokens == [10] * 50
    assert max(load.prompt_tokens) == pytest.approx(3 * min(load.prompt_tokens), rel=0.05)
    assert [doubt.name for doubt in load.doubts] == ["a"]
    assert of_loads.with_lengths(load, Requests([9], [9])) is load


@pytest.mark.parametrize("change, says", [
    ({"total_output_tokens": 3}, "total_output_tokens: expected a token or more for each request, found 3"),
    ({"max_concurrency": 0}, "max_concurrency: expected a whole number or null, found 0"),
    ({"request_rate": 0.00000099}, "request_rate: expected requests per second or inf"),
    ({"request_rate": MOST + 1}, "request_rate: expected requests per second or inf, found 1000000001"),
    ({"request_rate": True}, "request_rate: expected requests per second or inf, found true"),
    ({"completed": 0, "num_prompts": None}, "completed: expected 1 to 1,000,000 requests"),
    ({"completed": 1_000_001, "total_input_tokens": 10**8, "total_output_tokens": 10**8}, "found 1000001"),
    ({"total_input_tokens": None}, "total_input_tokens: expected a token or more"),
    ({"max_concurrency": "2"}, "max_concurrency: expected a whole number or null"),
    ({"request_rate": "fast"}, "request_rate: expected requests per second or inf"),
    ({"request_rate": [2]}, "request_rate: expected requests per second or inf"),
    ({"request_rate": 0}, "request_rate: expected requests per second or inf"),
    ({"request_rate": 10**400}, "request_rate: expected requests per second or inf"),
])
def test_a_bad_result_is_refused(tmp_path, change, says):
    with pytest.raises(BadInput, match=says):
        of_loads.load_summaries(write(tmp_path / "run.json", RESULT | change))


def test_whatever_is_no_summary_is_read_as_detailed_results(tmp_path):
    path = tmp_path / "run.json"
    detailed = {"input_lens": [7, 9], "output_lens": [3, 2], "ttfts": [0.05, 0.06], "itls": [[0.01, 0.01], [0.01]],
                "start_times": [8.0, 8.07], "duration": 0.14, "output_throughput": 35.7}
    load, = of_loads.load_summaries(write(path, detailed | {"max_concurrency": 1}))
    assert (load.name, load.prompt_tokens, load.clients, load.figures["mean_ttft_ms"]) == ("run", [7, 9], 1, 55)
    path.write_text(json.dumps(detailed) + json.dumps(RESULT))
    with pytest.raises(BadInput, match="run 2: no list input_lens, output_lens: was it run with"):
        of_loads.load_summaries(path)
    for text, says in [("[]", "the list of requests is empty"), ("a,b\n", "not a request file"),
                       (json.dumps([ENTRY, {}]), "not a request file")]:
        path.write_text(text)
        with pytest.raises(BadInput, match=says):
            of_loads.load_summaries(path)


def test_the_figures_of_a_detailed_result_worked_by_hand():
    """TTFTs of 50 and 60 ms; gaps of 10 and 20, and of 30 ms: TPOTs of 15 and 30. 6 tokens in 0.15 s.

    The third request has one token, and so no TPOT. The 99th percentile of two lies 0.99 of the way up.
    """
    bench = Bench("b", [7, 9, 5], [3, 2, 1], [0.0, 0.07, 0.0811116], [0.05, 0.06, 0.055], [[0.01, 0.02], [0.03], []],
                  0.15, None, False, None, 0, ["odd."])
    load = of_loads.load_of_bench(bench)
    assert load[:5] == ("b", [7, 9, 5], [3, 2, 1], [0, 70_000, 81_112], None) and load.oddities == ["odd."]
    expected = {"p50_ttft_ms": 55, "mean_ttft_ms": 55, "p99_ttft_ms": 59.9, "p50_tpot_ms": 22.5, "mean_tpot_ms": 22.5,
                "p99_tpot_ms": 29.85, "p50_itl_ms": 20, "p99_itl_ms": 29.8, "throughput_tps": 40}
    assert load.figures == pytest.approx(expected)
    closed = of_loads.load_of_bench(bench._replace(clients=2, closed=True, starts_s=None, duration_s=None))
    assert (closed.clients, closed.arrivals_us, "throughput_tps" in closed.figures) == (2, [0, 1, 2], False)
    with pytest.raises(BadInput, match="^b: an open loop without start times cannot be played$"):
        of_loads.load_of_bench(bench._replace(starts_s=None))
    single = bench._replace(output_tokens=[1, 1, 1], itls_s=[[], [], []], ttfts_s=[0.0, 0.0, 0.0])
    assert of_loads.load_of_bench(single).figures == {"throughput_tps": 20}, "of nothing there is no median"


def test_a_window_of_a_run_worked_by_hand():
    """Of three requests the last two: TTFTs of 60 and 55 ms, a TPOT of 30. 3 tokens from 0.07 to 0.16 s.

    The engine serves all: 10.5, 8 and 8 ms for the first, as below, and the second finds the server empty at 70 ms."""
    bench = Bench("b", [10, 10, 10], [3, 2, 1], [0.0, 0.07, 0.0811116], [0.05, 0.06, 0.055], [[0.01, 0.02], [0.03], []],
                  0.15, None, False, None, 0, [])
    load = of_loads.load_of_bench(bench, (1, 3))
    assert (load.name, load.window, len(load.prompt_tokens)) == ("b:2-3", (1, 3), 3)
    assert {name: round(value, 6) for name, value in load.figures.items() if name[0] != "p" or "50" in name} == {
        "p50_ttft_ms": 57.5, "mean_ttft_ms": 57.5, "p50_tpot_ms": 30, "mean_tpot_ms": 30,
        "throughput_tps": round(3 / 0.09, 6)}
    one = of_loads.load_of_bench(bench, (1, 2))
    ours = of_loads.predicted_figures(one, Server(Costs(50, 8000, 0, 2000), False, 32, 2048))
    assert (ours["p50_ttft_ms"], ours["p50_tpot_ms"]) == (10.5, pytest.approx(8.5, abs=0.6))
    assert "p50_itl_ms" not in ours, "gaps are of the whole run"
    assert ours["throughput_tps"] == pytest.approx(2 / 0.0185, rel=0.05)
    for window, found in (((2, 2), "3-2"), ((0, 4), "1-4"), ((-1, 2), "0-2")):
        with pytest.raises(BadInput, match=f"b: expected a window of its requests 1 to 3, .* found {found}$"):
            of_loads.load_of_bench(bench, window)


def test_windows_of_one_long_run_calibrate(tmp_path):
    """400 requests at a rate above what the server carries: the first 50 and 150 to 200 tell the last 100."""
    r = Random(4)
    requests = Requests(*([r.randint(*span) for _ in range(400)] for span in ((50, 300), (40, 120))))
    arrivals = sorted(r.randrange(10_000_000) for _ in range(400))
    arrivals = [us - arrivals[0] for us in arrivals]
    record = bench_of(requests, None, Costs(60, 5000, 250, 3000), arrivals, asynchronous=True)
    path = write(tmp_path / "run.json", record)
    done = script("measured", "--calibrate", f"{path}:1-50", f"{path}:151-200", "--predict", f"{path}:301-400",
                  "--max-num-batched-tokens", 2048, "--asynchronous", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    errors = [abs(float(row["error_percent"])) for row in read_rows(tmp_path / "measured.csv")
              if row["role"] == "predicted"]
    assert len(errors) == 7 and max(errors) < 3


def test_the_figures_that_the_engine_predicts_worked_by_hand():
    """10 prompt tokens at 0.05 ms and a step of 8 ms: 8.5 ms to the first token and 2 ms of overhead; 8 ms for each
    of two more. 3 tokens in 26.5 ms. Of two requests the second waits if nothing lets both run: then its first token
    comes 8.5 ms later than the first one's last. (Of two blocks of the cache vLLM keeps one for itself.)"""
    server = Server(Costs(50, 8000, 0, 2000), False, 32, 2048)
    load = of_loads.Load("x", [10], [3], [0], None, {}, [])
    figures = of_loads.predicted_figures(load, server)
    assert figures == {"p50_ttft_ms": 10.5, "mean_ttft_ms": 10.5, "p99_ttft_ms": 10.5, "p50_tpot_ms": 8,
                       "mean_tpot_ms": 8, "p99_tpot_ms": 8, "p50_itl_ms": 8, "p99_itl_ms": 8,
                       "throughput_tps": pytest.approx(3 / 0.0265)}
    single = of_loads.predicted_figures(load._replace(output_tokens=[1]), server)
    assert sorted(single) == ["mean_ttft_ms", "p50_ttft_ms", "p99_ttft_ms", "throughput_tps"]
    two = of_loads.Load("x", [10, 10], [3, 3], [0, 0], None, {}, [])
    for change in ({"kv_tokens": 32}, {"max_num_seqs": 1}):
        figures = of_loads.predicted_figures(two, server._replace(**change))
        assert (figures["mean_ttft_ms"], figures["throughput_tps"]) == pytest.approx(((10.5 + 35) / 2, 6 / 0.051))
    figures = of_loads.predicted_figures(two, server)
    assert (figures["mean_ttft_ms"], figures["throughput_tps"]) == pytest.approx((11, 6 / 0.027))
    one = of_loads.predicted_figures(two._replace(clients=1), server)
    assert (one["mean_ttft_ms"], one["throughput_tps"]) == pytest.approx((10.5, 6 / 0.053))
    chunks = of_loads.predicted_figures(load, server._replace(max_num_batched_tokens=5))
    assert chunks["p50_ttft_ms"] == 18.5, "two steps for the prompt"


# --- the programs ---------------------------------------------------------------------------------


def test_calibrate_and_measured_take_summaries(tmp_path):
    true = Costs(60, 5000, 250, 3000)
    keys = {name: keys[0] for name, keys in of_loads.FIGURES.items()}
    entries = [{"name": load.name, "clients": load.clients, "prompt": load.prompt_tokens, "output": load.output_tokens,
                "measured": {keys[name]: value for name, value in load.figures.items()}}
               for load in (load_of(clients, true, True, 30) for clients in (2, 4, 8))]
    path = write(tmp_path / "sweep.json", entries)
    limits = ["--out", tmp_path, "--max-num-seqs", "32"]
    assert script("calibrate", f"{path}:c2", f"{path}:3", *limits).returncode == 0
    server = parsed("costs.txt", (tmp_path / "costs.txt").read_text())
    assert server.costs.decode_us(4) == pytest.approx(6000, rel=0.05)
    assert (server.max_num_seqs, server.measured_sequences) == (32, 6)
    assert script("measured", "--costs", tmp_path / "costs.txt", "--predict", path, *limits).returncode == 0
    rows = read_rows(tmp_path / "measured.csv")
    assert {row["run"] for row in rows} == {"c2", "c4", "c8"}
    assert {"p50_tpot_ms", "throughput_tps"} <= {row["measure"] for row in rows}
    assert all(abs(float(row["error_percent"])) < 8 for row in rows
               if row["measure"] in ("p50_tpot_ms", "throughput_tps"))


def test_calibrate_takes_lengths_for_results_that_hold_sums(tmp_path):
    files = [write(tmp_path / f"{clients}.json", RESULT | {"max_concurrency": clients, "total_input_tokens": 401})
             for clients in (1, 4)]
    command = [*files, "--max-num-batched-tokens", 2048, "--out", tmp_path]
    lengths = write(tmp_path / "lengths.json", [{"prompt_tokens": 1, "output_tokens": 2}])
    for more, untold in (([], True), (["--lengths", lengths], False)):
        done = script("calibrate", *command, *more)
        assert done.returncode == 0 and ("file holds only their sums" in words(done.stdout)) is untold, done.stderr


@pytest.mark.parametrize("arguments, says", [([], "give results of a benchmark"), (["--point", POINT], "two loads")])
def test_too_little_is_refused_in_one_line(tmp_path, arguments, says):
    assert_refused(script("calibrate", "--out", tmp_path / "out", *arguments), "calibrate", says)
    assert not (tmp_path / "out").exists()
