"""What if a freed slot were filled at once, instead of when the whole batch has ended?

Continuous (iteration-level) batching refills free slots before every iteration, with requests that
have arrived, first come, first served. In schedule() one line differs from static.py: the one that
counts the free slots. All requests are there at time 0. Memory is unlimited, and a decode pass
costs the same for any number of sequences.

    python3 lb2/continuous.py --max-num-seqs 16        writes continuous.txt

An iteration has four parts. Admit requests. Prefill their prompts, one after the other. Run one
decode pass, in which every running sequence emits one token. Let the sequences leave that have
emitted their last token.

Three requests of (prompt, output) tokens = (100, 1), (200, 3), (100, 2), in 2 slots:

    0 ms  admit both, prefill 5 + 10, decode 8        -> 23 ms  the first ends; its slot is free
   23 ms  admit the third, prefill 5, decode 8        -> 36 ms
   36 ms  decode 8                                    -> 44 ms  the second and the third end

3 iterations of 2 slots emit 6 tokens: slot_util is 6 / 6 = 1.
"""

from heapq import heappop, heappush

from common import Costs, Schedule, arguments, count, load_costs, load_requests, pairs, run, save, say
from static import slot_util, throughput_tps


def schedule(requests, slots, arrivals_us=None, costs=Costs()):
    """Run all requests through the slots and return their Schedule. Iterations that are alike are done in one jump.

    requests: Requests, n of them; slots: int >= 1; arrivals_us: n whole numbers >= 0, in any order (None: all at 0).
    """
    prompt_tokens, output_tokens = requests
    n = len(prompt_tokens)
    arrivals_us = arrivals_us or [0] * n
    queue = sorted(range(n), key=arrivals_us.__getitem__)  # positions; equal arrivals keep list order
    admitted_us, first_token_us, finished_us = [0] * n, [0] * n, [0] * n
    running = []  # heap of (iterations that are over when it has ended, position)
    now_us = iteration = peak_running = head = 0
    while head < n or running:
        if not running:
            now_us = max(now_us, arrivals_us[queue[head]])
        free = slots - len(running)
        first_new, admitted_tokens = head, 0
        while free and head < n and arrivals_us[queue[head]] <= now_us:
            position = queue[head]
            admitted_us[position] = now_us
            admitted_tokens += prompt_tokens[position]
            heappush(running, (iteration + output_tokens[position], position))
            head += 1
            free -= 1
        sequences = len(running)
        if sequences > peak_running:
            peak_running = sequences
        now_us += costs.prefill_us(admitted_tokens)
        pass_us = costs.decode_us(sequences)
        for position in queue[first_new:head]:
            first_token_us[position] = now_us + pass_us
        passes = running[0][0] - iteration  # nothing changes until the next sequence leaves
        if free and head < n:  # or until the next request arrives, if it may join: a matter of continuous.py alone
            wait_us = arrivals_us[queue[head]] - now_us  # below 0: it came during the prefill
            passes = min(passes, max(1, -(-wait_us // pass_us)))  # rounded up
        iteration += passes
        now_us += passes * pass_us
        while running and running[0][0] == iteration:
            finished_us[heappop(running)[1]] = now_us
    return Schedule(admitted_us, first_token_us, finished_us, iteration, peak_running)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--max-num-seqs", type=count, default=16, metavar="N", help="slots (default: 16)")
    args = parser.parse_args()
    requests, costs = load_requests(args.requests, args.first), load_costs(args.costs)
    result = schedule(requests, args.max_num_seqs, costs=costs)
    util = slot_util(requests, result, args.max_num_seqs)
    line = pairs(
        total_steps=result.iterations,
        throughput_tps=f"{throughput_tps(requests, result):.2f}",
        slot_util=f"{util:.4f}",
    )
    save(args.out, {"continuous.txt": line})

    print(f"Step 3: continuous batching, {args.max_num_seqs} slots")
    print(f"continuous.txt: {line}", end="")
    say(f"Notice: {1 - util:.0%} of the slots stood idle, and only when fewer requests than slots were left.")


if __name__ == "__main__":
    run(main)
