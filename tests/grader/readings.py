"""What do the requests give, under each reading that the exercise permits? Steps 1 to 4, and 8.

The exercise leaves open what a step costs and what a prefill is. A Reading is one answer to that,
and the replays here compute what belongs into the files under it, exactly. They use nothing of the
lab's schedulers, so they also check those.

    admitted     the replay in iterations alone: when do requests enter the slots?
    Reading      one way to count iterations and time
    Replays      the requests, with the replays that were made of them
"""

from fractions import Fraction
from heapq import heappop, heappush
from math import ceil
from typing import NamedTuple

PREFILL_US_PER_TOKEN = 50
STEP_US = 8000
SHORT = 1000  # requests; a list up to here is replayed in every way, a longer one in the plainest ways
KEPT = 6  # replays of a longer one
SERIAL, TOGETHER, OWN_SLOT, FREE = "serial", "together", "own slot", "free"
PREFILLS = {
    SERIAL: "prompts are prefilled one after the other",
    TOGETHER: "prompts are prefilled together (the longest counts)",
    OWN_SLOT: "a prefill holds up its own slot only",
    FREE: "prefill costs nothing",
}


class Admitted(NamedTuple):
    """Groups of requests that enter the slots together, and how long it all takes."""

    groups: list  # (iteration, first, end): requests first to end - 1 enter before this iteration
    iterations: int


def admitted(durations, slots, static=False):
    """Play requests that are all there at the start; durations: n whole numbers >= 0, the iterations of each.

    Continuous batching refills free slots at once; static batching when the whole batch has ended.
    """
    groups, running, now, head = [], [], 0, 0
    while head < len(durations):
        end = min(len(durations), head + slots - len(running))
        groups.append((now, head, end))
        for duration in durations[head:end]:
            heappush(running, now + duration)
        head = end
        now = max(running) if static else running[0]
        while running and running[0] <= now:
            heappop(running)
    return Admitted(groups, max(running, default=now))


class Reading(NamedTuple):
    """One way to count the iterations and the time of steps 1 to 4."""

    extra: int = 0  # iterations of a request beyond its output tokens: -1 where its prefill gives the first token
    own: bool = False  # is a prefill an iteration of its own, in which the others wait?
    prefill: str = SERIAL
    step_us: object = STEP_US  # int or Fraction
    all_cost: bool = False  # own: does that iteration cost a step, too?

    def __str__(self):
        cost = PREFILLS[self.prefill]
        if self.prefill == FREE and self.step_us == 1_000_000:
            words = ["throughput is in tokens per step"]
        else:
            words = [f"{float(self.step_us) / 1000:g} ms a step", cost]
        kind = {
            (0, True): "a prefill is an iteration of its own, in which the others wait",
            (1, False): "a prefill is an iteration of its own, in which the others go on",
            (-1, False): "the prefill gives the first token and is not counted as an iteration",
            (-1, True): "the prefill gives the first token, in an iteration of its own",
        }
        if (self.extra, self.own) != (0, False):
            words.append(kind[self.extra, self.own])
        if self.all_cost:
            words.append("it costs a step")
        return "; ".join(words)


KINDS = [(0, False), (0, True), (1, False), (-1, False), (-1, True)]  # (extra, own), the plainest first


def readings(step_us=STEP_US):
    """Every Reading with this time per step, the plainest first."""
    found = []
    for extra, own in KINDS:
        for prefill in (SERIAL, FREE, TOGETHER) + ((OWN_SLOT,) if not own and extra < 1 else ()):
            for all_cost in (False, True) if own else (False,):
                found.append(Reading(extra, own, prefill, step_us, all_cost))
    return found


def no_tokens(prompts):
    return 0


class Replays:
    """n requests, and what was replayed of them so far."""

    def __init__(self, requests):
        self.prompts, self.outputs = requests.prompt_tokens, requests.output_tokens
        self.n, self.tokens = len(self.outputs), sum(self.outputs)
        self.memory = {}

    def remember(self, key, compute, *arguments):
        """What compute(*arguments) gave. Of a long list, whose replays are large, only the latest few are kept."""
        if key in self.memory:
            value = self.memory.pop(key)
        else:
            value = compute(*arguments)
            if self.n > SHORT and len(self.memory) >= KEPT:
                del self.memory[next(iter(self.memory))]
        self.memory[key] = value
        return value

    def play(self, static, slots, extra=0):
        durations = self.outputs if extra == 0 else [tokens + extra for tokens in self.outputs]
        return self.remember((static, slots, extra), admitted, durations, slots, static)

    def iterations(self, static, slots, reading=Reading()):
        """(iterations in which tokens are decoded, and those of prefill that count, too)."""
        play = self.play(static, slots, reading.extra)
        return play.iterations, len(play.groups) if reading.own else 0

    def prefill_us(self, static, slots, reading):
        groups = self.play(static, slots, reading.extra).groups
        of_group = {SERIAL: sum, TOGETHER: max, FREE: no_tokens}[reading.prefill]
        return PREFILL_US_PER_TOKEN * sum(of_group(self.prompts[first:end]) for _, first, end in groups)

    def span_us(self, static, slots, reading=Reading()):
        """From the start to the last finish."""
        return self.remember((static, slots, reading), self.compute_span_us, static, slots, reading)

    def compute_span_us(self, static, slots, reading):
        if reading.prefill == OWN_SLOT:
            times = [
                PREFILL_US_PER_TOKEN * prompt + reading.step_us * (output + reading.extra)
                for prompt, output in zip(self.prompts, self.outputs)
            ]
            return admitted(times, slots, static).iterations
        return self.timed(static, slots, reading) * reading.step_us + self.prefill_us(static, slots, reading)

    def timed(self, static, slots, reading):
        """The iterations that cost a step."""
        decoding, own = self.iterations(static, slots, reading)
        return decoding + own * reading.all_cost

    def tps(self, static, slots, reading=Reading()):
        return self.per_second(self.tokens, self.span_us(static, slots, reading))

    def per_second(self, tokens, span_us):
        return Fraction(tokens * 1_000_000) / span_us if span_us else Fraction(0)

    def step_us_behind(self, tps, static, slots, reading):
        """The round time per step that would make this throughput right; None if there is none."""
        timed = self.timed(static, slots, reading)
        if not tps or not timed:
            return None
        exact = (self.tokens * 1_000_000 / tps - self.prefill_us(static, slots, reading)) / timed
        if not 99 <= exact <= 1_001_000:  # 0.1 ms to 1 s; beyond, a wrong unit explains it better
            return None
        step_us = Fraction(f"{float(exact):.2e}")
        return int(step_us) if step_us.denominator == 1 else step_us


# --- step 8 -------------------------------------------------------------------------------------------------------


CLOSED, BURST, ALL = "closed", "burst", "all"
CLIENTS = {
    CLOSED: "closed loop",  # each of N clients sends its next request when its last one has ended
    BURST: "N requests at once, and no more",
    ALL: "all requests at once, in N slots",
}
FIRST_TOKENS = {True: "TTFT ends with the decode pass", False: "TTFT ends with the own prefill"}


def interpolated(ordered):
    """The p99 of numpy.percentile. ordered: one or more numbers, the smallest first."""
    hundredths = 99 * (len(ordered) - 1)
    at, part = divmod(hundredths, 100)
    return ordered[at] + (ordered[min(at + 1, len(ordered) - 1)] - ordered[at]) * Fraction(part, 100)


def nearest_rank(ordered):
    return ordered[ceil(99 * len(ordered) / 100) - 1]


def next_rank(ordered):
    """sorted(xs)[int(0.99 * n)], which of 100 numbers or fewer is the largest."""
    return ordered[99 * len(ordered) // 100]


PERCENTILES = {interpolated: "interpolated", nearest_rank: "nearest rank", next_rank: "sorted(...)[int(0.99 * n)]"}


class Tuning(NamedTuple):
    """One way to find max_concurrency."""

    clients: str = CLOSED
    prefill: str = SERIAL
    decodes: bool = True  # does the first token come with the decode pass, or with its own prefill?
    extra: int = 0  # as in Reading
    percentile: object = interpolated
    step_us: object = STEP_US

    def __str__(self):
        words = [CLIENTS[self.clients], PREFILLS[self.prefill]]
        if self.step_us != STEP_US:
            words.append(f"{float(self.step_us) / 1000:g} ms a step")
        words.append(FIRST_TOKENS[self.decodes])
        if self.extra:
            words.append("which leaves one token less to decode")
        if self.percentile is not interpolated:
            words.append(f"the p99 is {PERCENTILES[self.percentile]}")
        return "; ".join(words)


def tunings(n, step_us=STEP_US):
    """Every Tuning of n requests, the plainest first, at the exercise's time per step and at this one."""
    found = [
        Tuning(clients, prefill, decodes, extra, percentile, step)
        for step in dict.fromkeys((STEP_US, step_us))
        for clients in CLIENTS
        for prefill in PREFILLS
        if (clients, prefill) != (ALL, OWN_SLOT)
        for decodes, extra in ((True, 0), (False, 0), (False, -1))
        for percentile in PERCENTILES
    ]
    if n <= SHORT:
        return found
    return [one for one in found if one.clients == CLOSED and one.extra == 0 and one.percentile is interpolated]


def ttfts_us(replays, concurrency, tuning):
    """The sorted times to first token, in us."""
    key = ("ttfts", concurrency, tuning._replace(percentile=None))
    return replays.remember(key, compute_ttfts_us, replays, concurrency, tuning)


def compute_ttfts_us(replays, concurrency, tuning):
    prompts = replays.prompts
    if tuning.clients == BURST:
        groups = [(0, 0, min(concurrency, replays.n))]
    else:
        groups = replays.play(False, concurrency, tuning.extra).groups
    decode_us = tuning.step_us if tuning.decodes else 0
    found, clock_us, last = [], 0, 0
    for iteration, first, end in groups:
        clock_us += (iteration - last) * tuning.step_us
        last = iteration
        since_us = clock_us if tuning.clients == ALL else 0
        if tuning.prefill == FREE:
            waits, prefill_us = [0] * (end - first), 0
        elif tuning.prefill == OWN_SLOT:
            waits, prefill_us = [PREFILL_US_PER_TOKEN * prompt for prompt in prompts[first:end]], 0
        elif tuning.prefill == TOGETHER:
            prefill_us = PREFILL_US_PER_TOKEN * max(prompts[first:end])
            waits = [prefill_us] * (end - first)
        else:
            waits, prefill_us = [], 0
            for prompt in prompts[first:end]:
                prefill_us += PREFILL_US_PER_TOKEN * prompt
                waits.append(prefill_us)
            if tuning.decodes:
                waits = [prefill_us] * (end - first)
        found += [since_us + wait + decode_us for wait in waits]
        clock_us += prefill_us
    return sorted(found)


def p99_ms(replays, concurrency, tuning):
    return Fraction(tuning.percentile(ttfts_us(replays, concurrency, tuning))) / 1000


def mean_ms(replays, concurrency, tuning):
    found = ttfts_us(replays, concurrency, tuning)
    return Fraction(sum(found)) / (1000 * len(found))


class Counted(NamedTuple):
    """How a throughput of step 8 is counted."""

    reading: Reading
    burst_alone: bool = False  # only the tokens of the N requests that are sent at once?

    def __str__(self):
        return f"{self.reading}{'; of the N requests alone' if self.burst_alone else ''}"


def throughputs(replays, concurrency, tuning, step_us):
    """{Counted: throughput at this concurrency}: with the prefill that the TTFT counts, and without."""
    found = {}
    for prefill in dict.fromkeys((tuning.prefill, FREE)):
        for step in dict.fromkeys((tuning.step_us, STEP_US, step_us)):
            reading = Reading(tuning.extra, False, prefill, step)
            found[Counted(reading)] = replays.tps(False, concurrency, reading)
            if tuning.clients == BURST:
                tokens, span_us = burst(replays, concurrency, reading)
                found[Counted(reading, True)] = replays.per_second(tokens, span_us)
    return found


def burst(replays, concurrency, reading):
    """(output tokens, time) of the first requests of the list, sent at once."""
    prompts, outputs = replays.prompts[:concurrency], replays.outputs[:concurrency]
    if reading.prefill == OWN_SLOT:
        ends = [PREFILL_US_PER_TOKEN * p + reading.step_us * (o + reading.extra) for p, o in zip(prompts, outputs)]
        return sum(outputs), max(ends)
    prefill = {SERIAL: sum, TOGETHER: max, FREE: no_tokens}[reading.prefill](prompts)
    return sum(outputs), PREFILL_US_PER_TOKEN * prefill + reading.step_us * (max(outputs) + reading.extra)
