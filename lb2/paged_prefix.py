"""How much TTFT does a shared system prompt save, once its blocks are cached?

Many requests begin with the same instructions, the system prompt. With prefix caching, blocks that
hold it are computed once. Here the requests come one at a time, each behind the same system prompt,
with memory and budget unlimited. TTFT is the prefill of what is not cached, and one pass. The first
request finds nothing in the cache, and counts too.

    python3 lb2/paged_prefix.py        writes paged_prefix.csv
"""

from bisect import bisect_left
from functools import partial

from common import Requests, arguments, load_requests, percentile, progress, run, save, say, table
from files.costs import Costs, load_server
from paging.fast import schedule
from running.options import aligned

BLOCK_SIZE = 16
SYSTEM_TOKENS = (0, 256, 512, 1024, 2048, 4096)
RATIO = 8
LONGEST = 8192  # the last length tried for it
HEADER = ["system_tokens", "ttft_off_p50_ms", "ttft_on_p50_ms", "ratio"]


def p50_ttft_us(requests, system_tokens, caching, costs):
    """The median TTFT of one client, who sends a request when the answer to the last one is there."""
    n = len(requests.prompt_tokens)
    prefixes = [[("system", system_tokens)]] * n if caching else None
    longer = Requests([system_tokens + tokens for tokens in requests.prompt_tokens], [1] * n)  # one token tells TTFT
    result = schedule(longer, 1, None, costs, block_size=BLOCK_SIZE, prefixes=prefixes, clients=1,
                      overhead_us=costs.overhead_us)
    return percentile([first - issued for first, issued in zip(result.first_token_us, result.issued_us)], 50)


def measure(requests, system_tokens, costs=Costs()):
    """(system tokens, median TTFT in us without caching, with caching)."""
    return system_tokens, *(p50_ttft_us(requests, system_tokens, caching, costs) for caching in (False, True))


def is_shorter(requests, system_tokens, ratio, costs):
    """Does caching this system prompt make the median TTFT more than `ratio` times shorter?"""
    _, off_us, on_us = measure(requests, system_tokens, costs)
    return off_us > ratio * on_us


def shortest_beyond(requests, ratio, costs=Costs()):
    """The shortest system prompt, in whole blocks up to LONGEST tokens, with which is_shorter; None if there is none.

    Found by bisection: a longer system prompt saves more, and what is left to prefill stays the same.
    """
    lengths = range(BLOCK_SIZE, LONGEST + 1, BLOCK_SIZE)
    at = bisect_left(lengths, True, key=partial(is_shorter, requests, ratio=ratio, costs=costs))
    return lengths[at] if at < len(lengths) else None


def main():
    args = arguments(__doc__).parse_args()
    requests, costs = load_requests(args.requests, args.first), load_server(args.costs).costs
    measures = (measure(requests, system_tokens, costs) for system_tokens in SYSTEM_TOKENS)
    measured = list(progress(measures, len(SYSTEM_TOKENS)))
    rows = [[tokens, f"{off / 1000:.2f}", f"{on / 1000:.2f}", f"{off / on:.3f}"] for tokens, off, on in measured]
    save(args.out, {"paged_prefix.csv": table(HEADER, rows)})
    print("Prefix caching: paged_prefix.csv")
    print(aligned(HEADER, rows), end="")

    _, off_us, on_us = measured[-1]
    say(f"Notice: with caching the median TTFT is {on_us / 1000:.2f} ms behind {SYSTEM_TOKENS[-1]} system tokens, "
        f"{(on_us - measured[0][2]) / 1000:+.2f} ms against none; without, {off_us / 1000:.2f} ms.")
    tokens = shortest_beyond(requests, RATIO, costs)
    if tokens is None:
        say(f"No system prompt of up to {LONGEST} tokens makes the median TTFT more than {RATIO} times shorter.")
    else:
        say(f"The shortest system prompt (a multiple of {BLOCK_SIZE}) that makes the median TTFT more than {RATIO} "
            f"times shorter has {tokens} tokens. All requests share it, their own prompts have "
            f"{percentile(requests.prompt_tokens, 50):g} tokens (median), and they come one at a time.")


if __name__ == "__main__":
    run(main)
