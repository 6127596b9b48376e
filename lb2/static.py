"""How long does a batch hold its slots if it must wait for its longest request?

A slot is a place in the batch; a running request holds one. Static (request-level) batching forms a
batch when nothing runs. The batch takes up to --batch-size requests that have arrived, first come,
first served. It does not wait to fill up. It keeps every slot until its longest request has ended.
This script has all requests there at time 0; schedule() also takes arrivals. Memory is unlimited,
and a decode pass costs the same for any number of sequences.

    python3 lb2/static.py --batch-size 16        writes static.txt

An iteration has four parts. Admit requests. Prefill their prompts, one after the other. Run one
decode pass, in which every running sequence emits one token. Let the sequences leave that have
emitted their last token.

Three requests of (prompt, output) tokens = (100, 1), (200, 3), (100, 2), in 2 slots:

    0 ms  admit both, prefill 5 + 10, decode 8        -> 23 ms  the first ends; its slot stays empty
   23 ms  decode 8 twice                              -> 39 ms  the second ends: the batch is over
   39 ms  admit the third, prefill 5, decode 8 twice  -> 60 ms  the third ends

5 iterations of 2 slots emit 6 tokens: slot_util is 6 / 10 = 0.6.
"""

from heapq import heappop, heappush

from common import Costs, Schedule, arguments, count, load_costs, load_requests, pairs, run, save, say


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
        free = 0 if running else slots
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


def throughput_tps(requests, result):
    """Output tokens per second, from time 0 to the last finish."""
    return sum(requests.output_tokens) * 1_000_000 / max(result.finished_us)


def slot_util(requests, result, slots):
    """The share of the slots of all iterations in which a token was emitted."""
    return sum(requests.output_tokens) / (slots * result.iterations)


def print_batches(output_tokens, batch_size, most=8):
    """One line a batch: its requests, and what share of the slots it held did work."""
    print("Step 1: the batches")
    print("batch  requests  shortest  longest (= iterations held)  slot_util")
    for start in range(0, min(len(output_tokens), most * batch_size), batch_size):
        batch = output_tokens[start : start + batch_size]
        util = sum(batch) / (batch_size * max(batch))
        print(f"{start // batch_size:5}  {len(batch):8}  {min(batch):8}  {max(batch):27}  {util:9.4f}")
    left = -(-len(output_tokens) // batch_size) - most  # rounded up
    if left > 0:
        print(f"  ... and {left} more batch{'' if left == 1 else 'es'}")


def main():
    parser = arguments(__doc__)
    parser.add_argument("--batch-size", type=count, default=16, metavar="N", help="slots (default: 16)")
    args = parser.parse_args()
    requests, costs = load_requests(args.requests, args.first), load_costs(args.costs)
    result = schedule(requests, args.batch_size, costs=costs)
    util = slot_util(requests, result, args.batch_size)
    line = pairs(
        total_steps=result.iterations,
        throughput_tps=f"{throughput_tps(requests, result):.2f}",
        slot_util=f"{util:.4f}",
    )
    save(args.out, {"static.txt": line})

    print_batches(requests.output_tokens, args.batch_size)
    print(f"Step 2: their measures, {args.batch_size} slots")
    print(f"static.txt: {line}", end="")
    say(f"Notice: {1 - util:.0%} of the slots stood idle: "
        "empty, or held until the longest request of their batch ended.")


if __name__ == "__main__":
    run(main)
