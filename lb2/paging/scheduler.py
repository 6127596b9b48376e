"""Which requests get tokens in this step, and which one loses its memory when there is too little?

A model that answers keeps two vectors, a key and a value, for each token so far: the KV cache.
Prefill puts the tokens of a prompt into it. Then each decode step reads all of it, adds one token
and emits the next. Paging hands this memory out in blocks of 16 tokens, and only when a token
falls into a new block. So many more requests run together than if each reserved its longest
possible answer. The price: memory can run out in the middle. Then the request that was admitted
last is preempted: it gives all its blocks back, goes to the front of the waiting line, and its
tokens are computed again later. A step has a token budget. A prompt that is longer than what is
left of it is prefilled in chunks, step by step. A full block remembers which tokens it holds, so a
prompt that begins like an earlier one need not be computed again (prefix caching).

Two loops make a step: the running requests first, then the waiting ones. They decide what the
first-come-first-served scheduler of vLLM 0.33.0 decides, step by step, synchronous or asynchronous
(paged.py shows it). Asynchronous: a step is decided while the one before it still runs, so up to
two steps have no results yet. A token of theirs counts as generated. What a finished request held
comes back one step later. Not covered: priorities, speculative decoding, LoRA, sliding windows,
several GPUs.

    here                                in vLLM's code
    Blocks                              KVCacheManager and BlockPool
    Blocks.hits                         get_computed_blocks
    Blocks.takes <= Blocks.free         can_fit_full_sequence; allocate_slots gives None where not
    Blocks.take, share, remember        allocate_slots
    Blocks.release                      free
    Scheduler.schedule, update          schedule, update_from_output
    Scheduler.make_room, preempt        the loop in schedule that preempts until allocate_slots serves
    Scheduler.serve                     what schedule notes of a request in its SchedulerOutput

    position 3          which request, counted from 0 in the list of requests
    length 41           prompt and generated tokens of a request, those in flight too
    computed 40         tokens whose KV is in the cache when the scheduled steps are over
    budget 2048         tokens that a step may still compute: max_num_batched_tokens at its start
    chunk 256           tokens that one request computes in one step
    in flight           scheduled, without results yet: the step runs, or waits for the one before
    preempted [3]       requests that lose their blocks in this step

Two requests with prompts of 3 and outputs of 4 tokens; 5 blocks of 2 tokens; 8 ms a step, 0.05 ms
a token of prefill. request:tokens are scheduled, free blocks counted right after scheduling:

    step  scheduled  preempted  free  ends at
    0     0:3 1:3               1      8.30 ms  both prompts are prefilled; each emits a first token
    1     0:1 1:1               1     16.30 ms  token 4 of each falls into its second block
    2     0:1        1          2     24.30 ms  both need a block, one is free: 1 was admitted last
    3     0:1                   2     32.30 ms  0 emits its last token; 1 needs 3 blocks and waits
    4     1:5                   2     40.55 ms  its 3 + 2 tokens are computed, 4 of them once more
    5     1:1                   2     48.55 ms
"""

from bisect import bisect_left
from collections import OrderedDict, deque
from operator import itemgetter
from typing import NamedTuple

from common import BadInput

UNLIMITED = 1 << 60  # blocks or tokens: more than any run needs


class Request:
    """One request, as the scheduler sees it."""

    def __init__(self, position, prompt_tokens, output_tokens, prefixes=()):
        self.position = position
        self.prompt_tokens, self.output_tokens = prompt_tokens, output_tokens
        self.prefixes = prefixes  # (name, tokens), shortest first: how the prompt begins
        self.generated = 0  # output tokens that are there
        self.in_flight = 0  # output tokens of steps that have no results yet
        self.computed = 0
        self.prefill_until = prompt_tokens  # up to here a token counts as prefill: the prompt, or what was preempted
        self.kept = 0  # tokens whose KV waits in host memory, to come back
        self.blocks = []
        self.remembered = 0  # how many of its blocks have content

    def length(self):
        return self.prompt_tokens + self.generated + self.in_flight

    def emits_no_more(self):
        return self.generated + self.in_flight == self.output_tokens


class Chunk(NamedTuple):
    """The tokens of one request in one step: some of its prefill, or the one token of a decoding request."""

    request: Request
    tokens: int
    cached: int  # its tokens that are in the cache before
    prefill: bool
    emits: bool  # nothing more is left to compute: the step ends with a new token of the request


class Step(NamedTuple):
    """What is decided for one step."""

    chunks: list  # in the scheduler's order
    preempted: list  # positions
    free: int  # blocks, right after scheduling
    moved: int  # tokens whose KV goes to host memory or comes back


# --- memory ---------------------------------------------------------------------------------------


class Block:
    """A block of the cache, and what it holds once it is full."""

    def __init__(self):
        self.users = 1
        self.content = None


class Blocks:
    """All blocks. A block is taken from the head of the list of free ones; what it held is forgotten.

    A block that holds nothing goes back to the head of that list, a block with content to its tail. So all free blocks
    without content come first, and they need no identity: blank counts them. idle are those with content.
    """

    def __init__(self, count, block_size, caching):
        self.block_size, self.caching = block_size, caching
        self.blank = count
        self.idle = OrderedDict()  # block: None, in the order in which they will be taken
        self.holders = {}  # content: the blocks that hold it, the oldest first

    # Questions.

    def free(self):
        return self.blank + len(self.idle)

    def blocks(self, tokens):
        """How many blocks hold this many tokens (rounded up)."""
        return -(-tokens // self.block_size)

    def hits(self, request):
        """The cached blocks that a request can begin with. At least one of its tokens is left to compute."""
        found = []
        for index in range((request.length() - 1) // self.block_size if self.caching else 0):
            holders = self.holders.get(self.content(request, index))
            if not holders:
                break
            found.append(next(iter(holders)))
        return found

    def takes(self, hits, tokens):
        """How many free blocks it takes to hold this many tokens, if the first are these hits; used ones are shared."""
        return self.blocks(tokens) - sum(block.users > 0 for block in hits)

    def content(self, request, index):
        """What block `index` of a request holds: a part of a shared prefix, or what is the request's alone."""
        end = (index + 1) * self.block_size
        at = bisect_left(request.prefixes, end, key=itemgetter(1))
        if at < len(request.prefixes):
            return "prefix", request.prefixes[at][0], index
        return "request", request.position, index

    # Acts.

    def take(self, request, tokens):
        """Give a request blocks until they hold this many of its tokens."""
        while len(request.blocks) < self.blocks(tokens):
            if self.blank:
                self.blank -= 1
            else:
                block, _ = self.idle.popitem(last=False)
                del self.holders[block.content][block]
            request.blocks.append(Block())

    def share(self, request, hits):
        """Give a request the cached blocks that it begins with. Those that were free no longer are."""
        for block in hits:
            if block.users == 0:
                del self.idle[block]
            block.users += 1
        request.blocks, request.remembered = list(hits), len(hits)

    def remember(self, request, tokens):
        """Note the content of the blocks that are full with the first tokens of a request, so that others find them."""
        if self.caching:
            for index in range(request.remembered, tokens // self.block_size):
                block = request.blocks[index]
                block.content = self.content(request, index)
                self.holders.setdefault(block.content, {})[block] = None
                request.remembered += 1

    def release(self, request):
        """Free the blocks of a request, from the last to the first."""
        for block in reversed(request.blocks):
            block.users -= 1
            if block.users == 0 and block.content:
                self.idle[block] = None
            elif block.users == 0:
                self.blank += 1
        request.blocks, request.remembered = [], 0


# --- the scheduler --------------------------------------------------------------------------------


class Scheduler:
    """Decides step after step. It knows no time.

    schedule() decides a step, and update() takes in its results. Synchronous: one after the other. Asynchronous: the
    next step is decided before the update() of the last one. The code is the same. A token in flight counts as
    generated, and what a finished request held comes back one step later, because update() comes later.
    """

    def __init__(self, max_num_seqs, kv_blocks=UNLIMITED, block_size=16, max_num_batched_tokens=UNLIMITED,
                 chunked_prefill=True, reserve_full_prompt=True, prefix_caching=False, swap=False):
        self.max_num_seqs, self.max_num_batched_tokens = max_num_seqs, max_num_batched_tokens
        self.chunked_prefill, self.reserve_full_prompt, self.swap = chunked_prefill, reserve_full_prompt, swap
        self.memory = Blocks(kv_blocks, block_size, prefix_caching)
        self.waiting = deque()
        self.running = []  # in the order of admission
        self.resumed_tokens = self.hit_tokens = 0  # so far

    def schedule(self):
        """Decide the next Step."""
        memory, budget = self.memory, self.max_num_batched_tokens
        chunks, preempted, moved = [], [], 0

        # The running requests first, in the order of admission.
        index = 0
        while index < len(self.running) and budget > 0:
            request = self.running[index]
            index += 1
            if request.emits_no_more():  # its last token is in flight; it keeps its slot till then
                continue
            tokens = min(request.length() - request.computed, budget)
            victims = self.make_room(request, tokens)
            preempted += victims
            if request not in victims:
                chunks.append(self.serve(request, tokens))
                budget -= tokens

        # Then the waiting ones, in order, up to the first that cannot be admitted.
        while self.waiting and not preempted and budget > 0 and len(self.running) < self.max_num_seqs:
            request = self.waiting[0]
            length, hits = request.length(), memory.hits(request)
            computed = request.kept or len(hits) * memory.block_size
            tokens = min(length - computed, budget)
            if not self.chunked_prefill and computed + tokens < length:
                break
            if memory.takes(hits, length if self.reserve_full_prompt else computed + tokens) > memory.free():
                break
            self.running.append(self.waiting.popleft())
            memory.share(request, hits)
            self.hit_tokens += len(hits) * memory.block_size
            moved += request.kept
            request.computed, request.kept = computed, 0
            chunks.append(self.serve(request, tokens))
            budget -= tokens
        moved += sum(request.kept for request in preempted)
        return Step(chunks, [request.position for request in preempted], memory.free(), moved)

    def make_room(self, request, tokens):
        """Preempt from the end of the line until the next tokens of a running request have blocks. Returns the victims.

        All victims were admitted after the request, so none was served in this step. The last possible victim is the
        request itself, so this ends. A victim's step in flight still writes to its blocks, but before any new owner
        does.
        """
        victims = []
        while self.memory.blocks(request.computed + tokens) - len(request.blocks) > self.memory.free():
            victims.append(self.running.pop())
            self.preempt(victims[-1])
            if victims[-1] is request:
                break
        return victims

    def serve(self, request, tokens):
        """Take the blocks for the next tokens of a request, and count them as computed. Returns the Chunk."""
        cached = request.computed
        request.computed += tokens
        self.memory.take(request, request.computed)
        self.memory.remember(request, min(request.computed, request.prompt_tokens + request.generated))
        emits = request.computed == request.length()
        if emits:
            request.in_flight += 1
        return Chunk(request, tokens, cached, cached < request.prefill_until, emits)

    def preempt(self, request):
        """Take all blocks from a request, and put it to the front of the waiting line."""
        self.resumed_tokens += request.computed
        if self.swap:
            request.kept = request.computed
        else:
            request.prefill_until = request.length()
        request.computed = 0
        self.memory.release(request)
        self.waiting.appendleft(request)

    def update(self, step):
        """The step is over, its tokens are there. Free the blocks of those that have all; returns their positions."""
        finished = []
        for request in (chunk.request for chunk in step.chunks if chunk.emits):
            request.in_flight -= 1
            request.generated += 1
            self.memory.remember(request, request.computed - request.in_flight)
            if request.generated == request.output_tokens:
                finished.append(request.position)
                line = self.running if request in self.running else self.waiting  # preempted in the meantime
                line.remove(request)
                self.memory.release(request)
        return finished


def refuse_what_cannot_fit(requests, max_num_seqs, kv_blocks, block_size, max_num_batched_tokens, chunked_prefill):
    """Raise BadInput for the first request that could wait for ever."""
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
