"""How much concurrency can I allow and still meet my TTFT target, at p99?

TTFT is the time to the first token. Concurrency is the number of requests under way. N clients
start at time 0; each sends its next request when its last one has ended (a closed loop). The server
has N slots, so no request waits for one: it is issued and admitted at the same moment. Its TTFT is
the time of the iteration that admits it: its own prefill, the prefill of all that are admitted with
it (all N in the first iteration), and one decode pass. So this is continuous batching in N slots
with all requests there at time 0: the next request of the list takes each slot that becomes free.
It ignores memory. The overhead of --costs is added to every TTFT, and delays nothing.

    python3 lb2/tune.py --target-ttft-ms 200        writes tune.txt, and the whole curve in tune.csv

The answer is the largest N such that N and every smaller number meet the target at p99: 99 of 100
requests meet it. Every N is tried, in order. The p99 need not grow with N, so bisection could jump
over a miss.
"""

from math import fsum
from random import Random
from statistics import median
from typing import NamedTuple

from common import Costs, Requests, arguments, count, load_costs, load_requests, number
from common import pairs, percentile, progress, run, save, say, table
from static import throughput_tps
from continuous import schedule

ORDERS = 20


class Point(NamedTuple):
    concurrency: int
    mean_ttft_ms: float
    p99_ttft_ms: float
    throughput_tps: float


def measure(requests, concurrency, costs=Costs()):
    """Run the closed loop of this many clients."""
    result = schedule(requests, concurrency, costs=costs)
    ttfts_us = [first - issued + costs.overhead_us for first, issued in zip(result.first_token_us, result.admitted_us)]
    mean_ttft_ms = fsum(ttfts_us) / len(ttfts_us) / 1000
    return Point(concurrency, mean_ttft_ms, percentile(ttfts_us, 99) / 1000, throughput_tps(requests, result))


def largest_within(points, target_ms, ttft):
    """The last of the points, in order, before the first whose ttft misses the target; None if the first one does."""
    best = None
    for point in points:
        if ttft(point) > target_ms:
            break
        best = point
    return best


def p99(point):
    return point.p99_ttft_ms


def mean(point):
    return point.mean_ttft_ms


def answer_in_random_order(requests, seed, up_to, target_ms, costs):
    """max_concurrency of the same requests in a random order, scanned to its first miss."""
    records = list(zip(*requests))
    Random(seed).shuffle(records)
    shuffled = Requests(*zip(*records))
    best = largest_within((measure(shuffled, n, costs) for n in range(1, up_to + 1)), target_ms, p99)
    return best.concurrency if best else 0


def verdict(best, best_by_mean, points, target_ms):
    """The answer in words."""
    if not best:
        return f"Infeasible: one request at a time already has a p99 TTFT of {points[0].p99_ttft_ms:.2f} ms."
    if best is points[-1]:
        return f"No upper edge found up to {best.concurrency}: every concurrency tried meets {target_ms:.2f} ms."
    if best_by_mean is best:
        return f"Notice: at p99 the target allows {best.concurrency}, and the mean TTFT promises no more."
    if not best_by_mean:
        return f"Notice: at p99 the target allows {best.concurrency}; the mean TTFT of one at a time misses it already."
    return (
        f"Notice: the mean TTFT would promise {'at least ' if best_by_mean is points[-1] else ''}"
        f"{best_by_mean.concurrency}, where the p99 is "
        f"{best_by_mean.p99_ttft_ms:.2f} ms; at p99 the target allows {best.concurrency}."
    )


def throughput_words(points, target_ms):
    """What throughput alone would choose, in words; "" where that meets the target."""
    most_tps = f"{max(point.throughput_tps for point in points):.2f}"
    fastest = [point for point in points if f"{point.throughput_tps:.2f}" == most_tps]
    first, last = fastest[0], fastest[-1]
    if last.p99_ttft_ms <= target_ms:
        return ""
    clients, p99s = f"{first.concurrency}", f"{first.p99_ttft_ms:.2f}"
    if first is not last:
        clients, p99s = f"{clients} to {last.concurrency}", f"{p99s} to {last.p99_ttft_ms:.2f}"
    return f" Throughput alone would pick {clients} clients: {most_tps} tokens/s, at a p99 TTFT of {p99s} ms."


def main():
    parser = arguments(__doc__)
    parser.add_argument("--target-ttft-ms", type=number, default=200.0, metavar="MS",
                        help="p99 time to first token allowed, in ms (default: 200)")
    parser.add_argument("--up-to", type=count, default=256, metavar="N",
                        help="largest concurrency tried (default: 256, or the number of requests if smaller)")
    args = parser.parse_args()
    requests, costs = load_requests(args.requests, args.first), load_costs(args.costs)
    target_ms = args.target_ttft_ms
    up_to = min(args.up_to, len(requests.output_tokens))
    points = list(progress((measure(requests, n, costs) for n in range(1, up_to + 1)), up_to))
    best = largest_within(points, target_ms, p99)
    line = pairs(
        target_ttft_ms=f"{target_ms:.10g}",
        max_concurrency=best.concurrency if best else 0,
        throughput_at_target=f"{best.throughput_tps if best else 0:.2f}",
    )
    rows = [[n, f"{mean_ms:.2f}", f"{p99_ms:.2f}", f"{tps:.2f}"] for n, mean_ms, p99_ms, tps in points]
    text = table(["concurrency", "mean_ttft_ms", "p99_ttft_ms", "throughput_tps"], rows)
    save(args.out, {"tune.txt": line, "tune.csv": text})

    print("Step 8: the largest concurrency that meets the target")
    print(f"tune.txt: {line}", end="")
    say(verdict(best, largest_within(points, target_ms, mean), points, target_ms) + throughput_words(points, target_ms))
    say("All clients start together here, so all their first prompts are prefilled in one iteration, a slow one. "
        "plan.py, of the fourth lab, leaves each client's first request out, and its server prefills a burst in "
        "several steps. So its answer can be larger.")
    if 100 * up_to < len(requests.output_tokens):  # 20 x 256 runs of a long list would take hours
        say("The order of the list was not varied. Its first burst is less than 1 % of it, which a p99 does not see.")
        return
    orders = (answer_in_random_order(requests, seed, up_to, target_ms, costs) for seed in range(ORDERS))
    answers = list(progress(orders, ORDERS))
    low, high = min(answers), max(answers)
    found = f"{low}" if low == high else f"{low} to {high}, median {median(answers):g}"
    say(f"The order of the list decides which requests are in that burst. {ORDERS} random orders of the same requests "
        f"give {found}.")


if __name__ == "__main__":
    run(main)
