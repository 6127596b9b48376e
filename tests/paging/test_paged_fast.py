"""The fast twin equals the lesson: random runs, the recorded workloads, conversations, and what only the twin can play."""

import random
import tracemalloc
from collections import Counter

from common import BadInput, Requests
import pytest
from files.costs import Costs
from fixture import ROOT
from paged import load_cases
from paged_cases import random_case
from paging import scheduler as paged
from paging import fast as paged_fast
from paging import clock as paged_time

VLLM = ROOT / "fixtures" / "vllm"


def both(requests, limit, arrivals, costs, more):
    """(the Schedule of the twin, that of the lesson)."""
    fast = paged_fast.schedule(requests, limit, arrivals, costs, **more)
    return fast, paged_time.schedule(requests, limit, arrivals, paged_time.step_of(costs), **more)


def test_equals_the_lesson_on_1000_random_runs():
    """All options that the twin takes (paged_cases.py), together."""
    seen = Counter()
    for seed in range(1000):
        requests, limit, arrivals, costs, more = random_case(seed)
        fast, plain = both(requests, limit, arrivals, costs, more)
        assert fast == plain, f"seed {seed}"
        way = "asynchronous" if more["asynchronous"] else "synchronous"
        seen.update([way])
        seen.update({
            f"{way}, preempted": plain.preemptions > 0,
            f"{way}, hit": plain.hit_tokens > 0,
            f"{way}, preempted and hit": plain.preemptions > 0 < plain.hit_tokens,
            f"{way}, clients": "clients" in more,
            f"{way}, context": costs.context_us_per_token > 0,
            f"{way}, points": costs.step_points != (),
        })
    assert min(seen.values()) > 20, f"the runs must meet everything often: {seen}"


def test_equals_the_lesson_on_120_long_runs():
    """Longer outputs and larger caches than above: stretches of equal steps with memory that may run out in them."""
    for seed in range(120):
        _, limit, arrivals, costs, more = random_case(seed)
        r = random.Random(seed)
        n = r.randint(5, 30)
        requests = Requests([r.randint(1, r.choice((30, 300))) for _ in range(n)],
                            [r.randint(1, r.choice((10, 400))) for _ in range(n)])
        largest = max(-(-(p + o - 1) // 16) for p, o in zip(*requests))
        more |= {
            "block_size": 16,
            "kv_blocks": largest * r.choice((2, 3, 5)) + r.randint(0, 5),
            "max_num_batched_tokens": r.choice((paged.UNLIMITED, r.randint(3, 64), r.randint(20, 300))),
            "chunked_prefill": True,
            "prefixes": None if more["prefixes"] is None else [[("a", min(p, 40 * r.randint(0, 3)))] for p in requests[0]],
        }
        if arrivals is not None:
            arrivals = [r.randint(0, 200 * costs.decode_us(1)) for _ in range(n)]
        fast, plain = both(requests, limit, arrivals, costs, more)
        assert fast == plain, f"seed {seed}"


@pytest.mark.parametrize("name", ["cases", "async_cases"])
def test_the_recorded_workloads(name):
    """The decisions of the lesson on them are those of vLLM (test_paged.py); here the twin's outcomes are the lesson's."""
    costs = Costs(prefill_us_per_token=0.3, step_us=7, context_us_per_token=0.01)
    for case in load_cases(VLLM / f"{name}.json"):
        caching, limit = (case.config.pop(key) for key in ("prefix_caching", "max_num_seqs"))
        if caching or case.config["kv_blocks"] < 400:  # where memory decides
            more = {**case.config, "prefixes": case.prefixes if caching else None, "asynchronous": case.asynchronous}
            fast, plain = both(case.requests, limit, [7 * arrival for arrival in case.arrivals], costs, more)
            assert fast == plain, case.name


def conversations(r, n):
    """(Requests, arrivals on a grid, prefixes): each turn goes on from an earlier one; names of 512-token blocks."""
    turns, prompts, prefixes = [["system"]], [], []
    for number in range(n):
        names = [*r.choice(turns[-40:]), *(f"{number} {k}" for k in range(r.randint(1, 8)))][:40]
        turns.append(names)
        prompts.append(512 * len(names) - r.randint(0, 511))
        prefixes.append([(name, min(prompts[-1], 512 * (k + 1))) for k, name in enumerate(names)])
    arrivals = [3_000_000 * (number // 10) for number in range(n)]
    return Requests(prompts, [r.randint(1, 300) for _ in range(n)]), arrivals, prefixes


@pytest.mark.parametrize("asynchronous", [False, True])
def test_conversations_with_long_shared_prefixes(asynchronous):
    """Prompts of up to 20,480 tokens in a cache that holds a few of them: hits, partial evictions, preemptions."""
    requests, arrivals, prefixes = conversations(random.Random(1), 40)
    costs = Costs(prefill_us_per_token=20.3, context_us_per_token=0.01)
    for blocks, budget in ((1_500, 2_048), (3_000, 8_192), (paged.UNLIMITED, 8_192)):
        more = {"kv_blocks": blocks, "max_num_batched_tokens": budget, "reserve_full_prompt": False, "prefixes": prefixes,
                "asynchronous": asynchronous}
        fast, plain = both(requests, 32, arrivals, costs, more)
        assert fast == plain and plain.hit_tokens > 0
        assert plain.preemptions > 0 or blocks == paged.UNLIMITED


def test_a_prompt_that_nobody_could_step_through():
    """A billion prompt tokens in a budget of 64, beside a request that decodes 100 tokens: chunks of 63 while it does, of 64
    when it has ended, counted in closed form. Played chunk by chunk, it would take minutes. Asynchronous: in the step after
    its last one request 0 gets nothing either; an empty step ends the run."""
    for asynchronous in (False, True):
        result = paged_fast.schedule(Requests([1, 1_000_000_000], [100, 2]), 2, max_num_batched_tokens=64,
                                     asynchronous=asynchronous)
        steps = 100 + -(-(1_000_000_000 - 63 * 100) // 64) + 1
        assert result.iterations == steps + asynchronous
        assert result.finished_us == [100 * 8_000 + 50 * (1 + 63 * 100), steps * 8_000 + 50 * 1_000_000_001]
        result = paged_fast.schedule(Requests([20], [1_000_000_000]), 2, asynchronous=asynchronous)
        assert result.finished_us == [1_000 + 8_000 * 1_000_000_000], "nor such an answer"


def test_memory_does_not_grow_with_the_tokens():
    """Five prompts of a billion tokens, 62,500,000 blocks each, behind a shared prefix of 4,096 tokens: a few Runs."""
    requests = Requests([1_000_000_000] * 5, [3] * 5)
    prefixes = [[("system", 4_096)]] * 5
    tracemalloc.start()
    try:
        for blocks in (paged.UNLIMITED, 200_000_000):
            result = paged_fast.schedule(requests, 1, None, max_num_batched_tokens=8_192, prefixes=prefixes, kv_blocks=blocks)
            assert result.hit_tokens == 4 * 4_096
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_steps_may_take_no_time():
    """Costs that round to 0 us: the clock stands still until the next request comes, and while one is prefilled it moves."""
    for seed in range(60):
        requests, limit, arrivals, _, more = random_case(seed)
        fast, plain = both(requests, limit, arrivals, Costs(prefill_us_per_token=seed % 2, step_us=0.4), more)
        assert fast == plain, f"seed {seed}"


def test_what_can_never_fit_is_refused():
    with pytest.raises(BadInput, match="request 1 can never fit: it grows to 49 tokens"):
        paged_fast.schedule(Requests([10, 30], [20, 20]), 2, kv_blocks=3)


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
            prefix = []
            if r.random() < 0.95:
                tokens = r.randint(1, p)
                more = r.randint(tokens, p)
                prefix = r.choice([[(0, p)], [(r.randint(0, 1), tokens)], [(r.randint(0, 1), tokens), ("b", more)]])
            prefixes.append(prefix)
        arrivals = [r.choice([0, r.randint(0, 60_000), r.randint(0, 300_000)]) for _ in range(n)]
        limit, reserve = r.choice([1, 2, 3, 5, 9]), r.random() < 0.1
        for asynchronous in (False, True):
            more = {"kv_blocks": blocks, "block_size": block_size, "max_num_batched_tokens": budget,
                    "reserve_full_prompt": reserve, "prefixes": prefixes, "asynchronous": asynchronous}
            fast, plain = both(requests, limit, arrivals, Costs(), more)
            assert fast == plain, f"seed {seed}"
