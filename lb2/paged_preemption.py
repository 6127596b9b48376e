"""Does preempting often cost throughput, and what does reserving the whole prompt buy?

A request that is preempted loses its blocks of the cache and waits to be resumed. All requests are
there at time 0. The cache has 599 blocks of 16 tokens, too few for all of them, and a step has a
budget of 256 tokens. Two policies admit a request: only when its whole prompt fits into free blocks
(reserve_full_prompt), or as soon as its first chunk fits. Two ways resume a request: compute its
tokens again (recompute), or move its cache to host memory and back (swap), at 25 GB/s each way,
within the step.

    python3 lb2/paged_preemption.py        writes paged_preemption.csv

resumed_tokens counts the tokens that preempted requests had in the cache.
"""

from itertools import product

from common import arguments, load_requests, progress, run, save, say, table
from files.costs import Costs, load_server
from paging import clock, fast
from running.options import aligned
from static import throughput_tps

KV_BLOCKS = 599
BLOCK_SIZE = 16
MAX_NUM_BATCHED_TOKENS = 256
MAX_NUM_SEQS = (8, 16, 32)
KV_BYTES_PER_TOKEN = 819_200  # GPT-3 13B in fp16: 2 x 40 layers x 5120 x 2 bytes (Orca, Table 1)
HOST_BYTES_PER_S = 25e9  # PCIe 4.0 x16 in practice
HEADER = ["reserve_full_prompt", "resume", "max_num_seqs", "preemptions", "resumed_tokens", "throughput_tps"]


def swap_us(tokens):
    """Time to move the cache of this many tokens between GPU and host, one way, in whole microseconds."""
    return round(1e6 * tokens * KV_BYTES_PER_TOKEN / HOST_BYTES_PER_S)


def measure(requests, reserve, resume, max_num_seqs, costs=Costs()):
    """The paged Schedule under one policy: reserve the whole prompt or not; resume by "recompute" or "swap"."""
    limits = {"kv_blocks": KV_BLOCKS, "block_size": BLOCK_SIZE, "max_num_batched_tokens": MAX_NUM_BATCHED_TOKENS,
              "reserve_full_prompt": reserve}
    if resume == "swap":  # which the fast twin leaves out
        return clock.schedule(requests, max_num_seqs, step_us=clock.step_of(costs), swap_us=swap_us, **limits)
    return fast.schedule(requests, max_num_seqs, costs=costs, **limits)


def print_notices(results, output_tokens, costs):
    """What the table says. results: {(reserve, resume, limit): (preemptions, tokens per second, resumed tokens)}."""
    if not any(preemptions for preemptions, _, _ in results.values()):
        say("Notice: nothing was preempted: the cache has room for all that may run together.")
        return
    without = max((key for key in results if not key[0]), key=lambda key: results[key][0])
    with_it = True, *without[1:]
    say(f"Notice: with {without[1]} and {without[2]} sequences, reserving the whole prompt turns {results[without][0]} "
        f"preemptions into {results[with_it][0]}, and {results[without][1]:.0f} tokens/s into "
        f"{results[with_it][1]:.0f} ({results[with_it][1] / results[without][1] - 1:+.1%}).")
    for reserve, words in ((True, "With"), (False, "Without")):
        tps = {limit: results[reserve, "recompute", limit][1] for limit in MAX_NUM_SEQS}
        served = ", ".join(f"{tps[limit]:.0f} at {limit}" for limit in MAX_NUM_SEQS)
        gains = {limit: results[reserve, "swap", limit][1] / tps[limit] - 1 for limit in MAX_NUM_SEQS}
        changes = ", ".join(f"{gains[limit]:+.1%} at {limit}" for limit in MAX_NUM_SEQS)
        resumed = results[reserve, "recompute", MAX_NUM_SEQS[-1]][2]
        say(f"{words} the reservation, recomputing, the best limit is {max(tps, key=tps.get)}: {served} tokens/s. "
            f"Swapping changes that by {changes}. At {MAX_NUM_SEQS[-1]}, {resumed:,} tokens are computed again, in "
            f"{costs.prefill_us(resumed) / 1e6:.1f} s of {output_tokens / tps[MAX_NUM_SEQS[-1]]:.1f} s.")
    say(f"A token moved out and back takes {2 * swap_us(1000) / 1000:.1f} us. One computed again takes "
        f"{costs.prefill_us(1000) / 1000:.1f} us, and a place in the budget.")


def main():
    args = arguments(__doc__).parse_args()
    requests, costs = load_requests(args.requests, args.first), load_server(args.costs).costs
    rows, results = [], {}
    runs = list(product((True, False), ("recompute", "swap"), MAX_NUM_SEQS))
    measured = (measure(requests, *policy, costs) for policy in runs)
    for (reserve, resume, limit), result in zip(runs, progress(measured, len(runs))):
        tps = throughput_tps(requests, result)
        results[reserve, resume, limit] = result.preemptions, tps, result.resumed_tokens
        rows.append([str(reserve).lower(), resume, limit, result.preemptions, result.resumed_tokens, f"{tps:.2f}"])
    save(args.out, {"paged_preemption.csv": table(HEADER, rows)})
    print("Preemption: paged_preemption.csv")
    print(aligned(HEADER, rows), end="")
    print_notices(results, sum(requests.output_tokens), costs)


if __name__ == "__main__":
    run(main)
