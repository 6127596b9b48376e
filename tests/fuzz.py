"""Does any script end otherwise than with a result, or with one line and status 2?

Damages small input files of every kind, gives them and hostile options to every script, and calls
these a find: a traceback, more than so many seconds, more than 1 GB, another status, an error in
several lines, a refusal that leaves files, a row of a request file that is neither used nor said to
be left out.

    python3 tests/fuzz.py --seconds 60 --seed 0        status 1 if there is a find

The scripts run in this process, in a folder of their own that is removed in the end.
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

import common
from files.sources import load_trace

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = ROOT / "fixtures" / "public"
HANG_S = 20
MEMORY = 1 << 30
RARE = {"report": 1, "pictures": 2, "plan": 3, "orca_curves": 1, "orca_homogeneous": 1, "orca_lecture": 1}  # they take long
STATUS_1 = {"paged", "orca_lecture"}  # these end with 1 where decisions or numbers differ, and say it
HOSTILE = [
    None, True, False, 0, 1, -1, 2, 0.5, 1e-320, -0.0, 1e9, 1_000_000_000, 1_000_000_001, 1e308, 1e309, 10**400, -(10**400),
    2**63, float("nan"), float("inf"), "", "7", "\u00b2", "\u0663", "1_000", "1e5", " 5 ", "nan", "x" * 300, "\ud800", "a\nb",
    [], {}, [1], [[]], [None], {"value": 3}, {"": {}}, [1, "a"], [0.001] * 3, [-1], "2023-11-16 18:15:46.68", "9" * 5000,
]
OPTIONS = ["", " ", "0", "1", "2", "-1", "7.5", "1e-7", "1000000001", "1e400", "nan", "inf", "none", "99", "99.9", "ms", "s",
           "-x", "\u0663", "1_0", "9" * 5000, "a\nb", "\udcff", "caf\u00e9", "%s%n", "prompt=a.b", "prompt=p output=o unit=s"]
PATHS = ["nothing", "folder", "loop", "dangling", "file/below", "x" * 300, "", "/dev/null/x", "caf\udce9", "new/er"]
POINT = "clients=4 prompt=100 output=20 p50_ttft_ms=34 p50_tpot_ms=8.7 tps=400 requests=8"
KINDS = {"--requests": "requests", "files": "requests", "benches": "runs", "--calibrate": "runs", "--predict": "runs",
         "--replay": "cases", "--costs": "costs", "--point": "points"}


class Hang(BaseException):
    """A script took too long. (No Exception, so that no script catches it.)"""


# --- undamaged files ------------------------------------------------------------------------------


def shortened(value, most=6):
    """A JSON value whose lists hold at most so many entries."""
    if isinstance(value, dict):
        return {key: shortened(entry, most) for key, entry in value.items()}
    return [shortened(entry, most) for entry in value[:most]] if isinstance(value, list) else value


def lines_of(records):
    return "".join(json.dumps(record) + "\n" for record in records)


def seeds():
    """{kind: [text, ...]} of small undamaged files."""
    requests, runs = [], []
    packed = [*ROOT.glob("fixtures/clocked/*.gz"), *ROOT.glob("fixtures/measured/*.gz")]
    for path in sorted([*PUBLIC.glob("*/*.*"), *packed]):
        text = (gzip.decompress(path.read_bytes()) if path in packed else path.read_bytes()).decode()
        try:
            text = json.dumps(shortened(json.loads(text)))
        except ValueError:
            rows = text.splitlines(keepends=True)[:9]
            text = lines_of(map(shortened, map(json.loads, rows))) if text.startswith("{") else "".join(rows)
        (runs if '"itls"' in text or "ttft" in text else requests).append(text)
    small = json.loads((ROOT / "fixtures/llms/requests.json").read_text())[:6]
    requests += [json.dumps(small), lines_of({**row, "gap": 0.5, "prefixes": [["a", 3], ["b", 5]]} for row in small),
                 json.dumps([{**row, "arrival_ms": 100 * i} for i, row in enumerate(small)])]
    costs = ["prefill_ms_per_token=0.05 step_ms=8 step_ms_per_sequence=0 overhead_ms=0\n",
             "prefill_ms_per_token=0.02 step_ms=8 step_ms_per_sequence=0.05 overhead_ms=3 context_ms_per_token=1e-05 "
             "hidden_ms=2 step_ms_at=1:8.05,8:8.41,16:8.8 scheduling=synchronous max_num_seqs=16 "
             "max_num_batched_tokens=512 kv_tokens=5000 measured_sequences=16 measured_prompt_tokens=900\n"]
    recorded = [json.loads((ROOT / "fixtures/vllm" / name).read_text()) for name in ("cases.json", "async_cases.json")]
    cases = [json.dumps([case]) for some in recorded for case in some if len(case["requests"]) < 7]
    return {"requests": requests + runs, "runs": runs, "costs": costs, "cases": cases}


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

    real, argparse.ArgumentParser.parse_known_args = argparse.ArgumentParser.parse_known_args, caught
    try:
        main()
    except Caught as found:
        return found.args[0]
    finally:
        argparse.ArgumentParser.parse_known_args = real


def options_of(random, name, parser, files):
    """Some options of a script, most of them with values that make sense."""
    words = ["--out", "out"] if name not in ("paged", "traces", "quiz") else []
    words += {"plan": ["--processes", "1", "--up-to", "3"], "pictures": ["--only", random.choice(("slots.svg", "queue.svg"))]}.get(
        name, [])
    for action in parser._actions:
        flag = action.option_strings[-1:]
        kind = KINDS.get(flag[0] if flag else action.dest)
        if kind and random.random() < (0.9 if kind in ("requests", "cases") or not flag else 0.3):
            good = POINT if kind == "points" else random.choice(files[kind])
            words += [*flag, good if random.random() < 0.95 else random.choice(PATHS)]
        elif flag and flag != ["--help"] and random.random() < 0.06:
            value = random.choice(PATHS if flag[0] in ("--out", "--convert") else OPTIONS)
            words += [random.choice(flag)] if action.nargs == 0 else [f"{flag[0]}={value}"]
    if random.random() < 0.02:
        words.insert(random.randrange(len(words) + 1), random.choice(OPTIONS + PATHS))
    return words


def too_long(*_):
    raise Hang


def run_script(name, main, words):
    """(status, what it printed, its errors, a traceback or "") of a run in this process."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")
    sys.argv = [f"{name}.py", *words]
    status, trace = 0, ""
    signal.alarm(HANG_S)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            common.run(main)
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


def wrong(name, done, left):
    """What is wrong with the end of a run that left files; "" if nothing is."""
    status, printed, errors, trace = done
    if trace or status == 0:
        return trace or (errors and f"it ended well, and said {errors}")
    if status == 1 and name in STATUS_1 and printed and not errors:
        return ""
    lines = errors.splitlines()
    if status != 2:
        return f"status {status}: {errors}"
    if lines and lines[0].startswith("usage: "):
        if "unrecognized arguments: " in errors or "ambiguous option: " in errors:  # argparse repeats them as they are
            return ""
        lines = [line for line in lines if not line.startswith((" ", "usage: "))]
    if len(lines) != 1 or not lines[0].startswith(f"{name}.py: error: ") or len(lines[0]) > 6000:
        return f"not one line: {errors[:1000]}"
    return f"refused, and left {sorted(left)}" if left else ""


def files_here():
    return {str(path) for path in Path(".").rglob("*") if not path.is_dir()}


# --- rows -----------------------------------------------------------------------------------------


def rows_in(path):
    """How many requests a file holds, found another way than the lab does."""
    content = Path(path).read_bytes()
    text = (gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content).decode("utf-8-sig")
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip(" \t\n")
    if text[:1] not in ("[", "{"):
        return sum(1 for row in csv.reader(io.StringIO(text)) if row) - 1
    decoder, records, at = json.JSONDecoder(), [], 0
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
    except (common.BadInput, OSError):
        return ""  # refused, in the words that a script's run checks
    except (Exception, Hang):
        return traceback.format_exc()
    finally:
        signal.alarm(0)
    used = len(trace.requests.prompt_tokens)
    said = sum(int(number.replace(",", "")) for number in re.findall(r"([\d,]+) [^;]*? left out", str(trace)))
    if used + said != rows_in(path) or said != trace.left_out:
        return f"{rows_in(path)} rows, {used} used, {said} said to be left out, left_out {trace.left_out}"
    return ""


# --- many tries -----------------------------------------------------------------------------------


def fresh_files(random, undamaged):
    """{kind: [path, ...]} of newly damaged files."""
    files = {}
    for kind, texts in undamaged.items():
        files[kind] = [f"{kind}/{i}" for i in range(4)]
        for path in files[kind]:
            Path(path).write_bytes(damaged(random, random.choice(texts)))
    return files


def fuzz(seed, seconds, only):
    """(files, runs, {find: how often})."""
    names = [path.stem for path in sorted((ROOT / "lb2").glob("*.py")) if path.stem != "common" and only in ("", path.stem)]
    mains = {name: importlib.import_module(name).main for name in names}
    parsers = {name: parser_of(main) for name, main in mains.items()}
    undamaged, finds, files, runs = seeds(), {}, 0, 0
    for folder in (*undamaged, "folder"):
        os.mkdir(folder)
    Path("file").write_text("a file")
    os.symlink("loop", "loop")
    os.symlink("nowhere", "dangling")
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        random = Random(seed)
        made = fresh_files(random, undamaged)
        files += sum(map(len, made.values()))
        before = files_here()
        for path in made["requests"]:
            note(finds, lost_rows(path), f"rows of {path}, seed {seed}")
        for name in random.choices(names, [RARE.get(name, 8) for name in names], k=12):
            words = options_of(random, name, parsers[name], made)
            done = run_script(name, mains[name], words)
            note(finds, wrong(name, done, files_here() - before), f"{name} {words}, seed {seed}")
            runs += 1
            for path in files_here() - before:
                os.unlink(path)
            shutil.rmtree("out", ignore_errors=True)
        seed += 1
    return files, runs, finds


def note(finds, what, how):
    """Enter a find, if it is one. Finds that end in the same place are one."""
    if what:
        lines = what.strip().splitlines()
        in_lab = [line.strip() for line in lines if "/lb2/" in line]
        key = f"{lines[-1][:80]} {in_lab[-1] if in_lab else ''}"
        if key not in finds:
            print(f"FIND {how[:700]}\n{what[-2500:]}\n", flush=True)
        finds[key] = finds.get(key, 0) + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="of the first turn; each turn is one more (default: 0)")
    parser.add_argument("--only", default="", metavar="SCRIPT", help="this script only")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, too_long)
    os.dup2 = lambda *_: None  # what a script does with its output in the end would close ours
    home = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            files, runs, finds = fuzz(args.seed, args.seconds, args.only)
        finally:
            os.chdir(home)
    print(f"{files} files, {runs} runs, {len(finds)} finds")
    for key, times in finds.items():
        print(f"  {times} times: {key}")
    sys.exit(1 if finds else 0)


if __name__ == "__main__":
    main()
