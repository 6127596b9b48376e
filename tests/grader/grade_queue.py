"""Is step 6 right? queue.csv.

Its numbers hang on the arrivals that were drawn, so they are compared with what plausible servers
make of plausible arrivals (queue_models). Where they are exactly one of these runs, they are judged
to the last digit; else by the range of all, widened. What fits no permitted server is tried on
known mistakes: the one that explains every row is named.
"""

import math
from fractions import Fraction
from typing import NamedTuple

from queue_models import EVEN, P99S, POISSON, RATES, RUNNING, SEEDS, SERVERS, Model, models, samples
from result_files import as_written

NAME = "queue.csv"
MOST_PLAYED = 5_000  # requests; of a longer list only the rules are checked
SLACK = 0.002  # ms, and requests: what arrival times lose that are rounded to microseconds
LONG_MS = 200  # where every run waits longer than this, the load is beyond capacity, and runs differ little
TELLING_MS = 20  # a wait that no two runs share by chance
KINDS = (POISSON, EVEN)
STATISTICS = ("mean", "median", "maximum")
WAIT_RULE = "p99_wait_ms is the p99 of the waits, from arrival to admission, in milliseconds"
QUEUE_RULE = "avg_queue is the mean number of waiting requests: by Little's law, arrivals per second x mean wait"
MISTAKEN = (
    (Model(slots=1, stepwise=False), f"one server instead of {SERVERS}"),
    (Model(slots=1), f"one slot instead of {SERVERS}"),
    (Model(static=True), "static batching; step 6 plays continuous batching"),
    (Model(slots=16), f"16 slots instead of {SERVERS}"),
    (Model(slots=8), f"8 slots instead of {SERVERS}"),
    (Model(slots=64), f"64 slots instead of {SERVERS}"),
)


class Row(NamedTuple):
    rps: object
    queue: object  # Number
    wait: object  # Number, of p99_wait_ms


class Guess(NamedTuple):
    """How queue.csv may have come about."""

    model: Model
    kind: str
    statistics: tuple = tuple(P99S)
    queue: str = "over the whole time"  # how it is averaged


def grade_queue(lab):
    if NAME not in lab.values:
        return
    rows = [Row(*(row[key] for key in ("rps", "avg_queue", "p99_wait_ms"))) for row in lab.values[NAME]]
    if not rates_are_right(lab, rows) or not waits_grow(lab, rows):
        return
    rows = [row._replace(rps=rate) for row, rate in zip(rows, RATES)]
    if lab.replays.n > MOST_PLAYED:
        if littles_law_holds(lab, rows):
            lab.note(NAME, "the list is long, so only the rules were checked, not the numbers")
    elif not grade_exactly(lab, rows) and littles_law_holds(lab, rows):
        grade_by_range(lab, rows)


# --- rules --------------------------------------------------------------------------------------------------------


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


def waits_grow(lab, rows):
    """p99_wait_ms rises strictly; below one step, where nobody queues, it is chance."""
    step_ms = float(lab.step_us) / 1000
    for row, above in zip(rows, rows[1:]):
        if row.wait.value < above.wait.value:
            continue
        sentence = f"p99_wait_ms does not rise after rps={row.rps.text}, though the exercise wants it strictly rising"
        if row.wait.value == above.wait.value == 0:
            lab.note(NAME, f"{sentence}: at both rates nobody waits")
        elif max(row.wait.value, above.wait.value) <= max(8, step_ms):
            lab.note(NAME, f"{sentence}: both waits are shorter than a step, so their order is chance")
        elif lab.replays.n <= MOST_PLAYED and not reference_grows(lab, max(row.wait.unit, above.wait.unit)):
            lab.note(NAME, f"{sentence}: on these requests it cannot")
        else:
            got, rule = f"{row.wait.text}, then {above.wait.text}", "p99_wait_ms rises strictly with rps"
            likely = "rows out of order, or another draw of arrivals for each rate"
            lab.wrong(NAME, f"p99_wait_ms after rps={row.rps.text}", got, "a larger one", rule, likely)
            return False
    return True


def reference_grows(lab, unit):
    """Does p99_wait_ms rise from rate to rate in the plainest model, written to this unit?"""
    pooled = [found[-1].waits["p99"] for found in samples(Model(), POISSON, lab.replays).values()]
    written = [round(wait / float(unit)) for wait in pooled]
    return all(low < high for low, high in zip(written, written[1:]))


def littles_law_holds(lab, rows):
    """A p99 of many waits is no small part of their mean."""
    for row in rows:
        mean_ms = 1000 * row.queue.low / row.rps
        if mean_ms > 1 and row.wait.high < mean_ms / 2:
            got = f"avg_queue {row.queue.text} with p99_wait_ms {row.wait.text}"
            likely = cause(lab, rows) or "avg_queue and p99_wait_ms are swapped, or the queue counts those that run too"
            lab.wrong(NAME, f"rps={row.rps}", got, f"a p99 above {float(mean_ms):.0f} ms or so", QUEUE_RULE, likely)
            return False
    return True


# --- exactly one of our runs --------------------------------------------------------------------------------------


def close(number, value):
    return float(number.low) - SLACK <= value <= float(number.high) + SLACK


def same_queue(number, value):
    return close(number, value) and number.unit <= max(value / 10, 0.01)


def near(number, value):
    """For a mean queue: there are more ways to average than we know."""
    return abs(float(number.value) - value) <= 0.2 * value + 0.01 + float(number.unit)


def grade_exactly(lab, rows):
    """Judges the file if its waits are those of one of our runs; else says False."""
    found = exact_run(lab, rows)
    if not found:
        return False
    model, kind, statistic, run, alike = found
    for row in rows:
        right = run[row.rps].waits[statistic]
        within_a_step = 1000 * max(float(row.wait.value), right) <= model.step_us  # there, rounding errors decide
        if not close(row.wait, right) and not within_a_step:
            likely = unit(row.wait, 0.6 * right, 1.6 * right) or "this row is from another run than the others"
            lab.wrong(NAME, f"p99_wait_ms at rps={row.rps}", row.wait.text, f"{right:.3f}", WAIT_RULE, likely)
            return True
    if statistic in STATISTICS:
        for row in rows[-1:]:
            right = run[row.rps].waits["p99"]
            likely = f"the {statistic} of the waits, in every row"
            lab.wrong(NAME, f"p99_wait_ms at rps={row.rps}", row.wait.text, f"{right:.3f}", WAIT_RULE, likely)
        return True
    averages = [name for name in run[RATES[0]].queues if name != RUNNING]
    matching = {name: sum(alike(row.queue, run[row.rps].queues[name]) for row in rows) for name in averages}
    name = max(averages, key=matching.get)
    for row in rows:
        right = run[row.rps].queues[name]
        if not alike(row.queue, right):
            likely = queue_mistake(row.queue, run[row.rps].queues)
            lab.wrong(NAME, f"avg_queue at rps={row.rps}", row.queue.text, f"{right:.3f} ({name})", QUEUE_RULE, likely)
            return True
    recognised(lab, Guess(model, kind, (statistic,), name))
    if statistic != "p99" and run[RATES[-1]].waits[statistic] == run[RATES[-1]].waits["maximum"]:
        lab.note(NAME, f"p99_wait_ms is sorted(waits)[int(0.99 * n)], which of {lab.replays.n} waits is the maximum")
    return True


def exact_run(lab, rows):
    """The run whose waits are written: (model, kind, statistic, {rate: Sample}, how to compare queues), or None.

    Three rows must hold its waits. Only the lab pools its draws in its way, and it averages in one way.
    """
    best, most = None, 2
    for model in models(lab.step_us):
        for kind in KINDS:
            found = samples(model, kind, lab.replays)
            for draw in range(len(found[RATES[0]])):
                run = {rps: found[rps][draw] for rps in RATES}
                for statistic in (*P99S, *STATISTICS):
                    same = [row for row in rows if close(row.wait, run[row.rps].waits[statistic])]
                    telling = [row for row in same if row.wait.value > TELLING_MS and row.wait.unit < 1]
                    if len(same) > most and len(telling) > (len(same) < len(rows)):
                        pooled = kind == POISSON and draw == len(SEEDS)
                        best, most = (model, kind, statistic, run, same_queue if pooled else near), len(same)
    return best


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
    found = samples(guess.model, guess.kind, lab.replays)[rps]
    values = [sample.waits[statistic] for sample in found for statistic in guess.statistics]
    least, most = min(values), max(values)
    if least > LONG_MS:
        return least / 1.3, most * 1.3
    if guess.kind == EVEN:  # when the first request comes, and rounding errors, decide
        return 0, max(4 * most, float(guess.model.step_us) / 1000)
    return least / (1.15 if most < 1.2 * least else 2), max(4 * most, 100 if guess.statistics[0] == "p99" else 0)


def queue_range(lab, guess, row):
    """What may stand in avg_queue beside this wait: Little's law ties them, so long waits tell it closely."""
    found = samples(guess.model, guess.kind, lab.replays)[row.rps]
    pairs = [(sample.queues.get(guess.queue, 0), sample.waits[name]) for sample in found for name in guess.statistics]
    ratios = [queue / wait for queue, wait in pairs if wait > LONG_MS / 4]
    if float(row.wait.value) > LONG_MS / 2 and ratios:
        margin = 1.3 if min(wait for _, wait in pairs) > LONG_MS else 2
        return min(ratios) / margin * float(row.wait.low), max(ratios) * margin * float(row.wait.high)
    queues = [queue for queue, _ in pairs]
    a_step = row.rps * float(guess.model.step_us) / 1e6 if guess.model.stepwise else 0.01
    return (min(queues) / 2 if guess.kind == POISSON else 0), max(4 * max(queues), a_step)


def inside(number, bounds):
    return float(number.high) >= bounds[0] - SLACK / 2 and float(number.low) <= bounds[1] + SLACK / 2


def misfits(lab, guess, rows):
    """[(row, key, bounds)] of the cells that do not fit. Beside a wrong wait, the queue is not looked at."""
    found = []
    for row in rows:
        bounds = wait_range(lab, guess, row.rps)
        if not inside(row.wait, bounds):
            found.append((row, "p99_wait_ms", bounds))
            continue
        bounds = queue_range(lab, guess, row)
        if not inside(row.queue, bounds):
            found.append((row, "avg_queue", bounds))
    return found


def weight(found):
    """Many wrong cells weigh more than few; wrong waits first, since the queue hangs on them."""
    return sum(10 if key == "p99_wait_ms" else 1 for _, key, _ in found)


def guesses(lab, model_list, statistics=tuple(P99S), averages=None):
    """Every Guess with these models, the plainest first."""
    for model in model_list:
        for kind in KINDS:
            names = samples(model, kind, lab.replays)[RATES[0]][0].queues
            for average in averages or [name for name in names if name != RUNNING]:
                yield Guess(model, kind, statistics, average)


def explained(lab, rows, choice):
    """The first Guess that every cell fits; None if there is none."""
    return next((guess for guess in choice if not misfits(lab, guess, rows)), None)


def grade_by_range(lab, rows):
    permitted = models(lab.step_us)
    fitting = [guess for guess in guesses(lab, permitted) if not misfits(lab, guess, rows)]
    if fitting:
        fitting.sort(key=lambda guess: distance(lab, guess, rows))
        recognised(lab, fitting[0], "most like ")
        others = dict.fromkeys(f"({guess.model})" for guess in fitting if guess.model != fitting[0].model)
        if others:
            lab.recognised.append(f"{NAME}: {' and '.join(others)} would fit, too.")
        return
    likely = cause(lab, rows)
    guess = min(guesses(lab, permitted), key=lambda guess: weight(misfits(lab, guess, rows)))
    row, key, (least, most) = misfits(lab, guess, rows)[-1 if likely else 0]
    number, rule = (row.wait, WAIT_RULE) if key == "p99_wait_ms" else (row.queue, QUEUE_RULE)
    if not likely:
        likely = unit(number, least, most) if key == "p99_wait_ms" else ""
    if not likely:
        likely = "another number of slots, another cost of a step, or other requests than REQUESTS"
        if key == "avg_queue":
            likely = "no queue was counted" if number.value == 0 else "an average of something else, or of another run"
    expected = f"{least:.3f} to {most:.3f} ({guess.model}, {guess.kind})"
    lab.wrong(NAME, f"{key} at rps={row.rps}", number.text, expected, rule, likely)


def distance(lab, guess, rows):
    """How far the rows are from the nearest run."""
    found = samples(guess.model, guess.kind, lab.replays)
    return sum(
        min(
            abs(math.log((float(row.wait.value) + 1) / (one.waits[name] + 1)))
            + abs(math.log((float(row.queue.value) + 0.01) / (one.queues[guess.queue] + 0.01)))
            for one in found[row.rps]
            for name in guess.statistics
        )
        for row in rows
    )


def cause(lab, rows):
    """The name of the known mistake that explains every row; an empty text if there is none."""
    if lab.replays.n > MOST_PLAYED:
        return ""
    permitted = models(lab.step_us)
    others = [guess for statistic in STATISTICS for guess in guesses(lab, permitted, (statistic,))]
    others = [guess for guess in others if not misfits(lab, guess, rows)]
    if others:
        nearest = min(others, key=lambda guess: distance(lab, guess, rows))
        return f"the {nearest.statistics[0]} of the waits, not their p99"
    if explained(lab, rows, guesses(lab, permitted, averages=[RUNNING])):
        return "the queue counts those that run, too"
    if explained(lab, [row._replace(queue=times(row.queue, 2)) for row in rows], guesses(lab, permitted)):
        return "half of the mean queue"
    for model, words in MISTAKEN:
        if explained(lab, rows, guesses(lab, [model])):
            return words
    for factor, words in ((Fraction(1000), "in seconds"), (Fraction(1, 1000), "in microseconds")):
        scaled = [row._replace(wait=times(row.wait, factor)) for row in rows]
        if explained(lab, scaled, guesses(lab, permitted)):
            return f"the waits are {words}, not in milliseconds"
    return ""


def times(number, factor):
    return as_written(number.text, number.value * factor, number.unit * factor)


def recognised(lab, guess, like=""):
    words = f"{like}{guess.model}; {guess.kind}; the mean queue {guess.queue}"
    if len(guess.statistics) == 1 and guess.statistics != ("p99",):
        words += f"; {guess.statistics[0]}"
    lab.recognised.append(f"{NAME}: {words}.")
