"""Which requests get tokens in this step, and who loses memory, when the KV cache is handed out a block at a time?

Continuous batching with paged KV (vLLM): a request takes a block of the cache only when a token falls into it, so
many more requests run than if each had reserved its longest possible answer. The price is that memory can run out in
the middle: then the request admitted last is preempted, loses its blocks, and goes to the front of the waiting line,
to be computed again. A step has a token budget; a prompt that does not fit into it is prefilled in chunks. Full blocks
remember their content, so that a prompt that begins like an earlier one need not be computed again.

The skeleton is continuous.py's: arrivals, admission, one iteration, departures. The decisions are those of vLLM 0.33.0's
synchronous first-come-first-served scheduler, step by step (--replay shows it). Not covered: asynchronous scheduling,
priorities, speculative decoding, LoRA, sliding windows, several GPUs.

    python3 lb2/paged.py --replay fixtures/vllm/cases.json        writes nothing; one line a recorded case

Words, each with an example: block_size 16 tokens; computed 40 = tokens whose KV is in the cache; length 41 = prompt +
generated tokens so far; a sequence decodes once computed = length - 1; until then it is prefilled, chunk by chunk.
"""

import argparse
import sys
from bisect import bisect_left
from collections import Counter, OrderedDict, deque
from heapq import heappop, heappush
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from command_line import run
from cost_model import Costs
from inputs import BadInput

CASES_FILE = Path(__file__).resolve().parent.parent / "fixtures" / "vllm" / "cases.json"
UNLIMITED = 1 << 60  # blocks or tokens: more than any run needs


class Chunk(NamedTuple):
    """Prompt tokens (or tokens to recompute) of one request, scheduled in one step."""

    tokens: int
    cached: int  # tokens of the same request that are in the cache already
    last: bool  # nothing is left to prefill: the step ends with the request's next token


class Step(NamedTuple):
    """What was decided in one step, in the scheduler's order."""

    start_us: int
    end_us: int
    scheduled: list  # (position, tokens)
    preempted: list  # positions
    finished: list  # positions, at the end of the step
    free: int  # blocks, right after scheduling


class Schedule(NamedTuple):
    """As common.Schedule, for one preempted request or none; and what paging adds."""

    admitted_us: list  # start of the step that first admitted the request
    first_token_us: list
    finished_us: list
    iterations: int
    peak_running: int
    gaps_us: Counter  # inter-token latency -> how many times, over all requests
    preemptions: int
    resumed_tokens: int  # computed tokens at preemption, summed
    hit_tokens: int  # prompt tokens found in the cache at admission, summed


def step_of(costs):
    """The time of a step by a server's Costs: its prefill, and one pass over all that emit a token."""

    def step_us(chunks, rows, cached):
        return costs.prefill_us(sum(chunk.tokens for chunk in chunks)) + costs.decode_us(
            rows + sum(chunk.last for chunk in chunks)
        )

    return step_us


# --- memory -------------------------------------------------------------------------------------------------------


class Block:
    """A block of the cache that remembers its content; blocks that do not are only counted."""

    def __init__(self, content):
        self.content = content
        self.users = 1


class Blocks:
    """The pool. Its free list is `blank` blocks without content, then `idle` ones in the order they are overwritten.

    (A freed block without content goes to the head of the list and one with content to its tail, and blocks are taken
    from the head: so the list always has this form, and blocks without content need no identity.)
    """

    def __init__(self, count, block_size, prefixes):
        self.block_size = block_size
        self.prefixes = prefixes  # None: nothing is remembered
        self.blank = count
        self.idle = OrderedDict()  # free blocks with content -> None
        self.cached = {}  # content -> the blocks that hold it, the oldest first
        self.held = {}  # position -> its blocks with content, from the first token on

    # Questions.

    def free(self):
        """Blocks that can be taken."""
        return self.blank + len(self.idle)

    def blocks(self, tokens):
        """Blocks that hold this many tokens."""
        return -(-tokens // self.block_size)

    def hits(self, position, length):
        """The cached blocks a request of this length can begin with; one token at least is left to compute."""
        found = []
        if self.prefixes is not None:
            for index in range((length - 1) // self.block_size):
                holders = self.cached.get(self.content(position, index))
                if not holders:
                    break
                found.append(next(iter(holders)))
        return found

    def takes(self, hits, tokens):
        """How many free blocks it takes to hold this many tokens, the hits among them."""
        return self.blocks(tokens) - sum(block.users > 0 for block in hits)

    def content(self, position, index):
        """What block `index` of a request holds: part of a shared prefix, or something that is the request's alone."""
        end = (index + 1) * self.block_size
        prefixes = self.prefixes[position]
        at = bisect_left(prefixes, end, key=itemgetter(1))
        if at < len(prefixes):
            return "prefix", prefixes[at][0], index
        return "request", position, index

    # Acts.

    def take(self, count):
        """Take free blocks from the head of the list; what they held is forgotten."""
        blank = min(count, self.blank)
        self.blank -= blank
        for _ in range(count - blank):
            block, _ = self.idle.popitem(last=False)
            holders = self.cached[block.content]
            del holders[block]
            if not holders:
                del self.cached[block.content]

    def share(self, position, hits):
        """Give a request the cached blocks that it begins with; those that were free no longer are."""
        for block in hits:
            if block.users == 0:
                del self.idle[block]
            block.users += 1
        self.held[position] = list(hits)

    def remember(self, position, computed):
        """Register the content of every block that is full."""
        if self.prefixes is not None:
            held = self.held.setdefault(position, [])
            for index in range(len(held), computed // self.block_size):
                block = Block(self.content(position, index))
                self.cached.setdefault(block.content, {})[block] = None
                held.append(block)

    def release(self, position, computed):
        """Free a request's blocks, from the last to the first.

        Blocks of generated tokens are registered only here: their content is the request's own, so nobody could have
        asked for it before.
        """
        self.remember(position, computed)
        held = self.held.pop(position, [])
        self.blank += self.blocks(computed) - len(held)
        for block in reversed(held):
            block.users -= 1
            if block.users == 0:
                self.idle[block] = None


# --- sequences past their prompt ----------------------------------------------------------------------------------


class Decoding:
    """The running sequences that decode, in admission order. Each takes one token a step, so none has to be visited.

    At the start of step s a sequence has s - birth tokens in the cache; it needs a block when that is a multiple of
    block_size, which is when s and birth leave the same remainder.
    """

    def __init__(self, block_size):
        self.block_size = block_size
        self.birth = {}  # position -> birth, in admission order
        self.due = [0] * block_size  # remainder -> how many sequences need a block in steps that leave it
        self.born = 0  # sum of the births
        self.entry = {}  # position -> its entry in ends; another one of it is out of date
        self.ends = []  # heap of (last step, admission number, position)
        self.admitted = 0

    def __len__(self):
        return len(self.birth)

    def cached_tokens(self, step):
        return len(self.birth) * step - self.born

    def blocks_due(self, step, steps=1):
        """New blocks that this and the following steps need, if every sequence gets its token in each."""
        turns, rest = divmod(steps, self.block_size)
        return turns * len(self.birth) + sum(self.due[(step + i) % self.block_size] for i in range(rest))

    def next_end(self):
        """The step in which the next sequence emits its last token."""
        while self.entry.get(self.ends[0][2]) is not self.ends[0]:
            heappop(self.ends)
        return self.ends[0][0]

    def add(self, position, birth, last_step):
        """A request has its prompt in the cache: it decodes from the next step on, after all that are there."""
        self.birth[position] = birth
        self.due[birth % self.block_size] += 1
        self.born += birth
        self.entry[position] = (last_step, self.admitted, position)
        heappush(self.ends, self.entry[position])
        self.admitted += 1

    def remove(self, position):
        """Take a sequence out, ended or preempted, and return its birth."""
        birth = self.birth.pop(position)
        self.due[birth % self.block_size] -= 1
        self.born -= birth
        del self.entry[position]
        return birth

    def remove_last(self, step):
        """Remove the sequence admitted last: (position, its tokens in the cache)."""
        position = next(reversed(self.birth))
        return position, step - self.remove(position)

    def finish(self, step):
        """Remove the sequences whose last step this is, and return them in admission order."""
        finished = []
        while self.birth and self.next_end() == step:
            finished.append(heappop(self.ends)[2])
            self.remove(finished[-1])
        return finished


# --- the scheduler ------------------------------------------------------------------------------------------------


def refuse_what_cannot_fit(requests, max_num_seqs, kv_blocks, block_size, max_num_batched_tokens, chunked_prefill):
    """Raise BadInput for a limit below 1 and for a request that could wait for ever."""
    limits = {"max_num_seqs": max_num_seqs, "kv_blocks": kv_blocks, "block_size": block_size,
              "max_num_batched_tokens": max_num_batched_tokens}
    for name, limit in limits.items():
        if limit < 1:
            raise BadInput(f"{name} is {limit}: it must be at least 1")
    most = [prompt + output - 1 for prompt, output in zip(*requests)]  # the last token is never written
    blocks = [-(-tokens // block_size) for tokens in most]
    # A request may have to be resumed with all its output if those that can run together do not fit.
    may_preempt = sum(sorted(blocks)[-max_num_seqs:]) > kv_blocks
    for position, prompt in enumerate(requests.prompt_tokens):
        if blocks[position] > kv_blocks:
            raise BadInput(f"request {position} can never fit: it grows to {most[position]} tokens, "
                           f"{blocks[position]} blocks of {block_size}, and the cache has {kv_blocks}")
        tokens = most[position] if may_preempt else prompt
        if not chunked_prefill and tokens > max_num_batched_tokens:
            raise BadInput(f"request {position} can never fit: without chunked prefill {tokens} tokens must fit into "
                           f"one step, and its budget is {max_num_batched_tokens}")


def schedule(requests, max_num_seqs, arrivals_us=None, step_us=step_of(Costs()), kv_blocks=UNLIMITED, block_size=16,
             max_num_batched_tokens=UNLIMITED, chunked_prefill=True, reserve_full_prompt=True, prefixes=None,
             swap_us=None, log=None):
    """Play all requests through a paged KV cache and return their Schedule.

    requests             Requests, n of them
    arrivals_us          n times, in any order (None: all at 0)
    step_us              (chunks, rows that decode, their tokens in the cache) -> time of one step
    kv_blocks            blocks in the cache, of block_size tokens each
    max_num_batched_tokens  the budget of a step
    chunked_prefill      False: a prompt is scheduled whole or not at all
    reserve_full_prompt  admit only a request whose whole length fits into free blocks, even if the step takes a chunk
    prefixes             prefix caching: for each request [(name, tokens), ...], shortest first, by which it begins like
                         any other with the same entry ([]: like nobody). None: caching is off
    swap_us              tokens moved -> time: a preempted request's cache goes to the host and comes back, instead of
                         being computed again. Not together with prefixes
    log                  a list that gets a Step for each step; none is jumped over then, which is also what a step_us
                         needs that depends on the tokens in the cache

    Raises BadInput, a ValueError, for a request that could never fit.
    """
    if swap_us and prefixes is not None:
        raise BadInput("a cache on the host is not searched for prefixes: swap_us or prefixes, not both")
    refuse_what_cannot_fit(requests, max_num_seqs, kv_blocks, block_size, max_num_batched_tokens, chunked_prefill)
    prompt_tokens, output_tokens = requests
    n = len(prompt_tokens)
    arrivals_us = arrivals_us or [0] * n
    queue = sorted(range(n), key=arrivals_us.__getitem__)  # positions; equal arrivals keep list order
    admitted_us, first_token_us, finished_us = [None] * n, [None] * n, [None] * n
    length = list(prompt_tokens)  # prompt + generated tokens, brought up to date when a request is preempted
    kept = [0] * n  # computed tokens of a request whose cache is on the host
    left_us = {}  # position of a request preempted while decoding -> when its last token came
    waiting = deque()
    pool = Blocks(kv_blocks, block_size, prefixes)
    decoding = Decoding(block_size)
    partial, partial_computed = None, 0  # at most one running request is half prefilled, and it was admitted last
    gaps_us = Counter()
    now_us = step = peak_running = head = preemptions = resumed_tokens = hit_tokens = 0

    while head < n or waiting or decoding or partial is not None:
        if not (waiting or decoding or partial is not None):
            now_us = max(now_us, arrivals_us[queue[head]])
        while head < n and arrivals_us[queue[head]] <= now_us:
            waiting.append(queue[head])
            head += 1
        start_us, budget = now_us, max_num_batched_tokens
        chunks, complete, preempted, moved_tokens = [], [], [], 0

        # Running requests first. The budget reaches for all: whoever was admitted got a token in that step, after all
        # the others. Memory may not: then the one admitted last is preempted, until it does. (vLLM asks one by one, and
        # evicts when one finds no block; who is left, and the blocks that are taken, are the same.)
        taken = 0
        while True:
            rows = len(decoding)
            due = decoding.blocks_due(step) - taken
            if due <= pool.free():  # those that decode were admitted before a half-done prompt: they take theirs first
                pool.take(due)
                taken += due
                if partial is None:
                    break
                chunk = min(length[partial] - partial_computed, budget - rows)
                needed = pool.blocks(partial_computed + chunk) - pool.blocks(partial_computed)
                if needed <= pool.free():
                    pool.take(needed)
                    break
            if partial is not None:
                victim, computed, partial = partial, partial_computed, None
            else:
                victim, computed = decoding.remove_last(step)
                length[victim] = computed + 1
                left_us[victim] = start_us
            pool.release(victim, computed)
            waiting.appendleft(victim)
            preempted.append(victim)
            resumed_tokens += computed
            if swap_us:
                kept[victim] = computed
                moved_tokens += computed
        budget -= rows
        served, cached = rows, decoding.cached_tokens(step)
        scheduled = [(position, 1) for position in decoding.birth] if log is not None else []
        if partial is not None:
            budget -= chunk
            chunks.append(Chunk(chunk, partial_computed, partial_computed + chunk == length[partial]))
            scheduled.append((partial, chunk))
            partial_computed += chunk
            pool.remember(partial, partial_computed)
            if chunks[0].last:
                complete.append(partial)
                partial = None

        # Then the waiting ones, in order, until the first that cannot be admitted.
        running = len(decoding) + len(complete) + (partial is not None)
        while waiting and not preempted and budget > 0 and running < max_num_seqs:
            position = waiting[0]
            hits = pool.hits(position, length[position])
            computed = kept[position] or len(hits) * block_size
            tokens = min(length[position] - computed, budget)
            if not chunked_prefill and tokens < length[position] - computed:
                break
            if reserve_full_prompt and pool.takes(hits, length[position]) > pool.free():
                break
            if pool.takes(hits, computed + tokens) > pool.free():
                break
            waiting.popleft()
            running += 1
            budget -= tokens
            pool.share(position, hits)
            pool.take(pool.blocks(computed + tokens) - len(hits))
            pool.remember(position, computed + tokens)
            hit_tokens += len(hits) * block_size
            moved_tokens += kept[position]
            if admitted_us[position] is None:
                admitted_us[position] = start_us
            if kept[position] >= prompt_tokens[position]:  # back from the host, it decodes where it was
                rows += 1
                cached += computed
            else:
                chunks.append(Chunk(tokens, computed, computed + tokens == length[position]))
            kept[position] = 0
            scheduled.append((position, tokens))
            if computed + tokens == length[position]:
                complete.append(position)
            else:
                partial, partial_computed = position, computed + tokens
        peak_running = max(peak_running, running)
        free = pool.free()

        # One iteration: every sequence that was served and has nothing left to prefill emits a token.
        now_us += step_us(chunks, rows, cached)
        if moved_tokens:
            now_us += swap_us(moved_tokens)
        gaps_us[now_us - start_us] += served
        for position in complete:
            if first_token_us[position] is None:
                first_token_us[position] = now_us
            elif position in left_us:
                gaps_us[now_us - left_us.pop(position)] += 1
            birth = step + 1 - length[position]
            decoding.add(position, birth, birth + prompt_tokens[position] + output_tokens[position] - 2)
        end_us = now_us
        step += 1

        # Nothing changes until the next sequence ends, the next arrival can be admitted, a prompt has its last chunk, or
        # memory may run out: a row takes a block in as many steps as a block has tokens, and the first one at once.
        rows = len(decoding)
        chunk = 0 if partial is None else max_num_batched_tokens - rows
        stuck = waiting and not chunks and (reserve_full_prompt or prefixes is None)  # lost hits could let it in
        blocked = running == max_num_seqs or chunk or stuck  # the waiting ones
        if log is None and not preempted and rows + chunk:
            steps = max(0, pool.free() - rows - 1) * block_size // (rows + chunk)
            if rows:
                steps = min(steps, decoding.next_end() + 1 - step)
            if chunk:
                steps = min(steps, (length[partial] - partial_computed - 1) // chunk)
            pass_us = step_us([Chunk(chunk, partial_computed, False)] if chunk else [], rows, 0)
            if not blocked and (waiting or head < n):
                soon_us = now_us if waiting else arrivals_us[queue[head]]
                steps = min(steps, max(0, -((now_us - soon_us) // pass_us)))
            if steps > 0:
                pool.take(decoding.blocks_due(step, steps))
                if chunk:
                    pool.take(pool.blocks(partial_computed + steps * chunk) - pool.blocks(partial_computed))
                    partial_computed += steps * chunk
                    pool.remember(partial, partial_computed)
                gaps_us[pass_us] += rows * steps
                now_us += steps * pass_us
                step += steps

        finished = decoding.finish(step - 1)
        for position in finished:
            finished_us[position] = now_us
            pool.release(position, prompt_tokens[position] + output_tokens[position] - 1)
        preemptions += len(preempted)
        if log is not None:
            log.append(Step(start_us, end_us, scheduled, preempted, finished, free))

    gaps_us += Counter()  # without the zeros
    return Schedule(admitted_us, first_token_us, finished_us, step, peak_running, gaps_us,
                    preemptions, resumed_tokens, hit_tokens)


def main():
    from paged_replay import replay  # here, because paged_replay.py takes its scheduler from this file

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replay", type=Path, default=CASES_FILE, metavar="FILE",
                        help="recorded cases, logs/NAME.log.gz beside them (default: fixtures/vllm/cases.json)")
    sys.exit(1 if replay(parser.parse_args().replay) else 0)


if __name__ == "__main__":
    run(main)
