"""Writes what the paged scheduler did as vLLM's benchmark would have recorded it."""

import paged_time


def bench(requests, concurrency, costs, arrivals_us=None, max_num_seqs=256):
    """The detailed result of a closed loop of so many clients, or of an open one at these arrivals."""
    log = []
    limit = min(concurrency or max_num_seqs, max_num_seqs)
    result = paged_time.schedule(requests, limit, arrivals_us, paged_time.step_of(costs), log=log)
    n = len(requests.prompt_tokens)
    left, emitted = list(requests.prompt_tokens), [[] for _ in range(n)]
    ends = [step.start_us for step in log[1:]] + [max(result.finished_us)]
    for step, end_us in zip(log, ends):
        for position, tokens in step.scheduled:
            left[position] -= tokens
            if left[position] <= 0:
                emitted[position].append(result.finished_us[position] if position in step.finished else end_us)
    clients = concurrency or n
    issued = arrivals_us or [0] * min(clients, n) + sorted(result.finished_us)[: max(0, n - clients)]
    return {
        "max_concurrency": concurrency,
        "request_rate": "inf" if concurrency else 1.0,
        "duration": max(result.finished_us) / 1e6,
        "completed": n,
        "failed": 0,
        "input_lens": list(requests.prompt_tokens),
        "output_lens": list(requests.output_tokens),
        "ttfts": [(times[0] - start + costs.overhead_us) / 1e6 for times, start in zip(emitted, issued)],
        "itls": [[(b - a) / 1e6 for a, b in zip(times, times[1:])] for times in emitted],
        "start_times": [start / 1e6 for start in issued],
        "errors": [""] * n,
    }
