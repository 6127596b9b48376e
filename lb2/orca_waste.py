"""How much of what request-level batching computes is nobody's token?

A batch pads its prompts to the longest of them and decodes every row until its longest answer has ended. Of all token
positions computed, waste is the share that no request asked for. It ignores what that costs in time: the next demo.

    python3 lb2/orca_waste.py        writes orca_waste.csv

A batch of (prompt, output) tokens = (3, 1) and (5, 3) computes 2 x 5 positions in prefill and 2 x 2 in decode, 14 in
all. Useful are 3 + 0 and 5 + 2, because prefill yields the first token: waste = 1 - 10 / 14 = 0.2857.
"""

from typing import NamedTuple

import orca_request
from command_line import run
from common import aligned, save, table
from orca_model import CAPACITY_TOKENS, FULL_LENGTH_SLOTS, MAX_SEQ_TOKENS
from orca_words import ASSUMPTIONS
from orca_workload import arguments, arrivals_at, chosen_workload

RATES_RPS = (1, 2, 4)
MAX_BATCH = 8


class Waste(NamedTuple):
    """Token positions that one run computes: useful, padding of prompts, and rows held after their last token."""

    batches: int
    computed_tokens: int
    useful_tokens: int
    padding_tokens: int

    @property
    def share(self):
        return 1 - self.useful_tokens / self.computed_tokens


def measure(requests, schedule):
    """The Waste of a request-level schedule, whose batches are the requests that were admitted together."""
    batches = {}
    for admitted, prompt, output in zip(schedule.admitted_us, *requests):
        batches.setdefault(admitted, []).append((prompt, output))
    prefilled = sum(len(batch) * max(prompt for prompt, _ in batch) for batch in batches.values())
    decoded = sum(len(batch) * (max(output for _, output in batch) - 1) for batch in batches.values())
    prompts = sum(requests.prompt_tokens)
    useful = prompts + sum(output - 1 for output in requests.output_tokens)
    return Waste(len(batches), prefilled + decoded, useful, prefilled - prompts)


def at_rate(workload, rate_rps):
    """The Waste of a Workload that arrives at this rate."""
    slots, arrivals = min(MAX_BATCH, FULL_LENGTH_SLOTS), arrivals_at(workload, rate_rps)
    return measure(workload.requests, orca_request.schedule(workload.requests, slots, arrivals))


def main():
    args = arguments(__doc__).parse_args()
    workload = chosen_workload(args)
    n = len(workload.arrivals_s)
    wastes = [at_rate(workload, rate) for rate in RATES_RPS]
    header = ["rate_rps", "batches", "mean_batch", "computed_tokens", "useful_tokens", "waste"]
    rows = [
        [f"{rate:.3f}", w.batches, f"{n / w.batches:.3f}", w.computed_tokens, w.useful_tokens, f"{w.share:.4f}"]
        for rate, w in zip(RATES_RPS, wastes)
    ]
    save(args.out, {"orca_waste.csv": table(header, rows)})

    print(f"Demo 1: what request-level batching computes in vain\n{ASSUMPTIONS}")
    print(f"orca_waste.csv:\n{aligned(header, rows)}", end="")
    first, last = wastes[0], wastes[-1]
    padding = last.padding_tokens / last.computed_tokens
    print(
        f"Notice: each request reserves {MAX_SEQ_TOKENS:,} of the {CAPACITY_TOKENS:,} tokens that fit beside the "
        f"weights, so that the batch limit of {MAX_BATCH} becomes {min(MAX_BATCH, FULL_LENGTH_SLOTS)}."
    )
    print(
        f"Notice: at {RATES_RPS[0]} requests/s batches hold {n / first.batches:.1f} requests and {first.share:.0%} is "
        f"waste, at {RATES_RPS[-1]} requests/s {n / last.batches:.1f} and {last.share:.0%}."
    )
    print(
        f"Notice: of all that is computed at {RATES_RPS[-1]} requests/s, {padding:.0%} pads prompts and "
        f"{last.share - padding:.0%} decodes rows whose request has ended."
    )


if __name__ == "__main__":
    run(main)
