"""How fast the paged scheduler is, and how fast its lesson: `make bench`. Nothing here passes or fails.

2,000 requests, prompts uniform 20..800, outputs uniform 10..1000, all at step 0, max_num_seqs 256, budget 8192, memory
unlimited; then 20,000 of them in the twin alone, in other ways. One process, CPU time, the median of pairs.
"""

import statistics
import time
from random import Random

from common import Requests
from files.costs import Costs
from paging import clock, fast
from paging.scheduler import UNLIMITED


def cpu(function, *arguments, **named):
    start = time.process_time()
    result = function(*arguments, **named)
    return time.process_time() - start, result


def random_requests(r, n):
    return Requests(*zip(*((r.randint(20, 800), r.randint(10, 1000)) for _ in range(n))))


def main():
    r = Random(1)
    requests, longer = random_requests(r, 2_000), random_requests(r, 20_000)
    ratios = []
    for _ in range(3):
        lesson_s, lesson = cpu(clock.schedule, requests, 256, max_num_batched_tokens=8192)
        fast_s, result = cpu(fast.schedule, requests, 256, max_num_batched_tokens=8192)
        assert result == lesson
        ratios.append(lesson_s / fast_s)
    print(f"paging/fast.py, 2,000 requests: {statistics.median(ratios):.1f} times the speed of the lesson "
          f"({fast_s:.3f} s against {lesson_s:.2f} s, {result.iterations} steps)")
    server = Costs(prefill_us_per_token=20.3, step_us_per_sequence=50, context_us_per_token=0.01)
    for named, costs in (("lab's costs", Costs()), ("costs with context", server)):
        for asynchronous in (False, True):
            for blocks, caching in ((UNLIMITED, False), (8_000, False), (8_000, True)):
                seconds, _ = cpu(fast.schedule, longer, 256, None, costs, max_num_batched_tokens=8192, kv_blocks=blocks,
                                 prefixes=[[]] * 20_000 if caching else None, asynchronous=asynchronous)
                print(f"20,000 requests, {named}, {'a' if asynchronous else ''}synchronous, "
                      f"{'unlimited' if blocks == UNLIMITED else f'{blocks} blocks'}, "
                      f"caching {'on' if caching else 'off'}: {50 * seconds:.1f} us each")


if __name__ == "__main__":
    main()
