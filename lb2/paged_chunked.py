"""What does a token budget do to the tail of inter-token latency, and what does it cost?

ITL (inter-token latency) is the time between two tokens of one request. A long prompt that is
prefilled at once delays the next token of everybody else. With a budget, a step computes at most
max_num_batched_tokens tokens: first one for each sequence that decodes, then a chunk of a prompt.

    python3 lb2/paged_chunked.py        writes paged_chunked.csv

The requests arrive at 10 a second (the 20 draws of step 6, pooled; fewer draws of a list of more
than 1,000 requests). At most 32 run. Memory is unlimited. TTFT, the time to the first token, counts
from when the client sends the request.
"""

from collections import Counter

from common import arguments, load_requests, percentile, progress, run, save, say, table
from files.costs import Costs, load_server
from paging.clock import percentile_of_counts
from paging.fast import schedule
from paging.scheduler import UNLIMITED
from queueing import DRAWS, at_rate, unit_arrivals
from running.options import aligned

RPS = 10
MAX_NUM_SEQS = 32
ENOUGH = 20_000  # requests in all, pooled: more would not move a p99
BUDGETS = (64, 128, 256, 512, 1024, 2048, UNLIMITED)
HEADER = ["max_num_batched_tokens", "p99_ttft_ms", "p99_itl_ms", "throughput_tps"]


def draws_for(n):
    """How many of step 6's draws: all of them, but of a list of n requests only so many as make ENOUGH requests."""
    return max(1, min(DRAWS, ENOUGH // n))


def name(budget):
    return "unlimited" if budget == UNLIMITED else str(budget)


def measure(requests, budget, costs=Costs()):
    """(p99 TTFT in us, p99 ITL in us, tokens per second), all draws pooled."""
    ttfts_us, gaps_us, span_us = [], Counter(), 0
    n = len(requests.prompt_tokens)
    schedules = (schedule(requests, MAX_NUM_SEQS, at_rate(unit_arrivals(seed, n), RPS), costs,
                          max_num_batched_tokens=budget, overhead_us=costs.overhead_us) for seed in range(draws_for(n)))
    for result in progress(schedules, draws_for(n)):
        ttfts_us.extend(first - issued for first, issued in zip(result.first_token_us, result.issued_us))
        gaps_us.update(result.gaps_us)
        span_us += max(result.finished_us)
    p99_itl_us = percentile_of_counts(gaps_us, 99) if gaps_us else 0
    return percentile(ttfts_us, 99), p99_itl_us, draws_for(n) * sum(requests.output_tokens) * 1_000_000 / span_us


def main():
    args = arguments(__doc__).parse_args()
    requests, costs = load_requests(args.requests, args.first), load_server(args.costs).costs
    measures = (measure(requests, budget, costs) for budget in BUDGETS)
    measured = dict(zip(BUDGETS, progress(measures, len(BUDGETS))))
    rows = [[name(budget), f"{ttft / 1000:.2f}", f"{itl / 1000:.2f}", f"{tps:.2f}"]
            for budget, (ttft, itl, tps) in measured.items()]
    save(args.out, {"paged_chunked.csv": table(HEADER, rows)})
    print("Chunked prefill: paged_chunked.csv")
    print(aligned(HEADER, rows), end="")
    print_notices(measured)


def print_notices(measured):
    """What the table says. measured: budget -> (p99 TTFT in us, p99 ITL in us, tokens per second)."""
    ttft_ms = {budget: ttft / 1000 for budget, (ttft, _, _) in measured.items()}
    itl_ms = {budget: itl / 1000 for budget, (_, itl, _) in measured.items()}
    least, most = min(itl_ms, key=itl_ms.get), max(itl_ms, key=itl_ms.get)
    falls = [name(budget) for before, budget in zip(BUDGETS, BUDGETS[1:]) if itl_ms[budget] < itl_ms[before]]
    if itl_ms[least] == itl_ms[most]:
        say(f"Notice: p99 ITL is {itl_ms[least]:.2f} ms at every budget.")
    else:
        say(f"Notice: p99 ITL is lowest at {name(least)}, {itl_ms[least]:.2f} ms, where p99 TTFT is "
            f"{ttft_ms[least]:.2f} ms; highest at {name(most)}, {itl_ms[most]:.2f} ms, with "
            f"{ttft_ms[most]:.2f} ms of TTFT.")
    if falls:
        say(f"A larger budget is not always a longer tail: p99 ITL falls on the way to {', '.join(falls)}.")
    elif itl_ms[least] != itl_ms[most]:
        say("The tail of ITL never falls as the budget grows.")
    quickest = min(ttft_ms, key=ttft_ms.get)
    say(f"p99 TTFT is lowest at {name(quickest)}, {ttft_ms[quickest]:.2f} ms.")


if __name__ == "__main__":
    run(main)
