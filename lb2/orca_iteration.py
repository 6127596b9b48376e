"""What if the scheduler decided before every iteration, and a request held only the memory that it may need?

Iteration-level scheduling (Orca, OSDI 2022, Algorithm 1): continuous.py's loop with a memory. A request is admitted
only if what it needs, reserved up front, fits beside the reservations of those that run; the head of the line blocks
the rest. How much each needs is a list that the caller hands in: the model's longest sequence, or prompt + declared
output, for example. New prompts and decoding rows share one iteration.

Two requests of (prompt, output) tokens = (3, 2) and (4, 3), which need 5 and 7 of a memory of 10 tokens; an iteration
lasts 10 ms + 1 ms for each token in the cache at its end:

     0 ms  admit the first, prefill 3      -> 13 ms   reserved 5, used 3; the second does not fit
    13 ms  decode                          -> 27 ms   reserved 5, used 4; the first has ended
    27 ms  admit the second, prefill 4     -> 41 ms   reserved 7, used 4
    41 ms  decode twice                    -> 72 ms   reserved 7, used 5 and then 6
"""

from heapq import heappop, heappush
from typing import NamedTuple

import orca_model
from common import Schedule
from inputs import BadInput
from orca_model import CAPACITY_TOKENS, duration, iterations_until, token_time


class Outcome(NamedTuple):
    """A schedule and what became of the memory: averages over the time in which anything ran."""

    schedule: Schedule
    mean_reserved_tokens: float
    mean_used_tokens: float
    deadlock_us: float | None = None  # when nothing could go on; the schedule of what had not ended by then holds None


def schedule(requests, slots, arrivals_us, needs, capacity_tokens=CAPACITY_TOKENS, roofline=orca_model.roofline):
    """Play all requests through slots and memory and return an Outcome; jumps from event to event.

    requests: Requests, n of them; slots: int >= 1; arrivals_us: n times >= 0, in any order; needs: n token counts that
    are reserved from admission to the last token. roofline: see orca_model.roofline. Raises BadInput if a request could
    never fit. Whole numbers in, whole numbers out: the schedule is then exact.
    """
    if max(needs) > capacity_tokens:
        position = needs.index(max(needs))
        raise BadInput(f"record {position}: needs {needs[position]} tokens of cache, and there are {capacity_tokens}")
    prompt_tokens, output_tokens = requests
    n = len(prompt_tokens)
    queue = sorted(range(n), key=arrivals_us.__getitem__)  # positions; equal arrivals keep list order
    admitted_us, first_token_us, finished_us = [0] * n, [0] * n, [0] * n
    running = []  # heap of (iteration before which it leaves, position)
    now_us = iteration = peak_running = head = 0
    busy_us = reserved_tokens = cached_tokens = reserved_token_us = cached_token_us = 0
    while head < n or running:
        if not running:
            now_us = max(now_us, arrivals_us[queue[head]])
        rows = len(running)
        free = slots - rows
        first_new, new_tokens, new_squares = head, 0, 0
        while (
            free
            and head < n
            and arrivals_us[queue[head]] <= now_us
            and reserved_tokens + needs[queue[head]] <= capacity_tokens
        ):
            position = queue[head]
            admitted_us[position] = now_us
            reserved_tokens += needs[position]
            new_tokens += prompt_tokens[position]
            new_squares += prompt_tokens[position] ** 2
            heappush(running, (iteration + output_tokens[position], position))
            head += 1
            free -= 1
        peak_running = max(peak_running, len(running))
        sides = roofline(new_tokens, new_squares, rows, cached_tokens)
        passes = running[0][0] - iteration  # nothing changes until the next sequence leaves ...
        if head > first_new:
            passes = 1  # ... or the new prompts are done ...
        elif free and head < n and reserved_tokens + needs[queue[head]] <= capacity_tokens:
            passes = iterations_until(sides, arrivals_us[queue[head]] - now_us, passes)  # ... or the next can join
        pass_us = duration(sides, passes)
        cached_token_us += token_time(sides, passes, cached_tokens + new_tokens + rows, rows)
        reserved_token_us += pass_us * reserved_tokens
        busy_us += pass_us
        now_us += pass_us
        iteration += passes
        cached_tokens += new_tokens + rows * passes
        for position in queue[first_new:head]:
            first_token_us[position] = now_us
        while running and running[0][0] == iteration:
            position = heappop(running)[1]
            finished_us[position] = now_us
            reserved_tokens -= needs[position]
            cached_tokens -= prompt_tokens[position] + output_tokens[position] - 1  # its last token was not written
    played = Schedule(admitted_us, first_token_us, finished_us, iteration, peak_running)
    return Outcome(played, reserved_token_us / busy_us, cached_token_us / busy_us)
