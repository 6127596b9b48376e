"""The paged scheduler: vLLM's recorded decisions, cases by hand, blocks conserved, and a plain oracle on random runs."""

import copy
import gzip
import json
import random
from collections import Counter

import continuous
import paged
import paged_oracle
import pytest
from common import Requests, load_requests
from fixture import ROOT, SHIPPED, script
from paged_replay import decisions

CASES_FILE = ROOT / "fixtures" / "vllm" / "cases.json"
CASES = json.loads(CASES_FILE.read_text())


def shared_costs(rng):
    """The same step costs in the words of the product and of the oracle; passes that grow with those that emit."""
    if rng.random() < 0.5:
        return {}, {}
    return (
        {
            "step_us": lambda chunks, rows, _: (
                7 * sum(c.tokens for c in chunks) + 100 + 13 * (rows + sum(c.last for c in chunks))
            )
        },
        {"step_us": lambda prompt_tokens, emitting: 7 * prompt_tokens + 100 + 13 * emitting},
    )


def random_case(seed):
    """(requests, limit, arrivals, product's arguments, oracle's): tight and ample memory, budgets, prefixes, swapping."""
    r = random.Random(seed)
    n, block_size = r.randint(1, 25), r.choice((1, 2, 4, 16))
    requests = Requests([r.randint(1, 60) for _ in range(n)], [r.randint(1, r.choice((3, 40))) for _ in range(n)])
    largest = max(-(-(p + o - 1) // block_size) for p, o in zip(*requests))
    kv_blocks = r.choice((None, largest, largest + r.randint(0, 10), 2 * largest, 3 * largest))
    chunked, reserve = r.random() < 0.8, r.random() < 0.5
    budget = r.choice((paged_oracle.ALL, r.randint(1, 20), r.randint(1, 80)))
    if not chunked:
        budget = max(budget, max(p + o for p, o in zip(*requests)))
    kind, prefixes, swap_us = r.random(), None, None
    if kind < 0.5:
        prefixes = [
            r.choice(
                ([], [(r.choice("ab"), r.randint(0, p))], [("a", min(p, 10)), (f"a{r.randint(0, 1)}", min(p, 30))])
            )
            for p in requests.prompt_tokens
        ]
    elif kind < 0.75:
        swap_us = lambda tokens: 3 * tokens + 1  # noqa: E731
    arrivals = r.choice((None, [r.randint(0, 300_000) for _ in range(n)], [8_000 * r.randint(0, 30) for _ in range(n)]))
    both = {"block_size": block_size, "prefixes": prefixes, "swap_us": swap_us}
    ours, theirs = shared_costs(r)
    ours |= both | {"kv_blocks": kv_blocks or paged.UNLIMITED, "max_num_batched_tokens": budget,
                    "chunked_prefill": chunked, "reserve_full_prompt": reserve}
    theirs |= both | {"kv_blocks": kv_blocks, "budget": budget, "chunked": chunked, "reserve": reserve}
    return requests, r.choice((1, 2, 5, n, 30)), arrivals, ours, theirs


# --- the real scheduler's decisions -------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_every_step_of_every_recorded_case(case):
    ours = decisions(case)
    with gzip.open(CASES_FILE.parent / "logs" / f"{case['name']}.log.gz", "rt") as log:
        for theirs_line, ours_line in zip(log.read().splitlines(), ours):
            assert ours_line == theirs_line
    expected = case["expected"]
    scheduled = [pair for line in ours for pair in line.split("|")[1].split(",") if pair]
    assert len(ours) == expected["steps"]
    assert sum(int(pair.split(":")[1]) for pair in scheduled) == expected["scheduled_tokens"]
    assert sum(len(line.split("|")[2].split(",")) for line in ours if line.split("|")[2]) == expected["preemptions"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_jumping_gives_what_stepping_gives(case):
    """The recorded cases with the log off: the times, hits and preemptions expected of them, jumping where possible."""
    config, requests, expected = case["config"], case["requests"], case["expected"]
    prefixes = [[(r["prefix_id"], r["prefix_tokens"])] if "prefix_id" in r else [] for r in requests]
    result = paged.schedule(
        Requests([r["prompt_tokens"] for r in requests], [r["output_tokens"] for r in requests]),
        config["max_num_seqs"], [r["arrival_step"] for r in requests], step_us=lambda *_: 1,
        kv_blocks=config["kv_blocks"], block_size=config["block_size"],
        max_num_batched_tokens=config["max_num_batched_tokens"], chunked_prefill=config["chunked_prefill"],
        reserve_full_prompt=config["reserve_full_prompt"], prefixes=prefixes if config["prefix_caching"] else None,
    )
    assert [end - 1 for end in result.first_token_us] == expected["first_token_step"]
    assert [end - 1 for end in result.finished_us] == expected["finish_step"]
    assert result.preemptions == expected["preemptions"]
    assert result.hit_tokens == expected["prefix_hit_tokens"]
    assert result.peak_running == expected["peak_running"]


def test_replay_of_the_shipped_cases():
    done = script("paged", "--replay", CASES_FILE)
    assert done.returncode == 0
    assert done.stdout.count(" steps match\n") == 24 and done.stdout.endswith("24 cases, 0 differ\n")


def test_replay_shows_the_first_step_that_differs(tmp_path):
    """Three cases tampered with: lines in the case, lines in logs/, no lines at all; and one that can never finish."""
    inside, beside, nowhere, never = copy.deepcopy([CASES[0], CASES[1], CASES[2], CASES[3]])
    for case in (inside, beside, nowhere):
        case["expected"]["decisions_sha256"] = "0" * 64
    inside["expected"]["decisions"][1] = "1|0:1,2:30|||94"
    lines = beside["expected"].pop("decisions")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / f"{beside['name']}.log").write_text("\n".join(lines[:2]) + "\n")
    del nowhere["expected"]["decisions"]
    never["config"]["kv_blocks"] = 3
    path = tmp_path / "cases.json"
    path.write_text(json.dumps([inside, beside, nowhere, never, CASES[4]]))
    done = script("paged", "--replay", path)
    assert done.returncode == 1 and done.stderr == ""
    assert done.stdout.splitlines() == [
        "f1_tiny3: differs first here",
        f"  ours   {CASES[0]['expected']['decisions'][1]}",
        "  theirs 1|0:1,2:30|||94",
        "f2_budget_split: differs first here",
        f"  ours   {lines[2]}",
        "  theirs (over)",
        "f3_preempt: differs; only the checksum is known, not the steps",
        "f4_preempt_self: can never finish: request 0 can never fit: it grows to 69 tokens, 5 blocks of 16, and the cache "
        "has 3",
        f"f5_block_edges: all {CASES[4]['expected']['steps']} steps match",
        "5 cases, 4 differ",
    ]


def test_replay_takes_lines_without_a_checksum_and_a_prefix_that_is_none(tmp_path):
    case = copy.deepcopy(CASES[0])
    del case["expected"]["decisions_sha256"]
    case["requests"][0]["prefix_id"] = None
    path = tmp_path / "cases.json"
    path.write_text(json.dumps([case]))
    assert script("paged", "--replay", path).stdout.endswith("1 cases, 0 differ\n")
    case["expected"]["decisions"][-1] += "0"
    path.write_text(json.dumps([case]))
    assert script("paged", "--replay", path).returncode == 1


@pytest.mark.parametrize(
    "text, says",
    [
        (None, "No such file"),
        ("{", "not JSON"),
        ("[]", "expected a JSON list of recorded cases"),
        ("[[]]", "case 0: expected an object"),
        ('[{"name": "x"}]', "case 0: config: expected dict, found null"),
    ],
)
def test_replay_of_a_file_it_cannot_read(tmp_path, text, says):
    path = tmp_path / "cases.json"
    if text:
        path.write_text(text)
    done = script("paged", "--replay", path)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and says in done.stderr


# --- by hand ------------------------------------------------------------------------------------------------------


def test_a_preemption_worked_by_hand():
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
    requests = Requests([3, 3], [4, 4])
    result = paged.schedule(requests, 2, kv_blocks=5, block_size=2, log=log)
    assert [(step.scheduled, step.preempted, step.finished, step.free) for step in log] == [
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


def test_a_swap_worked_by_hand():
    """The same with 100 us a token moved: 4 tokens out in step 2, back in step 4, nothing computed again."""
    result = paged.schedule(Requests([3, 3], [4, 4]), 2, kv_blocks=5, block_size=2, swap_us=lambda tokens: 100 * tokens)
    assert result.finished_us == [32_700, 49_100]


def test_a_prompt_in_chunks_worked_by_hand():
    """A prompt of 5 in a budget of 2: chunks of 2, 2, 1, and its first token ends the third step; one more a step after.
    ceil(5 / 2) + 3 - 1 = 5 steps, as for any request alone."""
    log = []
    paged.schedule(Requests([5], [3]), 1, max_num_batched_tokens=2, log=log)
    assert [step.scheduled for step in log] == [[(0, 2)], [(0, 2)], [(0, 1)], [(0, 1)], [(0, 1)]]
    for prompt, output, chunk in ((1, 1, 1), (16, 9, 5), (100, 3, 7), (64, 1, 64)):
        alone = paged.schedule(Requests([prompt], [output]), 1, max_num_batched_tokens=chunk)
        assert alone.iterations == -(-prompt // chunk) + output - 1


def test_a_prompt_that_nobody_could_step_through():
    """A billion prompt tokens in a budget of 64, beside a request that decodes 100 tokens: chunks of 63 while it does, of 64
    when it has ended, counted in closed form. Played chunk by chunk, it would take minutes."""
    result = paged.schedule(Requests([1, 1_000_000_000], [100, 2]), 2, max_num_batched_tokens=64)
    steps = 100 + -(-(1_000_000_000 - 63 * 100) // 64) + 1
    assert result.iterations == steps
    assert result.finished_us == [100 * 8_000 + 50 * (1 + 63 * 100), steps * 8_000 + 50 * 1_000_000_001]


def test_a_prefix_worked_by_hand():
    """Blocks of 4; both prompts of 8 begin with the same 8 tokens. The second, in the same step, may reuse one block
    only: one token must be computed, so floor(7 / 4) = 1."""
    result = paged.schedule(Requests([8, 8], [1, 1]), 2, block_size=4, prefixes=[[("s", 8)], [("s", 8)]])
    assert result.hit_tokens == 4
    assert result.first_token_us == [12 * 50 + 8_000] * 2


# --- oracle and invariants ----------------------------------------------------------------------------------------


def test_equals_the_plain_oracle_on_1000_random_runs_jumping_and_stepping():
    seen = Counter()
    for seed in range(1000):
        requests, limit, arrivals, ours, theirs = random_case(seed)
        played = paged_oracle.play(requests, limit, arrivals or [0] * len(requests.prompt_tokens), **theirs)
        log = []
        jumped = paged.schedule(requests, limit, arrivals, **ours)
        stepped = paged.schedule(requests, limit, arrivals, **ours, log=log)
        assert jumped == stepped == played[:9], f"seed {seed}"
        if theirs["kv_blocks"]:
            assert [(step.start_us, *step[2:]) for step in log] == played.steps, f"seed {seed}"
            assert all(a.end_us <= b.start_us for a, b in zip(log, log[1:])) and log[-1].end_us == max(
                played.finished_us
            )
        seen.update(preempted=played.preemptions > 0, hit=played.hit_tokens > 0,
                    swapped=bool(theirs["swap_us"]) and played.preemptions > 0)
    assert min(seen.values()) > 50, "the runs must meet preemption, hits and swapping often"


def test_decoding_rows_take_their_blocks_before_a_half_done_prompt_gives_up_its_own():
    """A rare case that a search found: the prompt's request evicts itself, and the blocks that the others had taken by then
    are not the ones that it frees; what an idle block remembers, and so a later hit, hangs on it."""
    lengths = [(1, 12), (36, 1), (14, 14), (11, 10), (29, 10), (10, 5), (13, 1), (5, 1)]
    prefixes = [[], [(1, 23)], [(0, 11)], [(1, 11)], [(1, 4)], [], [], [(0, 5)]]
    requests, arrivals = Requests(*zip(*lengths)), [0] + [1] * 7
    played = paged_oracle.play(requests, 5, arrivals, kv_blocks=17, block_size=4, budget=7, reserve=False,
                               prefixes=prefixes, step_us=lambda *_: 1)
    log = []
    paged.schedule(requests, 5, arrivals, lambda *_: 1, 17, 4, 7, reserve_full_prompt=False, prefixes=prefixes, log=log)
    assert [(step.start_us, *step[2:]) for step in log] == played.steps


def test_a_lost_hit_may_let_the_head_of_the_line_in():
    """Without the reservation, memory for the hits and one chunk is asked for; an idle hit that is overwritten while the head
    waits makes that less. So nothing may be jumped over. Random runs of the kind in which a search found it."""
    for seed in range(1_015_843, 1_015_943):
        r = random.Random(seed)
        n, block_size = r.randint(4, 14), r.choice([2, 3, 4])
        requests = Requests([r.randint(1, 40) for _ in range(n)], [r.randint(1, 14) for _ in range(n)])
        budget = r.choice([3, 5, 6, 7, 9, 11])
        blocks = max(-(-(p + o - 1) // block_size) for p, o in zip(*requests)) + r.choice([0, 0, 1, 2, 3, 4])
        prefixes = []
        for p in requests.prompt_tokens:
            shared, longer = r.random() < 0.95, []
            if shared:
                t = r.randint(1, p)
                t2 = r.randint(t, p)
                longer = r.choice([[(0, p)], [(r.randint(0, 1), t)], [(r.randint(0, 1), t), ("b", t2)]])
            prefixes.append(longer)
        arrivals = [r.choice([0, r.randint(0, 60_000), r.randint(0, 300_000)]) for _ in range(n)]
        limit, reserve = r.choice([1, 2, 3, 5, 9]), r.random() < 0.1
        played = paged_oracle.play(requests, limit, arrivals, blocks, block_size, budget, True, reserve, prefixes)
        jumped = paged.schedule(requests, limit, arrivals, kv_blocks=blocks, block_size=block_size,
                                max_num_batched_tokens=budget, reserve_full_prompt=reserve, prefixes=prefixes)
        assert jumped == played[:9], f"seed {seed}"


def test_blocks_are_conserved_and_shared_only_by_content():
    """On the oracle, whose steps the scheduler equals: free + held = all, and a block of two is a prefix of both."""
    for seed in range(300):
        requests, limit, arrivals, _, theirs = random_case(seed)
        if not theirs["kv_blocks"]:
            continue
        played = paged_oracle.play(requests, limit, arrivals or [0] * len(requests.prompt_tokens), **theirs)
        for step, holdings in zip(played.steps, played.held):
            blocks = Counter(block for held in holdings.values() for block in set(held))
            assert len(blocks) + step[4] == theirs["kv_blocks"]
            assert all(len(held) == len(set(held)) for held in holdings.values())
            if theirs["prefixes"] is None:
                assert set(blocks.values()) <= {1}
            for block in (block for block, holders in blocks.items() if holders > 1):
                owners = [i for i, held in holdings.items() if block in held]
                index = {holdings[i].index(block) for i in owners}
                assert len(index) == 1
                end = (index.pop() + 1) * theirs["block_size"]
                assert all(any(end <= tokens for _, tokens in theirs["prefixes"][i]) for i in owners)


def test_everything_is_free_at_the_end_and_everybody_ends():
    """The last step's free blocks and those of who ends in it are the whole pool; every request emits all its tokens."""
    for seed in range(300):
        requests, limit, arrivals, ours, _ = random_case(seed)
        log = []
        result = paged.schedule(requests, limit, arrivals, **ours, log=log)
        held = sum(
            -(-(requests.prompt_tokens[i] + requests.output_tokens[i] - 1) // ours["block_size"])
            for i in log[-1].finished
        )
        if ours["prefixes"] is None:
            assert log[-1].free + held == ours["kv_blocks"]
        assert sum(result.gaps_us.values()) == sum(requests.output_tokens) - len(requests.output_tokens)
        assert sorted(i for step in log for i in step.finished) == list(range(len(requests.output_tokens)))
        assert all(sum(tokens for _, tokens in step.scheduled) <= ours["max_num_batched_tokens"] for step in log)


def test_nobody_starves():
    """Whoever is preempted goes to the front: requests start in the order of arrival, and each one ends."""
    for seed in range(300):
        requests, limit, arrivals, ours, _ = random_case(seed)
        arrivals = arrivals or [0] * len(requests.prompt_tokens)
        result = paged.schedule(requests, limit, arrivals, **ours)
        order = sorted(range(len(arrivals)), key=lambda i: (arrivals[i], i))
        admitted = [result.admitted_us[i] for i in order]
        assert admitted == sorted(admitted)


def test_with_everything_unlimited_paged_is_continuous():
    """Request by request, with any costs of a step, with and without arrivals."""
    for seed in range(300):
        requests, limit, arrivals, _, _ = random_case(seed)
        by_iteration = continuous.schedule(requests, limit, arrivals)
        assert paged.schedule(requests, limit, arrivals)[:5] == by_iteration
    requests = load_requests(SHIPPED)
    for limit in (1, 16, 32, 200):
        assert paged.schedule(requests, limit)[:5] == continuous.schedule(requests, limit)
    grows = continuous.schedule(requests, 16, prefill_us=lambda n: 3 * n, decode_us=lambda sequences: 100 + sequences)
    assert grows == paged.schedule(
        requests, 16,
        step_us=lambda chunks, rows, _: 3 * sum(c.tokens for c in chunks) + 100 + rows + sum(c.last for c in chunks),
    )[:5]


@pytest.mark.parametrize(
    "arguments, says",
    [
        ({"kv_blocks": 3}, "request 1 can never fit: it grows to 49 tokens, 4 blocks of 16, and the cache has 3"),
        (
            {"kv_blocks": 4, "chunked_prefill": False, "max_num_batched_tokens": 48},
            "request 1 can never fit: without chunked prefill 49 tokens must fit into one step, and its budget is 48",
        ),
        (
            {"chunked_prefill": False, "max_num_batched_tokens": 29},
            "request 1 can never fit: without chunked prefill 30",
        ),
        ({"block_size": 0}, "block_size is 0: it must be at least 1"),
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens is 0"),
        ({"kv_blocks": 0}, "kv_blocks is 0"),
    ],
)
def test_what_can_never_fit_is_refused_before_the_run(arguments, says):
    with pytest.raises(ValueError, match=says):
        paged.schedule(Requests([10, 30], [20, 20]), 2, **arguments)


def test_whether_a_request_may_be_preempted_hangs_on_the_largest_that_run_together():
    """5 blocks and 1 in a cache of 5: the first may have to be resumed with all its 79 tokens, wherever it stands."""
    for lengths in ([(40, 40), (10, 5), (10, 5)], [(10, 5), (10, 5), (40, 40)]):
        with pytest.raises(ValueError, match="without chunked prefill 79 tokens"):
            paged.schedule(Requests(*zip(*lengths)), 2, kv_blocks=5, chunked_prefill=False, max_num_batched_tokens=50)


def test_what_just_fits_is_not_refused():
    """49 tokens in 4 blocks; a budget of 30 without chunking where nobody can be preempted."""
    assert paged.schedule(Requests([10, 30], [20, 20]), 2, kv_blocks=4).preemptions > 0
    assert (
        paged.schedule(Requests([10, 30], [20, 20]), 2, chunked_prefill=False, max_num_batched_tokens=30).preemptions
        == 0
    )
    with pytest.raises(ValueError, match="max_num_seqs is 0"):
        paged.schedule(Requests([10], [20]), 0)
