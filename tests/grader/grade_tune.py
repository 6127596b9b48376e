"""Is task 8 right? tune.txt.

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
WRONG_STATISTICS = {  # of sorted TTFTs
    (lambda ordered: Fraction(sum(ordered)) / len(ordered)): "mean",
    (lambda ordered: interpolated(ordered, 95)): "p95",
    (lambda ordered: interpolated(ordered, 90)): "p90",
    (lambda ordered: interpolated(ordered, 50)): "median",
}


class Tuning(NamedTuple):
    reading: Reading
    clients: str = "closed"
    first_token: str = "firsts"
    statistic: object = interpolated

    def __str__(self):
        words = [CLIENTS[self.clients], str(self.reading), FIRST_TOKENS[self.first_token]]
        if self.statistic is not interpolated:
            words.append(f"the p99 is {PERCENTILES[self.statistic]}")
        return "; ".join(words)


def tunings(choice, statistics=PERCENTILES):
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
    """The replays of task 8; each is made when it is asked for, and once."""

    def __init__(self, lab):
        self.replays, self.remember = lab.replays, lab.replays.remember
        self.up_to = min(self.replays.n, UP_TO)
        self.readings = sorted(readings(lab.step_us), key=lambda reading: reading != lab.reading)  # that one first

    def run(self, n, tuning):
        if tuning.clients != "burst":
            return self.replays.run(False, n, tuning.reading)
        burst = [column[:n] for column in self.replays.requests]
        return self.remember(("burst", n, tuning.reading), replay, burst, tuning.reading, n)

    def ttft_ms(self, n, tuning):
        """The tuning's statistic of the times to first token of n clients."""
        return self.remember((n, tuning), self.compute_ttft_ms, n, tuning)

    def compute_ttft_ms(self, n, tuning):
        run = self.run(n, tuning)
        since = run.arrivals if tuning.clients == "all" else run.starts
        ttfts_us = sorted(end - start for end, start in zip(getattr(run, tuning.first_token), since))
        return Fraction(tuning.statistic(ttfts_us)) / 1000

    def meets(self, n, tuning):
        return self.ttft_ms(n, tuning) <= TARGET_MS

    def answer(self, tuning):
        """The largest concurrency such that it and every smaller one meet the target; 0 if there is none.

        Where all requests are sent at once, more slots only shorten the wait: the largest that meets.
        """
        return self.remember(("answer", tuning), self.search, tuning)

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
        if given not in SCAN_ENDS and given < self.up_to and self.meets(given + 1, tuning):
            return False
        answer = self.answer(tuning)  # more clients than requests change nothing
        return given == answer or given in SCAN_ENDS and (given < answer or answer == self.up_to)

    def throughputs(self, n, tuning):
        """{how it is counted: tokens per second}: with the prefill that the TTFT counts, or without any."""
        if not n:
            return {"": Fraction(0)}
        at, found = min(n, self.up_to), {}
        for step_us in dict.fromkeys((tuning.reading.step_us, *(reading.step_us for reading in self.readings))):
            for prefill in dict.fromkeys((tuning.reading.prefill, FREE)):
                reading = tuning.reading._replace(prefill=prefill, step_us=step_us)
                found[str(reading)] = self.replays.tps(False, at, reading)
                if tuning.clients == "burst":
                    span_us = self.run(at, tuning._replace(reading=reading)).span
                    found[f"{reading}; of the N requests alone"] = per_second(sum(self.replays.outputs[:at]), span_us)
        return found

    def counted(self, n, tuning, number):
        """How this throughput is counted, if it is right; else None."""
        return next((how for how, tps in self.throughputs(n, tuning).items() if number.says(tps, 2)), None)


def grade_tuning(lab):
    if NAME not in lab.values:
        return
    target, given, tps = lab.values[NAME].values()
    otherwise = "another target was given, or the TTFT reached was written"
    rule = f"task 8 runs with a target of {TARGET_MS} ms"
    lab.require(NAME, "target_ttft_ms", target, TARGET_MS, rule, other_units(Fraction(TARGET_MS)), otherwise)
    scan, n = Scan(lab), int(min(given.value, 10**9))
    shown = [tuning for tuning in tunings(scan.readings) if scan.counted(n, tuning, tps) is not None]
    right = next((tuning for tuning in shown if scan.explains(n, tuning)), None)
    if right:
        how = scan.counted(n, right, tps)
        lab.say(NAME, f"{right}; the throughput counts: {how}" if how not in ("", str(right.reading)) else f"{right}")
        if n < scan.answer(right):
            reason = "the limit of task 5" if n == MAX_NUM_SEQS else "where the search ended"
            lab.note(NAME, f"max_concurrency={n} is {reason}; without it, {scan.answer(right)} meets the target")
        return
    choice = [lab.reading, *(lab.reading._replace(kind=INSIDE, prefill=one, costs_step=False) for one in PREFILLS)]
    explaining = [tuning for tuning in tunings(dict.fromkeys(choice)) if scan.explains(n, tuning)]
    if shown and n <= scan.up_to or not explaining:
        wrong_answer(lab, scan, n, given, shown, explaining)
    if not shown and (n <= scan.up_to or explaining):
        wrong_throughput(lab, scan, n, tps, (explaining or [Tuning(lab.reading)])[0])


def wrong_answer(lab, scan, n, given, shown, explaining):
    """shown: the tunings that the throughput beside it shows; explaining: those whose answer it is."""
    judge = (shown or [Tuning(lab.reading)])[0]
    expected = f"{scan.answer(judge)}{' as throughput_at_target is counted' if shown else ''} ({judge})"
    got, likely = given.text, ""
    if 0 < n <= scan.up_to:
        above = float(scan.ttft_ms(n, judge)) - TARGET_MS
        got += f", whose p99 TTFT is {above + TARGET_MS:.2f} ms" + f": {above:.2f} ms above the target" * (above > 0)
        others = tunings(dict.fromkeys(tuning.reading for tuning in shown or [judge]), WRONG_STATISTICS)
        used = next((WRONG_STATISTICS[one.statistic] for one in others if scan.answer(one) == n), "")
        likely = f"the {used} was used instead of the p99" if used else ""
    likely = likely or misjudged(scan, n, judge)
    if explaining:
        likely += f"; or two readings are mixed, for it is right if: {explaining[0]}"
    rule = f"the largest N such that N and every smaller one have a p99 TTFT <= {TARGET_MS} ms"
    lab.wrong(NAME, "max_concurrency", got, expected, rule, likely)


def misjudged(scan, n, tuning):
    """The likely mistake behind a max_concurrency that is not the tuning's answer."""
    answer = scan.answer(tuning)
    if n > scan.up_to:
        return f"there are {scan.replays.n} requests: more clients than that change nothing"
    if n == 0:
        return "TTFT was counted from time 0, so that it holds the wait for a slot too"
    if n < answer:
        powers = "only powers of two were tried" if answer < 2 * n and n & (n - 1) == 0 else "not the largest"
        return f"{powers}; every concurrency up to {answer} meets the target"
    if scan.meets(n, tuning):
        return f"{answer + 1}, a smaller concurrency, misses: bisection, or the last that meets, jumps over it"
    if n == MAX_NUM_SEQS:
        return f"{n} is the limit of task 5; the target allows less"
    if tuning.reading.prefill == SERIAL:
        return "TTFT left something out: it holds the prefill of all admitted in its iteration, the first burst too"
    return f"{answer + 1} misses the target already"


def wrong_throughput(lab, scan, n, tps, judge):
    rule = "output tokens / the last finish, with the prefill that the TTFT counts or without any"
    found, planted, at = scan.throughputs(n, judge), [], min(n, scan.up_to)
    for slots in (SLOTS, MAX_NUM_SEQS, at - 1, at + 1):
        if 0 < slots <= scan.up_to and at:
            others = scan.throughputs(slots, judge).values()
            planted += [(value, f"this is the throughput of {slots} slots") for value in others]
    for value in found.values():
        planted += [
            (value / 1000, "tokens per millisecond, not per second"),
            (value * 1000, "a time in milliseconds was taken for seconds"),
            (value * Fraction(lab.replays.n, lab.replays.tokens), "requests per second, not output tokens"),
        ]
    expected = ", or ".join(f"{float(value):.2f}{f' ({how})' if how else ''}" for how, value in list(found.items())[:2])
    likely = likely_mistake(tps, next(iter(found.values())), 2, planted, UNKNOWN)
    lab.wrong(NAME, f"throughput_at_target at max_concurrency={n}", tps.text, expected, rule, likely)
