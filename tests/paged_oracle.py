"""The rules of the paged scheduler, played one step and one request at a time, with no clever state.

Every block has a number, the free list is a list, every running request is visited in every step. It follows SPEC's nine
rules literally, and knows nothing of lb2/paged.py but the shape of a request.
"""

from typing import NamedTuple

PREFILL_US, PASS_US = 50, 8_000
ALL = 1 << 60


class Played(NamedTuple):
    admitted_us: list
    first_token_us: list
    finished_us: list
    iterations: int
    peak_running: int
    gaps_us: dict
    preemptions: int
    resumed_tokens: int
    hit_tokens: int
    steps: list  # (start, scheduled, preempted, finished, free)
    held: list  # per step, right after scheduling: request -> its block numbers


def lab_us(scheduled_prompt_tokens, emitting):
    return PREFILL_US * scheduled_prompt_tokens + PASS_US


def play(requests, max_num_seqs, arrivals_us, kv_blocks=None, block_size=16, budget=ALL, chunked=True, reserve=True,
         prefixes=None, swap_us=None, step_us=lab_us):
    n = len(requests.prompt_tokens)
    if kv_blocks is None:  # enough for everybody, one after the other: no block is taken twice
        kv_blocks = sum(-(-(prompt + output) // block_size) for prompt, output in zip(*requests))
    free_list = list(range(kv_blocks))
    content_of = {}  # block -> content
    registered = []  # blocks with content, the oldest registration first
    users = {}  # block -> how many requests hold it
    held = [[] for _ in range(n)]
    computed, generated, until = [0] * n, [0] * n, list(requests.prompt_tokens)
    saved, emitted_us = [0] * n, [[] for _ in range(n)]
    admitted = [None] * n
    to_come = sorted(range(n), key=lambda i: (arrivals_us[i], i))
    waiting, running = [], []
    now = resumed = hit_total = preemptions = peak = 0
    steps, holdings = [], []

    def content(i, index):
        for name, tokens in prefixes[i]:
            if (index + 1) * block_size <= tokens:
                return ("shared", name, index)
        return ("own", i, index)

    def grab(i):
        block = free_list.pop(0)
        if block in content_of:
            del content_of[block]
            registered.remove(block)
        users[block] = 1
        held[i].append(block)

    def register(i, tokens):
        if prefixes is not None:
            for index in range(tokens // block_size):
                if held[i][index] not in content_of:
                    content_of[held[i][index]] = content(i, index)
                    registered.append(held[i][index])

    def let_go(i):
        for block in reversed(held[i]):
            users[block] -= 1
            if users[block] == 0:
                if block in content_of:
                    free_list.append(block)
                else:
                    free_list.insert(0, block)
        held[i] = []

    def cached(i):
        found = []
        length = requests.prompt_tokens[i] + generated[i]
        for index in range((length - 1) // block_size) if prefixes is not None else ():
            wanted = content(i, index)
            holders = [block for block in registered if content_of[block] == wanted]
            if not holders:
                break
            found.append(holders[0])
        return found

    def ceil(tokens):
        return -(-tokens // block_size)

    while to_come or waiting or running:
        if not waiting and not running:
            now = max(now, arrivals_us[to_come[0]])
        while to_come and arrivals_us[to_come[0]] <= now:
            waiting.append(to_come.pop(0))
        left, scheduled, preempted, moved = budget, [], [], 0
        for i in list(running):
            if left == 0:
                break
            if i not in running:
                continue
            tokens = min(requests.prompt_tokens[i] + generated[i] - computed[i], left)
            needed = ceil(computed[i] + tokens) - len(held[i])
            while needed > len(free_list):
                victim = running.pop()
                resumed += computed[victim]
                if swap_us:
                    saved[victim] = computed[victim]
                    moved += computed[victim]
                computed[victim] = 0
                let_go(victim)
                waiting.insert(0, victim)
                preempted.append(victim)
                if victim == i:
                    break
            if i in preempted:
                break
            for _ in range(needed):
                grab(i)
            register(i, computed[i] + tokens)
            left -= tokens
            scheduled.append((i, tokens))
        while waiting and not preempted and left > 0 and len(running) < max_num_seqs:
            i = waiting[0]
            length = requests.prompt_tokens[i] + generated[i]
            hits = cached(i)
            hit = saved[i] or len(hits) * block_size
            tokens = min(length - hit, left)
            if not chunked and length - hit > left:
                break
            in_free_list = sum(block in free_list for block in hits)
            if reserve and ceil(length) - len(hits) + in_free_list > len(free_list):
                break
            if ceil(hit + tokens) - len(hits) + in_free_list > len(free_list):
                break
            waiting.pop(0)
            running.append(i)
            if admitted[i] is None:
                admitted[i] = now
            for block in hits:
                if block in free_list:
                    free_list.remove(block)
                users[block] = users.get(block, 0) + 1
                held[i].append(block)
            while len(held[i]) < ceil(hit + tokens):
                grab(i)
            register(i, hit + tokens)
            hit_total += len(hits) * block_size
            moved += saved[i]
            computed[i] = hit
            if (
                saved[i] < requests.prompt_tokens[i]
            ):  # a decoding request that comes back from the host prefills nothing
                until[i] = length
            saved[i] = 0
            left -= tokens
            scheduled.append((i, tokens))
        peak = max(peak, len(running))
        preemptions += len(preempted)
        free = len(free_list)
        holdings.append({i: list(held[i]) for i in running})
        start, prompt_tokens, emitting = now, 0, []
        for i, tokens in scheduled:
            prompt_tokens += max(0, min(until[i] - computed[i], tokens))
            computed[i] += tokens
            if computed[i] == requests.prompt_tokens[i] + generated[i]:
                emitting.append(i)
        now += step_us(prompt_tokens, len(emitting)) + (swap_us(moved) if moved else 0)
        finished = []
        for i in running[:]:
            if i in emitting:
                generated[i] += 1
                emitted_us[i].append(now)
                if generated[i] == requests.output_tokens[i]:
                    finished.append(i)
        for i in finished:
            running.remove(i)
            let_go(i)
        steps.append((start, scheduled, preempted, finished, free))
    gaps = {}
    for times in emitted_us:
        for before, after in zip(times, times[1:]):
            gaps[after - before] = gaps.get(after - before, 0) + 1
    first, last = [times[0] for times in emitted_us], [times[-1] for times in emitted_us]
    return Played(admitted, first, last, len(steps), peak, gaps, preemptions, resumed, hit_total, steps, holdings)
