"""What each step writes: on the shipped requests, on a list of one, in its exact form; and the measures behind it."""

import json
import random
import statistics
from itertools import accumulate

from common import Requests, percentile
import continuous
import maxseqs
import oracle
import paged_preemption
import pictures
import pytest
import queueing
import static
import tune
from files.costs import Costs
from fixture import RESULTS, STEPS, files, read_rows, script, shipped, started, words
from paging.clock import percentile_of_counts


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    for step in STEPS:
        done = script(step, "--out", out)
        assert (done.returncode, done.stderr) == (0, "")
    return out


def test_every_step_writes_its_own_files_and_no_other(results):
    assert sorted(files(results)) == sorted(RESULTS)


@pytest.mark.parametrize(
    "name, text",
    [  # steps, share and concurrency computed independently of this code; the rest follows from them and the oracle
        ("static.txt", "total_steps=5036 throughput_tps=480.05 slot_util=0.2502\n"),
        ("continuous.txt", "total_steps=1833 throughput_tps=1231.32 slot_util=0.6874\n"),
        ("compare.txt", "static_tps=480.05 continuous_tps=1231.32 speedup=2.565\n"),
        ("maxseqs.txt", "max_num_seqs=32 peak_running=32\n"),
        ("cost.txt", "total_prefill_ms=1709.55 total_decode_ms=161288.00 decode_share=0.9895\n"),
        ("tune.txt", "target_ttft_ms=200 max_concurrency=14 throughput_at_target=1137.40\n"),
    ],
)
def test_the_files_of_the_shipped_requests(results, name, text):
    assert (results / name).read_bytes() == text.encode()


def test_the_queue_of_the_shipped_requests_against_the_oracle(results):
    """Each row recomputed with the step-by-step scheduler, numpy's percentile formula and an area of the queue."""
    requests = shipped()
    rows = read_rows(results / "queue.csv")
    assert [row["rps"] for row in rows] == ["5", "10", "20", "40"]
    for row in rows[::3]:
        waits, span = [], 0
        for seed in range(20):
            r = random.Random(seed)
            seconds = [total / float(row["rps"]) for total in accumulate(r.expovariate(1.0) for _ in range(100))]
            arrivals = [round(1e6 * second) for second in seconds]
            played = oracle.play(requests, 32, arrivals, "iteration")
            waits += [start - arrival for start, arrival in zip(played.admitted_us, arrivals)]
            span += max(played.finished_us)
        waits.sort()
        rank = 0.99 * (len(waits) - 1)
        p99 = waits[int(rank)] + (rank - int(rank)) * (waits[int(rank) + 1] - waits[int(rank)])
        assert row["avg_queue"] == f"{sum(waits) / span:.3f}"
        assert float(row["p99_wait_ms"]) == pytest.approx(p99 / 1000, abs=0.00051)
    p99s = [float(row["p99_wait_ms"]) for row in rows]
    assert p99s == sorted(set(p99s)), "p99_wait_ms is strictly increasing with rps"


def test_the_tune_curve_against_the_oracle(results):
    requests = shipped()
    rows = read_rows(results / "tune.csv")
    assert [row["concurrency"] for row in rows] == [str(n) for n in range(1, 101)]
    for n in (1, 2, 14, 15, 33, 99, 100):
        played = oracle.play(requests, n, [0] * 100, "iteration")
        ttfts = [first - admitted for first, admitted in zip(played.first_token_us, played.admitted_us)]
        tps = sum(requests.output_tokens) / (max(played.finished_us) / 1e6)
        p99 = statistics.quantiles(ttfts, n=100, method="inclusive")[98]
        expected = f"{n},{sum(ttfts) / 100_000:.2f},{p99 / 1000:.2f},{tps:.2f}"
        assert ",".join(rows[n - 1].values()) == expected
    p99s = [float(row["p99_ttft_ms"]) for row in rows]
    assert max(p99s[:14]) <= 200 < p99s[14]


def test_two_clients_worked_by_hand():
    """Three requests, prompts 100, 200, 100, outputs 1, 3, 2, and two clients: the first iteration prefills two prompts
    (15 ms + 8), the third request's own 5 ms + 8: TTFT 23, 23, 13 ms. One client: 13, 18, 13. Three: 28, 28, 28."""
    requests = Requests([100, 200, 100], [1, 3, 2])
    two = tune.measure(requests, 2)
    assert two.mean_ttft_ms == pytest.approx(59 / 3)
    assert two.p99_ttft_ms == 23
    assert tune.measure(requests, 1).p99_ttft_ms == pytest.approx(13 + 0.98 * 5)
    assert tune.measure(requests, 3).p99_ttft_ms == 28


def test_what_throughput_alone_would_choose():
    """48 to 100 clients of the shipped requests have the same tokens/s; the p99 more than doubles over them."""
    points = [tune.measure(shipped(), n) for n in range(1, 101)]
    assert tune.throughput_words(points, 200) == (
        " Throughput alone would pick 48 to 100 clients: 2076.41 tokens/s, at a p99 TTFT of 771.45 to 1717.55 ms."
    )
    assert tune.throughput_words(points[:50], 803.96) == ""
    made_up = [tune.Point(n, ms, ms, tps) for n, ms, tps in ((1, 5, 10), (2, 7, 30), (3, 9, 20))]
    assert tune.throughput_words(made_up, 6) == (
        " Throughput alone would pick 2 clients: 30.00 tokens/s, at a p99 TTFT of 7.00 ms."
    )
    assert tune.throughput_words(made_up, 7) == "", "meeting the target exactly is meeting it"


def test_the_target_is_written_as_it_was_given(tmp_path):
    for given, written in (("200", "200"), ("200.0", "200"), ("99.5", "99.5"), ("1000000000", "1000000000")):
        assert script("tune", "--out", tmp_path, "--up-to", 1, "--target-ttft-ms", given).returncode == 0
        assert (tmp_path / "tune.txt").read_text().startswith(f"target_ttft_ms={written} ")


def test_the_cache_of_step_5_is_the_third_labs():
    """(100, 61) keeps 160 tokens in 10 blocks and (1, 17) 17 in 2: 599 blocks hold 599 / 6 = 99 of an average request."""
    assert (maxseqs.KV_BLOCKS, maxseqs.BLOCK_TOKENS) == (paged_preemption.KV_BLOCKS, paged_preemption.BLOCK_SIZE)
    assert maxseqs.requests_that_fit(Requests([100, 1], [61, 17])) == 599 * 2 // 12 == 99
    assert maxseqs.requests_that_fit(Requests([100], [60])) == 59 and maxseqs.requests_that_fit(Requests([9999], [1])) == 0


def test_capacity_worked_by_hand():
    """Prompts of 20 and 60 tokens (2 ms on average), outputs of 4 and 8 (6 passes of 8 ms, shared by 2): 26 ms each."""
    assert queueing.capacity_rps(Requests([20, 60], [4, 8]), 2, Costs()) == pytest.approx(1000 / 26)
    slower = Costs(step_us_per_sequence=1000)
    assert queueing.capacity_rps(Requests([100], [10]), 2, slower) == pytest.approx(1000 / 55), "10 passes of 10 ms for 2"


def test_capacity_is_what_a_long_list_approaches():
    """The shipped list 200 times over, all there at once, by the scheduler itself."""
    prompts, outputs = shipped()
    span_us = max(continuous.schedule(Requests(prompts * 200, outputs * 200), 32).finished_us)
    assert queueing.capacity_rps(shipped(), 32, Costs()) == pytest.approx(20_000e6 / span_us, rel=0.005)


def test_below_capacity_it_is_the_iteration_that_a_request_waits_for(results, tmp_path):
    """On the shipped list twice the slots change nothing at 10 requests/s; two requests at a time in one slot, much."""
    assert "for the end of the iteration under way" in words(script("queueing", "--out", results).stdout)
    said = words(script("queueing", "--out", tmp_path, "--max-num-seqs", 1, "--rps", 0.3).stdout)
    assert "slots are short at times" in said
    alone = words(script("queueing", "--out", tmp_path, "--max-num-seqs", 100).stdout)
    assert "There are no more requests (100) than slots (100), so nobody waits for a slot at any rate." in alone
    assert "Capacity" in script("queueing", "--out", tmp_path, "--max-num-seqs", 99).stdout


THREE = [{"prompt_tokens": 20, "output_tokens": 1}, {"prompt_tokens": 40, "output_tokens": 3},
         {"prompt_tokens": 60, "output_tokens": 2}]
OF_THREE = [  # a command, what it writes, and a part of what it says
    # 3 + 3 x 8 ms for the first two, 3 + 2 x 8 for the third: 46 ms
    ("static --batch-size 2", "total_steps=5 throughput_tps=130.43 slot_util=0.6000", "0 2 1 3 0.6667 1 1 2 2 0.5000"),
    # tokens at 11, 22 and 30 ms
    ("continuous --max-num-seqs 2", "total_steps=3 throughput_tps=200.00 slot_util=1.0000", "0% of the slots"),
    ("compare --batch-size 2", "static_tps=130.43 continuous_tps=200.00 speedup=1.533", "became 3, 1.667 times fewer"),
    # 2 + 3 + 4 blocks; with one slot 9 + 26 + 19 ms for 6 tokens, 111.11 a second
    ("maxseqs --max-num-seqs 2", "max_num_seqs=2 peak_running=2", "111.11 tokens/s, so 2 slots give 1.80 times"),
    # 24 of 30 ms
    ("cost", "total_prefill_ms=6.00 total_decode_ms=48.00 decode_share=0.8889", "there decode is 0.8000 of it"),
    # 9, 10 and 11 ms one by one; 11, 11 and 11 ms by two; 14 ms all at once
    ("tune --target-ttft-ms 11", "target_ttft_ms=11 max_concurrency=2 throughput_at_target=200.00",
     "pick 2 to 3 clients: 200.00 tokens/s, at a p99 TTFT of 11.00 to 14.00 ms. "),
    ("tune --target-ttft-ms 11", "target_ttft_ms=11 max_concurrency=2 throughput_at_target=200.00", "give 1 to 2, median 1."),
    ("tune --target-ttft-ms 10.5", "target_ttft_ms=10.5 max_concurrency=0 throughput_at_target=0.00",
     "Infeasible: one request at a time already has a p99 TTFT of 10.98 ms."),
    ("tune --target-ttft-ms 14", "target_ttft_ms=14 max_concurrency=3 throughput_at_target=200.00",
     "No upper edge found up to 3: every concurrency tried meets 14.00 ms."),
]


@pytest.mark.parametrize("command, line, says", OF_THREE)
def test_three_requests_by_hand(tmp_path, command, line, says):
    """Of 20, 40 and 60 prompt tokens (1, 2 and 3 ms) and 1, 3 and 2 output tokens."""
    path = tmp_path / "three.json"
    path.write_text(json.dumps(THREE))
    step, *options = command.split()
    said = words(script(step, "--requests", path, "--out", tmp_path, *options).stdout)
    assert f"{step}.txt: {line} " in said and says in said
    assert (tmp_path / f"{step}.txt").read_text() == f"{line}\n"


@pytest.mark.parametrize("n, last", [
    (1, "    0         1         7                            7     0.5000"),
    (16, "    7         2         7                            7     1.0000"),
    (17, "  ... and 1 more batch"), (18, "  ... and 1 more batch"), (19, "  ... and 2 more batches"),
])
def test_eight_batches_are_shown(capsys, n, last):
    static.print_batches([7] * n, 2)
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_the_pictures_target_and_curve_are_those_of_step_8(tmp_path):
    assert (pictures.TARGET_MS, pictures.UP_TO) == (200, 256)
    said = words(started("tune", "--help").stdout)
    assert "p99 time to first token allowed, in ms (default: 200)" in said
    assert "largest concurrency tried (default: 256, or the number of requests if smaller)" in said


def test_the_scan_stops_at_the_first_miss():
    points = [tune.Point(n, ms, ms, 0.0) for n, ms in enumerate([10, 20, 30, 15, 10], start=1)]
    assert tune.largest_within(points, 20, tune.p99).concurrency == 2, "4 and 5 meet it, but 3 does not"
    assert tune.largest_within(points, 30, tune.p99).concurrency == 5
    assert tune.largest_within(points, 9.9, tune.p99) is None
    assert tune.largest_within(points, 10, tune.p99).concurrency == 1, "meeting the target exactly is meeting it"


@pytest.mark.parametrize("target_ms, answer", [(12, 0), (13, 1), (26, 2)])
def test_the_answer_in_a_random_order(target_ms, answer):
    """Alone 5 + 8 ms to the first token; of two at once at most twice as long."""
    requests = Requests([100] * 3, [5] * 3)
    assert tune.answer_in_random_order(requests, 1, 2, target_ms, Costs()) == answer


def test_a_mean_above_the_p99_is_said_plainly(tmp_path):
    """Of 201 requests one has a prompt of 20,000,000 tokens: at N = 1 the p99 is 8.05 ms and the mean 4983; at N = 3
    two others are admitted with it, and the p99 misses too."""
    records = [{"prompt_tokens": 1, "output_tokens": 1}] * 200 + [{"prompt_tokens": 20_000_000, "output_tokens": 1}]
    path = tmp_path / "requests.json"
    path.write_text(json.dumps(records))
    done = script("tune", "--out", tmp_path, "--requests", path, "--up-to", 5)
    assert done.returncode == 0 and "mean TTFT of one at a time misses it already" in words(done.stdout)


def test_the_costs_of_the_lab():
    costs = Costs()
    assert (costs.prefill_us(1), costs.prefill_us(200)) == (50, 10_000)
    assert costs.decode_us(1) == costs.decode_us(256) == 8_000 and costs.context_us(10**6) == costs.overhead_us == 0


def test_percentile_is_numpys():
    """Hand-known: of 0..100 the p99 is 99; of 0, 10 it is 9.9; of one number, that number, whatever it is."""
    assert percentile(range(101), 99) == 99
    assert percentile([0, 10], 99) == pytest.approx(9.9)
    assert percentile([3, 1, 2], 50) == 2
    assert percentile([7], 99) == percentile([7], 50) == 7


def test_percentile_of_counts_is_percentile():
    """Of one 0, one 10: 9.9. And the same as of the list, for random counts; nothing of none."""
    assert percentile_of_counts({0: 1, 10: 1}, 99) == 9.9 and percentile_of_counts({7: 10**12}, 99) == 7
    assert percentile_of_counts({}, 99) is None
    r = random.Random(1)
    for _ in range(300):
        counts = {r.randint(0, 50): r.randint(1, r.choice((2, 300))) for _ in range(r.randint(1, 9))}
        listed = [value for value, times in counts.items() for _ in range(times)]
        for percent in (1, 5, 50, 95, 99):
            assert percentile_of_counts(counts, percent) == pytest.approx(percentile(listed, percent), rel=1e-12)


def test_queue_worked_by_hand():
    """Three requests of 1 + 8 ms at 0, 1 and 1 ms (10 a second of 0, 0.01, 0.01) in one slot: waits 0, 8 and 17 ms,
    the last finish at 27 ms: 25 / 27 of a request waits on average; p99 = 17 - 0.02 x 9."""
    requests = Requests([20, 20, 20], [1, 1, 1])
    avg_queue, p99_wait_ms = queueing.queue_at(requests, [[0, 0.01, 0.01]], 10, 1)
    assert avg_queue == pytest.approx(25 / 27)
    assert p99_wait_ms == pytest.approx(17 - 0.02 * 9)


def test_a_list_of_one_request_works_everywhere(tmp_path):
    """Prompt 100, output 5: 5 + 5 x 8 = 45 ms, 5 tokens in 16 x 5 slots; it never waits."""
    path = tmp_path / "requests.json"
    path.write_text('[{"prompt_tokens": 100, "output_tokens": 5}]')
    out = tmp_path / "out"
    for step in STEPS:
        assert script(step, "--requests", path, "--out", out).returncode == 0
    assert {name: text.decode() for name, text in files(out).items()} == {
        "static.txt": "total_steps=5 throughput_tps=111.11 slot_util=0.0625\n",
        "continuous.txt": "total_steps=5 throughput_tps=111.11 slot_util=0.0625\n",
        "compare.txt": "static_tps=111.11 continuous_tps=111.11 speedup=1.000\n",
        "maxseqs.txt": "max_num_seqs=32 peak_running=1\n",
        "queue.csv": "rps,avg_queue,p99_wait_ms\n5,0.000,0.000\n10,0.000,0.000\n20,0.000,0.000\n40,0.000,0.000\n",
        "cost.txt": "total_prefill_ms=5.00 total_decode_ms=40.00 decode_share=0.8889\n",
        "tune.txt": "target_ttft_ms=200 max_concurrency=1 throughput_at_target=111.11\n",
        "tune.csv": "concurrency,mean_ttft_ms,p99_ttft_ms,throughput_tps\n1,13.00,13.00,111.11\n",
    }


def test_alone_a_pass_has_one_sequence(tmp_path):
    """5 ms of prefill, and 5 passes of 8 + 1 x 1 ms."""
    (tmp_path / "requests.json").write_text('[{"prompt_tokens": 100, "output_tokens": 5}]')
    (tmp_path / "costs").write_text("prefill_ms_per_token=0.05 step_ms=8 step_ms_per_sequence=1 overhead_ms=0")
    done = script("cost", "--requests", tmp_path / "requests.json", "--costs", tmp_path / "costs", "--out", tmp_path)
    assert done.stdout.splitlines()[1] == "cost.txt: total_prefill_ms=5.00 total_decode_ms=45.00 decode_share=0.9000"


def test_the_curve_goes_to_256_unless_told(tmp_path):
    path = tmp_path / "requests.json"
    path.write_text(json.dumps([{"prompt_tokens": 1, "output_tokens": 1}] * 258))
    assert script("tune", "--requests", path, "--out", tmp_path).returncode == 0
    assert (tmp_path / "tune.csv").read_text().count("\n") == 257


def test_a_long_list_is_not_shuffled(tmp_path):
    """With more than 100 requests for each client of the largest first burst, that burst is less than 1 % of the list."""
    path = tmp_path / "requests.json"
    for n, says in ((301, "The order of the list was not varied"), (300, "20 random orders of the same")):
        path.write_text(json.dumps([{"prompt_tokens": 1, "output_tokens": 1}] * n))
        assert says in words(script("tune", "--requests", path, "--out", tmp_path, "--up-to", 3).stdout)


def test_two_runs_are_byte_identical(results, tmp_path):
    """In a fork and with an interpreter of its own, whose sets come in another order."""
    for step in STEPS:
        started(step, "--out", tmp_path)
    assert files(tmp_path) == files(results)
    assert not any(b"\r" in text for text in files(tmp_path).values())
