"""How much load does a system carry, and how long do its requests take at that load?

A system is a scheduler and its batch limit: how many requests may run at the same time. Memory cuts
the limit of the request level to 6. The iteration level reserves prompt + output tokens, as if each
output's length were known when the request comes. It ignores what happens when it is not known.

    ("request", 8)                  request level, up to 8 requests in a batch
    ("iteration", 32)               iteration level, up to 32 requests in an iteration
    Point(4, 3.973, 25.827, 3.879)  4 requests/s arrive; after the warm-up 3.973 are served, and the
                                    median request (p50) takes 25.827 ms per output token; with the
                                    warm-up counted, 3.879 are served
"""

from math import sqrt
from typing import NamedTuple

from roofline import iteration_level as orca_iteration
from roofline import request_level as orca_request
from roofline.model import FULL_LENGTH_SLOTS
from roofline.workload import arrivals_at, p50_ms_per_token, throughput_rps, warm_up

LOWEST_RPS, HIGHEST_RPS, HALVINGS = 0.05, 64, 14  # where the highest rate within a target is sought


class Point(NamedTuple):
    rate_rps: float
    throughput_rps: float
    p50_ms_per_token: float
    all_rps: float  # requests served per second if the warm-up counts too


def simulate(system, requests, arrivals_us):
    """The Schedule of the requests under a system."""
    scheduler, max_batch = system
    if scheduler == "request":
        return orca_request.schedule(requests, min(max_batch, FULL_LENGTH_SLOTS), arrivals_us)
    needs = [prompt + output for prompt, output in zip(*requests)]
    return orca_iteration.schedule(requests, max_batch, arrivals_us, needs).schedule


def measure(system, workload, rate_rps):
    """The Point of a Workload that arrives at this rate."""
    arrivals_us = arrivals_at(workload, rate_rps)
    finished_us = simulate(system, workload.requests, arrivals_us).finished_us
    latency = p50_ms_per_token(workload.requests.output_tokens, arrivals_us, finished_us)
    served, all_served = (throughput_rps(arrivals_us, finished_us, warm) for warm in (warm_up(arrivals_us), 0))
    return Point(rate_rps, served, latency, all_served)


def curve(system, workload, rates_rps):
    return [measure(system, workload, rate) for rate in rates_rps]


def peak_rps(points):
    """The highest throughput of a curve."""
    return max(point.throughput_rps for point in points)


def at_once_rps(system, requests):
    """Requests served per second if all of them come at time 0.

    Equal ones then run in lockstep: many prompts are prefilled together, and nobody decodes meanwhile. That is not
    what the system can do at most: prompts that come one by one join requests that decode, which costs less.
    """
    n = len(requests.prompt_tokens)
    return n * 1e6 / max(simulate(system, requests, [0] * n).finished_us)


def highest_within(system, workload, target_ms):
    """The Point of the highest rate that meets the target, by bisection. All zero if the lowest rate misses it."""
    best = measure(system, workload, LOWEST_RPS)
    if best.p50_ms_per_token > target_ms:
        return Point(0, 0, 0, 0)
    too_high = HIGHEST_RPS
    for _ in range(HALVINGS):
        point = measure(system, workload, sqrt(best.rate_rps * too_high))  # halfway on a log scale
        if point.p50_ms_per_token <= target_ms:
            best = point
        else:
            too_high = point.rate_rps
    return best


def name(system):
    return f"{system[0]} {system[1]}"


def decimals(numbers):
    return [f"{number:.3f}" for number in numbers]
