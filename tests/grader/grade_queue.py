"""Is step 6 right? queue.csv.

Its numbers hang on the arrivals that were drawn, so they are compared with what permitted servers make of plausible
arrivals (queue_runs). Where they are those of one such run, they are judged to the last digit; else by the range of
many. What fits no permitted server is tried on known mistakes: the one that explains every row is named.
"""

import math
from bisect import bisect_left
from fractions import Fraction
from typing import NamedTuple

from queue_runs import ENDS, EVEN, P99S, POISSON, POOLED, RATES, RUNNING, SEEDS, SLOTS_PERMITTED, Server
from queue_runs import plain_servers, run_of, sample, samples, statistics_of, waits_ms
from readings import FREE, INSIDE, OWN_SLOT, STEP_US, Reading
from result_files import as_written

NAME = "queue.csv"
SLACK = 0.002  # ms, and requests: what arrival times lose that are rounded to microseconds
LONG_MS = 200  # where every run waits longer than this, the load is beyond capacity, and runs differ little
TELLING_MS = 20  # a wait that no two runs share by chance
MOST_PLAYED = 1000  # requests in a run of a list that is played several times
WAIT_RULE = "p99_wait_ms is the p99 of the waits, from arrival to admission, in milliseconds"
QUEUE_RULE = "avg_queue is the mean number of waiting requests: by Little's law, arrivals per second x mean wait"
RISE_RULE = "p99_wait_ms rises with rps"
AVERAGES = (
    "over the whole time", "while requests arrive", "as rate x mean wait", "of those left waiting at each step"
)
MISTAKEN = (
    (Server(Reading(prefill=OWN_SLOT), 1), "one server instead of 32 slots"),
    (Server(slots=1), "one slot instead of 32"),
    (Server(static=True), "static batching; step 6 plays continuous batching"),
    (Server(slots=16, static=True), "static batching; step 6 plays continuous batching"),
    (Server(slots=8), "8 slots instead of 32"),
    (Server(Reading(prefill=FREE), 8), "8 slots instead of 32"),
    (Server(slots=64), "64 slots instead of 32"),
    (Server(slots=1000), "no limit on the slots, instead of 32"),
)


class Row(NamedTuple):
    rps: object
    queue: object  # Number
    wait: object  # Number, of p99_wait_ms


class Guess(NamedTuple):
    """How queue.csv may have come about."""

    server: Server
    kind: str
    statistics: tuple = tuple((end, name) for end in ENDS for name in P99S)
    queue: str = "over the whole time"  # how it is averaged


def grade_queue(lab):
    if NAME not in lab.values:
        return
    rows = [Row(*(row[key] for key in ("rps", "avg_queue", "p99_wait_ms"))) for row in lab.values[NAME]]
    if not rates_are_right(lab, rows):
        return
    rows = [row._replace(rps=rate) for row, rate in zip(rows, RATES)]
    same = [Server(lab.reading, slots) for slots in SLOTS_PERMITTED]  # as in steps 1 to 4, most likely
    plain = [server for step_us in dict.fromkeys((lab.step_us, STEP_US)) for server in plain_servers(step_us)]
    longer = longer_servers(lab, rows, same)
    known = known_run(lab, rows, dict.fromkeys([*same, *longer, *plain]))
    if known:
        fitting = grade_known(lab, rows, *known)
    else:
        fitting = grade_by_range(lab, rows, same, longer, plain)
    if fitting:
        grade_rise(lab, rows, fitting)


def rates_are_right(lab, rows):
    written = [row.rps.value for row in rows]
    if written == list(RATES):
        return True
    if sorted(written) == list(RATES):
        likely = "rows out of order: rates rise from row to row"
    elif len(set(written)) < len(written):
        likely = "a rate is there twice: the file was appended to"
    elif set(written) < set(RATES):
        likely = "a row is missing: a run at that rate failed, or was never started"
    else:
        likely = "other rates were run"
    got = " ".join(f"{float(rate):g}" for rate in written[:9]) or "no rows"
    lab.wrong(NAME, "column rps", got, "5 10 20 40", "one row for each rate, in this order", likely)
    return False


# --- rising -------------------------------------------------------------------------------------------------------


def grade_rise(lab, rows, guess):
    """Falling is not met; equal neighbours are met with a note; never rising is not met."""
    first, last = rows[0].wait, rows[-1].wait
    cannot = not can_rise(lab, guess)
    fall = next(((row, above) for row, above in zip(rows, rows[1:]) if above.wait.value < row.wait.value), None)
    if cannot:
        if fall or first.value == last.value:
            lab.note(NAME, "p99_wait_ms does not rise: on these requests it cannot, for too few of them ever wait")
    elif fall:
        row, above = fall
        where, got = f"p99_wait_ms after rps={row.rps}", f"{row.wait.text}, then {above.wait.text}: it falls"
        lab.wrong(NAME, where, got, f"more than {row.wait.text}", RISE_RULE, why_it_falls(lab, row, guess))
    elif first.value == last.value:
        step_ms = guess.server.reading.step_us / 1000
        likely = "nobody waits for a slot at any of the four rates"
        if step_ms < 8:
            likely += f": at a step of {step_ms:g} ms no queue forms; take the 8 ms of step 7, or try higher rates"
        lab.wrong(NAME, "p99_wait_ms", f"{first.text} at every rate", "a p99 that rises", RISE_RULE, likely)
    for row, above in zip(rows, rows[1:]):
        if row.wait.value == above.wait.value and first.value < last.value and not fall:
            lab.note(NAME, f"p99_wait_ms is {row.wait.text} at {row.rps}/s and at {above.rps}/s. Equal is not falling")


def why_it_falls(lab, row, guess):
    if row.wait.value > LONG_MS:
        return "the waits of two rows are swapped, or each rate was drawn anew"
    if guess.kind == EVEN:
        return ("below capacity, evenly spaced arrivals wait for the end of a step alone, so where they fall in it "
                "decides; draw Poisson arrivals, and pool the waits of several draws")
    return (f"chance: of one draw of {lab.replays.n} requests the p99 is nearly the longest wait, and below capacity "
            "that hangs on who arrives in which step; pool the waits of more draws (20, say), or play a longer list")


def can_rise(lab, guess):
    """Does anybody wait for a slot at the highest rate, at the exercise's time per step?"""
    reading = guess.server.reading._replace(step_us=8000)
    pooled = [samples(lab.replays, Server(reading), POISSON, rps)[-1] for rps in (RATES[0], RATES[-1])]
    low, high = (one.waits["starts", "p99"] for one in pooled)
    return high > low + 0.05 and lab.replays.n > 1


# --- a run that we know -------------------------------------------------------------------------------------------


def close(number, value):
    return float(number.low) - SLACK <= value <= float(number.high) + SLACK


def near(number, value):
    """For a mean queue: there are more ways to average than we know, and a short queue hangs on them."""
    few = value < 1 and value / 2 < number.value < value * 2
    return few or abs(float(number.value) - value) <= 0.2 * value + 0.01 + float(number.unit)


def draws_of(server, kind):
    """Lists of draws; the waits of a list are pooled."""
    if kind == EVEN:
        return [(None,)]
    if server.lists > 1:
        return [((seed, False),) for seed in (0, 1, 42)]
    singles = [((seed, goes_on),) for goes_on in (False, True) for seed in SEEDS]
    return singles + [tuple((seed, False) for seed in POOLED[:many]) for many in (5, 10, 20)]


def index_of(lab, server):
    """[(value at 40/s, (server, kind, draws, (end, statistic)))], sorted by the value."""
    found, rps = [], RATES[-1]
    for kind in (EVEN, POISSON):
        for draws in draws_of(server, kind):
            runs = [run_of(lab.replays, server, kind, draw, rps) for draw in draws]
            for end in ENDS:
                for name, value in statistics_of(waits_ms(runs, end)).items():
                    found.append((value, (server, kind, draws, (end, name))))
    return sorted(found, key=lambda entry: entry[0])


def known_run(lab, rows, servers):
    """(server, kind, draws, statistic) of the run whose waits at 40/s and elsewhere are written; else None."""
    last, best, most = rows[-1].wait, None, 2
    if last.value < TELLING_MS or last.unit >= 1:
        return None
    for server in servers:
        index = lab.replays.remember(("index", server), index_of, lab, server)
        at = bisect_left(index, float(last.low) - SLACK, key=lambda entry: entry[0])
        while at < len(index) and index[at][0] <= float(last.high) + SLACK:
            kind, draws, statistic = index[at][1][1:]
            at += 1
            right = [close(row.wait, sample_of(lab, server, kind, draws, row.rps).waits[statistic]) for row in rows]
            score = sum(right) + right[-2]  # the row of 20/s tells more
            if score > most:
                best, most = (server, kind, draws, statistic), score
        if most == 5:
            break
    return best


def sample_of(lab, server, kind, draws, rps):
    runs = [run_of(lab.replays, server, kind, draw, rps) for draw in draws]
    return lab.replays.remember(
        ("sample", server, kind, draws, rps), sample, runs, rps, lab.replays.outputs, server.reading.step_us
    )


def grade_known(lab, rows, server, kind, draws, statistic):
    """The Guess, if every row is right."""
    run = {rps: sample_of(lab, server, kind, draws, rps) for rps in RATES}
    end, name = statistic
    if name not in P99S and (name != "maximum" or len(draws) > 1):
        right = run[RATES[-1]].waits[end, "p99"]
        likely = f"the {name.split(',')[0]} of the waits, in every row, not their p99"
        lab.wrong(NAME, f"p99_wait_ms at rps={RATES[-1]}", rows[-1].wait.text, f"{right:.3f}", WAIT_RULE, likely)
        return None
    for row in rows:
        right = run[row.rps].waits[statistic]
        within_a_step = 1000 * max(float(row.wait.value), right) <= server.reading.step_us  # there, rounding errors decide
        if not close(row.wait, right) and not within_a_step:
            likely = unit(row.wait, 0.6 * right, 1.6 * right) or "this row is from another run than the others"
            swap = next((rps for rps in RATES if rps != row.rps and close(row.wait, run[rps].waits[statistic])), None)
            likely = f"this is the p99 at {swap}/s: the waits of two rows are swapped" if swap else likely
            likely = "avg_queue and p99_wait_ms are swapped" if close(row.queue, right) else likely
            lab.wrong(NAME, f"p99_wait_ms at rps={row.rps}", row.wait.text, f"{right:.3f}", WAIT_RULE, likely)
            return None
    averages = [name for name in run[RATES[0]].queues if name != RUNNING]
    average = max(averages, key=lambda name: sum(near(row.queue, run[row.rps].queues[name]) for row in rows))
    for row in rows:
        right = run[row.rps].queues[average]
        if not near(row.queue, right):
            likely = queue_mistake(row.queue, run[row.rps].queues)
            lab.wrong(NAME, f"avg_queue at rps={row.rps}", row.queue.text, f"{right:.3f} ({average})", QUEUE_RULE, likely)
            return None
    guess = Guess(server, kind, (statistic,), average)
    of = "" if kind == EVEN else f" of {len(draws)} draws, pooled" if len(draws) > 1 else f" of seed {draws[0][0]}"
    recognised(lab, guess, of=of)
    if name == "p99, int(0.99 * n)" and len(draws) == 1 and lab.replays.n <= 100:
        lab.note(NAME, f"p99_wait_ms is sorted(waits)[int(0.99 * n)], which of {lab.replays.n} waits is the maximum")
    return guess


def unit(number, least, most):
    """The mistake, if this would be right in another unit."""
    for factor, words in ((1000, "in microseconds, not milliseconds"), (0.001, "in seconds, not milliseconds")):
        if factor * least <= number.value <= factor * most:
            return words
    return ""


def queue_mistake(number, queues):
    if number.value == 0:
        return "no queue was counted"
    for name, value in queues.items():
        if close(number, value / 2):
            return f"half of the queue {name}"
        if name == RUNNING and close(number, value):
            return "the queue counts those that run, too"
    return "the mean of another run, or an average of waits"


# --- by the range of many runs ------------------------------------------------------------------------------------


def wait_range(lab, guess, rps):
    """What may stand in p99_wait_ms, from the shortest to the longest of all runs, widened."""
    key = ("wait range", guess._replace(queue=None), rps)
    return lab.replays.remember(key, compute_wait_range, lab, guess, rps)


def compute_wait_range(lab, guess, rps):
    found = samples(lab.replays, guess.server, guess.kind, rps)
    values = [one.waits[statistic] for one in found for statistic in guess.statistics]
    least, most = min(values), max(values)
    if least > LONG_MS:
        return least / 1.3, most * 1.3
    if guess.kind == EVEN:  # when the first request comes, and rounding errors, decide
        return 0, max(4 * most, guess.server.reading.step_us / 1000)
    return least / (1.15 if most < 1.2 * least else 2), max(4 * most, 100 if len(guess.statistics) > 1 else 0)


def queue_range(lab, guess, row):
    """What may stand in avg_queue beside this wait: Little's law ties them, so long waits tell it closely."""
    key = ("queue range", guess, row.rps)
    ratios, queues, long = lab.replays.remember(key, compute_queue_range, lab, guess, row.rps)
    if float(row.wait.value) > LONG_MS and ratios:
        margin = 1.3 if long else 2
        return ratios[0] / margin * float(row.wait.low), ratios[1] * margin * float(row.wait.high)
    reading = guess.server.reading
    a_step = row.rps * reading.step_us / 1e6 if reading.prefill != OWN_SLOT else 0.01
    return (queues[0] / 2 if guess.kind == POISSON and queues[0] > 0.1 else 0), max(4 * queues[1], a_step)


def compute_queue_range(lab, guess, rps):
    found = samples(lab.replays, guess.server, guess.kind, rps)
    pairs = [(one.queues[guess.queue], one.waits[statistic]) for one in found for statistic in guess.statistics]
    ratios = [queue / wait for queue, wait in pairs if wait > LONG_MS / 4]
    queues = [queue for queue, _ in pairs]
    return ratios and (min(ratios), max(ratios)), (min(queues), max(queues)), min(wait for _, wait in pairs) > LONG_MS


def inside(number, bounds):
    return float(number.high) >= bounds[0] - SLACK / 2 and float(number.low) <= bounds[1] + SLACK / 2


def misfits(lab, guess, rows):
    """[(row, key, bounds)] of the cells that do not fit. Beside a wrong wait, the queue is not looked at."""
    found = []
    for row in rows[::-1]:  # the highest rate tells most
        for key, number, bounds_of in (("p99_wait_ms", row.wait, wait_range), ("avg_queue", row.queue, queue_range)):
            bounds = bounds_of(lab, guess, row.rps if key == "p99_wait_ms" else row)
            if not inside(number, bounds):
                found.append((row, key, bounds))
                break
    return found[::-1]


def fits(lab, guess, rows):
    return not any(misfits(lab, guess, [row]) for row in rows[::-1])


def weight(found):
    """Many wrong cells weigh more than few; wrong waits first, since the queue hangs on them."""
    return sum(10 if key == "p99_wait_ms" else 1 for _, key, _ in found)


def guesses(servers, names=tuple(P99S), averages=None):
    """Every Guess with these servers, the plainest first."""
    averages = averages or AVERAGES
    statistics = tuple((end, name) for end in ENDS for name in names)
    return [Guess(server, kind, statistics, one) for server in servers for kind in (EVEN, POISSON) for one in averages]


def explained(lab, rows, choice):
    """The first Guess that every cell fits; None if there is none."""
    return next((guess for guess in choice if fits(lab, guess, rows)), None)


def grade_by_range(lab, rows, same, longer, plain):
    """The Guess that fits best, if any does."""
    choice, likely = guesses(same) + guesses(longer), ""
    fitting = [guess for guess in choice if fits(lab, guess, rows)]
    if not fitting:
        likely = other_unit(lab, rows, same) or other_statistic(lab, rows, same)
    if not fitting and not likely:
        choice = guesses(plain)
        fitting = [guess for guess in choice if fits(lab, guess, rows)]
    if fitting:
        best = min(fitting, key=lambda guess: distance(lab, guess, rows))
        recognised(lab, best, "most like ", " of an unknown draw, so judged by range: a p95 would pass")
        return best
    likely = likely or cause(lab, rows, plain)
    guess = min(choice, key=lambda guess: weight(misfits(lab, guess, rows)))
    row, key, (least, most) = misfits(lab, guess, rows)[-1 if likely else 0]
    number, rule = (row.wait, WAIT_RULE) if key == "p99_wait_ms" else (row.queue, QUEUE_RULE)
    if not likely and key == "p99_wait_ms":
        likely = unit(number, least, most)
        likely = likely or "another number of slots, another cost of a step, or other requests than REQUESTS"
    elif not likely:
        likely = "no queue was counted" if number.value == 0 else "an average of something else, or of another run"
    expected = f"{least:.3f} to {most:.3f} ({guess.server}; {guess.kind})"
    lab.wrong(NAME, f"{key} at rps={row.rps}", number.text, expected, rule, likely)
    return None


def longer_servers(lab, rows, servers):
    """The servers with a list that is played so often that the p99 at the highest rate grows to what is written."""
    found = {}
    for server in servers:
        one, two = (
            samples(lab.replays, server._replace(lists=lists), EVEN, RATES[-1])[0].waits["starts", "p99"] for lists in (1, 2)
        )
        often = round(1 + (float(rows[-1].wait.value) - one) / (two - one)) if two > one else 1
        for lists in (often, often + 1, often - 1):
            if 1 < lists <= MOST_PLAYED // lab.replays.n:
                found[server._replace(lists=lists)] = None
    return list(found)


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


def other_statistic(lab, rows, servers):
    """"the mean of the waits, not their p99", if that explains every row; else an empty text."""
    others = [guess for name in ("mean", "median") for guess in guesses(servers, (name,))]
    others = [guess for guess in others if fits(lab, guess, rows)]
    if not others:
        return ""
    nearest = min(others, key=lambda guess: distance(lab, guess, rows))
    return f"the {nearest.statistics[0][1]} of the waits, not their p99"


def cause(lab, rows, servers):
    """The name of the known mistake that explains every row; an empty text if there is none."""
    likely = other_statistic(lab, rows, servers)
    if likely:
        return likely
    ordered = sorted(rows, key=lambda row: row.wait.value)
    if explained(lab, [row._replace(wait=other.wait) for row, other in zip(rows, ordered)], guesses(servers)):
        return "the waits of two rows are swapped: they rise with the rate"
    crossed = [row._replace(queue=row.wait, wait=row.queue) for row in rows]
    if explained(lab, crossed, guesses(servers)):
        return "avg_queue and p99_wait_ms are swapped"
    if explained(lab, rows, guesses(servers, averages=[RUNNING])):
        return "the queue counts those that run, too"
    if explained(lab, [row._replace(queue=times(row.queue, 2)) for row in rows], guesses(servers)):
        return "half of the mean queue"
    for server, words in MISTAKEN:
        if explained(lab, rows, guesses([server])):
            return words
    return other_unit(lab, rows, servers)


def other_unit(lab, rows, servers):
    for factor, words in ((Fraction(1000), "in seconds"), (Fraction(1, 1000), "in microseconds")):
        scaled = [row._replace(wait=times(row.wait, factor)) for row in rows]
        if explained(lab, scaled, guesses(servers)):
            return f"the waits are {words}, not in milliseconds"
    return ""


def times(number, factor):
    return as_written(number.text, number.value * factor, number.unit * factor)


def recognised(lab, guess, like="", of=""):
    words = f"{like}{guess.server}; {guess.kind}{of * (guess.kind == POISSON)}; the mean queue {guess.queue}"
    if len(guess.statistics) == 1:
        (end, name), = guess.statistics
        words += f"; {ENDS[end]}" * (end != "starts") + f"; {name}" * (name != "p99")
    lab.say(NAME, words)
