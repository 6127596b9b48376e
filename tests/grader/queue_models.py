"""Which waits and which queue does a solution of step 6 find? Plausible models on several arrivals.

The exercise leaves open how requests arrive and how the server is simulated. So each model is
played on evenly spaced and on Poisson arrivals, and gives samples of what may stand in queue.csv:
the p99 of the waits, and the mean queue in each way to average it.

    Model     a server: step by step with slots, or request by request with c servers
    samples   {rate: [Sample, ...]} of a model on one kind of arrivals
"""

from bisect import bisect_right
from heapq import heappop, heappush
from itertools import accumulate
from random import Random
from typing import NamedTuple

from readings import FREE, PREFILL_US_PER_TOKEN, PREFILLS, SERIAL, STEP_US, TOGETHER
from readings import interpolated, nearest_rank, next_rank

RATES = (5, 10, 20, 40)
SERVERS = 32
POOLED = range(20)  # the lab pools the waits of random.Random(s) for these s
SEEDS = (*POOLED, 42, 100, 123, 1234, 2023, 2024, 2025, 12345)  # a solution may take a single one, often one of these
EVEN, POISSON = "evenly spaced arrivals", "Poisson arrivals"


class Model(NamedTuple):
    """A server with this many slots; stepwise: does it admit at the ends of steps only?"""

    slots: int = SERVERS
    stepwise: bool = True
    prefill: str = SERIAL
    step_us: object = STEP_US
    static: bool = False

    def __str__(self):
        words = [f"{self.slots} slots, step by step" if self.stepwise else f"{self.slots} servers, request by request"]
        if self.static:
            words.append("static batches")
        if self.step_us != STEP_US:
            words.append(f"{float(self.step_us) / 1000:g} ms a step")
        if self.stepwise or self.prefill == FREE:
            words.append(PREFILLS[self.prefill])
        return "; ".join(words)


class Waits(NamedTuple):
    """One run, in us; n of each, in order of arrival."""

    arrivals: list
    waits: list
    skipped: list  # boundaries between steps at which the request waited, and was not admitted
    boundaries: int
    span: float


def models(step_us=STEP_US):
    """Every model that the exercise permits, the plainest first."""
    return [
        Model(SERVERS, stepwise, prefill, step)
        for step in dict.fromkeys((STEP_US, step_us))
        for stepwise, prefill in ((True, SERIAL), (True, FREE), (True, TOGETHER), (False, SERIAL), (False, FREE))
    ]


def play(model, prompts, outputs, arrivals):
    return (step_by_step if model.stepwise else request_by_request)(model, prompts, outputs, arrivals)


def request_by_request(model, prompts, outputs, arrivals):
    """Each request takes a free server for its prefill and its output, whatever the others do."""
    free, waits = [0] * model.slots, []
    prefill_us = 0 if model.prefill == FREE else PREFILL_US_PER_TOKEN
    for arrival, prompt, output in zip(arrivals, prompts, outputs):
        start = max(arrival, heappop(free))
        waits.append(start - arrival)
        heappush(free, start + prefill_us * prompt + model.step_us * output)
    return Waits(arrivals, waits, waits, 0, max(free))


def step_by_step(model, prompts, outputs, arrivals):
    """Continuous batching (or static), from event to event; arrivals rise."""
    of_group = {SERIAL: sum, TOGETHER: max, FREE: len}[model.prefill]
    prefill_us = 0 if model.prefill == FREE else PREFILL_US_PER_TOKEN
    n, step_us, running, waits, skipped = len(arrivals), model.step_us, [], [], []
    now = head = seen = step = 0
    first = []  # for each request, the first boundary at or after its arrival
    while head < n or running:
        if not running:
            now = max(now, arrivals[head])
        free = 0 if model.static and running else model.slots - len(running)
        end = min(bisect_right(arrivals, now, head), head + free)
        while seen < end:
            first.append(step)
            seen += 1
        for position in range(head, end):
            waits.append(now - arrivals[position])
            skipped.append(step - first[position])
            heappush(running, (step + outputs[position]))
        now += prefill_us * of_group(prompts[head:end]) if head < end else 0
        head = end
        steps = (max(running) if model.static else running[0]) - step
        if head < n and len(running) < model.slots and not model.static:  # or until the next one has arrived
            steps = min(steps, max(1, -int((now - arrivals[head]) // step_us)))
        last = now + steps * step_us
        while seen < n and arrivals[seen] <= last:
            first.append(step + max(1, -int((now - arrivals[seen]) // step_us)))
            seen += 1
        now, step = last, step + steps
        while running and running[0] <= step:
            heappop(running)
    return Waits(arrivals, waits, skipped, step, now)


# --- arrivals -----------------------------------------------------------------------------------------------------


def even(n, rps, first):
    """One request every 1/rps seconds, in us; first: 0 if the first comes at time 0, 1 if after a gap."""
    return [1_000_000 * (i + first) / rps for i in range(n)]


def poisson(n, rps, seed):
    """random.Random(seed) draws the gaps, the same for every rate."""
    r = Random(seed)
    return [1_000_000 * arrival / rps for arrival in accumulate(r.expovariate(1.0) for _ in range(n))]


# --- what may be written of it ------------------------------------------------------------------------------------


class Sample(NamedTuple):
    """What may stand in a row, in ms, and requests; each {name: value}."""

    waits: dict  # statistic: of the waits
    queues: dict  # average: of the queue


P99S = {"p99": interpolated, "p99, nearest rank": nearest_rank, "p99, int(0.99 * n)": next_rank}
RUNNING = "waiting and running"


def sample(runs, rps, outputs, step_us):
    """The Sample of one run, or of several whose waits are pooled."""
    waits = sorted(wait / 1000 for run in runs for wait in run.waits)
    n, span = len(waits), sum(run.span for run in runs)
    total = sum(waits) * 1000
    found = {name: float(percentile(waits)) for name, percentile in P99S.items()}
    found |= {"maximum": waits[-1], "mean": sum(waits) / n, "median": (waits[n // 2] + waits[(n - 1) // 2]) / 2}
    arriving = sum(run.arrivals[-1] for run in runs)
    inside = sum(min(wait, run.arrivals[-1] - at) for run in runs for at, wait in zip(run.arrivals, run.waits))
    boundaries = sum(run.boundaries for run in runs)
    queues = {
        "over the whole time": total / span,
        "while requests arrive": inside / arriving if arriving else 0,
        "as rate x mean wait": rps * total / n / 1e6,
        "as arriving requests see it": sum(map(seen, runs)) / n,
        RUNNING: (total + step_us * sum(outputs) * len(runs)) / span,
    }
    if boundaries:
        queues["of those left waiting at each step"] = sum(sum(run.skipped) for run in runs) / boundaries
    return Sample(found, queues)


def seen(run):
    """The sum, over all requests, of how many wait when it arrives. First come, first served: starts rise, too."""
    starts = [arrival + wait for arrival, wait in zip(run.arrivals, run.waits)]
    return sum(i - bisect_right(starts, arrival, 0, i) for i, arrival in enumerate(run.arrivals))


def samples(model, kind, replays):
    """{rate: [Sample]}: single runs and, of Poisson arrivals, all of them pooled as the last."""
    return replays.remember(("samples", model, kind), compute_samples, model, kind, replays)


def compute_samples(model, kind, replays):
    n, found = replays.n, {}
    for rps in RATES:
        draws = [even(n, rps, first) for first in (0, 1)] if kind == EVEN else []
        if kind == POISSON:
            draws = [poisson(n, rps, seed) for seed in SEEDS]
        runs = [play(model, replays.prompts, replays.outputs, arrivals) for arrivals in draws]
        pools = [[run] for run in runs] + ([runs[: len(POOLED)]] if kind == POISSON else [])
        found[rps] = [sample(pool, rps, replays.outputs, model.step_us) for pool in pools]
    return found
