"""Solutions of the exercise as students write them: literal loops, one step at a time, in ms. They
share nothing with the lab or the grader, so that they can test both.

    solution(requests, Style())                            -> {"static.txt": "total_steps=...", ...}
    solution(requests, Style(prefill="free"), more=True)   -> continuous.txt and tune.csv, too

A Style is one way to understand the exercise. Its defaults are the lab's own.
"""

from bisect import bisect_right, insort
from functools import lru_cache
from random import Random
from statistics import median, quantiles
from typing import NamedTuple

RATES = (5, 10, 20, 40)


class Style(NamedTuple):
    # the engine of steps 1 to 4
    step_ms: float = 8.0
    prefill: str = "serial"  # serial, together, own (slot), free
    kind: str = "inside"  # a prefill: inside its step, an own step, mixed (the others go on); first (token), first own
    prefill_is_step: bool = False  # does an own step of prefill also cost step_ms?
    last_batch: str = "all"  # slots of the last batch: all, or as many as its requests
    # step 6
    arrivals: str = "poisson"  # poisson, even
    seed: int = 77
    pooled: bool = False  # seeds 0 to 19 instead, all waits together
    servers: int = 32
    request_by_request: bool = False
    queue_prefill: str = "serial"
    queue_step_ms: float = 8.0
    queue_static: bool = False
    average: str = "time"  # time, arrivals, rate, steps
    statistic: str = "p99"
    # step 8
    tune_prefill: str = "serial"
    tune_kind: str = "inside"
    first_token: str = "pass"  # pass: the end of its decode pass; prefill: the end of its own prefill
    clients: str = "closed"  # closed, burst, all
    percentile: str = "linear"  # linear, nearest, int, quantiles
    tune_tps: str = "same"  # same: as TTFT counts; free: no prefill
    tune_step_ms: float = 8.0


class Run(NamedTuple):
    steps: int
    ms: float
    ttfts: list  # from admission
    firsts: list  # from time 0
    waits: list
    peak: int
    left: float  # those left waiting after a step has admitted, times its ms, summed


@lru_cache(maxsize=None)
def engine(
    requests, slots, step_ms, prefill, kind="inside", static=False, arrivals=None, first="pass", own_costs=False
):
    """The loop: admit, prefill, decode one token each."""
    queued, arrivals = bool(arrivals), arrivals or (0.0,) * len(requests)
    now, steps, passes, peak, head, running = 0.0, 0, 0, 0, 0, []  # running: after which pass each leaves, in order
    ttfts, firsts, waits, left_waiting = [], [], [], 0.0
    extra = {"mixed": 1, "first": -1, "first own": -1}.get(kind, 0)
    while head < len(requests) or running:
        if not running and arrivals[head] > now:
            now = arrivals[head]
        start, new = now, []
        room = 0 if static and running else slots - len(running)
        while head < len(requests) and arrivals[head] <= start and len(new) < room:
            waits.append(start - arrivals[head])
            new.append(requests[head])
            head += 1
        ends = []
        for prompt, output in new:
            insort(running, passes + output + extra)
            if prefill == "serial":
                now += 0.05 * prompt
            ends.append(now if prefill == "serial" else start + (0.05 * prompt if prefill == "own" else 0))
        if new and prefill == "together":
            now = start + 0.05 * max(prompt for prompt, _ in new)
            ends = [now] * len(new)
        if new and kind in ("own", "first own"):
            steps += 1
            now += step_ms if own_costs else 0
        peak = max(peak, len(running))
        while running and not static and running[0] <= passes:
            running.pop(0)
        if running and running[-1] > passes:
            now += step_ms
            steps += 1
            passes += 1
        if queued:
            left_waiting += (now - start) * (bisect_right(arrivals, start, head) - head)
        done = [end if first == "prefill" else (now if prefill != "own" else end + step_ms) for end in ends]
        ttfts += [end - start for end in done]
        firsts += done
        while running and not static and running[0] <= passes:
            running.pop(0)
        if static and running[-1] <= passes:
            running = []
    return Run(steps, now, ttfts, firsts, waits, peak, left_waiting)


def own_slots(requests, slots, step_ms, static, kind):
    """ms, where each slot has its own clock: a prefill holds up nobody else."""
    times = [0.05 * prompt + step_ms * (output - (kind == "first")) for prompt, output in requests]
    if static:
        return sum(max(times[start : start + slots]) for start in range(0, len(times), slots))
    clocks = [0.0] * slots
    for ms in times:
        soonest = clocks.index(min(clocks))
        clocks[soonest] += ms
    return max(clocks)


def p99(values, way="linear"):
    values = sorted(values)
    if way == "nearest":
        return values[-(-99 * len(values) // 100) - 1]
    if way == "int":
        return values[int(0.99 * len(values))]
    if way == "quantiles":
        return quantiles(values, n=100)[98]
    place = 0.99 * (len(values) - 1)
    below = int(place)
    return values[below] + (place - below) * (values[min(below + 1, len(values) - 1)] - values[below])


def measures(requests, slots, style, static):
    """(steps, tokens per second, slot_util)"""
    tokens = sum(output for _, output in requests)
    run = engine(requests, slots, style.step_ms, style.prefill, style.kind, static, own_costs=style.prefill_is_step)
    ms = own_slots(requests, slots, style.step_ms, static, style.kind) if style.prefill == "own" else run.ms
    held = slots * run.steps
    if static and style.last_batch != "all":
        last = requests[len(requests) // slots * slots :]
        held -= (slots - len(last)) * engine(last, slots, 8.0, "free", style.kind, static).steps if last else 0
    return run.steps, 1000 * tokens / ms, tokens / held


def pairs(**values):
    return " ".join(f"{key}={value}" for key, value in values.items()) + "\n"


def steps_1_to_5(requests, style):
    found = {}
    for name, static in (("static.txt", True), ("continuous.txt", False)):
        steps, tps, util = measures(requests, 16, style, static)
        found[name] = pairs(total_steps=steps, throughput_tps=f"{tps:.2f}", slot_util=f"{util:.4f}")
    slow, fast = (measures(requests, 16, style, static)[1] for static in (True, False))
    found["compare.txt"] = pairs(static_tps=f"{slow:.2f}", continuous_tps=f"{fast:.2f}", speedup=f"{fast / slow:.3f}")
    peak = engine(requests, 32, 8.0, "serial").peak
    found["maxseqs.txt"] = pairs(max_num_seqs=32, peak_running=peak)
    return found


def arrivals_of(style, seed, n, rps):
    draw, arrivals, now = Random(seed), [], 0.0
    for _ in range(n):
        now += 1000 / rps if style.arrivals == "even" else draw.expovariate(rps) * 1000
        arrivals.append(now)
    return tuple(arrivals)


def served(requests, style, arrivals):
    """(waits, end) of servers that each take a request for its whole time."""
    clocks, waits = [0.0] * style.servers, []
    for at, (prompt, output) in zip(arrivals, requests):
        server = clocks.index(min(clocks))
        begin = max(at, clocks[server])
        waits.append(begin - at)
        clocks[server] = begin + style.queue_step_ms * output + (0.05 * prompt if style.queue_prefill != "free" else 0)
    return waits, max(clocks)


def queue_row(requests, style, rps):
    """(mean queue, p99 wait) at this rate."""
    runs = []
    for seed in range(20) if style.pooled else [style.seed]:
        arrivals = arrivals_of(style, seed, len(requests), rps)
        left = 0
        if style.request_by_request:
            waits, end = served(requests, style, arrivals)
        else:
            step_ms, prefill, static = style.queue_step_ms, style.queue_prefill, style.queue_static
            run = engine(requests, style.servers, step_ms, prefill, static=static, arrivals=arrivals)
            waits, end, left = run.waits, run.ms, run.left
        runs.append((arrivals, waits, end, left))
    waits = [wait for _, more, _, _ in runs for wait in more]
    end = sum(end for _, _, end, _ in runs)
    if style.average == "arrivals":
        area = sum(min(wait, at[-1] - one) for at, more, _, _ in runs for one, wait in zip(at, more))
        average = area / sum(at[-1] for at, *_ in runs)
    elif style.average == "rate":
        average = rps * sum(waits) / len(waits) / 1000
    elif style.average == "steps":
        average = sum(left for *_, left in runs) / end
    elif style.average == "everybody":
        average = (sum(waits) + len(runs) * sum(8.0 * output for _, output in requests)) / end
    else:
        average = sum(waits) / end
    found = {"mean": sum(waits) / len(waits), "median": median(waits), "maximum": max(waits)}
    return average, found[style.statistic] if style.statistic in found else p99(waits, style.percentile)


def queue_csv(requests, style):
    rows = [f"{rps},{queue:.3f},{wait:.3f}" for rps in RATES for queue, wait in [queue_row(requests, style, rps)]]
    return "\n".join(["rps,avg_queue,p99_wait_ms", *rows]) + "\n"


def tune_point(requests, style, clients):
    """(mean TTFT, p99 TTFT, tokens per second) of this many clients."""
    sent = requests[:clients] if style.clients == "burst" else requests
    tokens = sum(output for _, output in sent)
    run = engine(sent, clients, style.tune_step_ms, style.tune_prefill, style.tune_kind, first=style.first_token)
    ttfts = run.firsts if style.clients == "all" else run.ttfts
    ms = run.ms
    if style.tune_tps == "free":
        ms = engine(sent, clients, style.tune_step_ms, "free", style.tune_kind).ms
    elif style.tune_prefill == "own":
        ms = own_slots(sent, clients, style.tune_step_ms, False, style.tune_kind)
    return sum(ttfts) / len(ttfts), p99(ttfts, style.percentile), 1000 * tokens / ms


def tune(requests, style, whole):
    """(text of tune.txt, text of tune.csv); whole: is the curve to go on after the first miss?"""
    points, best, missed = [], 0, False
    for clients in range(1, len(requests) + 1):
        points.append(tune_point(requests, style, clients))
        if points[-1][1] > 200:
            missed = True
            if not whole and style.clients != "all":
                break
        elif not missed or style.clients == "all":
            best = clients
    tps = points[best - 1][2] if best else 0
    text = pairs(target_ttft_ms=200, max_concurrency=best, throughput_at_target=f"{tps:.2f}")
    rows = [f"{n},{mean:.2f},{tail:.2f},{tps:.2f}" for n, (mean, tail, tps) in enumerate(points, start=1)]
    return text, "\n".join(["concurrency,mean_ttft_ms,p99_ttft_ms,throughput_tps", *rows]) + "\n"


def solution(requests, style, more=False):
    """{file: text}; requests: ((prompt tokens, output tokens), ...); more: what the exercise does not name, too."""
    files = steps_1_to_5(requests, style)
    files["queue.csv"] = queue_csv(requests, style)
    prefill, decode = 0.05 * sum(prompt for prompt, _ in requests), 8.0 * sum(output for _, output in requests)
    share = decode / (prefill + decode)
    files["cost.txt"] = pairs(
        total_prefill_ms=f"{prefill:.2f}", total_decode_ms=f"{decode:.2f}", decode_share=f"{share:.4f}"
    )
    files["tune.txt"], files["tune.csv"] = tune(requests, style, more)
    return files if more else {name: text for name, text in files.items() if name not in ("continuous.txt", "tune.csv")}
