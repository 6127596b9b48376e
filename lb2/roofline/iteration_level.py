"""What is gained if the scheduler decides before every iteration, and memory is reserved by need?

Iteration-level scheduling (Orca, OSDI 2022, Algorithm 1) is continuous.py's loop with a memory. A
request reserves what it needs when it is admitted, and gives it back when it has ended. It is
admitted only if its need fits beside the reservations of those that run. If the first in line does
not fit, those behind it wait too. The caller says how much each request needs: the model's longest
sequence, for example, or its prompt and its declared output. New prompts (prefill) and rows that
already run (decode) share an iteration.

Two requests of (prompt, output) tokens = (3, 2) and (4, 3) need 5 and 7 tokens of a memory of 10.
An iteration lasts 10 ms, and 1 ms more for each token that is in the cache at its end:

     0 ms  admit the first, prefill 3      -> 13 ms   reserved 5, used 3; the second does not fit
    13 ms  decode                          -> 27 ms   reserved 5, used 4; the first has ended
    27 ms  admit the second, prefill 4     -> 41 ms   reserved 7, used 4
    41 ms  decode twice                    -> 72 ms   reserved 7, used 5 and then 6
"""

from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from common import BadInput, Schedule
from roofline import model as orca_model
from roofline.model import CAPACITY_TOKENS, iterations_until, time_and_load


class Outcome(NamedTuple):
    """A schedule, and how much memory it took on average while anything ran."""

    schedule: Schedule
    mean_reserved_tokens: float
    mean_used_tokens: float
    deadlock_us: float | None = None  # when nothing could go on; requests that had not ended have None as finish


def schedule(requests, slots, arrivals_us, needs, capacity_tokens=CAPACITY_TOKENS, roofline=orca_model.roofline):
    """Run all requests through slots and memory and return an Outcome. It jumps from event to event.

    requests: Requests, n of them; slots: int >= 1; arrivals_us: n times >= 0, in any order; needs:
    n token counts, reserved from admission to the last token; roofline: see orca_model.roofline. If
    all times are whole numbers, the result is exact. Raises BadInput if a request can never fit.
    """
    if max(needs) > capacity_tokens:
        position = needs.index(max(needs))
        raise BadInput(f"record {position}: needs {needs[position]} tokens of cache, and there are {capacity_tokens}")
    prompt_tokens, output_tokens = requests
    n = len(prompt_tokens)
    queue = sorted(range(n), key=arrivals_us.__getitem__)  # positions; equal arrivals keep list order
    next_us = [arrivals_us[position] for position in queue] + [inf]  # nobody comes after the last
    admitted_us, first_token_us, finished_us = [0] * n, [0] * n, [0] * n
    running = []  # heap of (iteration before which it leaves, position)
    now_us = iteration = peak_running = head = 0
    busy_us = reserved_tokens = cached_tokens = reserved_token_us = cached_token_us = 0
    while head < n or running:
        if not running:
            now_us = max(now_us, next_us[head])
        rows = len(running)
        first_new, new_tokens, new_squares = head, 0, 0
        while (
            next_us[head] <= now_us
            and len(running) < slots
            and reserved_tokens + needs[queue[head]] <= capacity_tokens
        ):
            position = queue[head]
            admitted_us[position] = now_us
            reserved_tokens += needs[position]
            new_tokens += prompt_tokens[position]
            new_squares += prompt_tokens[position] ** 2
            heappush(running, (iteration + output_tokens[position], position))
            head += 1
        sides = roofline(new_tokens, new_squares, rows, cached_tokens)
        passes = running[0][0] - iteration  # nothing changes until the next sequence leaves ...
        if new_tokens:
            passes = 1  # ... or the new prompts are done ...
        elif next_us[head] < inf and rows < slots and reserved_tokens + needs[queue[head]] <= capacity_tokens:
            passes = iterations_until(sides, next_us[head] - now_us, passes)  # ... or the next can join
        pass_us, token_us = time_and_load(sides, passes, cached_tokens + new_tokens + rows, rows)
        cached_token_us += token_us
        reserved_token_us += pass_us * reserved_tokens
        busy_us += pass_us
        now_us += pass_us
        iteration += passes
        cached_tokens += new_tokens + rows * passes
        peak_running = max(peak_running, len(running))
        for position in queue[first_new:head]:
            first_token_us[position] = now_us
        while running and running[0][0] == iteration:
            position = heappop(running)[1]
            finished_us[position] = now_us
            reserved_tokens -= needs[position]
            cached_tokens -= prompt_tokens[position] + output_tokens[position] - 1  # its last token was not written
    schedule = Schedule(admitted_us, first_token_us, finished_us, iteration, peak_running)
    return Outcome(schedule, reserved_token_us / busy_us, cached_token_us / busy_us)
