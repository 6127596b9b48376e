"""What do the requests give under each reading that the exercise permits? One table of readings, one replay.

The exercise leaves open what a step costs, what a prefill is, how requests arrive, and what a p99 is. A Reading
is one answer to the first two; the steps' graders choose the rest. The replay uses nothing of the lab's schedulers,
so it also checks them.

    Reading(OWN, FREE, 8000, True)    a prefill is an iteration of its own, in which the others wait, and costs a step
    replay(requests, reading, slots)  the Run: iterations, time, and each request's start and first token
"""

from bisect import bisect_right
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil
from typing import NamedTuple

PREFILL_US_PER_TOKEN = 50
STEP_US = 8000
INSIDE, OWN, MIXED, FIRST, FIRST_OWN = "inside", "own", "mixed", "first", "first own"
KINDS = {  # (passes of a request beyond its output tokens, iterations of each group before them, words)
    INSIDE: (0, 0, ""),
    OWN: (0, 1, "a prefill is an iteration of its own, in which the others wait"),
    MIXED: (1, 0, "a prefill is an iteration of its own, in which the others go on"),
    FIRST: (-1, 0, "the prefill gives the first token and is not counted as an iteration"),
    FIRST_OWN: (-1, 1, "the prefill gives the first token, in an iteration of its own"),
}
SERIAL, TOGETHER, OWN_SLOT, FREE = "serial", "together", "own slot", "free"
PREFILLS = {
    SERIAL: "prompts are prefilled one after the other",
    TOGETHER: "prompts are prefilled together (the longest counts)",
    OWN_SLOT: "a prefill holds up its own slot only",
    FREE: "prefill costs nothing",
}


class Reading(NamedTuple):
    """One way to count iterations and time."""

    kind: str = INSIDE
    prefill: str = SERIAL
    step_us: int = STEP_US
    costs_step: bool = False  # does an own iteration of prefill cost a step, too?

    def __str__(self):
        words = [f"{self.step_us / 1000:g} ms a step", PREFILLS[self.prefill]]
        if self.prefill == FREE and self.step_us == 1_000_000:
            words = ["throughput is in tokens per step"]
        if self.kind != INSIDE:
            words.append(KINDS[self.kind][2] + ", and it costs a step" * self.costs_step)
        return "; ".join(words)


READINGS = [  # the plainest first
    Reading(kind, prefill, STEP_US, costs_step)
    for kind in KINDS
    for prefill in (SERIAL, FREE, TOGETHER) + (OWN_SLOT,) * (kind in (INSIDE, FIRST))
    for costs_step in ((False, True) if kind in (OWN, FIRST_OWN) else (False,))
]


def readings(*steps_us):
    """Every Reading, at the exercise's time per step and at these."""
    return [reading._replace(step_us=step) for step in dict.fromkeys((STEP_US, *steps_us)) for reading in READINGS]


class Run(NamedTuple):
    """Times in us; lists have one number for each request, in order."""

    passes: int  # iterations in which tokens are decoded
    groups: int  # how often requests were admitted
    span: int  # from time 0 to the last finish
    idle: int  # of it, while nothing ran
    held: int  # the decode time of all requests
    peak: int  # the most sequences in one iteration
    arrivals: list
    starts: list  # the start of the iteration that admits the request
    prefilled: list  # the end of its own prefill
    group_prefilled: list  # the end of the prefill of all that are admitted with it
    firsts: list  # the end of its first decode pass


def replay(requests, reading, slots, static=False, arrivals=None):
    """Continuous batching refills free slots at once; static batching when the whole batch has ended."""
    arrivals = arrivals or [0] * len(requests[0])
    if reading.prefill == OWN_SLOT:
        return replay_clocks(requests, reading, slots, static, arrivals)
    prompts, outputs = requests
    (extra, own, _), n, step_us = KINDS[reading.kind], len(prompts), reading.step_us
    starts, prefilled, together, firsts = [], [], [], []
    running, now, passes, groups, peak, head, idle = [], 0, 0, 0, 0, 0, 0
    while head < n or running:
        if not running:
            idle += max(0, arrivals[head] - now)
            now = max(now, arrivals[head])
        free = slots - len(running)  # static: nothing runs, for its batch has ended
        end = bisect_right(arrivals, now, head, min(n, head + free)) if free else head
        late = len(firsts) < head  # mixed: those before are prefilled, and decode from now on
        if end > head:
            groups += 1
            starts += [now] * (end - head)
            ends = prefill_ends(prompts[head:end], reading.prefill, now)
            now = ends[-1] + step_us * reading.costs_step
            prefilled += [at + step_us * reading.costs_step for at in ends]
            together += [now] * (end - head)
            for output in outputs[head:end]:
                heappush(running, passes + output + extra)
            peak = max(peak, len(running))
        leaves = max(running) if static else running[0]
        jump = leaves - passes
        if head < end < n or head == end < n:
            if len(running) < slots and not static:  # or until the next one has arrived
                jump = min(jump, max(1, -int((now - arrivals[end]) // step_us)))
        if reading.kind == MIXED and end > head:
            jump = 1
        if late or reading.kind != MIXED:
            firsts += [now + step_us] * ((head if late else end) - len(firsts))
        head = end
        now, passes = now + jump * step_us, passes + jump
        while running and running[0] <= passes:
            heappop(running)
    held = step_us * sum(outputs)
    return Run(passes, groups * own, now, idle, held, peak, arrivals, starts, prefilled, together, firsts)


def prefill_ends(prompts, prefill, now):
    if prefill == SERIAL:
        ends = []
        for prompt in prompts:
            now += PREFILL_US_PER_TOKEN * prompt
            ends.append(now)
        return ends
    return [now + (PREFILL_US_PER_TOKEN * max(prompts) if prefill == TOGETHER else 0)] * len(prompts)


def replay_clocks(requests, reading, slots, static, arrivals):
    """Each slot has a clock of its own: a request takes it for its prefill and its output, whatever the others do."""
    extra, step_us = KINDS[reading.kind][0], reading.step_us
    clocks, starts, prefilled, firsts = [0] * slots, [], [], []
    iterations = replay(requests, reading._replace(prefill=FREE), slots, static, arrivals)
    for i, (prompt, output) in enumerate(zip(*requests)):
        if static and i % slots == 0:
            clocks = [max(clocks)] * slots
        start = max(arrivals[i], heappop(clocks))
        starts.append(start)
        prefilled.append(start + PREFILL_US_PER_TOKEN * prompt)
        firsts.append(prefilled[-1] + step_us)
        heappush(clocks, prefilled[-1] + step_us * (output + extra))
    return iterations._replace(
        span=max(clocks), starts=starts, prefilled=prefilled, group_prefilled=prefilled, firsts=firsts
    )


# --- percentiles --------------------------------------------------------------------------------------------------


def interpolated(ordered, percent=99):
    """numpy.percentile of one or more numbers, the smallest first."""
    at, part = divmod(percent * (len(ordered) - 1), 100)
    return ordered[at] + (ordered[min(at + 1, len(ordered) - 1)] - ordered[at]) * Fraction(part, 100)


def nearest_rank(ordered, percent=99):
    return ordered[ceil(percent * len(ordered) / 100) - 1]


def next_rank(ordered, percent=99):
    """sorted(xs)[int(0.99 * n)], which of 100 numbers or fewer is the largest."""
    return ordered[percent * len(ordered) // 100]


PERCENTILES = {interpolated: "interpolated", nearest_rank: "nearest rank", next_rank: "sorted(...)[int(0.99 * n)]"}


class Replays:
    """The requests, and what was replayed of them so far; a class of students shares one."""

    def __init__(self, requests):
        self.requests = self.prompts, self.outputs = list(requests.prompt_tokens), list(requests.output_tokens)
        self.n, self.tokens = len(self.outputs), sum(self.outputs)
        self.memory = {}

    def remember(self, key, compute, *arguments):
        if key not in self.memory:
            self.memory[key] = compute(*arguments)
        return self.memory[key]

    def run(self, static, slots, reading=Reading(), requests=None):
        """All requests there at time 0; requests: others than the list's."""
        key = (static, slots, reading, requests and tuple(map(tuple, requests)))
        return self.remember(key, replay, requests or self.requests, reading, slots, static)

    def tps(self, static, slots, reading=Reading()):
        return per_second(self.tokens, self.run(static, slots, reading).span)


def per_second(count, span_us):
    return Fraction(count * 1_000_000, span_us) if span_us else Fraction(0)
