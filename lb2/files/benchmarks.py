"""What did a benchmark measure, request by request?

    load_benches("closed_16.json.gz")
        -> [Bench(name="closed_16", prompt_tokens=[140, 83, ...], ttfts_s=[0.0451, ...], ...)]

It reads the results of files/source_table.py that hold, for each request, a TTFT (time to first token)
and the gaps between tokens. One file may hold several runs. Each becomes a Bench of its own.
Results that hold only means are refused, and the message says what is missing.
"""

from math import fsum
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from common import BadInput
from files.arrivals import (ENDLESS_RPS, UNITS, closed_loop_clients, is_number, limits_of, most_under_way,
                            over_limit)
from files.inputs import counted, read_text, shown
from files.sources import left_out_words, recognised, rows_in, settled

ROLE_CHUNK_S = 1e-3  # an empty chunk with the role comes before the first token, by some microseconds
MOST_S = 1e9  # a time between tokens. More is another unit
ACCEPTED = ("spec_decode_acceptance_length", "accept_length")  # tokens that a step of speculative decoding brings


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
    failed: int  # requests left out, because they failed
    oddities: list  # sentences for the reader
    cached_tokens: list = None  # of each prompt, those that the server found in its cache; None: it does not say
    accepted: float = None  # tokens that a step of speculative decoding brings, as the file says
    even: bool = False  # its gaps are the mean one of each request: the file holds no others
    turns: int = 0  # requests that are later turns of a conversation


def load_benches(path, columns=None):
    """The runs in a benchmark's result, in the file's order. columns: what --columns says. Raises BadInput or OSError.
    """
    found = recognised(path, read_text(path), columns)
    source = found.sources[0]
    if not source.gaps and not (source.ttft and (source.mean or source.latency)):
        raise BadInput(f"{path}: it holds no times of tokens ({source.name}). A fit needs the TTFT and the gaps "
                       "between tokens, or the time to the last one")
    name = bench_name(path)
    n = len(found.runs)
    names = [name] if n == 1 else [f"{name}-{number}" for number in range(1, n + 1)]
    return [bench_of(place, name, found, run) for name, (place, run) in zip(names, found.runs)]


def bench_of(path, name, found, run):
    """The Bench of one run."""
    rows = rows_in(path, found.sources[0], run)
    source, unit = settled(path, found, rows)
    gapless = any(output > 1 for output in rows.outputs) and rows.gaps.count(None) == len(rows.gaps)
    if rows.prompts and not source.clock and (gapless or not any(rows.ttfts)):
        raise BadInput(f"{path}: there are no times of tokens in it ({source.name}): run the benchmark "
                       "with --streaming (aiperf) or --save-detailed (vLLM)")
    requests, silent = measured_requests(path, source, rows, UNITS[unit])
    if not requests:
        nothing = f"{path}: no request in it has an output token"
        raise BadInput("; ".join([nothing, *left_out_words(rows.left_out, source)]))
    if rows.times:
        requests.sort(key=lambda request: request[0])
    starts, prompts, outputs, ttfts_s, itls_s, cached = (list(column) for column in zip(*requests))
    starts_s = [(start - starts[0]) / UNITS[unit] for start in starts] if rows.times else None
    latencies_s = [ttft + fsum(gaps) for ttft, gaps in zip(ttfts_s, itls_s)]
    limit, rate, duration_s = limits_of(run)
    if isinstance(run, dict):
        check_run(path, run, latencies_s, [*ttfts_s, *[0.0] * silent])
    if duration_s is None and starts_s:
        duration_s = max(map(float.__add__, starts_s, latencies_s))
    unknown = [] if starts_s else [None] * (silent + len(rows.left_out))
    clients = closed_loop_clients(starts_s or [], latencies_s + unknown, limit, rate, duration_s)
    oddities = [f"{words}: the load that they made is not known." for words in left_out_words(rows.left_out, source)]
    if silent:
        oddities.append(f"{counted(silent, 'request')} completed without a token: left out, for want of a TTFT.")
    if clients and rate is not None and rate < ENDLESS_RPS:
        oddities.append(f"The client asked for {rate:g} requests/s, and its limit of {limit} let fewer through: it was "
                        "a closed loop.")
    if starts_s and limit and not clients and most_under_way(starts_s, latencies_s) >= limit:
        if over_limit(starts_s, latencies_s, limit):
            raise BadInput(f"{path}: by its start_times, more requests were under way than max_concurrency={limit} "
                           "lets through")
        oddities.append(f"The client's limit of {limit} was reached: some requests were sent later than they were due.")
    lumped = sum(len(gaps) != output - 1 for output, gaps in zip(outputs, itls_s))
    if lumped:
        oddities.append(f"{lumped} of {counted(len(outputs), 'request')} have other than output - 1 gaps: "
                        "their tokens did not come one at a time.")
    failed = sum(why == "failed" for _, why in rows.left_out)
    said = [run.get(key) for key in ACCEPTED] if isinstance(run, dict) else []
    accepted = next((tokens for tokens in said if is_number(tokens) and tokens > 1), None)
    return Bench(name, prompts, outputs, starts_s, ttfts_s, itls_s, duration_s, clients, clients is not None, limit,
                 failed, oddities, cached if any(cached) else None, accepted, not source.gaps,
                 sum(is_number(turn) and turn > 0 for turn in rows.turns))


def measured_requests(path, source, rows, in_second):
    """([(start, prompt, output, TTFT in s, gaps in s, cached tokens), ...], how many completed without a token)."""
    requests, silent = [], 0
    starts = rows.sent or [None] * len(rows.prompts)
    columns = (starts, rows.prompts, rows.outputs, rows.ttfts, rows.gaps, rows.cached or [0] * len(starts))
    for start, prompt, output, ttft, gaps, cached in zip(*columns):
        if not output:
            silent += 1
            continue
        where = f"{path}: the request of {prompt} and {output} tokens at position {len(requests) + silent}"
        if source.clock:
            if start is None or not isinstance(gaps, list) or not gaps or not all(map(is_number, gaps)):
                raise BadInput(f"{where}: expected a start and the times at which its tokens came, found "
                               f"{shown([start, gaps])}")
            ttft, gaps = gaps[0] - start, [later - earlier for earlier, later in zip(gaps, gaps[1:])]
        gaps = [] if gaps is None and output == 1 else gaps
        unit = UNITS[source.latency_unit]
        if not source.gaps and is_list_of_times([ttft, gaps]):  # a mean, or the whole latency
            gaps = [gaps if source.mean else (gaps - ttft) / max(1, output - 1)] * (output - 1)
        if not is_list_of_times([ttft]) or not is_list_of_times(gaps):
            raise BadInput(f"{where}: expected a TTFT and a list of gaps between tokens, found {shown([ttft, gaps])}")
        ttft, gaps = ttft / unit, [gap / unit for gap in gaps]
        if len(gaps) == output and gaps[0] < min(ROLE_CHUNK_S, median(gaps) / 10):
            ttft, gaps = ttft + gaps[0], gaps[1:]
        requests.append((start, prompt, output, ttft, gaps, min(prompt - 1, max(0, int(cached)))))
    return requests, silent


def is_list_of_times(values):
    return isinstance(values, list) and all(is_number(value) and 0 <= value < MOST_S for value in values)


def check_run(path, run, latencies_s, ttfts_s):
    """Refuse a run whose own figures say that its times are in another unit."""
    (_, _, duration_s), mean_ttft_ms = limits_of(run), run.get("mean_ttft_ms")
    if duration_s is not None and max(latencies_s) > 1.01 * duration_s:
        took = f"a request took {max(latencies_s):.6g} s in a run of {duration_s:.6g} s"
        raise BadInput(f"{path}: {took}: are its times in milliseconds?")
    ratio = 1000 * fmean(ttfts_s) / mean_ttft_ms if is_number(mean_ttft_ms) and mean_ttft_ms > 0 else 1
    if not 0.1 < ratio < 10:
        raise BadInput(f"{path}: its ttfts are {ratio:.4g} times its own mean_ttft_ms: are they in seconds?")


def bench_name(path):
    """closed_01.json.gz -> closed_01, in characters that any terminal and any file can hold."""
    name = Path(path).name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")
    plain = (letter if letter.isascii() and letter.isprintable() and letter not in ',"' else "?" for letter in name)
    return "".join(plain)
