"""calibrate: play known costs, write what vLLM's benchmark would have, and get the same costs back; public files."""

import copy
import json
import random
import re
import tempfile
from functools import lru_cache
from pathlib import Path

import pytest
from bench_file import bench
from files.costs import Costs, Server, costs_line, parsed, load_server
from fixture import ROOT, SHIPPED, read_pairs, script
from common import BadInput, Requests
from files.benchmarks import load_benches
from calibration.fit import Fit
from calibration.gaps import Calibration, calibrated, holds_more
from calibration.samples import Sample, Steps
from calibration.overhead import agreement, alone, alone_in, bounds_of, decided, overhead_of, queued_in, times_of
from calibration.words import said

PUBLIC = ROOT / "fixtures" / "public"
CLOCKED = ROOT / "fixtures" / "clocked"
MEASURED = ROOT / "fixtures" / "measured"
PLAIN = Costs(50, 8_000, 50, 5_000)
ROOFLINE = Costs(100, 24_000, 80, 5_000, 0.16, 20_000)
BENT = Costs(50, 8_000, 0, 5_000, step_points=((1, 8_000), (4, 9_000), (8, 12_000), (16, 13_000)))


def shipped(n=50, share=1):
    """The first n requests of the list. share: 3 leaves a third of their output tokens."""
    records = json.loads(SHIPPED.read_text())[:n]
    return Requests([record["prompt_tokens"] for record in records],
                    [-(-record["output_tokens"] // share) for record in records])


def poisson(rps, n=50):
    r, now, arrivals = random.Random(1), 0.0, []
    for _ in range(n):
        now += r.expovariate(rps)
        arrivals.append(round(1e6 * now))
    return arrivals


def read(record):
    with tempfile.TemporaryDirectory() as folder:
        return load_benches(write(Path(folder) / "run.json", record))[0]


def found(*records, budget=None):
    return calibrated([read(record) for record in records], budget)


@lru_cache(maxsize=None)
def of_closed_loop(clients, costs, n=50, told=None, share=3, **more):
    """([Bench], Calibration) of a closed loop that the lesson played at these costs. told: the budget."""
    benches = [read(bench(shipped(n, share), clients, costs, **more))]
    return benches, calibrated(benches, told)


def write(path, record):
    path.write_text(json.dumps(record))
    return path


def near(costs, expected, rel=0.001, overhead=None):
    """Are two Costs alike? overhead: how many us it may be off; None: it is not compared."""
    if overhead is not None:
        assert abs(costs.overhead_us - expected.overhead_us) <= overhead
    fields = ["prefill_us_per_token", "step_us_per_sequence", "context_us_per_token", "hidden_us", "step_us"]
    for field in fields[: 5 if not expected.step_points else 1]:
        assert getattr(costs, field) == pytest.approx(getattr(expected, field), rel=rel, abs=1e-9), field
    for sequences in (1, 5, 8, 16):
        assert costs.decode_us(sequences) == pytest.approx(expected.decode_us(sequences), rel=rel)


# --- round trips ----------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("costs", [PLAIN, ROOFLINE, BENT, Costs(7, 21_000, 1_250, 3_000)], ids=str)
def test_a_closed_loop_gives_its_costs_back(costs, asynchronous):
    """All but the overhead: in a closed loop one that is shorter than a step is like any other."""
    _, result = of_closed_loop(16, costs, asynchronous=asynchronous)
    near(result.costs, costs)
    assert result.asynchronous is asynchronous
    assert result.overhead.low_us <= costs.overhead_us <= result.overhead.high_us + 1


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("costs, rps", [(PLAIN, 5), (ROOFLINE, 3)])
def test_an_open_loop_gives_its_costs_back(costs, rps, asynchronous):
    result = found(bench(shipped(share=3), None, costs, poisson(rps), asynchronous=asynchronous))
    near(result.costs, costs, overhead=400)
    assert result.asynchronous is asynchronous


def test_one_client_tells_prefill_and_overhead_by_its_ttfts():
    result = found(bench(shipped(30), 1, ROOFLINE))
    assert result.prefill_from == "ttft" and result.asynchronous is None
    assert result.costs.decode_us(1) == pytest.approx(24_080, rel=0.001) and result.costs.step_us_per_sequence == 0
    near(result.costs._replace(step_us=24_000, step_us_per_sequence=80), ROOFLINE, rel=0.005, overhead=20)


def test_runs_pool():
    """One client tells the overhead, sixteen tell what a sequence costs."""
    result = found(bench(shipped(20), 1, PLAIN), bench(shipped(share=3), 16, PLAIN))
    near(result.costs, PLAIN, overhead=20)
    assert result.overhead.alone == 21 and result.prefill_from == "gaps"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_more_clients_than_sequences(asynchronous):
    """16 clients at 4 slots: TTFT is waiting, and none of it is overhead."""
    _, result = of_closed_loop(16, PLAIN, max_num_seqs=4, asynchronous=asynchronous)
    near(result.costs, PLAIN, overhead=20)
    assert result.asynchronous is None and max(sample.sequences for sample in result.samples) == 4


@pytest.mark.parametrize("arrivals", [None, poisson(5)], ids=["closed", "open"])
def test_a_short_cache(arrivals):
    """Who is preempted emits nothing meanwhile, and comes back with a longer prompt."""
    clients = None if arrivals else 16
    result = found(bench(shipped(), clients, PLAIN, arrivals, kv_blocks=400, asynchronous=True))
    near(result.costs, PLAIN)
    assert result.steps[0].preemptions > 5 and result.costs.overhead_us == pytest.approx(5_000, abs=1_000)
    assert result.asynchronous is (None if clients else True), "in closed loop too many waited for memory"


@pytest.mark.parametrize("budget, told", [(512, 512), (512, None), (256, None)])
def test_prompts_in_chunks(budget, told):
    _, result = of_closed_loop(16, PLAIN, told=told, share=1, max_num_batched_tokens=budget)
    near(result.costs, PLAIN)
    assert result.budget == budget and result.asynchronous is False
    assert result.overhead.agreeing[0] > 0.95, "whose prompt may have been cut is not asked when it was scheduled"


@pytest.mark.parametrize("longest, budget, found", [
    (1500, 512, 512), (6000, 512, 512), (6000, 2048, 2048), (6000, 8192, 8192), (6000, 16384, 16384),
    (1500, 8192, 2048),  # hardly a step holds more than 2,048 tokens
])
def test_the_budget_is_told_by_steps_that_hold_more_or_are_cut_all_the_time(longest, budget, found):
    r, costs = random.Random(3), ROOFLINE if budget > 2048 else PLAIN
    spans = (longest // 6, longest), (20, 200)
    requests = Requests(*([r.randint(*span) for _ in range(100)] for span in spans))
    result = calibrated([read(bench(requests, 16, costs, max_num_batched_tokens=budget))])
    assert result.budget == found
    near(result.costs, costs, rel=0.01)


def test_a_step_beyond_the_budget_is_as_long_as_all_of_it_or_as_the_budget():
    """50 us a token: a step of 8 + 150 ms has 3,000 tokens; with 2,048 it would take 8 + 102.4. Between them: 134.2."""
    def holds(ms, n=5, prefill=50.0):
        steps = Steps([], 0, single=[(0.0, Sample(1000 * ms, 1, 0, 3_000, 1, 0, 1))] * n)
        terms = {"step": 8_000.0} | ({"prefill": prefill} if prefill else {})
        return holds_more(Calibration(Costs(), None, Fit(terms, [], 1.0), [], [None, steps], None, 2048, "gaps"))

    assert holds(134.3) and not holds(134.1) and holds(158) and not holds(158, n=4) and not holds(158, prefill=0)


def test_a_budget_that_is_never_reached_is_not_looked_for():
    assert of_closed_loop(16, PLAIN, asynchronous=False)[1].budget == 2048


def test_times_that_a_client_sees_late():
    """Every time up to 2 ms late, a quarter of a step."""
    _, result = of_closed_loop(16, PLAIN, jitter_us=2_000, asynchronous=True)
    near(result.costs._replace(step_us_per_sequence=50), PLAIN._replace(step_us=result.costs.step_us), rel=0.01)
    assert result.asynchronous is True


def lumped(record, tokens, merged=False):
    """The record as if so many tokens always came together, as gaps of 10 us or (merged) as one gap."""
    record = copy.deepcopy(record)
    for itls in record["itls"]:
        lumps = [itls[i:i + tokens] for i in range(0, len(itls), tokens)]
        itls[:] = [gap for lump in lumps for gap in [sum(lump), *([] if merged else [1e-5] * (len(lump) - 1))]]
    return record


@pytest.mark.parametrize("tokens, merged", [(2, False), (4, False), (2, True), (4, True)])
def test_tokens_that_come_several_at_a_time(tokens, merged):
    record = bench(shipped(share=1 if merged else 3), None, PLAIN, poisson(5), asynchronous=True)
    result = found(lumped(record, tokens, merged))
    near(result.costs, PLAIN, rel=0.07 if merged else 0.03)
    assert result.asynchronous is None, "not every step is seen"


def test_a_lump_here_and_there():
    r, record = random.Random(1), bench(shipped(), 16, PLAIN, asynchronous=True)
    for itls in record["itls"]:
        for i in range(len(itls) - 1):
            if r.random() < 0.1:
                itls[i], itls[i + 1] = itls[i] + itls[i + 1], 0.0
    near(found(record).costs, PLAIN, rel=0.005)


def test_without_start_times_two_loads_tell_step_and_sequences():
    """The gaps alone: a step and what a sequence adds to it within 2 %; prefill from the run of one client."""
    records = [bench(shipped(n, 3), clients, PLAIN, asynchronous=True) for n, clients in ((10, 1), (50, 4), (50, 8))]
    result = calibrated([read(record)._replace(starts_s=None) for record in records])
    for sequences in (1, 4, 8):
        assert result.costs.decode_us(sequences) == pytest.approx(PLAIN.decode_us(sequences), rel=0.02)
    assert result.costs.prefill_us_per_token == pytest.approx(50, rel=0.01) and result.prefill_from == "ttft"
    assert result.costs.overhead_us == pytest.approx(5_000, abs=50)
    alone_eight = calibrated([read(records[2])._replace(starts_s=None)])
    assert alone_eight.prefill_from == "excess" and 30 < alone_eight.costs.prefill_us_per_token < 70


# --- overhead and scheduler -----------------------------------------------------------------------


def test_bounds_worked_by_hand():
    """Sent at 100, first token at 121 with a step, those before ended at 113, 104 and 96."""
    times = {"itls": [[0.008, 0.009, 0.008, 0.008], [0.008]], "ttfts": [0.096, 0.021], "start_times": [0.0, 0.1],
             "input_lens": [5, 5], "output_lens": [5, 2], "duration": 0.2, "max_concurrency": None, "request_rate": 1.0}
    of_run = times_of(read(times))
    assert of_run.steps_s == pytest.approx([0.096, 0.104, 0.113, 0.121, 0.129])
    sides = bounds_of(of_run, [5, 5], 2048, {0})
    assert [tuple(map(round, bounds)) for side in sides for bounds in side] == [(4_000, 13_000), (-4_000, 4_000)]


def test_agreement_worked_by_hand():
    """1 to 5, 2 to 6 and 8 to 9: two agree, between 2 and 5. What would be negative is no overhead."""
    assert agreement([(1_000, 5_000), (2_000, 6_000), (8_000, 9_000)]) == (2 / 3, (2_000, 5_000))
    assert agreement([(-5_000, -1_000)] * 3 + [(-1_000, 2_000)]) == (1 / 4, (0, 2_000))
    assert agreement([]) == (0.0, (0.0, 0.0))


def test_the_scheduler_that_explains_more_or_needs_less():
    assert decided((0.8, 0.9), ((0, 1), (9_000, 9_001))) is True and decided((0.9, 0.8), ((0, 1), (0, 9_000))) is False
    assert decided((0.99, 1.0), ((9_000, 15_000), (0, 7_000))) is True
    assert decided((1.0, 1.0), ((0, 8_000), (0, 10))) is False, "an overhead of nothing is no overhead"
    assert decided((1.0, 1.0), ((0, 8_000), (0, 500))) is True and decided((1.0, 1.0), ((0, 8_000), (0, 499))) is False


def test_one_prompt_alone_takes_its_chunks():
    """Budget 100, prompt 150: two steps, the first without a token: 2 x 8 ms, 50 us for one sequence, 50 us a token.
    With a context of 1 us a token, the first reads 100 and the second 150."""
    assert alone(PLAIN, 150, 100) == 16_000 + 50 + 7_500
    assert alone(PLAIN._replace(context_us_per_token=1), 150, 100) == 16_000 + 50 + 7_500 + 250
    assert alone(PLAIN, 100, 100) == 8_000 + 50 + 5_000


def test_who_found_the_server_empty_and_who_waited():
    record = bench(Requests([20] * 4, [10] * 4), None, PLAIN, [0, 50_000, 500_000, 900_000], asynchronous=True)
    assert alone_in(read(record)) == [0, 2, 3], "the second came while the first ran"
    waiting = read(bench(Requests([20] * 12, [10] * 12), None, PLAIN, [0] * 12, max_num_seqs=2))
    assert len(queued_in(times_of(waiting))) == 12 and queued_in(times_of(read(record))) == []
    assert bounds_of(times_of(waiting), waiting.prompt_tokens, 2048, set()) == ([], [])
    assert len(bounds_of(times_of(read(record)), [20] * 4, 2048, set())[0]) == 3, "the first has no step before it"


def test_two_that_share_a_step_did_not_find_the_server_empty():
    """Sent at 0 and 2 ms, both with their first token at 20 ms: the prefill of both is in either's TTFT."""
    times = {"itls": [[0.01], [0.01]], "ttfts": [0.02, 0.018], "start_times": [0.0, 0.002], "input_lens": [5, 5],
             "output_lens": [2, 2], "duration": 0.03, "max_concurrency": None, "request_rate": 1.0}
    assert alone_in(read(times)) == []
    assert alone_in(read(times | {"ttfts": [0.02, 0.028], "duration": 0.04})) == [0]


# --- the recorded servers -------------------------------------------------------------------------


def test_one_clocked_client():
    result = calibrated(load_benches(CLOCKED / "async_c01.json.gz"))
    assert result.costs.decode_us(1) == pytest.approx(8_050, rel=0.01)
    assert result.costs.prefill_us_per_token == pytest.approx(50, rel=0.05) and result.prefill_from == "ttft"
    assert result.costs.overhead_us == pytest.approx(4_000, abs=300) and result.asynchronous is None


@pytest.mark.parametrize("name", ["closed_04", "closed_16", "open_060"])
def test_the_cpu_server_is_synchronous(name):
    rough = Costs(120, 6_000, 700)
    assert overhead_of(load_benches(MEASURED / f"{name}.json.gz"), rough, 2048).asynchronous is False


# --- public files ---------------------------------------------------------------------------------


def constants(*paths, out):
    """prefill, step, per sequence, overhead that calibrate finds, and what it says."""
    done = script("calibrate", *(PUBLIC / path for path in paths), "--out", out)
    assert done.returncode == 0, done.stderr
    pairs = read_pairs(out / "costs.txt")
    keys = ("prefill_ms_per_token", "step_ms", "step_ms_per_sequence", "overhead_ms")
    return [round(float(pairs[key]), 4) for key in keys], " ".join(done.stdout.split())


def test_more_clients_than_run(tmp_path):
    paths = [f"clients_over_max_num_seqs/c{clients}.json" for clients in ("01", "32")]
    numbers, said = constants(*paths, out=tmp_path)
    assert numbers == [0.1, 10, 0.5, 5]
    assert "c32: 60 of 60 requests waited at the server, and never more than 4 sequences ran together" in said
    numbers, said = constants(paths[1], out=tmp_path)
    assert numbers == [0.1, 10, 0.5, 0] and "Missing: the overhead" in said
    assert "waited" not in constants(paths[0], out=tmp_path)[1]


def test_a_role_chunk(tmp_path):
    numbers, said = constants("chat_role_chunk/r.json", out=tmp_path)
    assert numbers[1] == 10.5 and "several at a time" not in said


def test_no_start_times(tmp_path):
    numbers, said = constants("no_start_times/result.json", out=tmp_path)
    assert numbers == [0.1, 10.5, 0, 5] and "has no start times. Its gaps tell a typical step" in said


def test_one_length_a_run(tmp_path):
    paths = [f"one_length_a_run/i{length}.json" for length in (157, 541, 2077)]
    numbers, said = constants(*paths, out=tmp_path)
    assert numbers == [0.1, 10.5, 0, 5] and "another prompt length" not in said
    numbers, said = constants(paths[0], out=tmp_path)
    assert numbers == [round(20.7 / 157, 4), 10.5, 0, 0], "all of it prefill: a plan on the safe side"
    assert "Missing: a run of one client with another prompt length" in said


def test_a_cap_that_was_never_reached(tmp_path):
    numbers, said = constants("self_timed_cap/run.json", out=tmp_path)
    assert numbers == [0.1, 10, 0.5, 5] and "Scheduler: synchronous" in said
    assert read_pairs(tmp_path / "costs.txt")["scheduling"] == "synchronous"


@pytest.mark.parametrize("name", ["append.json", "sglang.jsonl"])
def test_several_results_in_a_file(tmp_path, name):
    assert constants(f"several_results_in_one_file/{name}", out=tmp_path)[0] == [0.1, 10, 0.5, 5]


def test_requests_without_a_token(tmp_path):
    numbers, said = constants("eos_first/result.json", out=tmp_path)
    assert numbers == [0.1, 10.5, 0, 5] and "10 requests completed without a token" in said


def test_a_closed_loop(tmp_path):
    assert constants("closed_loop_as_trace/closed16.json", out=tmp_path)[0][:3] == [0.1, 10, 0.5]


# --- what it says ---------------------------------------------------------------------------------


def said_of(record, budget=None):
    """What calibrate says of a run, as one line of text."""
    benches = [read(record)]
    return in_words(benches, calibrated(benches, budget), budget)


def said_of_loop(clients, costs, told=None, **more):
    return in_words(*of_closed_loop(clients, costs, told=told, **more), told)


def in_words(benches, result, told):
    return " ".join(said(benches, result, Server(max_num_batched_tokens=told)))


def test_residuals_are_what_they_are():
    """Exact costs leave nothing. Every time up to 2 ms late leaves up to 2 ms of a step of 8.8, 23 %, on both sides."""
    exact = said_of_loop(16, PLAIN, asynchronous=False)
    assert "Residuals: median size 0.00 %, 5 to 95 %: -0.00 to +0.00 %" in exact.replace("+0.01", "+0.00")
    late = said_of_loop(16, PLAIN, jitter_us=2_000, asynchronous=True)
    size, low, high = map(float, re.search(r"median size ([\d.]+) %, 5 to 95 %: (\S+) to (\S+) %", late).groups())
    assert 0.5 < size < 6 and -23 < low < -6 and 6 < high < 23
    assert re.search(r"([\d,]+) steps told by 3,\d\d\d gaps between tokens, (\d+) of them with a prefill", late)


def test_steps_that_do_not_grow():
    text = said_of(bench(shipped(40), 8, Costs(50, 8_000, 0, 3_000)))
    assert "step_ms_per_sequence is 0: steps did not grow with the sequences, 8 at most" in text


def test_few_prefills_are_few():
    assert "Few steps had a prefill" in said_of(bench(shipped(20), 4, PLAIN))
    assert "Few steps had a prefill" not in said_of(bench(shipped(60), 4, PLAIN))
    longest = "no prompt has more than 299: a plan for longer ones is too hopeful"
    said = [said_of(bench(Requests([100, tokens] * 10, [20] * 20), 4, PLAIN)) for tokens in (299, 300)]
    assert longest in said[0] and "too hopeful" not in said[1]


def test_a_short_cache_is_said():
    """399 blocks of 16, 6,384 tokens. The most that was held while requests were preempted is near that."""
    text = said_of(bench(shipped(), 16, PLAIN, kv_blocks=400))
    found = re.search(r"run: \d+ times a request got nothing .* Give --kv-tokens.* up to ([\d,]+) tokens", text)
    assert 0.95 < int(found[1].replace(",", "")) / 6_400 <= 1
    assert "KV cache was short" not in said_of_loop(16, PLAIN, asynchronous=False)


def test_a_small_budget_is_said():
    assert "The token budget is told by the fit: 512" in said_of_loop(16, PLAIN, max_num_batched_tokens=512)
    assert "chunks" not in said_of_loop(16, PLAIN, told=512, max_num_batched_tokens=512)
    assert "taken by default: max_num_batched_tokens 2,048, max_num_seqs 256" in said_of_loop(16, PLAIN)


def test_no_way_to_tell_a_prefill(tmp_path):
    """Open loop without start times and duration says nothing; beside a run of one token a request, too little."""
    record = bench(shipped(30), 8, PLAIN)
    del record["start_times"]
    text = said_of(record)
    assert "Missing: nothing tells prefill_ms_per_token well." in text and "roughly: without start times" in text
    del record["duration"]
    done = script("calibrate", write(tmp_path / "run.json", record), "--out", tmp_path / "out")
    assert done.returncode == 2 and "nothing says how long a step takes" in done.stderr


def test_failed_requests_are_left_out_and_said():
    record = bench(shipped(30), 1, PLAIN)
    whole = found(record).costs
    record["output_lens"][3], record["ttfts"][3], record["itls"][3], record["errors"][3] = 0, 0.0, [], "refused"
    assert "run: 1 failed request left out: the load that they made is not known." in said_of(record)
    assert found(record).costs[:6] == pytest.approx(whole[:6], rel=0.01, abs=1)


def test_a_hundred_thousand_gaps_are_enough(monkeypatch):
    record = bench(shipped(40), 8, PLAIN)
    monkeypatch.setattr("calibration.gaps.MOST_GAPS", sum(map(len, record["itls"])) // 3)
    thinned = found(record)
    assert len(thinned.samples) < len(found(record).samples) * 3
    near(thinned.costs, PLAIN, rel=0.02)


# --- bad files ------------------------------------------------------------------------------------


def changed(**fields):
    record = copy.deepcopy(bench(Requests([5, 7], [3, 3]), 1, PLAIN))
    record.update(fields)
    return {key: value for key, value in record.items() if value != "gone"}


@pytest.mark.parametrize(
    "record, says",
    [
        ([{"prompt_tokens": 5, "output_tokens": 7}], "it holds no times of tokens"),
        (changed(itls="gone"), "or --save-detailed (vLLM)"),
        (changed(itls=[[8.0, 8.0], [8.0, 8.0]]), "are its times in milliseconds?"),
        (changed(itls=[[0.0, 0.0], [0.0, 0.0]]), "no step can be told"),
        (changed(itls=[[], []], output_lens=[1, 1]), "nothing says how long a step takes"),
    ],
)
def test_a_bad_benchmark_is_refused(tmp_path, record, says):
    done = script("calibrate", write(tmp_path / "bench.json", record), "--out", tmp_path / "out")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and says in done.stderr
    assert not (tmp_path / "out").exists()


# --- the --costs file -----------------------------------------------------------------------------

GOOD = "prefill_ms_per_token=0.05 step_ms=8.0 step_ms_per_sequence=0 overhead_ms=0\n"


def test_what_is_written_is_read(tmp_path):
    record = bench(shipped(share=3), 16, BENT, asynchronous=True)
    assert script("calibrate", write(tmp_path / "run.json", record), "--out", tmp_path, "--max-num-seqs", 32,
                  "--max-num-batched-tokens", 2048, "--kv-tokens", 8000).returncode == 0
    path = tmp_path / "costs.txt"
    server = load_server(path)
    near(server.costs, BENT)
    assert server.costs.step_points[0][0] == 1 and path.read_text().count("\n") == 1
    assert server == Server(server.costs, True, 32, 2048, 8000, 16, 1963)


@pytest.mark.parametrize("costs", [
    Costs(5.123456, 8_000.25, 0.456789, 4_321.5), ROOFLINE, BENT, Costs(0, 1, 0, 0),
    Costs(0.001, 1e9, 1e-6, 1e9, 1e-7, 3.5),
])
@pytest.mark.parametrize("server", [Server(), Server(Costs(), True), Server(Costs(), False, 32),
                                    Server(Costs(), True, 1, 2048, 8000), Server(trusted="no", why="drift,lumps", assumed="max_num_seqs:256")])
def test_six_digits_survive(costs, server):
    same = parsed("costs.txt", costs_line(server._replace(costs=costs)))
    again = same.costs
    assert same._replace(costs=Costs()) == server and again[:6] == pytest.approx(costs[:6], rel=1e-5)
    assert again.step_points == costs.step_points


def test_four_keys_mean_what_they_meant():
    text = "prefill_ms_per_token=0.144 step_ms=9.907 step_ms_per_sequence=0.493 overhead_ms=4.933"
    assert parsed("costs.txt", text) == Server(Costs(144, 9_907, 493, 4_933))
    assert parsed("costs.txt", GOOD) == Server()
    assert costs_line(Server()) == GOOD.replace("8.0", "8")


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "prefill_ms_per_token, step_ms, step_ms_per_sequence, overhead_ms is missing"),
        (GOOD.replace("step_ms=8.0 ", ""), "step_ms is missing"),
        (GOOD + "step_ms=3", "step_ms: found twice"),
        (GOOD + "speed=3", "found speed=3"),
        (GOOD.replace("8.0", "fast"), "step_ms: expected a number"),
        (GOOD.replace("8.0", "nan"), "step_ms: expected a number, 0 to"),
        (GOOD.replace("8.0", "inf"), "step_ms: expected a number, 0 to"),
        (GOOD.replace("8.0", "-8"), "step_ms: expected a number, 0 to"),
        (GOOD.replace("8.0", "0.0001"), "step_ms: expected at least 0.001"),
        (GOOD + "scheduling=fast", "scheduling: expected synchronous or asynchronous, found fast"),
        (GOOD + "max_num_seqs=0", "max_num_seqs: expected a whole number, 1 to"),
        (GOOD + "trusted=yes", "trusted: expected no, found yes"),
        (GOOD + "why=", "why: expected words, found"),
        (GOOD + "kv_tokens=8e3", "kv_tokens: expected a whole number, 1 to"),
        (GOOD + "step_ms_at=1:8", "step_ms_at: expected two or more sequences:ms"),
        (GOOD + "step_ms_at=8:8,1:9", "step_ms_at: expected two or more sequences:ms, in order"),
        (GOOD + "step_ms_at=1:8,4:0", "each at least 0.001"),
        (GOOD + "step_ms_at=1,4", "step_ms_at: expected a number"),
        (GOOD + "step_ms_at=1.5:3,4:9", "step_ms_at: expected a whole number"),
    ],
)
def test_a_bad_costs_file_is_one_line(text, says):
    with pytest.raises(BadInput) as error:
        parsed("costs.txt", text)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_gaps_that_grow_with_the_cache_alone_tell_no_step():
    """One client; a gap takes 10 us a cached token, and less than nothing besides: a step of 0 would be no server."""
    prompts = range(50, 3050, 100)
    itls = [[1e-5 * (prompt + token - 9) for token in range(2, 21)] for prompt in prompts]
    starts = [sum(0.05 + sum(gaps) for gaps in itls[:i]) for i in range(len(itls))]
    run = {"input_lens": [*prompts], "output_lens": [20] * 30, "ttfts": [0.05] * 30, "itls": itls,
           "start_times": starts,
           "max_concurrency": 1}
    with pytest.raises(BadInput, match="^the gaps between tokens do not tell how long a step takes$"):
        found(run)
