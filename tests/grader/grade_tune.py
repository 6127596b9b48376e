"""Is step 8 right? tune.txt, and tune.csv where it is there.

The exercise does not say how the clients behave, nor what their first token waits for. So
max_concurrency is judged by replaying each permitted way (readings.Tuning): one of them must
explain it together with the throughput beside it. Where tune.csv is there and right, the ways that
explain it decide.
"""

from fractions import Fraction

from grade_report import likely_mistake, other_units
from readings import ALL, SHORT, STEP_US, Counted, Tuning, mean_ms, p99_ms, throughputs, tunings

TARGET_MS = 200
UP_TO = 256
SCAN_ENDS = (64, 128, 256, 512, 1000, 1024)  # where a scan may end that found no edge
MOST_ROWS = 40  # rows of tune.csv that are replayed of a long list
DECODE_MS = Fraction(STEP_US, 1000)


class Scan:
    """The answers of all tunings; each is found when it is asked for, and once."""

    def __init__(self, lab):
        self.replays, self.step_us = lab.replays, lab.step_us
        self.up_to = min(self.replays.n, UP_TO)
        self.short = self.replays.n <= SHORT  # else only the answer and its neighbour are replayed
        self.tunings = tunings(self.replays.n, lab.step_us)

    def meets(self, concurrency, tuning):
        return p99_ms(self.replays, concurrency, tuning) <= TARGET_MS

    def answer(self, tuning):
        """The largest concurrency such that it and every smaller one meet the target; 0 if there is none.

        Where all requests are sent at once, more slots only shorten the wait: the largest that meets.
        """
        return self.replays.remember(("answer", tuning), self.search, tuning)

    def search(self, tuning):
        if tuning.clients == ALL:
            return next((n for n in range(self.up_to, 0, -1) if self.meets(n, tuning)), 0)
        missing = (n for n in range(1, self.up_to + 1) if not self.meets(n, tuning))
        return next(missing, self.up_to + 1) - 1

    def explains(self, given, tuning):
        """Is this max_concurrency the answer of this tuning? 0 is none where another way to send requests has one."""
        if given == 0:
            return tuning.clients != ALL and not self.meets(1, tuning)
        if given > self.up_to:  # more clients than requests change nothing
            return given in SCAN_ENDS and self.explains(self.up_to, tuning)
        if not self.short:
            return self.meets(given, tuning) and (given == self.up_to or not self.meets(given + 1, tuning))
        answer = self.answer(tuning)
        return given == answer or (answer == self.up_to and given in SCAN_ENDS)

    def counted(self, concurrency, tuning, number):
        """The ways to count (Counted) by which this throughput is right at this concurrency."""
        if not concurrency:
            return [Counted(None)] if number.says(Fraction(0), 2) else []
        found = throughputs(self.replays, min(concurrency, self.up_to), tuning, self.step_us)
        return [how for how, tps in found.items() if number.says(tps, 2)]


def grade_tuning(lab):
    scan, rows = Scan(lab), lab.values.get("tune.csv", [])
    if "tune.csv" in lab.values:
        grade_concurrencies(lab, scan, rows)
    rows = replayed_rows(lab, scan, rows)
    by_curve = [tuning for tuning in scan.tunings if rows and all_fit(scan, rows, tuning)]
    right, said = by_curve, len(lab.recognised)
    if "tune.txt" in lab.values:
        grade_target(lab)
        right = grade_answer(lab, scan, by_curve)
    if by_curve and len(lab.recognised) == said:
        lab.recognised.append(f"tune.csv: {by_curve[0]}.")
    elif rows and not by_curve:
        grade_rows(lab, scan, rows, right)


def grade_target(lab):
    number = lab.values["tune.txt"]["target_ttft_ms"]
    rule = f"step 8 runs with a target of {TARGET_MS} ms"
    otherwise = "another target was given, or the TTFT reached was written"
    lab.require("tune.txt", "target_ttft_ms", number, TARGET_MS, rule, other_units(Fraction(TARGET_MS)), otherwise)


# --- max_concurrency and its throughput ---------------------------------------------------------------------------


def grade_answer(lab, scan, by_curve):
    """Notes what is wrong in tune.txt; gives the tunings that explain max_concurrency, the plainest first."""
    given, tps = lab.values["tune.txt"]["max_concurrency"], lab.values["tune.txt"]["throughput_at_target"]
    concurrency = int(min(given.value, 10**9))
    explaining = []
    for tuning in by_curve or scan.tunings:
        if scan.explains(concurrency, tuning):
            explaining.append(tuning)
            counted = scan.counted(concurrency, tuning, tps)
            if counted:
                lab.recognised.append(f"tune.txt{', tune.csv' if by_curve else ''}: {tuning}.")
                if concurrency:
                    lab.recognised.append(f"tune.txt, throughput_at_target: {counted[0]}.")
                return [tuning]
    shown = next((tuning for tuning in scan.tunings if scan.counted(concurrency, tuning, tps)), None)
    if shown or not explaining:
        wrong_answer(lab, scan, given, by_curve, shown, explaining)
    if not shown and (concurrency <= scan.up_to or explaining):
        wrong_throughput(lab, scan, concurrency, tps, explaining)
    return explaining


def wrong_answer(lab, scan, given, by_curve, shown, explaining):
    """shown: the tuning that the throughput beside it shows, or None."""
    judge = by_curve[0] if by_curve else shown or Tuning()
    concurrency = int(min(given.value, 10**9))
    got = given.text
    if 0 < concurrency <= scan.up_to:
        got += f" ({ttft_words(lab, concurrency, judge)})"
    expected = expected_answer(scan, concurrency, judge, by_curve, explaining)
    rule = f"the largest N up to {scan.up_to} such that it and every smaller N have a p99 TTFT <= {TARGET_MS} ms"
    likely = misjudged(scan, lab.replays, concurrency, judge)
    if explaining:
        likely += f"; or two readings are mixed, for it is right if: {explaining[0]}"
    lab.wrong("tune.txt", "max_concurrency", got, expected, rule, likely)


def expected_answer(scan, given, judge, by_curve, explaining):
    if not scan.short:
        meets = max((n for n in (given, given + 1) if 0 < n <= scan.up_to and scan.meets(n, judge)), default=0)
        return f"the last that meets; {meets} does ({judge})" if meets else f"a smaller one ({judge})"
    answers = {scan.answer(judge): judge}
    if not by_curve and not explaining:
        for tuning in scan.tunings:
            answers.setdefault(scan.answer(tuning), tuning)
        answers.pop(0, None)
    expected = "; or ".join(f"{answer} ({tuning})" for answer, tuning in answers.items())
    if by_curve:
        return f"{expected}, as tune.csv shows"
    return f"{expected}, as throughput_at_target is counted" if explaining else expected


def ttft_words(lab, concurrency, tuning):
    p99, mean = (float(of(lab.replays, concurrency, tuning)) for of in (p99_ms, mean_ms))
    return f"p99 TTFT {p99:.2f} ms, mean {mean:.2f} ms"


def misjudged(scan, replays, given, tuning):
    """The likely mistake behind a max_concurrency that is not the answer."""
    if given > scan.up_to:
        return f"the scan ends at {scan.up_to}, the number of requests or {UP_TO}, whichever is smaller"
    if given == 0:
        return (
            "TTFT was counted from time 0, not from the moment that the client issued the request; "
            "with all requests sent at once, no concurrency meets the target"
        )
    mean, above = (mean_ms(replays, min(n, scan.up_to), tuning) for n in (given, given + 1))
    meets = scan.meets(given, tuning)
    if not meets and mean <= TARGET_MS and (above > TARGET_MS or given == scan.up_to):
        return "the mean was used instead of the p99"
    if not scan.short:
        return f"not the largest: {given + 1} meets, too" if meets else f"at {given} the p99 misses the target"
    answer = scan.answer(tuning)
    if given > answer and meets:
        return f"{answer + 1}, a smaller concurrency, misses: bisection, or the last that meets, jumps over it"
    if given < answer < 2 * given and given & (given - 1) == 0:
        return f"only powers of two were tried; every concurrency up to {answer} meets the target"
    if given < answer:
        return f"not the largest: every concurrency up to {answer} meets the target"
    if given == answer + 1:
        return "this is the first concurrency that misses, not the last that meets"
    return "TTFT is the whole admitting iteration: the prefill of all admitted in it, the first burst too, and 8 ms"


def wrong_throughput(lab, scan, concurrency, tps, explaining):
    judge = explaining[0] if explaining else Tuning()
    where = f"throughput_at_target at max_concurrency={concurrency}"
    rule = "output tokens / the last finish, with the prefill that the TTFT counts or without any"
    otherwise = "the throughput of another concurrency, another cost of a step, or other requests than REQUESTS"
    if not concurrency:
        lab.wrong("tune.txt", where, tps.text, "0.00", "no concurrency, no throughput", otherwise)
        return
    at = min(concurrency, scan.up_to)
    found = throughputs(lab.replays, at, judge, lab.step_us)
    exact = next(iter(found.values()))
    mistakes = []
    for slots in (16, 32, at - 1, at + 1):
        if 0 < slots <= scan.up_to:
            others = throughputs(lab.replays, slots, judge, lab.step_us).values()
            mistakes += [(value, f"this is the throughput of {slots} slots") for value in others]
    for value in found.values():
        mistakes += [
            (value / 1000, "tokens per millisecond, not per second"),
            (value * 1000, "a time in milliseconds was taken for seconds"),
            (value * Fraction(lab.replays.n, lab.replays.tokens), "requests per second, not output tokens"),
        ]
    expected = ", or ".join(f"{float(value):.2f} ({how})" for how, value in list(found.items())[:4])
    likely = likely_mistake(tps, exact, 2, mistakes, otherwise)
    lab.wrong("tune.txt", where, tps.text, expected, rule, likely)


# --- tune.csv -----------------------------------------------------------------------------------------------------


def grade_concurrencies(lab, scan, rows):
    """The curve is whole: concurrency 1, 2, 3 ... to the end of the scan."""
    written = [row["concurrency"].value for row in rows]
    wanted = list(range(1, scan.up_to + 1))
    if written == wanted:
        return
    if sorted(written) == wanted:
        likely = "rows out of order"
    elif written == wanted[: len(written)]:
        likely = "the scan stopped early: the curve goes on past the first miss"
    elif written[: scan.up_to] == wanted:
        likely = f"the scan went past the number of requests, or {UP_TO}"
    else:
        likely = "steps other than 1, or a missing row"
    odd = next((i for i, (a, b) in enumerate(zip(written, wanted)) if a != b), None)
    where, got, expected = "rows", str(len(written)), str(scan.up_to)
    if odd is not None:
        where, got, expected = f"row {odd + 1}, concurrency", rows[odd]["concurrency"].text, str(wanted[odd])
    rule = f"concurrency 1, 2, 3 ... up to the number of requests or {UP_TO}, whichever is smaller"
    lab.wrong("tune.csv", where, got, expected, rule, likely)


def replayed_rows(lab, scan, rows):
    """The rows to replay: all of them; of a long list, whose replays take long, some of them."""
    rows = [row for row in rows if 1 <= row["concurrency"].value <= scan.up_to]
    if scan.short or len(rows) <= MOST_ROWS:
        return rows
    given = lab.numbers("tune.txt", "max_concurrency")
    around = {number.value + step for number in given for step in (0, 1)}
    told = {1, 2, scan.up_to - 1, scan.up_to} | around | set(range(1, scan.up_to, scan.up_to * 8 // MOST_ROWS))
    words = ", ".join(str(n) for n in sorted(told))
    lab.note("tune.csv", f"the list is long, so only the rows of concurrency {words} are replayed")
    return [row for row in rows if row["concurrency"].value in told]


def fits(scan, row, tuning):
    """How the throughput is counted (Counted), in each way by which the whole row is right."""
    n = int(row["concurrency"].value)
    right = row["p99_ttft_ms"].says(p99_ms(scan.replays, n, tuning), 2)
    right = right and row["mean_ttft_ms"].says(mean_ms(scan.replays, n, tuning), 2)
    return set(scan.counted(n, tuning, row["throughput_tps"])) if right else set()


def all_fit(scan, rows, tuning):
    """Is every row right, and its throughput counted in the same way?"""
    common = fits(scan, rows[0], tuning)
    for row in rows[1:]:
        if not common:
            return False
        common &= fits(scan, row, tuning)
    return bool(common)


def grade_rows(lab, scan, rows, right):
    """Some row is wrong: name the first by the tuning, and the way to count, that explain most."""
    judge, usual, most = Tuning(), None, 0
    for tuning in right or (scan.tunings if scan.short else [judge]):
        ways = [how for row in rows for how in fits(scan, row, tuning)]
        for how in dict.fromkeys(ways):
            if ways.count(how) > most:
                judge, usual, most = tuning, how, ways.count(how)
    for row in rows:
        if usual not in fits(scan, row, judge) or not usual:
            wrong_row(lab, scan, row, judge, usual)
            return


def wrong_row(lab, scan, row, judge, usual):
    n = int(row["concurrency"].value)
    exact = {"mean_ttft_ms": mean_ms(lab.replays, n, judge), "p99_ttft_ms": p99_ms(lab.replays, n, judge)}
    other = {"mean_ttft_ms": "p99_ttft_ms", "p99_ttft_ms": "mean_ttft_ms"}
    for key, value in exact.items():
        number = row[key]
        if not number.says(value, 2):
            mistakes = [(exact[other[key]], "the mean and the p99 are swapped"), *other_units(value)]
            mistakes.append((DECODE_MS, "prefill is left out, though the rest of the file counts it"))
            otherwise = "only its own prefill was counted, or requests were taken in another order"
            rule = f"TTFT: {judge}"
            likely = likely_mistake(number, value, 2, mistakes, otherwise)
            lab.wrong("tune.csv", f"{key} at concurrency={n}", number.text, f"{float(value):.2f}", rule, likely)
            return
    found = throughputs(lab.replays, n, judge, lab.step_us)
    expected = " or ".join(f"{float(found[how]):.2f} ({how})" for how in ([usual] if usual else list(found)[:2]))
    rule = "output tokens / the last finish, counted in the same way in every row"
    likely = "another cost of a step or of prefill than in the other rows, columns out of order, or another unit"
    lab.wrong("tune.csv", f"throughput_tps at concurrency={n}", row["throughput_tps"].text, expected, rule, likely)
