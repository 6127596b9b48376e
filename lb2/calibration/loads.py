"""What did a benchmark measure, if only a summary of it is left?

    load_summaries("sweep.json")       -> [Load(name="c16", prompt_tokens=[...], clients=16, figures={...}), ...]
    load_summaries("sweep.json:c16")   -> the load of that name; sweep.json:3 is the third
    load_summaries("run.json:101-150") -> of a detailed run its requests 101 to 150, in the order of their start times;
                                          the whole run is played, and only these are compared
    load_of_point("clients=16 prompt=1024 output=512 p50_ttft_ms=34 p50_tpot_ms=4.7 tps=3265")
    predicted_figures(load, server) -> the same figures, as the engine plays that load

It reads a list of {"name", "clients" or null, "prompt", "output", "arrivals_ms", "measured"},
results of vllm bench serve without --save-detailed (sglang's, too), and detailed results, which it
sums up.

In open loop the run's own arrivals are kept, in closed loop its own number of clients. These begin
one after the other, a microsecond apart: on real servers, too, the first request finds the server
empty and is scheduled alone, and the others come while it is prefilled.

What a summary does not say is assumed, and said: all requests have the mean lengths, and an open
loop without arrival times has random ones at its rate (a Poisson process, always the same draw).
"""

import csv
import re
from math import fsum
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

FIGURES = {  # as the tables call it: in a list of summaries, in a vLLM result
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
    if name is not None:
        return True
    try:
        records = records_in(path, read_text(path))
    except BadInput:  # whoever reads it for its requests says what is wrong
        return False
    return bool(records) and all(map(is_list_entry, records)) or any(map(is_result, records))


def records_in(path, text):
    """The values of a JSON text; of vLLM's summary.csv of a sweep, a record a row, as summary.json has them."""
    if "output_throughput" not in text[: text.find("\n")].split(","):
        return list(json_records(path, text))
    rows = csv.DictReader(text.splitlines())
    return [{key: number_in(cell) for key, cell in row.items() if key and cell} for row in rows]


def number_in(cell):
    """3 of "3", 2.5 of "2.5", the text itself of any other."""
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return cell


def chosen(path):
    """(file, name or None) of FILE or FILE:NAME, if FILE is one."""
    text = str(path)
    if not Path(text).exists():
        for at in (at for at, letter in enumerate(text) if letter == ":"):
            if Path(text[:at]).is_file():
                return Path(text[:at]), text[at + 1 :]
    return Path(text), None


def is_list_entry(record):
    return isinstance(record, dict) and "measured" in record


def is_result(record):
    """Is it a result of vLLM or sglang without its requests?"""
    return isinstance(record, dict) and "output_throughput" in record and not record.get("input_lens")


def load_summaries(path, columns=None):
    """The Loads of a file, or the one that FILE:NAME chooses, by its name or its number from 1.

    Raises BadInput or OSError.
    """
    path, name = chosen(path)
    if name is not None and WINDOW.fullmatch(name) and not is_summary(path):
        first, last = map(int, name.split("-"))
        return [load_of_bench(bench, (first - 1, last)) for bench in load_benches(path, columns)]
    loads = loads_of(path, columns)
    if name is None:
        return loads
    found = [load for load in loads if load.name == name]
    if not found and name.isdecimal() and 1 <= int(name) <= len(loads):
        found = [loads[int(name) - 1]]
    if len(found) != 1:
        raise BadInput(f"{path}: expected a load's name or its number from 1 to {len(loads)}, found {name[:40]}; its "
                       f"loads are {', '.join(load.name for load in loads)}")
    return found


def loads_of(path, columns=None):
    """All Loads of a file."""
    text = read_text(path)
    if is_summary(path):
        records = records_in(path, text)
        if records and all(map(is_list_entry, records)):
            return [load_of_entry(f"{path}: load {number}", record, number) for number, record in enumerate(records, 1)]
        if records and all(map(is_result, records)):
            name = bench_name(path)
            names = [name] if len(records) == 1 else [f"{name}-{number}" for number in range(1, len(records) + 1)]
            return [load_of_result(f"{path}: run {number}", record, name)
                    for number, (name, record) in enumerate(zip(names, records), 1)]
    return [load_of_bench(bench) for bench in load_benches(path, columns)]


def load_of_entry(where, record, number):
    """The Load of an entry of a list of summaries."""
    prompts, outputs = (tokens_of(where, record, key) for key in ("prompt", "output"))
    clients, arrivals = record.get("clients"), record.get("arrivals_ms")
    if len(prompts) != len(outputs):
        raise BadInput(f"{where}: expected as many output as prompt lengths, found {len(outputs)} and {len(prompts)}")
    if clients is not None and not is_count(clients):
        raise BadInput(f"{where}: clients: expected a whole number or null, found {shown(clients)}")
    if clients is None or arrivals is not None:
        arrivals = arrivals_us(where, arrivals, len(prompts))
    else:
        arrivals = list(range(len(prompts)))
    if not isinstance(record["measured"], dict):
        raise BadInput(f"{where}: measured: expected an object, found {shown(record['measured'])}")
    figures = figures_of(where, record["measured"], 0)
    order = sorted(range(len(prompts)), key=arrivals.__getitem__)
    prompts, outputs, arrivals = ([column[i] for i in order] for column in (prompts, outputs, arrivals))
    return Load(str(record.get("name", number)), prompts, outputs, arrivals, clients, figures, [])


def tokens_of(where, record, key):
    """A list of lengths."""
    values = record.get(key)
    if not isinstance(values, list) or not values or not all(map(is_count, values)):
        raise BadInput(f"{where}: {key}: expected a list of tokens from 1 to {MOST:,} for each request, "
                       f"found {shown(values)}")
    return values


def is_count(value):
    return type(value) is int and 1 <= value <= MOST


def arrivals_us(where, arrivals_ms, count):
    """Arrival times from the first on."""
    if not isinstance(arrivals_ms, list) or len(arrivals_ms) != count or not all(map(is_number, arrivals_ms)) or \
            not all(-MOST <= ms <= MOST for ms in arrivals_ms):
        raise BadInput(f"{where}: arrivals_ms: expected {count} times in ms, or clients, found {shown(arrivals_ms)}")
    first = min(arrivals_ms)
    return [round(1000 * (ms - first)) for ms in arrivals_ms]


def figures_of(where, measured, place):
    """{name: figure} of what was measured. place: 0 with the names of a list of summaries, 1 with vLLM's."""
    figures = {}
    for name, keys in FIGURES.items():
        value = measured.get(keys[place])
        if value is None or (value == 0 and name != "throughput_tps"):
            continue
        if not is_number(value) or not 0 < value <= MOST:
            raise BadInput(f"{where}: {keys[place]}: expected a number above 0, found {shown(value)}")
        figures[name] = value
    if not figures:
        raise BadInput(f"{where}: expected figures such as {FIGURES['p50_ttft_ms'][place]} and "
                       f"{FIGURES['throughput_tps'][place]}, found none")
    return figures


def load_of_result(where, record, name):
    """The Load of a result of vllm bench serve, or sglang's, without its requests."""
    count = record.get("completed") or record.get("num_prompts")
    if not is_count(count) or count > MOST_REQUESTS:
        raise BadInput(f"{where}: completed: expected 1 to {MOST_REQUESTS:,} requests, found {shown(count)}")
    totals = [record.get(key) for key in ("total_input_tokens", "total_output_tokens")]
    for key, total in zip(("total_input_tokens", "total_output_tokens"), totals):
        if not is_count(total) or total < count:
            raise BadInput(f"{where}: {key}: expected a token or more for each request, found {shown(total)}")
    means = [round(total / count) for total in totals]
    clients, rate = record.get("max_concurrency"), record.get("request_rate", "inf")
    rate = float("inf") if rate in (None, "inf", "Infinity") else rate
    if clients is not None and not is_count(clients):
        raise BadInput(f"{where}: max_concurrency: expected a whole number or null, found {shown(clients)}")
    if rate != float("inf") and not (is_number(rate) and 1e-6 <= rate <= MOST):
        raise BadInput(f"{where}: request_rate: expected requests per second or inf, found {shown(rate)}")
    load = load_of_means(name, count, *means, clients, rates_of(record, rate, count), figures_of(where, record, 1),
                         record.get("burstiness"))
    return in_its_time(load, record.get("duration"))._replace(
        doubts=tuple(doubts_of(name, record, count)), drawn=load.drawn or any(total % count for total in totals))


def in_its_time(load, duration_s):
    """A Load in open loop whose random arrivals are over when the last request was sent, as far as its figures tell."""
    alone = [load.figures.get(f"mean_{name}_ms") or load.figures.get(f"p50_{name}_ms", 0) for name in ("ttft", "tpot")]
    span_us = 1e6 * duration_s - 1000 * (alone[0] + alone[1] * load.output_tokens[0]) if is_number(duration_s) else 0
    if load.clients or load.arrivals_us[-1] <= len(load.arrivals_us) or span_us <= 0:
        return load
    return load._replace(arrivals_us=[round(us * span_us / load.arrivals_us[-1]) for us in load.arrivals_us])


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
    failed = record.get("failed")
    failed = failed if type(failed) is int and failed > 0 else 0
    if failed:
        yield Doubt("failed", f"{name}: {failed} of {failed + count} requests failed. The figures are those of the "
                    "others, and the load that the failed ones made is not known.")
    totals = record["total_input_tokens"], record["total_output_tokens"]
    if any(total % count for total in totals):
        yield Doubt("lengths", f"{name}: its lengths vary, and the file holds only their sum: {totals[0]:,} prompt and "
                    f"{totals[1]:,} output tokens of {count:,} requests. Played with one length for all, clients "
                    "march in step, and prefill, overhead and the cost of a sequence come out wrong. Give --lengths "
                    "FILE, requests of that distribution, or measure with --save-detailed.")
    if is_number(record.get("spec_decode_acceptance_length")):
        yield Doubt("several_tokens", f"{name}: speculative decoding, {record['spec_decode_acceptance_length']:g} "
                    "tokens a step. The costs are those of one token; ITL, and requests of other lengths, are not "
                    "predicted.")


def load_of_means(name, count, prompt, output, clients, rates, figures, burstiness=1):
    """The Load of requests of which only the mean lengths are known, and not when they arrived.

    clients: at most so many are under way. rates: requests per second before each. burstiness: vLLM's, the shape of the
    gamma distribution of the times between arrivals; 1 is a Poisson process.
    """
    each = f"each of {count:,} requests has {prompt:,} prompt and {output:,} output tokens"
    oddities = [f"only mean lengths are known: {each}."]
    arrivals = list(range(count))
    if rates and max(rates) < float("inf"):
        shape = burstiness if is_number(burstiness) and burstiness > 0 else 1
        random, now_s, arrivals = Random(SEED), 0.0, []
        for rate in rates:
            arrivals.append(round(1e6 * now_s))
            now_s += (random.expovariate(1) if shape == 1 else random.gammavariate(shape, 1 / shape)) / rate
        span = f"{rates[0]:g}" if rates[0] == rates[-1] else f"{rates[0]:g} to {rates[-1]:g}"
        bursty = f" (burstiness {shape:g})" if shape != 1 else ""
        oddities.append(f"its arrivals are not known: random ones at {span} requests per second{bursty} are played.")
    return Load(name, [prompt] * count, [output] * count, arrivals, clients, figures, oddities,
                drawn=len(oddities) > 1)


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
    if not bench.closed and bench.starts_s is None:
        raise BadInput(f"{bench.name}: an open loop without start times cannot be played")
    n = len(bench.ttfts_s)
    if window and not (bench.starts_s and 0 <= window[0] < window[1] <= n):
        raise BadInput(f"{bench.name}: expected a window of its requests 1 to {n}, and start times, found "
                       f"{window[0] + 1}-{window[1]}")
    arrivals = list(range(n)) if bench.closed else [round(1e6 * start) for start in bench.starts_s]
    mine = slice(*window) if window else slice(None)
    ttfts, itls, outputs = bench.ttfts_s[mine], bench.itls_s[mine], bench.output_tokens[mine]
    tpots_ms = [1000 * fsum(gaps) / (output - 1) for gaps, output in zip(itls, outputs) if output > 1]
    gaps_ms = [1000 * gap for gaps in itls for gap in gaps] if not window and not bench.even else []
    duration_s = bench.duration_s
    if window:
        starts = bench.starts_s[mine]
        duration_s = max(start + ttft + fsum(gaps) for start, ttft, gaps in zip(starts, ttfts, itls)) - min(starts)
    gaps = {f"p{percent}_itl_ms": percentile(gaps_ms, percent) for percent in (50, 99) if gaps_ms}
    tps = {"throughput_tps": sum(outputs) / duration_s} if duration_s else {}
    figures = statistics_of("ttft", [1000 * ttft for ttft in ttfts]) | statistics_of("tpot", tpots_ms) | gaps | tps
    name = f"{bench.name}:{window[0] + 1}-{window[1]}" if window else bench.name
    return Load(name, bench.prompt_tokens, bench.output_tokens, arrivals, bench.clients if bench.closed else None,
                {name: figure for name, figure in figures.items() if figure > 0}, bench.oddities, (), window)


def statistics_of(what, values_ms):
    """The median, the mean and the 99th percentile, by their names."""
    if not values_ms:
        return {}
    return {f"p50_{what}_ms": percentile(values_ms, 50), f"mean_{what}_ms": fmean(values_ms),
            f"p99_{what}_ms": percentile(values_ms, 99)}


# --- figures on the command line ------------------------------------------------------------------


def load_of_point(text):
    """The Load of --point "clients=16 prompt=1024 output=1024 p50_ttft_ms=..". Raises BadInput."""
    where, values = f"--point {text[:60]}", {}
    known = [*("clients", "rps", "requests", "prompt", "output"), *FIGURES, "tps"]
    for pair in text.split():
        key, _, value = pair.partition("=")
        name = "throughput_tps" if key == "tps" else key
        if key not in known or name in values:
            raise BadInput(f"{where}: expected each of {', '.join(known)} at most once, found {pair[:40]}")
        values[name] = number(value, where=f"{where}: {key}: ")
        if key in ("clients", "requests", "prompt", "output") and not values[name].is_integer():
            raise BadInput(f"{where}: {key}: expected a whole number, found {value[:40]}")
    missing = [key for key in ("prompt", "output") if key not in values]
    if missing or ("clients" in values) == ("rps" in values):
        raise BadInput(f"{where}: expected prompt, output, and either clients or rps, found "
                       f"{', '.join(values) or 'nothing'}")
    figures = {name: values[name] for name in FIGURES if name in values}
    if not figures:
        raise BadInput(f"{where}: expected figures such as p50_ttft_ms, p50_tpot_ms and tps, found none")
    clients = int(values["clients"]) if "clients" in values else None
    count = int(values.get("requests", max(LEAST_REQUESTS, WAVES * (clients or 0))))
    if count > MOST_REQUESTS:
        raise BadInput(f"{where}: expected at most {MOST_REQUESTS:,} requests, found {count:,}; give requests=")
    name = counted(clients, "client") if clients else f"{values['rps']:g}/s"
    return load_of_means(name, count, int(values["prompt"]), int(values["output"]), clients,
                         [values["rps"]] * count if "rps" in values else None, figures)


# --- the engine -----------------------------------------------------------------------------------


def predicted_figures(load, server):
    """The FIGURES of a load as the engine plays it on a Server. Raises BadInput."""
    traffic = Traffic(Requests(load.prompt_tokens, load.output_tokens), load.arrivals_us, None)
    schedule = scheduled(server, traffic, server.max_num_seqs or MAX_NUM_SEQS, load.clients)
    mine = slice(*load.window) if load.window else slice(None)
    columns = (schedule.issued_us, schedule.first_token_us, schedule.finished_us, load.output_tokens)
    issued_us, first_us, finished_us, outputs = (column[mine] for column in columns)
    ttfts_ms = [(first - issued) / 1000 for first, issued in zip(first_us, issued_us)]
    tpots_ms = [(last - first) / 1000 / (output - 1) for last, first, output
                in zip(finished_us, first_us, outputs) if output > 1]
    figures = statistics_of("ttft", ttfts_ms) | statistics_of("tpot", tpots_ms)
    if schedule.gaps_us and not load.window:
        gaps_us = schedule.gaps_us
        figures |= {f"p{percent}_itl_ms": percentile_of_counts(gaps_us, percent) / 1000 for percent in (50, 99)}
    seconds = (max(finished_us) - (min(issued_us) if load.window else 0)) / 1e6
    return figures | {"throughput_tps": sum(outputs) / seconds}
