"""The paged scheduler: vLLM's recorded decisions, cases worked by hand, and what holds in every step of random runs."""

import copy
import gzip
import json
import random
import sys
from collections import Counter, deque
from contextlib import nullcontext
from functools import cache

import continuous
import paged as replay
import pytest
from common import BadInput, Requests
from files.costs import Costs
from fixture import ROOT, script, shipped
from paged import decisions, load_cases, recorded, verdict
from paged_cases import random_case
from paging import scheduler as paged
from paging.clock import schedule, step_of
from paging.scheduler import UNLIMITED, Request, Scheduler

VLLM = ROOT / "fixtures" / "vllm"
FILES = [VLLM / "cases.json", VLLM / "async_cases.json"]
RECORDED = [(path, position) for path in FILES for position in range(24)]


# --- the real scheduler's decisions ---------------------------------------------------------------


loaded = cache(load_cases)


def records(path=FILES[0]):
    """The records of a file, anew each time, since some tests change them."""
    return json.loads(path.read_text())


@pytest.mark.parametrize("path, position", RECORDED, ids=lambda value: getattr(value, "stem", value))
def test_every_step_of_every_recorded_case(path, position):
    record = records(path)[position]
    ours = decisions(loaded(path)[position])
    with gzip.open(VLLM / "logs" / f"{record['name']}.log.gz", "rt") as log:
        theirs = log.read().splitlines()
    for their_line, our_line in zip(theirs, ours):
        assert our_line == their_line
    expected = record["expected"]
    scheduled = [pair for line in ours for pair in line.split("|")[1].split(",") if pair]
    assert len(ours) == len(theirs) == expected["steps"]
    assert sum(int(pair.split(":")[1]) for pair in scheduled) == expected["scheduled_tokens"]
    assert sum(len(line.split("|")[2].split(",")) for line in ours if line.split("|")[2]) == expected["preemptions"]


def replayed(tmp_path, cases):
    path = tmp_path / "cases.json"
    path.write_text(cases if isinstance(cases, str) else json.dumps(cases))
    return script("paged", "--replay", path)


def test_replay_without_a_file_takes_the_recorded_cases(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(sys, "argv", ["paged.py"])
    monkeypatch.setattr(replay, "decisions", lambda case: asked.append(case) or recorded(case, VLLM / "logs"))
    with pytest.raises(SystemExit, match="^0$"):
        replay.main()
    assert asked == loaded(FILES[0]) and capsys.readouterr().out.endswith("24 cases, 0 differ\n")


def test_replay_says_what_came_of_each_case(tmp_path):
    """Small cases of both files, and one with lines but without a checksum."""
    bare = records()[0]
    del bare["expected"]["decisions_sha256"]
    bare["requests"][0]["prefix_id"] = None
    done = replayed(tmp_path, [*records()[:8], *records(FILES[1])[:7], bare])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(" steps match\n") == 16 and done.stdout.endswith("16 cases, 0 differ\n")
    assert done.stdout.startswith("f1_tiny3: all 5 steps match\n") and "async_f1_tiny3: all 7 steps" in done.stdout


def test_replay_shows_the_first_step_that_differs(tmp_path):
    """Three cases tampered with: lines in the case, lines in logs/, no lines at all; and one that can never finish."""
    inside, beside, nowhere, never, right = records()[:5]
    for case in (inside, beside, nowhere):
        case["expected"]["decisions_sha256"] = "0" * 64
    inside["expected"]["decisions"][1] = "1|0:1,2:30|||94"
    lines = beside["expected"].pop("decisions")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / f"{beside['name']}.log").write_text("\n".join(lines[:2]) + "\n")
    del nowhere["expected"]["decisions"]
    never["config"]["kv_blocks"] = 3
    done = replayed(tmp_path, [inside, beside, nowhere, never, right])
    assert done.returncode == 1 and done.stderr == ""
    assert done.stdout.splitlines() == [
        "f1_tiny3: differs first here",
        f"  ours   {records()[0]['expected']['decisions'][1]}",
        "  theirs 1|0:1,2:30|||94",
        "f2_budget_split: differs first here",
        f"  ours   {lines[2]}",
        "  theirs (over)",
        "f3_preempt: differs; only the checksum is known, not the steps",
        "f4_preempt_self: can never finish: request 0 can never fit: it grows to 69 tokens, 5 blocks of 16, and the cache "
        "has 3",
        f"f5_block_edges: all {right['expected']['steps']} steps match",
        "5 cases, 4 differ",
    ]


def changed(*where_and_value):
    """The first recorded case with one value replaced."""
    *where, key, value = where_and_value
    case = copy.deepcopy(records()[0])
    place = case
    for step in where:
        place = place[step]
    place[key] = value
    return [case]


def lengths(prompt_tokens, output_tokens, arrival_step=0, **more):
    return {"arrival_step": arrival_step, "prompt_tokens": prompt_tokens, "output_tokens": output_tokens, **more}


def test_what_is_just_within_the_limits_of_a_case_is_taken(tmp_path):
    requests = [
        [lengths(999_999, 1)],
        [lengths(1, 999_999, 1_000_000)],
        [lengths(5, 1, prefix_id="a", prefix_tokens=5), lengths(5, 1, prefix_id=7, prefix_tokens=0)],
    ]
    keys = "max_num_seqs", "kv_blocks", "block_size", "max_num_batched_tokens"
    cases = [*(changed("requests", some)[0] for some in requests)]
    cases += [changed("config", key, limit)[0] for key in keys for limit in (1, 1_000_000_000)]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    loaded = load_cases(tmp_path / "cases.json")
    assert [case.requests for case in loaded[:2]] == [([999_999], [1]), ([1], [999_999])]
    assert loaded[1].arrivals == [1_000_000] and loaded[2].prefixes == [[("a", 5)], [(7, 0)]]
    assert [case.config[key] for case, key in zip(loaded[3:], (key for key in keys for _ in "12"))] == [1, 10**9] * 4
    assert load_cases(FILES[1])[0].asynchronous and not loaded[0].asynchronous


def test_where_the_lines_of_a_case_are_looked_for(tmp_path):
    """In the case, then in logs beside the file, plain before compressed."""
    case = loaded(FILES[0])[0]._replace(name="x", decisions=None)
    assert recorded(case, tmp_path) is None
    with gzip.open(tmp_path / "x.log.gz", "wt") as log:
        log.write("compressed\n")
    assert recorded(case, tmp_path) == ["compressed"]
    (tmp_path / "x.log").write_text("a\nb\n")
    assert recorded(case, tmp_path) == ["a", "b"]
    assert recorded(case._replace(decisions=["c"]), tmp_path) == ["c"]
    assert recorded(case._replace(name="x\0"), tmp_path) is None


def test_a_log_that_cannot_be_read_is_said_and_a_name_is_printed_in_ascii(tmp_path):
    case = load_cases(FILES[0])[0]._replace(name="caf\xe9")
    assert verdict(case, tmp_path) == (True, "caf\\xe9: all 5 steps match")
    (tmp_path / "caf\xe9.log").write_bytes(b"\xff")
    wrong = case._replace(decisions_sha256="0" * 64)
    assert verdict(wrong, tmp_path)[1] == "caf\\xe9: differs from its checksum, but not from the steps recorded beside it"
    same, says = verdict(wrong._replace(decisions=None), tmp_path)
    assert not same and says.startswith("caf\\xe9: its log cannot be read: ")
    assert not verdict(case._replace(decisions_sha256=None, decisions=["0"]), tmp_path)[0]


FIRST = ("requests", 0)
UNFIT = [
    ("{", "not JSON"), ("[]", "expected a JSON list of recorded cases"), ("17", "expected a JSON list of recorded cases"),
    ("[[]]", "list indices"), ('[{"name": "x"}]', "'config' is missing"), (changed("name", 7), "name: found 7"),
    (changed("config", 7), "not iterable"), (changed("config", "kv_blocks", True), "kv_blocks: found true"),
    *[(changed("config", key, value), f"{key}: expected 1 to 1,000,000,000, found {value}")
      for key in ("max_num_seqs", "kv_blocks", "block_size", "max_num_batched_tokens") for value in (0, 1_000_000_001)],
    *[(changed("config", key, 1), f"{key}: found 1")
      for key in ("chunked_prefill", "reserve_full_prompt", "prefix_caching")],
    (changed("config", "watermark", 0.01), 'this scheduler does not know "watermark"'),
    (changed(*FIRST, "priority", 3), 'this scheduler does not know "priority"'),
    (changed("requests", []), "expected requests of up to 1,000,000 tokens in all, found 0"),
    (changed("requests", 3), "not iterable"), (changed(*FIRST, 5), "not iterable"),
    *[(changed(*FIRST, key, value), f"{key}: expected {least} to 1,000,000, found {value}")
      for key, least in (("prompt_tokens", 1), ("output_tokens", 1), ("arrival_step", 0)) for value in (least - 1, 1_000_001)],
    (changed("requests", [lengths(999_999, 2)]), "of up to 1,000,000 tokens in all, found 1000001"),
    (changed(*FIRST, "prompt_tokens", 2.5), "prompt_tokens: found 2.5"),
    (changed(*FIRST, "prefix_id", [1]), "prefix_id: found [1]"),
    (changed(*FIRST, "prefix_id", "a"), "'prefix_tokens' is missing"),
    *[(changed("requests", [lengths(5, 1, prefix_id=1, prefix_tokens=n)]), f"prefix_tokens: expected 0 to 5, found {n}")
      for n in (-1, 6)],
    (changed("expected", {}), "'decisions_sha256' is missing"),
    (changed("expected", "decisions_sha256", 9), "decisions_sha256: found 9"),
    (changed("expected", "decisions", [1]), "decisions: expected a list of lines, found [1]"),
    (changed("expected", "decisions", 1), "not iterable"),
]


def test_replay_of_a_file_it_cannot_use_is_one_line(tmp_path):
    path = tmp_path / "cases.json"
    for cases, says in UNFIT:
        path.write_text(cases if isinstance(cases, str) else json.dumps(cases))
        with pytest.raises(BadInput, match=r"^[^\n]*$") as refusal:
            load_cases(path)
        where = "" if isinstance(cases, str) and cases[:2] != "[[" else "case 0: not as it is recorded: "
        assert where in str(refusal.value) and says in str(refusal.value), (says, str(refusal.value))
    done = replayed(tmp_path, "{")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "No such file" in script("paged", "--replay", tmp_path / "nothing.json").stderr


def test_the_longest_case_that_replay_takes_is_over_soon(tmp_path):
    """50,000 empty steps, then as many of a request with a block a token; memory and time grow with the steps alone."""
    case = records()[0]
    case["requests"] = [{"arrival_step": 50_000, "prompt_tokens": 1, "output_tokens": 50_000}]
    case["config"] |= {"kv_blocks": 1_000_000_000, "block_size": 1}
    del case["expected"]["decisions"]
    assert "differs; only the checksum is known" in replayed(tmp_path, [case]).stdout


# --- by hand --------------------------------------------------------------------------------------


def decided(log):
    return [(line.scheduled, line.preempted, line.finished, line.free) for line in log]


def test_the_example_in_the_docstring():
    """Two requests, prompt 3, output 4, blocks of 2, a cache of 5 blocks; a prompt token costs 0.05 ms, a step 8 ms.

    Step 0: both prefill 3 tokens, 2 blocks each, 1 free.     0.3 + 8 ms -> 8.3, both emit their first token.
    Step 1: each writes its 4th token into its second block.  -> 16.3
    Step 2: both need a third block, 1 is free. The first takes it; for the second there is none: it, the last admitted,
            preempts itself: 4 tokens lost, length 5, to the front of the line. -> 24.3, the first emits token 3.
    Step 3: waiting needs 3 blocks, 2 are free. The first writes its 6th token and emits its last -> 32.3.
    Step 4: 5 free: the second computes all its 5 tokens again, 0.25 + 8 ms -> 40.55, and emits token 3.
    Step 5: token 4 -> 48.55.
    """
    log = []
    result = schedule(Requests([3, 3], [4, 4]), 2, kv_blocks=5, block_size=2, log=log)
    assert decided(log) == [
        ([(0, 3), (1, 3)], [], [], 1),
        ([(0, 1), (1, 1)], [], [], 1),
        ([(0, 1)], [1], [], 2),
        ([(0, 1)], [], [0], 2),
        ([(1, 5)], [], [], 2),
        ([(1, 1)], [], [1], 2),
    ]
    assert result.first_token_us == [8_300, 8_300]
    assert result.finished_us == [32_300, 48_550]
    assert (result.preemptions, result.resumed_tokens) == (1, 4)
    assert result.gaps_us == Counter({8_000: 5, 24_250: 1})
    printed = [line.split() for line in paged.__doc__.splitlines() if line[4:5].isdigit()]
    for number, (line, words) in enumerate(zip(log, printed, strict=True)):
        chunks = [f"{position}:{tokens}" for position, tokens in line.scheduled]
        said = [str(number), *chunks, *map(str, line.preempted), str(line.free), f"{line.end_us / 1000:.2f}"]
        assert words[: len(said)] == said


def test_a_swap_worked_by_hand():
    """The same with 100 us a token moved: 4 tokens out in step 2, back in step 4, nothing computed again."""
    result = schedule(Requests([3, 3], [4, 4]), 2, kv_blocks=5, block_size=2, swap_us=lambda tokens: 100 * tokens)
    assert result.finished_us == [32_700, 49_100]


def test_a_half_done_prompt_that_was_swapped_goes_on_where_it_was():
    """Blocks of 2, a cache of 4, a budget of 3. Request 0 has prompt 2 and output 6, request 1 has prompt 6 and output 1.

    Step 0: 0 computes 2 tokens (1 block), 1 one token (1 block).             0.15 + 8 ms -> 8.15
    Step 1: 0 its third token (2 blocks), 1 two more: 3 tokens, 2 blocks.     0.10 + 8 ms -> 16.25
    Step 2: 0 its fourth; 1 wants two more, a third block, and 4 are held: it evicts itself, 3 tokens go out, 0.3 ms.
            0.3 + 8 ms -> 24.55
    Step 3: 0 its fifth token, a third block. 1 has 3 tokens and would compute 2 more: 3 blocks, and 1 is free.  -> 32.55
    Step 4, 5: 0 its sixth and seventh token (4 blocks) -> 48.55, its last; all 4 are free.
    Step 6: 3 tokens come back, 0.3 ms, and 3 are computed: 0.3 + 0.15 + 8 ms -> 57.00
    """
    result = schedule(Requests([2, 6], [6, 1]), 2, kv_blocks=4, block_size=2, max_num_batched_tokens=3,
                      reserve_full_prompt=False, swap_us=lambda tokens: 100 * tokens)
    assert result.finished_us == [48_550, 57_000]
    assert (result.preemptions, result.resumed_tokens, result.iterations) == (1, 3, 7)


def test_a_prompt_in_chunks_worked_by_hand():
    """A prompt of 5 in a budget of 2: chunks of 2, 2, 1, and its first token ends the third step; one more a step after.
    ceil(5 / 2) + 3 - 1 = 5 steps, as for any request alone."""
    log = []
    schedule(Requests([5], [3]), 1, max_num_batched_tokens=2, log=log)
    assert [line.scheduled for line in log] == [[(0, 2)], [(0, 2)], [(0, 1)], [(0, 1)], [(0, 1)]]
    for prompt, output, chunk in ((1, 1, 1), (16, 9, 5), (100, 3, 7), (64, 1, 64)):
        alone = schedule(Requests([prompt], [output]), 1, max_num_batched_tokens=chunk)
        assert alone.iterations == -(-prompt // chunk) + output - 1


def test_a_prefix_worked_by_hand():
    """Blocks of 4; both prompts of 8 begin with the same 8 tokens. The second, in the same step, may reuse one block
    only: one token must be computed, so floor(7 / 4) = 1."""
    result = schedule(Requests([8, 8], [1, 1]), 2, block_size=4, prefixes=[[("s", 8)], [("s", 8)]])
    assert result.hit_tokens == 4
    assert result.first_token_us == [12 * 50 + 8_000] * 2


def test_every_term_of_a_step_worked_by_hand():
    """1000 us a step, 10 a sequence that emits, 2 a token of prefill of which 3 us are hidden, 1 a token in the cache.

    Prompts of 4 and 5, outputs of 2 and 1, a budget of 6.
    Step 0: 4 + 2 tokens of prefill, one sequence emits, 6 tokens in the cache: 1000 + 10 + (12 - 3) + 6 = 1025.
    Step 1: one decodes (5 tokens), the last 3 of the second prompt, two emit: 1000 + 20 + (6 - 3) + 10 = 1033 -> 2058.
    """
    costs = Costs(prefill_us_per_token=2, step_us=1000, step_us_per_sequence=10, context_us_per_token=1, hidden_us=3)
    result = schedule(Requests([4, 5], [2, 1]), 2, step_us=step_of(costs), max_num_batched_tokens=6)
    assert (result.first_token_us, result.finished_us) == ([1_025, 2_058], [2_058, 2_058])


def test_the_cache_is_counted_after_the_step_and_without_those_that_wait_for_their_last_token():
    """One us a token in the cache beside 100 us a step, asynchronous; prompts of 3 and 4, outputs of 1 and 3.

    Step 0: 3 + 4 tokens -> 107. Step 1: request 0 gets nothing more and is not read, request 1 has 5 -> 212.
    Step 2: 6 -> 318.
    """
    costs = Costs(prefill_us_per_token=0, step_us=100, context_us_per_token=1)
    result = schedule(Requests([3, 4], [1, 3]), 2, step_us=step_of(costs), asynchronous=True)
    assert result.finished_us == [107, 318]


# --- asynchronous, by hand ------------------------------------------------------------------------


def test_two_steps_in_flight_worked_by_hand():
    """(prompt, output) = (100, 1), (200, 3), (100, 2) in 2 slots, all there at time 0.

    Step 0, scheduled at 0: requests 0 and 1, 15 ms of prefill and 8 ms, ends at 23.
    Step 1, scheduled at 0, too: the only token of 0 is in flight, so it gets nothing, but it has its slot: 2 waits.
            1 decodes, 23 to 31.
    Step 2, scheduled at 23, when the results of step 0 are there: 0 has ended, 2 is admitted, 5 + 8 ms, 31 to 44.
    Step 3, scheduled at 31: the last token of 1 is in flight (step 2); 2 decodes, 44 to 52.
    Step 4, scheduled at 44: the last token of 2 is in flight (step 3): nothing is scheduled, and no time passes.
    The synchronous scheduler admits 2 one step earlier, with step 1: it ends at 44 (test_schedulers.py).
    """
    log = []
    result = schedule(Requests([100, 200, 100], [1, 3, 2]), 2, log=log, asynchronous=True)
    assert [(line.start_us, line.end_us, line.scheduled, line.finished) for line in log] == [
        (0, 23_000, [(0, 100), (1, 200)], [0]),
        (23_000, 31_000, [(1, 1)], []),
        (31_000, 44_000, [(1, 1), (2, 100)], [1]),
        (44_000, 52_000, [(2, 1)], [2]),
        (52_000, 52_000, [], []),
    ]
    assert result.admitted_us == [0, 0, 31_000]
    assert result.first_token_us == [23_000, 23_000, 44_000]
    assert result.finished_us == [23_000, 44_000, 52_000]
    assert result.gaps_us == Counter({8_000: 2, 13_000: 1})
    assert (result.iterations, result.peak_running) == (5, 2)


def test_a_token_in_flight_is_kept_when_its_request_is_preempted():
    """The case of the docstring, asynchronous.

    Step 2 preempts 1 while its second token is in flight (step 1). Step 3: 0 computes its last token. Step 4: that token
    is in flight, 0 holds its 3 blocks, 2 are free, 1 needs 3: an empty step. Step 5: 1 is resumed with 3 + 2 tokens.
    """
    log = []
    result = schedule(Requests([3, 3], [4, 4]), 2, kv_blocks=5, block_size=2, log=log, asynchronous=True)
    assert decided(log) == [
        ([(0, 3), (1, 3)], [], [], 1),
        ([(0, 1), (1, 1)], [], [], 1),
        ([(0, 1)], [1], [], 2),
        ([(0, 1)], [], [0], 2),
        ([], [], [], 2),
        ([(1, 5)], [], [], 2),
        ([(1, 1)], [], [1], 2),
        ([], [], [], 2),
    ]
    assert result.finished_us == [32_300, 48_550]


def test_a_request_whose_last_token_is_in_flight_can_still_be_preempted():
    """Blocks of 2, a cache of 4; prompts of 3, outputs of 5 and 2. Step 1 computes the last token of 1. In step 2, before
    its results are there, 0 needs a third block: 1 is preempted, and ends from the waiting line, at the end of step 1."""
    log = []
    result = schedule(Requests([3, 3], [5, 2]), 2, kv_blocks=4, block_size=2, log=log, asynchronous=True)
    assert decided(log)[1:3] == [([(0, 1), (1, 1)], [], [1], 0), ([(0, 1)], [1], [], 1)]
    assert result.finished_us[1] == log[1].end_us == 16_300
    assert (result.preemptions, result.resumed_tokens) == (1, 4)
    assert schedule(Requests([3, 3], [5, 2]), 2, kv_blocks=4, block_size=2).preemptions == 0


def test_a_request_that_arrives_while_a_step_runs_waits_one_step_more():
    """Request 0 decodes; its first step ends at 8.05 ms, then one ends every 8 ms. Request 1 arrives at 20 ms, during the
    third step (16.05 to 24.05). Synchronous, it starts at 24.05; asynchronous, the fourth step has been scheduled at
    16.05, so it starts at 32.05. What arrives exactly at 24.05 is seen then, too; at 24.051, one step later."""
    requests = Requests([1, 1], [20, 1])
    for arrival_us, synchronous_us in ((20_000, 24_050), (24_050, 24_050), (24_051, 32_050)):
        plays = [schedule(requests, 2, [0, arrival_us], asynchronous=way) for way in (False, True)]
        assert [play.admitted_us[1] for play in plays] == [synchronous_us, synchronous_us + 8_000]
        assert plays[1].first_token_us[1] - plays[0].first_token_us[1] == 8_000


def test_a_freed_slot_and_freed_blocks_are_refilled_one_step_later():
    """Request 0 ends in step 0. In 2 slots, or in a cache of 4 blocks of 2 tokens (0 has 2, 1 has 1 or 2), 2 needs what it
    leaves. Synchronous it is admitted in step 1, asynchronous in step 2."""
    requests = Requests([3, 1, 4], [1, 3, 1])
    for limit, blocks in ((2, UNLIMITED), (3, 4)):
        for way in (False, True):
            log = []
            schedule(requests, limit, kv_blocks=blocks, block_size=2, log=log, asynchronous=way)
            assert [number for number, line in enumerate(log) if (2, 4) in line.scheduled] == [1 + way]


# --- synchronous and asynchronous: where they must agree ------------------------------------------


def both(requests, *arguments, **named):
    return [schedule(requests, *arguments, **named, asynchronous=way) for way in (False, True)]


def test_they_agree_where_nobody_waits_for_what_another_leaves():
    """All there at time 0, with slots and memory for all: every time is the same. Slots are held one step longer, so more
    may be taken at once, and one empty step ends the run. A request alone is such a case, whenever it arrives, and so is
    one client, whatever the overhead: an empty step more for each of its requests."""
    for seed in range(100):
        requests, _, _, costs, more = random_case(seed)
        n = len(requests.prompt_tokens)
        budget = more["max_num_batched_tokens"]
        named = {"step_us": step_of(costs), "max_num_batched_tokens": budget, "prefixes": more["prefixes"]}
        ours, theirs = both(requests, n, **named)
        assert theirs == ours._replace(iterations=ours.iterations + 1, peak_running=theirs.peak_running)
        assert ours.peak_running <= theirs.peak_running <= n
        alone = Requests(*([column[0]] for column in requests))
        ours, theirs = both(alone, 1, [1_234], step_us=step_of(costs), max_num_batched_tokens=budget)
        assert theirs == ours._replace(iterations=ours.iterations + 1)
        ours, theirs = both(requests, 4, **named, clients=1, overhead_us=321)
        assert theirs == ours._replace(iterations=ours.iterations + n)


def test_they_agree_where_all_that_run_end_together():
    """Outputs of one token, budget and memory unlimited: whoever runs ends with the step, an empty one follows that takes no
    time, and the next step starts where the synchronous scheduler's would. Twice as many steps, the same times."""
    for seed in range(100):
        requests, limit, arrivals, costs, _ = random_case(seed)
        requests = Requests(requests.prompt_tokens, [1] * len(requests.prompt_tokens))
        ours, theirs = both(requests, limit, arrivals, step_us=step_of(costs))
        assert theirs == ours._replace(iterations=2 * ours.iterations)


# --- clients --------------------------------------------------------------------------------------


def test_one_client_worked_by_hand():
    """Prompts of 20 (1 ms), outputs of 2, 3 ms from the client to the scheduler: 3 + 1 + 8 = 12 ms to the first token, 20
    to the last; then the client sends the next."""
    result = schedule(Requests([20] * 3, [2] * 3), 5, clients=1, overhead_us=3_000)
    assert result.issued_us == [0, 20_000, 40_000]
    assert result.first_token_us == [12_000, 32_000, 52_000]
    assert result.finished_us == [20_000, 40_000, 60_000]


def test_more_clients_than_sequences_queue():
    """Three clients, one slot, outputs of one token, 1 ms of prefill: one ends every 9 ms. From the fourth on a request is
    sent when the third before it ends, and waits for two others: TTFT 27 ms."""
    result = schedule(Requests([20] * 6, [1] * 6), 1, clients=3)
    assert result.issued_us == [0, 0, 0, 9_000, 18_000, 27_000]
    ttfts_us = [first - issued for first, issued in zip(result.first_token_us, result.issued_us)]
    assert ttfts_us == [9_000, 18_000, 27_000, 27_000, 27_000, 27_000]


def test_the_closed_loop_of_the_eight_steps():
    """With no overhead, a synchronous scheduler and a slot for each client it does not matter whether requests wait at the
    client or at the scheduler: continuous with all at time 0."""
    for seed in range(100):
        requests, _, _, costs, _ = random_case(seed)
        costs = costs._replace(context_us_per_token=0)
        for clients in (1, 3, 8):
            closed = schedule(requests, clients, step_us=step_of(costs), clients=clients)
            assert closed[:5] == continuous.schedule(requests, clients, costs=costs)
            ends = sorted(closed.finished_us)
            assert closed.issued_us == [0] * min(clients, len(ends)) + ends[: max(0, len(ends) - clients)]


def test_overhead_stands_once_before_the_scheduler():
    """Arrivals with an overhead are later arrivals; only the client counts from when it sent. Fractions are rounded."""
    for seed in range(100):
        requests, limit, arrivals, costs, more = random_case(seed)
        arrivals = arrivals or [0] * len(requests.prompt_tokens)
        more = {name: value for name, value in more.items() if name not in ("overhead_us", "clients")}
        early = schedule(requests, limit, arrivals, step_of(costs), **more, overhead_us=500.4)
        late = schedule(requests, limit, [arrival + 500 for arrival in arrivals], step_of(costs), **more)
        assert early == late._replace(issued_us=arrivals)


# --- what holds in every step ---------------------------------------------------------------------


def steps_of(requests, limit, more):
    """Drive a Scheduler on a random case, a new request every other step: yields (scheduler, requests, its Step)."""
    scheduler = Scheduler(limit, more["kv_blocks"], more["block_size"], more["max_num_batched_tokens"],
                          more["chunked_prefill"], more["reserve_full_prompt"], more["prefixes"] is not None)
    n = len(requests.prompt_tokens)
    asked = [Request(*request) for request in zip(range(n), *requests, more["prefixes"] or [()] * n)]
    coming, in_flight, number = deque(asked), deque(), 0
    while coming or scheduler.waiting or scheduler.running:
        if coming and number % 2 == 0:
            scheduler.waiting.append(coming.popleft())
        in_flight.append(scheduler.schedule())
        yield scheduler, asked, in_flight[-1]
        if len(in_flight) > more["asynchronous"]:
            scheduler.update(in_flight.popleft())
        number += 1


def test_blocks_are_conserved_with_steps_in_flight():
    """Free and held blocks are all blocks, in every step; whoever has a token in the cache has a block for it; a block of two
    requests is the same part of a prefix of both; at the end everything is free and everybody has all tokens."""
    shared = preempted = ghosts = 0
    for seed in range(600):
        requests, limit, _, _, more = random_case(seed)
        if more["kv_blocks"] == UNLIMITED:
            continue
        for scheduler, asked, step in steps_of(requests, limit, more):
            memory = scheduler.memory
            holders = Counter(block for request in asked for block in request.blocks)
            assert step.free == memory.free() == memory.blank + len(memory.idle)
            assert len(holders) + memory.free() == more["kv_blocks"]
            assert all(block.users == count for block, count in holders.items())
            assert not any(block in memory.idle for block in holders)
            assert all(block.users == 0 and block.content for block in memory.idle)
            for request in scheduler.running:
                assert len(request.blocks) == -(-request.computed // more["block_size"])
                assert len(set(request.blocks)) == len(request.blocks)
                for index, block in enumerate(request.blocks):
                    if block.users > 1:
                        shared += 1
                        kind, name, at = block.content
                        ends = [tokens for entry, tokens in request.prefixes if entry == name]
                        assert (kind, at) == ("prefix", index) and (index + 1) * more["block_size"] <= max(ends)
            assert not any(request.blocks for request in asked if request not in scheduler.running)
            assert len(scheduler.running) <= limit
            assert sum(chunk.tokens for chunk in step.chunks) <= more["max_num_batched_tokens"]
            preempted += len(step.preempted)
            ghosts += any(asked[position].emits_no_more() for position in step.preempted)
        assert scheduler.memory.free() == more["kv_blocks"]
        assert all(request.generated == request.output_tokens and not request.in_flight for request in asked)
    assert min(shared, preempted) > 500 and ghosts > 5, "the runs must meet sharing, preemption, preempted ended requests"


def test_everybody_ends_with_exactly_its_tokens():
    for seed in range(150):
        requests, limit, arrivals, costs, more = random_case(seed)
        log = []
        result = schedule(requests, limit, arrivals, step_of(costs), **more, log=log)
        n = len(requests.output_tokens)
        started = [result.admitted_us[i] for i in sorted(range(n), key=(arrivals or [0] * n).__getitem__)]
        assert started == sorted(started), "whoever is preempted goes to the front, so nobody starves"
        assert sum(result.gaps_us.values()) == sum(requests.output_tokens) - n
        spans_us = sum(last - first for first, last in zip(result.first_token_us, result.finished_us))
        assert sum(gap * times for gap, times in result.gaps_us.items()) == spans_us
        assert sorted(position for line in log for position in line.finished) == list(range(n))
        most = [prompt + output - 1 for prompt, output in zip(*requests)]
        ended = [position for before, line in zip(log, log[1:]) for position in before.finished if position in line.preempted]
        again = result.resumed_tokens - sum(most[position] for position in ended)  # they had all their tokens already
        computed = sum(tokens for line in log for _, tokens in line.scheduled)
        assert computed == sum(most) + again - result.hit_tokens
        assert result.iterations == len(log) and all(a.end_us <= b.start_us for a, b in zip(log, log[1:]))


def test_with_everything_unlimited_paged_is_continuous():
    """Request by request, at any costs without context, with and without arrivals."""
    for seed in range(150):
        requests, limit, arrivals, costs, _ = random_case(seed)
        costs = costs._replace(context_us_per_token=0)
        by_iteration = continuous.schedule(requests, limit, arrivals, costs)
        assert schedule(requests, limit, arrivals, step_of(costs))[:5] == by_iteration, f"seed {seed}"
    for limit in (1, 16, 200):
        assert schedule(shipped(), limit)[:5] == continuous.schedule(shipped(), limit)


# --- what cannot fit ------------------------------------------------------------------------------


TWO = [(10, 20), (30, 20)]
CANNOT, WITHOUT = "request 1 can never fit: ", "without chunked prefill "


@pytest.mark.parametrize("lengths, limit, blocks, budget, says", [
    (TWO, 2, 3, None, CANNOT + "it grows to 49 tokens, 4 blocks of 16, and the cache has 3$"), (TWO, 2, 4, None, None),
    (TWO, 2, UNLIMITED, 29, CANNOT + WITHOUT + "30"), (TWO, 2, UNLIMITED, 30, None),
    (TWO, 2, 6, 30, None), (TWO, 1, 5, 30, None), (TWO, 2, 5, 49, None),
    (TWO, 2, 5, 48, CANNOT + WITHOUT + "49 tokens must fit into one step, and its budget is 48$"),
    ([(40, 40), (10, 5), (10, 5)], 2, 5, 50, WITHOUT + "79 tokens"),
    ([(10, 5), (10, 5), (40, 40)], 2, 5, 50, WITHOUT + "79 tokens"),
])
def test_what_can_never_fit_is_refused_before_the_run(lengths, limit, blocks, budget, says):
    """TWO grow to 29 and 49 tokens, 2 and 4 blocks. They run together in a cache of 6. In one of 5 the larger may be
    preempted, if two may run, and come again with all its tokens. The largest that may run together decide, wherever
    they stand. Without a budget, prompts are chunked."""
    with pytest.raises(BadInput, match=says) if says else nullcontext():
        schedule(Requests(*zip(*lengths)), limit, kv_blocks=blocks, chunked_prefill=budget is None,
                 max_num_batched_tokens=budget or UNLIMITED)



def test_what_is_admitted_can_always_go_on():
    """Random limits at the edge of what is refused: every run that is not refused ends."""
    for seed in range(300):
        r = random.Random(seed)
        n = r.randint(1, 8)
        requests = Requests([r.randint(1, 12) for _ in range(n)], [r.randint(1, 12) for _ in range(n)])
        try:
            schedule(requests, r.randint(1, 5), kv_blocks=r.randint(3, 16), block_size=r.randint(1, 4),
                     max_num_batched_tokens=r.randint(1, 24), chunked_prefill=r.random() < 0.3, asynchronous=r.random() < 0.5)
        except BadInput as error:
            assert "can never fit" in str(error)
