"""Are tasks 1 to 5 and 7 right? static.txt, continuous.txt, compare.txt, maxseqs.txt, cost.txt.

Tasks 1 to 4 hang together: whatever a step costs, they count the same cost. So all their numbers
are taken together, and the reading of the exercise that explains most of them is the one that is
graded by. What it does not explain is wrong. A mistake is named by replaying it.
"""

from fractions import Fraction
from typing import NamedTuple

from grade_report import ARTIFACTS, MAX_NUM_SEQS, SLOTS, TOO_COARSE, UNKNOWN, likely_mistake, other_units
from readings import FIRST, FREE, INSIDE, KINDS, OWN_SLOT, PREFILL_US_PER_TOKEN, READINGS, STEP_US, Reading
from readings import per_second, readings, replay

MOST_STATIC_UTIL = Fraction(7, 10)
LEAST_SPEEDUP = Fraction(18, 10)
RULES = {
    True: f"static: a batch of {SLOTS} keeps its slots until its longest output has ended; the last batch counts too",
    False: f"continuous: before every iteration, the free ones of {SLOTS} slots are refilled in list order",
}
LAST_BATCH = "slot_util counts only as many slots for the last batch as it has requests"
SCHEDULER = {True: "static", False: "continuous"}


class Fact(NamedTuple):
    """A number of tasks 1 to 4."""

    file: str
    key: str
    quantity: str  # steps, tps or util
    static: bool
    number: object

    def values(self, replays, reading):
        """{note: what belongs here under this reading}; the note is empty for the plainest."""
        if self.quantity == "tps":
            return {"": replays.tps(self.static, SLOTS, reading)}
        run = replays.run(self.static, SLOTS, reading)
        if self.quantity == "steps":
            return {"": run.passes + run.groups}
        return replays.remember(("utils", self.static, reading), utils, replays, self.static, reading)

    def note(self, replays, reading):
        """The note of the value that this number is; None if it is none of them."""
        decimals = ARTIFACTS[self.file].columns[self.key]
        found = (note for note, value in self.values(replays, reading).items() if self.number.says(value, decimals))
        return next(found, None)

    def fits(self, replays, reading):
        return self.note(replays, reading) is not None


def utils(replays, static, reading):
    """{note: slot_util}. What is counted is a choice, where a prefill gives a token or has an iteration of its own."""
    (extra, own, _), n, tokens = KINDS[reading.kind], replays.n, replays.tokens
    run = replays.run(static, SLOTS, reading)
    held = SLOTS * (run.passes + run.groups)
    found = {"": Fraction(tokens, held or 1)}
    last = (n - 1) % SLOTS + 1
    idle = (SLOTS - last) * (max(replays.outputs[-last:]) + extra + own) if static else 0
    if idle and held > idle:
        found[LAST_BATCH] = Fraction(tokens, held - idle)
    if own and run.passes:
        found["slot_util leaves out the iterations of prefill"] = Fraction(tokens, SLOTS * run.passes)
    if held and (own or extra):
        busy = tokens + n * (extra + own)
        found["slot_util counts what each iteration does, prefill or decode"] = Fraction(busy, held)
    return found


def facts(lab):
    quantities = {"total_steps": "steps", "throughput_tps": "tps", "slot_util": "util"}
    found = [
        Fact(file, key, quantity, file == "static.txt", lab.values[file][key])
        for file in ("static.txt", "continuous.txt") if file in lab.values
        for key, quantity in quantities.items()
    ]
    tps = lab.values.get("compare.txt", {})
    return found + [Fact("compare.txt", key, "tps", key == "static_tps", tps[key]) for key in list(tps)[:2]]


# --- which reading ------------------------------------------------------------------------------------------------


class Mistake(NamedTuple):
    """A schedule that the exercise does not ask for."""

    words: str
    requests: object = None  # (prompt tokens, output tokens) instead of the list's
    slots: int = SLOTS
    other: bool = False  # static for continuous, or the other way round
    tokens: int = 0  # counted, if not those of the requests

    def value(self, replays, fact, reading):
        run = replays.run(fact.static != self.other, self.slots, reading, self.requests)
        tokens = self.tokens or sum(self.requests[1] if self.requests else replays.outputs)
        if fact.quantity == "tps":
            return per_second(tokens, run.span)
        steps = run.passes + run.groups
        slots = self.slots if self.slots > 1 else SLOTS  # of one slot every iteration is full, which tells nothing
        return steps if fact.quantity == "steps" else Fraction(tokens, slots * steps or 1)

    def explains(self, replays, fact, reading):
        like = fact.number.value.__eq__ if fact.quantity == "steps" else fact.number.resembles
        return like(self.value(replays, fact, reading))


def mistakes(replays):
    """Every Mistake of a schedule, the plainest first."""
    n, columns = replays.n, replays.requests
    found = [Mistake("", other=True), Mistake("one request was served at a time", slots=1)]
    found += [Mistake(f"{slots} slots instead of {SLOTS}", slots=slots) for slots in (4, 8, 10, 12, 20, 24, 32, 64)]
    parts = [(slice(n // SLOTS * SLOTS), "the last part-filled batch was left out: it ran on the first {n} requests")]
    parts += [(slice(0, first), "it ran on the first {n} requests") for first in (n // 2, 10, 20, 32, 50, 64, 80, 90)]
    parts.append((slice(n // 2, n), "it ran on the last {n} requests"))
    for part, words in parts:
        requests = [column[part] for column in columns]
        if 0 < len(requests[0]) < n:
            total = f", {sum(requests[1]):,} output tokens, and not on all {n}, {replays.tokens:,} output tokens"
            found.append(Mistake(words.format(n=len(requests[0])) + total, requests))
    found.append(Mistake("it ran on the list backwards, not in list order", [column[::-1] for column in columns]))
    for key, tokens in ((1, "output"), (0, "prompt")):
        for reverse, end in ((False, "shortest"), (True, "longest")):
            rows = sorted(zip(*columns), key=lambda row: row[key], reverse=reverse)
            words = f"requests were sorted, the {end} {tokens} first; they are taken in list order"
            found.append(Mistake(words, [list(column) for column in zip(*rows)]))
    both = [replays.prompts, [prompt + output for prompt, output in zip(*columns)]]
    return [*found, Mistake("a prompt token was given an iteration, as if it were output", both, tokens=replays.tokens)]


def words_of(mistake, static):
    if mistake.other and static:
        return "slots are refilled while their batch still runs: that is continuous batching"
    if mistake.other:
        return "free slots are refilled only when the whole batch has ended: that is static batching"
    return f"{SCHEDULER[static]}: {mistake.words}"


def recognise(replays, found):
    """(the plainest Reading of those that explain most of these facts, the Mistake of one schedule or None, static?)"""
    best = most_explained(replays, found, READINGS)
    explained = count(replays, found, best)
    if explained == len(found):
        return best, None, None
    steps = other_steps(replays, found)
    other = most_explained(replays, found, steps)
    if other and count(replays, found, other) > explained:
        best, explained = other, count(replays, found, other)
    found_mistake = None, None
    if explained < len(found) - 1:  # one schedule may be wrong throughout
        for reading in (*READINGS, *steps):
            for static in (True, False):
                right = [fact.fits(replays, reading) for fact in found if fact.static != static]
                wrong = [fact for fact in found if fact.static == static]
                if not all(right) or not right:
                    continue
                for mistake in replays.remember("mistakes", mistakes, replays):
                    if not mistake.explains(replays, wrong[0], reading):
                        continue
                    score = len(right) + sum(mistake.explains(replays, fact, reading) for fact in wrong)
                    if score > explained:
                        best, explained, found_mistake = reading, score, (mistake, static)
    return best, *found_mistake


def count(replays, found, reading):
    return sum(fact.fits(replays, reading) for fact in found)


def most_explained(replays, found, choice):
    return max(choice, key=lambda reading: count(replays, found, reading), default=None)


def other_steps(replays, found):
    """Readings with another time per step, which one throughput gives and another confirms; round times first."""
    tps, choice = [fact for fact in found if fact.quantity == "tps"], {}
    for fact in tps:
        for reading in READINGS:
            step_us = step_us_behind(replays, fact, reading)
            if step_us and step_us != STEP_US:
                choice[reading._replace(step_us=step_us)] = None
    confirmed = [reading for reading in choice if is_confirmed(replays, tps, reading)]
    return sorted(confirmed, key=lambda reading: (digits(reading.step_us), reading.prefill != FREE))


def step_us_behind(replays, fact, reading):
    """The round time per step that would make this throughput right; None if there is none."""
    step_us, wanted = reading.step_us, replays.tokens * 1_000_000 / (fact.number.value or 1)
    for _ in range(4 if reading.prefill == OWN_SLOT else 1):  # with clocks of their own, the longest path may change
        run = replays.run(fact.static, SLOTS, reading._replace(step_us=round(step_us)))
        timed = run.passes + run.groups * reading.costs_step
        step_us = max(1, round(step_us) + (wanted - run.span) / (timed or 1))
    step_us = Fraction(f"{float(step_us):.2e}")
    return int(step_us) if 100 <= step_us <= 1_000_000 else None  # beyond, a wrong unit explains it better


def is_confirmed(replays, tps, reading):
    """Do both schedulers' throughputs fit this time per step? Or is it round, and one of them fits?"""
    fitting = {fact.static for fact in tps if fact.fits(replays, reading)}
    is_round = digits(reading.step_us) < 3 or reading.step_us % 500 == 0
    return len(fitting) == 2 or is_round and len(fitting) == 1


def digits(step_us):
    """How many digits has the time? 20 ms has one, 12.5 ms three."""
    return len(str(step_us).rstrip("0"))


# --- what is wrong ------------------------------------------------------------------------------------------------


def grade_throughputs(lab):
    """static.txt, continuous.txt and compare.txt, but for the speedup."""
    found, replays = facts(lab), lab.replays
    best, mistake, static = recognise(replays, found)
    lab.reading, lab.step_us = best, best.step_us
    right = [fact for fact in found if fact.fits(replays, best)]
    for fact in found:
        if fact not in right:
            said = mistake and fact.static == static and mistake.explains(replays, fact, best)
            wrong_fact(lab, fact, right, words_of(mistake, static) if said else "")
    for file in dict.fromkeys(fact.file for fact in right):
        lab.say(file, best)
        for note in {fact.note(replays, best): None for fact in right if fact.file == file}:
            if note:
                lab.say(file, note)
    util = utils(replays, True, best)[""]
    if "static.txt" in lab.values and util >= MOST_STATIC_UTIL:
        lab.note("static.txt", f"slot_util < 0.7 cannot hold on these requests; right is {float(util):.4f}")


def wrong_fact(lab, fact, right, likely):
    replays, best, decimals = lab.replays, lab.reading, ARTIFACTS[fact.file].columns[fact.key]
    exact = fact.values(replays, best)[""]
    if decimals and fact.number.agrees(exact):
        likely = TOO_COARSE
    likely = likely or single(lab, fact, best) or other_total(lab, fact, right)
    likely = likely or mixed(replays, fact, best, right) or UNKNOWN
    expected = f"{float(exact):.{decimals}f}"
    if fact.quantity != "steps" or best != Reading():
        expected += f" ({best})"
    if fact.quantity == "tps" and not any(other.quantity == "tps" for other in right):
        expected += f", or {float(replays.tps(fact.static, SLOTS, Reading(prefill=FREE))):.2f} (without prefill)"
    rule = RULES[fact.static]
    if fact.quantity == "tps":
        rule = "output tokens / the last finish; tasks 1 to 4 all count the same cost of a step"
    if fact.quantity == "util":
        rule = f"output tokens / ({SLOTS} slots x total_steps)"
        rule += "; static batching stays below 0.7" * (fact.static and exact < MOST_STATIC_UTIL)
    lab.wrong(fact.file, fact.key, fact.number.text, expected, rule, likely)


def single(lab, fact, best):
    """The name of the known mistake that gives this number alone; "" if there is none."""
    replays, exact = lab.replays, fact.values(lab.replays, best)[""]
    found = units(replays, fact, best)
    for reading in dict.fromkeys((best, best._replace(prefill=FREE))):
        for mistake in replays.remember("mistakes", mistakes, replays):
            found.append((mistake.value(replays, fact, reading), words_of(mistake, fact.static)))
    return likely_mistake(fact.number, exact, ARTIFACTS[fact.file].columns[fact.key], found, "")


def units(replays, fact, best):
    """[(value, mistake)]"""
    exact, found = fact.values(replays, best)[""], []
    if not fact.static:
        ideal = -(-replays.tokens // SLOTS)
        prefill_us = 0 if best.prefill == FREE else PREFILL_US_PER_TOKEN * sum(replays.prompts)
        full = {"steps": ideal, "tps": per_second(replays.tokens, ideal * best.step_us + prefill_us), "util": 1}
        words = "slots were taken as always full; at the end, fewer requests than slots are left"
        found.append((full[fact.quantity], words))
    if fact.quantity == "steps":
        batches = len(set(replays.run(fact.static, SLOTS, best).starts))
        return [*found, (batches, "batches were counted, not iterations")]
    if fact.quantity == "util":
        return [*found, (100 * exact, "a percentage; shares go from 0 to 1"), (1 - exact, "this is the idle share")]
    for value in dict.fromkeys((exact, *(replays.tps(fact.static, SLOTS, reading) for reading in READINGS))):
        found += [
            (value / 1000, "tokens per millisecond, not per second"),
            (value * 1000, "a time in milliseconds was taken for seconds"),
            (value * Fraction(replays.n, replays.tokens), "requests per second, not output tokens"),
            (value * (1 + Fraction(sum(replays.prompts), replays.tokens)), "prompt tokens were counted as output"),
        ]
    return found


def other_total(lab, fact, right):
    """The output tokens that the numbers of a file tell together, where they are all wrong; else ""."""
    file = "static.txt" if fact.static else "continuous.txt"
    numbers = lab.values.get(file, {})
    if len(numbers) < 3 or any(other.file == file for other in right):
        return ""
    told = numbers["total_steps"].value * numbers["slot_util"].value * SLOTS
    if abs(told - lab.replays.tokens) < told / 50 or all(fact.number.text != one.text for one in numbers.values()):
        return ""
    return (f"{SCHEDULER[fact.static]} ran on other requests: {file} tells {float(told):,.0f} output tokens "
            f"(total_steps x {SLOTS} x slot_util), the list has {lab.replays.tokens:,}")


def mixed(replays, fact, best, right):
    """Names the two readings, if this number is right under another one; else an empty text."""
    choice = readings(best.step_us)
    if fact.quantity == "tps":
        choice += [reading for reading in other_steps(replays, [fact]) if reading.kind == INSIDE]
    other = next((reading for reading in choice if fact.fits(replays, reading)), None)
    if not other or not right:
        return ""
    files = ", ".join(dict.fromkeys(one.file for one in right))
    return f"two readings are mixed. Here: {other}. In {files}: {best}"


# --- compare.txt --------------------------------------------------------------------------------------------------


def grade_speedup(lab):
    """The speedup is the ratio of the two written beside it, and 1.8 at least where the list allows it."""
    name, replays = "compare.txt", lab.replays
    if name not in lab.values:
        return
    slow, fast, speedup = lab.values[name].values()
    best_tps = replays.tps(False, SLOTS, lab.reading)
    exact = best_tps / (replays.tps(True, SLOTS, lab.reading) or 1)
    if exact < LEAST_SPEEDUP:
        lab.note(name, f"speedup >= 1.8 cannot hold on these requests; right is {float(exact):.3f}")
    if speedup.says(exact, 3) or slow.low <= 0:
        return
    ratio = fast.value / slow.value
    right = speedup.low <= fast.high / slow.low and speedup.high >= fast.low / slow.high
    if not right or not speedup.is_fine(ratio, 3):
        planted = [
            (1 / (ratio or 1), "the ratio is upside down"),
            (100 * ratio, "a percentage, not a factor"),
            (100 * (ratio - 1), "a percentage, not a factor"),
            (ratio - 1, "the gain was written, not the factor"),
        ]
        near = (words for value, words in planted if abs(speedup.value - value) <= abs(value) / 100)
        likely = TOO_COARSE if right else next(near, "it is from another run than they are")
        rule = "speedup = continuous_tps / static_tps, as they stand beside it"
        lab.wrong(name, "speedup", speedup.text, f"{float(ratio):.3f}", rule, likely)
    elif speedup.value < LEAST_SPEEDUP <= exact:
        likely = f"{'continuous_tps is too low' if fast.high < best_tps else 'static_tps is too high'}, as said above"
        expected = f"{float(exact):.3f}, and 1.8 at least"
        lab.wrong(name, "speedup", speedup.text, expected, "the exercise wants speedup >= 1.8", likely)


# --- maxseqs.txt, cost.txt ----------------------------------------------------------------------------------------


def grade_maxseqs(lab):
    name, replays = "maxseqs.txt", lab.replays
    if name not in lab.values:
        return
    limit, peak = lab.values[name].values()
    right = min(MAX_NUM_SEQS, replays.n)
    arrivals, reading = [200_000 * i for i in range(replays.n)], Reading(FIRST, FREE, lab.step_us)
    key = "5/s", lab.step_us  # where the fewest run together: no peak lies below the mean number that runs
    slowest = replays.remember(key, replay, replays.requests, reading, MAX_NUM_SEQS, False, arrivals)
    least = min(right, -(-slowest.held // slowest.span))
    rule = f"peak_running is the largest number of sequences in one iteration; it is at most {MAX_NUM_SEQS}"
    if limit.value != MAX_NUM_SEQS:
        likely = "the batch size of tasks 1 to 4" if limit.value == SLOTS else "another limit was given"
        rule = f"task 5 runs with a limit of {MAX_NUM_SEQS}"
        lab.wrong(name, "max_num_seqs", limit.text, str(MAX_NUM_SEQS), rule, likely)
    elif peak.value > right:
        likely = "sequences are admitted beyond the free slots, or waiting ones were counted"
        lab.wrong(name, "peak_running", peak.text, f"{right} at most", rule, likely)
    elif peak.value < least:
        likely = "not the largest number, but that of another moment, such as the end"
        expected = f"{right}, with all requests there at the start; with 5 arrivals per second {least} or more"
        lab.wrong(name, "peak_running", peak.text, expected, rule, likely)
    elif peak.value < right:
        lab.say(name, "peak_running is that of a run with arrivals")
        lab.note(name, f"peak_running={peak.text} never reached the limit. With arrivals it need not; with all "
                 f"requests there at the start it is {right}. If yours were, count before the finished ones leave")
    else:
        lab.say(name, "the limit is reached")


def grade_costs(lab):
    name, replays = "cost.txt", lab.replays
    if name not in lab.values:
        return
    prefill = Fraction(PREFILL_US_PER_TOKEN * sum(replays.prompts), 1000)
    decode = Fraction(STEP_US * replays.tokens, 1000)
    batched = Fraction(STEP_US * replays.run(False, SLOTS).passes, 1000)
    shared = "batching shares the decode passes; task 7 asks for each request alone"
    swap, other = "prefill and decode are swapped", "other requests than REQUESTS, or other costs"
    parts = [one for one in replays.remember("mistakes", mistakes, replays) if one.requests and not one.tokens]
    of_prompts = [(Fraction(PREFILL_US_PER_TOKEN * sum(one.requests[0]), 1000), one.words) for one in parts]
    of_outputs = [(Fraction(STEP_US * sum(one.requests[1]), 1000), one.words) for one in parts]
    share, rule = decode / (prefill + decode), "prefill_ms = prompt_tokens * 0.05, decode_ms = output_tokens * 8.0"
    for key, exact, told, planted in (
        ("total_prefill_ms", prefill, f"each request served alone: {rule}", [
            (decode, swap), *other_units(prefill), (prefill / replays.n, "a mean"), *of_prompts,
            (160 * prefill, "prompt tokens were given the cost of output tokens")]),
        ("total_decode_ms", decode, f"each request served alone: {rule}", [
            (prefill, swap), (batched, shared), *other_units(decode), (decode / replays.n, "a mean"), *of_outputs]),
        ("decode_share", share, "decode_share = total_decode_ms / (total_prefill_ms + total_decode_ms)", [
            (100 * share, "a percentage; shares go from 0 to 1"), (1 - share, "this is the share of prefill"),
            (decode / prefill, "decode / prefill, not decode / (prefill + decode)"),
            (batched / (prefill + batched), shared)]),
    ):
        lab.require(name, key, lab.values[name][key], exact, told, planted, other)
