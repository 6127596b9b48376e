"""Is task 6 right? queue.csv.

Its numbers hang on the arrivals that were drawn, so they are compared with what permitted servers make of plausible
arrivals (queue_runs). Where they are those of one such run, they are judged to the last digit; else by the range of
many. What fits no permitted server is tried on known mistakes: the one that explains every row is named.
"""

import math
from bisect import bisect_left
from fractions import Fraction
from typing import NamedTuple

from grade_report import UNKNOWN
from queue_runs import AVERAGES, ENDS, EVEN, P99S, POISSON, RATES, RUNNING, SLOTS_PERMITTED, Server, index_of
from queue_runs import plain_servers, runs_of, sample, samples
from readings import OWN_SLOT, PREFILLS, STEP_US

NAME = "queue.csv"
SLACK = 0.002  # ms, and requests: what arrival times lose that are rounded to microseconds
LONG_MS = 200  # where every run waits longer than this, the load is beyond capacity, and runs differ little
TELLING_MS = 20  # a wait that no two runs share by chance
MOST_PLAYED = 1000  # requests in a run of a list that is played several times
WAIT_RULE = "p99_wait_ms is the p99 of the waits, from arrival to admission, in milliseconds"
QUEUE_RULE = "avg_queue is the mean number of waiting requests: by Little's law, arrivals per second x mean wait"
RISE_RULE = "p99_wait_ms rises with rps"
MISTAKEN = (  # slots, static?
    (1, False, "one request at a time instead of 32 slots"),
    (32, True, "static batching; task 6 plays continuous batching"),
    (16, True, "static batching; task 6 plays continuous batching"),
    (8, False, "8 slots instead of 32"),
    (64, False, "64 slots instead of 32"),
    (1000, False, "no limit on the slots, instead of 32"),
)


class Row(NamedTuple):
    rps: object
    queue: object  # Number
    wait: object  # Number, of p99_wait_ms


class Guess(NamedTuple):
    """How queue.csv may have come about."""

    server: Server
    kind: str
    statistics: tuple  # ((end, name), ...) of Sample.waits
    queue: str  # of Sample.queues


def guesses(servers, names=tuple(P99S), averages=AVERAGES):
    """Every Guess with these servers, the plainest first."""
    statistics = tuple((end, name) for end in ENDS for name in names)
    return [Guess(server, kind, statistics, one) for server in servers for kind in (EVEN, POISSON) for one in averages]


def grade_queue(lab):
    if NAME not in lab.values:
        return
    rows = [Row(*row.values()) for row in lab.values[NAME]]
    if not rates_are_right(lab, rows):
        return
    rows = [row._replace(rps=rate) for row, rate in zip(rows, RATES)]
    same = [Server(lab.reading, slots) for slots in SLOTS_PERMITTED]  # as in tasks 1 to 4, most likely
    plain = [server for step_us in dict.fromkeys((lab.step_us, STEP_US)) for server in plain_servers(step_us)]
    longer = longer_servers(lab, rows, same)
    known = known_run(lab, rows, dict.fromkeys([*same, *longer, *plain[: len(PREFILLS)]]))
    guess = grade_known(lab, rows, *known) if known else grade_by_range(lab, rows, same, longer, plain)
    if guess:
        grade_rise(lab, rows, guess)


def rates_are_right(lab, rows):
    written = [row.rps.value for row in rows]
    if written == list(RATES):
        return True
    likely = "other rates were run"
    if sorted(written) == list(RATES):
        likely = "rows out of order: rates rise from row to row"
    elif len(set(written)) < len(written):
        likely = "a rate is there twice: the file was appended to"
    elif set(written) < set(RATES):
        likely = "a row is missing: a run at that rate failed, or was never started"
    got = " ".join(f"{float(rate):g}" for rate in written[:9]) or "no rows"
    lab.wrong(NAME, "column rps", got, "5 10 20 40", "one row for each rate, in this order", likely)
    return False


# --- rising -------------------------------------------------------------------------------------------------------


def grade_rise(lab, rows, guess):
    """Falling is not met; equal neighbours are met with a note; never rising is not met."""
    first, last, step_ms = rows[0].wait, rows[-1].wait, guess.server.reading.step_us / 1000
    pairs = list(zip(rows, rows[1:]))
    fall = next(((row, above) for row, above in pairs if above.wait.value < row.wait.value), None)
    if not can_rise(lab, guess) and (fall or first.value == last.value):
        lab.note(NAME, "p99_wait_ms does not rise: on these requests it cannot, for too few of them ever wait")
    elif fall:
        row, above = fall
        where, got = f"p99_wait_ms after rps={row.rps}", f"{row.wait.text}, then {above.wait.text}: it falls"
        likely = (f"chance: of one draw of {lab.replays.n} requests the p99 is nearly the longest wait, and below "
                  "capacity that hangs on who arrives in which step; pool the waits of more draws (20, say), or play a "
                  "longer list")
        if guess.kind == EVEN:
            likely = ("below capacity, evenly spaced arrivals wait for the end of a step alone, so where they fall in "
                      "it decides; draw Poisson arrivals, and pool the waits of several draws")
        lab.wrong(NAME, where, got, f"more than {row.wait.text}", RISE_RULE, likely)
    elif first.value == last.value:
        likely = "nobody waits for a slot at any of the four rates"
        if step_ms < 8:
            likely += f": at a step of {step_ms:g} ms no queue forms; take the 8 ms of task 7, or try higher rates"
        lab.wrong(NAME, "p99_wait_ms", f"{first.text} at every rate", "a p99 that rises", RISE_RULE, likely)
    else:
        for row, above in pairs:
            if row.wait.value == above.wait.value:
                equal = f"p99_wait_ms is {row.wait.text} at {row.rps}/s and at {above.rps}/s. Equal is not falling"
                lab.note(NAME, equal)


def can_rise(lab, guess):
    """Does anybody wait longer at the highest rate than at the lowest, at the exercise's time per step?"""
    server = Server(guess.server.reading._replace(step_us=STEP_US))
    low, high = (samples(lab.replays, server, POISSON, rps)[-1].waits["starts", "p99"] for rps in (RATES[0], RATES[-1]))
    return high > low + 0.05


# --- a run that we know -------------------------------------------------------------------------------------------


def close(number, value):
    return float(number.low) - SLACK <= value <= float(number.high) + SLACK


def near(number, value):
    """For a mean queue: there are more ways to average than we know, and a short queue hangs on them."""
    few = value < 1 and value / 2 < number.value < value * 2
    return few or abs(float(number.value) - value) <= 0.3 * value + 0.05 + float(number.unit)


def known_run(lab, rows, servers):
    """({rate: Sample}, server, kind, draws, statistic) of the run whose waits at 40/s and elsewhere are written."""
    last, best, most = rows[-1].wait, None, 2
    if last.value < TELLING_MS or last.unit >= 1:
        return None
    for server in servers:
        index = index_of(lab.replays, server)
        at = bisect_left(index, (float(last.low) - SLACK,))
        while at < len(index) and index[at][0] <= float(last.high) + SLACK and most < 5:
            _, kind, draws, statistic = index[at]
            at += 1
            run = {rps: run_sample(lab, server, kind, draws, rps) for rps in RATES}
            right = [close(row.wait, run[row.rps].waits[statistic]) for row in rows]
            score = sum(right) + right[-2]  # the row of 20/s tells more
            if score > most:
                best, most = (run, server, kind, draws, statistic), score
    return best


def run_sample(lab, server, kind, draws, rps):
    runs = runs_of(lab.replays, server, kind, draws, rps)
    return lab.replays.remember(("sample", server, kind, draws, rps), sample, runs, rps)


def grade_known(lab, rows, run, server, kind, draws, statistic):
    """The Guess, if every row is right."""
    end, name = statistic
    if name not in P99S and (name != "maximum" or len(draws) > 1):
        right = run[RATES[-1]].waits[end, "p99"]
        likely = f"the {name.split(',')[0]} of the waits, in every row, not their p99"
        lab.wrong(NAME, f"p99_wait_ms at rps={RATES[-1]}", rows[-1].wait.text, f"{right:.3f}", WAIT_RULE, likely)
        return None
    averages = [name for name in run[RATES[0]].queues if name != RUNNING]
    off = {name: [abs(float(row.queue.value) - run[row.rps].queues[name]) for row in rows] for name in averages}
    average = min(averages, key=lambda name: sum(off[name]))
    for row in rows:
        right = run[row.rps].waits[statistic]
        longer_than_a_step = 1000 * max(float(row.wait.value), right) > server.reading.step_us  # else rounding decides
        if longer_than_a_step and not close(row.wait, right):
            swap = [rps for rps in RATES if close(row.wait, run[rps].waits[statistic])]
            likely = unit(row.wait, 0.6 * right, 1.6 * right) or "this row is from another run than the others"
            likely = f"this is the p99 at {swap[0]}/s: the waits of two rows are swapped" if swap else likely
            likely = "avg_queue and p99_wait_ms are swapped" if close(row.queue, right) else likely
            lab.wrong(NAME, f"p99_wait_ms at rps={row.rps}", row.wait.text, f"{right:.3f}", WAIT_RULE, likely)
            return None
        right = run[row.rps].queues[average]
        if not near(row.queue, right):
            likely, expected = queue_mistake(row.queue, run[row.rps].queues), f"{right:.3f} ({average})"
            lab.wrong(NAME, f"avg_queue at rps={row.rps}", row.queue.text, expected, QUEUE_RULE, likely)
            return None
    of = "" if kind == EVEN else f" of {len(draws)} draws, pooled" if len(draws) > 1 else f" of seed {draws[0][0]}"
    words = f"; {ENDS[end]}" * (end != "starts") + f"; {name}" * (name != "p99")
    lab.say(NAME, f"{server}; {kind}{of}; the mean queue {average}{words}")
    if "int" in name and len(draws) == 1 and lab.replays.n <= 100:
        lab.note(NAME, f"p99_wait_ms is sorted(waits)[int(0.99 * n)], which of {lab.replays.n} waits is the maximum")
    return Guess(server, kind, (statistic,), average)


def unit(number, least, most):
    """The mistake, if this would be right in another unit."""
    for factor, words in ((1000, "in microseconds, not milliseconds"), (0.001, "in seconds, not milliseconds")):
        if factor * least <= number.value <= factor * most:
            return words
    return ""


def queue_mistake(number, queues):
    if number.value == 0:
        return "no queue was counted"
    if any(close(number, value / 2) for value in queues.values()):
        return "half of the queue"
    return "the queue counts those that run, too" if near(number, queues[RUNNING]) else UNKNOWN


# --- by the range of many runs ------------------------------------------------------------------------------------


def ranges(lab, guess, rps):
    """(least and most p99, least and most avg_queue, least and most avg_queue / p99) of all runs, widened."""
    return lab.replays.remember(("ranges", guess, rps), compute_ranges, lab, guess, rps)


def compute_ranges(lab, guess, rps):
    found, reading = samples(lab.replays, guess.server, guess.kind, rps), guess.server.reading
    pairs = [(one.queues[guess.queue], one.waits[statistic]) for one in found for statistic in guess.statistics]
    waits, queues = [wait for _, wait in pairs], [queue for queue, _ in pairs]
    ratios = [queue / wait for queue, wait in pairs if wait > LONG_MS / 4] or [0, math.inf]
    least, most = min(waits), max(waits)
    spread = 1.3 if LONG_MS < least and most < 3 * least else 2  # at capacity runs differ more than beyond it
    if least > LONG_MS:
        of_waits = least / spread, most * spread
    elif guess.kind == EVEN:  # when the first request comes, and rounding errors, decide
        of_waits = 0, max(4 * most, reading.step_us / 1000)
    else:
        of_waits = least / (1.15 if most < 1.2 * least else 2), max(4 * most, 100 if len(guess.statistics) > 3 else 0)
    a_step = rps * reading.step_us / 1e6 if reading.prefill != OWN_SLOT else 0.01
    of_queues = (min(queues) / 2 if guess.kind == POISSON and min(queues) > 0.1 else 0), max(4 * max(queues), a_step)
    return of_waits, of_queues, (min(ratios) / spread, max(ratios) * spread)


def misfit(lab, guess, row):
    """(key, least, most) of the cell that does not fit, or None. Little's law ties avg_queue to a long wait."""
    of_waits, of_queues, ratios = ranges(lab, guess, row.rps)
    if not inside(row.wait, of_waits):
        return "p99_wait_ms", *of_waits
    if row.wait.value > LONG_MS and ratios[1] < math.inf:
        of_queues = ratios[0] * float(row.wait.low), ratios[1] * float(row.wait.high)
    return None if inside(row.queue, of_queues) else ("avg_queue", *of_queues)


def inside(number, bounds):
    return float(number.high) >= bounds[0] - SLACK / 2 and float(number.low) <= bounds[1] + SLACK / 2


def fitting(lab, rows, choice):
    """The nearest Guess that every cell fits; None if there is none. The highest rate tells most, and comes first."""
    found = [guess for guess in choice if not any(misfit(lab, guess, row) for row in rows[::-1])]
    return min(found, key=lambda guess: distance(lab, guess, rows), default=None)


def distance(lab, guess, rows):
    """How far the rows are from the nearest run."""
    return sum(
        min(
            abs(math.log((float(row.wait.value) + 1) / (one.waits[statistic] + 1)))
            + abs(math.log((float(row.queue.value) + 0.01) / (one.queues[guess.queue] + 0.01)))
            for one in samples(lab.replays, guess.server, guess.kind, row.rps)
            for statistic in guess.statistics
        )
        for row in rows
    )


def grade_by_range(lab, rows, same, longer, plain):
    """The Guess that fits best, if any does."""
    best, likely = fitting(lab, rows, guesses(same) + guesses(longer)), ""
    if not best:
        likely = named(lab, causes(rows, same + longer_servers(lab, rows, same, "mean"))[:4])
    if not best and not likely:
        best = fitting(lab, rows, guesses(plain))
    if best:
        of = f"{POISSON} of an unknown draw, so judged by range: a p95 would pass" if best.kind == POISSON else EVEN
        lab.say(NAME, f"most like {best.server}; {of}; the mean queue {best.queue}")
        return best
    if not likely:
        found = causes(rows, dict.fromkeys(server for server in same + plain if server in same or server.slots == 32))
        likely = next(filter(None, (named(lab, [one]) for one in found[:8])), "") or named(lab, found[8:])
    blame(lab, rows, guesses(same + plain), likely)
    return None


def named(lab, found):
    """The mistake that explains every row, and is the nearest to them; else an empty text."""
    fit = [(words, changed, fitting(lab, changed, choice)) for words, changed, choice in found]
    near_first = sorted((distance(lab, guess, changed), words) for words, changed, guess in fit if guess)
    return near_first[0][1] if near_first else ""


def blame(lab, rows, choice, likely):
    """Say which cell is wrong, by the Guess of which the fewest are. Waits weigh more: the queue hangs on them."""
    found = [[(row, *misfit(lab, guess, row)) for row in rows if misfit(lab, guess, row)] for guess in choice]
    wrong = min(found, key=lambda cells: sum(10 if cell[1] == "p99_wait_ms" else 1 for cell in cells))
    guess = choice[found.index(wrong)]
    row, key, least, most = wrong[-1 if likely else 0]
    number, rule = (row.wait, WAIT_RULE) if key == "p99_wait_ms" else (row.queue, QUEUE_RULE)
    if not likely and key == "p99_wait_ms" and len(wrong) == 1:
        likely = unit(number, least, most)
    elif not likely and number.value == 0:
        likely = "no queue was counted"
    expected = f"{least:.3f} to {most:.3f} ({guess.server})"
    lab.wrong(NAME, f"{key} at rps={row.rps}", number.text, expected, rule, likely or UNKNOWN)


def longer_servers(lab, rows, servers, statistic="p99"):
    """The servers whose list is played so often that this statistic grows to what is written at the highest rate."""
    found = {}
    for server in servers:
        runs = [samples(lab.replays, server._replace(lists=lists), EVEN, RATES[-1])[0] for lists in (1, 2)]
        one, two = (run.waits["starts", statistic] for run in runs)
        often = round(1 + (float(rows[-1].wait.value) - one) / (two - one)) if two > one else 1
        for lists in (often, often + 1, often - 1):
            if 1 < lists <= MOST_PLAYED // lab.replays.n:
                found[server._replace(lists=lists)] = None
    return list(found)


def causes(rows, servers):
    """[(mistake, the rows without it, the Guesses that one of must fit them)], units and statistics first."""
    seconds = [row._replace(wait=row.wait.times(1000)) for row in rows]
    microseconds = [row._replace(wait=row.wait.times(Fraction(1, 1000))) for row in rows]
    ordered = [row._replace(wait=other.wait) for row, other in zip(rows, sorted(rows, key=lambda row: row.wait.value))]
    crossed = [row._replace(queue=row.wait, wait=row.queue) for row in rows]
    doubled = [row._replace(queue=row.queue.times(2)) for row in rows]
    right = guesses(servers)
    return [
        ("the waits are in seconds, not in milliseconds", seconds, right),
        ("the waits are in microseconds, not in milliseconds", microseconds, right),
        ("the mean of the waits, not their p99", rows, guesses(servers, ("mean",))),
        ("the median of the waits, not their p99", rows, guesses(servers, ("median",))),
        ("the waits of two rows are swapped: they rise with the rate", ordered, right),
        ("avg_queue and p99_wait_ms are swapped", crossed, right),
        ("the queue counts those that run, too", rows, guesses(servers, averages=[RUNNING])),
        ("half of the mean queue", doubled, right),
        *((words, rows, guesses(dict.fromkeys(server._replace(slots=slots, static=static) for server in servers)))
          for slots, static, words in MISTAKEN),
    ]
