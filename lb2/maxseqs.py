"""Does a limit on the number of running sequences hold, and is it reached?

A server limits how many sequences share an iteration, because each of them takes memory: the keys
and values (KV) of its tokens stay in a cache while it runs. vLLM calls the limit max_num_seqs. This
script runs continuous batching under the limit and reports the most sequences that ran together.
It ignores memory itself, which the later labs model.

    python3 lb2/maxseqs.py --max-num-seqs 32        writes maxseqs.txt
"""

from common import arguments, count, load_costs, load_requests, pairs, run, save, say
from static import slot_util, throughput_tps
from continuous import schedule

KV_BLOCKS, BLOCK_TOKENS = 599, 16  # the cache of the third lab: 599 blocks of 16 tokens


def requests_that_fit(requests):
    """How many average requests fit into that cache at their full length; each takes whole blocks.

    The last token of an answer is never read again, so it is not kept.
    """
    blocks = [-(-(prompt + output - 1) // BLOCK_TOKENS) for prompt, output in zip(*requests)]
    return KV_BLOCKS * len(blocks) // sum(blocks)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--max-num-seqs", type=count, default=32, metavar="N", help="the limit (default: 32)")
    args = parser.parse_args()
    requests, costs = load_requests(args.requests, args.first), load_costs(args.costs)
    result = schedule(requests, args.max_num_seqs, costs=costs)
    line = pairs(max_num_seqs=args.max_num_seqs, peak_running=result.peak_running)
    save(args.out, {"maxseqs.txt": line})

    print("Step 5: a limit on running sequences")
    print(f"maxseqs.txt: {line}", end="")
    tps = throughput_tps(requests, result)
    say(f"Notice: {result.peak_running} of {args.max_num_seqs} allowed ran together, "
        f"{len(requests.output_tokens)} wanted to; {tps:.2f} tokens/s.")
    if args.max_num_seqs > 1:
        half = args.max_num_seqs // 2
        fewer = schedule(requests, half, costs=costs)
        half_tps = throughput_tps(requests, fewer)
        say(f"With {half} slots it is {half_tps:.2f} tokens/s, so {args.max_num_seqs} slots give {tps / half_tps:.2f} "
            "times as much. Prefill takes the same time with any number of slots. And the more slots there are, the "
            "more of them stand idle while the last long answers end: slot_util goes from "
            f"{slot_util(requests, fewer, half):.4f} to {slot_util(requests, result, args.max_num_seqs):.4f}.")
    room = requests_that_fit(requests)
    say("This lab has no memory, so all slots can be used. On a server the KV cache decides the limit. The third lab's "
        f"cache, {KV_BLOCKS} blocks of {BLOCK_TOKENS} tokens, has room for {room} average "
        f"request{'' if room == 1 else 's'} at full length.")


if __name__ == "__main__":
    run(main)
