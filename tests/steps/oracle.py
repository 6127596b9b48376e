"""The two schedulers of the first lab played one iteration at a time, with no event jumping and no clever state."""

from typing import NamedTuple

PREFILL_US = 50  # SPEC: 0.05 ms per prompt token; written out here, so that the lab's own constants are checked too
PASS_US = 8_000


class Played(NamedTuple):
    admitted_us: list
    first_token_us: list
    finished_us: list
    iterations: int
    peak_running: int
    batches: list  # per iteration: (start in us, positions that ran, positions that waited at its start)


def play(requests, slots, arrivals_us, refill, prefill_us=lambda n: PREFILL_US * n, pass_us=lambda n: PASS_US):
    """One iteration at a time. refill: "batch" (static) or "iteration" (continuous)."""
    n = len(requests.prompt_tokens)
    waiting = sorted(range(n), key=lambda i: (arrivals_us[i], i))
    left = list(requests.output_tokens)
    admitted, first, finished = [None] * n, [None] * n, [None] * n
    running, batches, now = [], [], 0
    while waiting or running:
        if not running and arrivals_us[waiting[0]] > now:
            now = arrivals_us[waiting[0]]
        start = now
        new = []
        if refill == "iteration" or not running:
            while waiting and len(running) + len(new) < slots and arrivals_us[waiting[0]] <= now:
                new.append(waiting.pop(0))
        running += new
        batches.append((start, list(running), [i for i in waiting if arrivals_us[i] <= start]))
        for i in new:
            admitted[i] = start
        now += prefill_us(sum(requests.prompt_tokens[i] for i in new)) + pass_us(len(running))
        for i in new:
            first[i] = now
        for i in list(running):
            left[i] -= 1
            if left[i] == 0:
                finished[i] = now
                running.remove(i)
    return Played(admitted, first, finished, len(batches), max(len(ran) for _, ran, _ in batches), batches)
