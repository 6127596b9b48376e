"""How much of iteration-level scheduling's advantage is left when all requests are equally long?

With equal lengths no row waits for a longer one, and no prompt is padded. Two differences remain.
One is when a request may join. The other is memory: the request level reserves the model's longest
sequence for each request, so that its batch of 8 is cut to 6. Iteration level with a limit of 6 is
shown beside it, to tell the two apart. Only the arrivals are taken from the workload, not its
lengths.

    python3 lb2/orca_homogeneous.py        writes orca_homogeneous.csv
"""

from typing import NamedTuple

from common import Requests, run, save, say, table
from roofline.model import ASSUMPTIONS, CAPACITY_TOKENS, duration, roofline
from roofline.systems import at_once_rps, curve, name, peak_rps
from roofline.workload import Workload, arguments, chosen_workload
from running.options import aligned

LENGTHS = ((32, 32), (256, 256))  # prompt and output tokens
BATCH, SAME_SLOTS, SAME_LIMIT = ("request", 8), ("iteration", 6), ("iteration", 8)
SYSTEMS = (BATCH, SAME_SLOTS, SAME_LIMIT, ("iteration", 32))
RATES_RPS = (1, 2, 4, 8, 16, 32)
HEADER = ["prompt_tokens", "output_tokens", "scheduler", "max_batch", "peak_throughput_rps"]


class Equal(NamedTuple):
    peaks: dict  # (lengths, system) -> highest throughput over RATES_RPS, in requests per second
    at_once: dict  # (lengths, system) -> requests served per second if all come at once


def equal_lengths(workload, prompt_tokens, output_tokens):
    """The same arrivals, of requests that are all of these lengths."""
    n = len(workload.arrivals_s)
    return Workload(Requests([prompt_tokens] * n, [output_tokens] * n), workload.arrivals_s)


def results(workload):
    peaks, at_once = {}, {}
    for lengths in LENGTHS:
        equal = equal_lengths(workload, *lengths)
        for system in SYSTEMS:
            peaks[lengths, system] = peak_rps(curve(system, equal, RATES_RPS))
            at_once[lengths, system] = at_once_rps(system, equal.requests)
    return Equal(peaks, at_once)


def rows(equal):
    return [[*lengths, *system, f"{peak:.3f}"] for (lengths, system), peak in equal.peaks.items()]


def show(equal):
    print("Demo 3: equal lengths")
    print("orca_homogeneous.csv, and how many requests/s are served if all come at once:")
    wider = [[*row, f"{rate:.3f}"] for row, rate in zip(rows(equal), equal.at_once.values())]
    print(aligned([*HEADER, "at_once_rps"], wider), end="")
    for lengths in LENGTHS:
        notice_gain(lengths, equal)
    notice_lockstep()


def notice_gain(lengths, equal):
    """What the gain at these lengths is owed to: the scheduling, or the slots that memory leaves."""
    peak = equal.peaks[lengths, SAME_LIMIT] / equal.peaks[lengths, BATCH]
    scheduling = equal.at_once[lengths, SAME_SLOTS] / equal.at_once[lengths, BATCH]
    memory = equal.at_once[lengths, SAME_LIMIT] / equal.at_once[lengths, SAME_SLOTS]
    say(f"Notice: at {lengths[0]} + {lengths[1]} tokens {name(SAME_LIMIT)} peaks {peak - 1:.1%} above {name(BATCH)}. "
        f"If all come at once, scheduling alone ({name(SAME_SLOTS)}) gains {scheduling - 1:.1%}, and the two more "
        f"slots ({name(SAME_LIMIT)}) gain another {memory - 1:.1%}.")


def notice_lockstep():
    """Why a peak may lie above what is served if all come at once."""
    prompt, output = LENGTHS[-1]
    rows = min(SYSTEMS[-1][1], CAPACITY_TOKENS // (prompt + output))
    together_ms = duration(roofline(rows * prompt, rows * prompt**2, 0, 0), 1) / 1000 / rows
    cached = (rows - 1) * (prompt + output // 2)
    joined, without = (duration(roofline(*new, rows - 1, cached), 1) / 1000 for new in ((prompt, prompt**2), (0, 0)))
    say(f"Notice: all at once is no maximum. {rows} requests of {prompt} + {output} tokens fit into memory, and all at "
        f"once they run in lockstep: their prompts are prefilled together, {together_ms:.1f} ms each, and nobody "
        f"decodes meanwhile. A prompt that joins {rows - 1} decoding requests makes their iteration "
        f"{joined - without:.1f} ms longer: it computes while the weights are read.")


def main():
    args = arguments(__doc__).parse_args()
    equal = results(chosen_workload(args))
    save(args.out, {"orca_homogeneous.csv": table(HEADER, rows(equal))})
    say(ASSUMPTIONS)
    show(equal)


if __name__ == "__main__":
    run(main)
