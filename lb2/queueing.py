"""How do the queue and the longest waits grow as requests arrive faster?

Requests arrive at random (a Poisson process) at each rate, and continuous batching serves them. For
each rate this gives the number of requests that wait, averaged over time, and the p99 of the waits:
99 of 100 requests wait no longer. The same 20 random draws serve every rate, so that only the rate
differs. Their waits are pooled, because the p99 of one draw of 100 requests is nearly its maximum.
It ignores clients that give up.

    python3 lb2/queueing.py --rps 5 10 20 40        writes queue.csv

(The name queue.py would hide the standard library's queue from every script beside it.)
"""

from array import array
from itertools import accumulate
from random import Random

from common import (
    Costs, arguments, count, load_costs, load_requests, number, percentile, progress, run, save, say,
    table,
)
from continuous import schedule

DRAWS = 20
SHORTER = 0.9  # a p99 is called shorter if it is so many times the other, or less


def unit_arrivals(seed, n):
    """n arrival times, in seconds, of a Poisson process of 1 request per second."""
    r = Random(seed)
    return array("d", accumulate(r.expovariate(1.0) for _ in range(n)))


def at_rate(arrivals, rps):
    """Unit-rate arrivals in seconds -> arrivals at this rate in whole microseconds."""
    return [round(1e6 * (arrival / rps)) for arrival in arrivals]


def simulate(requests, arrivals_us, max_num_seqs, costs):
    """(waits, time span) of one draw, in us."""
    result = schedule(requests, max_num_seqs, arrivals_us, costs)
    return [admitted - arrival for admitted, arrival in zip(result.admitted_us, arrivals_us)], max(result.finished_us)


def waits_at(requests, draws, rps, max_num_seqs, costs=Costs()):
    """(waits of all requests of all draws, sum of the draws' time spans), in microseconds."""
    waits_us, span_us = [], 0
    simulated = (simulate(requests, at_rate(draw, rps), max_num_seqs, costs) for draw in draws)
    for more_waits_us, more_span_us in progress(simulated, len(draws)):
        waits_us += more_waits_us
        span_us += more_span_us
    return waits_us, span_us


def queue_at(requests, draws, rps, max_num_seqs, costs=Costs()):
    """(time-average of the waiting requests, p99 of their waits in ms), the draws pooled."""
    waits_us, span_us = waits_at(requests, draws, rps, max_num_seqs, costs)
    return sum(waits_us) / span_us, percentile(waits_us, 99) / 1000  # the mean is Little's law


def capacity_rps(requests, max_num_seqs, costs):
    """Requests per second when all slots are full: 1 / (mean prefill + mean output x time of a pass / slots)."""
    n = len(requests.output_tokens)
    prefill_us = sum(map(costs.prefill_us, requests.prompt_tokens)) / n
    decode_us = sum(requests.output_tokens) / n * costs.decode_us(max_num_seqs) / max_num_seqs
    return 1_000_000 / (prefill_us + decode_us)


def notices_at_capacity(requests, draws, p99s_ms, max_num_seqs, costs):
    """Sentences on what the waits say at, beyond and below capacity. p99s_ms: {rate: p99 of the waits}."""
    n = len(requests.output_tokens)
    if n <= max_num_seqs:
        yield f"There are no more requests ({n}) than slots ({max_num_seqs}), so nobody waits for a slot at any rate."
        return
    capacity = capacity_rps(requests, max_num_seqs, costs)
    waits_us, _ = waits_at(requests, draws, capacity, max_num_seqs, costs)
    mean_ms, p99_ms = sum(waits_us) / len(waits_us) / 1000, percentile(waits_us, 99) / 1000
    yield (f"Capacity is about {capacity:.3g} requests/s, when all {max_num_seqs} slots are busy. At that rate the "
           f"mean wait is {mean_ms:.0f} ms and the p99 {p99_ms:.0f} ms. Beyond it the queue grows as long as requests "
           f"arrive. There the p99 jumps, and how far it goes depends on the length of the list ({n} requests).")
    below = max((rps for rps in p99s_ms if rps < capacity), default=None)
    if below:
        _, twice_ms = queue_at(requests, draws, below, 2 * max_num_seqs, costs)
        why = ("slots are short at times" if twice_ms < SHORTER * p99s_ms[below] else
               "a request waits for the end of the iteration under way, and not for a slot")
        yield (f"Below capacity, at {below:g} requests/s, the p99 wait is {p99s_ms[below]:.1f} ms, and with twice the "
               f"slots it would be {twice_ms:.1f} ms: {why}.")


def main():
    parser = arguments(__doc__)
    parser.add_argument("--rps", type=number, nargs="+", default=[5.0, 10.0, 20.0, 40.0], metavar="RATE",
                        help="requests per second (default: 5 10 20 40)")
    parser.add_argument("--max-num-seqs", type=count, default=32, metavar="N", help="slots (default: 32)")
    args = parser.parse_args()
    requests, costs = load_requests(args.requests, args.first), load_costs(args.costs)
    draws = [unit_arrivals(seed, len(requests.output_tokens)) for seed in range(DRAWS)]
    measured = [queue_at(requests, draws, rps, args.max_num_seqs, costs) for rps in args.rps]
    rows = [[f"{rps:.12g}", f"{mean:.3f}", f"{p99_ms:.3f}"] for rps, (mean, p99_ms) in zip(args.rps, measured)]
    p99s_ms = {rps: p99_ms for rps, (_, p99_ms) in zip(args.rps, measured)}
    text = table(["rps", "avg_queue", "p99_wait_ms"], rows)
    save(args.out, {"queue.csv": text})

    print("Step 6: the queue as load grows")
    print(f"queue.csv:\n{text}", end="")
    low, high = rows[0], rows[-1]
    if low is high:
        say(f"Notice: at {low[0]} requests/s {low[1]} requests wait on average, and the p99 wait is {low[2]} ms.")
    else:
        say(f"Notice: from {low[0]} to {high[0]} requests/s the mean queue goes from {low[1]} to {high[1]} requests, "
            f"and the p99 wait from {low[2]} to {high[2]} ms.")
    for sentence in notices_at_capacity(requests, draws, p99s_ms, args.max_num_seqs, costs):
        say(sentence)


if __name__ == "__main__":
    run(main)
