"""How much TTFT does a shared system prompt save, once its blocks are cached?

The requests, each behind the same system prompt, one at a time, with memory and budget unlimited, with prefix caching
off and on. The first request finds nothing in the cache and is counted too. Costs are the lab's: TTFT is the prefill of
what is not cached and one pass.

    python3 lb2/paged_prefix.py        writes paged_prefix.csv
"""

from itertools import count

from common import MOST, Requests, aligned, arguments, load_requests, percentile, run, save, table
from paged import schedule

BLOCK_SIZE = 16
SYSTEM_TOKENS = (0, 256, 512, 1024, 2048, 4096)
RATIO = 8
HEADER = ["system_tokens", "ttft_off_p50_ms", "ttft_on_p50_ms", "ratio"]


def p50_ttft_us(requests, system_tokens, caching):
    """The median TTFT, one request at a time, counted from the start of the step that admits it."""
    prefixes = [[("system", system_tokens)]] * len(requests.prompt_tokens) if caching else None
    longer = Requests([system_tokens + tokens for tokens in requests.prompt_tokens], requests.output_tokens)
    result = schedule(longer, 1, block_size=BLOCK_SIZE, prefixes=prefixes)
    return percentile([first - issued for first, issued in zip(result.first_token_us, result.admitted_us)], 50)


def measure(requests, system_tokens):
    """(system tokens, median TTFT in us without caching, with caching)."""
    return system_tokens, *(p50_ttft_us(requests, system_tokens, caching) for caching in (False, True))


def shortest_beyond(requests, ratio):
    """The shortest system prompt, in whole blocks, that makes the median TTFT more than `ratio` times shorter.

    Tried one by one; None if that takes more tokens than a prompt may have, or if a single request shares with nobody.
    """
    if len(requests.prompt_tokens) < 2:
        return None
    for system_tokens in count(BLOCK_SIZE, BLOCK_SIZE):
        if system_tokens + max(requests.prompt_tokens) > MOST:
            return None
        _, off_us, on_us = measure(requests, system_tokens)
        if off_us > ratio * on_us:
            return system_tokens


def main():
    args = arguments(__doc__).parse_args()
    requests = load_requests(args.requests)
    measured = [measure(requests, system_tokens) for system_tokens in SYSTEM_TOKENS]
    rows = [[tokens, f"{off / 1000:.2f}", f"{on / 1000:.2f}", f"{off / on:.3f}"] for tokens, off, on in measured]
    save(args.out, {"paged_prefix.csv": table(HEADER, rows)})
    print("Prefix caching: paged_prefix.csv")
    print(aligned(HEADER, rows), end="")

    _, off_us, on_us = measured[-1]
    print(f"Notice: with caching the median TTFT is {on_us / 1000:.2f} ms behind {SYSTEM_TOKENS[-1]} system tokens, "
          f"{(on_us - measured[0][2]) / 1000:+.2f} ms against none; without, {off_us / 1000:.2f} ms.")
    tokens = shortest_beyond(requests, RATIO)
    if tokens is None:
        print(f"No length of the system prompt makes the median TTFT more than {RATIO} times shorter.")
    else:
        print(f"The shortest system prompt (a multiple of {BLOCK_SIZE}) that makes the median TTFT more than {RATIO} times "
              f"shorter has {tokens} tokens.")


if __name__ == "__main__":
    run(main)
