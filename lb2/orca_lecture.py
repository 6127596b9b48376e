"""Does this lab compute what the lecture prints?

The lecture's numbers come from one recorded workload, the shipped one, so each must come out again to the last digit
that it prints: this run's number is rounded to as many decimals, and none is rounded twice. The gain at equal lengths
is the lecture's own exception: it is the ratio of two throughputs that had been rounded to two decimals.

    python3 lb2/orca_lecture.py        writes nothing; exit status 1 if a number differs

    holds("49.7", 49.7448) -> True     holds("> 6", 6.41) -> True
"""

import sys

from command_line import run
from common import aligned
from orca_curves import RATES_RPS, curve, peak_rps
from orca_homogeneous import BATCH, LENGTHS, SAME_LIMIT, equal_lengths
from orca_homogeneous import RATES_RPS as EQUAL_RATES_RPS

from orca_reservation import measure
from orca_waste import at_rate
from orca_words import ASSUMPTIONS
from orca_workload import RECORDED, arguments, chosen_workload, load_workload

LECTURE = (  # what, as printed, unit; in the order of numbers()
    ("waste at 1 request/s", "27", "%"),
    ("waste at 4 requests/s", "39", "%"),
    ("peak of request 1", "< 0.7", "requests/s"),
    ("peak of request 8", "1.9", "requests/s"),
    ("peak of iteration 8 at 32 + 32 tokens", "10.80", "requests/s"),
    ("peak of request 8 at 32 + 32 tokens", "7.87", "requests/s"),
    ("iteration 8 over request 8, from the rounded", "37", "%"),
    ("peak of iteration 8 at 256 + 256 tokens", "1.20", "requests/s"),
    ("peak of request 8 at 256 + 256 tokens", "0.95", "requests/s"),
    ("iteration 8 over request 8, from the rounded", "26", "%"),
    ("max_seq at 4 requests/s", "144", "ms per token"),
    ("max_seq at 8 requests/s", "> 1000", "ms per token"),
    ("max_seq, tokens reserved for one used", "> 6", "tokens"),
    ("max_gen at 8 requests/s", "46", "ms per token"),
    ("max_gen at 12 requests/s", "384", "ms per token"),
    ("max_gen, tokens reserved for one used", "2.5", "tokens"),
    ("none at 8 requests/s", "31", "ms per token"),
    ("none at 12 requests/s deadlocks at", "49.7", "s"),
    ("... with so many finished", "516", "requests"),
)


def gain_percent(fast, slow):
    return 100 * (fast / slow - 1) if slow else None


def numbers(workload):
    """This run's numbers, in the order of LECTURE, not rounded; None where there is none, as without a deadlock."""
    found = [100 * at_rate(workload, rate).share for rate in (1, 4)]
    found += [peak_rps(curve(("request", limit), workload, RATES_RPS)) for limit in (1, 8)]
    for lengths in LENGTHS:
        equal = equal_lengths(workload, *lengths)
        fast, slow = (peak_rps(curve(system, equal, EQUAL_RATES_RPS)) for system in (SAME_LIMIT, BATCH))
        found += [fast, slow, gain_percent(round(fast, 2), round(slow, 2))]
    low, high = measure("max_seq", workload, 4), measure("max_seq", workload, 8)
    found += [low.p50_ms_per_token, high.p50_ms_per_token, high.reserved_per_used]
    low, high = measure("max_gen", workload, 8), measure("max_gen", workload, 12)
    found += [low.p50_ms_per_token, high.p50_ms_per_token, high.reserved_per_used]
    low, high = measure("none", workload, 8), measure("none", workload, 12)
    return found + [low.p50_ms_per_token, high.deadlock_s, high.finished]


def holds(printed, value):
    """Is this the number as printed: to its own decimals, or beyond the bound that it names?"""
    if value is None:
        return False
    if printed[0] in "<>":
        bound = float(printed[1:])
        return value < bound if printed[0] == "<" else value > bound
    places = len(printed.partition(".")[2])
    return f"{value:.{places}f}" == printed


def main():
    args = arguments(__doc__).parse_args()
    workload = chosen_workload(args)
    found = numbers(workload)
    verdicts = [holds(printed, value) for (_, printed, _), value in zip(LECTURE, found)]
    rows = [
        [what, printed, "" if value is None else f"{value:.6g}", unit, "yes" if verdict else "NO"]
        for (what, printed, unit), value, verdict in zip(LECTURE, found, verdicts)
    ]

    print(f"The lecture's numbers beside this run's\n{ASSUMPTIONS}")
    print(aligned(["", "the lecture prints", "this run", "unit", "same"], rows), end="")
    gains = [f"{gain_percent(found[at], found[at + 1]):.1f}" for at in (4, 7)]
    print(f"Notice: of the unrounded throughputs the gains at equal lengths are {' and '.join(gains)} %.")
    differ = verdicts.count(False)
    if workload != load_workload(RECORDED):
        print(f"Notice: {differ} differ; these are not the requests that the lecture's numbers come from.")
    elif differ:
        sys.exit(f"orca_lecture.py: {differ} of {len(verdicts)} numbers differ from the lecture's")
    else:
        print(f"Notice: all {len(verdicts)} are the lecture's, to the last digit or within the bound that it prints.")


if __name__ == "__main__":
    run(main)
