"""Calibration from summaries: known costs come back, every defect is one line, and the scheduler is recognised."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

LAB = Path(__file__).resolve().parent.parent / "lb2"
sys.path.insert(0, str(LAB))

import plan_summary  # noqa: E402
import plan_summary_fit  # noqa: E402
from cost_model import Costs, Server, parsed  # noqa: E402
from inputs import BadInput  # noqa: E402

SERVER = Server(None, 32, 2048)
ENTRY = {"name": "c2", "clients": 2, "prompt": [10, 20], "output": [5, 6], "measured": {"p50_ttft": 30, "tps": 90}}
RESULT = {"completed": 4, "total_input_tokens": 400, "total_output_tokens": 40, "max_concurrency": 2,
          "request_rate": "inf", "output_throughput": 99.5, "median_ttft_ms": 20.5, "p99_ttft_ms": 30.0}
POINT = "clients=16 prompt=1024 output=512 p50_ttft_ms=34 p50_tpot_ms=4.7 tps=3265"


def load_of(clients, costs, asynchronous, count=32):
    """A load of requests of 50 to 150 and 20 to 60 tokens, with the figures that the engine gives it at these costs."""
    random = Random(clients)
    prompts, outputs = ([random.randint(low, 3 * low) for _ in range(count)] for low in (50, 20))
    load = plan_summary.Load(f"c{clients}", prompts, outputs, list(range(count)), clients, {}, [])
    figures = plan_summary.predicted_figures(load, costs, SERVER._replace(asynchronous=asynchronous))
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
    found = plan_summary_fit.fitted(loads, SERVER)
    assert found.asynchronous is asynchronous, (found.error, found.other_error)
    for sequences in (2, 8, 15):
        assert found.costs.decode_us(sequences) == pytest.approx(true.decode_us(sequences), rel=0.03), found.costs
    assert found.costs.prefill_us(100) == pytest.approx(6000, rel=0.1), found.costs
    assert found.costs.overhead_us == pytest.approx(3000, rel=0.25), found.costs
    assert not found.costs.context_us_per_token * 2000 > 0.05 * 5000, "a cost of the cache that is not there"
    other = load_of(8, true, asynchronous)
    figures = plan_summary.predicted_figures(other, found.costs, SERVER._replace(asynchronous=asynchronous))
    for name, value in other.figures.items():
        if name in plan_summary_fit.TOLERANCE:
            assert figures[name] == pytest.approx(value, rel=0.05), name


def test_three_loads_give_a_piecewise_line():
    """A step of 4 ms up to 4 sequences, 8 ms at 8 and 9 at 16: no line goes through them."""
    true = Costs(50, 4000, 0, 2000, step_points=((2, 4000), (4, 4000), (8, 8000), (16, 9000)))
    loads = [load_of(clients, true, True, 48) for clients in (4, 8, 16)]
    found = plan_summary_fit.fitted(loads, SERVER._replace(asynchronous=True))
    assert len(found.costs.step_points) == 3
    for sequences in (4, 8, 15):
        assert found.costs.decode_us(sequences) == pytest.approx(true.decode_us(sequences), rel=0.12), found.costs
    assert found.other_error is None


def test_loads_of_one_number_of_sequences_tell_no_slope():
    loads = [load_of(4, Costs(50, 8000, 100, 2000), True, count) for count in (24, 30)]
    assert plan_summary_fit.points_of(loads, 32) == [4]
    costs = plan_summary_fit.costs_of({4: 9.0, "prefill": 3.0, "overhead": 7.0})
    assert costs.step_us_per_sequence == 0 and costs.step_points == ()


def test_two_points_are_a_line_and_an_error_beyond_one_counts_less_than_its_square():
    """ln 1000 us at 2 sequences and 1000 more at 12: a line of 800 + 100 a sequence."""
    costs = plan_summary_fit.costs_of({2: 6.907755279, 12: 6.907755279, "prefill": 0.0, "overhead": 0.0})
    assert (costs.step_us, costs.step_us_per_sequence) == (pytest.approx(800), pytest.approx(100))
    assert costs.overhead_us == 0  # 1 us is none
    assert [plan_summary_fit.loss(error) for error in (0.5, -1, 3)] == [0.25, 1, 5]


def test_a_term_needs_lengths_that_differ():
    load = plan_summary.load_of_point(POINT)
    assert plan_summary_fit.further_terms([load, load]) == []
    longer = load._replace(output_tokens=[2048] * 160)
    assert plan_summary_fit.further_terms([load, longer]) == ["context"]
    assert plan_summary_fit.further_terms([load, longer._replace(prompt_tokens=[3072] * 160)]) == ["hidden", "context"]


def test_one_load_is_refused():
    with pytest.raises(BadInput, match="two loads or more"):
        plan_summary_fit.fitted([load_of(4, Costs(), True, 5)], SERVER)


def test_loads_that_tell_no_step_are_refused():
    load = load_of(4, Costs(), True, 5)
    gaps_only = load._replace(figures={"p50_itl_ms": 8.0, "p99_itl_ms": 9.0})
    with pytest.raises(BadInput, match="the loads have no figure that can be fitted: TTFT, TPOT or throughput"):
        plan_summary_fit.fitted([gaps_only, gaps_only], SERVER)
    for change in ({"prompt_tokens": [1_000_001] * 5}, {"output_tokens": [1_000_001] * 5}):
        with pytest.raises(BadInput, match="c4: expected requests of at most 1,000,000 tokens, found 1,000,001"):
            plan_summary_fit.fitted([load, load._replace(**change)], SERVER)


# --- what is read ---------------------------------------------------------------------------------


def test_a_point():
    load = plan_summary.load_of_point(POINT)
    assert (load.name, load.clients, len(load.prompt_tokens)) == ("16 clients", 16, 160)
    assert load.figures == {"p50_ttft_ms": 34, "p50_tpot_ms": 4.7, "throughput_tps": 3265}
    open_loop = plan_summary.load_of_point("rps=10 prompt=8 output=4 requests=1000 p99_ttft_ms=3")
    assert open_loop.clients is None and open_loop.arrivals_us[-1] == pytest.approx(100e6, rel=0.1)
    assert open_loop == plan_summary.load_of_point("rps=10 prompt=8 output=4 requests=1000 p99_ttft_ms=3")


@pytest.mark.parametrize("text, says", [
    ("clients=16 prompt=1 tps=3", "expected prompt, output"),
    ("clients=16 rps=3 prompt=1 output=1 tps=3", "either clients or rps"),
    ("clients=16 prompt=1 output=1", "expected figures such as"),
    ("clients=16 prompt=1 output=1 speed=3", "found speed=3"),
    ("clients=16 prompt=1 output=1 tps=fast", "expected a number, found fast"),
    ("clients=1.5 prompt=1 output=1 tps=3", "expected a whole number, found 1.5"),
    ("clients=0 prompt=1 output=1 tps=3", "expected a number from 0.000001"),
    ("clients=nan prompt=1 output=1 tps=3", "expected a number from 0.000001"),
    ("clients=100001 prompt=1 output=1 tps=3", "expected at most 1,000,000 requests, found 1,000,010; give requests="),
])
def test_a_bad_point_is_refused(text, says):
    with pytest.raises(BadInput, match=says) as refused:
        plan_summary.load_of_point(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("change, says", [
    ({"prompt": [10]}, "expected as many output as prompt lengths, found 2 and 1"),
    ({"prompt": [10, 0]}, "prompt: expected a list of tokens"),
    ({"output": None}, "output: expected a list of tokens"),
    ({"clients": 0}, "clients: expected a whole number or null, found 0"),
    ({"clients": None}, "arrivals_ms: expected 2 times in ms"),
    ({"clients": None, "arrivals_ms": [1, "2"]}, "arrivals_ms: expected 2 times in ms"),
    ({"measured": {"p50_ttft": "30"}}, "p50_ttft: expected a number above 0"),
    ({"measured": {"tps": 0}}, "tps: expected a number above 0"),
    ({"measured": {}}, "expected figures such as p50_ttft and tps, found none"),
    ({"measured": 3}, "measured: expected an object"),
])
def test_a_bad_entry_is_refused(tmp_path, change, says):
    path = write(tmp_path / "sweep.json", [ENTRY, ENTRY | change])
    assert plan_summary.is_summary(path)
    with pytest.raises(BadInput, match=says) as refused:
        plan_summary.load_summaries(path)
    assert "load 2" in str(refused.value) and "\n" not in str(refused.value)


def test_loads_are_chosen_by_name_or_number(tmp_path):
    path = write(tmp_path / "a:b.json", [ENTRY, ENTRY | {"name": "1k/4k 0.2/s"}])
    assert [load.name for load in plan_summary.load_summaries(path)] == ["c2", "1k/4k 0.2/s"]
    assert [load.name for load in plan_summary.load_summaries(f"{path}:1k/4k 0.2/s")] == ["1k/4k 0.2/s"]
    assert [load.name for load in plan_summary.load_summaries(f"{path}:1")] == ["c2"]
    with pytest.raises(BadInput, match="found c3; its loads are c2, 1k"):
        plan_summary.load_summaries(f"{path}:c3")


def test_arrivals_count_from_the_first_and_are_put_in_order(tmp_path):
    entry = ENTRY | {"clients": None, "arrivals_ms": [12.5, 2.5]}
    load, = plan_summary.load_summaries(write(tmp_path / "sweep.json", [entry]))
    assert (load.arrivals_us, load.prompt_tokens, load.output_tokens) == ([0, 10000], [20, 10], [6, 5])


def test_a_result_without_its_requests(tmp_path):
    path = write(tmp_path / "run.json", RESULT)
    assert plan_summary.is_summary(path)
    load, = plan_summary.load_summaries(path)
    assert (load.name, load.clients, load.prompt_tokens, load.output_tokens) == ("run", 2, [100] * 4, [10] * 4)
    assert load.figures == {"p50_ttft_ms": 20.5, "p99_ttft_ms": 30.0, "throughput_tps": 99.5}
    load, = plan_summary.load_summaries(write(path, RESULT | {"request_rate": 2.0}))
    assert load.clients is None and load.arrivals_us[1] > 1 and "random ones at 2 requests" in load.oddities[1]


@pytest.mark.parametrize("change, says", [
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
        plan_summary.load_summaries(write(tmp_path / "run.json", RESULT | change))


def test_detailed_results_are_no_summaries(tmp_path):
    path = write(tmp_path / "run.json", RESULT | {"input_lens": [1], "output_lens": [1]})
    assert not plan_summary.is_summary(path)


# --- the programs ---------------------------------------------------------------------------------


def test_calibrate_and_measured_take_summaries(tmp_path):
    true = Costs(60, 5000, 250, 3000)
    keys = {name: keys[0] for name, keys in plan_summary.FIGURES.items()}
    entries = [{"name": load.name, "clients": load.clients,
                "prompt": load.prompt_tokens, "output": load.output_tokens,
                "measured": {keys[name]: value for name, value in load.figures.items()}}
               for load in (load_of(clients, true, True, 30) for clients in (2, 4, 8))]
    path = write(tmp_path / "sweep.json", entries)
    limits = ["--out", tmp_path, "--max-num-seqs", "32"]
    ran = subprocess.run([sys.executable, LAB / "plan_calibrate.py", f"{path}:c2", f"{path}:3", *limits],
                         capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    costs, server = parsed("costs.txt", (tmp_path / "costs.txt").read_text())
    assert costs.decode_us(4) == pytest.approx(6000, rel=0.05)
    assert (server.max_num_seqs, server.measured_sequences) == (32, 7)
    ran = subprocess.run([sys.executable, LAB / "plan_measured.py", "--costs", tmp_path / "costs.txt",
                          "--predict", path, *limits], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    rows = [line.split(",") for line in (tmp_path / "measured.csv").read_text().splitlines()[1:]]
    assert {row[1] for row in rows} == {"c2", "c4", "c8"}
    assert {"p50_tpot_ms", "throughput_tps"} <= {row[3] for row in rows}
    assert all(abs(float(row[6])) < 8 for row in rows if row[3] in ("p50_tpot_ms", "throughput_tps"))


@pytest.mark.parametrize("arguments, says", [
    ([], "give results of a benchmark"),
    (["--point", POINT], "two loads or more"),
])
def test_too_little_is_refused_in_one_line(tmp_path, arguments, says):
    ran = subprocess.run([sys.executable, LAB / "plan_calibrate.py", "--out", tmp_path / "out", *arguments],
                         capture_output=True, text=True)
    assert ran.returncode == 2 and says in ran.stderr and len(ran.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()
