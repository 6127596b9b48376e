"""What does a calibration mean, how good is it, and which run would make it better? In plain words.

    said(benches, found, told)               -> sentences on costs that gaps between tokens told
    said_of_summaries(loads, found, told)    -> sentences on costs that the figures of loads told
"""

from statistics import median

from common import percentile
from files.costs import BUDGET, MAX_NUM_SEQS
from calibration.doubts import COMPUTED
from calibration.loads import FIGURES
from calibration.overhead import AS_GOOD, ENOUGH, queued_in, times_of
from calibration.search import APART
from files.sources import counted

DEFAULTS = "vLLM 0.33's API server takes 8,192 and 1,024 on a GPU of 70 GiB or more (H100, H200; not A100, GB10), " \
           "and 16,384 and 1,024 from 160 GiB on."
SAME = 1.05  # errors of two schedulers within this ratio do not tell them apart
SURE = 20  # requests that found the server empty: fewer may all be odd, as the first of a run is
FEW = 30  # samples with a prefill, below which more are asked for


# --- costs that gaps told -------------------------------------------------------------------------


def said(benches, found, told):
    """The sentences that explain a Calibration. told: what the user says of the server."""
    parts = [meaning(found), [residuals(benches, found)], oddities(benches, found, told), [scheduler(found)],
             [extrapolates(benches, found)], missing(benches, found), defaults(told, found.budget != BUDGET)]
    return [sentence for part in parts for sentence in part]


def meaning(found):
    """What each cost says."""
    costs = found.costs
    most = most_sequences(found)
    shown = sorted({1, 8, 32, round(most)}) if "sequence" in found.fit.terms else [round(most)]
    steps = ", ".join(f"{costs.decode_us(number) / 1000:.2f} ms with {number}" for number in shown)
    yield f"A step takes {steps} {'sequence' if shown == [1] else 'sequences'}; the runs had up to {most:.3g} at once."
    if costs.prefill_us_per_token:
        each_us = costs.prefill_us_per_token
        yield f"A prompt token adds {each_us / 1000:.4g} ms: {1e6 / each_us:,.0f} tokens/s of prefill" + \
            WHENCE[found.prefill_from]
    if costs.hidden_us:
        free = costs.hidden_us / costs.prefill_us_per_token
        yield f"Of a prefill {costs.hidden_us / 1000:.2f} ms are hidden: the first {free:.0f} prompt tokens of a " \
              "step cost nothing."
    if costs.context_us_per_token:
        yield f"10,000 tokens in the cache add {10 * costs.context_us_per_token:.2f} ms to a step."
    overhead = found.overhead
    if found.prefill_from == "one length" or not (overhead.us or overhead.high_us):
        yield "The overhead, from the client to the scheduler and back, is not told: overhead_ms is 0."
    elif overhead.alone < ENOUGH and overhead.asynchronous is None:
        yield f"The overhead, from the client to the scheduler and back, is taken to be {overhead.us / 1000:.2f} ms, " \
              "the least that a TTFT leaves beside its own steps. It may be less."
    elif overhead.alone >= ENOUGH:
        yield f"The overhead, from the client to the scheduler and back, is {overhead.us / 1000:.2f} ms: the median " \
              f"of {counted(overhead.alone, 'request')} that found the server empty."
    else:
        yield f"The overhead, from the client to the scheduler and back, is between {overhead.low_us / 1000:.2f} and " \
              f"{overhead.high_us / 1000:.2f} ms; the middle is taken."


WHENCE = {
    "gaps": ".",
    "ttft": ", told by the TTFTs of requests that found the server empty.",
    "one length": ", if all of a TTFT beside the step is prefill: one prompt length cannot tell it from the overhead.",
    "excess": ", roughly: without start times only the mean gap tells it, which exceeds the median one.",
}


def residuals(benches, found):
    """How far the samples are from the fit."""
    percents = [100 * residual / sample.us for residual, sample in zip(found.fit.residuals_us, found.samples)]
    spread = [percentile(percents, percent) for percent in (5, 95)]
    gaps = sum(steps.gaps for steps in found.steps if steps)
    with_prefill = sum(sample.prefills > 0 for sample in found.samples)
    size = median(map(abs, percents))
    what = f"{len(percents):,} steps told by {gaps:,} gaps between tokens"
    if all(bench.even for bench in benches):
        what = f"{len(percents):,} requests, of which only the first and the last token are known: sums of steps"
    return f"{what}, {with_prefill:,} of them with a prefill. " \
           f"Residuals: median size {size:.2f} %, 5 to 95 %: {spread[0]:+.2f} to {spread[1]:+.2f} %."


def defaults(told, budget_found):
    """Limits that nobody told."""
    limits = {"max_num_batched_tokens": not told.max_num_batched_tokens and not budget_found and BUDGET,
              "max_num_seqs": not told.max_num_seqs and MAX_NUM_SEQS}
    taken = [f"{name} {value:,}" for name, value in limits.items() if value]
    if taken:
        yield f"Not told, and taken by default: {', '.join(taken)}; costs.txt says it. {DEFAULTS}"


def budget(told, found):
    """A limit that the fit told."""
    if not told.max_num_batched_tokens and found != BUDGET:
        yield f"The token budget is told by the fit: {found:,} explains what was measured better than {BUDGET:,}. " \
              "--max-num-batched-tokens tells it better."


def oddities(benches, found, told):
    """What is odd in each run."""
    for bench, steps in zip(benches, found.steps):
        for sentence in bench.oddities:
            yield f"{bench.name}: {sentence}"
        if bench.starts_s is None:
            yield f"{bench.name} has no start times. Its gaps tell a typical step, but not which of them held a " \
                  "prefill, how much was cached, or whether the scheduler is asynchronous."
        if steps is None:
            yield f"{bench.name} says nothing of a step" + \
                (": it has neither start times nor a duration." if bench.starts_s is None else ": it has no gaps.")
            continue
        if steps.every > 1:
            yield f"{bench.name} has {steps.gaps:,} gaps; those of every {steps.every}. request are used."
        if steps.preemptions:
            yield f"{bench.name}: {counted(steps.preemptions, 'time')} a request got nothing while others got " \
                  "tokens: the KV cache was short, and it was preempted. Give --kv-tokens, as the server's log has " \
                  "it; it " \
                  f"held up to {most_held(steps):,} tokens."
        queued = len(queued_in(times_of(bench))) if bench.starts_s and steps.samples else 0
        if queued:
            most = max(round(sample.sequences / sample.steps) for sample in steps.samples)
            yield f"{bench.name}: {queued} of {len(bench.ttfts_s)} requests waited at the server, and never more " \
                  f"than {counted(most, 'sequence')} ran together: its max_num_seqs, or its memory. Their TTFT holds " \
                  "the waiting; it tells no overhead."
    yield from budget(told, found.budget)


def most_held(steps):
    """The most tokens that the cache held while a request was preempted."""
    return round(max(sample.cached_tokens / sample.steps for sample in steps.samples))


def scheduler(found):
    """Which scheduler fits better."""
    overhead = found.overhead
    if overhead.asynchronous is None:
        return "Scheduler: not told by these runs; taken to be asynchronous, vLLM's default."
    synchronous, asynchronous = (f"{100 * share:.0f} %" for share in overhead.agreeing)
    name = "asynchronous" if overhead.asynchronous else "synchronous"
    close = abs(overhead.agreeing[0] - overhead.agreeing[1]) <= AS_GOOD
    end = "; a shorter overhead decides." if close else "."
    return f"Scheduler: {name}. One overhead explains when {asynchronous} of {overhead.bounded} requests were " \
           f"scheduled if it is asynchronous, {synchronous} if it is synchronous{end}"


def extrapolates(benches, found):
    """Where a plan leaves what was measured."""
    prompts = [tokens for bench in benches for tokens in bench.prompt_tokens]
    cached = max(sample.cached_tokens / sample.steps for sample in found.samples)
    beyond = f", and for more than {cached:,.0f} tokens in the cache" if cached else ""
    return f"A plan extrapolates for more than {most_sequences(found):.3g} sequences at once, for prompts outside " \
           f"{min(prompts):,} to {max(prompts):,} tokens{beyond}."


def missing(benches, found):
    """What the runs cannot tell, and the run that would."""
    terms, samples = found.fit.terms, found.samples
    levels = {round(sample.sequences / sample.steps) for sample in samples}
    if "sequence" not in terms:
        if max(levels) < 8:
            yield "Missing: step_ms_per_sequence is 0, the runs had few sequences at once. A run with 16 clients, or " \
                  "at " \
                  "half your highest rate, tells it."
        else:
            yield f"step_ms_per_sequence is 0: steps did not grow with the sequences, {max(levels)} at most."
    if "context" not in terms:
        yield "Not told: a cost of the cache. Either it is small, or sequences and cached tokens grew together. " \
              "Runs with long and with short prompts tell them apart."
    if found.prefill_from in ("nothing", "excess"):
        yield "Missing: nothing tells prefill_ms_per_token" + \
            (", and it is 0: plans are too hopeful." if found.prefill_from == "nothing" else " well.") + \
            " A run with --max-concurrency 1 and prompts of several lengths tells it."
    elif found.prefill_from == "one length":
        yield "Missing: a run of one client with another prompt length, to tell prefill from overhead."
    elif (longest := max(tokens for bench in benches for tokens in bench.prompt_tokens)) < COMPUTED:
        yield f"Missing: longer prompts. A GPU computes about {COMPUTED} prompt tokens while it reads its weights, and " \
              f"no prompt has more than {longest}: a plan for longer ones is too hopeful."
    elif found.prefill_from == "gaps" and sum(sample.prefills > 0 for sample in samples) < FEW:
        yield f"Few steps had a prefill: fewer than {FEW}. A longer run tells it better."
    overhead = found.overhead
    if found.prefill_from != "one length" and overhead.alone < SURE and \
            (overhead.asynchronous is None or overhead.high_us - overhead.low_us > 2000):
        told = "only a range tells it" if overhead.asynchronous is not None else \
            f"{counted(overhead.alone, 'request')} told it" if overhead.alone else "nothing told it"
        yield f"Missing: the overhead, {told}. A run with --max-concurrency 1, or one at a rate of its own, tells it."


def most_sequences(found):
    """The most sequences that emitted a token in one step of the runs."""
    return max(sample.sequences / sample.steps for sample in found.samples)


# --- costs that figures told ----------------------------------------------------------------------


def said_of_summaries(loads, found, told):
    """The sentences that explain a SummaryFit. told: what the user says of the server."""
    server = found.way.server
    costs = server.costs
    steps = ", ".join(f"{costs.decode_us(point) / 1000:.2f} ms with {point}" for point in found.points)
    noun = "sequence" if found.points == [1] else "sequences"
    yield f"A step takes {steps} {noun}: the means of the loads."
    yield f"A prompt token adds {costs.prefill_us_per_token / 1000:.4g} ms: " \
          f"{1e6 / costs.prefill_us_per_token:,.0f} tokens/s of prefill."
    if costs.hidden_us:
        yield f"Of a prefill {costs.hidden_us / 1000:.2f} ms are hidden."
    if costs.context_us_per_token:
        yield f"10,000 tokens in the cache add {10 * costs.context_us_per_token:.2f} ms to a step."
    yield f"The overhead, from the client to the scheduler and back, is {costs.overhead_us / 1000:.2f} ms."
    memory = f"a KV cache of {server.kv_tokens} tokens" if server.kv_tokens else "as much memory as needed"
    yield from bends(found, told)
    yield f"Played with max_num_seqs {server.max_num_seqs}, a budget of {server.max_num_batched_tokens} tokens a " \
          f"step, and {memory}."
    for load, figures in zip(loads, found.figures):
        errors = ", ".join(f"{name.removesuffix('_ms').removesuffix('_tps')} {100 * (figures[name] / value - 1):+.1f}"
                           for name, value in load.figures.items() if name in figures)
        if errors:
            yield f"{load.name}: {errors} %."
        for oddity in load.oddities:
            yield f"{load.name}: {oddity}"
    yield nearer_scheduler(found)
    yield from not_told(loads, found)
    yield from defaults(told, server.max_num_batched_tokens != BUDGET)


def bends(found, told):
    """What the fit tells beside the costs: the shape of step(S), and limits."""
    way = found.way
    if way.shape == "root":
        yield "A step grows with the root of the number of sequences: that explains the figures better than a line."
    if "experts" in found.terms:
        yield f"A step reads more experts with more sequences, as a mixture with E/k = {way.experts:g} does: " \
              "E (1 - (1 - k/E)^S) of them. That explains the figures better than a line."
    yield from budget(told, way.server.max_num_batched_tokens)
    if "memory" in found.terms:
        yield f"A KV cache of about {way.server.kv_tokens:,} tokens is told by the fit: without that limit more " \
              "requests " \
              "run at once than the figures say. --kv-tokens, from the server's log, tells it better."


def nearer_scheduler(found):
    """Which scheduler comes nearer."""
    name, other = ("asynchronous", "synchronous") if found.way.server.asynchronous else ("synchronous", "asynchronous")
    if found.other_error is None:
        return f"Scheduler: {name}, as told. Error: {found.error:.2f}; 1 is as far as a prediction may be."
    close = "; that is too near to tell them apart" if found.other_error < SAME * found.error else ""
    return f"Scheduler: {name}. Error {found.error:.2f}, {found.other_error:.2f} if it were {other}{close}. " \
           "1 is as far as a prediction may be."


def not_told(loads, found):
    """What the loads cannot tell, and which load would."""
    if len(found.points) == 1:
        sequences = counted(found.points[0], "sequence")
        yield f"Missing: step_ms_per_sequence is 0, all loads had about {sequences}. A load with more tells it."
    elif len(found.points) == 2 and found.way.shape == "line" and "experts" not in found.terms:
        yield "Between and beyond the two numbers of sequences a step is taken to be a straight line."
    if "hidden" not in found.terms:
        yield "Not told: a hidden part of a prefill. It is 0."
    if "context" not in found.terms:
        yield "Not told: a cost of the cache. It is 0, and is part of the step. Loads with long and with short " \
              "requests tell it."
    if not any("ttft" in name for load in loads for name in load.figures):
        yield "Missing: no load has a TTFT. What it says of prefill and overhead is a guess."
    prompts = [tokens for load in loads for tokens in load.prompt_tokens]
    if max(prompts) <= APART * min(prompts):
        yield "All prompts have about one length: only the load tells overhead and prefill apart, roughly."
    absent = [name for name in FIGURES if "itl" not in name and not any(name in load.figures for load in loads)]
    if absent:
        yield f"No load has {', '.join(absent)}."
