"""How much of iteration-level scheduling's advantage is left when all requests are equally long?

With equal lengths no row waits for a longer one and no prompt is padded. What is left is when a request may join, and
memory: the request level reserves the model's longest sequence for each, so that its batch of 8 is cut to 6. Iteration
level with a limit of 6 stands beside it, to tell the two apart. The arrivals are the workload's; its lengths are not.

    python3 lb2/orca_homogeneous.py        writes orca_homogeneous.csv
"""

from command_line import run
from common import aligned, save, table
from inputs import Requests
from orca_curves import at_once_rps, curve, name, peak_rps

from orca_words import ASSUMPTIONS
from orca_workload import Workload, arguments, chosen_workload

LENGTHS = ((32, 32), (256, 256))  # prompt and output tokens
BATCH, SAME_SLOTS, SAME_LIMIT = ("request", 8), ("iteration", 6), ("iteration", 8)
SYSTEMS = (BATCH, SAME_SLOTS, SAME_LIMIT, ("iteration", 32))
RATES_RPS = (1, 2, 4, 8, 16, 32)


def equal_lengths(workload, prompt_tokens, output_tokens):
    """The same arrivals, of requests that are all of these lengths."""
    n = len(workload.arrivals_s)
    return Workload(Requests([prompt_tokens] * n, [output_tokens] * n), workload.arrivals_s)


def print_notice(lengths, peaks, at_once):
    """What the gain at these lengths is owed to. peaks, at_once: requests per second, by lengths and system."""
    peak = peaks[lengths, SAME_LIMIT] / peaks[lengths, BATCH]
    scheduling = at_once[lengths, SAME_SLOTS] / at_once[lengths, BATCH]
    memory = at_once[lengths, SAME_LIMIT] / at_once[lengths, SAME_SLOTS]
    print(
        f"Notice: at {lengths[0]} + {lengths[1]} tokens {name(SAME_LIMIT)} peaks {peak - 1:.1%} above {name(BATCH)}. "
        f"When all come at once, scheduling alone ({name(SAME_SLOTS)}) gains {scheduling - 1:.1%}, and the slots that "
        f"memory leaves another {memory - 1:.1%}."
    )


def main():
    args = arguments(__doc__).parse_args()
    arrivals = chosen_workload(args)
    peaks, at_once = {}, {}
    for lengths in LENGTHS:
        workload = equal_lengths(arrivals, *lengths)
        for system in SYSTEMS:
            peaks[lengths, system] = peak_rps(curve(system, workload, RATES_RPS))
            at_once[lengths, system] = at_once_rps(system, workload.requests)
    header = ["prompt_tokens", "output_tokens", "scheduler", "max_batch", "peak_throughput_rps"]
    rows = [[*lengths, *system, f"{peak:.3f}"] for (lengths, system), peak in peaks.items()]
    save(args.out, {"orca_homogeneous.csv": table(header, rows)})

    print(f"Demo 3: equal lengths\n{ASSUMPTIONS}")
    print("orca_homogeneous.csv, and how fast requests are worked off that come all at once:")
    wider = [[*row, f"{rate:.3f}"] for row, rate in zip(rows, at_once.values())]
    print(aligned([*header, "at_once_rps"], wider), end="")
    for lengths in LENGTHS:
        print_notice(lengths, peaks, at_once)


if __name__ == "__main__":
    run(main)
