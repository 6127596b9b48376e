"""measured: recorded servers within the limits, simulated ones without error, limits that bind, and bad options."""

import csv
import json
import random
import re
from functools import cache

import measured
import pytest
from bench_file import bench
from files.costs import Costs, Server, costs_line
from fixture import LAB, ROOT, script, shipped as all_shipped
from common import Requests
from files.inputs import read_text
from files.benchmarks import load_benches
from planning.own_run import run_of_bench
from picture_reader import marks, panel_of
from calibration.gaps import calibrated
from calibration.loads import load_of_bench, predicted_figures
from calibration.recorded import MEASURES, RECORDED, played

PLAIN = Costs(50, 8_000, 50, 5_000)
ROOFLINE = Costs(100, 24_000, 80, 5_000, 0.16, 20_000)
LIMITS = {"p50_ttft_ms": 5, "p99_ttft_ms": 8, "p50_itl_ms": 1, "p99_itl_ms": 8, "throughput_tps": 1}  # per cent


def shipped(n=50):
    return Requests(*(column[:n] for column in all_shipped()))


def write(path, record):
    path.write_text(json.dumps(record))
    return path


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@cache
def calibration(name):
    """The Calibration from one recorded run."""
    (path,) = (path for server in RECORDED for path in [*server.calibrate, *server.predict]
               if path.name == f"{name}.json.gz")
    return calibrated(load_benches(path))


# --- the recorded servers -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, rel_step, asynchronous",
    [("async_c04", 0.02, True), ("async_open5", 0.02, True), ("sync_c16", 0.06, False)],
)
def test_each_clocked_run_tells_the_true_costs(name, rel_step, asynchronous):
    """8000 + 50 x prompt tokens + 50 x sequences; the synchronous server's scheduling is not hidden (its README)."""
    result = calibration(name)
    for sequences in (1, 8, 16):
        assert result.costs.decode_us(sequences) == pytest.approx(8_000 + 50 * sequences, rel=rel_step)
    assert result.costs.prefill_us_per_token == pytest.approx(50, rel=0.05)
    assert result.costs.context_us_per_token == result.costs.hidden_us == 0 and result.costs.step_points == ()
    assert result.asynchronous is asynchronous and 3_000 < result.costs.overhead_us < 6_000


@pytest.mark.parametrize("name, costs", [
    ("async_c01", Costs(50, 8_050, 0)), ("async_c04", Costs(50, 8_000, 50)), ("async_open5", Costs(50, 8_000, 50)),
])
def test_a_log_without_gaps_tells_the_true_costs(tmp_path, name, costs):
    """Of each request the TTFT and the time to the last token: sums over its steps tell what single steps do."""
    record = json.loads(read_text(ROOT / "fixtures" / "clocked" / f"{name}.json.gz"))
    columns = (record[key] for key in ("input_lens", "output_lens", "start_times", "ttfts", "itls"))
    rows = list(zip(*columns))
    (tmp_path / "log").write_text("".join(
        json.dumps({"p": prompt, "o": output, "at": start, "ttft": ttft, "all": ttft + sum(gaps)}) + "\n"
        for prompt, output, start, ttft, gaps in rows))
    bench, = load_benches(tmp_path / "log", ["prompt=p", "output=o", "arrival=at", "unit=s", "ttft=ttft", "latency=all"])
    result = calibrated([bench])
    (tmp_path / "guidellm").write_text("".join(json.dumps({
        "prompt_tokens": prompt + 64, "cached_tokens": 64, "output_tokens": output, "request_start_time": start,
        "request_end_time": start + ttft + sum(gaps), "time_to_first_token_ms": 1000 * ttft,
        "inter_token_latency_ms": 1000 * sum(gaps) / max(1, output - 1)}) + "\n"
        for prompt, output, start, ttft, gaps in rows))
    same = calibrated(load_benches(tmp_path / "guidellm"))
    assert same.costs[:3] == pytest.approx(result.costs[:3], rel=1e-3), "cached tokens are not computed"
    for term in ("prefill_us_per_token", "step_us", "step_us_per_sequence"):
        near = 0.05 if name == "async_c01" else 0.015  # one client: TTFTs tell the prefill, and they hold a tokenizer
        assert getattr(result.costs, term) == pytest.approx(getattr(costs, term), rel=near), term
    assert run_of_bench(bench).gaps_us == {}, "a plan has no time between tokens to compare with"
    assert result.costs.overhead_us < 8_000 and load_of_bench(bench).figures.keys().isdisjoint(["p50_itl_ms"])


@pytest.mark.parametrize("name", ["roofline_c16", "roofline_open4"])
def test_each_run_of_the_roofline_tells_the_true_costs(name):
    """4000 + max(20000 + 0.16 x cached, 100 x computed) + 80 x sequences."""
    result = calibration(name)
    for cost in ("prefill_us_per_token", "step_us_per_sequence", "context_us_per_token", "step_us"):
        assert getattr(result.costs, cost) == pytest.approx(getattr(ROOFLINE, cost), rel=0.05), cost
    for sequences in (1, 5, 8, 16):
        assert result.costs.decode_us(sequences) == pytest.approx(ROOFLINE.decode_us(sequences), rel=0.05)
    assert result.costs.hidden_us == pytest.approx(20_000, rel=0.15) and result.asynchronous is True
    assert 3_000 < result.costs.overhead_us < 8_000


@pytest.fixture(scope="module")
def results():
    """{name: the Result of a recorded server}."""
    found = [calibration(server.calibrate[0].name.split(".")[0]) for server in RECORDED]
    return {server.name: played(server, Server(one.costs, one.asynchronous, server.max_num_seqs))
            for server, one in zip(RECORDED, found)}


@pytest.mark.parametrize("recorded", RECORDED[:3], ids=[server.name for server in RECORDED[:3]])
def test_the_clocked_servers_are_predicted(results, recorded):
    """One run calibrates, the others are predicted; the run itself, too."""
    result = results[recorded.name]
    for row in result.rows:
        assert abs(row.error_percent) <= LIMITS.get(row.measure, 5), row
    roles = {row.run: row.role for row in result.rows}
    assert [run for run, role in roles.items() if role == "calibrated"] == [recorded.calibrate[0].name.split(".")[0]]
    assert len(result.rows) == len(MEASURES) * (len(recorded.predict) + 1)


def test_another_run_of_the_server_calibrates_as_well():
    recorded, found = RECORDED[0], calibration("async_c04")
    other = played(recorded._replace(calibrate=recorded.predict[1:], predict=recorded.calibrate),
                   Server(found.costs, found.asynchronous, recorded.max_num_seqs))
    errors = {row.measure: row.error_percent for row in other.rows if row.role == "predicted"}
    assert all(abs(errors[measure]) <= limit for measure, limit in LIMITS.items()), errors


def test_the_wrong_scheduler_misses_the_ttft():
    """The asynchronous server played as a synchronous one: p50 TTFT is 15 to 35 % short, ITL and throughput are not."""
    server, costs = RECORDED[0]._replace(predict=RECORDED[0].predict[1:]), calibration("async_open5").costs
    result = played(server, Server(costs, False, server.max_num_seqs))
    errors = {(row.run, row.measure): row.error_percent for row in result.rows}
    assert -35 < errors["async_c04", "p50_ttft_ms"] < -10 and abs(errors["async_c04", "p50_itl_ms"]) < 1
    assert "scheduling=synchronous" in result.settings


def test_the_committed_picture_shows_the_errors(results, tmp_path):
    """Each error of measured.csv is at its place, and calibrated runs are hollow."""
    measured.report(list(results.values()), tmp_path)
    text = (LAB / "pictures" / "measured.svg").read_text()
    for panel, servers in (("noise 1.7", ("async", "roofline", "sync")), ("noise 40", ("cpu",))):
        x, _, series = panel_of(text, panel)
        drawn = [row for row in rows(tmp_path / "measured.csv") if row["server"] in servers]
        for role, kind in (("calibrated", "hollow"), ("predicted", "mark")):
            at = sorted(x.value(place) for colour in ("good", "bad")
                        for place, _ in marks(series.get(f"{role} {colour}", []), (kind,)))
            wanted = sorted(float(row["error_percent"]) for row in drawn if row["role"] == role)
            assert at == pytest.approx(wanted, abs=0.06) and len(wanted) > 3


def test_without_files_the_recorded_servers_are_played_with_their_limits(results, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(measured, "result_of", lambda server, told, experts: results[server.name])
    monkeypatch.setattr("sys.argv", ["measured.py", "--out", str(tmp_path)])
    measured.main()
    assert {row["server"] for row in rows(tmp_path / "measured.csv")} == {"async", "roofline", "sync", "cpu"}
    said = capsys.readouterr().out
    for server, limit in (("async", 32), ("roofline", 128), ("sync", 32), ("cpu", 32)):
        assert re.search(rf"^{server}: costs from \w+, max_num_seqs {limit}, ", said, re.MULTILINE)


def test_what_was_measured_is_what_vllm_says_of_it():
    for path in [*RECORDED[0].predict, *RECORDED[2].calibrate]:
        ours = load_of_bench(load_benches(path)[0]).figures
        theirs = json.loads(read_text(path))
        for measure, key in (("p50_ttft_ms", "median_ttft_ms"), ("p99_ttft_ms", "p99_ttft_ms"),
                             ("p50_itl_ms", "median_itl_ms"), ("p99_itl_ms", "p99_itl_ms"),
                             ("p99_tpot_ms", "p99_tpot_ms"), ("throughput_tps", "output_throughput")):
            assert ours[measure] == pytest.approx(theirs[key], rel=0.001), (path, measure)


# --- simulated servers ----------------------------------------------------------------------------


@pytest.mark.parametrize("more", [
    {}, {"asynchronous": True}, {"asynchronous": True, "kv_blocks": 300}, {"max_num_seqs": 4},
    {"max_num_batched_tokens": 256},
])
@pytest.mark.parametrize("clients", [8, None])
def test_what_the_engine_plays_is_predicted_without_error(tmp_path, clients, more):
    r = random.Random(2)
    arrivals = None if clients else sorted(r.randrange(8_000_000) for _ in range(50))
    arrivals = arrivals and [arrival - arrivals[0] for arrival in arrivals]
    record = bench(shipped(), clients, PLAIN, arrivals, **{"max_num_batched_tokens": 2048} | more)
    run = load_benches(write(tmp_path / "run.json", record))[0]
    server = Server(PLAIN, more.get("asynchronous", False), more.get("max_num_seqs", 256),
                    more.get("max_num_batched_tokens", 2048), more.get("kv_blocks") and 16 * (more["kv_blocks"] + 1))
    ours, theirs = predicted_figures(load_of_bench(run), server), load_of_bench(run).figures
    for measure in MEASURES:
        assert ours[measure] == pytest.approx(theirs[measure], rel=1e-3), measure


def test_clients_begin_one_after_the_other():
    """Four clients, prompts of 100: the first is prefilled alone, 5 + 8.05 ms and 5 on the way. The others are
    prefilled after it, in a step of 15 + 8.2 ms."""
    record = bench(Requests([100] * 4, [2] * 4), 4, PLAIN)
    assert [round(1000 * ttft, 3) for ttft in record["ttfts"]] == [18.05, 41.249, 41.248, 41.247]


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def runs(tmp_path):
    """Folder of a server with 4 slots: runs of 2 and 16 clients."""
    for clients in (2, 16):
        write(tmp_path / f"c{clients}.json", bench(shipped(30), clients, PLAIN, max_num_seqs=4, asynchronous=True))
    return tmp_path


def command(folder, *options):
    done = script("measured", "--out", folder, *options)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 100
    return done.stdout, {(row["run"], row["measure"]): row for row in rows(folder / "measured.csv")}


def test_limits_of_the_server(runs):
    c2, c16 = runs / "c2.json", runs / "c16.json"
    options = ["--calibrate", c2, "--predict", c16]
    _, table = command(runs, *options, "--max-num-seqs", 4)
    assert abs(float(table["c16", "p50_ttft_ms"]["error_percent"])) < 5
    said, table = command(runs, *options)
    assert float(table["c16", "p50_ttft_ms"]["error_percent"]) < -50, "16 clients, and all of them run"
    assert "max_num_seqs 256" in said
    said, short = command(runs, *options, "--max-num-seqs", 4, "--kv-tokens", 2400)
    assert float(short["c16", "p50_ttft_ms"]["predicted"]) > float(table["c16", "p50_ttft_ms"]["predicted"])
    assert "a KV cache of 2400 tokens" in said


def test_a_costs_file_describes_the_server(runs):
    (runs / "costs.txt").write_text(costs_line(Server(PLAIN, True, 4, 512)))
    said, table = command(runs, "--costs", runs / "costs.txt", "--predict", runs / "c16.json")
    assert "max_num_seqs 4, budget 512" in said and abs(float(table["c16", "p50_ttft_ms"]["error_percent"])) < 5
    assert "max_num_seqs 9" in command(runs, "--costs", runs / "costs.txt", "--predict", runs / "c16.json",
                                       "--max-num-seqs", 9)[0]


def test_the_worst_is_first_and_calibrated_runs_are_apart(runs):
    said, table = command(runs, "--calibrate", runs / "c2.json", "--predict", runs / "c16.json", runs / "c2.json",
                          "--max-num-seqs", 4, "--synchronous")
    errors = [abs(float(row["error_percent"])) for row in rows(runs / "measured.csv")]
    assert errors == sorted(errors, reverse=True) and len(table) == 12
    assert {row["run"]: row["role"] for row in table.values()} == {"c2": "calibrated", "c16": "predicted"}
    assert "The worst prediction is" in said and "of c16" in said.splitlines()[-1] + said.splitlines()[-2]
    assert "scheduling=synchronous" in said


@pytest.mark.parametrize("options, says", [
    (["--predict", "c16.json"], "give --predict and either --calibrate or --costs"),
    (["--calibrate", "c2.json"], "give --predict and either"),
    (["--calibrate", "c2.json", "--predict", "gone.json"], "gone.json"),
    (["--calibrate", "c2.json", "--predict", "c16.json", "--kv-tokens", "31"], "--kv-tokens: expected at least 32"),
    (["--calibrate", "c2.json", "--predict", "c16.json", "--kv-tokens", "160"], "can never fit"),
])
def test_bad_options_are_one_line(runs, options, says):
    paths = [str(runs / option) if option.endswith(".json") else option for option in options]
    done = script("measured", "--out", runs / "out", *paths)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and says in done.stderr
    assert not (runs / "out").exists()


