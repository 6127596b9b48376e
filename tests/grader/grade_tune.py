"""Is step 8 right? tune.txt.

The exercise does not say how the clients behave, what their first token waits for, nor how far to search. Each
Tuning is one answer; one of them must explain max_concurrency together with the throughput beside it.
"""

from fractions import Fraction
from typing import NamedTuple

from grade_report import MAX_NUM_SEQS, SLOTS, UNKNOWN, likely_mistake, other_units
from readings import FREE, INSIDE, OWN_SLOT, PERCENTILES, PREFILLS, SERIAL, Reading, interpolated, per_second
from readings import readings, replay

NAME = "tune.txt"
TARGET_MS = 200
UP_TO = 256
SCAN_ENDS = (MAX_NUM_SEQS, 64, 128, 256, 512, 1000, 1024)  # where a scan may end that has found no edge
CLIENTS = {
    "closed": "closed loop",  # each of N clients sends its next request when its last one has ended
    "burst": "N requests at once, and no more",
    "all": "all requests at once, in N slots",
}
FIRST_TOKENS = {  # fields of Run
    "firsts": "TTFT ends with the decode pass",
    "prefilled": "TTFT ends with the own prefill",
    "group_prefilled": "TTFT ends with the prefill of all that are admitted together",
}
RULE = f"the largest N such that N and every smaller one have a p99 TTFT <= {TARGET_MS} ms"


class Tuning(NamedTuple):
    reading: Reading = Reading()
    clients: str = "closed"
    first_token: str = "firsts"
    statistic: object = interpolated  # of the sorted TTFTs

    def __str__(self):
        words = [CLIENTS[self.clients], str(self.reading), FIRST_TOKENS[self.first_token]]
        if self.statistic is not interpolated and self.statistic in PERCENTILES:
            words.append(f"the p99 is {PERCENTILES[self.statistic]}")
        return "; ".join(words)


def mean(ordered):
    return Fraction(sum(ordered)) / len(ordered)


def p95(ordered):
    return interpolated(ordered, 95)


def p90(ordered):
    return interpolated(ordered, 90)


def median(ordered):
    return interpolated(ordered, 50)


WRONG_STATISTICS = {mean: "mean", p95: "p95", p90: "p90", median: "median"}


def tunings(choice, statistics):
    """Every Tuning with these readings and statistics, the plainest first."""
    return [
        Tuning(reading, clients, first_token, statistic)
        for reading in choice
        for clients in CLIENTS
        for first_token in FIRST_TOKENS
        if (reading.prefill, first_token) not in ((OWN_SLOT, "group_prefilled"), (FREE, "group_prefilled"))
        for statistic in statistics
    ]


class Scan:
    """The replays of step 8; each is made when it is asked for, and once."""

    def __init__(self, lab):
        self.lab, self.replays = lab, lab.replays
        self.up_to = min(self.replays.n, UP_TO)
        self.readings = sorted(readings(lab.step_us), key=lambda reading: reading != lab.reading)  # that one first

    def run(self, concurrency, tuning):
        if tuning.clients != "burst":
            return self.replays.run(False, concurrency, tuning.reading)
        key = ("burst", concurrency, tuning.reading)
        burst = [column[:concurrency] for column in self.replays.requests]
        return self.replays.remember(key, replay, burst, tuning.reading, concurrency)

    def ttft_ms(self, concurrency, tuning):
        """The tuning's statistic of the times to first token."""
        return self.replays.remember((concurrency, tuning), self.compute_ttft_ms, concurrency, tuning)

    def compute_ttft_ms(self, concurrency, tuning):
        run = self.run(concurrency, tuning)
        since = run.arrivals if tuning.clients == "all" else run.starts
        ends = getattr(run, tuning.first_token)
        return Fraction(tuning.statistic(sorted(end - start for end, start in zip(ends, since)))) / 1000

    def meets(self, concurrency, tuning):
        return self.ttft_ms(concurrency, tuning) <= TARGET_MS

    def answer(self, tuning):
        """The largest concurrency such that it and every smaller one meet the target; 0 if there is none.

        Where all requests are sent at once, more slots only shorten the wait: the largest that meets.
        """
        return self.replays.remember(("answer", tuning), self.search, tuning)

    def search(self, tuning):
        if tuning.clients == "all":
            return next((n for n in range(self.up_to, 0, -1) if self.meets(n, tuning)), 0)
        return next((n for n in range(1, self.up_to + 1) if not self.meets(n, tuning)), self.up_to + 1) - 1

    def explains(self, given, tuning):
        """Is this max_concurrency the answer of this tuning, or the end of a scan that met no miss?"""
        if given == 0:
            return tuning.clients != "all" and not self.meets(1, tuning)
        if not self.meets(min(given, self.up_to), tuning):
            return False
        if given > self.up_to:  # more clients than requests change nothing
            return given in SCAN_ENDS and self.answer(tuning) == self.up_to
        if given not in SCAN_ENDS and given < self.up_to and self.meets(given + 1, tuning):
            return False
        answer = self.answer(tuning)
        return given == answer or given in SCAN_ENDS and given < answer

    def throughputs(self, concurrency, tuning):
        """{how it is counted: tokens per second}: with the prefill that the TTFT counts, or without any."""
        if not concurrency:
            return {"": Fraction(0)}
        at, found = min(concurrency, self.up_to), {}
        steps_us = dict.fromkeys((tuning.reading.step_us, *(reading.step_us for reading in self.readings)))
        choice = [tuning.reading._replace(prefill=prefill) for prefill in (tuning.reading.prefill, FREE)]
        choice = [reading._replace(step_us=step_us) for reading in choice for step_us in steps_us]
        for reading in dict.fromkeys(choice):
            found[str(reading)] = self.replays.tps(False, at, reading)
            if tuning.clients == "burst":
                tokens, run = sum(self.replays.outputs[:at]), self.run(at, tuning._replace(reading=reading))
                found[f"{reading}; of the N requests alone"] = per_second(tokens, run.span)
        return found

    def counted(self, concurrency, tuning, number):
        """How this throughput is counted, if it is right; else None."""
        found = self.throughputs(concurrency, tuning)
        return next((how for how, tps in found.items() if number.says(tps, 2)), None)


def grade_tuning(lab):
    if NAME not in lab.values:
        return
    target, given, tps = lab.values[NAME].values()
    otherwise = "another target was given, or the TTFT reached was written"
    rule = f"step 8 runs with a target of {TARGET_MS} ms"
    lab.require(NAME, "target_ttft_ms", target, TARGET_MS, rule, other_units(Fraction(TARGET_MS)), otherwise)
    scan, concurrency = Scan(lab), int(min(given.value, 10**9))
    every = tunings(scan.readings, PERCENTILES)
    shown = [tuning for tuning in every if scan.counted(concurrency, tuning, tps) is not None]
    right = next((tuning for tuning in shown if scan.explains(concurrency, tuning)), None)
    if right:
        how = scan.counted(concurrency, right, tps)
        lab.say(NAME, f"{right}; the throughput counts: {how}" if how not in ("", str(right.reading)) else f"{right}")
        if concurrency in SCAN_ENDS and scan.answer(right) != concurrency:
            reason = "the limit of step 5" if concurrency == MAX_NUM_SEQS else "where the search ended"
            lab.note(NAME, f"max_concurrency={given.text} is {reason}; without it, {scan.answer(right)} meets the target")
        return
    choice = [lab.reading, *(lab.reading._replace(kind=INSIDE, prefill=one, costs_step=False) for one in PREFILLS)]
    explaining = [tuning for tuning in tunings(dict.fromkeys(choice), PERCENTILES) if scan.explains(concurrency, tuning)]
    if shown and concurrency <= scan.up_to or not explaining:
        wrong_answer(lab, scan, given, shown, explaining)
    if not shown and concurrency <= scan.up_to or not shown and explaining:
        wrong_throughput(lab, scan, concurrency, tps, (explaining or [Tuning()])[0])


def wrong_answer(lab, scan, given, shown, explaining):
    """shown: the tunings that the throughput beside it shows."""
    concurrency = int(min(given.value, 10**9))
    judge = (shown or [Tuning(lab.reading)])[0]
    expected = f"{scan.answer(judge)}{' as throughput_at_target is counted' if shown else ''} ({judge})"
    got, likely = given.text, ""
    if 0 < concurrency <= scan.up_to:
        p99 = float(scan.ttft_ms(concurrency, judge))
        got += f", whose p99 TTFT is {p99:.2f} ms"
        got += f": {p99 - TARGET_MS:.2f} ms above the target" if p99 > TARGET_MS else ""
        used = other_statistic(scan, concurrency, dict.fromkeys(tuning.reading for tuning in shown or [judge]))
        if used:
            likely = f"the {used} was used instead of the p99"
    likely = likely or misjudged(scan, concurrency, judge)
    if explaining:
        likely += f"; or two readings are mixed, for it is right if: {explaining[0]}"
    lab.wrong(NAME, "max_concurrency", got, expected, RULE, likely)


def other_statistic(scan, given, choice):
    """The name of the wrong statistic by which this is the answer, or "". """
    found = tunings(choice, WRONG_STATISTICS)
    return next((WRONG_STATISTICS[one.statistic] for one in found if scan.answer(one) == given), "")


def misjudged(scan, given, tuning):
    """The likely mistake behind a max_concurrency that is not the tuning's answer."""
    answer = scan.answer(tuning)
    if given > scan.up_to:
        return f"there are {scan.replays.n} requests: more clients than that change nothing"
    if given == 0:
        return "TTFT was counted from time 0, so that it holds the wait for a slot too"
    if given == MAX_NUM_SEQS > answer:
        return f"{given} is the limit of step 5; the target allows less"
    if given > answer and scan.meets(given, tuning):
        return f"{answer + 1}, a smaller concurrency, misses: bisection, or the last that meets, jumps over it"
    if given < answer < 2 * given and given & (given - 1) == 0:
        return f"only powers of two were tried; every concurrency up to {answer} meets the target"
    if given < answer:
        return f"not the largest: every concurrency up to {answer} meets the target"
    if tuning.reading.prefill == SERIAL:
        return "TTFT left something out: it holds the prefill of all admitted in its iteration, the first burst too"
    return f"{answer + 1} misses the target already"


def wrong_throughput(lab, scan, concurrency, tps, judge):
    where = f"throughput_at_target at max_concurrency={concurrency}"
    rule = "output tokens / the last finish, with the prefill that the TTFT counts or without any"
    found, mistakes = scan.throughputs(concurrency, judge), []
    at = min(concurrency, scan.up_to)
    for slots in (SLOTS, MAX_NUM_SEQS, at - 1, at + 1):
        if 0 < slots <= scan.up_to and at:
            others = scan.throughputs(slots, judge).values()
            mistakes += [(value, f"this is the throughput of {slots} slots") for value in others]
    for value in found.values():
        mistakes += [
            (value / 1000, "tokens per millisecond, not per second"),
            (value * 1000, "a time in milliseconds was taken for seconds"),
            (value * Fraction(lab.replays.n, lab.replays.tokens), "requests per second, not output tokens"),
        ]
    other = next((one for one in scan.readings if at and tps.says(scan.replays.tps(False, at, one), 2)), None)
    otherwise = UNKNOWN
    if other:
        otherwise = f"two readings are mixed: this is the throughput where {other}"
    expected = ", or ".join(f"{float(value):.2f}{f' ({how})' if how else ''}" for how, value in list(found.items())[:2])
    likely = likely_mistake(tps, next(iter(found.values())), 2, mistakes, otherwise)
    lab.wrong(NAME, where, tps.text, expected, rule, likely)
