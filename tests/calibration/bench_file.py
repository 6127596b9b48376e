"""Writes what the lesson's scheduler did as vLLM's benchmark would have recorded it."""

import random

from paging import clock as paged_time


def token_times_us(requests, log):
    """When each token of each request was there, from the lesson's log."""
    left = list(requests.prompt_tokens)  # to be computed before the next token
    times = [[] for _ in left]
    for line in log:
        for position in line.preempted:
            left[position] = requests.prompt_tokens[position] + len(times[position])
        for position, tokens in line.scheduled:
            left[position] -= tokens
            if left[position] == 0:
                times[position].append(line.end_us)
                left[position] = 1
    return times


def bench(requests, clients, costs, arrivals_us=None, max_num_seqs=256, jitter_us=0, **more):
    """The detailed result of a closed loop of so many clients, or of an open one at these arrivals.

    jitter_us: each time that the client sees is late by up to that much. more: what paged_time.schedule() takes.
    """
    log, r = [], random.Random(0)
    clocked = arrivals_us or list(range(len(requests.prompt_tokens)))  # clients begin one after the other
    result = paged_time.schedule(requests, max_num_seqs, clocked, paged_time.step_of(costs), log=log, clients=clients,
                            overhead_us=costs.overhead_us, **more)
    seen = [sorted(time + r.uniform(0, jitter_us) for time in times) for times in token_times_us(requests, log)]
    n = len(seen)
    return {
        "max_concurrency": clients,
        "request_rate": "inf" if clients else 1.0,
        "duration": (max(times[-1] for times in seen) - min(result.issued_us)) / 1e6,
        "completed": n,
        "failed": 0,
        "input_lens": list(requests.prompt_tokens),
        "output_lens": list(requests.output_tokens),
        "ttfts": [(times[0] - issued) / 1e6 for times, issued in zip(seen, result.issued_us)],
        "itls": [[(b - a) / 1e6 for a, b in zip(times, times[1:])] for times in seen],
        "start_times": [issued / 1e6 for issued in result.issued_us],
        "errors": [""] * n,
    }
