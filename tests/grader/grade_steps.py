"""Are steps 1 to 5 and 7 right? static.txt, continuous.txt, compare.txt, maxseqs.txt, cost.txt.

Steps 1 to 4 hang together: whatever a step costs, they count the same cost. So all their numbers
are taken together, and the reading of the exercise that explains most of them is the one that is
graded by. What it does not explain is wrong.
"""

from fractions import Fraction
from typing import NamedTuple

from grade_report import ARTIFACTS, MAX_NUM_SEQS, OTHER_REQUESTS, SLOTS, TOO_COARSE, likely_mistake, other_units
from readings import FREE, OWN_SLOT, PREFILL_US_PER_TOKEN, STEP_US, Reading, admitted, readings

MOST_STATIC_UTIL = Fraction(7, 10)
LEAST_SPEEDUP = Fraction(18, 10)
RULES = {
    True: f"static: a batch of {SLOTS} keeps its slots until its longest output has ended; the last batch counts too",
    False: f"continuous: before every iteration, the free ones of {SLOTS} slots are refilled in list order",
}
LAST_BATCH = "slot_util counts only as many slots for the last batch as it has requests"


class Fact(NamedTuple):
    """A number of steps 1 to 4."""

    file: str
    key: str
    quantity: str  # steps, tps or util
    static: bool
    number: object

    def values(self, replays, reading):
        """{note: what belongs here under this reading}; the note is empty for the plainest."""
        if self.quantity == "tps":
            return {"": replays.tps(self.static, SLOTS, reading)}
        decoding, own = replays.iterations(self.static, SLOTS, reading)
        return {"": decoding + own} if self.quantity == "steps" else utils(replays, self.static, reading)

    def fits(self, replays, reading):
        return self.note(replays, reading) is not None

    def note(self, replays, reading):
        """The note of the value that this number is; None if it is none of them."""
        decimals = ARTIFACTS[self.file].columns[self.key]
        found = (note for note, value in self.values(replays, reading).items() if self.number.says(value, decimals))
        return next(found, None)


def utils(replays, static, reading):
    """{note: slot_util}. What is counted is a choice, where a prefill gives a token or has an iteration of its own."""
    play, n = replays.play(static, SLOTS, reading.extra), replays.n
    decoding, own = replays.iterations(static, SLOTS, reading)
    held = SLOTS * (decoding + own)
    idle = (SLOTS * len(play.groups) - n) * last_batch(replays, reading) if static else 0
    found = {"": Fraction(replays.tokens, held) if held else Fraction(0)}
    if idle and held > idle:
        found[LAST_BATCH] = Fraction(replays.tokens, held - idle)
    if own and decoding:
        found["slot_util leaves out the iterations of prefill"] = Fraction(replays.tokens, SLOTS * decoding)
    if own or reading.extra:
        busy = replays.tokens + n * (reading.extra + bool(own))
        if held:
            found["slot_util counts what each iteration does, prefill or decode"] = Fraction(busy, held)
    return found


def last_batch(replays, reading):
    """Iterations of static batching's last batch."""
    last = replays.n - (replays.n - 1) % SLOTS - 1
    return max(replays.outputs[last:]) + reading.extra + reading.own


def facts(lab):
    found = []
    for file, static in (("static.txt", True), ("continuous.txt", False)):
        for key, quantity in (("total_steps", "steps"), ("throughput_tps", "tps"), ("slot_util", "util")):
            found += [Fact(file, key, quantity, static, number) for number in lab.numbers(file, key)]
    for key, static in (("static_tps", True), ("continuous_tps", False)):
        found += [Fact("compare.txt", key, "tps", static, number) for number in lab.numbers("compare.txt", key)]
    return found


# --- which reading ------------------------------------------------------------------------------------------------


def recognise(replays, found):
    """The plainest Reading of those that explain most of these facts."""
    best = most_explained(replays, found, readings())
    explained = [fact for fact in found if fact.fits(replays, best)]
    if len(explained) == len(found):
        return best
    other = most_explained(replays, found, other_steps(replays, found))
    if other and sum(fact.fits(replays, other) for fact in found) > len(explained):
        return other
    return best


def most_explained(replays, found, choice):
    return max(choice, key=lambda reading: sum(fact.fits(replays, reading) for fact in found), default=None)


def other_steps(replays, found):
    """Readings with another time per step, which one throughput gives and another confirms; round times first."""
    tps = [fact for fact in found if fact.quantity == "tps"]
    choice = {}
    for fact in tps:
        for reading in readings():
            if reading.prefill != OWN_SLOT:
                step_us = replays.step_us_behind(fact.number.value, fact.static, SLOTS, reading)
                if step_us and step_us != STEP_US:
                    choice[reading._replace(step_us=step_us)] = None
    confirmed = [reading for reading in choice if is_confirmed(replays, tps, reading)]
    return sorted(confirmed, key=lambda reading: (digits(reading.step_us), reading.prefill != FREE))


def is_confirmed(replays, tps, reading):
    """Do both schedulers' throughputs fit this time per step? Or is it round, and two of them fit?"""
    fitting = [fact for fact in tps if fact.fits(replays, reading)]
    if {fact.static for fact in fitting} == {True, False}:
        return True
    return digits(reading.step_us) < 3 and len(fitting) >= min(2, len(tps))


def digits(step_us):
    """How many digits has the time? 20 ms has one, 12.5 ms three."""
    return len(f"{float(step_us):.2e}".partition("e")[0].replace(".", "").rstrip("0"))


# --- what is wrong ------------------------------------------------------------------------------------------------


def grade_throughputs(lab):
    """static.txt, continuous.txt and compare.txt, but for the speedup."""
    found, replays = facts(lab), lab.replays
    lab.reading = best = recognise(replays, found)
    lab.step_us = best.step_us
    right = [fact for fact in found if fact.fits(replays, best)]
    for fact in found:
        if fact not in right:
            wrong_fact(lab, fact, best, found, right)
    if right:
        files = ", ".join(dict.fromkeys(fact.file for fact in right))
        lab.recognised.append(f"{files}: {best}.")
    for note in dict.fromkeys(fact.note(replays, best) for fact in right):
        if note:
            lab.recognised.append(f"{', '.join(f.file for f in right if f.note(replays, best) == note)}: {note}.")
    util = utils(replays, True, best)[""]
    if "static.txt" in lab.values and util >= MOST_STATIC_UTIL:
        lab.note("static.txt", f"slot_util < 0.7 cannot hold on these requests; right is {float(util):.4f}")


def wrong_fact(lab, fact, best, found, right):
    replays, decimals = lab.replays, ARTIFACTS[fact.file].columns[fact.key]
    exact = fact.values(replays, best)[""]
    like = {"tps": tps_mistakes, "steps": steps_mistakes, "util": util_mistakes}[fact.quantity]
    likely = likely_mistake(fact.number, exact, decimals, like(replays, fact, best), "")
    if swapped(replays, found, best) and other_way(fact).fits(replays, best):
        likely = "static and continuous are swapped"
    if not likely:
        likely = mixed(replays, fact, best, right) or OTHER_REQUESTS
    expected = f"{float(exact):.{decimals}f}"
    if fact.quantity != "steps":
        expected += f" ({best})"
        if fact.quantity == "tps" and not any(other.quantity == "tps" for other in right):
            free = replays.tps(fact.static, SLOTS, Reading(prefill=FREE))
            expected += f", or {float(free):.2f} (without prefill)"
    elif best != Reading():
        expected += f" ({best})"
    rule = RULES[fact.static]
    if fact.quantity == "tps":
        rule = "output tokens / the last finish; steps 1 to 4 all count the same cost of a step"
    if fact.quantity == "util":
        rule = f"output tokens / ({SLOTS} slots x total_steps)"
        if fact.static and exact < MOST_STATIC_UTIL:
            rule += "; static batching stays below 0.7"
    lab.wrong(fact.file, fact.key, fact.number.text, expected, rule, likely)


def swapped(replays, found, best):
    """Does each throughput hold what belongs to the other? (If one does, its scheduler is the other's.)"""
    wrong = [fact for fact in found if fact.quantity == "tps" and not fact.fits(replays, best)]
    crossed = [fact for fact in wrong if other_way(fact).fits(replays, best)]
    return len({fact.static for fact in crossed}) == 2 and len(crossed) == len(wrong)


def other_way(fact):
    return fact._replace(static=not fact.static)


def mixed(replays, fact, best, right):
    """Names the two readings, if this number is right under another one; else an empty text."""
    choice = readings() if best.step_us == STEP_US else [*readings(), *readings(best.step_us)]
    if fact.quantity == "tps":
        choice += [reading for reading in other_steps(replays, [fact]) if (reading.extra, reading.own) == (0, False)]
    other = next((reading for reading in choice if fact.fits(replays, reading)), None)
    if not other or not right:
        return ""
    files = ", ".join(dict.fromkeys(one.file for one in right))
    return f"two readings are mixed. Here: {other}. In {files}: {best}"


OTHER_SCHEDULER = {
    True: "slots are refilled while their batch still runs: that is continuous batching",
    False: "free slots are refilled only when the whole batch has ended: that is static batching",
}


def other_schedules(replays, fact):
    """[(iterations, mistake)]: what mistaken schedulers make of the requests."""
    outputs, static = replays.outputs, fact.static
    found = [(replays.play(not static, SLOTS).iterations, OTHER_SCHEDULER[static])]
    for slots in (8, 32, 64):
        found.append((replays.play(static, slots).iterations, f"{slots} slots instead of {SLOTS}"))
    found.append((replays.tokens, "one request was served at a time"))
    for ordered, words in ((sorted(outputs), "shortest"), (sorted(outputs, reverse=True), "longest")):
        iterations = admitted(ordered, SLOTS, static).iterations
        found.append((iterations, f"requests were sorted, the {words} output first; they are taken in list order"))
    if static:
        whole = replays.n // SLOTS * SLOTS
        if whole:
            found.append((admitted(outputs[:whole], SLOTS, True).iterations, "the last part-filled batch was left out"))
    else:
        ideal = -(-replays.tokens // SLOTS)
        found.append((ideal, "slots were taken as always full; at the end, fewer requests than slots are left"))
    both = [prompt + output for prompt, output in zip(replays.prompts, outputs)]
    iterations = admitted(both, SLOTS, static).iterations
    return [*found, (iterations, "a prompt token was given an iteration, as if it were output")]


def steps_mistakes(replays, fact, best):
    play = replays.play(fact.static, SLOTS)
    return [*other_schedules(replays, fact), (len(play.groups), "batches were counted, not iterations")]


def util_mistakes(replays, fact, best):
    util = fact.values(replays, best)[""]
    found = [
        (Fraction(replays.tokens, SLOTS * iterations), mistake)
        for iterations, mistake in other_schedules(replays, fact)
        if iterations
    ]
    if not fact.static:
        found.append((1, "slots that nobody used were left out: all 16 count"))
    return [*found, (100 * util, "a percentage; shares go from 0 to 1"), (1 - util, "this is the idle share")]


def tps_mistakes(replays, fact, best):
    exact = fact.values(replays, best)[""]
    prefill_us = 0 if best.prefill == FREE else PREFILL_US_PER_TOKEN * sum(replays.prompts)
    found = [(replays.tps(not fact.static, SLOTS, best), OTHER_SCHEDULER[fact.static])]
    for slots in (8, 32, 64):
        found.append((replays.tps(fact.static, slots, best), f"{slots} slots instead of {SLOTS}"))
    for iterations, mistake in other_schedules(replays, fact):
        for prefill in dict.fromkeys((prefill_us, 0)):
            found.append((replays.per_second(replays.tokens, iterations * best.step_us + prefill), mistake))
    prompts = Fraction(sum(replays.prompts), replays.tokens)
    for value in dict.fromkeys((exact, *(replays.tps(fact.static, SLOTS, reading) for reading in readings()))):
        found += [
            (value / 1000, "tokens per millisecond, not per second"),
            (value * 1000, "a time in milliseconds was taken for seconds"),
            (value * Fraction(replays.n, replays.tokens), "requests per second, not output tokens"),
            (value * (1 + prompts), "prompt tokens were counted as output"),
        ]
    return found


# --- compare.txt --------------------------------------------------------------------------------------------------


def grade_speedup(lab):
    """The speedup is the ratio of the two written beside it, or the exact one, where these are wrong."""
    name, replays = "compare.txt", lab.replays
    if name not in lab.values:
        return
    slow, fast, speedup = (lab.values[name][key] for key in ("static_tps", "continuous_tps", "speedup"))
    exact = replays.tps(False, SLOTS, lab.reading) / (replays.tps(True, SLOTS, lab.reading) or 1)
    if exact < LEAST_SPEEDUP:
        lab.note(name, f"speedup >= 1.8 cannot hold on these requests; right is {float(exact):.3f}")
    if speedup.says(exact, 3):
        return
    if slow.low <= 0 or fast.low <= 0:
        lab.note(name, "speedup cannot be checked: a throughput rounds to 0 on these requests")
        return
    ratio = fast.value / slow.value
    right = speedup.low <= fast.high / slow.low and speedup.high >= fast.low / slow.high
    if right and speedup.is_fine(ratio, 3):
        return
    mistakes = [
        (1 / ratio, "the ratio is upside down"),
        (100 * ratio, "a percentage, not a factor"),
        (100 * (ratio - 1), "a percentage, not a factor"),
        (ratio - 1, "the gain was written, not the factor"),
    ]
    otherwise = "it is from another run than they are"
    likely = TOO_COARSE if right else likely_mistake(speedup, ratio, 3, mistakes, otherwise)
    rule = "speedup = continuous_tps / static_tps, as they stand beside it"
    lab.wrong(name, "speedup", speedup.text, f"{float(ratio):.3f}", rule, likely)


# --- maxseqs.txt, cost.txt ----------------------------------------------------------------------------------------


def grade_maxseqs(lab):
    name = "maxseqs.txt"
    if name not in lab.values:
        return
    limit, peak = lab.values[name]["max_num_seqs"], lab.values[name]["peak_running"]
    if limit.value != MAX_NUM_SEQS:
        likely = "the batch size of steps 1 to 4" if limit.value == SLOTS else "another limit was given"
        rule = f"step 5 runs with a limit of {MAX_NUM_SEQS}"
        lab.wrong(name, "max_num_seqs", limit.text, str(MAX_NUM_SEQS), rule, likely)
    right = min(MAX_NUM_SEQS, lab.replays.n)
    if peak.value == right or (peak.value == SLOTS == limit.value):
        return
    if peak.value > MAX_NUM_SEQS:
        likely = "sequences are admitted beyond the free slots, or waiting ones were counted"
    elif peak.value in (0, right - 1):
        likely = "it was counted after the finished ones had left, or before the new ones had come"
    elif peak.value == SLOTS:
        likely = "the batch size of steps 1 to 4"
    else:
        likely = "not the largest number, but that of another moment; or the requests did not all wait at the start"
    rule = "peak_running is the largest number of sequences in one iteration, with all requests there at the start"
    expected = f"{right} (the smaller of {MAX_NUM_SEQS} slots and {lab.replays.n} requests)"
    lab.wrong(name, "peak_running", peak.text, expected, rule, likely)


def grade_costs(lab):
    name, replays = "cost.txt", lab.replays
    if name not in lab.values:
        return
    numbers = lab.values[name]
    prefill = Fraction(PREFILL_US_PER_TOKEN * sum(replays.prompts), 1000)
    decode = Fraction(STEP_US * replays.tokens, 1000)
    batched = Fraction(STEP_US * replays.play(False, SLOTS).iterations, 1000)
    shared = "batching shares the decode passes; step 7 asks for each request alone"
    swap = "prefill and decode are swapped"
    other = "other requests than REQUESTS, or other costs"
    rule = "each request served alone: prefill_ms = prompt_tokens * 0.05, decode_ms = output_tokens * 8.0"
    mistakes = [(decode, swap), *other_units(prefill)]
    lab.require(name, "total_prefill_ms", numbers["total_prefill_ms"], prefill, rule, mistakes, other)
    mistakes = [(prefill, swap), (batched, shared), *other_units(decode)]
    lab.require(name, "total_decode_ms", numbers["total_decode_ms"], decode, rule, mistakes, other)
    share = decode / (prefill + decode)
    mistakes = [
        (100 * share, "a percentage; shares go from 0 to 1"),
        (1 - share, "this is the share of prefill"),
        (decode / prefill, "decode / prefill, not decode / (prefill + decode)"),
        (batched / (prefill + batched), shared),
    ]
    rule = "decode_share = total_decode_ms / (total_prefill_ms + total_decode_ms)"
    lab.require(name, "decode_share", numbers["decode_share"], share, rule, mistakes, other)
