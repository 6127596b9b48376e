"""How much faster is refilling a freed slot at once than waiting for the batch to end?

The same requests, the same number of slots, the same costs, through both schedulers. It ignores when requests
arrive (all are there at time 0), so it compares capacity, not latency.

    python3 lb2/compare.py        writes compare.txt
"""

import continuous
import static
from common import arguments, count, pairs, requests_of, run, save, throughput_tps
from cost import costs_of


def main():
    parser = arguments(__doc__)
    parser.add_argument("--batch-size", type=count, default=16, metavar="N", help="slots of both (default: 16)")
    args = parser.parse_args()
    requests, costs = requests_of(args), costs_of(args)
    by_batch, by_iteration = (
        module.schedule(requests, args.batch_size, prefill_us=costs.prefill_us, decode_us=costs.decode_us)
        for module in (static, continuous)
    )
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
    print(
        f"Notice: {by_batch.iterations} iterations became {by_iteration.iterations}, "
        f"for the same {sum(requests.output_tokens)} tokens: "
        + ("one line of code." if by_iteration.iterations < by_batch.iterations else "no slot was freed that others wanted.")
    )


if __name__ == "__main__":
    run(main)
