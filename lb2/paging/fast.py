"""The same Schedule as paging/clock.py gives, some twenty times faster.

Nobody has to read this to understand the scheduler. schedule() gives exactly what
clock.schedule() gives (tests/paging/test_paged_fast.py), for the step times that Costs can express.
It leaves out what only the lesson needs: swapping to host memory, the log, and any other step_us.

Why it is faster. No step visits the requests that decode: each takes one token a step, so they are
counted, and of each it is enough to know in which step it ends and in which steps it needs a block.
While nobody arrives, ends or runs out of memory, all steps are alike and are added up. And
consecutive blocks of one content are one Run, however many they are.

    step 7              how many steps with tokens there were before
    birth 3             a decoding request has step - birth tokens in the cache when a step begins
    Run("a", 0, 32)     32 blocks: those numbered 0 to 31 of the prefix "a"
    piece (run, 8)      blocks run.lo to 7, in this run and those that were split off it
"""

from bisect import bisect_left
from collections import Counter, deque
from heapq import heappop, heappush
from operator import itemgetter

from files.costs import Costs
from paging.clock import Schedule
from paging.scheduler import UNLIMITED, refuse_what_cannot_fit

FAR = float("inf")


# --- memory ---------------------------------------------------------------------------------------


class Run:
    """Consecutive blocks of the same origin and the same users. A free one is a link of the chain of free runs."""

    __slots__ = ("home", "name", "lo", "hi", "users", "rest", "before", "after")

    def __init__(self, home, name, lo, hi, users):
        self.home, self.name = home, name  # the dict in which it is found, and under which key
        self.lo, self.hi = lo, hi
        self.users = users
        self.rest = None  # what was split off its end
        self.before = self.after = None


class Memory:
    """Free and cached blocks. blank: free blocks without content, which are taken first.

    The chain of free runs has the order in which their blocks are taken; of a run the last block goes first, since a
    request frees its blocks from the last to the first.
    """

    def __init__(self, count, block_size, prefixes):
        self.block_size, self.prefixes = block_size, prefixes
        self.free = self.blank = count
        self.shared = {}  # name of a prefix: its Runs, the oldest first
        self.own = {}  # position: Runs of blocks that were a request's alone; if it was preempted, it comes again
        self.held = {}  # position: its pieces, from the first block on
        self.named = {}  # position: how many blocks its pieces have
        self.chain = Run(None, None, 0, 0, 0)
        self.chain.before = self.chain.after = self.chain

    # Questions.

    def blocks(self, tokens):
        return -(-tokens // self.block_size)

    def hits(self, position, length):
        """The cache that a request can begin with: pieces (run, first block, end), one after the other."""
        if self.prefixes is None:
            return []
        limit = (length - 1) // self.block_size
        found, index = [], 0
        homes = [(self.shared, name, tokens // self.block_size) for name, tokens in self.prefixes[position]]
        for home, name, end in [*homes, (self.own, position, limit)]:
            end = min(end, limit)
            while index < end:
                stop = end
                for run in home.get(name, ()):
                    if run.lo <= index < run.hi:
                        break
                    if index < run.lo < stop:  # an older run serves from there on
                        stop = run.lo
                else:
                    return found
                stop = min(stop, run.hi)
                found.append((run, index, stop))
                index = stop
        return found

    def takes(self, found, tokens):
        """How many free blocks it takes to hold this many tokens, the first in these pieces; used ones are shared."""
        return self.blocks(tokens) - sum(stop - start for run, start, stop in found if run.users)

    # Acts.

    def take(self, count):
        """Take free blocks; what they held is forgotten."""
        self.free -= count
        self.blank -= count
        while self.blank < 0:
            run = self.chain.after
            taken = min(run.hi - run.lo, -self.blank)
            run.hi -= taken
            self.blank += taken
            if run.lo == run.hi:
                self.unlink(run)
                runs = run.home[run.name]
                runs.remove(run)
                if not runs:
                    del run.home[run.name]

    def unlink(self, run):
        run.before.after, run.after.before = run.after, run.before

    def link(self, run, after):
        run.before, run.after = after.before, after
        run.before.after = after.before = run

    def split(self, run, at):
        """Let a run end at this block; returns the new Run of the others."""
        upper = Run(run.home, run.name, at, run.hi, run.users)
        upper.rest, run.rest, run.hi = run.rest, upper, at
        runs = run.home[run.name]
        runs.insert(runs.index(run), upper)
        if not run.users:
            self.link(upper, run)
        return upper

    def share(self, position, found, blocks):
        """Give a request the pieces that hits() found."""
        if self.prefixes is None:
            return
        pieces = []
        for run, start, stop in reversed(found):  # so that of a run with several pieces, each is at its end
            if start != run.lo:
                run = self.split(run, start)
            if stop != run.hi:
                self.split(run, stop)
            if not run.users:
                self.unlink(run)
                self.free -= stop - start
            run.users += 1
            pieces.append((run, stop))
        self.held[position], self.named[position] = pieces[::-1], blocks

    def remember(self, position, computed):
        """Register the full blocks of a request's prefixes."""
        if self.prefixes is None:
            return
        prefixes, done, full = self.prefixes[position], self.named[position], computed // self.block_size
        for name, tokens in prefixes[bisect_left(prefixes, (done + 1) * self.block_size, key=itemgetter(1)) :]:
            end = min(tokens // self.block_size, full)
            if end != done:  # else it ends in the same block as the prefix before
                self.held[position].append((self.registered(self.shared, name, done, end, 1), end))
                done = end
            if done == full:
                break
        self.named[position] = done

    def registered(self, home, name, lo, hi, users):
        """A new Run that hits() finds."""
        run = Run(home, name, lo, hi, users)
        home.setdefault(name, []).append(run)
        return run

    def release(self, position, computed, full):
        """Free a request's blocks: computed tokens, of which the first `full` are in blocks whose content is known.

        What is the request's own is registered only here, since nobody else can ask for it.
        """
        blocks = self.blocks(computed)
        if self.prefixes is None:
            self.free += blocks
            self.blank += blocks
            return
        pieces, named = self.held.pop(position), self.named.pop(position)
        own = full // self.block_size
        self.blank += blocks - own
        self.free += blocks - named
        if own > named:
            self.link(self.registered(self.own, position, named, own, 0), self.chain)
        for run, stop in reversed(pieces):
            runs = [run]
            while runs[-1].hi < stop:
                runs.append(runs[-1].rest)
            for run in reversed(runs):
                run.users -= 1
                if not run.users:
                    self.link(run, self.chain)
                    self.free += run.hi - run.lo


# --- requests that decode -------------------------------------------------------------------------


class Rows:
    """The requests that decode: each takes one token a step."""

    def __init__(self, block_size):
        self.birth = {}  # position: birth, in the order of admission; those whose last token is in flight are here too
        self.last = {}  # position: the step that computes its last token
        self.count = self.born = 0  # those that still take tokens, and the sum of their births
        self.due = [0] * block_size  # remainder: how many of them need a block in steps that leave this remainder
        self.ends = {}  # step: those whose last step it is, in the order of admission
        self.heap = []  # those steps

    def add(self, position, birth, last):
        self.birth[position], self.last[position] = birth, last
        self.count += 1
        self.born += birth
        self.due[birth % len(self.due)] += 1
        if last not in self.ends:
            self.ends[last] = []
            heappush(self.heap, last)
        self.ends[last].append(position)

    def stop(self, position):
        """A request takes no more tokens."""
        birth = self.birth[position]
        self.count -= 1
        self.born -= birth
        self.due[birth % len(self.due)] -= 1

    def ending(self, step):
        """Those whose last step this is."""
        positions = self.ends.pop(step, ())
        for position in positions:
            self.stop(position)
        return positions

    def in_cache(self, step):
        """Tokens in the cache of those that take one in this step, after it."""
        return self.count * (step + 1) - self.born

    def next_end(self):
        while self.heap[0] not in self.ends:
            heappop(self.heap)
        return self.heap[0]

    def preempt(self, position):
        self.stop(position)
        del self.birth[position]
        self.ends[self.last[position]].remove(position)

    def blocks_due(self, step, steps):
        """The blocks that all of them need in this step and the following ones."""
        size = len(self.due)
        turns, rest = divmod(steps, size)
        return turns * self.count + sum(self.due[(step + i) % size] for i in range(rest))

    def steps_within(self, free, step, chunk):
        """Steps for which so many free blocks surely suffice, if a prompt takes a chunk in each."""
        size = len(self.due)
        # Each row needs at most one block more than its share.
        steps = (free - self.count - 1) * size // (self.count + chunk)
        if steps < size and not chunk:
            steps = 0
            while steps < size and self.due[(step + steps) % size] <= free:
                free -= self.due[(step + steps) % size]
                steps += 1
        return steps


# --- the scheduler --------------------------------------------------------------------------------


def schedule(requests, max_num_seqs, arrivals_us=None, costs=Costs(), kv_blocks=UNLIMITED, block_size=16,
             max_num_batched_tokens=UNLIMITED, chunked_prefill=True, reserve_full_prompt=True, prefixes=None, *,
             asynchronous=False, clients=None, overhead_us=0):
    """Run all requests in time and return their Schedule: that of clock.schedule() with step_us=step_of(costs).

    The parameters are those of clock.schedule(); costs is a Costs. Raises BadInput for a request that never fits.
    """
    refuse_what_cannot_fit(requests, max_num_seqs, kv_blocks, block_size, max_num_batched_tokens, chunked_prefill)
    run = Simulation(requests, arrivals_us or [0] * len(requests.prompt_tokens), clients, round(overhead_us), costs,
                     Memory(kv_blocks, block_size, prefixes), asynchronous,
                     (max_num_seqs, max_num_batched_tokens, chunked_prefill, reserve_full_prompt))
    run.run()
    return Schedule(run.admitted_us, run.first_token_us, run.finished_us, run.step + run.empty_steps,
                    run.peak_running, +run.gaps_us, run.preemptions, run.resumed_tokens, run.hit_tokens, run.issued_us)


class Simulation:
    """One run, and all that changes in it."""

    def __init__(self, requests, arrivals_us, clients, overhead_us, costs, memory, asynchronous, limits):
        self.prompt_tokens, self.output_tokens = requests
        self.costs, self.memory, self.overhead_us, self.asynchronous = costs, memory, overhead_us, asynchronous
        self.max_num_seqs, self.max_num_batched_tokens, self.chunked_prefill, self.reserve_full_prompt = limits
        n = len(arrivals_us)
        self.issued_us = list(arrivals_us)
        self.queue = sorted(range(n), key=arrivals_us.__getitem__)  # positions in the order in which they are sent
        self.reach_us = [arrivals_us[position] + overhead_us for position in self.queue[:clients]]  # the scheduler
        self.head = 0  # so many are there
        self.waiting = deque()
        self.rows = Rows(memory.block_size)
        self.partial = None  # at most one running request is half prefilled, and it was admitted last
        self.computed = 0  # its tokens in the cache
        self.flight = None  # asynchronous: (end of the step whose results are not there yet, who ends in it)
        self.stuck = False  # the head of the waiting line fits only after somebody else has left
        # Without this, memory never runs out and nothing is forgotten, so blocks need not be counted.
        self.bounded = memory.free < sum(memory.blocks(sum(tokens)) for tokens in zip(*requests))
        self.length = list(self.prompt_tokens)  # prompt and generated tokens at the last admission: what is prefilled
        self.left_us = {}  # position of a request preempted while decoding: when its last token came
        self.admitted_us, self.first_token_us, self.finished_us = [None] * n, [None] * n, [None] * n
        self.gaps_us = Counter()
        self.now_us = self.before_us = 0  # when this step is scheduled; when the step before it ends
        self.step = self.empty_steps = self.peak_running = self.preemptions = self.resumed_tokens = self.hit_tokens = 0

    def run(self):
        while self.arrive():
            steps, chunk = self.steps_alike()
            if steps > 0:
                ended = self.jump(steps, chunk)
                if self.asynchronous:
                    self.flight = self.before_us, ended
                    continue
            else:
                ended = self.one_step()
                if self.asynchronous:
                    over, self.flight = self.flight, (self.before_us, ended) if ended is not None else None
                    if over is None:
                        continue
                    self.now_us, ended = over
                else:
                    self.now_us = self.before_us
            for position in ended:
                self.finish(position)

    def arrive(self):
        """Let in who has arrived; if nobody is there, wait for the next. False: all are done."""
        reach_us = self.reach_us
        while True:
            while self.head < len(reach_us) and reach_us[self.head] <= self.now_us:
                self.waiting.append(self.queue[self.head])
                self.head += 1
            if self.waiting or self.rows.birth or self.partial is not None:
                return True
            if self.head == len(reach_us):
                return False
            self.now_us = reach_us[self.head]

    def finish(self, position):
        """The last token of a request is there."""
        self.finished_us[position] = self.now_us
        if position in self.rows.birth:  # else it was preempted since
            del self.rows.birth[position]
            tokens = self.prompt_tokens[position] + self.output_tokens[position] - 1
            self.memory.release(position, tokens, tokens)
        if len(self.reach_us) < len(self.queue):  # its client sends the next one
            position = self.queue[len(self.reach_us)]
            self.issued_us[position] = max(self.now_us, self.issued_us[position])
            self.reach_us.append(self.issued_us[position] + self.overhead_us)
        self.stuck = False

    # Steps that are all alike.

    def full(self):
        """Nobody can be admitted, whoever arrives."""
        return (self.partial is not None or len(self.rows.birth) == self.max_num_seqs
                or self.rows.count == self.max_num_batched_tokens or (self.stuck and self.waiting))

    def steps_alike(self):
        """(steps until a request ends, a prompt has its last chunk, or memory may run out; the chunk of each step).

        No steps if a request may be admitted.
        """
        rows, chunk, steps = self.rows, 0, FAR
        nobody = self.partial is None and not rows.count
        if nobody or (self.waiting and not self.full()) or (self.flight and self.flight[1]):
            return 0, 0
        if self.partial is not None:
            chunk = self.max_num_batched_tokens - rows.count
            steps = (self.length[self.partial] - self.computed - 1) // chunk
        if rows.count:
            steps = min(steps, rows.next_end() + 1 - self.step)
        if self.bounded:
            steps = min(steps, rows.steps_within(self.memory.free, self.step, chunk))
        return steps, chunk

    def jump(self, steps, chunk):
        """Run up to so many steps, but none that would see the next arrival. Returns who ends in the last of them."""
        rows, memory, costs, count = self.rows, self.memory, self.costs, self.rows.count
        coming_us = FAR if self.head == len(self.reach_us) or self.full() else self.reach_us[self.head]
        step_us = costs.decode_us(count) + costs.prefill_us(chunk)
        if costs.context_us_per_token:
            in_cache = rows.in_cache(self.step) + (self.computed + chunk if chunk else 0)
            steps = self.add_up(steps, step_us, in_cache, count + chunk, coming_us)
        else:
            if coming_us < FAR:
                steps = min(steps, max(1, self.asynchronous + -(-(coming_us - self.before_us) // (step_us or 1))))
            self.gaps_us[step_us] += count * steps
            self.before_us += steps * step_us
            self.now_us = self.before_us - step_us if self.asynchronous else self.before_us
        if self.bounded:
            memory.take(rows.blocks_due(self.step, steps))
        if chunk:
            memory.take(memory.blocks(self.computed + steps * chunk) - memory.blocks(self.computed))
            self.computed += steps * chunk
            memory.remember(self.partial, self.computed)
        self.step += steps
        return rows.ending(self.step - 1)

    def add_up(self, steps, step_us, in_cache, growth, coming_us):
        """Step by step, where the time of a step grows with the cache. Returns how many steps it took."""
        context_us, gaps_us = self.costs.context_us, self.gaps_us
        count, asynchronous = self.rows.count, self.asynchronous
        now_us, before_us = self.now_us, self.before_us
        done = 0
        while done < steps and now_us < coming_us:
            gap_us = step_us + context_us(in_cache)
            gaps_us[gap_us] += count
            in_cache += growth
            now_us = before_us if asynchronous else before_us + gap_us
            before_us += gap_us
            done += 1
        self.now_us, self.before_us = now_us, before_us
        return done

    # One step, as in scheduler.py.

    def one_step(self):
        """Returns who ends in the step; None if nothing could be scheduled (asynchronous only)."""
        rows, costs = self.rows, self.costs
        start_us = max(self.now_us, self.before_us)
        preempted, chunk = self.serve_running()
        count = rows.count
        complete, prefilled, in_cache = [], chunk, 0
        if chunk:
            self.computed += chunk
            in_cache = self.computed
            self.memory.remember(self.partial, self.computed)
            if self.computed == self.length[self.partial]:
                complete.append(self.partial)
                self.partial = None
        running = len(rows.birth) + len(complete) + (self.partial is not None)
        self.stuck = False
        if self.waiting and not preempted:
            budget = self.max_num_batched_tokens - count - chunk
            running, more, more_cached = self.admit(start_us, running, budget, complete)
            prefilled += more
            in_cache += more_cached
        self.peak_running = max(self.peak_running, running)
        if not count and not prefilled:  # all that run wait for their last token
            self.empty_steps += 1
            self.before_us = start_us
            return None
        end_us = start_us + costs.decode_us(count + len(complete)) + costs.prefill_us(prefilled)
        if costs.context_us_per_token:
            end_us += costs.context_us(in_cache + rows.in_cache(self.step))
        self.gaps_us[end_us - start_us] += count
        for position in complete:
            self.start_decoding(position, end_us)
        self.before_us = end_us
        self.step += 1
        return rows.ending(self.step - 1)

    def serve_running(self):
        """Take the blocks of all that run; preempt from the end of the line while there are too few.

        Returns (was one preempted, chunk of the half-done prompt). Each row asks for one block, in the order of
        admission, so when one finds none, none is free.
        """
        rows, memory = self.rows, self.memory
        preempted = False
        need = rows.due[self.step % memory.block_size]
        while True:
            if need <= memory.free:
                memory.take(need)
                if self.partial is None:
                    return preempted, 0
                need = 0
                chunk = min(self.length[self.partial] - self.computed, self.max_num_batched_tokens - rows.count)
                blocks = memory.blocks(self.computed + chunk) - memory.blocks(self.computed)
                if blocks <= memory.free:
                    memory.take(blocks)
                    return preempted, chunk
            else:
                need -= memory.free
                memory.take(memory.free)
            need -= self.preempt_last()
            preempted = True

    def preempt_last(self):
        """Preempt the request that was admitted last. Returns how many blocks it would have asked for in this step."""
        self.preemptions += 1
        if self.partial is not None:
            victim, self.partial = self.partial, None
            self.resumed_tokens += self.computed
            self.memory.release(victim, self.computed, self.computed)
            self.waiting.appendleft(victim)
            return 0
        rows = self.rows
        victim = next(reversed(rows.birth))
        birth = rows.birth[victim]
        computed = self.step - birth
        self.resumed_tokens += computed
        ends = self.flight and victim in self.flight[1]  # its last token is in flight
        # The content of a block is known when the step that fills it is over; what is prefilled is known before.
        known = computed - 1 if self.asynchronous and computed > self.length[victim] else computed
        self.memory.release(victim, computed, known)
        if ends:
            del rows.birth[victim]
            return 0
        rows.preempt(victim)
        self.length[victim] = computed + 1
        self.left_us[victim] = self.before_us
        self.waiting.appendleft(victim)
        return int(birth % self.memory.block_size == self.step % self.memory.block_size)

    def admit(self, start_us, running, budget, complete):
        """Admit waiting requests up to the first that does not fit; those whose prefill ends join `complete`.

        Returns (requests that run, tokens prefilled, tokens of the admitted in the cache after the step).
        """
        memory, first_budget, in_cache = self.memory, budget, 0
        while self.waiting and budget > 0 and running < self.max_num_seqs:
            position = self.waiting[0]
            tokens = self.length[position]
            hits = memory.hits(position, tokens)
            cached = hits[-1][2] if hits else 0
            computed = cached * memory.block_size
            chunk = min(tokens - computed, budget)
            needed = memory.takes(hits, tokens if self.reserve_full_prompt else computed + chunk)
            if needed > memory.free or (not self.chunked_prefill and chunk < tokens - computed):
                # It stays stuck if the budget was whole, and if no lost hit can let it in.
                whole = not complete and self.partial is None
                self.stuck = whole and (self.reserve_full_prompt or memory.prefixes is None)
                break
            self.waiting.popleft()
            running += 1
            budget -= chunk
            memory.share(position, hits, cached)
            memory.take(memory.blocks(computed + chunk) - cached)
            memory.remember(position, computed + chunk)
            self.hit_tokens += computed
            in_cache += computed + chunk
            if self.admitted_us[position] is None:
                self.admitted_us[position] = start_us
            if computed + chunk == tokens:
                complete.append(position)
            else:
                self.partial, self.computed = position, computed + chunk
        return running, first_budget - budget, in_cache

    def start_decoding(self, position, end_us):
        """The last chunk of a request's prefill ends with its next token."""
        if self.first_token_us[position] is None:
            self.first_token_us[position] = end_us
        else:
            self.gaps_us[end_us - self.left_us.pop(position)] += 1
        birth = self.step + 1 - self.length[position]
        self.rows.add(position, birth, birth + self.prompt_tokens[position] + self.output_tokens[position] - 2)
