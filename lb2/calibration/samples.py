"""What do a client's own times say about single steps of the server?

Every gap between two tokens of a request is a step, and all that was in it can be counted. A step
that ended at time t let S sequences emit a token: those between their first and their last token.
It prefilled P prompt tokens: of the prompts whose first token came with it. It read C tokens in the
cache: prompts and tokens so far. "With it" means within half a typical step.

    gap 21.5 ms, S = 4, P = 258, C = 396     async_c04: three prompts prefilled beside one sequence

Three things are not what they seem. Tokens that came together (a lump) share the gap before them.
A request that got nothing while others got two tokens was preempted: it counts as one that ended
and came again with a longer prompt. A prompt that may not have fitted into one step's budget was
prefilled over several: these steps are added up.

Tokens of a prompt that the file says were cached are not prefilled, but they are read.

It ignores what lies between client and server: a token is taken to arrive when its step ends. So
late delivery counts as prefill, 3 % of it on the clocked servers. Sums over whole requests (logs
without gaps) leave that out and come within 0.5 % of the clock. But clients wait for delivery, too:
predicted p99 TTFTs are 1 % short with the costs of gaps, and 3 % with the clock's own.
"""

from bisect import bisect_left, bisect_right
from itertools import accumulate, groupby
from math import fsum
from operator import itemgetter
from statistics import median
from typing import NamedTuple

from common import percentile

LUMP = 0.1  # of a mean gap: a token that follows sooner came together with the one before


class Sample(NamedTuple):
    """A step, or a few in a row that can only be told together. All but gaps are sums over the steps."""

    us: float
    steps: int
    sequences: float
    prompt_tokens: float
    prefills: int  # steps that prefilled something
    cached_tokens: float
    gaps: int  # between tokens, of which us is the median


class Steps(NamedTuple):
    """What a run says of its steps."""

    samples: list
    gaps: int  # between tokens, of all requests
    preemptions: int = 0
    single: tuple = ()  # (end in seconds, Sample) of each step by itself; () where no step is known
    counts: object = None  # the run's Counts


class Life(NamedTuple):
    """A request from its first token to its last one, or to a preemption."""

    tokens: list  # (time in seconds, tokens that came then)
    held: int  # tokens before the first one: its prompt, and after a preemption what it had generated, too
    computed: int  # those of them that were not found in a cache


class Counts:
    """How many sequences, prompt tokens and cached tokens there were at any time."""

    def __init__(self, lives, half_s):
        self.half_s = half_s
        self.token_s, self.tokens = running_sum(token for life in lives for token in life.tokens)
        self.began_s, self.came = running_sum((life.tokens[0][0], life.held) for life in lives)
        self.computed = running_sum((life.tokens[0][0], life.computed) for life in lives)[1]
        self.ended_s, self.left = running_sum((life.tokens[-1][0], length(life)) for life in lives)

    def at(self, time_s):
        """(sequences, tokens in the cache after the step) of the step that ended then."""
        began = bisect_right(self.began_s, time_s + self.half_s)
        ended = bisect_left(self.ended_s, time_s - self.half_s)
        emitted = self.tokens[bisect_right(self.token_s, time_s + self.half_s)]
        sequences = began - ended
        cached = self.came[began] + emitted - self.left[ended] - sequences  # the newest token is not in it yet
        return sequences, cached

    def prefilled(self, from_s, to_s):
        """Prompt tokens of those whose first token came after the step that ended at from_s, and by the one of to_s."""
        first, last = (bisect_right(self.began_s, time_s + self.half_s) for time_s in (from_s, to_s))
        return self.computed[last] - self.computed[first]

    def first_tokens(self, from_s, to_s):
        """Steps after the one that ended at from_s, and up to the one of to_s, that gave requests their first token."""
        first, last = (bisect_right(self.began_s, time_s + self.half_s) for time_s in (from_s, to_s))
        return sum(self.began_s[i] - self.began_s[i - 1] > self.half_s for i in range(max(1, first), last))


def running_sum(pairs):
    """(times in order, [0, sums of the amounts up to each]) of pairs (time, amount)."""
    ordered = sorted(pairs)
    return [time for time, _ in ordered], [0, *accumulate(amount for _, amount in ordered)]


def length(life):
    return life.held + sum(tokens for _, tokens in life.tokens)


def computed_tokens(bench):
    """Of each prompt, the tokens that the server computed: all but those that the file says were cached."""
    if bench.cached_tokens is None:
        return bench.prompt_tokens
    return [prompt - cached for prompt, cached in zip(bench.prompt_tokens, bench.cached_tokens)]


# --- from gaps to lives ---------------------------------------------------------------------------


def together_s(bench):
    """Tokens that follow one another faster than this came together."""
    gaps = [gap for itls in bench.itls_s for gap in itls]
    return LUMP * min(fsum(gaps) / len(gaps), percentile(gaps, 90)) if gaps else 0.0


def arrivals(bench):
    """For each request [(time in seconds, tokens that came then), ...]. Without start times each begins at 0."""
    least_s, found = together_s(bench), []
    starts_s = bench.starts_s or [0.0] * len(bench.ttfts_s)
    for start, ttft, itls, output in zip(starts_s, bench.ttfts_s, bench.itls_s, bench.output_tokens):
        each = (output - 1) / len(itls) if 0 < len(itls) < output - 1 else 1  # fewer chunks than tokens
        tokens = [(start + ttft, 1)]
        for gap, time in zip(itls, accumulate(itls, initial=start + ttft)):
            if gap < least_s:
                tokens[-1] = (tokens[-1][0], tokens[-1][1] + each)
            else:
                tokens.append((time + gap, each))
        found.append(tokens)
    return found


def shares_s(tokens):
    """What each arrival after the first took for a token of it."""
    return [(time - before) / came for (before, _), (time, came) in zip(tokens, tokens[1:])]


def half_step_s(tokens):
    """Half a typical step: half the median share of a token, over the arrivals of all requests."""
    shares = [share for each in tokens for share in shares_s(each)]
    return median(shares) / 2 if shares else 0.0


def lives_of(tokens, prompt, token_s, half_s, computed=None, even=False):
    """The Lives of a request: one, or more if it was preempted. token_s: times of everybody's tokens, in order.

    even: its tokens are spread evenly, and tell of no preemption.
    """
    lives, begin, held, computed = [], 0, prompt, prompt if computed is None else computed
    for i in range(1, 0 if even else len(tokens)):
        (before, _), (time, came) = tokens[i - 1], tokens[i]
        if came == 1 and time - before > 4 * half_s:
            first, last = bisect_right(token_s, before + half_s), bisect_left(token_s, time - half_s) - 1
            if last > first and token_s[last] - token_s[first] > half_s:  # two steps of others, none of its own
                lives.append(Life(tokens[begin:i], held, computed))
                begin, held = i, length(lives[-1])
                computed = held
    return [*lives, Life(tokens[begin:], held, computed)]


# --- from lives to samples ------------------------------------------------------------------------


def step_samples(bench, most=100_000):
    """The Steps of a run with start times, in order of time, each step by itself.

    Of a run with more gaps than `most`, those of every second, third ... request are taken.
    """
    tokens = arrivals(bench)
    half_s, gaps = half_step_s(tokens), sum(map(len, tokens)) - len(tokens)
    token_s = sorted(time for each in tokens for time, _ in each)
    prompts = zip(tokens, bench.prompt_tokens, computed_tokens(bench))
    lives = [lives_of(each, prompt, token_s, half_s, computed, bench.even) for each, prompt, computed in prompts]
    counts = Counts([life for each in lives for life in each], half_s)
    every = -(-gaps // most) or 1
    if bench.even:
        return Steps([whole(life, counts) for life, in lives[::every] if len(life.tokens) > 1], gaps)
    taken = []
    for life in (life for each in lives[::every] for life in each):
        for (before, _), (time, came) in zip(life.tokens, life.tokens[1:]):
            taken.append((time, (time - before) / came, *counts.at(time), counts.prefilled(before, time) / came))
    taken.sort()
    steps = [one_step(list(same)) for _, same in groupby(taken, key=itemgetter(2, 3, 4))]
    return Steps([sample for _, sample in steps], gaps, sum(map(len, lives)) - len(lives), steps, counts)


def whole(life, counts):
    """The Sample of all steps of a request of which only its first and its last token are known: sums over them."""
    first_s, last_s = life.tokens[0][0], life.tokens[-1][0]
    sequences, cached = map(fsum, zip(*(counts.at(time) for time, _ in life.tokens[1:])))
    return Sample(1e6 * (last_s - first_s), len(life.tokens) - 1, sequences, counts.prefilled(first_s, last_s),
                  counts.first_tokens(first_s, last_s), cached, len(life.tokens) - 1)


def typical_samples(bench):
    """The Steps of a run without start times: of each request its median gap, with the mean number of sequences.

    Nothing says which gaps held a prefill, nor what was in the cache. None if the number of sequences is not known.
    """
    sequences = mean_sequences(bench)
    if sequences is None:
        return None
    shares = [share for each in arrivals(bench) if (share := shares_s(each))]
    samples = [Sample(1e6 * median(share), 1, sequences, 0, 0, 0, len(share)) for share in shares]
    return Steps(samples, sum(map(len, shares)))


def mean_sequences(bench):
    """The mean number of sequences that emitted tokens; None where the file does not tell."""
    if bench.max_concurrency == 1:
        return 1.0
    return max(1.0, fsum(map(fsum, bench.itls_s)) / bench.duration_s) if bench.duration_s else None


def one_step(gaps):
    """(end in seconds, Sample) of gaps that ended with the same step."""
    time, _, sequences, cached, prompt = gaps[-1]
    us = 1e6 * median(gap for _, gap, *_ in gaps)
    return time, Sample(us, 1, sequences, prompt, int(prompt > 0), cached, len(gaps))


def at_budget(steps, budget):
    """The Steps of a server with this max_num_batched_tokens: those among which a prompt may have been cut in chunks
    are added up, or left out.
    """
    counts, done = steps.counts, []  # (end, sample), or (end, None)
    for end_s, sample in steps.single:
        start_s = end_s - sample.us / 1e6
        before = counts.prefilled(start_s - 2 * counts.half_s, start_s)
        if sample.prompt_tokens and before + sample.prompt_tokens + sample.sequences > budget:
            wanted = 2 + int(sample.prompt_tokens / budget)
            while sample and sample.steps < wanted:
                joined = done and abs(done[-1][0] - start_s) < counts.half_s
                earlier = done.pop()[1] if joined else None
                sample = earlier and added(earlier, sample, budget)
                start_s = end_s - sample.us / 1e6 if sample else start_s
        done.append((end_s, sample))
    return steps._replace(samples=[sample for _, sample in done if sample]) if done else steps


def added(earlier, later, budget):
    """Two samples as one."""
    sums = [a + b for a, b in zip(earlier, later)]
    return Sample(*sums)._replace(prefills=-(-int(sums[3]) // budget), gaps=min(earlier.gaps, later.gaps))
