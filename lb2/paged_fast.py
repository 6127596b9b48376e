"""The same Schedule as paged.py's, some twenty times faster. Nobody has to read this to understand the scheduler.

schedule() gives exactly what paged.schedule() gives (tests/test_paged_fast.py), for the step times
that Costs can express. It leaves out what only the lesson needs: swapping to host memory, the log,
and any other step_us.

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

from cost_model import Costs
from paged import UNLIMITED, Schedule, refuse_what_cannot_fit

FAR = float("inf")


# --- memory ---------------------------------------------------------------------------------------


class Run:
    """Consecutive blocks of the same origin and the same users. A free one is a link of the chain of free runs."""

    __slots__ = ("home", "name", "lo", "hi", "users", "rest", "before", "after")

    def __init__(self, home, name, lo, hi, users):
        self.home, self.name = home, name  # the dict in which it is found, and under which key; None: never asked for
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
        self.own = {}  # position of a preempted request: Runs of blocks that are its alone
        self.held = {}  # position: its pieces, from the first block on
        self.named = {}  # position: how many blocks its pieces have
        self.chain = Run(None, None, 0, 0, 0)
        self.chain.before = self.chain.after = self.chain

    # Questions.

    def hits(self, position, length):
        """(pieces (run, first block, end), blocks, blocks that are in use) of the cache that a request can begin with."""
        limit = (length - 1) // self.block_size
        found, index, used = [], 0, 0
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
                    return found, index, used
                stop = min(stop, run.hi)
                found.append((run, index, stop))
                used += stop - index if run.users else 0
                index = stop
        return found, index, used

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
                if run.home is not None:
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
        runs.insert(runs.index(run) + 1, upper)
        if not run.users:
            self.link(upper, run)
        return upper

    def share(self, position, found, blocks):
        """Give a request the pieces that hits() found."""
        pieces = []
        for run, start, stop in found:
            while run.hi <= start:  # split by an earlier piece
                run = run.rest
            if run.lo < start:
                run = self.split(run, start)
            if stop < run.hi:
                self.split(run, stop)
            if not run.users:
                self.unlink(run)
                self.free -= stop - start
            run.users += 1
            pieces.append((run, stop))
        self.held[position], self.named[position] = pieces, blocks

    def remember(self, position, computed):
        """Register the full blocks of a request's prefixes."""
        prefixes = self.prefixes[position]
        done = self.named[position]
        full = computed // self.block_size
        at = bisect_left(prefixes, (done + 1) * self.block_size, key=itemgetter(1))
        while done < full and at < len(prefixes):
            name, tokens = prefixes[at]
            end = min(tokens // self.block_size, full)
            if end > done:
                run = Run(self.shared, name, done, end, 1)
                self.shared.setdefault(name, []).append(run)
                self.held[position].append((run, end))
                done = end
            at += 1
        self.named[position] = done

    def release(self, position, computed, full, again):
        """Free a request's blocks: computed tokens, of which the first `full` are in blocks whose content is known.

        What is the request's own is registered only here, and only if it comes again: nobody else can ask for it.
        """
        blocks = -(-computed // self.block_size)
        if self.prefixes is None:
            self.free += blocks
            self.blank += blocks
            return
        pieces, named = self.held.pop(position), self.named.pop(position)
        own = full // self.block_size
        self.blank += blocks - own
        self.free += blocks - named
        if own > named:
            run = Run(self.own if again else None, position, named, own, 0)
            if again:
                self.own.setdefault(position, []).append(run)
            self.link(run, self.chain)
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
        if last in self.ends:
            self.ends[last].append(position)
        else:
            self.ends[last] = [position]
            heappush(self.heap, last)

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

    def next_end(self):
        while self.heap[0] not in self.ends:
            heappop(self.heap)
        return self.heap[0]

    def preempt(self, position):
        self.stop(position)
        same = self.ends[self.last[position]]
        same.remove(position)
        if not same:
            del self.ends[self.last[position]]

    def blocks_due(self, step, steps):
        """The blocks that all of them need in this step and the following ones."""
        size = len(self.due)
        turns, rest = divmod(steps, size)
        return turns * self.count + sum(self.due[(step + i) % size] for i in range(rest))

    def steps_within(self, free, step, chunk):
        """Steps for which so many free blocks surely suffice, if a prompt takes a chunk in each."""
        size = len(self.due)
        steps = (free - self.count - 1) * size // (self.count + chunk)  # each needs at most one block more than its share
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
    """Play all requests in time and return their Schedule: paged.schedule() with step_us=step_of(costs).

    The parameters are those of paged.schedule(); costs is a Costs. Raises BadInput for a request that could never fit.
    """
    refuse_what_cannot_fit(requests, max_num_seqs, kv_blocks, block_size, max_num_batched_tokens, chunked_prefill)
    prompt_tokens, output_tokens = requests
    n = len(prompt_tokens)
    overhead_us = round(overhead_us)
    issued_us = list(arrivals_us or [0] * n)
    queue = sorted(range(n), key=issued_us.__getitem__)  # positions in the order in which they are sent
    reach_us = [issued_us[position] + overhead_us for position in queue[:clients]]  # when they are at the scheduler
    admitted_us, first_token_us, finished_us = [None] * n, [None] * n, [None] * n
    length = list(prompt_tokens)  # prompt and generated tokens at the last admission: what is prefilled
    left_us = {}  # position of a request preempted while decoding: when its last token came
    gaps_us = {}
    waiting = deque()
    rows = Rows(block_size)
    birth, due = rows.birth, rows.due
    memory = Memory(kv_blocks, block_size, prefixes)
    bounded = kv_blocks < sum(-(-(prompt + output) // block_size) for prompt, output in zip(*requests))
    reads_cache = costs.context_us_per_token != 0
    partial, partial_computed = None, 0  # at most one running request is half prefilled, and it was admitted last
    flight = None  # (end of the step whose results are not there yet, its requests that end), if asynchronous
    stuck = False  # the head of the waiting line fits only after somebody else has left
    now_us = before_us = 0  # when this step is scheduled; when the step before it ends
    head = step = empty_steps = peak_running = preemptions = resumed_tokens = hit_tokens = 0

    while True:
        while head < len(reach_us) and reach_us[head] <= now_us:
            waiting.append(queue[head])
            head += 1
        running = len(birth) + (partial is not None)
        if not running and not waiting:
            if head == len(reach_us):
                break
            now_us = reach_us[head]
            continue

        # Steps that are all alike, until somebody arrives who could be admitted, ends, or may find no block.
        count = rows.count
        full = running == max_num_seqs or partial is not None or count == max_num_batched_tokens or (stuck and waiting)
        steps = 0
        if running and (full or not waiting) and not (flight and flight[1]):
            chunk = max_num_batched_tokens - count if partial is not None else 0
            steps = rows.next_end() + 1 - step if count else UNLIMITED
            if chunk:
                steps = min(steps, (length[partial] - partial_computed - 1) // chunk)
            if bounded:
                steps = min(steps, rows.steps_within(memory.free, step, chunk))
        if steps > 0:
            coming_us = FAR if full or head == len(reach_us) else reach_us[head]
            pass_us = costs.decode_us(count) + costs.prefill_us(chunk)
            if reads_cache:
                steps, now_us, before_us = add_up(costs, gaps_us, steps, pass_us, count, now_us, before_us, coming_us,
                                                  rows.count * (step + 1) - rows.born + (chunk and partial_computed + chunk),
                                                  count + chunk, asynchronous)
            else:
                if coming_us <= before_us:
                    steps = 1
                elif pass_us and coming_us < FAR:
                    steps = min(steps, asynchronous + -(-(coming_us - before_us) // pass_us))
                gaps_us[pass_us] = gaps_us.get(pass_us, 0) + count * steps
                before_us += steps * pass_us
                now_us = before_us - pass_us if asynchronous else before_us
            if bounded:
                memory.take(rows.blocks_due(step, steps))
            if chunk:
                if bounded:
                    memory.take(-(-(partial_computed + steps * chunk) // block_size) - -(-partial_computed // block_size))
                partial_computed += steps * chunk
                if prefixes is not None:
                    memory.remember(partial, partial_computed)
            step += steps
            ended = rows.ending(step - 1)
            if asynchronous:
                flight = before_us, ended
                continue

        # One step, as in paged.py: first the running requests ...
        else:
            start_us = max(now_us, before_us)
            prefilled = in_cache = 0
            complete, preempted, stuck = [], False, False
            need = due[step % block_size]
            while True:
                if need <= memory.free:
                    memory.take(need)
                    need = 0
                    if partial is None:
                        break
                    chunk = min(length[partial] - partial_computed, max_num_batched_tokens - rows.count)
                    blocks = -(-(partial_computed + chunk) // block_size) - -(-partial_computed // block_size)
                    if blocks <= memory.free:
                        memory.take(blocks)
                        break
                else:
                    need -= memory.free
                    memory.take(memory.free)
                preempted = True
                preemptions += 1
                if partial is not None:
                    victim, computed, partial = partial, partial_computed, None
                    memory.release(victim, computed, computed, True)
                    waiting.appendleft(victim)
                else:
                    victim = next(reversed(birth))
                    computed = step - birth[victim]
                    ends = flight and victim in flight[1]
                    known = computed - 1 if asynchronous and computed > length[victim] else computed
                    memory.release(victim, computed, known, not ends)
                    if not ends:
                        need -= birth[victim] % block_size == step % block_size
                        rows.preempt(victim)
                        length[victim] = computed + 1
                        left_us[victim] = before_us
                        waiting.appendleft(victim)
                    del birth[victim]
                resumed_tokens += computed
            count = rows.count
            budget = max_num_batched_tokens - count
            if partial is not None:
                budget -= chunk
                partial_computed += chunk
                prefilled, in_cache = chunk, partial_computed
                if prefixes is not None:
                    memory.remember(partial, partial_computed)
                if partial_computed == length[partial]:
                    complete.append(partial)
                    partial = None
            running = len(birth) + len(complete) + (partial is not None)

            # ... then the waiting ones, up to the first that cannot be admitted.
            while waiting and not preempted and budget > 0 and running < max_num_seqs:
                position = waiting[0]
                tokens = length[position]
                hits, cached, used = memory.hits(position, tokens) if prefixes is not None else ((), 0, 0)
                computed = cached * block_size
                chunk = min(tokens - computed, budget)
                needed = -(-(tokens if reserve_full_prompt else computed + chunk) // block_size) - used
                if needed > memory.free or (not chunked_prefill and chunk < tokens - computed):
                    stuck = not prefilled and (reserve_full_prompt or prefixes is None)  # else a lost hit could let it in
                    break
                waiting.popleft()
                running += 1
                if prefixes is not None:
                    memory.share(position, hits, cached)
                    hit_tokens += computed
                memory.take(-(-(computed + chunk) // block_size) - cached)
                if admitted_us[position] is None:
                    admitted_us[position] = start_us
                budget -= chunk
                prefilled += chunk
                computed += chunk
                in_cache += computed
                if prefixes is not None:
                    memory.remember(position, computed)
                if computed == tokens:
                    complete.append(position)
                else:
                    partial, partial_computed = position, computed
            peak_running = max(peak_running, running)

            if not count and not prefilled:  # all that run wait for their last token (asynchronous only)
                empty_steps += 1
                before_us = start_us
                (now_us, ended), flight = flight, None
            else:
                end_us = start_us + costs.decode_us(count + len(complete)) + costs.prefill_us(prefilled)
                if reads_cache:
                    end_us += costs.context_us(count * (step + 1) - rows.born + in_cache)
                gap_us = end_us - start_us
                gaps_us[gap_us] = gaps_us.get(gap_us, 0) + count
                for position in complete:
                    if first_token_us[position] is None:
                        first_token_us[position] = end_us
                    else:
                        gap_us = end_us - left_us.pop(position)
                        gaps_us[gap_us] = gaps_us.get(gap_us, 0) + 1
                    born = step + 1 - length[position]
                    rows.add(position, born, born + prompt_tokens[position] + output_tokens[position] - 2)
                ended = rows.ending(step)
                step += 1
                before_us = end_us
                if asynchronous:
                    over, flight = flight, (end_us, ended)
                    if over is None:
                        continue
                    now_us, ended = over
                else:
                    now_us = end_us

        # The results of a step are there.
        for position in ended:
            finished_us[position] = now_us
            if position in birth:
                del birth[position]
                tokens = prompt_tokens[position] + output_tokens[position] - 1
                memory.release(position, tokens, tokens, False)
            if len(reach_us) < n:
                issued_us[queue[len(reach_us)]] = now_us
                reach_us.append(now_us + overhead_us)
            stuck = False

    gaps_us = Counter({gap: times for gap, times in gaps_us.items() if times})
    return Schedule(admitted_us, first_token_us, finished_us, step + empty_steps, peak_running, gaps_us, preemptions,
                    resumed_tokens, hit_tokens, issued_us)


def add_up(costs, gaps_us, steps, pass_us, count, now_us, before_us, coming_us, in_cache, growth, asynchronous):
    """Steps whose time grows with the cache, up to `steps` and while coming_us is not reached when they are scheduled.

    Returns (how many, when the next is scheduled, when the last ends).
    """
    context_us = costs.context_us
    done = 0
    while done < steps and now_us < coming_us:
        step_us = pass_us + context_us(in_cache)
        in_cache += growth
        gaps_us[step_us] = gaps_us.get(step_us, 0) + count
        now_us = before_us if asynchronous else before_us + step_us
        before_us += step_us
        done += 1
    return done, now_us, before_us
