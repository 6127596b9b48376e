"""Results of benchmarks: each refusal from both sides, each oddity, and how a closed loop is told."""

import json

import pytest
from files.arrivals import closed_loop_clients, most_under_way
from common import BadInput
from files.benchmarks import bench_name, load_benches
from files.readers import latency_of

INF = float("inf")


def measured(**fields):
    """Two requests of 3 and 2 tokens, 10 ms a token after 50 ms and 60 ms, one after the other."""
    run = {"input_lens": [7, 9], "output_lens": [3, 2], "ttfts": [0.05, 0.06], "itls": [[0.01, 0.01], [0.01]],
           "start_times": [8.0, 8.07], "duration": 0.14, "max_concurrency": 1, "request_rate": "inf", "completed": 2}
    return {key: value for key, value in {**run, **fields}.items() if value != "gone"}


def benches(tmp_path, *records):
    path = tmp_path / "run.json"
    path.write_text("\n".join(record if isinstance(record, str) else json.dumps(record) for record in records))
    return load_benches(path)


def perf(start, prompt, output, times):
    """A request of inference-perf: it records the times at which tokens came."""
    response = {"output_tokens": output, "output_token_times": times}
    return {"start_time": start, "info": {"input_tokens": prompt, "response_metrics": response}}


def test_a_benchmark_worked_by_hand(tmp_path):
    bench, = benches(tmp_path, measured())
    assert bench.name == "run" and bench.prompt_tokens == [7, 9] and bench.output_tokens == [3, 2]
    assert bench.starts_s == pytest.approx([0, 0.07])
    assert bench.ttfts_s == [0.05, 0.06] and bench.itls_s == [[0.01, 0.01], [0.01]]
    assert (bench.duration_s, bench.clients, bench.closed, bench.max_concurrency, bench.failed) == (0.14, 1, True, 1, 0)
    assert bench.oddities == []
    swapped = measured(**{key: measured()[key][::-1] for key in ("input_lens", "output_lens", "ttfts", "itls",
                                                                 "start_times")})
    assert benches(tmp_path, swapped) == [bench], "in the order in which they were sent"
    old, = benches(tmp_path, measured(start_times="gone"))
    assert old.starts_s is None and old.closed and old.ttfts_s == bench.ttfts_s
    paced, = benches(tmp_path, measured(request_rate=3.5, duration="gone"))
    assert paced.clients == 1 and paced.closed and paced.duration_s == pytest.approx(0.14)
    ten = {key: 5 * measured()[key] for key in ("input_lens", "output_lens", "ttfts", "itls")}
    unsaid, = benches(tmp_path, measured(**ten, start_times=[0.07 * i for i in range(10)], completed=10,
                                         duration="gone", max_concurrency="gone", request_rate="gone"))
    assert unsaid.clients == 1, "as many as were under way"
    assert paced.oddities == ["The client asked for 3.5 requests/s, and its limit of 1 let fewer through: it was a "
                              "closed loop."]


def test_other_benchmarks(tmp_path):
    """aiperf's gaps are chunks in ms, inference-perf's are the moments of tokens."""
    records = [{"metadata": {"request_start_ns": start * 10**9},
                "metrics": {"input_sequence_length": {"value": 5}, "output_sequence_length": {"value": len(gaps) + 1},
                            "time_to_first_token": {"value": ttft}, "inter_chunk_latency": {"value": gaps or None}}}
               for start, ttft, gaps in ((1, 50.0, [10.0, 12.0]), (2, 40, []))]
    bench, = benches(tmp_path, *records)
    assert bench.starts_s == [0, 1] and bench.output_tokens == [3, 1]
    assert bench.ttfts_s == [0.05, 0.04] and bench.itls_s == [[0.01, 0.012], []]
    assert bench.duration_s == pytest.approx(1.04) and bench.clients is bench.max_concurrency is None
    bench, = benches(tmp_path, [perf(10.0, 5, 3, [10.25, 10.5, 11.0])])
    assert bench.ttfts_s == [0.25] and bench.itls_s == [[0.25, 0.5]]


@pytest.mark.parametrize("text, says", [
    (measured(ttfts="gone"), "no times of tokens in it (vLLM): run the benchmark with --streaming (aiperf) or"),
    (measured(itls="gone"), "no times of tokens in it (vLLM): run the benchmark with --streaming (aiperf) or"),
    (measured(ttfts=[0.1]), "must be lists of one length"),
    (measured(ttfts=[None, 0.1]), "expected a TTFT and a list of gaps between tokens, found [null, [0.01, 0.01]]"),
    (measured(itls=[[0.1, "x"], []]), "expected a TTFT and a list of gaps"),
    (measured(itls=[[0.1, -0.1], []]), "expected a TTFT and a list of gaps"),
    (measured(itls=[7, []]), "expected a TTFT and a list of gaps"),
    (measured(output_lens=[0, 0], completed=0), "no request in it has an output token; 2 failed requests left out"),
    ({"prompt_tokens": 5, "output_tokens": 3, "request_start_time": 1.0},
     "there are no times of tokens in it (guidellm): run the benchmark with --streaming"),
    ("num_prefill_tokens,num_decode_tokens\n2,3\n", "it holds no times of tokens (Vidur). A fit needs"),
    (perf(10.0, 5, 3, [10.5, "x"]), 'the times at which its tokens came, found [10.0, [10.5, "x"]]'),
    (perf(None, 5, 3, [10.5]), "expected a start and the times at which its tokens came, found [null, [10.5]]"),
])
def test_a_bad_benchmark_is_refused(tmp_path, text, says):
    with pytest.raises(BadInput) as refused:
        benches(tmp_path, text)
    assert says in str(refused.value) and "\n" not in str(refused.value) and len(str(refused.value)) < 400


# --- each bound from both sides -------------------------------------------------------------------


@pytest.mark.parametrize("good, bad, says", [
    ({"duration": 0.0695}, {"duration": 0.069},
     ": a request took 0.07 s in a run of 0.069 s: are its times in milliseconds?"),
    ({"duration": "gone", "ttfts": [0, 1e9 - 1]}, {"duration": "gone", "ttfts": [0, 1e9]},
     ": the request of 9 and 2 tokens at position 1: expected a TTFT and a list of gaps between tokens, found "
     "[1000000000.0, [0.01]]"),
    ({"mean_ttft_ms": 5.51}, {"mean_ttft_ms": 5.5},
     ": its ttfts are 10 times its own mean_ttft_ms: are they in seconds?"),
    ({"mean_ttft_ms": 549}, {"mean_ttft_ms": 551},
     ": its ttfts are 0.09982 times its own mean_ttft_ms: are they in seconds?"),
    ({"mean_ttft_ms": 0}, {"mean_ttft_ms": 0.1},
     ": its ttfts are 550 times its own mean_ttft_ms: are they in seconds?"),
    ({"mean_ttft_ms": "55000"}, {"mean_ttft_ms": 55000},
     ": its ttfts are 0.001 times its own mean_ttft_ms: are they in seconds?"),
    ({"output_lens": [1, 0]}, {"output_lens": [0, 0]}, ": no request in it has an output token"),
])
def test_a_bound_of_a_run(tmp_path, good, bad, says):
    assert benches(tmp_path, measured(**good))
    with pytest.raises(BadInput) as refused:
        benches(tmp_path, measured(**bad))
    assert str(refused.value).startswith(f"{tmp_path / 'run.json'}{says}")


def test_the_mean_ttft_of_a_run_counts_requests_without_a_token_as_zero(tmp_path):
    """55 ms on average of two, 36.7 of three: 0.1 of 366 ms, and not of 368."""
    three = measured(input_lens=[7, 9, 4], output_lens=[3, 2, 0], ttfts=[0.05, 0.06, 0.0],
                     itls=[[0.01] * 2, [0.01], []], start_times=[8.0, 8.07, 8.01], completed=3)
    assert benches(tmp_path, three | {"mean_ttft_ms": 366})
    with pytest.raises(BadInput, match="its ttfts are 0.09964 times"):
        benches(tmp_path, three | {"mean_ttft_ms": 368})


def test_a_request_of_one_token_needs_no_gaps(tmp_path):
    bench, = benches(tmp_path, measured(output_lens=[1, 2], itls=[None, [0.01]], start_times=[8.0, 8.05]))
    assert bench.itls_s == [[], [0.01]] and bench.oddities == []
    with pytest.raises(BadInput, match="at position 0: expected a TTFT and a list of gaps .*, found .0.05, n"):
        benches(tmp_path, measured(itls=[None, [0.01]]))


# --- what becomes of a run ------------------------------------------------------------------------


@pytest.mark.parametrize("gaps, output, kept", [
    ([0.00099, 0.01, 0.01], 3, 2), ([0.001, 0.01, 0.01], 3, 3), ([0.00079, 0.008, 0.008], 3, 2),
    ([0.00081, 0.008, 0.008], 3, 3), ([0.00001, 0.01, 0.01], 4, 3), ([0.00001, 0.01, 0.01], 2, 3), ([0.0], 1, 1),
    ([0.00001, 0.01], 2, 1),
])
def test_a_role_chunk_is_a_gap_too_many_below_a_millisecond_and_a_tenth_of_the_median(tmp_path, gaps, output, kept):
    bench, = benches(tmp_path, measured(output_lens=[output, 2], itls=[gaps, [0.01]]))
    assert len(bench.itls_s[0]) == kept and bench.ttfts_s[0] == pytest.approx(0.05 + sum(gaps[: len(gaps) - kept]))


def test_a_limit_that_was_reached_in_an_open_loop_is_said(tmp_path):
    """Each takes 70 ms; the second was sent after 30: two were under way."""
    paced = measured(start_times=[8.0, 8.03], request_rate=3.5)
    said = ["The client's limit of 2 was reached: some requests were sent later than they were due."]
    for limit, oddities in [(2, said), (3, []), (None, [])]:
        assert benches(tmp_path, paced | {"max_concurrency": limit})[0].oddities == oddities
    closed, = benches(tmp_path, measured())
    assert closed.clients == 1 and closed.oddities == [], "that is what a closed loop does"


def test_a_run_without_start_times(tmp_path):
    """Six requests of 70 ms by two clients need 0.21 s, with the longest and a tenth 0.31; a request that failed may
    have taken as long."""
    run = measured(input_lens=[7] * 6, output_lens=[3] * 6, ttfts=[0.05] * 6, itls=[[0.01] * 2] * 6, start_times="gone",
                   completed=6, max_concurrency=2)
    for duration, clients in [(0.3, 2), (0.32, None), (None, 2)]:
        bench, = benches(tmp_path, run | {"duration": duration})
        assert (bench.clients, bench.closed, bench.duration_s) == (clients, clients == 2, duration)
    failed = run | {"output_lens": [3, 3, 3, 3, 3, 0], "completed": 5}
    bench, = benches(tmp_path, failed | {"duration": 0.3})
    assert (bench.clients, bench.failed, bench.starts_s) == (2, 1, None)
    silent, = benches(tmp_path, failed | {"duration": 0.3, "completed": 6})
    assert (silent.clients, silent.failed) == (2, 0)


def test_runs_have_names_and_places(tmp_path):
    with pytest.raises(BadInput, match="run.json: run 2: no list output_lens: was it run"):
        benches(tmp_path, measured(), measured(output_lens="gone"))
    assert bench_name("a/b.jsonl.gz") == "b" and bench_name("c.gz.txt") == "c.gz.txt" and bench_name("d.json") == "d"


# --- a closed loop --------------------------------------------------------------------------------


def turns(clients, n, every=1.0):
    """When n requests are sent by clients that send one each, together, every so many seconds."""
    return [every * (i // clients) for i in range(n)]


@pytest.mark.parametrize("starts, latencies, limit, rate, duration, clients", [
    # two clients, four requests of 1 s each: two under way until the last is sent at 1 s
    (turns(2, 4), [1.0] * 4, 2, INF, 2.0, 2),
    (turns(2, 4), [1.0] * 4, 2, 1e6, 2.0, 2),  # so high a rate is none
    (turns(2, 4), [1.0] * 4, 2, 999_999.0, 2.0, 2),  # a rate that the limit did not let through
    (turns(2, 4), [1.0] * 4, 2, None, 2.0, 2),
    (turns(2, 4), [1.0] * 4, None, 3.5, 2.0, None),  # a rate was kept
    ([0.0] * 4, [1.0] * 4, 4, 3.5, 2.0, None),  # nobody waited
    (turns(1, 4, 5.0), [1.0] * 4, 2, INF, 16.0, None),  # the limit was not reached
    ([0.0] * 4, [1.0] * 4, 2, INF, None, None),  # all at once, and nobody waited
    (turns(1, 3), [1.0] * 3, 1, INF, None, 1),
    # five clients, each busy for this share of each second: a limit is a number if four fifths are under way
    (turns(5, 100), [0.8] * 100, 5, INF, 20.0, 5), (turns(5, 100), [0.79] * 100, 5, INF, 20.0, None),
    # a burst is a closed loop of all, and a limit above all requests is none; sent within a tenth of a latency
    ([0.001 * i for i in range(5)], [1.0] * 5, None, INF, None, 5),
    ([0.001 * i for i in range(5)], [1.0] * 5, 8, INF, None, 5),
    ([0.0, 0.1], [0.5, 1.0], 8, INF, None, 2), ([0.0, 0.11], [1.0] * 2, 8, INF, None, None),
    # nothing says how the load was made: it needs ten requests, and three a client
    (turns(2, 4), [1.0] * 4, None, None, None, None),
    (turns(1, 9), [1.0] * 9, None, None, None, None), (turns(1, 10), [1.0] * 10, None, None, None, 1),
    (turns(3, 9), [1.0] * 9, None, None, None, None), (turns(3, 10), [1.0] * 10, None, None, None, 3),
    (turns(4, 11), [1.0] * 11, None, None, None, None), (turns(4, 12), [1.0] * 12, None, None, None, 4),
    ([], [1.0] * 12, None, None, None, None),  # without starts nothing tells
    # without starts, or all latencies, the duration tells: the sum by the clients, and the longest, and a tenth
    (turns(1, 3), [1.0, None, 1.0], 1, INF, 3.0, 1), (turns(1, 3), [1.0, None, 1.0], 1, INF, 4.5, None),
    ([], [2.5] * 3, 1, INF, 11.0, 1), ([], [2.5] * 3, 1, INF, 11.01, None),
    ([], [1.0] * 6, 2, INF, None, 2),  # no duration contradicts
    ([], [1.0] * 6, 9, INF, None, 6),  # no more clients than requests
    ([], [1.0, 3.0], None, INF, 5.4, 2), ([], [1.0, 3.0], None, INF, 5.6, None),
])
def test_a_closed_loop_is_told_by_littles_law(starts, latencies, limit, rate, duration, clients):
    assert closed_loop_clients(starts, latencies, limit, rate, duration) == clients


def test_requests_that_touch_are_not_under_way_together():
    assert most_under_way([0, 1], [1, 1]) == 1 and most_under_way([0, 0.5], [1, 1]) == 2


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("start, end, ttft, gaps, latency", [
    (1, 3.5, None, None, 2.5), (1, 3.5, 9, [9], 2.5), (None, 3.5, 1, [0.5, 2], 3.5), (1, None, 1, [], 1),
    (1, "3", 0.5, [1], 1.5), (1, None, 0, [1], None), (1, None, -1, [1], None), (1, None, "1", [1], None),
    (1, None, 1, None, None), (1, None, 1, [None], None), (1, None, None, [1], None),
])
def test_a_latency_is_from_the_start_to_the_end_or_the_sum_of_its_parts(start, end, ttft, gaps, latency):
    assert latency_of(start, end, ttft, gaps) == latency
