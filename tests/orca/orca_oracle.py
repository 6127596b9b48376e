"""The second lab, played row by row and iteration by iteration, from the definitions: no jumps, no running sums.

It has the three schedulers of orca_request, orca_iteration and orca_stall, with the same arguments, except one: the
time of an iteration is a function of its prompts and of what each decoding row has in the cache. That function is
written out here, so that the model is checked, too.
"""

from typing import NamedTuple


def iteration_us(prompts, cached):
    """SPEC's roofline of one iteration. prompts: lengths prefilled in it; cached: tokens of each decoding row."""
    parameters = 12 * 40 * 5120**2 + 50257 * 5120
    flop = 0
    tokens_moved = 0
    for prompt in prompts:
        flop += 2 * parameters * prompt + 4 * 40 * 5120 * prompt**2 / 2
        tokens_moved += prompt
    for tokens in cached:
        flop += 2 * parameters + 4 * 40 * 5120 * tokens
        tokens_moved += tokens + 1
    seconds = max(flop / (0.6 * 312e12), (2 * parameters + 819200 * tokens_moved) / (0.8 * 1555e9)) + 0.001
    return seconds * 1e6


def per_token(prompt_tokens, prompt_squares, rows, cached_tokens):
    """Invented costs, so that times can be told by hand: 10, and 1 for every token in the cache after the iteration."""
    return 0, 0, 10 + cached_tokens + rows + prompt_tokens, rows


class Played(NamedTuple):
    admitted_us: list
    first_token_us: list
    finished_us: list
    iterations: int
    peak_running: int
    mean_reserved_tokens: float = None
    mean_used_tokens: float = None
    deadlock_us: float = None
    computed_positions: int = None
    stalls: int = 0  # rows that found no room for their token, summed over the iterations


class Row:
    """A running request: what it needs, what it has written to the cache, and how many tokens it still has to emit."""

    def __init__(self, position, prompt, output, need):
        self.position, self.need, self.prompt, self.written, self.left = position, need, prompt, 0, output


def play_requests(requests, slots, arrivals_us, iteration_us=iteration_us):
    """Request level: batch after batch, every row of it in every iteration."""
    n = len(requests.prompt_tokens)
    admitted, first, finished = [None] * n, [None] * n, [None] * n
    waiting = list(range(n))
    now = iterations = peak = computed = 0
    while waiting:
        now = max(now, arrivals_us[waiting[0]])
        batch = []
        while waiting and len(batch) < slots and arrivals_us[waiting[0]] <= now:
            batch.append(waiting.pop(0))
        longest = max(requests.prompt_tokens[i] for i in batch)
        most = max(requests.output_tokens[i] for i in batch)
        for i in batch:
            admitted[i] = now
        now += iteration_us([longest] * len(batch), [])
        computed += longest * len(batch)
        for i in batch:
            first[i] = now
        cached = [longest] * len(batch)
        for _ in range(most - 1):
            now += iteration_us([], cached)
            for row in range(len(batch)):
                cached[row] += 1
                computed += 1
        for i in batch:
            finished[i] = now
        iterations += most
        peak = max(peak, len(batch))
    return Played(admitted, first, finished, iterations, peak, computed_positions=computed)


def play_iterations(requests, slots, arrivals_us, needs, capacity_tokens=12597, iteration_us=iteration_us):
    """Iteration level. needs: tokens reserved by each request; None: nothing is reserved, and rows may stall."""
    n = len(requests.prompt_tokens)
    admitted, first, finished = [None] * n, [None] * n, [None] * n
    waiting = sorted(range(n), key=lambda i: (arrivals_us[i], i))
    running = []
    steps = []  # of each iteration: start, end, reserved and used tokens, read before its releases
    now = peak = stalls = 0
    deadlock = None
    while waiting or running:
        if not running:
            now = max(now, arrivals_us[waiting[0]])
        left = capacity_tokens - sum(row.written if needs is None else row.need for row in running)
        moving = []
        for row in running:
            if needs is not None:
                moving.append(row)
            elif left > 0:
                left -= 1
                moving.append(row)
        new = []
        while waiting and len(running) + len(new) < slots and arrivals_us[waiting[0]] <= now:
            i = waiting[0]
            need = requests.prompt_tokens[i] if needs is None else needs[i]
            if need > left:
                break
            left -= need
            new.append(Row(i, requests.prompt_tokens[i], requests.output_tokens[i], need))
            waiting.pop(0)
        if running and not moving and not new:
            deadlock = now
            break
        stalls += len(running) - len(moving)
        start = now
        now += iteration_us([row.prompt for row in new], [row.written for row in moving])
        for row in new:
            admitted[row.position], first[row.position] = start, now
            row.written = row.prompt
            row.left -= 1
        for row in moving:
            row.written += 1
            row.left -= 1
        running += new
        peak = max(peak, len(running))
        used = sum(row.written for row in running)
        reserved = used if needs is None else sum(row.need for row in running)
        steps.append((start, now, reserved, used))
        for row in running:
            if row.left == 0:
                finished[row.position] = now
        running = [row for row in running if row.left > 0]
    busy = sum(end - start for start, end, _, _ in steps)
    mean_reserved = sum((end - start) * reserved for start, end, reserved, _ in steps) / busy
    mean_used = sum((end - start) * used for start, end, _, used in steps) / busy
    return Played(admitted, first, finished, len(steps), peak, mean_reserved, mean_used, deadlock, stalls=stalls)
