"""Does this lab compute the numbers that the lecture prints?

The lecture prints 15 numbers. They come from one recorded workload, the one in fixtures/orca, so
each of them must come out again. A number of this run is rounded once, to as many decimals as the
lecture prints, and then compared.

The gain at equal lengths is printed as "26 % to 37 %", without the throughputs behind it. 26 comes
out only if throughputs are divided that were rounded to two decimals before. That the lecture did
so is our hypothesis. The four throughputs are this lab's own.

    python3 lb2/orca_lecture.py        writes nothing; exit status 1 if a number differs

    holds("49.7", 49.7448) -> True     holds("> 6", 6.41) -> True
"""

import sys

from common import run, say
import orca_homogeneous
import orca_waste
from orca_curves import BATCH, ONE, RATES_RPS
from orca_homogeneous import LENGTHS, SAME_LIMIT, equal_lengths
from orca_reservation import measure
from roofline.model import ASSUMPTIONS
from roofline.systems import curve, name, peak_rps
from roofline.workload import RECORDED, arguments, chosen_workload, load_workload
from running.options import aligned

LECTURE = (  # what, as printed, unit; in the order of numbers()
    ("waste at 1 request/s", "27", "%"),
    ("waste at 4 requests/s", "39", "%"),
    ("request 1, highest throughput", "< 0.7", "requests/s"),
    ("request 8, highest throughput", "1.9", "requests/s"),
    ("iteration 8 over request 8 at 32 + 32 tokens", "37", "%"),
    ("iteration 8 over request 8 at 256 + 256 tokens", "26", "%"),
    ("max_seq at 4 requests/s", "144", "ms per token"),
    ("max_seq at 8 requests/s", "> 1000", "ms per token"),
    ("max_seq, tokens reserved for one used", "> 6", "tokens"),
    ("max_gen at 8 requests/s", "46", "ms per token"),
    ("max_gen at 12 requests/s", "384", "ms per token"),
    ("max_gen, tokens reserved for one used", "2.5", "tokens"),
    ("none at 8 requests/s", "31", "ms per token"),
    ("none at 12 requests/s, time of the deadlock", "49.7", "s"),
    ("none at 12 requests/s, finished before it", "516", "requests"),
)
RESERVED = ((4, "max_seq"), (8, "max_seq"), (8, "max_gen"), (12, "max_gen"), (8, "none"), (12, "none"))


def all_results(workload):
    """The part of the demos' results that numbers() needs, computed here."""
    wastes = {rate: orca_waste.measure(workload, rate) for rate in (1, 4)}
    points = {system: curve(system, workload, RATES_RPS) for system in (ONE, BATCH)}
    peaks = {
        (lengths, system): peak_rps(curve(system, equal_lengths(workload, *lengths), orca_homogeneous.RATES_RPS))
        for lengths in LENGTHS
        for system in (SAME_LIMIT, BATCH)
    }
    runs = {(rate, mode): measure(mode, workload, rate) for rate, mode in RESERVED}
    return wastes, points, peaks, runs


def numbers(wastes, points, peaks, runs):
    """This run's numbers in the order of LECTURE, not rounded; None without a deadlock, for example.

    wastes: {rate: orca_waste.Run}; points: {system: [Point]}; peaks: {(lengths, system): requests
    per second}; runs: {(rate, mode): Measures}.
    """
    return [
        100 * wastes[1].waste.share,
        100 * wastes[4].waste.share,
        peak_rps(points[ONE]),
        peak_rps(points[BATCH]),
        *(gain_percent(*(round(peaks[lengths, system], 2) for system in (SAME_LIMIT, BATCH))) for lengths in LENGTHS),
        runs[4, "max_seq"].p50_ms_per_token,
        runs[8, "max_seq"].p50_ms_per_token,
        runs[8, "max_seq"].reserved_per_used,
        runs[8, "max_gen"].p50_ms_per_token,
        runs[12, "max_gen"].p50_ms_per_token,
        runs[12, "max_gen"].reserved_per_used,
        runs[8, "none"].p50_ms_per_token,
        runs[12, "none"].deadlock_s,
        runs[12, "none"].finished,
    ]


def gain_percent(fast, slow):
    return 100 * (fast / slow - 1) if slow else None


def holds(printed, value):
    """Is this the number as printed: to its own decimals, or beyond the bound that it names?"""
    if value is None:
        return False
    if printed[0] in "<>":
        bound = float(printed[1:])
        return value < bound if printed[0] == "<" else value > bound
    places = len(printed.partition(".")[2])
    return f"{value:.{places}f}" == printed


def show(wastes, points, peaks, runs, workload):
    """Print both sides. Ends with exit status 1 if numbers of the recorded workload differ."""
    found = numbers(wastes, points, peaks, runs)
    verdicts = [holds(printed, value) for (_, printed, _), value in zip(LECTURE, found)]
    rows = [
        [what, printed, "" if value is None else f"{value:.6g}", unit, "yes" if verdict else "NO"]
        for (what, printed, unit), value, verdict in zip(LECTURE, found, verdicts)
    ]
    print("The lecture's numbers beside this run's")
    print(aligned(["", "the lecture prints", "this run", "unit", "same"], rows), end="")
    notice_gains(peaks)
    differ = verdicts.count(False)
    if workload != load_workload(RECORDED):
        say(f"Notice: {differ} differ; these are not the requests that the lecture's numbers come from.")
    elif differ:
        sys.exit(f"{differ} of the lecture's {len(verdicts)} numbers differ")
    else:
        say(f"Notice: all {len(verdicts)} numbers are the lecture's, to the last digit or within the bound that it "
            "prints.")


def notice_gains(peaks):
    """The throughputs behind the gains, and what the hypothesis changes."""
    ours, gains = [], []
    for lengths in LENGTHS:
        fast, slow = peaks[lengths, SAME_LIMIT], peaks[lengths, BATCH]
        ours.append(f"{fast:.2f} and {slow:.2f} at {lengths[0]} + {lengths[1]} tokens")
        gains.append(f"{fast / slow - 1:.1%}")
    say("Notice: the throughputs behind the two gains are ours; the lecture does not print them. "
        f"{name(SAME_LIMIT)} and {name(BATCH)} serve {' and '.join(ours)}. Hypothesis: the lecture divided such "
        f"rounded numbers. Not rounded, they give {' and '.join(gains)}.")


def main():
    args = arguments(__doc__).parse_args()
    workload = chosen_workload(args)
    results = all_results(workload)
    say(ASSUMPTIONS)
    show(*results, workload)


if __name__ == "__main__":
    run(main)
