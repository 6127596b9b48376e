"""Where does the time go, reading prompts (prefill) or writing answers (decode)?

Two formulas are all that the lab knows of a GPU: a prompt token costs 0.05 ms of prefill, and a decode iteration
costs 8.0 ms, however many sequences are in it. This script adds them up as if each request were served alone, and
then says what batching makes of it. It ignores how attention grows with the length of the context.

    python3 lb2/cost.py        writes cost.txt

prefill_us(200) -> 10000     decode_us(16) -> 8000
"""

from common import arguments, load_requests, pairs, run, save

PREFILL_US_PER_TOKEN = 50
DECODE_US = 8_000
SLOTS = 16


def prefill_us(prompt_tokens):
    """Microseconds to prefill this many prompt tokens, of one prompt or of several one after the other."""
    return PREFILL_US_PER_TOKEN * prompt_tokens


def decode_us(sequences):
    """Microseconds of one decode pass, in which each of the sequences emits one token."""
    return DECODE_US


def main():
    from continuous import schedule  # here, because continuous.py takes its costs from this file

    args = arguments(__doc__).parse_args()
    requests = load_requests(args.requests)
    prefill = prefill_us(sum(requests.prompt_tokens))
    decode = decode_us(1) * sum(requests.output_tokens)
    line = pairs(
        total_prefill_ms=f"{prefill / 1000:.2f}",
        total_decode_ms=f"{decode / 1000:.2f}",
        decode_share=f"{decode / (prefill + decode):.4f}",
    )
    save(args.out, {"cost.txt": line})

    batched = schedule(requests, SLOTS).iterations * decode_us(SLOTS)
    print("Step 7: prefill and decode")
    print(f"cost.txt: {line}", end="")
    print(
        f"Notice: served alone, {decode / (prefill + decode):.1%} of the time is decode. Continuous batching in {SLOTS} "
        f"slots shares its passes and brings the share down to {batched / (prefill + batched):.4f}."
    )


if __name__ == "__main__":
    run(main)
