"""How much faster is refilling a freed slot at once than waiting for the batch to end?

Both schedulers get the same requests, the same number of slots and the same costs. All requests are
there at time 0, so this compares capacity (tokens per second), and not latency.

    python3 lb2/compare.py        writes compare.txt
"""

import continuous
import static
from common import arguments, count, load_costs, load_requests, pairs, run, save, say
from static import throughput_tps


def main():
    parser = arguments(__doc__)
    parser.add_argument("--batch-size", type=count, default=16, metavar="N", help="slots of both (default: 16)")
    args = parser.parse_args()
    requests, costs = load_requests(args.requests, args.first), load_costs(args.costs)
    by_batch = static.schedule(requests, args.batch_size, costs=costs)
    by_iteration = continuous.schedule(requests, args.batch_size, costs=costs)
    static_tps = throughput_tps(requests, by_batch)
    continuous_tps = throughput_tps(requests, by_iteration)
    line = pairs(
        static_tps=f"{static_tps:.2f}",
        continuous_tps=f"{continuous_tps:.2f}",
        speedup=f"{continuous_tps / static_tps:.3f}",
    )
    save(args.out, {"compare.txt": line})

    print("Step 4: static against continuous")
    print(f"compare.txt: {line}", end="")
    if by_iteration.iterations == by_batch.iterations:
        say(f"Notice: both take {by_batch.iterations} iterations. No slot was freed that another request wanted.")
        return
    say(f"Notice: {by_batch.iterations} iterations became {by_iteration.iterations}, "
        f"{by_batch.iterations / by_iteration.iterations:.3f} times fewer, for the same {sum(requests.output_tokens)} "
        f"tokens: one line of code. Prefill takes {costs.prefill_us(sum(requests.prompt_tokens)) / 1e6:.2f} s in both. "
        "Fewer iterations do not shorten it, so the speedup is smaller than that.")


if __name__ == "__main__":
    run(main)
