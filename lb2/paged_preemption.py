"""Does preempting often cost throughput, and what does reserving the whole prompt buy?

The requests, all there at time 0, on a cache of 599 blocks of 16 tokens, too small for all of them, with a budget of 256
tokens a step. Two policies at admission: only if the whole prompt fits into free blocks, or as soon as its first chunk
does. Two ways to resume a preempted request: compute its tokens again, or fetch its cache from host memory, to which it
was copied at 25 GB/s (one way; both ways are paid, one after the other, inside the step). Costs are the lab's.

    python3 lb2/paged_preemption.py        writes paged_preemption.csv

resumed_tokens 28,000 = tokens that were in the cache of the preempted requests, to be computed or moved again.
"""

from common import aligned, arguments, load_requests, run, save, table, throughput_tps
from paged import schedule

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


def measure(requests, reserve, resume, max_num_seqs):
    return schedule(requests, max_num_seqs, kv_blocks=KV_BLOCKS, block_size=BLOCK_SIZE,
                    max_num_batched_tokens=MAX_NUM_BATCHED_TOKENS, reserve_full_prompt=reserve,
                    swap_us=swap_us if resume == "swap" else None)


def notice(rows):
    """What the table says, computed from it."""
    tps = {tuple(row[:3]): float(row[5]) for row in rows}
    most = max(rows, key=lambda row: row[3])
    fewest = [row for row in rows if row[0] != most[0] and row[1:3] == most[1:3]][0]
    print(f"Notice: at {most[2]} sequences, {most[3]} preemptions without the reservation and {fewest[3]} with it "
          f"make {float(most[5]):.0f} and {float(fewest[5]):.0f} tokens/s "
          f"({float(fewest[5]) / float(most[5]) - 1:+.1%} for reserving)." if most[0] == "false" else
          f"Notice: reserving the whole prompt does not lower the number of preemptions here ({most[3]}).")
    for reserve in ("true", "false"):
        limits = {limit: tps[reserve, "recompute", limit] for limit in MAX_NUM_SEQS}
        best = max(limits, key=limits.get)
        print(f"Recomputing, {'with' if reserve == 'true' else 'without'} the reservation, the best limit of "
              f"{', '.join(map(str, limits))} is {best}: {limits[best]:.0f} tokens/s.")
    gains = {key: tps[key[0], "swap", key[2]] / tps[key] - 1 for key in tps if key[1] == "recompute"}
    key = max(gains, key=lambda key: abs(gains[key]))
    print(f"Swapping instead of recomputing changes throughput by {min(gains.values()):+.1%} to {max(gains.values()):+.1%}; "
          f"most at {key[2]} sequences {'with' if key[0] == 'true' else 'without'} the reservation.")


def main():
    args = arguments(__doc__).parse_args()
    requests = load_requests(args.requests)
    rows = []
    for reserve in (True, False):
        for resume in ("recompute", "swap"):
            for limit in MAX_NUM_SEQS:
                result = measure(requests, reserve, resume, limit)
                rows.append([str(reserve).lower(), resume, limit, result.preemptions, result.resumed_tokens,
                             f"{throughput_tps(requests, result):.2f}"])
    save(args.out, {"paged_preemption.csv": table(HEADER, rows)})
    print("Preemption: paged_preemption.csv")
    print(aligned(HEADER, rows), end="")
    notice(rows)


if __name__ == "__main__":
    run(main)
