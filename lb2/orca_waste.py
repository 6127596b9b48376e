"""How much of what request-level batching computes does nobody need, and what does that cost?

A batch pads its prompts to the longest of them, and decodes every row until its longest output has
ended. Of all token positions that are computed, the waste is the share that no request asked for.
This demo counts it, and then it says where the time goes: on the GPU, and for the requests.

    python3 lb2/orca_waste.py        writes orca_waste.csv

A batch of (prompt, output) tokens = (3, 1) and (5, 3) computes 2 x 5 positions in prefill and 2 x 2
in decode, 14 in all. Prefill yields the first output token, so 3 + 0 and 5 + 2 are needed, 10 in
all: the waste is 1 - 10 / 14 = 0.2857.
"""

from typing import NamedTuple

from common import run, save, say, table
from roofline import model as orca_model
from roofline import request_level as orca_request
from roofline.model import (ASSUMPTIONS, CAPACITY_TOKENS, FULL_LENGTH_SLOTS, KV_BYTES_PER_TOKEN, MAX_SEQ_TOKENS,
                            PARAMETERS, WEIGHT_BYTES, duration)
from roofline.systems import decimals
from roofline.workload import arguments, arrivals_at, chosen_workload
from running.options import aligned

RATES_RPS = (1, 2, 4)
MAX_BATCH = 8
SLOTS = min(MAX_BATCH, FULL_LENGTH_SLOTS)
HEADER = ["rate_rps", "batches", "mean_batch", "computed_tokens", "useful_tokens", "waste"]
FORMULAS = ["computed = B x Pmax + B x (Gmax - 1), summed over batches of B requests. Pmax is the longest prompt of "
            "the batch, Gmax its longest output.",
            "useful = P + G - 1, summed over requests of prompt P and output G. waste = 1 - useful / computed."]


class Waste(NamedTuple):
    """What one run computes, in token positions."""

    requests: int
    batches: int
    computed_tokens: int
    useful_tokens: int
    padding_tokens: int  # the rest of what is not useful is decoded in rows whose request has ended

    @property
    def share(self):
        return 1 - self.useful_tokens / self.computed_tokens


class Times(NamedTuple):
    """Where the time of one run goes."""

    padding: float  # share of the GPU's time that would be saved if no prompt were padded
    vain_rows: float  # share that would be saved if no row were decoded after its request has ended
    line_s: float  # mean over the requests: from the arrival to the start of the own batch
    own_s: float  # from there to the own last token
    held_s: float  # from there to the end of the batch


class Run(NamedTuple):
    waste: Waste
    times: Times


def batches_of(schedule):
    """The batches of a request-level schedule: lists of positions that were admitted together."""
    batches = {}
    for position, admitted in enumerate(schedule.admitted_us):
        batches.setdefault(admitted, []).append(position)
    return list(batches.values())


def waste_of(requests, schedule):
    """The Waste of a request-level schedule."""
    prompts, outputs = requests
    batches = batches_of(schedule)
    prefilled = sum(len(batch) * max(prompts[i] for i in batch) for batch in batches)
    decoded = sum(len(batch) * (max(outputs[i] for i in batch) - 1) for batch in batches)
    useful = sum(prompts) + sum(outputs) - len(outputs)
    return Waste(len(prompts), len(batches), prefilled + decoded, useful, prefilled - sum(prompts))


def batch_us(prompts, outputs, roofline=orca_model.roofline):
    """Time of a batch in which each row is decoded to the end of its own output, and not further."""
    us = duration(roofline(sum(prompts), sum(prompt**2 for prompt in prompts), 0, 0), 1)
    cached, emitted = sum(prompts), 1
    rows = len(prompts)
    for output, prompt in sorted(zip(outputs, prompts)):
        us += duration(roofline(0, 0, rows, cached), output - emitted)
        cached += rows * (output - emitted) - (prompt + output - 1)
        emitted = output
        rows -= 1
    return us


def times_of(requests, arrivals_us, schedule, roofline=orca_model.roofline):
    """The Times of a request-level schedule."""
    busy_us = unpadded_us = trimmed_us = own_us = 0
    for batch in batches_of(schedule):
        prompts, outputs = ([column[i] for i in batch] for column in requests)
        rows, longest = len(batch), max(prompts)
        start_us, first_us, end_us = (times[batch[0]] for times in schedule[:3])
        busy_us += end_us - start_us
        unpadded_us += batch_us(prompts, [max(outputs)] * rows, roofline)
        trimmed_us += batch_us([longest] * rows, outputs, roofline)
        decoding = roofline(0, 0, rows, rows * longest)
        own_us += sum(first_us - start_us + duration(decoding, n - 1) for n in outputs)
    n = len(arrivals_us)
    line_us = sum(schedule.admitted_us) - sum(arrivals_us)
    held_us = sum(schedule.finished_us) - sum(schedule.admitted_us) - own_us
    seconds = [us / n / 1e6 for us in (line_us, own_us, held_us)]
    return Times(1 - unpadded_us / busy_us, 1 - trimmed_us / busy_us, *seconds)


def measure(workload, rate_rps):
    """The Run of a Workload that arrives at this rate."""
    arrivals_us = arrivals_at(workload, rate_rps)
    schedule = orca_request.schedule(workload.requests, SLOTS, arrivals_us)
    return Run(waste_of(workload.requests, schedule), times_of(workload.requests, arrivals_us, schedule))


def rows_of(runs):
    return [
        [f"{rate:.3f}", w.batches, f"{w.requests / w.batches:.3f}", w.computed_tokens, w.useful_tokens,
         f"{w.share:.4f}"]
        for rate, (w, _) in runs.items()
    ]


def show(runs):
    print("Demo 1: what request-level batching computes in vain")
    say(f"The model has {PARAMETERS / 1e9:.2f} B parameters, {WEIGHT_BYTES / 1e9:.2f} GB in fp16. A token takes "
        f"{KV_BYTES_PER_TOKEN:,} bytes of KV, the cache of keys and values; {CAPACITY_TOKENS:,} tokens fit beside "
        "the weights.")
    print(f"orca_waste.csv:\n{aligned(HEADER, rows_of(runs))}", end="")
    for formula in FORMULAS:
        say(formula)
    print("Where the time goes: shares of the GPU's time; mean seconds of a request")
    header = ["rate_rps", "padding", "rows in vain", "in line", "own batch time", "held until the batch ends"]
    lines = [
        [f"{rate:.3f}", f"{t.padding:.1%}", f"{t.vain_rows:.1%}", *decimals([t.line_s, t.own_s, t.held_s])]
        for rate, (_, t) in runs.items()
    ]
    print(aligned(header, lines), end="")
    notice_batches(runs)
    notice_waste(runs)


def notice_batches(runs):
    """The batch limit, and what the batches hold."""
    say(f"Notice: each request reserves {MAX_SEQ_TOKENS:,} of the {CAPACITY_TOKENS:,} tokens, so the batch limit of "
        f"{MAX_BATCH} becomes {SLOTS}.")
    means = [f"{w.requests / w.batches:.1f} at {rate} requests/s" for rate, (w, _) in runs.items()]
    say(f"Notice: requests in a batch, on average: {', '.join(means)}.")


def notice_waste(runs):
    """What kind the waste is at the highest rate, and what it costs the GPU and the requests."""
    rate = max(runs)
    waste, times = runs[rate]
    if not waste.share:
        say(f"Notice: nothing is computed in vain at {rate} requests/s.")
        return
    padding = waste.padding_tokens / waste.computed_tokens
    say(f"Notice: of all positions computed at {rate} requests/s, {padding:.0%} pad prompts and "
        f"{waste.share - padding:.0%} are decoded in rows whose request has ended.")
    if times.held_s > 1e-6:  # below that it is a rounding error
        say(f"Notice: the rows in vain cost {times.vain_rows:.1%} of the GPU's time: every iteration reads all "
            f"weights, however many rows it has. The loss is waiting. A request is held for {times.held_s:.2f} s "
            f"after its own last token, {times.held_s / (times.own_s + times.held_s):.0%} of its time in the batch, "
            "and nobody in line gets its slot.")


def main():
    args = arguments(__doc__).parse_args()
    workload = chosen_workload(args)
    runs = {rate: measure(workload, rate) for rate in RATES_RPS}
    save(args.out, {"orca_waste.csv": table(HEADER, rows_of(runs))})
    say(ASSUMPTIONS)
    show(runs)


if __name__ == "__main__":
    run(main)
