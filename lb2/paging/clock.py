"""When does each step of the paged scheduler begin and end, and when does each token come?

paging/scheduler.py decides; this module drives it through time. A synchronous server schedules a
step when the step before it is over. An asynchronous one schedules a step while the step before it
runs: it knows the results of the step before that one, and the requests that have arrived by then.
So a new request waits one step more. paging/fast.py gives the same Schedule, faster.

    schedule(requests, max_num_seqs=32, clients=16, asynchronous=True) -> Schedule(...)
"""

from bisect import bisect_right
from collections import Counter, deque
from itertools import accumulate
from typing import NamedTuple

from files.costs import Costs
from paging.scheduler import UNLIMITED, Request, Scheduler, refuse_what_cannot_fit


class LogLine(NamedTuple):
    """One step, as it went."""

    start_us: int
    end_us: int
    scheduled: list  # (position, tokens)
    preempted: list  # positions
    finished: list  # positions whose last token this step computed
    free: int  # blocks, right after scheduling


class Schedule(NamedTuple):
    """What came of all requests: times in whole microseconds, n of each kind, and counts."""

    admitted_us: list  # start of the step that first admitted the request
    first_token_us: list
    finished_us: list
    iterations: int  # steps, those in which nothing could be scheduled too
    peak_running: int  # requests with a slot
    gaps_us: Counter  # inter-token latency: how many times, over all requests
    preemptions: int
    resumed_tokens: int  # computed tokens of the preempted requests, summed
    hit_tokens: int  # tokens found in the cache at admission, summed
    issued_us: list  # when the client sent the request


def step_of(costs):
    """The time of a step by a server's Costs, for schedule()."""

    def step_us(chunks, rows, cached):
        emitting = rows + sum(chunk.emits for chunk in chunks)
        in_cache = rows + cached + sum(chunk.cached + chunk.tokens for chunk in chunks)  # after the step
        prefill_us = costs.prefill_us(sum(chunk.tokens for chunk in chunks))
        return costs.decode_us(emitting) + prefill_us + costs.context_us(in_cache)

    return step_us


def duration_us(step, step_us, swap_us):
    """The time of a Step. One in which nothing is scheduled takes none, but for what it moves."""
    prefills = [chunk for chunk in step.chunks if chunk.prefill]
    decoding = [chunk.cached for chunk in step.chunks if not chunk.prefill]
    computing_us = step_us(prefills, len(decoding), sum(decoding)) if step.chunks else 0
    return computing_us + (swap_us(step.moved) if step.moved else 0)


def schedule(requests, max_num_seqs, arrivals_us=None, step_us=step_of(Costs()), kv_blocks=UNLIMITED, block_size=16,
             max_num_batched_tokens=UNLIMITED, chunked_prefill=True, reserve_full_prompt=True, prefixes=None,
             swap_us=None, log=None, *, asynchronous=False, clients=None, overhead_us=0):
    """Run all requests in time and return their Schedule.

    requests             Requests, n of them
    arrivals_us          open loop: when the clients send them, n times in any order (None: all at 0)
    clients              closed loop: so many clients, each sends the next of the list when its last token is there
                         (with arrivals_us: not before it is due; a gateway that lets so many through)
    overhead_us          from the client to the scheduler
    step_us              (prefill chunks, requests that decode, their tokens in the cache before) -> time of one step
    kv_blocks            blocks in the cache, of block_size tokens each
    max_num_batched_tokens  the budget of a step
    chunked_prefill      False: a prompt is scheduled whole or not at all
    reserve_full_prompt  admit only a request whose whole length fits into free blocks, even if the step takes a chunk
    prefixes             prefix caching: for each request [(name, tokens), ...], shortest first, by which it begins like
                         any other with the same entry ([]: like nobody). None: caching is off
    swap_us              tokens moved -> time: the cache of a preempted request goes to host memory and comes back,
                         instead of being computed again. Not together with prefixes
    log                  a list that gets a LogLine for each step
    asynchronous         a step is scheduled before the results of the one before are there

    Raises BadInput for a request that could never fit.
    """
    refuse_what_cannot_fit(requests, max_num_seqs, kv_blocks, block_size, max_num_batched_tokens, chunked_prefill)
    n = len(requests.prompt_tokens)
    asked = [Request(*request) for request in zip(range(n), *requests, prefixes or [()] * n)]
    scheduler = Scheduler(max_num_seqs, kv_blocks, block_size, max_num_batched_tokens, chunked_prefill,
                          reserve_full_prompt, prefixes is not None, swap_us is not None)
    overhead_us = round(overhead_us)
    issued_us = list(arrivals_us or [0] * n)
    unsent = deque(sorted(range(n), key=issued_us.__getitem__))  # positions; equal times keep the order of the list
    on_the_way = deque(unsent.popleft() for _ in range(min(clients or n, n)))
    admitted_us, first_token_us, finished_us, last_us = ([None] * n for _ in range(4))
    in_flight = deque()  # (Step, its start, its end)
    now_us = end_us = iterations = peak_running = preemptions = 0
    gaps_us = Counter()

    while True:
        while on_the_way and issued_us[on_the_way[0]] + overhead_us <= now_us:
            scheduler.waiting.append(asked[on_the_way.popleft()])
        if scheduler.waiting or scheduler.running:
            step = scheduler.schedule()
            start_us = max(end_us, now_us)
            end_us = start_us + duration_us(step, step_us, swap_us)
            in_flight.append((step, start_us, end_us))
            iterations += 1
            preemptions += len(step.preempted)
            peak_running = max(peak_running, len(scheduler.running))
            if asynchronous and len(in_flight) < 2:
                continue
        elif not in_flight and not on_the_way:
            break
        elif not in_flight:
            now_us = issued_us[on_the_way[0]] + overhead_us
            continue

        # The oldest step is over.
        done, done_start_us, now_us = in_flight.popleft()
        finished = scheduler.update(done)
        for chunk in done.chunks:
            position = chunk.request.position
            if admitted_us[position] is None:
                admitted_us[position] = done_start_us
            if chunk.emits and first_token_us[position] is None:
                first_token_us[position] = now_us
            elif chunk.emits:
                gaps_us[now_us - last_us[position]] += 1
            if chunk.emits:
                last_us[position] = now_us
        for position in finished:
            finished_us[position] = now_us
            if unsent:
                issued_us[unsent[0]] = max(now_us, issued_us[unsent[0]])
                on_the_way.append(unsent.popleft())
        if log is not None:
            scheduled = [(chunk.request.position, chunk.tokens) for chunk in done.chunks]
            log.append(LogLine(done_start_us, now_us, scheduled, done.preempted, finished, done.free))

    return Schedule(admitted_us, first_token_us, finished_us, iterations, peak_running, gaps_us,
                    preemptions, scheduler.resumed_tokens, scheduler.hit_tokens, issued_us)


def percentile_of_counts(counts, percent):
    """The percentile of the values of a {value: how many times}, without a list of them; None of none.

    Interpolated as common.percentile does it; percent may have one decimal.
    """
    values, total = sorted(counts), sum(counts.values())
    if not total:
        return None
    ends = list(accumulate(counts[value] for value in values))
    rank, part = divmod(round(10 * percent) * (total - 1), 1000)
    low, high = (values[bisect_right(ends, min(position, total - 1))] for position in (rank, rank + 1))
    return (low * (1000 - part) + high * part) / 1000
