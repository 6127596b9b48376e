"""What did a benchmark measure, if only a summary of it is left?

    load_summaries("sweep.json")       -> [Load(name="c16", prompt_tokens=[...], clients=16, figures={...}), ...]
    load_summaries("sweep.json:c16")   -> the load of that name; sweep.json:3 is the third
    load_summaries("run.json:101-150") -> of a detailed run its requests 101 to 150, in the order of their start times;
                                          the whole run is played, and only these are compared
    load_of_point("clients=16 prompt=1024 output=512 p50_ttft_ms=34 p50_tpot_ms=4.7 tps=3265")
    predicted_figures(load, server) -> the same figures, as the engine plays that load

calibrate.py says what a summary may be; a detailed result is summed up. In closed loop the clients
begin a microsecond apart: on real servers, too, the first request is scheduled alone, and the
others come while it is prefilled. What a summary does not say is assumed, and said: all requests
have the mean lengths, and an open loop has random arrivals at its rate, always the same ones.
"""

import csv
import re
from math import fsum, inf
from operator import itemgetter
from pathlib import Path
from random import Random
from statistics import fmean
from typing import NamedTuple

from common import BadInput, MOST, number, percentile, Requests
from files.costs import MAX_NUM_SEQS
from files.inputs import json_records, read_text, shown
from paging.clock import percentile_of_counts
from files.benchmarks import bench_name, load_benches
from planning.engine import Traffic, scheduled
from files.readers import is_number
from files.sources import counted
from calibration.doubts import Doubt

FIGURES = {  # as the tables and --point call it: in a list of summaries, in a vLLM result
    "p50_ttft_ms": ("p50_ttft", "median_ttft_ms"),
    "mean_ttft_ms": ("mean_ttft", "mean_ttft_ms"),
    "p99_ttft_ms": ("p99_ttft", "p99_ttft_ms"),
    "p50_tpot_ms": ("p50_tpot", "median_tpot_ms"),
    "mean_tpot_ms": ("mean_tpot", "mean_tpot_ms"),
    "p99_tpot_ms": ("p99_tpot", "p99_tpot_ms"),
    "p50_itl_ms": ("p50_itl", "median_itl_ms"),
    "p99_itl_ms": ("p99_itl", "p99_itl_ms"),
    "throughput_tps": ("tps", "output_throughput"),
}
COUNTS = ("clients", "requests", "prompt", "output")  # of a point
TOTALS = ("total_input_tokens", "total_output_tokens")  # of a result
MOST_REQUESTS = 1_000_000  # of a load of which only means are known
WAVES, LEAST_REQUESTS = 10, 100  # requests of a point that does not say how many: so many for each client
WINDOW = re.compile(r"\d{1,9}-\d{1,9}")
SEED = 0  # of arrivals that are not known


class Load(NamedTuple):
    """One run of a benchmark: what was sent, and what the client measured."""

    name: str
    prompt_tokens: list  # n requests
    output_tokens: list
    arrivals_us: list  # n whole microseconds; in closed loop, those of the first requests count
    clients: int  # of a closed loop; None in an open loop
    figures: dict  # name in FIGURES: what was measured
    oddities: list  # sentences for the reader
    doubts: tuple = ()  # why what is played is not what was measured
    window: tuple = None  # (first, last + 1) of the requests that are compared; None: all
    drawn: bool = False  # its lengths or its arrivals are not those of the run, but random ones like them


# --- files ----------------------------------------------------------------------------------------


def is_summary(path):
    """Does a file hold summaries only, or does FILE:NAME choose one of its loads? Raises OSError."""
    path, name = chosen(path)
    return name is not None or bool(summaries_in(path))


def summaries_in(path):
    """The records of a file of summaries; none of another file. Raises OSError."""
    try:
        records = records_in(path, read_text(path))
    except BadInput:  # whoever reads it for its requests says what is wrong
        return []
    return records if all(map(is_list_entry, records)) or all(map(is_result, records)) else []


def records_in(path, text):
    """The values of a JSON text; of vLLM's summary.csv of a sweep, a record a row, as summary.json has them."""
    if "output_throughput" not in text[: text.find("\n")].split(","):
        return list(json_records(path, text))
    rows = csv.DictReader(text.splitlines())
    return [{key: number_in(cell) for key, cell in row.items() if key and cell} for row in rows]


def number_in(cell):
    """3 of "3" or "3.0", 2.5 of "2.5", the text itself of any other."""
    try:
        value = float(cell)
    except ValueError:
        return cell
    return int(value) if value.is_integer() else value


def chosen(path):
    """(file, name or None) of FILE or FILE:NAME, if FILE is one."""
    text = str(path)
    if not Path(text).exists():
        for at, letter in enumerate(text):
            if letter == ":" and Path(text[:at]).is_file():
                return Path(text[:at]), text[at + 1 :]
    return Path(text), None


def is_list_entry(record):
    """Is it {"name", "clients" or null, "prompt", "output", "arrivals_ms", "measured"}?"""
    return isinstance(record, dict) and "measured" in record


def is_result(record):
    """Is it a result of vLLM or sglang without its requests?"""
    return isinstance(record, dict) and "output_throughput" in record and not record.get("input_lens")


def load_summaries(path, columns=None):
    """The Loads of a file, or the one that FILE:NAME chooses, by its name or its number from 1.

    Raises BadInput or OSError.
    """
    path, name = chosen(path)
    records = summaries_in(path)
    if name and WINDOW.fullmatch(name) and not records:
        first, last = map(int, name.split("-"))
        return [load_of_bench(bench, (first - 1, last)) for bench in load_benches(path, columns)]
    loads = loads_of(path, records) or [load_of_bench(bench) for bench in load_benches(path, columns)]
    if name is None:
        return loads
    found = [load for load in loads if load.name == name]
    if not found and name.isdecimal() and 1 <= int(name) <= len(loads):
        found = [loads[int(name) - 1]]
    if len(found) != 1:
        raise BadInput(f"{path}: expected a load's name or its number from 1 to {len(loads)}, found {name[:40]}; its "
                       f"loads are {', '.join(load.name for load in loads)}")
    return found


def loads_of(path, records):
    """The Loads of summaries."""
    if all(map(is_list_entry, records)):
        return [load_of_entry(f"{path}: load {number}", record, number) for number, record in enumerate(records, 1)]
    name = bench_name(path)
    names = [name] if len(records) == 1 else [f"{name}-{number}" for number in range(1, len(records) + 1)]
    return [load_of_result(f"{path}: run {number}", record, name)
            for number, (name, record) in enumerate(zip(names, records), 1)]


# --- one summary ----------------------------------------------------------------------------------


def check(where, key, value, fits, expected):
    """Refuse a value that does not fit."""
    if not fits:
        raise BadInput(f"{where}: {key}: expected {expected}, found {shown(value)}")


def is_count(value):
    return type(value) is int and 1 <= value <= MOST


def load_of_entry(where, record, number):
    """The Load of an entry of a list of summaries."""
    prompts, outputs, clients, arrivals_ms = map(record.get, ("prompt", "output", "clients", "arrivals_ms"))
    for key, tokens in (("prompt", prompts), ("output", outputs)):
        check(where, key, tokens, isinstance(tokens, list) and tokens and all(map(is_count, tokens)),
              f"a list of tokens from 1 to {MOST:,} for each request")
    n = len(prompts)
    check(where, "output", outputs, len(outputs) == n, f"{n} lengths, as of prompt")
    check(where, "clients", clients, clients is None or is_count(clients), "a whole number or null")
    if clients and arrivals_ms is None:
        arrivals_ms = [i / 1000 for i in range(n)]
    timed = isinstance(arrivals_ms, list) and len(arrivals_ms) == n and all(map(is_number, arrivals_ms))
    check(where, "arrivals_ms", arrivals_ms, timed and max(map(abs, arrivals_ms)) <= MOST,
          f"{n} times in ms, or clients")
    check(where, "measured", record["measured"], isinstance(record["measured"], dict), "an object")
    first = min(arrivals_ms)
    requests = zip([round(1000 * (ms - first)) for ms in arrivals_ms], prompts, outputs)
    arrivals_us, prompts, outputs = map(list, zip(*sorted(requests, key=itemgetter(0))))
    return Load(str(record.get("name", number)), prompts, outputs, arrivals_us, clients,
                figures_of(where, record["measured"]), [])


def figures_of(where, measured):
    """{name: figure} of what was measured, by any of its names."""
    figures = {}
    for name, keys in FIGURES.items():
        key = next((key for key in (*keys, name) if measured.get(key) is not None), None)
        if key is None or (measured[key] == 0 and name != "throughput_tps"):
            continue
        check(where, key, measured[key], is_number(measured[key]) and 0 < measured[key] <= MOST, "a number above 0")
        figures[name] = measured[key]
    if not figures:
        raise BadInput(f"{where}: expected figures such as p50_ttft_ms or median_ttft_ms, and tps, found none")
    return figures


def load_of_result(where, record, name):
    """The Load of a result of vllm bench serve, or sglang's, without its requests."""
    count = record.get("completed") or record.get("num_prompts")
    check(where, "completed", count, is_count(count) and count <= MOST_REQUESTS, f"1 to {MOST_REQUESTS:,} requests")
    totals = [record.get(key) for key in TOTALS]
    for key, total in zip(TOTALS, totals):
        check(where, key, total, is_count(total) and total >= count, "a token or more for each request")
    clients, rate = record.get("max_concurrency"), record.get("request_rate")
    rate = inf if rate in (None, "inf", "Infinity") else rate
    check(where, "max_concurrency", clients, clients is None or is_count(clients), "a whole number or null")
    check(where, "request_rate", rate, rate == inf or (is_number(rate) and 1e-6 <= rate <= MOST),
          "requests per second or inf")
    prompt, output = (round(total / count) for total in totals)
    load = load_of_means(name, count, prompt, output, clients, rates_of(record, rate, count),
                         figures_of(where, record), record.get("burstiness"))
    return load._replace(arrivals_us=in_its_time(load, record.get("duration")),
                         doubts=tuple(doubts_of(name, record, count)),
                         drawn=load.drawn or any(total % count for total in totals))


def in_its_time(load, duration_s):
    """Arrivals of a Load: random ones in open loop are over when the last request was sent, as its figures tell it."""
    ttft_ms, tpot_ms = (load.figures.get(f"mean_{name}_ms") or load.figures.get(f"p50_{name}_ms", 0)
                        for name in ("ttft", "tpot"))
    alone_us = 1000 * (ttft_ms + tpot_ms * load.output_tokens[0])
    span_us = 1e6 * duration_s - alone_us if is_number(duration_s) else 0
    if load.clients or load.arrivals_us[-1] <= len(load.arrivals_us) or span_us <= 0:
        return load.arrivals_us
    return [round(us * span_us / load.arrivals_us[-1]) for us in load.arrivals_us]


def rates_of(record, rate, count):
    """Requests per second before each request: vLLM's --ramp-up-strategy changes them from first to last."""
    start, end = record.get("ramp_up_start_rps"), record.get("ramp_up_end_rps")
    if not (record.get("ramp_up_strategy") and is_number(start) and is_number(end) and 0 < start and 0 < end):
        return [rate] * count
    shares = [i / max(1, count - 1) for i in range(count)]
    if record["ramp_up_strategy"] == "exponential":
        return [start * (end / start) ** share for share in shares]
    return [start + (end - start) * share for share in shares]


def doubts_of(name, record, count):
    """What a result says of itself that makes its figures tell less."""
    failed, accepted = record.get("failed"), record.get("spec_decode_acceptance_length")
    if type(failed) is int and failed > 0:
        yield Doubt("failed", f"{name}: {failed} of {failed + count} requests failed. The load that they made is not "
                    "known, and the figures are those of the others.")
    if any(record[key] % count for key in TOTALS):
        yield Doubt("lengths", "The lengths of a load vary, and its file holds only their sums. Played with one length "
                    "for all, clients march in step, and prefill, overhead and the cost of a sequence come out wrong. "
                    "Give --lengths FILE, requests like these, or measure with --save-detailed.")
    if is_number(accepted):
        yield Doubt("several_tokens", f"{name}: speculative decoding, {accepted:g} tokens a step. The costs are those "
                    "of one token; ITL, and requests of other lengths, are not predicted.")


def load_of_means(name, count, prompt, output, clients, rates, figures, burstiness=1):
    """The Load of requests of which only the mean lengths are known, and not when they arrived.

    clients: at most so many are under way. rates: requests per second before each. burstiness: vLLM's, the shape of the
    gamma distribution of the times between arrivals; 1 is a Poisson process.
    """
    arrivals, when = list(range(count)), ""
    drawn = bool(rates) and max(rates) < inf
    if drawn:
        shape = burstiness if is_number(burstiness) and burstiness > 0 else 1
        random, now_s, arrivals = Random(SEED), 0.0, []
        for rate in rates:
            arrivals.append(round(1e6 * now_s))
            now_s += (random.expovariate(1) if shape == 1 else random.gammavariate(shape, 1 / shape)) / rate
        span = f"{rates[0]:g}" if rates[0] == rates[-1] else f"{rates[0]:g} to {rates[-1]:g}"
        when = f", at random times, {span} a second" + (f" (burstiness {shape:g})" if shape != 1 else "")
    oddity = f"only means are known. Played: {counted(count, 'request')} of {prompt:,} prompt and {output:,} output " \
             f"tokens on average{when}."
    return Load(name, [prompt] * count, [output] * count, arrivals, clients, figures, [oddity], drawn=drawn)


def with_lengths(load, requests):
    """A Load whose lengths are not known, with lengths in proportion to those of the Requests, drawn in any order."""
    if not any(doubt.name == "lengths" for doubt in load.doubts):
        return load
    random, columns, n = Random(SEED), [], len(load.prompt_tokens)
    order = [random.randrange(len(requests.prompt_tokens)) for _ in range(n)]
    for column, mean in zip(requests, (load.prompt_tokens[0], load.output_tokens[0])):
        drawn = [column[i] for i in order]
        columns.append([max(1, round(value * mean * n / sum(drawn))) for value in drawn])
    doubts = tuple(doubt for doubt in load.doubts if doubt.name != "lengths")
    return load._replace(prompt_tokens=columns[0], output_tokens=columns[1], doubts=doubts)


def load_of_bench(bench, window=None):
    """The Load of a run whose requests are known, one by one. window: those that are compared."""
    n = len(bench.ttfts_s)
    first, end = window or (0, n)
    if not bench.closed and bench.starts_s is None:
        raise BadInput(f"{bench.name}: an open loop without start times cannot be played")
    if window and not (bench.starts_s and 0 <= first < end <= n):
        raise BadInput(f"{bench.name}: expected a window of its requests 1 to {n}, and start times, found "
                       f"{first + 1}-{end}")
    arrivals = list(range(n)) if bench.closed else [round(1e6 * start) for start in bench.starts_s]
    name, gaps_ms, seconds = bench.name, [], bench.duration_s
    ttfts, itls, outputs = (column[first:end] for column in (bench.ttfts_s, bench.itls_s, bench.output_tokens))
    if window:
        name, starts = f"{name}:{first + 1}-{end}", bench.starts_s[first:end]
        seconds = max(start + ttft + fsum(gaps) for start, ttft, gaps in zip(starts, ttfts, itls)) - min(starts)
    elif not bench.even:
        gaps_ms = [1000 * gap for gaps in itls for gap in gaps]
    itl_ms = [percentile(gaps_ms, percent) for percent in (50, 99) if gaps_ms]
    figures = summed_up([1000 * ttft for ttft in ttfts], [1000 * fsum(gaps) for gaps in itls], itl_ms, outputs, seconds)
    return Load(name, bench.prompt_tokens, bench.output_tokens, arrivals, bench.clients if bench.closed else None,
                {name: figure for name, figure in figures.items() if figure > 0}, bench.oddities, (), window)


def summed_up(ttfts_ms, rests_ms, itl_ms, outputs, seconds):
    """The FIGURES of n requests. rests_ms: from first to last token. itl_ms: the median and the 99th percentile."""
    figures = {}
    tpots_ms = [rest / (output - 1) for rest, output in zip(rests_ms, outputs) if output > 1]
    for what, values in (("ttft", ttfts_ms), ("tpot", tpots_ms)):
        if values:
            figures |= {f"p50_{what}_ms": percentile(values, 50), f"mean_{what}_ms": fmean(values),
                        f"p99_{what}_ms": percentile(values, 99)}
    figures |= zip(("p50_itl_ms", "p99_itl_ms"), itl_ms)
    return figures | ({"throughput_tps": sum(outputs) / seconds} if seconds else {})


# --- figures on the command line ------------------------------------------------------------------


def load_of_point(text):
    """The Load of --point "clients=16 prompt=1024 output=1024 p50_ttft_ms=..". Raises BadInput."""
    where, values = f"--point {text[:60]}", {}
    known = [*COUNTS, "rps", *FIGURES, "tps"]
    for pair in text.split():
        key, _, value = pair.partition("=")
        name = "throughput_tps" if key == "tps" else key
        if key not in known or name in values:
            raise BadInput(f"{where}: expected each of {', '.join(known)} at most once, found {pair[:40]}")
        values[name] = number(value, where=f"{where}: {key}: ")
        if key in COUNTS:
            check(where, key, values[name], values[name].is_integer(), "a whole number")
            values[name] = int(values[name])
    clients, rate = values.get("clients"), values.get("rps")
    if not {"prompt", "output"} <= values.keys() or (clients is None) == (rate is None):
        raise BadInput(f"{where}: expected prompt, output, and either clients or rps, found "
                       f"{', '.join(values) or 'nothing'}")
    count = values.get("requests", max(LEAST_REQUESTS, WAVES * (clients or 0)))
    check(where, "requests", count, count <= MOST_REQUESTS, f"at most {MOST_REQUESTS:,}, or give requests=")
    return load_of_means(counted(clients, "client") if clients else f"{rate:g}/s", count, values["prompt"],
                         values["output"], clients, rate and [rate] * count, figures_of(where, values))


# --- the engine -----------------------------------------------------------------------------------


def predicted_figures(load, server):
    """The FIGURES of a load as the engine plays it on a Server. Raises BadInput."""
    traffic = Traffic(Requests(load.prompt_tokens, load.output_tokens), load.arrivals_us, None)
    schedule = scheduled(server, traffic, server.max_num_seqs or MAX_NUM_SEQS, load.clients)
    columns = (schedule.issued_us, schedule.first_token_us, schedule.finished_us, load.output_tokens)
    begin_us, itl_ms = 0, []
    if load.window:
        columns = [column[slice(*load.window)] for column in columns]
        begin_us = min(columns[0])
    elif schedule.gaps_us:
        itl_ms = [percentile_of_counts(schedule.gaps_us, percent) / 1000 for percent in (50, 99)]
    issued_us, first_us, finished_us, outputs = columns
    return summed_up([(first - issued) / 1000 for first, issued in zip(first_us, issued_us)],
                     [(last - first) / 1000 for last, first in zip(finished_us, first_us)], itl_ms, outputs,
                     (max(finished_us) - begin_us) / 1e6)
