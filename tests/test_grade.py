"""The grader tells wrong results from right ones: planted mistakes are each named, other ways to be right all pass."""

import json
import os
import shutil
import subprocess
import sys
from fractions import Fraction
from importlib import import_module
from unittest.mock import patch

import continuous
import grade
import pytest
import static
from common import load_requests
from fixture import RESULTS, ROOT, SHIPPED, STEPS, read_pairs
from result_files import number_of

REQUESTS = load_requests(SHIPPED)
OUTPUTS = REQUESTS.output_tokens
TOKENS = sum(OUTPUTS)
BATCHES = [OUTPUTS[start : start + 16] for start in range(0, len(OUTPUTS), 16)]  # six full ones, then 4 requests
STATIC_STEPS = sum(map(max, BATCHES))


def step(name, folder, *options):
    """Run a step in this process: forty of them are run below."""
    with patch.object(sys, "argv", [f"{name}.py", "--out", str(folder), *map(str, options)]):
        import_module(name).main()


def solve(folder, *options):
    for name in STEPS:
        step(name, folder, *options)
    return folder


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """The folder of our own results; only to be copied."""
    return solve(tmp_path_factory.mktemp("right"))


@pytest.fixture
def copy(right, tmp_path):
    return shutil.copytree(right, tmp_path / "results")


@pytest.fixture(scope="module")
def replays():
    """One memory of the reference for all sets, which are about the same requests."""
    return {}


def findings(folder, replays=None, requests=SHIPPED):
    """([(file, check, failure)], [reason of a skip]) of all checks."""
    lab, failures, skips = grade.Lab(folder, requests), [], []
    if replays is not None:
        lab.replays = replays
    for name, check in grade.CHECKS:
        try:
            check(lab, name)
        except pytest.fail.Exception as failure:
            failures.append((name, check, failure.msg))
        except pytest.skip.Exception as skip:
            skips.append(skip.msg)
    return failures, skips


# --- ways to change a right set: each takes what to change, and gives a function of the folder ----------------------


def text(name, change):
    def plant(folder):
        changed = change((folder / name).read_bytes().decode())
        (folder / name).write_bytes(changed.encode())
    return plant


def put(name, **values):
    """Pairs get new values, or functions of the old ones."""
    def change(old):
        pairs = dict(pair.split("=") for pair in old.split())
        for key, value in values.items():
            pairs[key] = value(pairs[key]) if callable(value) else value
        return " ".join(f"{key}={value}" for key, value in pairs.items()) + "\n"
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


def times(factor):
    return lambda old: f"{float(old) * factor:.6f}"


def misordered(rows):
    return [rows[0], rows[2], rows[1], *rows[3:]]


def swap(one, other):
    def plant(folder):
        texts = (folder / one).read_bytes(), (folder / other).read_bytes()
        (folder / other).write_bytes(texts[0])
        (folder / one).write_bytes(texts[1])
    return plant


def curve(folder):
    """[[concurrency, mean_ttft_ms, p99_ttft_ms, throughput_tps] as text], concurrency 1 first."""
    return [line.split(",") for line in (folder / "tune.csv").read_text().splitlines()[1:]]


def answer(concurrency):
    """tune.txt says another concurrency, and the throughput that belongs to that one."""
    def plant(folder):
        tps = curve(folder)[min(concurrency, len(curve(folder))) - 1][3]
        put("tune.txt", max_concurrency=concurrency, throughput_at_target=tps)(folder)
    return plant


def mean_for_p99(folder):
    answer(sum(float(mean) <= 200 for _, mean, _, _ in curve(folder)))(folder)


def free_prefill_tps(slots, schedule=continuous.schedule):
    played = schedule(REQUESTS, slots, prefill_us=lambda tokens: 0)
    return f"{TOKENS * 1e6 / max(played.finished_us):.2f}"


def free_prefill(folder):
    """A whole set whose throughputs leave prefill out; TTFT still counts it."""
    slow, fast = free_prefill_tps(16, static.schedule), free_prefill_tps(16)
    put("static.txt", throughput_tps=slow)(folder)
    put("continuous.txt", throughput_tps=fast)(folder)
    put("compare.txt", static_tps=slow, continuous_tps=fast, speedup=f"{float(fast) / float(slow):.3f}")(folder)
    concurrency = int(read_pairs(folder / "tune.txt")["max_concurrency"])
    put("tune.txt", throughput_at_target=free_prefill_tps(concurrency))(folder)
    rows = [[*row[:3], free_prefill_tps(int(row[0]))] for row in curve(folder)]
    table("tune.csv", lambda old: [old[0], *rows])(folder)


def queue_swapped(rows):
    return [rows[0], *([rps, wait, queue] for rps, queue, wait in rows[1:])]


def sevens(rows):
    """Right at the ends and around the answer, and anything between."""
    return [
        row if row[0] in ("concurrency", "1", "14", "15", "100") else [row[0], "7.00", "7.00", "7.00"] for row in rows
    ]


def free_ttft(*keys):
    def plant(folder):
        for key in keys:
            column("tune.csv", key, lambda old: "8.00")(folder)
    return plant


def free_prefill_but_compare(folder):
    kept = (folder / "compare.txt").read_bytes()
    free_prefill(folder)
    (folder / "compare.txt").write_bytes(kept)


def other_requests(folder):
    (folder / "other.json").write_text(json.dumps(json.loads(SHIPPED.read_text())[::-1]))
    step("compare", folder, "--requests", folder / "other.json")


def slow_continuous(folder):
    """Refilling gains too little, and compare.txt repeats that faithfully."""
    fast = f"{1.78 * float(read_pairs(folder / 'static.txt')['throughput_tps']):.2f}"
    put("continuous.txt", throughput_tps=fast)(folder)
    put("compare.txt", continuous_tps=fast, speedup="1.780")(folder)


def remove(name):
    return lambda folder: (folder / name).unlink()


def utf_16(folder):
    (folder / "static.txt").write_bytes((folder / "static.txt").read_text().encode("utf-16"))


def folder_for_file(folder):
    (folder / "tune.txt").unlink()
    (folder / "tune.txt").mkdir()


SWAPPED = "static and continuous are swapped: this is what belongs"
PLANTED = {  # name: (the file at fault, and those that cannot but disagree with it; what must be said; how to plant it)
    "swapped sets": ("static.txt continuous.txt compare.txt", SWAPPED, swap("static.txt", "continuous.txt")),
    "static steps in continuous": ("continuous.txt", SWAPPED, put("continuous.txt", total_steps=STATIC_STEPS)),
    "full batches only": (
        "static.txt",
        "the last part-filled batch was not counted",
        put("static.txt", total_steps=STATIC_STEPS - max(BATCHES[-1])),
    ),
    "batches for steps": ("static.txt", "batches were counted", put("static.txt", total_steps=len(BATCHES))),
    "first token from prefill": (
        "static.txt",
        "first token comes from a decode iteration",
        put("static.txt", total_steps=STATIC_STEPS - len(BATCHES)),
    ),
    "prefill as a step": (
        "static.txt",
        "prefill is part of an iteration",
        put("static.txt", total_steps=STATIC_STEPS + len(BATCHES)),
    ),
    "one at a time": ("continuous.txt", "one request was served at a time", put("continuous.txt", total_steps=TOKENS)),
    "a step too few": ("static.txt", "tokens lost", put("static.txt", total_steps=STATIC_STEPS - 1)),
    "a fraction of a step": ("static.txt", "a whole number", put("static.txt", total_steps=STATIC_STEPS + 0.5)),
    "32 slots": (
        "continuous.txt compare.txt",
        "32 slots instead of 16",
        lambda folder: step("continuous", folder, "--max-num-seqs", 32),
    ),
    "last slots left out": (
        "static.txt",
        "slots of the last part-filled batch were left out",
        put("static.txt", slot_util=TOKENS / sum(len(batch) * max(batch) for batch in BATCHES)),
    ),
    "used slots only": ("continuous.txt", "slots that nobody used", put("continuous.txt", slot_util="1.0000")),
    "util of continuous": (
        "static.txt",
        SWAPPED,
        lambda folder: put("static.txt", slot_util=read_pairs(folder / "continuous.txt")["slot_util"])(folder),
    ),
    "util in percent": ("continuous.txt", "a percentage", put("continuous.txt", slot_util=times(100))),
    "idle share": ("static.txt", "the idle share", put("static.txt", slot_util=lambda old: f"{1 - float(old):.4f}")),
    "nothing wasted": ("static.txt", "before its whole batch had ended", put("static.txt", slot_util="0.7012")),
    "tokens per ms": (
        "static.txt compare.txt",
        "tokens per millisecond",
        put("static.txt", throughput_tps=times(0.001)),
    ),
    "ms taken for s": (
        "static.txt compare.txt",
        "a time in milliseconds",
        put("static.txt", throughput_tps=times(1000)),
    ),
    "requests per second": (
        "continuous.txt compare.txt",
        "requests per second",
        put("continuous.txt", throughput_tps=times(len(OUTPUTS) / TOKENS)),
    ),
    "prompt tokens counted": (
        "continuous.txt compare.txt",
        "prompt tokens were counted",
        put("continuous.txt", throughput_tps=times((TOKENS + sum(REQUESTS.prompt_tokens)) / TOKENS)),
    ),
    "one digit of throughput": ("static.txt", "too few digits", put("static.txt", throughput_tps="5e2")),
    "other requests compared": ("compare.txt", "made from other requests", other_requests),
    "compared with prefill": ("compare.txt", "in one of the two files only", free_prefill_but_compare),
    "compared the wrong way": (
        "compare.txt",
        "static and continuous are swapped",
        put("compare.txt", static_tps="1231.32", continuous_tps="480.05"),
    ),
    "compared at twice the slots": (
        "compare.txt", "made from other requests",
        put("compare.txt", static_tps="1231.32", continuous_tps="2462.64", speedup="2.000")),
    "static.txt at fault": (
        "compare.txt static.txt",
        "static.txt is the wrong one",
        put("static.txt", throughput_tps="500.00"),
    ),
    "speedup not the ratio": ("compare.txt", "from another run", put("compare.txt", speedup="2.400")),
    "speedup upside down": ("compare.txt", "upside down", put("compare.txt", speedup=lambda old: 1 / float(old))),
    "speedup in percent": ("compare.txt", "a percentage, not a factor", put("compare.txt", speedup=times(100))),
    "gain in percent": ("compare.txt", "a percentage, not a factor", put("compare.txt", speedup="156.5")),
    "gain for speedup": ("compare.txt", "the gain", put("compare.txt", speedup=lambda old: float(old) - 1)),
    "one digit compared": ("compare.txt", "too few digits", put("compare.txt", static_tps="5e2", speedup="2.5")),
    "one digit of speedup": ("compare.txt", "too few digits", put("compare.txt", speedup="3")),
    "no throughput right": (
        "compare.txt static.txt continuous.txt tune.txt",
        "at least 1.8",
        lambda folder: (
            slow_continuous(folder),
            put("static.txt", throughput_tps="777")(folder),
            put("tune.txt", throughput_at_target="777")(folder),
        ),
    ),
    "small speedup": ("compare.txt continuous.txt", "at least 1.8", slow_continuous),
    "limit of 16": (
        "maxseqs.txt",
        "the batch size of steps 1 to 4",
        lambda folder: step("maxseqs", folder, "--max-num-seqs", 16),
    ),
    "peak above limit": ("maxseqs.txt", "beyond the free slots", put("maxseqs.txt", peak_running=33)),
    "half a sequence": ("maxseqs.txt", "a whole number", put("maxseqs.txt", peak_running="31.5")),
    "peak of nothing": ("maxseqs.txt", "after the finished ones had left", put("maxseqs.txt", peak_running=0)),
    "rates out of order": ("queue.csv", "rows out of order: rates rise", table("queue.csv", misordered)),
    "rate left out": ("queue.csv", "a row is missing", table("queue.csv", lambda rows: rows[:-1])),
    "rate twice": ("queue.csv", "a rate is there twice", table("queue.csv", lambda rows: rows + rows[-1:])),
    "rates doubled": ("queue.csv", "other rates were run", column("queue.csv", "rps", times(2))),
    "rates quoted": ("queue.csv", "got:       10 20 40 80", column("queue.csv", "rps", times(2))),
    "waits out of order": (
        "queue.csv",
        "p99_wait_ms rises strictly",
        table("queue.csv", lambda rows: [[*row[:2], wait[2]] for row, wait in zip(rows, misordered(rows))]),
    ),
    "waits that stay": (
        "queue.csv",
        "p99_wait_ms rises strictly",
        table("queue.csv", lambda rows: [*rows[:2], [*rows[2][:2], rows[1][2]], *rows[3:]]),
    ),
    "waits in s": ("queue.csv", "at rps=40\ngot:       2.775355\n", column("queue.csv", "p99_wait_ms", times(0.001))),
    "queue and wait swapped": ("queue.csv", "avg_queue and p99_wait_ms are swapped", table("queue.csv", queue_swapped)),
    "queue of everybody": (
        "queue.csv",
        "the queue counts those that run",
        column("queue.csv", "avg_queue", times(9000)),
    ),
    "a curve of sevens": ("tune.csv", "only its own prefill was counted", table("tune.csv", sevens)),
    "commas alone": (
        "queue.csv",
        "every value was empty",
        lambda folder: (folder / "queue.csv").write_text(",,\n,,\n"),
    ),
    "waits in us": ("queue.csv", "the waits are in microseconds", column("queue.csv", "p99_wait_ms", times(1000))),
    "negative queue": ("queue.csv", "a number from 0 up", column("queue.csv", "avg_queue", times(-1))),
    "prefill in s": ("cost.txt", "in seconds", put("cost.txt", total_prefill_ms=times(0.001))),
    "decode in us": ("cost.txt", "in microseconds", put("cost.txt", total_decode_ms=times(1000))),
    "decode of batches": ("cost.txt", "batching shares the decode", put("cost.txt", total_decode_ms=1833 * 8)),
    "prefill for decode": (
        "cost.txt",
        "prefill and decode are swapped",
        lambda folder: put("cost.txt", total_decode_ms=read_pairs(folder / "cost.txt")["total_prefill_ms"])(folder),
    ),
    "decode for prefill": (
        "cost.txt",
        "prefill and decode are swapped",
        lambda folder: put("cost.txt", total_prefill_ms=read_pairs(folder / "cost.txt")["total_decode_ms"])(folder),
    ),
    "decode shared": ("cost.txt", "batching shares the decode", put("cost.txt", decode_share="0.8956")),
    "share in percent": ("cost.txt", "a percentage", put("cost.txt", decode_share=times(100))),
    "decode over prefill": ("cost.txt", "decode / prefill, not", put("cost.txt", decode_share="94.3453")),
    "share of prefill": ("cost.txt", "share of prefill", put("cost.txt", decode_share="0.0105")),
    "percent sign": ("cost.txt", "a percentage", put("cost.txt", decode_share="98.95%")),
    "target in s": ("tune.txt", "in seconds", put("tune.txt", target_ttft_ms="0.2")),
    "mean for p99": ("tune.txt tune.csv", "the mean was used instead of the p99", mean_for_p99),
    "mean for p99, no prefill cost": (
        "tune.txt tune.csv",
        "the mean was used instead of the p99",
        lambda folder: (mean_for_p99(folder), free_prefill(folder)),
    ),
    "half a client": ("tune.txt", "a whole number", put("tune.txt", max_concurrency="14.5")),
    "too low": ("tune.txt tune.csv", "not the largest", answer(12)),
    "the first miss": ("tune.txt tune.csv", "the first concurrency that misses", answer(15)),
    "TTFT from time 0": (
        "tune.txt tune.csv",
        "counted from time 0",
        put("tune.txt", max_concurrency=0, throughput_at_target="0.00"),
    ),
    "own prefill only": ("tune.txt tune.csv", "the prefill of all admitted in it", answer(100)),
    "beyond the scan": ("tune.txt tune.csv", "the scan ends at 100", answer(101)),
    "throughput of 16": (
        "tune.txt",
        "the throughput of 16 slots",
        lambda folder: put("tune.txt", throughput_at_target=curve(folder)[15][3])(folder),
    ),
    "mixed cost models": (
        "tune.txt",
        "two cost models are mixed",
        put("tune.txt", throughput_at_target=free_prefill_tps(14)),
    ),
    "curve out of order": ("tune.csv", "rows out of order", table("tune.csv", misordered)),
    "curve to the miss": ("tune.csv", "the scan stopped early", table("tune.csv", lambda rows: rows[:16])),
    "curve too long": ("tune.csv", "the scan went past", table("tune.csv", lambda rows: [*rows, [101, *rows[-1][1:]]])),
    "every other row": ("tune.csv", "steps other than 1", table("tune.csv", lambda rows: [rows[0], *rows[1::2]])),
    "columns swapped": (
        "tune.csv",
        "the mean and the p99 are swapped",
        table("tune.csv", lambda rows: [rows[0], *([n, p99, mean, tps] for n, mean, p99, tps in rows[1:])]),
    ),
    "one digit in the curve": (
        "tune.csv",
        "another cost model than in the other files",
        table("tune.csv", lambda rows: [*rows[:14], [*rows[14][:3], "1e3"], *rows[15:]]),
    ),
    "no rows": ("queue.csv", "a row is missing", table("queue.csv", lambda rows: rows[:1])),
    "no curve": ("tune.csv", "the scan stopped early", table("tune.csv", lambda rows: rows[:1])),
    "TTFT in s": ("tune.csv", "in seconds", column("tune.csv", "mean_ttft_ms", times(0.001))),
    "TTFT without prefill": ("tune.csv", "prefill is left out", free_ttft("mean_ttft_ms", "p99_ttft_ms")),
    "mean TTFT without prefill": (
        "tune.csv",
        "prefill is left out",
        lambda folder: (free_prefill(folder), free_ttft("mean_ttft_ms")(folder)),
    ),
    "a p99 too low": (
        "tune.csv",
        "requests were taken in another order",
        table("tune.csv", lambda rows: [*rows[:14], [*rows[14][:2], "180.00", rows[14][3]], *rows[15:]]),
    ),
    "curve of another run": (
        "tune.csv",
        "another run than this curve",
        table("tune.csv", lambda rows: [*rows[:9], [*rows[9][:2], "250.00", rows[9][3]], *rows[10:]]),
    ),
    "curve without prefill": (
        "tune.csv",
        "another cost model than in the other files",
        table("tune.csv", lambda rows: [*rows[:14], [*rows[14][:3], free_prefill_tps(14)], *rows[15:]]),
    ),
    "wrong header": (
        "queue.csv",
        "the header is missing",
        text("queue.csv", lambda old: old.replace("wait_ms", "wait (ms)")),
    ),
    "semicolons": ("tune.csv", "not separated by commas", text("tune.csv", lambda old: old.replace(",", ";"))),
    "row cut short": (
        "queue.csv",
        "file:      queue.csv, row 4\n",
        text("queue.csv", lambda old: old.rpartition(",")[0]),
    ),
    "a huge cell": ("queue.csv", "another format under the name", text("queue.csv", lambda old: old + "1" * 200_000)),
    "key twice": ("static.txt", "appended to instead of written anew", text("static.txt", lambda old: old * 2)),
    "misspelt key": ("cost.txt", "an unknown key", text("cost.txt", lambda old: old.replace("share", "ratio"))),
    "key too few": ("cost.txt", "the key is missing", text("cost.txt", lambda old: old.rpartition(" ")[0])),
    "a heading": ("maxseqs.txt", "a heading, a unit or a message", text("maxseqs.txt", lambda old: "Step 5\n" + old)),
    "a blank before =": ("maxseqs.txt", "blanks around =", text("maxseqs.txt", lambda old: old.replace("=", " ="))),
    "a blank after =": ("maxseqs.txt", "blanks around =", text("maxseqs.txt", lambda old: old.replace("=", "= "))),
    "commas": ("compare.txt", "pairs are separated by blanks", text("compare.txt", lambda old: old.replace(" ", ", "))),
    "a unit": ("tune.txt", "a unit, or a message", put("tune.txt", target_ttft_ms="200ms")),
    "NaN in a pair": ("continuous.txt", "NaN or infinity", put("continuous.txt", throughput_tps="nan")),
    "infinity in a cell": ("queue.csv", "NaN or infinity", column("queue.csv", "avg_queue", lambda old: "inf")),
    "UTF-16": ("static.txt", "saved as UTF-16", utf_16),
    "a folder": ("tune.txt", "a folder of that name", folder_for_file),
}
PLANTED |= {f"missing {file}": (file, "no such file", remove(file)) for file in RESULTS}
PLANTED |= {f"empty {file}": (file, "an empty file", text(file, lambda old: "\n")) for file in RESULTS}


@pytest.fixture(scope="module")
def found(right, replays, tmp_path_factory):
    """The failures of each planted set."""
    failures = {}
    for name, (_, _, plant) in PLANTED.items():
        folder = shutil.copytree(right, tmp_path_factory.mktemp("planted") / "results")
        plant(folder)
        failures[name], _ = findings(folder, replays)
    return failures


def named_by(failures, file, phrase):
    """The checks whose failure names this file and this mistake."""
    return [(name, check) for name, check, message in failures
            if message.startswith((f"file:      {file},", f"file:      {file}\n")) and phrase in message]


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_named_and_nobody_else_is_blamed(found, name):
    files, phrase, _ = PLANTED[name]
    messages = "\n\n".join(message for *_, message in found[name])
    assert named_by(found[name], files.split()[0], phrase), messages
    assert {check_of for check_of, *_ in found[name]} == set(files.split()), messages


def test_every_check_is_the_only_one_to_name_some_mistake(found):
    """So that removing any of them lets a planted mistake pass unnamed."""
    needed = set()
    for name, (files, phrase, _) in PLANTED.items():
        named = named_by(found[name], files.split()[0], phrase)
        needed |= set(named) if len(named) == 1 else set()
    assert needed == set(grade.CHECKS)


def test_every_failure_says_six_things(found):
    labels = ["file:", "got:", "expected:", "rule:", "likely:", "rerun:"]
    for name, failures in found.items():
        for *_, message in failures:
            lines = message.split("\n")
            assert [line.split()[0] for line in lines] == labels, name
            assert all(line[10:].strip() for line in lines), name
            assert "make grade 'OUT=" in lines[-1] or "make grade OUT=" in lines[-1], name


# --- other ways to be right ---------------------------------------------------------------------------------------


def each(change):
    def plant(folder):
        for name in RESULTS:
            text(name, change)(folder)
    return plant


def fewer_decimals(folder):
    """Some rounded, some cut off."""
    put("static.txt", throughput_tps=lambda old: f"{float(old):.0f}", slot_util="0.25")(folder)
    put("continuous.txt", throughput_tps=lambda old: old[:-1], slot_util=lambda old: old[:-2])(folder)
    put("compare.txt", static_tps=lambda old: old[:-1], speedup=lambda old: old[:-1])(folder)
    put("cost.txt", total_prefill_ms=lambda old: old[:-3], total_decode_ms=lambda old: f"{float(old):.0f}")(folder)
    put("tune.txt", target_ttft_ms="200", throughput_at_target=lambda old: f"{float(old):.0f}")(folder)
    column("tune.csv", "p99_ttft_ms", lambda old: f"{float(old):.1f}")(folder)
    column("queue.csv", "rps", lambda old: old + ".0")(folder)


def more_decimals(folder):
    steps = {name: float(read_pairs(folder / f"{name}.txt")["total_steps"]) for name in ("static", "continuous")}
    tps = {name: TOKENS / (n * 0.008 + sum(REQUESTS.prompt_tokens) * 0.00005) for name, n in steps.items()}
    for name, n in steps.items():
        put(f"{name}.txt", total_steps=n, throughput_tps=tps[name], slot_util=TOKENS / 16 / n)(folder)
    put("compare.txt", static_tps=tps["static"], continuous_tps=tps["continuous"],
        speedup=tps["continuous"] / tps["static"])(folder)
    prefill, decode = sum(tokens * 0.05 for tokens in REQUESTS.prompt_tokens), sum(tokens * 8.0 for tokens in OUTPUTS)
    put("cost.txt", total_prefill_ms=prefill, total_decode_ms=decode, decode_share=decode / (prefill + decode))(folder)


def free_prefill_everywhere(folder):
    """TTFT leaves prefill out too, so that every concurrency meets the target."""
    put("tune.txt", max_concurrency=len(OUTPUTS))(folder)
    free_prefill(folder)
    free_ttft("mean_ttft_ms", "p99_ttft_ms")(folder)


RIGHT = {
    "as it is": lambda folder: None,
    "fewer decimals": fewer_decimals,
    "more decimals": more_decimals,
    "a pair a line": each(lambda old: old.replace(" ", "\n")),
    "another order of keys": each(lambda old: " ".join(old.split()[::-1]) if "=" in old else old),
    "CRLF and trailing blanks": each(lambda old: old.replace("\n", "  \r\n") + "\r\n"),
    "blanks around cells": each(lambda old: old.replace(",", " , ")),
    "byte-order mark": each(lambda old: "\ufeff" + old),
    "no prefill cost": free_prefill,
    "no prefill cost in TTFT either": free_prefill_everywhere,
    "another draw of arrivals": column("queue.csv", "p99_wait_ms", lambda old: f"{float(old) * 0.7:.3f}"),
    "a lower peak": put("maxseqs.txt", peak_running=29),
}


@pytest.mark.parametrize("name", RIGHT)
def test_another_way_to_be_right_passes(copy, replays, name):
    RIGHT[name](copy)
    failures, skips = findings(copy, replays)
    assert not failures, failures[0][2]
    assert not skips


def records(*pairs):
    return [{"prompt_tokens": prompt, "output_tokens": output} for prompt, output in pairs]


DIPPING = records((500, 1), (1000, 5), (2000, 1), (3000, 5), (500, 6), (2000, 6), (500, 2), (2000, 5), (3000, 5))
SLOTS_ARE_USED, NO_SPEEDUP = "slot_util < 0.7 cannot hold", "speedup >= 1.8 cannot hold"
NO_WAITS, NO_UNIT = "p99_wait_ms cannot rise with every rate", "the unit of p99_wait_ms cannot be told"
ODD = {  # name: (requests, the conditions that cannot hold)
    "one request": (records((100, 20)), [NO_SPEEDUP, NO_WAITS, NO_UNIT]),
    "one that misses the target": (records((4000, 20)), [NO_SPEEDUP, NO_WAITS, NO_UNIT]),
    "three requests": (records((100, 1), (200, 3), (100, 2)), [NO_SPEEDUP, NO_UNIT]),
    "equal lengths": (records((100, 50)) * 100, [SLOTS_ARE_USED, NO_SPEEDUP, NO_UNIT]),
    "enormous prompts": (records((10**9, 1)) * 2, ["speedup cannot be checked", NO_SPEEDUP]),
    "a p99 that dips": (DIPPING, [NO_SPEEDUP, NO_UNIT]),
}


@pytest.fixture
def graded(tmp_path):
    """Solves a list of requests, changes the results, and gives the findings."""
    def grade_changed(requests, plant=lambda folder: None):
        (tmp_path / "requests.json").write_text(json.dumps(requests))
        plant(solve(tmp_path, "--requests", tmp_path / "requests.json"))
        return findings(tmp_path, requests=tmp_path / "requests.json")
    return grade_changed


@pytest.mark.parametrize("name", ODD)
def test_a_condition_that_cannot_hold_is_skipped(graded, name):
    requests, reasons = ODD[name]
    failures, skips = graded(requests)
    assert not failures, failures[0][2]
    assert len(skips) == len(reasons) and all(map(str.startswith, skips, reasons)), skips


@pytest.mark.parametrize("requests, file, phrase, plant", [
    (DIPPING, "tune.txt", "misses: bisection", answer(3)),  # p99 at 1, 2, 3: 158, 258, 183 ms
    (records((4000, 20)), "tune.txt", "0 (1 misses: p99 TTFT 208.00 ms", answer(1)),
    (records((100, 20)), "static.txt", "total_steps", put("static.txt", total_steps=21)),
    (records((100, 50)) * 100, "continuous.txt", "total_steps that is wrong itself",
     put("continuous.txt", slot_util="0.8931")),
    (records((100, 50)) * 100, "static.txt", "another cost model, or other requests",
     put("static.txt", throughput_tps=lambda old: float(old) * 1.0002)),
], ids=["a smaller one misses", "none meets", "one request", "equal lengths", "equal throughputs"])
def test_what_follows_from_odd_requests_is_still_checked(graded, requests, file, phrase, plant):
    failures, _ = graded(requests, plant)
    assert named_by(failures, file, phrase)


def test_the_mean_is_recognised_where_it_meets_the_target_to_the_end_of_the_scan(right, tmp_path):
    (tmp_path / "requests.json").write_text(json.dumps(records((20, 1), (20, 2), (20, 3)) * 1000))
    lab = grade.Lab(right, tmp_path / "requests.json")
    assert lab.up_to == 256  # whose first burst is 256 x 1 ms + 8 ms, for more than 1 in 100
    assert grade.misjudged(lab, 256, 192) == "the mean was used instead of the p99"


def test_the_command_to_rerun_is_complete(right, tmp_path):
    """Whoever obeys it writes the same file again, from the same requests, and grades that."""
    mine = tmp_path / "my requests.json"
    mine.write_text(json.dumps(records((1, 1))))
    for lab, rerun in (
        (grade.Lab(), "python3 lb2/cost.py, then make grade"),
        (grade.Lab(requests_file=mine), f"python3 lb2/cost.py --requests '{mine}', then make grade 'REQUESTS={mine}'"),
        (
            grade.Lab(right),
            f"the program that wrote it (here: python3 lb2/cost.py), then make grade OUT={right}",
        ),
    ):
        with pytest.raises(pytest.fail.Exception) as failure:
            lab.wrong("cost.txt", "", "", "", "", "")
        assert failure.value.msg.split("rerun:     ")[1] == rerun
    with pytest.raises(pytest.fail.Exception) as failure:
        grade.Lab(tmp_path / "none")
    assert f"make all OUT={tmp_path / 'none'}, then make grade OUT={tmp_path / 'none'}" in failure.value.msg


def test_what_was_found_is_quoted_and_cut_short(copy, replays):
    text("maxseqs.txt", lambda old: "5\u00b7" + "!" * 100 + "\n" + old)(copy)
    (_, _, message), = findings(copy, replays)[0]
    assert f"got:       '5\\xb7{'!' * 51}...\n" in message


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
])
def test_a_written_number_has_digits_enough(written, exact, decimals, says):
    assert number_of("", written, decimals).says(Fraction(exact), decimals) is says


# --- the command --------------------------------------------------------------------------------------------------


def make_grade(out, requests=""):
    """Grade from the command line, whatever make started these tests."""
    environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL")}
    command = ["make", "grade", f"OUT={out}", f"REQUESTS={requests}", f"PYTHON={sys.executable}"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8")


def test_make_grade_passes_and_says_which_cost_model(right, tmp_path):
    folder = shutil.copytree(right, tmp_path / "two words é")
    done = make_grade(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Cost model recognised in the throughputs: with prefill cost" in done.stdout
    assert "SKIPPED" not in done.stdout
    free_prefill(folder)
    assert "Cost model recognised in the throughputs: without prefill cost" in make_grade(folder).stdout


def test_make_grade_fails_and_says_what_is_wrong(copy):
    mean_for_p99(copy)
    done = make_grade(copy)
    assert done.returncode != 0
    assert "file:      tune.txt, max_concurrency" in done.stdout
    assert "likely:    the mean was used instead of the p99" in done.stdout
    assert "2 failed" in done.stdout
    assert "Error" not in done.stdout  # no traceback around it


def test_make_grade_says_what_it_skips(tmp_path):
    (tmp_path / "one.json").write_text(json.dumps(ODD["one request"][0]))
    solve(tmp_path, "--requests", tmp_path / "one.json")
    done = make_grade(tmp_path, tmp_path / "one.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(reason in done.stdout for reason in ODD["one request"][1])


def test_make_grade_reports_bad_requests_once(right, tmp_path):
    done = make_grade(right, tmp_path / "nowhere.json")
    assert done.returncode != 0
    assert done.stdout.count("file:      REQUESTS") == 1 and "1 failed" in done.stdout
    assert done.stdout.count("nowhere.json: No such file") == 1


def test_what_cannot_be_graded_is_reported(right, tmp_path):
    (tmp_path / "requests.json").write_text("[]")
    with pytest.raises(pytest.fail.Exception, match="the list of requests is empty"):
        grade.Lab(right, tmp_path / "requests.json")
    with pytest.raises(pytest.fail.Exception, match="no such folder"):
        grade.Lab(tmp_path / "nowhere")
