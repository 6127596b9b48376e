"""Where does the time go, reading prompts (prefill) or writing answers (decode)?

Prefill computes the tokens of a prompt. Decode computes the answer, one token after the other. Two
formulas are all that the lab knows of a GPU:

    prefill_ms = prompt_tokens * 0.05
    decode_ms = output_tokens * 8.0

This script adds them up as if each request were served alone, and then says what batching makes of
it. It ignores that attention takes longer in a longer context.

    python3 lb2/cost.py        writes cost.txt

A request of 200 prompt tokens and 10 output tokens: 10 ms of prefill, 80 ms of decode.
"""

from common import arguments, load_costs, load_requests, pairs, run, save, say
from continuous import schedule

SLOTS = 16


def main():
    args = arguments(__doc__).parse_args()
    requests, costs = load_requests(args.requests, args.first), load_costs(args.costs)
    prefill_ms = sum(map(costs.prefill_us, requests.prompt_tokens)) / 1000  # prompt_tokens * 0.05
    decode_ms = sum(requests.output_tokens) * costs.decode_us(1) / 1000  # output_tokens * 8.0
    decode_share = decode_ms / (prefill_ms + decode_ms)
    line = pairs(
        total_prefill_ms=f"{prefill_ms:.2f}",
        total_decode_ms=f"{decode_ms:.2f}",
        decode_share=f"{decode_share:.4f}",
    )
    save(args.out, {"cost.txt": line})

    batched_ms = max(schedule(requests, SLOTS, costs=costs).finished_us) / 1000 - prefill_ms
    print("Step 7: prefill and decode")
    print(f"cost.txt: {line}", end="")
    say(f"Notice: served alone, {decode_share:.1%} of the time is decode. Continuous batching in {SLOTS} slots "
        f"shares each pass among its sequences: there decode is {batched_ms / (prefill_ms + batched_ms):.4f} of it.")


if __name__ == "__main__":
    run(main)
