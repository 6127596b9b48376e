"""What happens if nothing is reserved, and a request takes memory only when it writes?

This is the loop of roofline/iteration_level.py, with what is written in place of what is reserved. More
requests fit. But a running request may find no room for its next token. Then it stalls: it keeps
what it holds, and tries again in the next iteration. If all of them stall, no memory will ever
become free: a deadlock. The running rows take their token first, in the order of admission. Then
requests that have arrived are admitted, as long as their whole prompt fits into what is left.

Two requests of (prompt, output) tokens = (2, 3) write 4 tokens each before they end. The memory
holds 6. An iteration lasts 10 ms, and 1 ms more for each token that is in the cache at its end:

     0 ms  admit both, prefill 2 x 2     -> 14 ms   4 of 6 written
    14 ms  decode both                   -> 30 ms   6 of 6 written, and each lacks one
    30 ms  both stall: deadlock
"""

from math import inf

from common import BadInput, Schedule
from roofline import model as orca_model
from roofline.iteration_level import Outcome
from roofline.model import CAPACITY_TOKENS, iterations_until, time_and_load


def schedule(requests, slots, arrivals_us, capacity_tokens=CAPACITY_TOKENS, roofline=orca_model.roofline):
    """Run the requests until all have ended or none can go on, and return an Outcome; reserved = used.

    Arguments as in orca_iteration.schedule. Raises BadInput if a request could not fit even alone.
    """
    prompt_tokens, output_tokens = requests
    n = len(prompt_tokens)
    needs = [prompt + output - 1 for prompt, output in zip(prompt_tokens, output_tokens)]  # the last token: not written
    if max(needs) > capacity_tokens:
        position = needs.index(max(needs))
        raise BadInput(f"record {position}: writes {needs[position]} tokens of cache, and there are {capacity_tokens}")
    queue = sorted(range(n), key=arrivals_us.__getitem__)  # positions; equal arrivals keep list order
    next_us = [arrivals_us[position] for position in queue] + [inf]  # nobody comes after the last
    admitted_us, first_token_us, finished_us = [None] * n, [None] * n, [None] * n
    running = []  # in order of admission: [iteration before which it leaves, position]
    now_us = iteration = peak_running = head = 0
    busy_us = cached_tokens = cached_token_us = 0
    deadlock_us = None
    while head < n or running:
        if not running:
            now_us = max(now_us, next_us[head])
        rows = min(len(running), capacity_tokens - cached_tokens)  # those that find room for their token
        stalled = running[rows:]
        free_tokens = capacity_tokens - cached_tokens - rows
        first_new, new_tokens, new_squares = head, 0, 0
        while (
            next_us[head] <= now_us
            and len(running) < slots
            and prompt_tokens[queue[head]] <= free_tokens - new_tokens
        ):
            position = queue[head]
            admitted_us[position] = now_us
            new_tokens += prompt_tokens[position]
            new_squares += prompt_tokens[position] ** 2
            running.append([iteration + output_tokens[position], position])
            head += 1
        if not rows and not new_tokens:
            deadlock_us = now_us
            break
        stalled_tokens = sum(needs[position] - (leaves - iteration) for leaves, position in stalled)
        sides = roofline(new_tokens, new_squares, rows, cached_tokens - stalled_tokens)
        passes = min(running)[0] - iteration  # nothing changes until the next sequence leaves ...
        if new_tokens or stalled:
            passes = 1  # ... or the new prompts are done, or memory is short ...
        else:
            passes = min(passes, 1 + free_tokens // rows)
            free_next = free_tokens - rows  # when the rows have taken their token once more
            if next_us[head] < inf and rows < slots and prompt_tokens[queue[head]] <= free_next:
                passes = iterations_until(sides, next_us[head] - now_us, passes)  # ... or the next can join
        for row in stalled:
            row[0] += 1
        pass_us, token_us = time_and_load(sides, passes, cached_tokens + new_tokens + rows, rows)
        cached_token_us += token_us
        busy_us += pass_us
        now_us += pass_us
        iteration += passes
        cached_tokens += new_tokens + rows * passes
        peak_running = max(peak_running, len(running))
        for position in queue[first_new:head]:
            first_token_us[position] = now_us
        for leaves, position in running:
            if leaves == iteration:
                finished_us[position] = now_us
                cached_tokens -= needs[position]
        running = [row for row in running if row[0] != iteration]
    schedule = Schedule(admitted_us, first_token_us, finished_us, iteration, peak_running)
    return Outcome(schedule, cached_token_us / busy_us, cached_token_us / busy_us, deadlock_us)
