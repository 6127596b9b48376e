"""How much TTFT does a shared system prompt save, once its blocks are cached?

The requests, each behind the same system prompt, one at a time, with memory and budget unlimited, with prefix caching
off and on. The first request finds nothing in the cache and is counted too. Costs are the lab's: TTFT is the prefill of
what is not cached and one pass.

    python3 lb2/paged_prefix.py        writes paged_prefix.csv
"""

from command_line import arguments, progress, run
from common import aligned, load_requests, percentile, save, table
from cost_model import Costs, load_costs
from inputs import Requests
from paged_fast import schedule

BLOCK_SIZE = 16
SYSTEM_TOKENS = (0, 256, 512, 1024, 2048, 4096)
RATIO = 8
LONGEST = 8192  # the last length tried for it
HEADER = ["system_tokens", "ttft_off_p50_ms", "ttft_on_p50_ms", "ratio"]


def p50_ttft_us(requests, system_tokens, caching, costs):
    """The median TTFT of one client, who sends a request when the answer to the last one is there."""
    n = len(requests.prompt_tokens)
    prefixes = [[("system", system_tokens)]] * n if caching else None
    longer = Requests(
        [system_tokens + tokens for tokens in requests.prompt_tokens], [1] * n
    )  # more would not matter here
    result = schedule(longer, 1, None, costs, block_size=BLOCK_SIZE, prefixes=prefixes, clients=1,
                      overhead_us=costs.overhead_us)
    return percentile([first - issued for first, issued in zip(result.first_token_us, result.issued_us)], 50)


def measure(requests, system_tokens, costs=Costs()):
    """(system tokens, median TTFT in us without caching, with caching)."""
    return system_tokens, *(p50_ttft_us(requests, system_tokens, caching, costs) for caching in (False, True))


def shortest_beyond(requests, ratio, costs=Costs()):
    """The shortest system prompt, in whole blocks, that makes the median TTFT more than `ratio` times shorter.

    Tried one by one, up to LONGEST; None if none of them does.
    """
    for system_tokens in range(BLOCK_SIZE, LONGEST + 1, BLOCK_SIZE):
        _, off_us, on_us = measure(requests, system_tokens, costs)
        if off_us > ratio * on_us:
            return system_tokens
    return None


def main():
    args = arguments(__doc__).parse_args()
    requests, costs = load_requests(args.requests, args.first), load_costs(args.costs)
    measures = (measure(requests, system_tokens, costs) for system_tokens in SYSTEM_TOKENS)
    measured = list(progress(measures, len(SYSTEM_TOKENS)))
    rows = [[tokens, f"{off / 1000:.2f}", f"{on / 1000:.2f}", f"{off / on:.3f}"] for tokens, off, on in measured]
    save(args.out, {"paged_prefix.csv": table(HEADER, rows)})
    print("Prefix caching: paged_prefix.csv")
    print(aligned(HEADER, rows), end="")

    _, off_us, on_us = measured[-1]
    print(f"Notice: with caching the median TTFT is {on_us / 1000:.2f} ms behind {SYSTEM_TOKENS[-1]} system tokens, "
          f"{(on_us - measured[0][2]) / 1000:+.2f} ms against none; without, {off_us / 1000:.2f} ms.")
    tokens = shortest_beyond(requests, RATIO, costs)
    if tokens is None:
        print(f"No system prompt of up to {LONGEST} tokens makes the median TTFT more than {RATIO} times shorter.")
    else:
        print(
            f"The shortest system prompt (a multiple of {BLOCK_SIZE}) that makes the median TTFT more than {RATIO} times "
            f"shorter has {tokens} tokens."
        )


if __name__ == "__main__":
    run(main)
