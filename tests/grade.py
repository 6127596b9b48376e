"""Are these result files right? Checks of the eight files alone, whoever's program wrote them.

    make grade                                     lb2/, on the shipped requests
    make grade OUT=my/results REQUESTS=my.json

What follows from the requests is replayed and compared exactly, at the decimals that the file gives. What hangs on a
choice that the exercise leaves open (random arrivals, a throughput with or without the cost of prefill) is checked by
its rule. A condition that cannot hold on this request file is skipped, with the reason. It reads no programs.

Every check takes (lab, name): what is graded, and the file that the check is about.
"""

import os
import shlex
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import pytest

import common
import continuous
import cost
import queueing
import static
from result_files import Defect, read

OUT = Path(common.__file__).resolve().parent  # where the steps write unless told otherwise
SLOTS = 16
MAX_NUM_SEQS = 32
RATES = [5, 10, 20, 40]
TARGET_MS = 200
MOST_STATIC_UTIL = Fraction(7, 10)
LEAST_SPEEDUP = Fraction(18, 10)
UP_TO = 256
ALL_ROWS = 1000  # requests up to which every row of tune.csv is replayed
DECODE_MS = Fraction(cost.DECODE_US, 1000)
TOO_COARSE = "too few digits to tell it from a wrong one"
PREFILL, NO_PREFILL = "with prefill cost", "without prefill cost"


class Artifact(NamedTuple):
    script: str
    columns: dict  # key -> decimals, 0 for a whole number


MEASURES = {"total_steps": 0, "throughput_tps": 2, "slot_util": 4}
ARTIFACTS = {
    "static.txt": Artifact("static.py", MEASURES),
    "continuous.txt": Artifact("continuous.py", MEASURES),
    "compare.txt": Artifact("compare.py", {"static_tps": 2, "continuous_tps": 2, "speedup": 3}),
    "maxseqs.txt": Artifact("maxseqs.py", {"max_num_seqs": 0, "peak_running": 0}),
    "queue.csv": Artifact("queueing.py", {"rps": 1, "avg_queue": 3, "p99_wait_ms": 3}),
    "cost.txt": Artifact("cost.py", {"total_prefill_ms": 2, "total_decode_ms": 2, "decode_share": 4}),
    "tune.txt": Artifact("tune.py", {"target_ttft_ms": 2, "max_concurrency": 0, "throughput_at_target": 2}),
    "tune.csv": Artifact("tune.py", {"concurrency": 0, "mean_ttft_ms": 2, "p99_ttft_ms": 2, "throughput_tps": 2}),
}
SCHEDULERS = {"static.txt": static.schedule, "continuous.txt": continuous.schedule}
OTHER = {"static.txt": "continuous.txt", "continuous.txt": "static.txt"}
TPS_KEYS = {"static.txt": "throughput_tps", "continuous.txt": "throughput_tps", "tune.txt": "throughput_at_target"}
RULES = {
    "static.txt": f"a batch of {SLOTS} keeps its slots until its longest output has ended; the last batch counts too",
    "continuous.txt": f"before every iteration, the free ones of {SLOTS} slots are refilled in list order",
}


class Replay(NamedTuple):
    """What the reference makes of the requests, exactly: Fractions or whole numbers."""

    iterations: int
    tps: dict  # by cost model
    mean_ms: Fraction  # TTFT counted from admission, prefill included
    p99_ms: Fraction


class Lab:
    """A folder of results, the requests they were made from, and the reference's replays of those."""

    def __init__(self, out=OUT, requests_file=common.REQUESTS_FILE):
        self.out, self.requests_file, defect = Path(out), Path(requests_file), None
        try:
            self.requests = common.load_requests(self.requests_file)
        except common.BadInput as error:
            defect = str(error)
        except OSError as error:
            defect = f"{requests_file}: {error.strerror}"
        if defect:
            rule = 'REQUESTS is a JSON list of {"prompt_tokens": int, "output_tokens": int}'
            self.report("REQUESTS", defect, "a list of requests", rule, "another file's name, or another folder's", "")
        if not self.out.is_dir():
            rule = "OUT is the folder that holds the eight result files"
            self.report("OUT", f"{out}: no such folder", "a folder", rule, "the steps were not run yet", "make all")
        self.tokens = sum(self.requests.output_tokens)
        self.n = len(self.requests.output_tokens)
        self.up_to = min(self.n, UP_TO)
        self.replays = {}

    def report(self, where, got, expected, rule, likely, command):
        folders = []
        if self.out.resolve() != OUT:
            folders.append(f"OUT={self.out}")
        if self.requests_file.resolve() != common.REQUESTS_FILE:
            folders.append(f"REQUESTS={self.requests_file}")
        if command == "make all":
            command = shlex.join(["make", "all", *folders])
        rerun = (f"{command}, then " if command else "") + shlex.join(["make", "grade", *folders])
        lines = {"file": where, "got": got, "expected": expected, "rule": rule, "likely": likely, "rerun": rerun}
        pytest.fail("\n".join(f"{label + ':':10} {line}" for label, line in lines.items()), pytrace=False)

    def wrong(self, name, where, got, expected, rule, likely):
        """Fail: `where` in the file, what is there, what belongs there, the rule, and the likely mistake."""
        words = ["python3", f"lb2/{ARTIFACTS[name].script}"]
        if self.requests_file.resolve() != common.REQUESTS_FILE:
            words += ["--requests", str(self.requests_file)]
        command = shlex.join(words)
        if self.out.resolve() != OUT:  # no --out: obeying it must not overwrite a student's file with ours
            command = f"the program that wrote it (here: {command})"
        self.report(f"{name}, {where}" if where else name, got, expected, rule, likely, command)

    def read(self, name):
        """(the file's numbers, None), or (None, the Defect that it has)."""
        try:
            return read(self.out / name, ARTIFACTS[name].columns), None
        except Defect as defect:
            return None, defect

    def need(self, name):
        """The file's numbers; skips if it cannot be read, which is reported once, by `form`."""
        numbers, defect = self.read(name)
        if defect:
            pytest.skip(f"{name} cannot be read: its own failure says why")
        return numbers

    def replay(self, name, slots):
        """The Replay of static.txt's or continuous.txt's scheduler, every request there from the start."""
        if (name, slots) not in self.replays:
            schedule = SCHEDULERS[name](self.requests, slots)
            ttfts_us = [first - issued for first, issued in zip(schedule.first_token_us, schedule.admitted_us)]
            span_us = {PREFILL: max(schedule.finished_us), NO_PREFILL: cost.DECODE_US * schedule.iterations}
            self.replays[name, slots] = Replay(
                schedule.iterations,
                {model: Fraction(self.tokens * 1_000_000, us) for model, us in span_us.items()},
                Fraction(sum(ttfts_us), 1000 * self.n),
                Fraction(common.percentile(ttfts_us, 99)) / 1000,
            )
        return self.replays[name, slots]

    def closed_loop(self, concurrency):
        return self.replay("continuous.txt", concurrency)

    def answer(self):
        """The largest concurrency such that it and every smaller one meet the target at p99."""
        missing = (n for n in range(1, self.up_to + 1) if self.closed_loop(n).p99_ms > TARGET_MS)
        return next(missing, self.up_to + 1) - 1

    def require(self, name, key, number, exact, rule, mistakes, otherwise, row=""):
        """Fail unless the number is the exact one; mistakes: (what a known one would give, its name)."""
        decimals = ARTIFACTS[name].columns[key]
        if number.says(exact, decimals) if decimals else number.value == exact:
            return
        like = number.resembles if decimals else number.value.__eq__
        named = (sentence for value, sentence in mistakes if value != exact and like(value))
        likely = TOO_COARSE if decimals and number.agrees(exact) else next(named, otherwise)
        self.wrong(name, key + row, number.text, f"{float(exact):.{decimals}f}", rule, likely)


# --- the files as such --------------------------------------------------------------------------------------------


def form(lab, name):
    columns, defect = ARTIFACTS[name].columns, lab.read(name)[1]
    if defect:
        kind = f"rows under {','.join(columns)}" if name.endswith(".csv") else f"key=value for {', '.join(columns)}"
        where, got, expected, likely = defect.args
        lab.wrong(name, where, got, expected, f"{kind}; finite numbers from 0 up", likely)


# --- static.txt, continuous.txt -----------------------------------------------------------------------------------


def total_steps(lab, name):
    number = lab.need(name)["total_steps"]
    steps, batches = lab.replay(name, SLOTS).iterations, -(-lab.n // SLOTS)
    mistakes = [(lab.replay(OTHER[name], SLOTS).iterations, swapped(name))]
    if name == "static.txt":
        mistakes += [
            (sum(top for size, top in batches_of(lab) if size == SLOTS), "the last part-filled batch was not counted"),
            (batches, "batches were counted, not iterations"),
            (steps - batches, "a request's first token comes from a decode iteration too, not from its prefill"),
            (steps + batches, "prefill is part of an iteration, not one of its own"),
        ]
    mistakes += [(lab.tokens, "one request was served at a time")]
    mistakes += [(lab.replay(name, n).iterations, f"{n} slots instead of {SLOTS}") for n in (8, 32, 64)]
    lab.require(name, "total_steps", number, steps, RULES[name], mistakes,
                "other requests than REQUESTS, another order, or tokens lost: each needs output_tokens iterations")


def batches_of(lab):
    """(requests, longest output) of each static batch."""
    outputs = lab.requests.output_tokens
    batches = [outputs[start : start + SLOTS] for start in range(0, lab.n, SLOTS)]
    return [(len(batch), max(batch)) for batch in batches]


def swapped(name):
    return f"static and continuous are swapped: this is what belongs into {OTHER[name]}"


def slot_util(lab, name):
    number = lab.need(name)["slot_util"]
    util = Fraction(lab.tokens, SLOTS * lab.replay(name, SLOTS).iterations)
    mistakes = [
        (Fraction(lab.tokens, SLOTS * lab.replay(OTHER[name], SLOTS).iterations), swapped(name)),
        (100 * util, "a percentage; shares go from 0 to 1"),
        (1 - util, "this is the idle share"),
    ]
    if name == "static.txt":
        held = sum(size * top for size, top in batches_of(lab))
        mistakes += [(Fraction(lab.tokens, held), "slots of the last part-filled batch were left out: all 16 count")]
    else:
        mistakes += [(1, "slots that nobody used were left out: all 16 count")]
    lab.require(name, "slot_util", number, util, f"output tokens / ({SLOTS} slots x total_steps)", mistakes,
                "other requests than REQUESTS, or a total_steps that is wrong itself")


def static_wastes_slots(lab, name):
    number = lab.need(name)["slot_util"]
    util = Fraction(lab.tokens, SLOTS * lab.replay(name, SLOTS).iterations)
    if util >= MOST_STATIC_UTIL:
        pytest.skip(f"slot_util < 0.7 cannot hold on these requests: static batching reaches {float(util):.4f}")
    if number.low >= MOST_STATIC_UTIL:
        lab.wrong(name, "slot_util", number.text, f"below 0.7 ({float(util):.4f})", "static batching wastes slots",
                  "a slot was freed, or not counted, before its whole batch had ended")


# --- throughput ---------------------------------------------------------------------------------------------------


def throughputs(lab):
    """(file, key, what is written, what belongs there by cost model) for each replayable throughput that is there."""
    for name, key in TPS_KEYS.items():
        numbers, defect = lab.read(name)
        if not defect:
            yield name, key, numbers[key], expected_tps(lab, name, numbers)


def expected_tps(lab, name, numbers):
    if name != "tune.txt":
        return lab.replay(name, SLOTS).tps
    concurrency = int(numbers["max_concurrency"].value)
    return lab.closed_loop(concurrency).tps if concurrency else {PREFILL: Fraction(0), NO_PREFILL: Fraction(0)}


def fitting(number, tps):
    return {model for model, exact in tps.items() if number.says(exact, 2)}


def recognised(lab):
    """The cost models that fit every throughput that fits one at all; none if nothing does, or if they are mixed."""
    fits = [fitting(number, tps) for _, _, number, tps in throughputs(lab)]
    fits = [models for models in fits if models]
    return set.intersection(*fits) if fits else set()


def throughput(lab, name):
    key, numbers = TPS_KEYS[name], lab.need(name)
    number, tps = numbers[key], expected_tps(lab, name, numbers)
    exact = tps[PREFILL]
    if fitting(number, tps):
        return
    if name == "tune.txt":
        where = f"{key} at max_concurrency={numbers['max_concurrency'].text}"
        other, sentence = "continuous.txt", f"the throughput of {SLOTS} slots, as in continuous.txt"
    else:
        where, other, sentence = key, OTHER[name], swapped(name)
    mistakes = [(value, sentence) for value in lab.replay(other, SLOTS).tps.values()] + [
        (exact / 1000, "tokens per millisecond, not per second"),
        (exact * 1000, "a time in milliseconds was taken for seconds"),
        (exact * Fraction(lab.n, lab.tokens), "requests per second, not output tokens"),
        (exact * (1 + Fraction(sum(lab.requests.prompt_tokens), lab.tokens)), "prompt tokens were counted as output"),
    ]
    named = (sentence for value, sentence in mistakes if value not in tps.values() and number.resembles(value))
    coarse = any(number.agrees(value) for value in tps.values())
    lab.wrong(name, where, number.text,
              f"{float(exact):.2f} {PREFILL}, or {float(tps[NO_PREFILL]):.2f} {NO_PREFILL}",
              "output tokens / the last finish; 8 ms an iteration, and 0.05 ms a prompt token or nothing for prefill",
              TOO_COARSE if coarse else next(named, "another cost model, or other requests than REQUESTS"))


def one_cost_model(lab, name):
    """The three throughputs count the same costs; whichever file strays is named, `name` or another."""
    found = [(file, key, number, fitting(number, tps)) for file, key, number, tps in throughputs(lab)]
    found = [row for row in found if row[3]]
    usual = max((PREFILL, NO_PREFILL), key=lambda model: sum(model in models for *_, models in found))
    for file, key, number, models in found:
        if usual not in models:
            lab.wrong(file, key, f"{number.text}, right {models.pop()}", f"a throughput {usual}, as in the other files",
                      "static.txt, continuous.txt and tune.txt count the same costs",
                      "two cost models are mixed: prefill costs time in one of the programs only")


# --- compare.txt --------------------------------------------------------------------------------------------------


def compare_repeats(lab, name):
    numbers = lab.need(name)
    singles = {key: lab.need(f"{key}.txt")["throughput_tps"] for key in ("static", "continuous")}
    pair = {key: numbers[f"{key}_tps"] for key in singles}
    for key, single in singles.items():
        if pair[key].meets(single) and pair[key].is_fine(single.value, 2):
            continue
        tps = lab.replay(f"{key}.txt", SLOTS).tps
        if pair[key].meets(single):
            likely = TOO_COARSE
        elif pair["static"].meets(singles["continuous"]) and pair["continuous"].meets(singles["static"]):
            likely = "static and continuous are swapped"
        elif fitting(pair[key], tps) and fitting(single, tps):
            likely = "prefill costs time in one of the two files only"
        elif fitting(pair[key], tps):
            likely = f"{key}.txt is the wrong one, see its own failures"
        else:
            likely = f"{name} was made from other requests, or with another batch size, than {key}.txt"
        lab.wrong(name, f"{key}_tps", pair[key].text, f"{single.text}, as in {key}.txt",
                  "both files are about the same requests, slots and costs", likely)


def speedup_is_ratio(lab, name):
    numbers = lab.need(name)
    slow, fast, speedup = numbers["static_tps"], numbers["continuous_tps"], numbers["speedup"]
    if slow.low <= 0 or fast.low <= 0:
        pytest.skip("speedup cannot be checked: a throughput rounds to 0 on these requests")
    least, most, ratio = fast.low / slow.high, fast.high / slow.low, fast.value / slow.value
    right = speedup.low <= most and speedup.high >= least
    if right and speedup.is_fine(ratio, 3):
        return
    mistakes = [
        (1 / ratio, "the ratio is upside down"),
        (100 * ratio, "a percentage, not a factor"),
        (100 * (ratio - 1), "a percentage, not a factor"),
        (ratio - 1, "the gain was written, not the factor"),
    ]
    named = (sentence for value, sentence in mistakes if speedup.resembles(value))
    lab.wrong(name, "speedup", speedup.text, f"{float(ratio):.3f}", "speedup = continuous_tps / static_tps",
              TOO_COARSE if right else next(named, "it comes from another run than its neighbours"))


def speedup_is_large(lab, name):
    number = lab.need(name)["speedup"]
    models = recognised(lab) or {PREFILL}
    slow, fast = (lab.replay(file, SLOTS).tps for file in ("static.txt", "continuous.txt"))
    ratio = min(fast[model] / slow[model] for model in models)
    if ratio < LEAST_SPEEDUP:
        pytest.skip(f"speedup >= 1.8 cannot hold on these requests: the reference reaches {float(ratio):.3f}")
    if number.high < LEAST_SPEEDUP:
        lab.wrong(name, "speedup", number.text, f"at least 1.8 ({float(ratio):.3f})",
                  "refilling freed slots pays where output lengths differ",
                  "freed slots are not refilled before the next iteration, or static batching frees slots early")


def other_units(exact_ms):
    return [(exact_ms / 1000, "in seconds, not milliseconds"), (exact_ms * 1000, "in microseconds, not milliseconds")]


# --- maxseqs.txt, queue.csv, cost.txt -----------------------------------------------------------------------------


def limit_holds(lab, name):
    numbers = lab.need(name)
    limit, peak = numbers["max_num_seqs"], numbers["peak_running"]
    if limit.value != MAX_NUM_SEQS:
        lab.wrong(name, "max_num_seqs", limit.text, str(MAX_NUM_SEQS), f"step 5 runs with a limit of {MAX_NUM_SEQS}",
                  "the batch size of steps 1 to 4" if limit.value == SLOTS else "another limit was given")
    most = min(MAX_NUM_SEQS, lab.n)
    if not 1 <= peak.value <= most:
        likely = "sequences are admitted beyond the free slots, or waiting ones were counted"
        lab.wrong(name, "peak_running", peak.text, f"1 to {most}", "1 <= peak_running <= max_num_seqs",
                  likely if peak.value else "counted after the finished ones had left, or never")


def rates(lab, name):
    written = [row["rps"].value for row in lab.need(name)]
    if written == RATES:
        return
    if sorted(written) == RATES:
        likely = "rows out of order: rates rise from row to row"
    elif len(set(written)) < len(written):
        likely = "a rate is there twice: the file was appended to"
    elif set(written) < set(RATES):
        likely = "a row is missing: a run at that rate failed, or was never started"
    else:
        likely = "other rates were run"
    got = " ".join(f"{float(rate):g}" for rate in written[:9]) or "no rows"
    lab.wrong(name, "column rps", got, "5 10 20 40", "one row for each rate, in this order", likely)


def p99_wait_grows(lab, name):
    rows = lab.need(name)
    waits = [row["p99_wait_ms"] for row in rows]
    for row, wait, above in zip(rows, waits, waits[1:]):
        if wait.value < above.value:
            continue
        if not reference_wait_grows(lab, max(wait.unit, above.unit)):
            pytest.skip("p99_wait_ms cannot rise with every rate on these requests: the reference's does not")
        lab.wrong(name, f"p99_wait_ms after rps={row['rps'].text}", f"{wait.text}, then {above.text}", "a larger one",
                  "p99_wait_ms rises strictly with rps", "rows out of order, or another arrival draw for each rate")


def reference_wait_grows(lab, unit):
    """Does p99_wait_ms rise from rate to rate in the reference, written to this unit?"""
    draws = [queueing.unit_arrivals(seed, lab.n) for seed in range(queueing.DRAWS)]
    last = -1
    for rps in RATES:
        wait_ms = queueing.queue_at(lab.requests, draws, rps, MAX_NUM_SEQS)[1]
        units = round(Fraction(wait_ms) / unit)
        if units <= last:
            return False
        last = units
    return True


def p99_wait_unit(lab, name):
    """Draws differ, so only a factor of about 1000 at the highest rate, where the queue is long, proves a mistake."""
    rows = lab.need(name)
    draws = [queueing.unit_arrivals(0, lab.n)]
    usual_ms = queueing.queue_at(lab.requests, draws, RATES[-1], MAX_NUM_SEQS)[1]
    if usual_ms < 1000:
        pytest.skip(f"the unit of p99_wait_ms cannot be told: {usual_ms:.3f} ms is no long wait")
    for wait in (row["p99_wait_ms"] for row in rows if row["rps"].value == RATES[-1]):
        for factor, unit in (1000, "seconds"), (Fraction(1, 1000), "microseconds"):
            if Fraction(1, 3) < wait.value * factor / Fraction(usual_ms) < 3:
                lab.wrong(name, f"p99_wait_ms at rps={RATES[-1]}", wait.text, f"about {usual_ms:.0f}",
                          "waits are in milliseconds", f"the waits are in {unit}")


def littles_law(lab, name):
    """The mean queue is the rate times the mean wait, and a p99 of many waits is no small part of their mean."""
    for row in lab.need(name):
        queue, wait, rps = row["avg_queue"], row["p99_wait_ms"], row["rps"].value
        mean_ms = 1000 * queue.value / rps if rps else 0
        if queue.value > Fraction(1, 10) and wait.high < mean_ms / 4:
            lab.wrong(name, f"rps={row['rps'].text}", f"avg_queue {queue.text} with p99_wait_ms {wait.text}",
                      f"a p99 above {float(mean_ms):.0f} ms or so", "Little's law: mean queue = rate x mean wait",
                      "avg_queue and p99_wait_ms are swapped, or the queue counts those that run too")


def costs(lab, name):
    numbers = lab.need(name)
    prefill = Fraction(cost.prefill_us(sum(lab.requests.prompt_tokens)), 1000)
    decode = DECODE_MS * lab.tokens
    batched = DECODE_MS * lab.replay("continuous.txt", SLOTS).iterations
    shared = "batching shares the decode passes; step 7 asks for each request alone"
    swap = "prefill and decode are swapped"
    other = "other requests than REQUESTS, or other costs"
    for key, exact, mistakes in (
        ("total_prefill_ms", prefill, [(decode, swap)]),
        ("total_decode_ms", decode, [(prefill, swap), (batched, shared)]),
    ):
        lab.require(name, key, numbers[key], exact,
                    "each request served alone: 0.05 ms a prompt token, 8 ms an output token",
                    mistakes + other_units(exact), other)
    share = decode / (prefill + decode)
    mistakes = [
        (100 * share, "a percentage; shares go from 0 to 1"),
        (1 - share, "this is the share of prefill"),
        (decode / prefill, "decode / prefill, not decode / (prefill + decode)"),
        (batched / (prefill + batched), shared),
    ]
    lab.require(name, "decode_share", numbers["decode_share"], share, "decode / (prefill + decode)", mistakes, other)


# --- tune.txt, tune.csv -------------------------------------------------------------------------------------------


def target(lab, name):
    number = lab.need(name)["target_ttft_ms"]
    lab.require(name, "target_ttft_ms", number, TARGET_MS, f"step 8 runs with a target of {TARGET_MS} ms",
                other_units(Fraction(TARGET_MS)), "another target was given, or the TTFT reached was written")


def max_concurrency(lab, name):
    given = int(lab.need(name)["max_concurrency"].value)
    answer = lab.answer()
    if given == answer or (given == lab.up_to and NO_PREFILL in recognised(lab)):
        return
    got = str(given) if not given else f"{given} ({ttft_of(lab, given)})"
    edge = "meets" if answer == lab.up_to else f"misses: {ttft_of(lab, answer + 1)}"
    expected = f"{answer} ({answer if answer == lab.up_to else answer + 1} {edge})"
    rule = f"the largest N up to {lab.up_to} such that it and every smaller N have a p99 TTFT <= {TARGET_MS} ms"
    lab.wrong(name, "max_concurrency", got, expected, rule, misjudged(lab, given, answer))


def ttft_of(lab, concurrency):
    replay = lab.closed_loop(concurrency)
    return f"p99 TTFT {float(replay.p99_ms):.2f} ms, mean {float(replay.mean_ms):.2f} ms"


def misjudged(lab, given, answer):
    """The likely mistake behind a max_concurrency that is not the answer."""
    if given > lab.up_to:
        return f"the scan ends at {lab.up_to}, the number of requests or {UP_TO}, whichever is smaller"
    if given == 0:
        return "TTFT was counted from time 0, not from the moment that the client issued the request"
    at, above = lab.closed_loop(given), lab.closed_loop(given + 1)
    if given > answer and at.p99_ms <= TARGET_MS:
        return f"{answer + 1}, a smaller concurrency, misses: bisection, or the last that meets, jumps over it"
    if at.mean_ms <= TARGET_MS < above.mean_ms or (given == lab.up_to and at.mean_ms <= TARGET_MS < at.p99_ms):
        return "the mean was used instead of the p99"
    if given < answer:
        return f"not the largest: every concurrency up to {answer} meets the target"
    if given == answer + 1:
        return "this is the first concurrency that misses, not the last that meets"
    return "TTFT is the whole admitting iteration: the prefill of all admitted in it, the first burst too, and 8 ms"


def curve_is_whole(lab, name):
    written = [row["concurrency"].value for row in lab.need(name)]
    wanted = list(range(1, lab.up_to + 1))
    if written == wanted:
        return
    if sorted(written) == wanted:
        likely = "rows out of order"
    elif written == wanted[: len(written)]:
        likely = "the scan stopped early: the curve goes on past the first miss"
    elif written[: lab.up_to] == wanted:
        likely = f"the scan went past the number of requests, or {UP_TO}"
    else:
        likely = "steps other than 1, or a missing row"
    odd = next((i for i, (a, b) in enumerate(zip(written, wanted), start=1) if a != b), None)
    where, got = (f"row {odd}, concurrency", f"{float(written[odd - 1]):g}") if odd else ("rows", str(len(written)))
    lab.wrong(name, where, got, str(wanted[odd - 1] if odd else lab.up_to),
              f"concurrency 1, 2, 3 ... up to the number of requests or {UP_TO}, whichever is smaller", likely)


def curve_values(lab, name):
    """Every row; of a long list, whose replays take long, the first, the last, that of max_concurrency and the next."""
    rows = {row["concurrency"].value: row for row in lab.need(name)}
    given = lab.need("tune.txt")["max_concurrency"].value
    models = recognised(lab) or {PREFILL, NO_PREFILL}
    told = set(range(1, lab.up_to + 1)) if lab.n <= ALL_ROWS else {1, given, given + 1, lab.up_to}
    for n in sorted(told & set(rows) & set(range(1, lab.up_to + 1))):
        row, replay = rows[n], lab.closed_loop(int(n))
        mean, p99, tps = row["mean_ttft_ms"], row["p99_ttft_ms"], row["throughput_tps"]
        swap = "the mean and the p99 are swapped"
        if NO_PREFILL not in models or not (mean.says(DECODE_MS, 2) and p99.says(DECODE_MS, 2)):
            ttft(lab, name, n, mean, "mean_ttft_ms", replay.mean_ms, [(replay.p99_ms, swap)])
            ttft(lab, name, n, p99, "p99_ttft_ms", replay.p99_ms, [(replay.mean_ms, swap)])
        if not fitting(tps, replay.tps) & models:
            lab.wrong(name, f"throughput_tps at concurrency={n}", tps.text,
                      " or ".join(f"{float(replay.tps[model]):.2f} {model}" for model in sorted(models)),
                      "output tokens / the last finish, at the costs of the other files",
                      "another cost model than in the other files, columns out of order, or another unit")


def ttft(lab, name, concurrency, number, key, exact, mistakes):
    mistakes = [*mistakes, *other_units(exact), (DECODE_MS, "prefill is left out, though the throughputs count it")]
    lab.require(name, key, number, exact,
                "TTFT is the iteration that admits the request; its p99 interpolates, as numpy.percentile does",
                mistakes, "only its own prefill was counted, or requests were taken in another order",
                f" at concurrency={concurrency}")


def curve_agrees(lab, name):
    """The written curve, by itself, leads to tune.txt's answer."""
    given = lab.need("tune.txt")["max_concurrency"].value
    for row in lab.need(name):
        n, p99 = row["concurrency"].value, row["p99_ttft_ms"]
        if (n <= given and p99.low > TARGET_MS) or (n == given + 1 and p99.high <= TARGET_MS):
            lab.wrong(name, f"p99_ttft_ms at concurrency={n}", p99.text,
                      f"{'at most' if n <= given else 'more than'} {TARGET_MS}, since tune.txt says {given}",
                      "max_concurrency is the last row before the first whose p99 misses the target",
                      "tune.txt was read off another column or another run than this curve")


# --- pytest -------------------------------------------------------------------------------------------------------


CHECKS = [(name, form) for name in ARTIFACTS] + [
    ("static.txt", total_steps),
    ("static.txt", slot_util),
    ("static.txt", static_wastes_slots),
    ("static.txt", throughput),
    ("continuous.txt", total_steps),
    ("continuous.txt", slot_util),
    ("continuous.txt", throughput),
    ("compare.txt", compare_repeats),
    ("compare.txt", speedup_is_ratio),
    ("compare.txt", speedup_is_large),
    ("maxseqs.txt", limit_holds),
    ("queue.csv", rates),
    ("queue.csv", p99_wait_grows),
    ("queue.csv", p99_wait_unit),
    ("queue.csv", littles_law),
    ("cost.txt", costs),
    ("tune.txt", target),
    ("tune.txt", max_concurrency),
    ("tune.txt", throughput),
    ("tune.txt", one_cost_model),
    ("tune.csv", curve_is_whole),
    ("tune.csv", curve_values),
    ("tune.csv", curve_agrees),
]


def open_lab():
    return Lab(os.environ.get("OUT") or OUT, os.environ.get("REQUESTS") or common.REQUESTS_FILE)


@pytest.fixture(scope="module")
def lab():
    try:
        return open_lab()
    except pytest.fail.Exception:
        pytest.skip("nothing to grade: the first failure says why")


def test_there_is_something_to_grade():
    open_lab()


@pytest.mark.parametrize("name, check", CHECKS, ids=[f"{name} {check.__name__}" for name, check in CHECKS])
def test_results(lab, name, check):
    check(lab, name)


def test_say_which_cost_model(lab, capsys):
    models = recognised(lab)
    if not models:
        pytest.skip("no cost model recognised: the throughputs' own failures say why")
    with capsys.disabled():
        print(f"\nCost model recognised in the throughputs: {' or '.join(sorted(models))}.")
