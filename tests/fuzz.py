"""Does any script end otherwise than with a result, or with one line and status 2?

Damages small input files of every kind (requests, benchmarks, costs, recorded cases, results for
pictures), gives them and hostile options to every script, and calls these a find: a traceback, more
than so many seconds, more than 1 GB, another status, an error in several lines, a refusal that
leaves files, a result without its files, a row of a request file that is neither used nor said to
be left out.

    python3 tests/fuzz.py --seconds 60 --seed 0        status 1 if there is a find

The scripts run in this process, in a folder of their own that is removed in the end. Only report
and labs do not start other scripts.
"""

import argparse
import contextlib
import csv
import gzip
import importlib
import io
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from copy import deepcopy
from pathlib import Path
from random import Random

from running import command_line
import labs
import report
from running.side_by_side import Result
from files.sources import load_trace

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = ROOT / "fixtures" / "public"
HANG_S = 10
MEMORY = 1 << 30
SCRIPTS = {  # script: how often it is taken
    "static": 8, "continuous": 8, "compare": 8, "maxseqs": 8, "queueing": 4, "cost": 20, "tune": 4, "labs": 0.2,
    "orca_waste": 3, "orca_curves": 2, "orca_homogeneous": 2, "orca_reservation": 3, "orca_lecture": 1, "orca": 0.5,
    "paged": 10, "paged_preemption": 4, "paged_prefix": 4, "paged_chunked": 3, "plan": 8, "calibrate": 16,
    "measured": 8, "pictures": 8, "report": 4, "traces": 20,
}
HOSTILE = [
    None, True, False, 0, 1, -1, 2, 0.5, 1e-320, -0.0, 1e9, 1_000_000_000, 1_000_000_001, 1e308, 1e309, 10**400, -(10**400),
    2**63, float("nan"), float("inf"), "", "7", "\u00b2", "\u0663", "1_000", "1e5", " 5 ", "nan", "x" * 300, "\ud800", "a\nb",
    [], {}, [1], [[]], [None], {"value": 3}, {"": {}}, [1, "a"], [0.001] * 3, [-1], "2023-11-16 18:15:46.68", "9" * 5000,
]
OPTIONS = [
    "", " ", "0", "1", "2", "3", "-1", "7.5", "1e-6", "1e-7", "1e9", "1000000000", "1000000001", "1e400", "nan", "inf",
    "-inf", "none", "99", "99.9", "ms", "s", "--", "-", "-x", "\u00b2", "1_0", "0x10", "9" * 5000, "x" * 5000, "a\nb",
    "\udcff", "caf\u00e9", "%s%n", "{}", "~", "*", "true", "tune.svg", "queue.svg", "slots.svg",
]
PATHS = ["nothing", "folder", "loop", "dangling", "file/below", "x" * 300, "x/" * 3000, "", ".", "/dev/null/x", "caf\udce9",
         "/proc/self/nothing", "new/er"]

POINT = "clients=4 prompt=100 output=20 p50_ttft_ms=34 p50_tpot_ms=8.7 tps=400 requests=8"
CONVERTED = ["a.json", "new/er.json", "folder", "file/below", "x" * 300, "caf\udce9", "", "."]  # --convert overwrites


class Hang(BaseException):
    """A script took too long. (No Exception, so that no script catches it.)"""


# --- undamaged files ------------------------------------------------------------------------------


def shortened(value, most):
    """A JSON value whose lists hold at most so many entries."""
    if isinstance(value, dict):
        return {key: shortened(entry, most) for key, entry in value.items()}
    return [shortened(entry, most) for entry in value[:most]] if isinstance(value, list) else value


def lines_of(records):
    return "".join(json.dumps(record) + "\n" for record in records)


def seeds():
    """{kind: [text, ...]} of small undamaged files."""
    requests = [path.read_text() for path in sorted(PUBLIC.glob("*/*.csv"))]
    runs = []
    for path in sorted([*PUBLIC.glob("*/*.json"), *PUBLIC.glob("*/*.jsonl")]):
        text = path.read_text()
        try:
            text = json.dumps(shortened(json.loads(text), 6))
        except ValueError:
            text = lines_of(shortened(json.loads(line), 6) for line in text.splitlines()[:8])
        (runs if '"itls"' in text else requests).append(text)
    for path in sorted([*ROOT.glob("fixtures/clocked/*.gz"), *ROOT.glob("fixtures/measured/*.gz")]):
        runs.append(json.dumps(shortened(json.loads(gzip.decompress(path.read_bytes())), 5)))
    small = json.loads((ROOT / "fixtures" / "llms" / "requests.json").read_text())[:6]
    rows = [(row["prompt_tokens"], row["output_tokens"]) for row in small]
    requests += [
        json.dumps(small),
        lines_of({**row, "gap": 0.5, "prefixes": [["a", 3], ["b", 5]]} for row in small),
        json.dumps([{**row, "arrival_ms": 100 * i} for i, row in enumerate(small)]),
        "Timestamp,Model,Request tokens,Response tokens,Total tokens\n"
        + "".join(f"{i},x,{p},{o},{p + o}\n" for i, (p, o) in enumerate(rows)),
        "arrived_at,num_prefill_tokens,num_decode_tokens\n" + "".join(f"{i / 4},{p},{o}\n" for i, (p, o) in enumerate(rows)),
        "request_id,arrival_timestamp,prompt_size,token_size\n"
        + "".join(f"{i},{i / 3},{p},{o}\n" for i, (p, o) in enumerate(rows)),
        'TIMESTAMP,ContextTokens,GeneratedTokens,"x, y"\n'
        + "".join(f'2024-05-10 00:0{i}:00.5+00:00,{p},{o},"a, b"\n' for i, (p, o) in enumerate(rows)),
        lines_of({"timestamp": 3000 * i, "input_length": p, "output_length": o, "hash_ids": [0, *range(1, -(-p // 512))]}
                 for i, (p, o) in enumerate(rows)),
        lines_of({"timestamp": i, "input_length": p, "output_length": o, "chat_id": i} for i, (p, o) in enumerate(rows)),
        json.dumps({"benchmarks": [{"requests": {
            "successful": [{"prompt_tokens": p, "output_tokens": o, "request_start_time": i, "request_end_time": i + 0.5,
                            "time_to_first_token_ms": 20} for i, (p, o) in enumerate(rows)],
            "incomplete": [], "errored": [{"prompt_tokens": 1, "output_tokens": None, "request_start_time": 1}]}}]}),
        json.dumps([{"number_input_tokens": p, "number_output_tokens": o, "error_code": None, "ttft_s": 0.1}
                    for p, o in rows]),
    ]
    runs += [
        lines_of({"metadata": {"request_start_ns": 10**9 * i, "request_end_ns": 10**9 * i + 4 * 10**8}, "error": None,
                  "metrics": {"input_sequence_length": {"value": p}, "output_sequence_length": {"value": 4},
                              "time_to_first_token": {"value": 30.0}, "inter_chunk_latency": {"value": [8.0, 8.5, 9.0]}}}
                 for i, (p, _) in enumerate(rows)),
        json.dumps([{"start_time": i, "end_time": i + 0.5, "error": None, "info": {
            "input_tokens": p, "output_tokens": 4, "output_token_times": [i + 0.1, i + 0.2, i + 0.3, i + 0.4]}}
            for i, (p, _) in enumerate(rows)]),
    ]
    costs = [path.read_text() for path in sorted(PUBLIC.glob("*/costs.txt"))]
    costs.append("prefill_ms_per_token=0.02 step_ms=8 step_ms_per_sequence=0.05 overhead_ms=3 context_ms_per_token=1e-05 "
                 "hidden_ms=2 step_ms_at=1:8.05,8:8.41,16:8.8 scheduling=synchronous max_num_seqs=16 "
                 "max_num_batched_tokens=512 kv_tokens=5000 measured_sequences=16 measured_prompt_tokens=900\n")
    recorded = [json.loads((ROOT / "fixtures" / "vllm" / name).read_text()) for name in ("cases.json", "async_cases.json")]
    cases = [json.dumps([case]) for some in recorded for case in some if len(case["requests"]) < 7]
    results = ["rps,avg_queue,p99_wait_ms\n5,0.004,41.20\n10,0.1,200.00\n",
               "concurrency,mean_ttft_ms,p99_ttft_ms,throughput_tps\n1,20.1,100.5,120.30\n2,30.5,150.0,200.40\n",
               "system_tokens,ttft_off_p50_ms,ttft_on_p50_ms,ratio\n0,20.50,20.50,1.000\n256,33.30,20.50,1.624\n",
               "max_num_batched_tokens,p99_ttft_ms,p99_itl_ms,throughput_tps\n64,9000.00,20.00,300.00\n"
               "unlimited,300.00,50.00,900.00\n"]
    loads = [{"name": "c2", "clients": 2, "prompt": [10, 20, 15], "output": [5, 6, 9], "measured": {"p50_ttft": 30, "tps": 90}},
             {"name": "r5", "clients": None, "prompt": [90, 20, 15], "output": [50, 6, 9], "arrivals_ms": [0, 50, 900.5],
              "measured": {"p50_ttft": 35, "p99_ttft": 60, "p50_tpot": 9.5, "tps": 80.5}}]
    result = {"completed": 4, "total_input_tokens": 400, "total_output_tokens": 40, "max_concurrency": 2,
              "request_rate": "inf", "output_throughput": 99.5, "median_ttft_ms": 20.5, "p99_ttft_ms": 30.0}
    open_loop = {**result, "max_concurrency": None, "request_rate": 3.5, "median_tpot_ms": 9.1}
    summaries = [json.dumps(loads), json.dumps(loads[::-1]), json.dumps(result), json.dumps(open_loop)]
    return {"requests": requests + runs, "runs": runs, "costs": costs, "cases": cases, "results": results,
            "summaries": summaries}


# --- damage ---------------------------------------------------------------------------------------


def places(value):
    """(container, key) of everything inside a JSON value."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


def hostile_json(random, value):
    """The value with something in it replaced, removed, repeated or renamed."""
    value = deepcopy(value)
    everywhere = list(places(value))
    if not everywhere:
        return random.choice(HOSTILE)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        container, key = random.choice(everywhere)
        how = random.random()
        if how < 0.7 and (isinstance(container, dict) or key < len(container)):
            container[key] = random.choice(HOSTILE)
        elif how < 0.8 and isinstance(container, dict):
            container.pop(key, None)
        elif how < 0.9 and isinstance(container, dict) and key in container:
            container[random.choice([key.upper(), f" {key}", "arrival_ms", "gap", "hash_ids", "errors"])] = container[key]
        elif isinstance(container, list) and container:
            container.append(random.choice(container)) if how < 0.9 else container.pop()
    return value


def hostile_values(random, text):
    """A JSON text, or JSON lines, with hostile values; another text as it is."""
    try:
        return json.dumps(hostile_json(random, json.loads(text)))
    except ValueError:
        pass
    try:
        return lines_of(hostile_json(random, [json.loads(line) for line in text.splitlines()]))
    except (ValueError, TypeError):
        return text


def twice_a_key(random, text):
    keys = [match for match in re.finditer(r'"\w+": [^,{}\[\]]+', text)]
    if not keys:
        return text
    key = random.choice(keys)
    return f"{text[:key.end()]}, {key[0]}{text[key.end():]}"


def hostile_cell(random, text):
    """A word, number or cell replaced by another one."""
    cells = list(re.finditer(r"[^,:=\s\[\]{}\"]+", text))
    if not cells:
        return text
    cell = random.choice(cells)
    new = random.choice([random.choice(HOSTILE), random.choice(cells)[0]])
    return f"{text[:cell.start()]}{new if isinstance(new, str) else json.dumps(new)}{text[cell.end():]}"


def hostile_lines(random, text):
    """Lines that are repeated, removed, emptied, cut, or put in another order."""
    lines = text.split("\n")
    i = random.randrange(len(lines))
    line = lines[i]
    lines[i:i + 1] = random.choice([[line, line], [], ["", line, ""], [line[: len(line) // 2]], [line, "  "], [line + ","],
                                    [line + '"'], [line.replace(",", ";")], [line.replace(",", ",,", 1)], ["#", line]])
    if random.random() < 0.2:
        random.shuffle(lines)
    return "\n".join(lines)


def spliced(random, text):
    """A piece of the text removed, doubled, or put elsewhere; or the text cut off."""
    if not text:
        return text
    i, j, k = (random.randrange(len(text) + 1) for _ in range(3))
    i, j = min(i, j), max(i, j)
    return random.choice([text[:i], text[i:], text[:i] + text[j:], text[:j] + text[i:], text[:k] + text[i:j] + text[k:],
                          text[:i] + random.choice('[]{},:"\\\0\t\x0b\u2028\ufeff-e.0') + text[i:], text + text])


def line_ends(random, text):
    end = random.choice(["\r\n", "\r", "\n\r", "\x0b", "\x0c", "\x85", "\u2028", "\n\n", " \n", "\t\n"])
    return random.choice([text.replace("\n", end), text.replace("\n", end, 1), text.rstrip("\n"), end + text, text + end])


TEXTS = [hostile_values] * 6 + [hostile_cell] * 4 + [twice_a_key, hostile_lines, hostile_lines, spliced, spliced, line_ends]


def damaged_bytes(random, content):
    """Flipped, cut or inserted bytes."""
    content = bytearray(content)
    for _ in range(random.choice((1, 1, 3, 20))):
        if content:
            i = random.randrange(len(content))
            how = random.randrange(4)
            if how == 0:
                content[i] ^= 1 << random.randrange(8)
            elif how == 1:
                content[i] = random.choice(b"\x00\xff\x80\n\r\",0-[]{}")
            elif how == 2:
                content.insert(i, random.randrange(256))
            else:
                del content[i]
    return bytes(content)


def in_gzip(random, content):
    """The content gzipped: whole, in several members, damaged, with something behind it."""
    half = random.randrange(len(content) + 1)
    whole = gzip.compress(content, 1)
    members = gzip.compress(content[:half], 1) + gzip.compress(content[half:], 1)
    return random.choice([
        whole, members, members + gzip.compress(b""), gzip.compress(b"") + whole, gzip.compress(b""), gzip.compress(whole),
        whole[: random.randrange(2, len(whole))], members[: random.randrange(2, len(members))], whole + b"\0" * 9,
        whole + b"rest", content + whole, damaged_bytes(random, whole), damaged_bytes(random, members)])


def damaged(random, text):
    """The bytes of a text, damaged once or more, or not at all."""
    for _ in range(random.choice((0, 0, 1, 1, 1, 1, 2))):
        text = random.choice(TEXTS)(random, text)
    encoding = "utf-8" if random.random() < 0.9 else random.choice(["utf-8-sig", "utf-16", "utf-32", "utf-16-le", "latin-1"])
    content = text.encode(encoding, "backslashreplace")
    if random.random() < 0.15:
        content = damaged_bytes(random, content)
    return in_gzip(random, content) if random.random() < 0.15 else content


# --- one try --------------------------------------------------------------------------------------


class Caught(Exception):
    """The parser of a script, which was on its way to read the options."""


def parser_of(main):
    """The parser that a script's main makes."""
    def caught(parser, *_):
        raise Caught(parser)

    real, argparse.ArgumentParser.parse_args = argparse.ArgumentParser.parse_args, caught
    try:
        main()
    except Caught as found:
        return found.args[0]
    finally:
        argparse.ArgumentParser.parse_args = real


def options_of(random, parser, files, name):
    """Some options of a script, most of them with values that make sense."""
    words = ["--out", "out"] if any("--out" in action.option_strings for action in parser._actions) else []
    if name == "plan":
        words += ["--processes", "1", "--up-to", "3", "--max-num-seqs", random.choice(("1", "4"))]
    if name == "pictures":
        words += ["--only", random.choice(("steps.svg", "slots.svg", "queue.svg", "tune.svg", "ttft.svg", "waste.svg",
                                           "deadlock.svg", "prefix.svg", "chunked.svg"))]
    if name == "measured":
        runs = files[random.choice(("runs", "runs", "summaries"))]
        words += ["--predict", random.choice(runs) + random.choice(("", "", "", ":c2", ":1", ":7", ":"))]
        words += ["--costs", random.choice(files["costs"])] if random.random() < 0.5 else [
            "--calibrate", random.choice(runs), random.choice(runs)]
    summed = name == "calibrate" and random.random() < 0.4
    if summed:
        words += random.choices(files["summaries"], k=random.randrange(4))
        for _ in range(random.randrange(4)):
            words += ["--point", random.choice(TEXTS)(random, POINT) if random.random() < 0.4 else POINT]
    for action in parser._actions:
        flag = action.option_strings[-1:]
        if summed and action.dest == "benches" and random.random() < 0.8:
            continue  # detailed results beside summaries are a mistake of its own
        kind = {"--requests": "requests", "files": "requests", "benches": "runs", "--calibrate": "runs", "--replay": "cases",
                "--predict": "runs", "--costs": "costs", "--results": "results"}.get(flag[0] if flag else action.dest)
        if kind == "results":
            words += ["--results", "results"] if random.random() < 0.7 else []
        elif kind:
            often = 1 if kind in ("requests", "cases") or not flag else 0.3
            if random.random() < often and not (name == "measured" and kind != "requests"):
                words += [*flag, random.choice(files[kind] if random.random() < 0.95 else PATHS)]
        elif flag and flag != ["--help"] and random.random() < 0.06:
            value = random.choice({"--out": PATHS, "--convert": CONVERTED}.get(flag[0], OPTIONS))
            words += [random.choice(flag)] if action.nargs == 0 else [f"{flag[0]}={value}"] if random.random() < 0.5 else [
                flag[0], value]
    if name == "labs":
        words += random.choice([["run", "static", "cost"], ["clean"], ["run"], ["run", "cost", random.choice(OPTIONS)], []])
    if random.random() < 0.02:
        words.insert(random.randrange(len(words) + 1), random.choice(OPTIONS + PATHS))
    return words


def too_long(*_):
    raise Hang


def run_script(name, main, words):
    """(status, what it printed, its errors, a traceback or "") of a run in this process."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    sys.argv = [f"{name}.py", *words]
    status, trace = 0, ""
    signal.alarm(HANG_S)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            command_line.run(main)
    except SystemExit as ended:
        status = ended.code or 0
    except Hang:
        trace = f"more than {HANG_S} s\n{traceback.format_exc()}"
    except BaseException:
        trace = traceback.format_exc()
    finally:
        signal.alarm(0)
    out.flush()
    err.flush()
    return status, *(stream.buffer.getvalue().decode() for stream in (out, err)), trace


def wrong(name, words, done, before):
    """What is wrong with the end of a run; "" if nothing is."""
    status, printed, errors, trace = done
    if trace:
        return trace
    left = listing() - before
    if status == 0:
        writes = labs.WRITES.get(name, []) if words[:2] == ["--out", "out"] and words.count("--out") == 1 else []
        if "--help" in words or "-h" in words or any(word.startswith("--out=") for word in words):
            writes = []
        missing = [file for file in writes if not Path("out", file).exists()]
        return f"it ended well without {missing}" if missing else f"it ended well, and said {errors}" if errors else ""
    if (name in ("paged", "orca", "orca_lecture") and status == 1 and printed and not errors) or (
            name == "report" and status == 1 and "report.html" in printed):
        return ""
    lines = errors.splitlines()
    if status != 2:
        return f"status {status}: {errors}"
    if lines and lines[0].startswith("usage: "):
        lines = [line for line in lines if not line.startswith((" ", "usage: "))]
        if "unrecognized arguments: " in errors or "ambiguous option: " in errors:  # argparse repeats them as they are
            return ""
    if len(lines) != 1 or not lines[0].startswith(f"{name}.py: error: "):
        return f"not one line: {errors[:1000]}"
    if len(lines[0]) > 3000 or "not enough memory" in lines[0]:
        return f"a bad line: {lines[0][:300]}"
    if name not in ("labs", "traces") and printed.count("\n") > 1:  # these say one thing after the other
        return f"refused after it had printed {printed!r}"
    return f"refused, and left {sorted(left)}" if [path for path in left if not path.endswith("/")] else ""


def listing():
    """The paths of all files in this folder; those of folders end with a slash."""
    return {f"{path}/" if path.is_dir() else str(path) for path in Path(".").rglob("*")}


def rows_in(path):
    """How many requests a file holds, found another way than the lab does."""
    content = Path(path).read_bytes()
    text = (gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content).decode("utf-8-sig")
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip(" \t\n")
    if text[:1] not in ("[", "{"):
        return sum(1 for row in csv.reader(io.StringIO(text)) if row) - 1
    decoder, records, at = json.JSONDecoder(parse_int=lambda digits: int(digits[:1000])), [], 0
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        records += value if isinstance(value, list) else [value]
        at += len(text[at:]) - len(text[at:].lstrip(" \t\n"))
    return sum(map(requests_in, records))


def requests_in(record):
    """How many requests a JSON record holds: a run holds several."""
    if "benchmarks" in record:
        groups = ("successful", "incomplete", "errored")
        return sum(len(benchmark["requests"].get(name) or []) for benchmark in record["benchmarks"] for name in groups)
    return len(record["input_lens"]) if "input_lens" in record else 1


def lost_rows(path):
    """What is wrong with the rows of a request file that is read; "" if all are used or said to be left out."""
    signal.alarm(HANG_S)
    try:
        trace = load_trace(Path(path), timed=False)
    except (ValueError, OSError):
        return ""  # refused, in the words that a script's run checks
    except (Exception, Hang):
        return traceback.format_exc()
    finally:
        signal.alarm(0)
    used = len(trace.requests.prompt_tokens)
    said = sum(int(number) for number in re.findall(r"(\d+) [^;]*? left out", str(trace)))
    if used + said != rows_in(path) or said != trace.left_out:
        return f"{rows_in(path)} rows, {used} used, {said} said to be left out, left_out {trace.left_out}"
    return ""


# --- many tries -----------------------------------------------------------------------------------


def fresh_files(random, undamaged):
    """{kind: [path, ...]} of newly damaged files."""
    files = {}
    for kind, texts in undamaged.items():
        files[kind] = []
        for i in range({"requests": 6, "runs": 4}.get(kind, 3)):
            path = Path(kind, f"{kind}_{i}")
            path.write_bytes(damaged(random, random.choice(texts)))
            files[kind].append(str(path))
    for name, text in zip(("queue.csv", "tune.csv", "paged_prefix.csv", "paged_chunked.csv"), undamaged["results"]):
        Path("results", name).write_bytes(damaged(random, text))
    return files


def furnish(kinds):
    """The folder in which the scripts run."""
    for name in (*kinds, "folder"):
        os.mkdir(name)
    Path("file").write_text("a file")
    os.symlink("loop", "loop")
    os.symlink("nowhere", "dangling")


def fuzz(seed, seconds, tries, only):
    """(files, runs, {find: how to see it again})."""
    modules = {name: importlib.import_module(name) for name in SCRIPTS if only in ("", name)}
    parsers = {name: parser_of(module.main) for name, module in modules.items()}
    undamaged, finds, files, runs = seeds(), {}, 0, 0
    furnish(undamaged)
    kept = listing()
    ends = time.monotonic() + seconds
    names, weights = list(modules), [SCRIPTS[name] or 1 for name in modules]
    turn = seed
    while time.monotonic() < ends and (tries is None or runs < tries):
        random = Random(turn)
        made = fresh_files(random, undamaged)
        files += sum(map(len, made.values())) + 4
        before = listing()
        for path in made["requests"]:
            note(finds, lost_rows(path), f"rows of {path}, seed {turn}")
        for name in random.choices(names, weights, k=12):
            words = options_of(random, parsers[name], made, name)
            done = run_script(name, modules[name].main, words)
            runs += 1
            note(finds, wrong(name, words, done, before), f"{name} {words}, seed {turn}")
            for path in listing() - kept - before:
                shutil.rmtree(path, ignore_errors=True) if path.endswith("/") else Path(path).unlink(missing_ok=True)
        turn += 1
    return files, runs, finds


def note(finds, what, how):
    """Enter a find, if it is one. Finds that end in the same place are one."""
    if what:
        lines = what.strip().splitlines()
        places_in_lab = [line.strip() for line in lines if "/lb2/" in line]
        key = f"{lines[-1][:80]} {places_in_lab[-1] if places_in_lab else ''}"
        if key not in finds:
            print(f"FIND {how[:700]}\n{what[-2500:]}\n", flush=True)
        finds.setdefault(key, []).append(how)


def unplayed(jobs, *_):
    """In place of report's parts: a result that says it was not played."""
    for name, commands in jobs.items():
        yield name, [Result("", "Not played.") for _ in commands]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="of the first turn; each turn is one more (default: 0)")
    parser.add_argument("--tries", type=int, help="end after so many runs of scripts")
    parser.add_argument("--only", choices=list(SCRIPTS), default="", help="this script only")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, too_long)
    command_line.forget_stdout = lambda: None  # it would close our own output
    report.play_all = unplayed
    labs.status_of = lambda command: 0
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            files, runs, finds = fuzz(args.seed, args.seconds, args.tries, args.only)
        finally:
            os.chdir(home)
    print(f"{files} files, {runs} runs, {len(finds)} finds")
    for key, hows in finds.items():
        print(f"  {len(hows)} times: {key}")
    sys.exit(1 if finds else 0)


if __name__ == "__main__":
    main()
