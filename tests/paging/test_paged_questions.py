"""The three questions' files, recomputed by the other scheduler (lesson or twin) or in closed form."""

import json
import random
import statistics
from itertools import product

from common import Requests
import orca_reservation
import paged_chunked
import paged_prefix
import pytest
from files.costs import Costs
from fixture import read_rows, script, shipped, words
from paging import fast as paged_fast
from paging import clock as paged_time
from paging.scheduler import Chunk
from queueing import at_rate, unit_arrivals
from roofline import model as orca_model
from roofline import workload as orca_workload

QUESTIONS = ["preemption", "prefix", "chunked"]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paged")
    for question in QUESTIONS:
        done = script(f"paged_{question}", "--out", folder)
        assert (done.returncode, done.stderr) == (0, "")
        (folder / f"{question}.said").write_text(done.stdout)
    return folder


def test_preemption_against_the_twin_and_in_closed_form(out):
    """Recomputing: the fast twin, which shares no scheduler with the script, gives the same. Swapping, all at time 0: nothing is
    computed twice, so the run lasts 8 ms a step, 0.05 ms a prompt token, and 32.768 us for each token that is moved, twice
    (819,200 B at 25 GB/s; each move is rounded to whole us, which the tolerance covers)."""
    requests = shipped()
    table = read_rows(out / "paged_preemption.csv")
    assert list(table[0]) == "reserve_full_prompt resume max_num_seqs preemptions resumed_tokens throughput_tps".split()
    policies = product(("true", "false"), ("recompute", "swap"), ("8", "16", "32"))
    assert [tuple(row.values())[:3] for row in table] == list(policies)
    for row in table:
        reserve, limit = row["reserve_full_prompt"] == "true", int(row["max_num_seqs"])
        if row["resume"] == "recompute":
            played = paged_fast.schedule(requests, limit, kv_blocks=599, max_num_batched_tokens=256,
                                         reserve_full_prompt=reserve)
            tps = sum(requests.output_tokens) / (max(played.finished_us) / 1e6)
            assert list(row.values())[3:] == [str(played.preemptions), str(played.resumed_tokens), f"{tps:.2f}"]
        else:
            log = []
            swapped = paged_time.schedule(requests, limit, kv_blocks=599, max_num_batched_tokens=256, reserve_full_prompt=reserve,
                                     swap_us=lambda tokens: round(tokens * 32.768), log=log)
            most = [prompt + output - 1 for prompt, output in zip(*requests)]
            assert sum(tokens for line in log for _, tokens in line.scheduled) == sum(most)
            assert [row["preemptions"], row["resumed_tokens"]] == [str(swapped.preemptions), str(swapped.resumed_tokens)]
            seconds = 0.008 * len(log) + 50e-6 * sum(requests.prompt_tokens) + 2 * 32.768e-6 * swapped.resumed_tokens
            assert float(row["throughput_tps"]) == pytest.approx(sum(requests.output_tokens) / seconds, rel=1e-4)


def test_prefix_in_closed_form(out):
    """Every request but the first finds the whole system prompt, a multiple of 16, in the cache: TTFT is 0.05 ms for each
    token that is left, and 8 ms."""
    prompts = shipped().prompt_tokens
    table = read_rows(out / "paged_prefix.csv")
    assert [row["system_tokens"] for row in table] == ["0", "256", "512", "1024", "2048", "4096"]

    def medians(system):
        off = statistics.median(0.05 * (system + tokens) + 8 for tokens in prompts)
        on = statistics.median([0.05 * (system + prompts[0]) + 8, *(0.05 * tokens + 8 for tokens in prompts[1:])])
        return off, on

    for row in table:
        off, on = medians(int(row["system_tokens"]))
        assert float(row["ttft_off_p50_ms"]) == pytest.approx(off, abs=0.0051)
        assert float(row["ttft_on_p50_ms"]) == pytest.approx(on, abs=0.0051)
        assert float(row["ratio"]) == pytest.approx(off / on, abs=0.00051)
    shortest = next(s for s in range(16, 10_000, 16) if medians(s)[0] > 8 * medians(s)[1])
    assert f"more than 8 times shorter has {shortest} tokens" in words((out / "prefix.said").read_text())


def test_long_lists_need_fewer_draws():
    counts = [paged_chunked.draws_for(n) for n in (1, 100, 1_000, 1_001, 10_000, 20_000, 20_001, 10**6)]
    assert counts == [20, 20, 20, 19, 2, 1, 1, 1]


def test_the_search_finds_what_trying_every_length_finds():
    """For lists of 1 to 9 random prompts; of one or two no length is enough, since the first request finds nothing."""
    r = random.Random(3)
    for n in (1, 2, 3, 3, 4, 5, 9):
        requests = Requests([r.randint(1, 60) for _ in range(n)], [1] * n)
        lengths = range(16, paged_prefix.LONGEST + 1, 16)
        tried = (tokens for tokens in lengths if paged_prefix.is_shorter(requests, tokens, 8, Costs()))
        assert paged_prefix.shortest_beyond(requests, 8) == next(tried, None)


def test_chunked_against_the_lesson(out):
    requests = shipped()
    table = read_rows(out / "paged_chunked.csv")
    assert [row["max_num_batched_tokens"] for row in table] == ["64", "128", "256", "512", "1024", "2048", "unlimited"]
    ttfts, gaps, span = [], [], 0
    for seed in range(20):
        arrivals = at_rate(unit_arrivals(seed, 100), 10)
        played = paged_time.schedule(requests, 32, arrivals, max_num_batched_tokens=128)
        ttfts += [first - arrival for first, arrival in zip(played.first_token_us, arrivals)]
        gaps += [gap for gap, times in played.gaps_us.items() for _ in range(times)]
        span += max(played.finished_us)
    p99s = [statistics.quantiles(values, n=100, method="inclusive")[98] / 1000 for values in (ttfts, gaps)]
    expected = [f"{p99s[0]:.2f}", f"{p99s[1]:.2f}", f"{20 * sum(requests.output_tokens) / span * 1e6:.2f}"]
    assert list(table[1].values())[1:] == expected


def lines_of(name, folder, requests, prefill_ms, overhead_ms, *options):
    """What a script prints, line by line, for a few requests at these costs; its csv file lies in the folder."""
    records = [{"prompt_tokens": prompt, "output_tokens": output} for prompt, output in requests]
    (folder / "requests.json").write_text(json.dumps(records))
    costs = f"prefill_ms_per_token={prefill_ms} step_ms=8 step_ms_per_sequence=0 overhead_ms={overhead_ms}"
    (folder / "costs.txt").write_text(costs)
    given = "--out", folder, "--requests", folder / "requests.json", "--costs", folder / "costs.txt"
    return script(name, *given, *options).stdout.splitlines()


def test_the_costs_of_preemption_are_those_given(tmp_path):
    """All at time 0 and no clients: 20 + 8 ms for one token. A step that swaps lasts as long."""
    said = lines_of("paged_preemption", tmp_path, [(40, 1)], 0.5, 0)
    assert [line.split()[-1] for line in said[2:-1]] == ["35.71"] * 12
    assert said[-1] == "Notice: nothing was preempted: the cache has room for all that may run together."


def test_prefixes_by_hand(tmp_path):
    """Prompts of 40, 160 and 240 tokens, 2 ms before the scheduler. Without a system prompt their TTFTs are 12, 18 and
    22 ms; with one of s tokens that is not cached, 0.05 s more. Cached, the first is the slowest, so the median is 22.
    18 + 0.05 s > 8 x 22 from s > 3160 on: 3168."""
    asked = [(40, 9), (160, 9), (240, 9)]
    said = lines_of("paged_prefix", tmp_path, [*asked, (1, 1)], 0.05, 2, "--first", 3)
    rows = [[0, "18.00,18.00,1.000"], [256, "30.80,22.00,1.400"], [4096, "222.80,22.00,10.127"]]
    assert {f"{tokens},{row}" for tokens, row in rows} < set((tmp_path / "paged_prefix.csv").read_text().splitlines())
    assert "has 3168 tokens. All requests share it, their own prompts have 160 tokens (median)" in " ".join(said)
    said = lines_of("paged_prefix", tmp_path, asked[:1], 0.05, 2)
    assert " ".join(said).endswith("No system prompt of up to 8192 tokens makes the median TTFT more than 8 times shorter.")


def test_the_longest_system_prompt_that_is_tried_is_8192_tokens():
    """Prompts of 10: 8.5 ms cached, 418.1 ms behind 8192 tokens and 417.3 behind 8176: 49.19 and 49.09 times."""
    requests = Requests([10] * 3, [1] * 3)
    assert paged_prefix.shortest_beyond(requests, 49.1) == 8192
    assert paged_prefix.shortest_beyond(requests, 49.2) is None


def test_paging_solves_the_deadlock():
    """At 12 requests/s, where reserving nothing deadlocks, all 1000 finish, and nearly all that is reserved is used; at 4 and
    8, where memory suffices, the blocks change nothing but what is reserved."""
    workload = orca_workload.load_workload(orca_workload.RECORDED)
    for rate in (4, 8):
        none, paged = (orca_reservation.measure(mode, workload, rate) for mode in ("none", "paged"))
        assert paged.mean_used_tokens == pytest.approx(none.mean_used_tokens, rel=1e-9)
        assert (paged.throughput_rps, paged.p50_ms_per_token) == pytest.approx(
            (none.throughput_rps, none.p50_ms_per_token), rel=1e-9
        )
        assert paged.mean_used_tokens < paged.mean_reserved_tokens < paged.mean_used_tokens + 64 * 16
    none, paged = (orca_reservation.measure(mode, workload, 12) for mode in ("none", "paged"))
    assert none.finished < 1000 == paged.finished and paged.deadlock_s is None
    assert 0.95 < paged.mean_used_tokens / paged.mean_reserved_tokens < 1
    assert paged.mean_reserved_tokens <= 16 * (orca_model.CAPACITY_TOKENS // 16)


def test_memory_in_blocks_worked_by_hand(monkeypatch):
    """One request of 20 prompt and 3 output tokens: 20, 21 and 22 tokens written in three steps of equal time, 2 blocks held."""
    monkeypatch.setattr(orca_reservation, "step_us", lambda chunks, rows, cached: 7.0)
    _, reserved, used, deadlock_us = orca_reservation.in_blocks(Requests([20], [3]), [5.0])
    assert (reserved, used, deadlock_us) == (32, 21, None)


def test_what_chunked_says_of_its_table(capsys):
    def said(itls_us):
        ttfts_us = [90_000, 80_000, 70_000, 60_000, 50_000, 40_000, 50_000]
        budgets = paged_chunked.BUDGETS
        paged_chunked.print_notices({budget: (ttft, itl, 0) for budget, ttft, itl in zip(budgets, ttfts_us, itls_us)})
        return words(capsys.readouterr().out)

    lowest = " p99 TTFT is lowest at 2048, 40.00 ms."
    assert said([10_500] * 7) == "Notice: p99 ITL is 10.50 ms at every budget." + lowest
    rising = said([11_000, 11_000, 12_000, 13_000, 14_000, 15_000, 15_000])
    assert rising.endswith("The tail of ITL never falls as the budget grows." + lowest)
    assert said([12_000, 11_000, 12_000, 13_000, 19_000, 15_000, 15_000]) == (
        "Notice: p99 ITL is lowest at 128, 11.00 ms, where p99 TTFT is 80.00 ms; highest at 1024, 19.00 ms, with 50.00 ms "
        "of TTFT. A larger budget is not always a longer tail: p99 ITL falls on the way to 128, 2048." + lowest)


def test_a_chunk_behind_cached_tokens_on_the_roofline():
    """2 P n + 4 L h (n^2 / 2 + n c) FLOPs, reads c and writes n tokens: SPEC's words with its own figures."""
    for n, c in ((1, 5000), (512, 0), (512, 512), (2048, 9000)):
        flops = 2 * 12_840_227_840 * n + 4 * 40 * 5120 * (n * n / 2 + n * c)
        moved = 2 * 12_840_227_840 + 819_200 * (c + n)
        expected_us = 1e6 * (max(flops / (0.6 * 312e12), moved / (0.8 * 1555e9)) + 0.001)
        assert orca_reservation.step_us([Chunk(None, n, c, True, True)], 0, 0) == pytest.approx(expected_us, rel=1e-12)
