"""What did a benchmark measure, request by request?

    load_benches("closed_16.json.gz") -> [Bench(name="closed_16", prompt_tokens=[140, 83, ...], ...)]

One file may hold several runs (--append-result). Each becomes a Bench of its own.
"""

import math
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from inputs import MOST, BadInput, parse_json, read_text, shown

ENDLESS_RPS = 1e6  # a request rate from here on means: send at once
ROLE_CHUNK_S = 1e-3  # the first content follows an empty first chunk within microseconds


class Bench(NamedTuple):
    """One run of a benchmark: n requests in the order in which they were sent. Times in seconds."""

    name: str
    prompt_tokens: list
    output_tokens: list
    starts_s: list  # when each was sent, from the first on; None where the file does not say
    ttfts_s: list
    itls_s: list  # n lists of gaps between tokens
    duration_s: float  # of the whole run; None where the file does not say
    clients: int  # of a closed loop; None in an open loop
    closed: bool  # each client sent its next request when its last one ended
    max_concurrency: int  # most requests that the client let be under way; None: no limit
    failed: int  # requests left out
    oddities: list  # sentences for the reader


def load_benches(path):
    """The runs in a benchmark's result file, in its order. Raises BadInput or OSError."""
    text = read_text(path)
    lines = [line for line in text.split("\n") if line.strip()]
    try:
        records = [parse_json(path, text)]
    except BadInput:
        records = [parse_json(f"{path}: run {i}", line) for i, line in enumerate(lines)]
    name = bench_name(path)
    names = [name] if len(records) == 1 else [f"{name}-{i}" for i in range(1, len(records) + 1)]
    return [bench_of(path, name, record) for name, record in zip(names, records)]


def bench_of(path, name, record):
    """The Bench of one result object of vllm bench serve or sglang's bench_serving."""
    if not isinstance(record, dict) or "input_lens" not in record:
        raise BadInput(f"{path}: expected the JSON object of vllm bench serve --save-detailed (input_lens ...)")
    duration_s, limit = record.get("duration"), record.get("max_concurrency")
    if duration_s is not None and (not is_time(duration_s) or duration_s == 0):
        raise BadInput(f"{path}: duration: expected seconds, found {shown(duration_s)}")
    if limit is not None and not (is_count(limit) and limit):
        raise BadInput(f"{path}: max_concurrency: expected a whole number of clients or null, found {shown(limit)}")
    rows, failed, silent = bench_rows(path, record)
    if not rows:
        raise BadInput(f"{path}: no request in it has an output token")
    timed = rows[0][4] is not None
    if timed:
        rows.sort(key=lambda row: row[4])
    prompts, outputs, ttfts_s, itls_s, starts_s = (list(column) for column in zip(*rows))
    if timed:
        starts_s = [start - starts_s[0] for start in starts_s]
    latencies_s = [ttft + sum(gaps) for ttft, gaps in zip(ttfts_s, itls_s)]
    if duration_s is not None and max(latencies_s) > 1.01 * duration_s:
        raise BadInput(f"{path}: a request took {max(latencies_s):.6g} s in a run of {duration_s:.6g} s: are its times in milliseconds?")
    check_mean(path, record.get("mean_ttft_ms"), ttfts_s)
    if duration_s is None and timed:
        duration_s = max(start + latency for start, latency in zip(starts_s, latencies_s))
    unknown_s = [max(latencies_s)] * (failed + silent)  # at most, we suppose
    clients = closed_loop_clients(limit, record.get("request_rate"), latencies_s + unknown_s, duration_s)
    return Bench(name, prompts, outputs, starts_s if timed else None, ttfts_s, itls_s, duration_s, clients,
                 clients is not None, limit, failed, oddities_of(outputs, itls_s, failed, silent))


def bench_rows(path, record):
    """([(prompt, output, TTFT, gaps, start), ...], failed ones, completed ones without a token)."""
    fields = ["input_lens", "output_lens", "ttfts", "itls"]
    missing = [field for field in fields if not isinstance(record.get(field), list)]
    if missing:
        raise BadInput(f"{path}: no list {', '.join(missing)}: was it run with --save-detailed?")
    n = len(record["input_lens"])
    starts, errors = record.get("start_times") or [None] * n, record.get("errors") or [""] * n
    columns = [*(record[field] for field in fields), starts, errors]
    if any(not isinstance(column, list) or len(column) != n for column in columns) or not n:
        raise BadInput(f"{path}: {', '.join(fields)}, start_times and errors must have one entry a request each")
    timed = any(start is not None for start in starts)
    rows, without = [], 0
    for i, (prompt, output, ttft, gaps, start, error) in enumerate(zip(*columns)):
        if error:
            continue
        counts = is_count(prompt) and is_count(output)
        if not (counts and is_time(ttft) and isinstance(gaps, list) and all(map(is_time, gaps))
                and (is_time(start) or not timed)):
            found = shown([prompt, output, ttft, gaps, start])
            raise BadInput(f"{path}: request {i}: expected counts of tokens and times in seconds, found {found}")
        if not (prompt and output):
            without += 1
            continue
        if len(gaps) == output and output > 1 and gaps[0] < min(ROLE_CHUNK_S, median(gaps) / 10):
            ttft, gaps = ttft + gaps[0], gaps[1:]  # an empty chunk with the role came before the first token
        rows.append((prompt, output, ttft, gaps, start))
    failed = n - len(rows) - without
    says_completed = "errors" in record or record.get("completed") == n
    return rows, failed if says_completed else failed + without, without if says_completed else 0


def closed_loop_clients(limit, rate, latencies_s, duration_s):
    """How many clients sent their next request when their last one ended; None: requests came at times of their own.

    Clients that never pause finish within (sum of latencies) / clients + the longest latency. A run that took clearly
    longer did not keep its limit busy: the limit was a cap that its requests did not reach.
    """
    if limit is None or (rate is not None and rate != "inf" and not (is_number(rate) and rate >= ENDLESS_RPS)):
        return None
    clients = min(limit, len(latencies_s))
    if duration_s is not None and duration_s > 1.1 * (sum(latencies_s) / clients + max(latencies_s)):
        return None
    return clients


def oddities_of(outputs, itls_s, failed, silent):
    """What the reader of a run should know, in sentences."""
    sentences = []
    if failed:
        sentences.append(f"{failed} failed requests are left out; the load that they made is not known.")
    if silent:
        sentences.append(f"{silent} requests completed without a token: they have no TTFT and are left out.")
    lumped = sum(len(gaps) != output - 1 for output, gaps in zip(outputs, itls_s))
    if lumped:
        sentences.append(f"{lumped} of {len(outputs)} requests have other than output - 1 gaps: tokens came several at a time.")
    return sentences


def check_mean(path, mean_ttft_ms, ttfts_s):
    """Refuse a file whose times are not in the unit that its own summary says."""
    if is_number(mean_ttft_ms) and mean_ttft_ms > 0:
        ratio = 1000 * fmean(ttfts_s) / mean_ttft_ms
        if not 0.5 < ratio < 2:
            raise BadInput(f"{path}: its ttfts are {ratio:.4g} times its own mean_ttft_ms: are they in seconds?")


def bench_name(path):
    """closed_01.json.gz -> closed_01, in characters that any terminal and file can hold."""
    name = Path(path).name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in name)


def is_number(value):
    return type(value) in (int, float) and not math.isnan(value)


def is_time(value):
    return type(value) in (int, float) and 0 <= value < 1e9


def is_count(value):
    return type(value) is int and 0 <= value <= MOST
