"""How fast the paged scheduler is against one that visits every running request in every step: `make bench`.

2,000 requests, prompts uniform 20..800, outputs uniform 10..1000, all at step 0, max_num_seqs 256, budget 8192, memory
unlimited. The rival below is the lesson's loop with everything left out that this workload does not need (blocks,
preemption, prefixes), so that the ratio is not flattered. One process, CPU time, the median of pairs.
"""

import statistics
import time
from random import Random

from paging import scheduler as paged
from paging import clock as paged_time
from paging import fast as paged_fast
from files.costs import Costs
from common import Requests


def visit_everybody(requests, max_num_seqs, budget):
    """Finish times in microseconds; the lab's costs."""
    prompt_tokens, output_tokens = requests
    n = len(prompt_tokens)
    computed, generated, finished_us = [0] * n, [0] * n, [0] * n
    running, head, now_us = [], 0, 0
    while running or head < n:
        left, prefill, served = budget, 0, []
        for i in running:
            if left == 0:
                break
            tokens = min(prompt_tokens[i] + generated[i] - computed[i], left)
            left -= tokens
            prefill += max(0, min(prompt_tokens[i] - computed[i], tokens))
            computed[i] += tokens
            served.append(i)
        while head < n and left > 0 and len(running) < max_num_seqs:
            tokens = min(prompt_tokens[head], left)
            left -= tokens
            prefill += tokens
            computed[head] = tokens
            running.append(head)
            served.append(head)
            head += 1
        now_us += 50 * prefill + 8_000
        for i in served:
            if computed[i] == prompt_tokens[i] + generated[i]:
                generated[i] += 1
                if generated[i] == output_tokens[i]:
                    finished_us[i] = now_us
        running = [i for i in running if generated[i] < output_tokens[i]]
    return finished_us


def cpu(function, *arguments, **named):
    start = time.process_time()
    result = function(*arguments, **named)
    return time.process_time() - start, result


def main():
    r = Random(1)
    requests = Requests(*zip(*((r.randint(20, 800), r.randint(10, 1000)) for _ in range(2000))))
    lesson_s, lesson = cpu(paged_time.schedule, requests, 256, max_num_batched_tokens=8192)
    ratios, fastest = [], []
    for _ in range(5):
        slow_s, finished_us = cpu(visit_everybody, requests, 256, 8192)
        fast_s, result = cpu(paged_fast.schedule, requests, 256, max_num_batched_tokens=8192)
        assert result.finished_us == finished_us and result == lesson
        ratios.append(slow_s / fast_s)
        fastest.append(fast_s)
    print(f"paged_time.schedule (the lesson), 2,000 requests: {lesson_s:.2f} s, {len(finished_us) / lesson_s:.0f} requests/s")
    print(f"paged_fast.schedule, 2,000 requests: {statistics.median(ratios):.1f} times the speed of visiting everybody "
          f"({min(fastest):.3f} s, {result.iterations} steps)")
    server = Costs(prefill_us_per_token=20.3, step_us_per_sequence=50, context_us_per_token=0.01)
    longer = Requests(*zip(*((r.randint(20, 800), r.randint(10, 1000)) for _ in range(20_000))))
    for named, costs in (("lab's costs", Costs()), ("costs with context", server)):
        for asynchronous in (False, True):
            for blocks, caching in ((paged.UNLIMITED, False), (8_000, False), (8_000, True)):
                seconds, _ = cpu(paged_fast.schedule, longer, 256, None, costs, max_num_batched_tokens=8192, kv_blocks=blocks,
                                 prefixes=[[]] * 20_000 if caching else None, asynchronous=asynchronous)
                print(f"20,000 requests, {named}, {'a' if asynchronous else ''}synchronous, "
                      f"{'unlimited' if blocks == paged.UNLIMITED else f'{blocks} blocks'}, "
                      f"caching {'on' if caching else 'off'}: {50 * seconds:.1f} us each")


if __name__ == "__main__":
    main()
