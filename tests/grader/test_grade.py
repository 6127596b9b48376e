"""The grader tells wrong results from right ones, and names the reading or the mistake."""

import json
import os
import subprocess
import sys
from fractions import Fraction
from importlib import import_module
from unittest.mock import patch

import grade
import pytest
from fixture import LAB, RESULTS, ROOT, SHIPPED, STEPS, words
from grade_queue import grade_queue
from grade_report import ARTIFACTS, Lab, Ungradable
from grade_tune import Scan, misjudged
from readings import Tuning
from result_files import number_of
from student import Style, engine, queue_csv, solution

SIX = [name for name, artifact in ARTIFACTS.items() if artifact.required]
PLAIN = "8 ms a step; prompts are prefilled one after the other"
FREE = "8 ms a step; prefill costs nothing"
MEMORY = {}  # one memory of replays for all sets that are about the shipped requests


def shipped():
    return tuple((record["prompt_tokens"], record["output_tokens"]) for record in json.loads(SHIPPED.read_text()))


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def graded(folder, requests=SHIPPED):
    lab = Lab(folder, requests)
    if requests == SHIPPED:
        lab.replays.memory = MEMORY
    return grade.check(lab)


def failing(lab):
    return "\n\n".join(failure.text for failure in lab.failures)


@pytest.fixture(scope="module")
def eight():
    """All eight files of a plain solution."""
    return solution(shipped(), Style(), more=True)


@pytest.fixture(scope="module")
def six(eight):
    return {name: eight[name] for name in SIX}


# --- permitted readings: what a student's program writes, and what the grader must recognise in it ------------------


CLOSED = "closed loop; prompts are prefilled"
READINGS = {  # name: (Style, all that must be said)
    "plain": (Style(), [f"static.txt, compare.txt: {PLAIN}.", f"tune.txt: {CLOSED}"]),
    "no prefill in steps 1 to 4": (
        Style(prefill="free"), [f"compare.txt: {FREE}.", f"tune.txt, throughput_at_target: {PLAIN}."]),
    "throughput without prefill, TTFT with it": (
        Style(prefill="free", tune_tps="free"),
        [f"compare.txt: {FREE}.", f"throughput_at_target: {FREE}.", "TTFT ends with the decode pass."]),
    "20 ms a step": (Style(step_ms=20, prefill="free"), ["compare.txt: 20 ms a step; prefill costs nothing."]),
    "12.5 ms a step and prefill": (Style(step_ms=12.5), ["12.5 ms a step; prompts are prefilled one after the other."]),
    "20 ms a step everywhere": (
        Style(step_ms=20, prefill="free", tune_step_ms=20, queue_step_ms=20), ["queue.csv: most like", "20 ms a step"]),
    "tokens per step": (Style(step_ms=1000, prefill="free"), ["compare.txt: throughput is in tokens per step."]),
    "prompts together": (
        Style(prefill="together"), ["compare.txt: 8 ms a step; prompts are prefilled together (the longest counts)."]),
    "each slot its own clock": (
        Style(prefill="own"),
        ["compare.txt: 8 ms a step; a prefill holds up its own slot only."]),
    "prefill is an own iteration": (
        Style(kind="own"), ["a prefill is an iteration of its own, in which the others wait."]),
    "prefill is an own iteration and costs a step": (
        Style(kind="own", prefill_is_step=True, prefill="free"), ["in which the others wait; it costs a step."]),
    "prefill is an own iteration, others go on": (
        Style(kind="mixed"), ["a prefill is an iteration of its own, in which the others go on."]),
    "prefill gives the first token": (
        Style(kind="first"), ["the prefill gives the first token and is not counted as an iteration."]),
    "prefill gives the first token, 10 ms a step": (
        Style(kind="first", step_ms=10, prefill="free"),
        ["10 ms a step; prefill costs nothing; the prefill gives the first"]),
    "prefill is an own iteration and gives the first token": (
        Style(kind="first own"), ["the prefill gives the first token, in an iteration of its own."]),
    "slots of the last batch": (
        Style(last_batch="fewer"), ["static.txt: slot_util counts only as many slots for the last batch as it has"]),
    "even arrivals": (Style(arrivals="even"), ["queue.csv: 32 slots, step by step", "evenly spaced arrivals"]),
    "a seed that we know": (Style(seed=42), ["queue.csv: 32 slots, step by step; prompts are", "Poisson arrivals"]),
    "a seed that we do not know": (Style(seed=987), ["queue.csv: most like 32 slots, step by step"]),
    "20 draws pooled, as the lab does": (Style(pooled=True), ["queue.csv: 32 slots, step by step; prompts are"]),
    "32 servers": (
        Style(request_by_request=True),
        ["queue.csv: most like 32 servers, request by request", "at both rates nobody waits"]),
    "32 servers and even arrivals": (
        Style(request_by_request=True, arrivals="even"),
        ["queue.csv: 32 servers, request by request; evenly spaced arrivals", "at both rates nobody waits"]),
    "32 servers without prefill": (
        Style(request_by_request=True, queue_prefill="free", seed=3),
        ["queue.csv: 32 servers, request by request; prefill costs nothing", "at both rates nobody waits"]),
    "a queue without prefill": (
        Style(queue_prefill="free", seed=5), ["queue.csv: 32 slots, step by step; prefill costs nothing"]),
    "a queue with prompts together": (
        Style(queue_prefill="together"),
        ["queue.csv: most like 32 slots", "step by step; prompts are prefilled together"]),
    "the queue while requests arrive": (Style(average="arrivals", seed=3), ["the mean queue while requests arrive"]),
    "the queue as rate x mean wait": (Style(average="rate", seed=3), ["the mean queue as rate x mean wait"]),
    "the queue left at each step": (
        Style(average="steps", seed=3),
        ["the mean queue of those left waiting at each step"]),
    "first token with its own prefill": (
        Style(first_token="prefill"), ["TTFT ends with the own prefill."]),
    "first token with its own prefill, one less to decode": (
        Style(first_token="prefill", tune_kind="first"), ["TTFT ends with the own prefill; which leaves one token less to decode."]),
    "nearest rank": (Style(percentile="nearest", seed=3), ["queue.csv: 32 slots", "nearest rank"]),
    "sorted(...)[int(0.99 * n)]": (Style(percentile="int", seed=3), ["which of 100 waits is the maximum"]),
    "quantiles(...), exclusive": (Style(percentile="quantiles"), [f"tune.txt: {CLOSED}"]),
    "a burst": (
        Style(clients="burst"), ["tune.txt: N requests at once, and no more", "of the N requests alone"]),
    "all at once, prompts together": (
        Style(clients="all", tune_prefill="together", percentile="nearest"), ["prompts are prefilled together"]),
    "TTFT with prompts together": (
        Style(tune_prefill="together"),
        [f"tune.txt: {CLOSED}", "throughput_at_target: 8 ms a step; prompts are prefilled together"]),
    "TTFT of the own prompt": (
        Style(tune_prefill="own"), ["throughput_at_target: 8 ms a step; a prefill holds up its own slot only."]),
    "TTFT without prefill": (Style(tune_prefill="free"), [f"throughput_at_target: {FREE}."]),
}


@pytest.mark.parametrize("name", READINGS)
def test_a_permitted_reading_passes_and_is_named(tmp_path, name):
    style, said = READINGS[name]
    lab = graded(write(tmp_path, solution(shipped(), style)))
    assert not lab.failures, failing(lab)
    words = "\n".join(lab.recognised + lab.notes)
    assert all(sentence in words for sentence in said), words
    assert bool(lab.notes) == any("waits" in sentence for sentence in said), lab.notes


@pytest.mark.parametrize("seed", [1111, 1126, 1152, 1165, 1217, 1265, 1361])
@pytest.mark.parametrize("change", [
    {}, {"queue_prefill": "free"}, {"request_by_request": True}, {"average": "rate"}, {"average": "arrivals"}
], ids=str)
def test_the_rarest_arrivals_pass(tmp_path, change, seed):
    """Of the seeds 1000 to 1399, those with the longest or the shortest p99 at some rate."""
    lab = Lab(write(tmp_path, {"queue.csv": queue_csv(shipped(), Style(seed=seed, **change))}))
    lab.replays.memory, lab.failures = MEMORY, []  # the other files are not there
    grade_queue(lab)
    assert not lab.failures, failing(lab)


def text(name, change):
    """A function that changes the text of one of the files."""
    return lambda files: files | {name: change(files[name])}


def put(name, **values):
    """Pairs get new values, or functions of the old ones."""
    def change(old):
        found = dict(pair.split("=") for pair in old.split())
        for key, value in values.items():
            found[key] = value(found[key]) if callable(value) else value
        return " ".join(f"{key}={value}" for key, value in found.items()) + "\n"
    return text(name, change)


def table(name, change):
    """A csv's rows, the header first, become others."""
    def changed(old):
        rows = change([line.split(",") for line in old.splitlines()])
        return "".join(",".join(map(str, row)) + "\n" for row in rows)
    return text(name, changed)


def column(name, key, change):
    def changed(rows):
        at = rows[0].index(key)
        return [rows[0], *([*row[:at], change(row[at]), *row[at + 1 :]] for row in rows[1:])]
    return table(name, changed)


def cell(name, row, key, change):
    """One cell; row: its position below the header, from 0."""
    def changed(rows):
        at = rows[0].index(key)
        rows[row + 1][at] = change(rows[row + 1][at])
        return rows
    return table(name, changed)


def times(factor):
    return lambda old: f"{float(old) * factor:.6f}"


def chain(*changes):
    def changed(files):
        for change in changes:
            files = change(files)
        return files
    return changed


def each(change):
    return lambda files: {name: change(old) for name, old in files.items()}


def but(name, style):
    """One file is another program's."""
    return lambda files: files | {name: solution(shipped(), style, more=True)[name]}


def without(*names):
    return lambda files: {name: old for name, old in files.items() if name not in names}


def keep_six(files):
    return {name: files[name] for name in SIX}


fewer_decimals = chain(
    put("static.txt", throughput_tps=lambda old: f"{float(old):.0f}", slot_util="0.25"),
    put("continuous.txt", throughput_tps=lambda old: old[:-1], slot_util=lambda old: old[:-2]),
    put("compare.txt", static_tps=lambda old: old[:-1], speedup=lambda old: old[:-1]),
    put("cost.txt", total_prefill_ms=lambda old: old[:-3], total_decode_ms=lambda old: f"{float(old):.0f}"),
    put("tune.txt", target_ttft_ms="200.00", throughput_at_target=lambda old: f"{float(old):.0f}"),
    column("tune.csv", "p99_ttft_ms", lambda old: f"{float(old):.1f}"),
    column("queue.csv", "rps", lambda old: old + ".0"),
)
ALSO_RIGHT = {
    "all eight files": lambda files: files,
    "without continuous.txt": without("continuous.txt"),
    "without tune.csv": without("tune.csv"),
    "fewer decimals": fewer_decimals,
    "a pair a line": each(lambda old: old.replace(" ", "\n")),
    "another order of keys": each(lambda old: " ".join(old.split()[::-1]) if "=" in old else old),
    "CRLF and trailing blanks": each(lambda old: old.replace("\n", "  \r\n") + "\r\n"),
    "blanks around cells": each(lambda old: old.replace(",", " , ")),
    "byte-order mark": each(lambda old: "\ufeff" + old),
    "further keys and columns": chain(
        text("static.txt", lambda old: old.strip() + " batch_size=16 note=mine\n"),
        table("queue.csv", lambda rows: [[*row, extra] for row, extra in zip(rows, ["mean_wait_ms", 1, 2, "n/a", ""])]),
        table("tune.csv", lambda rows: [["note", *row] for row in rows])),
    "a tune.csv of one's own": text("tune.csv", lambda old: "clients,ttft\n1,79.22\n"),
    "a continuous.txt of one's own": text("continuous.txt", lambda old: old.split()[0] + " seconds=27\n"),
    "other readings in steps 1 to 4 and in tune.csv": lambda files: solution(
        shipped(), Style(prefill="free", first_token="prefill"), more=True),
    "util of what each iteration does": chain(
        lambda files: solution(shipped(), Style(kind="own"), more=True),
        put("static.txt", slot_util=f"{(20161 + 100) / (16 * 5043):.4f}")),
    "util of the decoding iterations": chain(
        lambda files: solution(shipped(), Style(kind="own"), more=True), put("static.txt", slot_util="0.2502")),
    "util of decoded tokens": chain(
        lambda files: solution(shipped(), Style(kind="first"), more=True),
        put("static.txt", slot_util=f"{(20161 - 100) / (16 * 5029):.4f}")),
    "rounded waits": chain(
        but("queue.csv", Style(pooled=True)), column("queue.csv", "p99_wait_ms", lambda old: f"{float(old):.1f}"),
        column("queue.csv", "avg_queue", lambda old: f"{float(old):.2f}")),
    "no edge up to 64": chain(
        but("tune.txt", Style(tune_prefill="together")), without("tune.csv"),
        put("tune.txt", max_concurrency=64, throughput_at_target=lambda old: tps_of_together(64))),
    "clients beyond the list": chain(
        but("tune.txt", Style(tune_prefill="together")), without("tune.csv"), put("tune.txt", max_concurrency=256)),
    "rounded throughputs": put("compare.txt", static_tps="480", continuous_tps="1231", speedup="2.56"),
}


def tps_of_together(clients):
    rows = solution(shipped(), Style(tune_prefill="together"), more=True)["tune.csv"].splitlines()
    return rows[clients].split(",")[3]


@pytest.mark.parametrize("name", ALSO_RIGHT)
def test_another_way_to_be_right_passes(eight, tmp_path, name):
    lab = graded(write(tmp_path, ALSO_RIGHT[name](eight)))
    assert not lab.failures, failing(lab)


def test_what_is_accepted_but_not_asked_for_is_said(eight, tmp_path):
    lab = graded(write(tmp_path, ALSO_RIGHT["further keys and columns"](eight)))
    assert "static.txt: further keys, not looked at: 'batch_size', 'note'." in lab.notes
    assert "queue.csv: further columns, not looked at: 'mean_wait_ms'." in lab.notes
    lab = graded(write(tmp_path, ALSO_RIGHT["a tune.csv of one's own"](eight)))
    assert any(note.startswith("tune.csv: not checked") for note in lab.notes)


# --- mistakes -----------------------------------------------------------------------------------------------------


def curve(files):
    """[[concurrency, mean_ttft_ms, p99_ttft_ms, throughput_tps] as text], concurrency 1 first."""
    return [line.split(",") for line in files["tune.csv"].splitlines()[1:]]


def answer(concurrency):
    """tune.txt says another concurrency, and the throughput that belongs to that one."""
    def change(files):
        tps = curve(files)[min(concurrency, len(curve(files))) - 1][3] if concurrency else "0.00"
        return put("tune.txt", max_concurrency=concurrency, throughput_at_target=tps)(files)
    return change


def mean_for_p99(files):
    return answer(sum(float(mean) <= 200 for _, mean, _, _ in curve(files)))(files)


def swap(one, other):
    return lambda files: files | {one: files[other], other: files[one]}


def misordered(rows):
    return [rows[0], rows[2], rows[1], *rows[3:]]


def refill_at_batch_end(files):
    """compare.txt of a student whose continuous batching is static batching."""
    tps = read_tps(files, "static.txt")
    return put("compare.txt", continuous_tps=tps, speedup="1.000")(files)


def read_tps(files, name):
    return dict(pair.split("=") for pair in files[name].split())["throughput_tps"]


def other_requests(files):
    backwards = solution(shipped()[::-1], Style())
    return files | {"compare.txt": backwards["compare.txt"]}


def sorted_compare(reverse):
    def change(files):
        ordered = tuple(sorted(shipped(), key=lambda request: request[1], reverse=reverse))
        return files | {"static.txt": solution(ordered, Style(prefill="free"))["static.txt"]}
    return chain(but("compare.txt", Style(prefill="free")), but("continuous.txt", Style(prefill="free")), change)


def sorted_static_tps(files):
    ordered = tuple(sorted(shipped(), key=lambda request: request[1]))
    return put("compare.txt", static_tps=read_tps(solution(ordered, Style()), "static.txt"))(files)


def steps_of(requests, slots, static):
    return engine(tuple(requests), slots, 8.0, "free", static=static).steps


STATIC_STEPS = 5036
REFILLS_LATE = "free slots are refilled only when the whole batch has ended"
PLANTED = {  # name: (files at fault, what must be said of the first, how to plant it in the eight files)
    # steps 1 to 4
    "swapped files": (
        "static.txt continuous.txt", "static and continuous are swapped",
        swap("static.txt", "continuous.txt")),
    "swapped in compare.txt": (
        "compare.txt", "static and continuous are swapped",
        put("compare.txt", static_tps="1231.32", continuous_tps="480.05", speedup="0.390")),
    "continuous refills at batch end": ("compare.txt", REFILLS_LATE, chain(keep_six, refill_at_batch_end)),
    "continuous.txt of a scheduler that refills at batch end": (
        "continuous.txt", REFILLS_LATE, lambda files: files | {"continuous.txt": files["static.txt"]}),
    "static.txt of a scheduler that refills at once": (
        "static.txt", "slots are refilled while their batch still runs",
        lambda files: files | {"static.txt": files["continuous.txt"]}),
    "full batches only": (
        "static.txt", "the last part-filled batch was left out",
        put("static.txt", total_steps=lambda old: steps_of(shipped()[:96], 16, True))),
    "batches for steps": ("static.txt", "batches were counted", put("static.txt", total_steps=7)),
    "one at a time": ("continuous.txt", "one request was served at a time", put("continuous.txt", total_steps=20161)),
    "a step too few": ("static.txt", "other requests than REQUESTS", put("static.txt", total_steps=STATIC_STEPS - 1)),
    "a fraction of a step": ("static.txt", "a whole number", put("static.txt", total_steps=STATIC_STEPS + 0.5)),
    "8 slots": (
        "continuous.txt", "8 slots instead of 16",
        put("continuous.txt", total_steps=lambda old: steps_of(shipped(), 8, False))),
    "sorted, shortest first": ("static.txt", "the shortest output first", sorted_compare(False)),
    "sorted, longest first": ("static.txt", "the longest output first", sorted_compare(True)),
    "sorted in compare.txt alone, with prefill": (
        "compare.txt", "the shortest output first", chain(keep_six, sorted_static_tps)),
    "perfect packing": (
        "compare.txt", "slots were taken as always full",
        chain(keep_six, but("static.txt", Style(prefill="free")), but("compare.txt", Style(prefill="free")),
              put("compare.txt", continuous_tps="1999.11", speedup="3.995"))),
    "prompt tokens as iterations": (
        "static.txt", "a prompt token was given an iteration",
        put("static.txt", total_steps=lambda old: steps_of([(p, p + o) for p, o in shipped()], 16, True))),
    "used slots only": ("continuous.txt", "slots that nobody used", put("continuous.txt", slot_util="1.0000")),
    "util of continuous": (
        "static.txt", "that is continuous batching",
        lambda files: put("static.txt", slot_util=read_util(files, "continuous.txt"))(files)),
    "util in percent": ("continuous.txt", "a percentage", put("continuous.txt", slot_util=times(100))),
    "idle share": ("static.txt", "the idle share", put("static.txt", slot_util=lambda old: f"{1 - float(old):.4f}")),
    "nothing wasted": ("static.txt", "static batching stays below 0.7", put("static.txt", slot_util="0.7012")),
    "tokens per ms": ("static.txt", "tokens per millisecond", put("static.txt", throughput_tps=times(0.001))),
    "tokens per ms everywhere": (
        "compare.txt static.txt", "tokens per millisecond",
        chain(keep_six, put("static.txt", throughput_tps=times(0.001)),
              put("compare.txt", static_tps=times(0.001), continuous_tps=times(0.001)))),
    "ms taken for s": ("static.txt", "a time in milliseconds", put("static.txt", throughput_tps=times(1000))),
    "requests per second": (
        "continuous.txt", "requests per second",
        put("continuous.txt", throughput_tps=times(100 / 20161))),
    "prompt tokens counted": (
        "compare.txt static.txt", "prompt tokens were counted",
        chain(keep_six, put("static.txt", throughput_tps=times(54352 / 20161)),
              put("compare.txt", static_tps=times(54352 / 20161), continuous_tps=times(54352 / 20161)))),
    "one digit of throughput": ("static.txt", "too few digits", put("static.txt", throughput_tps="5e2")),
    "a wrong static.txt leaves compare.txt alone": (
        "static.txt", "other requests", put("static.txt", throughput_tps="500.00")),
    "a wrong static batch in both files": (
        "compare.txt static.txt", "static_tps\ngot:       492.42",  # as if a step took 8.13 ms
        chain(keep_six, put("static.txt", throughput_tps="492.42"),
              put("compare.txt", static_tps="492.42", speedup="2.501"))),
    "static_tps alone, beside the right speedup": (
        "compare.txt", "static_tps\ngot:       470.00", put("compare.txt", static_tps="470.00")),
    "20 ms a step, and continuous refills at batch end": (
        "compare.txt", REFILLS_LATE,
        lambda files: refill_at_batch_end(solution(shipped(), Style(step_ms=20, prefill="free")))),
    "compare.txt of other requests": ("compare.txt", "other requests than REQUESTS", other_requests),
    "compare.txt without prefill": (
        "compare.txt", f"two readings are mixed. Here: {FREE}. In static.txt, continuous.txt: {PLAIN}",
        but("compare.txt", Style(prefill="free"))),
    "static.txt without prefill": (
        "static.txt", f"two readings are mixed. Here: {FREE}. In static.txt, compare.txt: {PLAIN}",
        chain(keep_six, put("static.txt", throughput_tps="500.42"))),
    "static.txt at 20 ms a step": (
        "static.txt", "two readings are mixed. Here: 20 ms a step; prefill costs nothing",
        chain(keep_six, put("static.txt", throughput_tps="200.17"))),
    "one side of compare.txt without prefill": (
        "compare.txt", "two readings are mixed", put("compare.txt", static_tps="500.42", speedup="2.461")),
    "first token from prefill in total_steps alone": (
        "static.txt", f"two readings are mixed. Here: {PLAIN}; the prefill gives the first token",
        put("static.txt", total_steps=STATIC_STEPS - 7)),
    "prefill as an iteration in total_steps alone": (
        "static.txt", "a prefill is an iteration of its own", put("static.txt", total_steps=STATIC_STEPS + 7)),
    "speedup not the ratio": ("compare.txt", "another run", put("compare.txt", speedup="2.400")),
    "speedup upside down": ("compare.txt", "upside down", put("compare.txt", speedup=lambda old: 1 / float(old))),
    "speedup in percent": ("compare.txt", "a percentage, not a factor", put("compare.txt", speedup=times(100))),
    "gain in percent": ("compare.txt", "a percentage, not a factor", put("compare.txt", speedup="156.5")),
    "gain for speedup": ("compare.txt", "the gain", put("compare.txt", speedup=lambda old: float(old) - 1)),
    "one digit compared": ("compare.txt", "too few digits", put("compare.txt", static_tps="5e2", speedup="2.565")),
    "one digit of speedup": ("compare.txt", "too few digits", put("compare.txt", speedup="3")),
    "too small a throughput": (
        "compare.txt continuous.txt", "other requests than REQUESTS",
        chain(put("continuous.txt", throughput_tps="854.49"),
              put("compare.txt", continuous_tps="854.49", speedup="1.780"))),
    # step 5
    "limit of 16": (
        "maxseqs.txt", "the batch size of steps 1 to 4",
        put("maxseqs.txt", max_num_seqs=16, peak_running=16)),
    "peak above the limit": ("maxseqs.txt", "beyond the free slots", put("maxseqs.txt", peak_running=33)),
    "half a sequence": ("maxseqs.txt", "a whole number", put("maxseqs.txt", peak_running="31.5")),
    "peak of nothing": ("maxseqs.txt", "after the finished ones had left", put("maxseqs.txt", peak_running=0)),
    "peak of 1": ("maxseqs.txt", "that of another moment", put("maxseqs.txt", peak_running=1)),
    "peak of 16": ("maxseqs.txt", "the batch size of steps 1 to 4", put("maxseqs.txt", peak_running=16)),
    "peak of 31": ("maxseqs.txt", "after the finished ones had left", put("maxseqs.txt", peak_running=31)),
    # step 6
    "rates out of order": ("queue.csv", "rows out of order: rates rise", table("queue.csv", misordered)),
    "rate left out": ("queue.csv", "a row is missing", table("queue.csv", lambda rows: rows[:-1])),
    "no rows": ("queue.csv", "a row is missing", table("queue.csv", lambda rows: rows[:1])),
    "rate twice": ("queue.csv", "a rate is there twice", table("queue.csv", lambda rows: rows + rows[-1:])),
    "rates doubled": ("queue.csv", "got:       10 20 40 80", column("queue.csv", "rps", times(2))),
    "waits out of order": (
        "queue.csv", "p99_wait_ms rises strictly",
        table("queue.csv", lambda rows: [[*row[:2], wait[2]] for row, wait in zip(rows, misordered(rows))])),
    "waits that stay": (
        "queue.csv", "p99_wait_ms rises strictly",
        table("queue.csv", lambda rows: [*rows[:2], [*rows[2][:2], rows[1][2]], *rows[3:]])),
    "waits in s": ("queue.csv", "in seconds", column("queue.csv", "p99_wait_ms", times(0.001))),
    "waits in us": ("queue.csv", "in microseconds", column("queue.csv", "p99_wait_ms", times(1000))),
    "one wait in us": ("queue.csv", "in microseconds", cell("queue.csv", 3, "p99_wait_ms", times(1000))),
    "a wait of 1e99": (
        "queue.csv", "file:      queue.csv, p99_wait_ms at rps=40",
        cell("queue.csv", 3, "p99_wait_ms", lambda old: "1e+99")),
    "half the queue": ("queue.csv", "half of the mean queue", column("queue.csv", "avg_queue", times(0.5))),
    "no queue": ("queue.csv", "no queue was counted", column("queue.csv", "avg_queue", lambda old: "0.000")),
    "no queue at 40": ("queue.csv", "no queue was counted", cell("queue.csv", 3, "avg_queue", lambda old: "0")),
    "queue and wait swapped": (
        "queue.csv", "avg_queue and p99_wait_ms are swapped",
        table("queue.csv", lambda rows: [rows[0], *([rps, wait, queue] for rps, queue, wait in rows[1:])])),
    "Little's law, a small queue": (
        "queue.csv", "Little's law", chain(cell("queue.csv", 0, "avg_queue", lambda old: "0.150"),
                                           cell("queue.csv", 0, "p99_wait_ms", lambda old: "8.000"))),
    "negative queue": ("queue.csv", "a number from 0 up", column("queue.csv", "avg_queue", times(-1))),
    "the lab's waits, halved queue": (
        "queue.csv", "half of the queue",
        chain(but("queue.csv", Style(pooled=True)), column("queue.csv", "avg_queue", times(0.5)))),
    "the lab's waits, no queue at 5": (
        "queue.csv", "no queue was counted",
        chain(but("queue.csv", Style(pooled=True)), cell("queue.csv", 0, "avg_queue", lambda old: "0"))),
    "the lab's waits, one in us": (
        "queue.csv", "in microseconds",
        chain(but("queue.csv", Style(pooled=True)), cell("queue.csv", 3, "p99_wait_ms", times(1000)))),
    "the lab's waits, two in us": (
        "queue.csv", "in microseconds",
        chain(but("queue.csv", Style(pooled=True)), cell("queue.csv", 2, "p99_wait_ms", times(1000)),
              cell("queue.csv", 3, "p99_wait_ms", times(1000)))),
    "the lab's waits, one doubled": (
        "queue.csv", "from another run",
        chain(but("queue.csv", Style(pooled=True)), cell("queue.csv", 0, "p99_wait_ms", times(1.3)))),
    "the lab's waits, their maximum": (
        "queue.csv", "the maximum of the waits", but("queue.csv", Style(pooled=True, statistic="maximum"))),
    "the lab's waits, their mean": (
        "queue.csv", "the mean of the waits",
        but("queue.csv", Style(pooled=True, statistic="mean"))),
    "the lab's waits, their median": (
        "queue.csv", "the median of the waits",
        but("queue.csv", Style(pooled=True, statistic="median"))),
    "even arrivals, the mean": (
        "queue.csv", "the mean of the waits",
        but("queue.csv", Style(arrivals="even", statistic="mean"))),
    "even arrivals, the median": (
        "queue.csv", "the median of the waits",
        but("queue.csv", Style(arrivals="even", statistic="median"))),
    "mean": ("queue.csv", "the mean of the waits", but("queue.csv", Style(statistic="mean"))),
    "median": ("queue.csv", "the median of the waits", but("queue.csv", Style(statistic="median"))),
    "one server": (
        "queue.csv", "one server instead of 32",
        but("queue.csv", Style(servers=1, request_by_request=True))),
    "one slot": ("queue.csv", "one s", but("queue.csv", Style(servers=1))),
    "16 slots in step 6": ("queue.csv", "16 slots instead of 32", but("queue.csv", Style(servers=16))),
    "static batches in step 6": ("queue.csv", "static batching; step 6", but("queue.csv", Style(queue_static=True))),
    "queue of everybody": (
        "queue.csv", "the queue counts those that run",
        but("queue.csv", Style(average="everybody"))),
    # step 7
    "prefill in s": ("cost.txt", "in seconds", put("cost.txt", total_prefill_ms=times(0.001))),
    "decode in us": ("cost.txt", "in microseconds", put("cost.txt", total_decode_ms=times(1000))),
    "decode of batches": ("cost.txt", "batching shares the decode", put("cost.txt", total_decode_ms=1833 * 8)),
    "prefill for decode": ("cost.txt", "prefill and decode are swapped", put("cost.txt", total_decode_ms="1709.55")),
    "decode for prefill": ("cost.txt", "prefill and decode are swapped", put("cost.txt", total_prefill_ms="161288.00")),
    "decode shared": ("cost.txt", "batching shares the decode", put("cost.txt", decode_share="0.8956")),
    "share in percent": ("cost.txt", "a percentage", put("cost.txt", decode_share=times(100))),
    "decode over prefill": ("cost.txt", "decode / prefill, not", put("cost.txt", decode_share="94.3453")),
    "share of prefill": ("cost.txt", "share of prefill", put("cost.txt", decode_share="0.0105")),
    "percent sign": ("cost.txt", "a percentage", put("cost.txt", decode_share="98.95%")),
    # step 8
    "target in s": ("tune.txt", "in seconds", put("tune.txt", target_ttft_ms="0.2")),
    "another target": ("tune.txt", "another target was given", put("tune.txt", target_ttft_ms="100")),
    "mean for p99": ("tune.txt", "the mean was used instead of the p99", mean_for_p99),
    "mean for p99, without tune.csv": (
        "tune.txt", "the mean was used instead of the p99", lambda files: keep_six(mean_for_p99(files))),
    "half a client": ("tune.txt", "a whole number", put("tune.txt", max_concurrency="14.5")),
    "too low": ("tune.txt", "not the largest", answer(12)),
    "powers of two": ("tune.txt", "only powers of two were tried", answer(8)),
    "the first miss": ("tune.txt", "the first concurrency that misses", answer(15)),
    "two beyond, without tune.csv": ("tune.txt", "the whole admitting iteration", chain(answer(17), keep_six)),
    "TTFT from time 0": ("tune.txt", "counted from time 0", answer(0)),
    "TTFT from time 0, without tune.csv": ("tune.txt", "counted from time 0", chain(answer(0), keep_six)),
    "own prefill only": ("tune.txt", "the prefill of all admitted in it", answer(100)),
    "own prefill only, and what the throughput shows": (
        "tune.txt", "TTFT ends with the decode pass), as throughput_at_target is counted", chain(answer(100), keep_six)),
    "own prefill only, without tune.csv": (
        "tune.txt", "the prefill of all admitted in it",
        chain(answer(100), keep_six)),
    "beyond the scan": ("tune.txt", "the scan ends at 100", answer(101)),
    "1e39 clients": ("tune.txt", "the scan ends at 100", put("tune.txt", max_concurrency="1e39")),
    "throughput of 16": (
        "tune.txt", "the throughput of 16 slots",
        lambda files: put("tune.txt", throughput_at_target=curve(files)[15][3])(files)),
    "throughput in tokens per ms": (
        "tune.txt", "tokens per millisecond",
        put("tune.txt", throughput_at_target=times(0.001))),
    "throughput of nobody": (
        "tune.txt", "the throughput of another concurrency",
        put("tune.txt", throughput_at_target="777.00")),
    "throughput of nobody, beyond the list": (
        "tune.txt", "file:      tune.txt, throughput_at_target",
        chain(keep_six, but("tune.txt", Style(tune_prefill="together")),
              put("tune.txt", max_concurrency=128, throughput_at_target="777"))),
    "throughput of prompts together": (
        "tune.txt", "two readings are mixed",
        chain(keep_six, lambda files: put("tune.txt", throughput_at_target=tps_of_together(14))(files))),
    "curve out of order": ("tune.csv", "tune.csv, row 1, concurrency\ngot:       2\nexpected:  1\n", table("tune.csv", misordered)),
    "curve to the miss": ("tune.csv", "the scan stopped early", table("tune.csv", lambda rows: rows[:16])),
    "no curve": ("tune.csv", "the scan stopped early", table("tune.csv", lambda rows: rows[:1])),
    "two rows too few": ("tune.csv", "the scan stopped early", table("tune.csv", lambda rows: rows[:-2])),
    "the last row": (
        "tune.csv", "throughput_tps at concurrency=100",
        cell("tune.csv", 99, "throughput_tps", times(1.01))),
    "the last row but one": (
        "tune.csv", "p99_ttft_ms at concurrency=99",
        cell("tune.csv", 98, "p99_ttft_ms", times(0.9))),
    "curve too long": ("tune.csv", "the scan went past", table("tune.csv", lambda rows: [*rows, [101, *rows[-1][1:]]])),
    "every other row": ("tune.csv", "steps other than 1", table("tune.csv", lambda rows: [rows[0], *rows[1::2]])),
    "columns swapped": (
        "tune.csv", "the mean and the p99 are swapped",
        table("tune.csv", lambda rows: [rows[0], *([n, p99, mean, tps] for n, mean, p99, tps in rows[1:])])),
    "one digit in the curve": (
        "tune.csv", "throughput_tps at concurrency=14",
        cell("tune.csv", 13, "throughput_tps", lambda old: "1e3")),
    "TTFT in s": ("tune.csv", "in seconds", column("tune.csv", "mean_ttft_ms", times(0.001))),
    "mean TTFT without prefill": (
        "tune.csv", "prefill is left out",
        column("tune.csv", "mean_ttft_ms", lambda old: "8.00")),
    "a p99 too low": (
        "tune.csv", "requests were taken in another order",
        cell("tune.csv", 13, "p99_ttft_ms", lambda old: "180.00")),
    "curve with one row of another cost": (
        "tune.csv", "another cost of a step or of prefill",
        cell("tune.csv", 13, "throughput_tps", lambda old: "1213.34")),
    # the files as such
    "wrong header": (
        "queue.csv", "the header is missing",
        text("queue.csv", lambda old: old.replace("wait_ms", "wait (ms)"))),
    "semicolons": ("queue.csv", "not separated by commas", text("queue.csv", lambda old: old.replace(",", ";"))),
    "row cut short": (
        "queue.csv", "file:      queue.csv, row 4\n",
        text("queue.csv", lambda old: old.rpartition(",")[0])),
    "commas alone": ("queue.csv", "every value was empty", text("queue.csv", lambda old: ",,\n,,\n")),
    "a huge cell": ("queue.csv", "another format under the name", text("queue.csv", lambda old: old + "1" * 200_000)),
    "a million rows": (
        "tune.csv", "appended to again and again",
        text("tune.csv", lambda old: old + "101,8,8,8\n" * 1_000_000)),
    "key twice": ("static.txt", "appended to instead of written anew", text("static.txt", lambda old: old * 2)),
    "misspelt key": (
        "cost.txt", "a misspelt key (found 'decode_ratio')",
        text("cost.txt", lambda old: old.replace("share", "ratio"))),
    "key too few": ("cost.txt", "the key is missing", text("cost.txt", lambda old: old.rpartition(" ")[0])),
    "a heading": ("maxseqs.txt", "a heading, a unit or a message", text("maxseqs.txt", lambda old: "Step 5\n" + old)),
    "a blank before =": ("maxseqs.txt", "blanks around =", text("maxseqs.txt", lambda old: old.replace("=", " ="))),
    "a blank after =": ("maxseqs.txt", "blanks around =", text("maxseqs.txt", lambda old: old.replace("=", "= "))),
    "commas": ("compare.txt", "pairs are separated by blanks", text("compare.txt", lambda old: old.replace(" ", ", "))),
    "a unit": ("tune.txt", "a unit, or a message", put("tune.txt", target_ttft_ms="200ms")),
    "NaN in a pair": ("continuous.txt", "NaN or infinity", put("continuous.txt", throughput_tps="nan")),
    "infinity in a cell": ("queue.csv", "NaN or infinity", column("queue.csv", "avg_queue", lambda old: "inf")),
}
PLANTED |= {f"missing {file}": (file, "no such file", without(file)) for file in SIX}
PLANTED |= {f"empty {file}": (file, "an empty file", text(file, lambda old: "\n")) for file in RESULTS}


def read_util(files, name):
    return dict(pair.split("=") for pair in files[name].split())["slot_util"]


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_named_and_nobody_else_is_blamed(eight, tmp_path, name):
    files, phrase, plant = PLANTED[name]
    short = eight if "tune" in files + name else without("tune.csv")(eight)  # without its 100 rows, grading is faster
    lab = graded(write(tmp_path, plant(short)))
    first = "\n\n".join(failure.text for failure in lab.failures if failure.file == files.split()[0])
    assert phrase in first, failing(lab)
    assert {failure.file for failure in lab.failures} == set(files.split()), failing(lab)
    for failure in lab.failures:
        says_six_things(failure.text)
    about_speedup = any("compare.txt, speedup" in failure.text for failure in lab.failures)
    assert about_speedup == ("speedup" in name and "alone" not in name or "gain" in name), failing(lab)


def says_six_things(message):
    lines = message.split("\n")
    assert [line.split()[0] for line in lines] == ["file:", "got:", "expected:", "rule:", "likely:", "rerun:"], message
    assert all(line[10:].strip() for line in lines), message
    assert "make grade OUT=" in lines[-1], message


# --- other requests -----------------------------------------------------------------------------------------------


DIPPING = ((500, 1), (1000, 5), (2000, 1), (3000, 5), (500, 6), (2000, 6), (500, 2), (2000, 5), (3000, 5))
NO_UTIL, NO_SPEEDUP, NO_RISE = "slot_util < 0.7 cannot hold", "speedup >= 1.8 cannot hold", "p99_wait_ms does not rise"
ODD = {  # name: (requests, what must be said that cannot hold)
    "one request": (((100, 20),), [NO_SPEEDUP, NO_RISE]),
    "one that misses the target": (((4000, 20),), [NO_SPEEDUP, NO_RISE]),
    "three requests": (((100, 1), (200, 3), (100, 2)), [NO_SPEEDUP]),
    "equal lengths": (((100, 50),) * 100, [NO_UTIL, NO_SPEEDUP]),
    "outputs of one token": (((100, 1),) * 40, [NO_UTIL, NO_SPEEDUP]),
    "enormous prompts": (((10**9, 1),) * 2, [NO_SPEEDUP]),
    "a utilisation just below 0.7": (tuple((100, 10 if i % 2 else 3) for i in range(16)), [NO_SPEEDUP]),
    "a p99 that dips": (DIPPING, [NO_SPEEDUP]),
}


def graded_odd(folder, requests, plant=lambda files: files, style=Style(pooled=True)):
    records = [{"prompt_tokens": prompt, "output_tokens": output} for prompt, output in requests]
    file = folder / "requests.json"
    file.write_text(json.dumps(records))
    return graded(write(folder / "results", plant(solution(requests, style, more=True))), file)


@pytest.mark.parametrize("name", ODD)
def test_a_condition_that_cannot_hold_is_said(tmp_path, name):
    requests, said = ODD[name]
    lab = graded_odd(tmp_path, requests)
    assert not lab.failures, failing(lab)
    assert all(any(sentence in note for note in lab.notes) for sentence in said), lab.notes
    assert any(NO_UTIL in note for note in lab.notes) == (NO_UTIL in said), lab.notes


@pytest.mark.parametrize("n", [15, 16, 17, 31, 33])
def test_the_slots_of_a_last_batch_of_any_size(tmp_path, n):
    requests = tuple((10 * i, 90 - i) for i in range(1, n + 1))
    lab = graded_odd(tmp_path, requests, style=Style(pooled=True, last_batch="fewer"))
    assert not lab.failures, failing(lab)
    assert any("as it has requests" in line for line in lab.recognised) == (n % 16 > 0)


@pytest.mark.parametrize("requests, file, phrase, plant", [
    (DIPPING, "tune.txt", "misses: bisection", answer(3)),  # p99 at 1, 2, 3: 158, 258, 183 ms
    (((4000, 20),), "tune.txt", "tune.txt, max_concurrency\ngot:       1 (p99 TTFT 208.00 ms", answer(1)),
    (((100, 20),), "static.txt", "total_steps", put("static.txt", total_steps=25)),
    (((100, 50),) * 100, "continuous.txt", "output tokens / (16 slots", put("continuous.txt", slot_util="0.8831")),
    (((100, 50),) * 100, "static.txt", "other requests", put("static.txt", throughput_tps=times(1.0002))),
], ids=["a smaller one misses", "none meets", "one request", "equal lengths", "equal throughputs"])
def test_what_follows_from_odd_requests_is_still_checked(tmp_path, requests, file, phrase, plant):
    lab = graded_odd(tmp_path, requests, plant)
    assert any(failure.file == file and phrase in failure.text for failure in lab.failures), failing(lab)


def test_waits_that_cannot_rise_are_said(tmp_path):
    plant = column("queue.csv", "p99_wait_ms", lambda old: f"{float(old):.3g}")
    lab = graded_odd(tmp_path, ((10**9, 1),) * 2, plant)
    assert not lab.failures, failing(lab)
    assert any("on these requests it cannot" in note for note in lab.notes), lab.notes


def test_a_throughput_that_rounds_to_nothing_checks_no_speedup(tmp_path):
    lab = graded_odd(tmp_path, ((10**9, 1),) * 2, put("compare.txt", speedup="1.500"))
    assert not lab.failures, failing(lab)
    assert any("speedup cannot be checked" in note for note in lab.notes)


def test_the_mean_is_recognised_where_it_meets_the_target_to_the_end_of_the_scan(six, tmp_path):
    file = tmp_path / "requests.json"
    file.write_text(json.dumps([{"prompt_tokens": 20, "output_tokens": tokens} for tokens in (1, 2, 3)] * 1000))
    lab = Lab(write(tmp_path / "results", six), file)
    scan = Scan(lab)
    assert scan.up_to == 256  # whose first burst is 256 x 1 ms + 8 ms, for more than 1 in 100
    assert misjudged(scan, lab.replays, 256, Tuning()) == "the mean was used instead of the p99"


# --- the command --------------------------------------------------------------------------------------------------


def test_the_command_to_rerun_is_complete(six, tmp_path):
    """Whoever obeys it writes the same file again, from the same requests, and grades that."""
    mine, right = tmp_path / "my requests.json", write(tmp_path / "right", six)
    mine.write_text(json.dumps([{"prompt_tokens": 1, "output_tokens": 1}]))
    for lab, rerun in (
        (Lab(LAB), "python3 lb2/cost.py, then make grade"),
        (Lab(LAB, mine), f"python3 lb2/cost.py --requests '{mine}', then make grade 'REQUESTS={mine}'"),
        (Lab(right), f"the program that wrote it (here: python3 lb2/cost.py), then make grade OUT={right}"),
    ):
        lab.wrong("cost.txt", "", "", "", "", "")
        assert lab.failures[-1].text.split("rerun:     ")[1] == rerun
    none = tmp_path / "none"
    with pytest.raises(Ungradable, match=f"make all OUT={none}, then make grade OUT={none}"):
        Lab(none)


def test_what_was_found_is_quoted_and_cut_short(six, tmp_path):
    lab = graded(write(tmp_path, text("maxseqs.txt", lambda old: "5\u00b7" + "!" * 100 + "\n" + old)(six)))
    (failure,) = lab.failures
    assert f"got:       '5\\xb7{'!' * 51}...\n" in failure.text


@pytest.mark.parametrize("written, exact, agrees", [
    ("0.25", "0.2502", True),
    ("0.25", "0.2599", True),  # cut off
    ("0.26", "0.2551", True),  # rounded
    ("0.26", "0.2549", False),
    ("0.25", "0.2601", False),
    ("1.5e3", "1512", True),
    ("1709.5500000000002", "1709.55", True),
    ("1709.55001", "1709.55", False),
    ("1709.54", "1709.55", True),  # cut off a float just below
])
def test_a_written_number_stands_for_what_it_may_have_been(written, exact, agrees):
    assert number_of("", written, 2).agrees(Fraction(exact)) is agrees


@pytest.mark.parametrize("written, exact, decimals, says", [
    ("1.0", "1.04", 3, True),
    ("1", "1.04", 3, False),  # one digit, where the exercise asks for three decimals
    ("1", "1", 3, True),
    ("0.0003", "0.00031", 4, True),  # one digit, but all the decimals that are asked for
    ("0.00", "0.00002", 2, True),
    ("0.0", "0.0311", 2, False),
    ("5036", "5036", 0, True),
    ("5036", "5035.8", 0, False),  # a count is exact
])
def test_a_written_number_has_digits_enough(written, exact, decimals, says):
    assert number_of("", written, decimals).says(Fraction(exact), decimals) is says


def make_grade(out, requests=""):
    """Grade from the command line, whatever make started these tests."""
    environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL")}
    command = ["make", "grade", f"OUT={out}", f"REQUESTS={requests}", f"PYTHON={sys.executable}"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", timeout=60)


def test_make_grade_passes_and_says_what_it_recognised(six, tmp_path):
    before = (ROOT / ".benchmarks").exists()
    done = make_grade(write(tmp_path / "two words \u00e9", put("static.txt", note="mine")(six)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"  static.txt, compare.txt: {PLAIN}.\n" in done.stdout
    assert "Notes\n  static.txt: further keys, not looked at: 'note'.\n" in done.stdout
    assert all(len(line) <= 100 for line in done.stdout.splitlines()), done.stdout
    assert (ROOT / ".benchmarks").exists() is before


def test_make_grade_fails_and_says_what_is_wrong(eight, tmp_path):
    done = make_grade(write(tmp_path, mean_for_p99(eight)))
    assert done.returncode == 2  # make says 2 of whatever status
    assert "file:      tune.txt, max_concurrency" in done.stdout
    assert "likely:    the mean was used instead of the p99" in done.stdout
    assert done.stdout.count("file: ") == 1
    assert "Error" not in done.stdout  # no traceback around it


def test_the_labs_own_results_pass(tmp_path):
    for name in STEPS:
        with patch.object(sys, "argv", [f"{name}.py", "--out", str(tmp_path)]):
            import_module(name).main()
    lab = graded(tmp_path)
    assert not lab.failures, failing(lab)
    assert not lab.notes
    assert "static.txt, continuous.txt, compare.txt: " + PLAIN + "." in lab.recognised
    assert any(line.startswith("queue.csv: 32 slots, step by step; prompts") for line in lab.recognised)


# --- what cannot be read ------------------------------------------------------------------------------------------


def loop(path):
    path.symlink_to(path.name)
    return path


def pipe(path):
    os.mkfifo(path)
    return path


def closed_folder(path):
    path.mkdir()
    path.chmod(0)
    return path


def folder(path):
    path.mkdir()
    return path


STRANGE = {  # name: (makes it, what is said)
    "a link loop": (loop, "symbolic links"),
    "a long name": (lambda path: path.with_name("x" * 300), "File name too long"),
    "nothing": (lambda path: path, "No such file"),
    "a file below a file": (lambda path: SHIPPED / "below", "Not a directory"),
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_folder_that_cannot_be_graded_is_reported(tmp_path, name):
    make, said = STRANGE[name]
    with pytest.raises(Ungradable, match=said):
        Lab(make(tmp_path / "strange"))


@pytest.mark.parametrize("name", STRANGE)
def test_requests_that_cannot_be_read_are_reported(six, tmp_path, name):
    make, said = STRANGE[name]
    with pytest.raises(Ungradable, match=said):
        Lab(write(tmp_path / "right", six), make(tmp_path / "strange"))


@pytest.mark.parametrize("make, said", [(pipe, "a pipe"), (folder, "a folder")])
def test_requests_that_are_no_file_are_reported(six, tmp_path, make, said):
    with pytest.raises(Ungradable, match=said):
        Lab(write(tmp_path / "right", six), make(tmp_path / "strange"))


def test_results_in_a_file_are_reported():
    with pytest.raises(Ungradable, match="not a folder"):
        Lab(SHIPPED)


def test_an_empty_list_of_requests_is_reported(six, tmp_path):
    (tmp_path / "requests.json").write_text("[]")
    with pytest.raises(Ungradable, match="file:      REQUESTS\n.*empty"):
        Lab(write(tmp_path / "right", six), tmp_path / "requests.json")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_a_folder_that_may_not_be_entered_is_reported(tmp_path):
    with pytest.raises(Ungradable, match="Permission denied"):
        Lab(closed_folder(tmp_path / "closed"))


@pytest.mark.parametrize("make, said", [
    (loop, "symbolic links"),
    (pipe, "a pipe or a device of that name"),
    (folder, "a folder of that name"),
    (lambda path: path.write_bytes("total_steps=1".encode("utf-16")), "saved as UTF-16"),
    (lambda path: path.symlink_to("/dev/zero"), "a pipe or a device"),
], ids=["a link loop", "a pipe", "a folder", "UTF-16", "a device"])
def test_a_result_that_cannot_be_read_is_reported(eight, tmp_path, make, said):
    for name in ("static.txt", "tune.csv"):
        right = write(tmp_path / name.replace(".", "_"), eight)
        (right / name).unlink()
        make(right / name)
        (failure,) = graded(right).failures
        assert failure.file == name and said in failure.text
        says_six_things(failure.text)


def test_make_grade_reports_what_cannot_be_graded_once(six, tmp_path):
    done = make_grade(write(tmp_path / "right", six), tmp_path / "nowhere.json")
    assert done.returncode == 2  # make says 2 of whatever status
    assert words(done.stdout).count("nowhere.json: No such file") == 1, "whatever the length of the folder that precedes it"
    assert "Traceback" not in done.stdout
