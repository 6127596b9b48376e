"""The second lab's requests, their arrivals, and the two measures."""

import json
from random import Random

from common import BadInput, Requests
import pytest
from roofline.workload import (RECORDED, Workload, arguments, arrivals_at, chosen_workload, draw_workload,
                               load_workload, p50_ms_per_token, throughput_rps, warm_up)


def test_a_trace_is_stretched_to_one_request_per_second(tmp_path):
    """Arrivals at 10, 12 and 16 s: gaps of 3 s on average, so 2 and 4 s become 2/3 and 4/3."""
    path = tmp_path / "trace.csv"
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n12,20,2\n10,10,1\n16,30,3\n")
    workload = load_workload(path)
    assert workload.requests == Requests([10, 20, 30], [1, 2, 3])
    assert workload.arrivals_s == pytest.approx([0, 2 / 3, 2])
    assert load_workload(path, first=2).arrivals_s == pytest.approx([0, 1])
    path.write_text('{"prompt_tokens": 5, "output_tokens": 2}\n')
    needed = ", and this lab needs them: a gap in each record, or a trace with arrivals$"
    with pytest.raises(BadInput, match=f"^{path}: no arrivals{needed}"):
        load_workload(path)
    path.write_text('{"prompt_tokens": 5, "output_tokens": 2, "arrival_ms": 3}\n')
    with pytest.raises(BadInput, match=f"^{path}: one moment of arrival for all{needed}"):
        load_workload(path)


def test_the_recorded_workload():
    """1000 requests, lengths in 32..512 and 1..128; the first three arrive after gaps of 0.680, 1.020 and 0.020 s."""
    (prompts, outputs), arrivals = load_workload(RECORDED)
    assert [len(column) for column in (prompts, outputs, arrivals)] == [1000] * 3
    assert (min(prompts), max(prompts), min(outputs), max(outputs)) == (32, 512, 1, 128)
    assert (prompts[:3], outputs[:3]) == ([334, 143, 293], [33, 40, 72])
    assert arrivals[:3] == pytest.approx([0.679931904, 1.699529005, 1.719335668], rel=1e-12)
    assert arrivals[-1] == pytest.approx(1022.049413062, rel=1e-9)


def test_a_rate_only_moves_the_arrivals_closer():
    workload = Workload(Requests([1, 1], [1, 1]), [0.5, 2.0])
    assert arrivals_at(workload, 1) == [500_000, 2_000_000]
    assert arrivals_at(workload, 4) == [125_000, 500_000]


def test_the_first_fifth_is_warm_up():
    """Five requests, so one is left out, though it is the last to finish. Of the others, the first arrives at 1 s and
    the last finishes at 9 s: 4 / 8 s. They take 3, 1, 5 and 2 s for 3, 4, 1 and 2 tokens: 1000, 250, 5000 and 1000 ms
    a token."""
    arrivals_us = [0, 1e6, 2e6, 3e6, 7e6]
    finished_us = [60e6, 4e6, 3e6, 8e6, 9e6]
    assert throughput_rps(arrivals_us, finished_us, warm_up(arrivals_us)) == 0.5
    assert throughput_rps(arrivals_us, finished_us, 0) == 5 / 60
    assert p50_ms_per_token([1, 3, 4, 1, 2], arrivals_us, finished_us) == 1000
    assert [warm_up([0] * n) for n in (1, 4, 5, 9, 10)] == [0, 0, 1, 1, 2]


def test_a_fresh_workload_is_the_seed_s_on_every_python():
    """Pinned: the standard library promises neither these methods nor their order of draws."""
    (prompts, outputs), arrivals = draw_workload(Random(0))
    assert (prompts[:4], outputs[:4]) == ([372, 451, 371, 430], [11, 105, 24, 68])
    assert arrivals[:2] == pytest.approx([1.8606071110652234, 3.279236264036985], rel=1e-12)
    assert (len(prompts), min(prompts), max(prompts)) == (1000, 32, 511)
    assert (len(outputs), min(outputs), max(outputs)) == (1000, 1, 128)


# --- what a user can get wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "second, says",
    [
        ({"prompt_tokens": 3, "output_tokens": 3}, "gap: expected a time, as others have, found null"),
        ({"gap": -1, "prompt_tokens": 3, "output_tokens": 3}, "gap: expected seconds from 0 to 1,000,000,000, found -"),
        *[({"gap": gap, "prompt_tokens": 3, "output_tokens": 3}, f"found {json.dumps(gap)[:9]}")
          for gap in (float("nan"), float("inf"), True, "1", 10**400)],
        ({"gap": 1, "prompt_tokens": 3}, "record 1: output_tokens: expected a whole number"),
        ({"gap": 1, "prompt_tokens": 0, "output_tokens": 3}, "record 1: prompt_tokens: expected a whole number"),
        ({"gap": 1, "prompt_tokens": 2000, "output_tokens": 49}, "record 1: prompt_tokens + output_tokens: expected "
         "at most 2048, the model's longest sequence, found 2049"),
        ([1, 2, 3], "record 1: expected an object"),
    ],
)
def test_a_bad_record_is_named(tmp_path, second, says):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps([{"gap": 0.5, "prompt_tokens": 2000, "output_tokens": 48}, second]))
    with pytest.raises(BadInput) as refused:
        load_workload(path)
    text = str(refused.value)
    assert text.startswith(f"{path}: record 1: ") and says in text and "\n" not in text and len(text) < 300


def test_gaps_may_be_whole_numbers_and_zero(tmp_path):
    path = tmp_path / "requests.json"
    path.write_text(json.dumps([{"gap": gap, "prompt_tokens": 1, "output_tokens": 1} for gap in (0, 2, 0.5)]))
    assert load_workload(path).arrivals_s == [0, 2, 2.5]


def test_a_seed_takes_the_place_of_a_file():
    parser = arguments("")
    assert chosen_workload(parser.parse_args([])) == load_workload(RECORDED)
    assert chosen_workload(parser.parse_args(["--seed", "7"])) == draw_workload(Random(7))
    with pytest.raises(BadInput, match="^--seed draws a workload of its own: give it or --requests, not both$"):
        chosen_workload(parser.parse_args(["--seed", "7", "--requests", "mine.json"]))
    for wrong in ("-1", "1.5", "9" * 5000):
        with pytest.raises(SystemExit):
            parser.parse_args(["--seed", wrong])
    assert parser.parse_args(["--seed", "0"]).seed == 0


def test_the_first_requests_of_a_file_or_of_a_draw():
    parser = arguments("")
    for chosen in ([], ["--seed", "7"]):
        requests, arrivals_s = chosen_workload(parser.parse_args(chosen))
        first = chosen_workload(parser.parse_args([*chosen, "--first", "3"]))
        assert first == (Requests(requests[0][:3], requests[1][:3]), arrivals_s[:3])
    assert (parser.parse_args([]).first, parser.parse_args([]).time_unit) == (None, None)


def test_a_file_that_does_not_settle_its_unit_is_read_in_the_one_that_is_named(tmp_path):
    path = tmp_path / "trace.jsonl"
    turns = [{"timestamp": 7000 * k, "input_length": 5, "output_length": 2} for k in (0, 1)]
    path.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    with pytest.raises(BadInput, match="--time-unit"):
        chosen_workload(arguments("").parse_args(["--requests", str(path)]))
    chosen = arguments("").parse_args(["--requests", str(path), "--time-unit", "s"])
    assert chosen_workload(chosen).arrivals_s == pytest.approx([0, 1])
