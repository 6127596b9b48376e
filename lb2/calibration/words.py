"""What does a calibration mean, how good is it, and which run would make it better? In plain words.

    said(benches, found, told)               -> sentences on costs that gaps between tokens told
    said_of_summaries(loads, found, told)    -> sentences on costs that the figures of loads told

told: what the user says of the server.
"""

from statistics import median

from common import percentile
from files.costs import BUDGET, MAX_NUM_SEQS, SCHEDULERS
from calibration.doubts import COMPUTED
from calibration.overhead import AS_GOOD, ENOUGH, queued_in, times_of
from calibration.search import APART
from files.sources import counted

SAME = 1.05  # errors of two schedulers within this ratio do not tell them apart
SURE = 20  # requests that found the server empty: fewer may all be odd, as the first of a run is
FEW = 30  # samples with a prefill, below which more are asked for
WHENCE = {
    "ttft": ", by the TTFTs of requests that found the server empty",
    "one length": ", if all of a TTFT beside the step is prefill: one prompt length cannot tell it from the overhead",
    "excess": ", roughly: without start times only the mean gap tells it, which exceeds the median one",
}


def meaning(costs, sequences, overhead, whence=""):
    """What each cost says. sequences: numbers of them in a step; overhead, whence of the prefill: in words."""
    steps = ", ".join(f"{costs.decode_us(number) / 1000:.2f} ms with {number}" for number in sequences)
    yield f"A step takes {steps} {'sequence' if sequences == [1] else 'sequences'}."
    if costs.prefill_us_per_token:
        each_us = costs.prefill_us_per_token
        yield f"A prompt token adds {each_us / 1000:.4g} ms: {1e6 / each_us:,.0f} tokens/s of prefill{whence}."
    if costs.hidden_us:
        free = costs.hidden_us / costs.prefill_us_per_token
        yield f"Of a prefill {costs.hidden_us / 1000:.2f} ms are hidden: the first {free:.0f} tokens cost nothing."
    if costs.context_us_per_token:
        yield f"10,000 tokens in the cache add {10 * costs.context_us_per_token:.2f} ms to a step."
    yield f"The overhead, from the client to the scheduler and back, is {overhead}."


def limits(told, found):
    """The token budget that the fit found, and the limits that nobody told."""
    if not told.max_num_batched_tokens and found != BUDGET:
        yield f"The token budget is told by the fit: {found:,} explains what was measured better than {BUDGET:,}. " \
              "--max-num-batched-tokens tells it better."
    taken = [f"max_num_batched_tokens {BUDGET:,}"] if not told.max_num_batched_tokens and found == BUDGET else []
    if not told.max_num_seqs:
        taken.append(f"max_num_seqs {MAX_NUM_SEQS}")
    if taken:
        yield f"Not told, and taken by default: {', '.join(taken)}. vLLM 0.33's API server takes 8,192 tokens and " \
              "1,024 sequences on a GPU of 70 GiB or more (not on A100 and GB10), 16,384 and 1,024 from 160 GiB on."


# --- costs that gaps told -------------------------------------------------------------------------


def said(benches, found, told):
    """The sentences that explain a Calibration."""
    several = "sequence" in found.fit.terms
    sequences = sorted({1, 8, 32, round(most_sequences(found))} if several else {round(most_sequences(found))})
    return [*meaning(found.costs, sequences, overhead(found), WHENCE.get(found.prefill_from, "")),
            residuals(benches, found), *oddities(benches, found), scheduler(found), extrapolates(benches, found),
            *missing(benches, found), *limits(told, found.budget)]


def overhead(found):
    """What the overhead is, and what told it."""
    told = found.overhead
    if found.prefill_from == "one length" or not (told.us or told.high_us):
        return "not told: overhead_ms is 0"
    if told.alone >= ENOUGH:
        return f"{told.us / 1000:.2f} ms: the median of {told.alone} requests that found the server empty"
    if told.asynchronous is None:
        return f"{told.us / 1000:.2f} ms or less: the least that a TTFT leaves beside its own steps"
    return f"between {told.low_us / 1000:.2f} and {told.high_us / 1000:.2f} ms; the middle is taken"


def residuals(benches, found):
    """How far the samples are from the fit."""
    percents = [100 * residual / sample.us for residual, sample in zip(found.fit.residuals_us, found.samples)]
    low, high = (percentile(percents, percent) for percent in (5, 95))
    gaps = sum(steps.gaps for steps in found.steps if steps)
    what = f"steps told by {gaps:,} gaps between tokens"
    if all(bench.even for bench in benches):
        what = "requests, of which only the first and the last token are known"
    with_prefill = sum(sample.prefills > 0 for sample in found.samples)
    return f"{len(percents):,} {what}, {with_prefill:,} of them with a prefill. Residuals: median size " \
           f"{median(map(abs, percents)):.2f} %, 5 to 95 %: {low:+.2f} to {high:+.2f} %."


def oddities(benches, found):
    """What is odd in each run."""
    for bench, steps in zip(benches, found.steps):
        yield from (f"{bench.name}: {sentence}" for sentence in bench.oddities)
        if bench.starts_s is None:
            yield f"{bench.name} has no start times. Its gaps tell a typical step, but not its prefill, its cache or " \
                  "the scheduler."
        if steps is None:
            yield f"{bench.name} says nothing of a step: it has no " \
                  f"{'gaps' if bench.starts_s else 'start times and no duration'}."
            continue
        if steps.preemptions:
            held = max(sample.cached_tokens / sample.steps for sample in steps.samples)
            yield f"{bench.name}: {counted(steps.preemptions, 'time')} a request got nothing while others got " \
                  "tokens: the KV cache was short. Give --kv-tokens, as the server's log has it; it held up to " \
                  f"{held:,.0f} tokens."
        queued = len(queued_in(times_of(bench))) if bench.starts_s and steps.samples else 0
        if queued:
            most = max(round(sample.sequences / sample.steps) for sample in steps.samples)
            yield f"{bench.name}: {queued} of {len(bench.ttfts_s)} requests waited at the server, and never more " \
                  f"than {counted(most, 'sequence')} ran together: its max_num_seqs, or its memory."


def scheduler(found):
    """Which scheduler fits better."""
    told = found.overhead
    if told.asynchronous is None:
        return "Scheduler: not told by these runs; taken to be asynchronous, vLLM's default."
    shares = [f"{100 * share:.0f} %" for share in told.agreeing]
    close = "; the shorter overhead decides" if abs(told.agreeing[0] - told.agreeing[1]) <= AS_GOOD else ""
    return f"Scheduler: {SCHEDULERS[told.asynchronous]}. One overhead explains {shares[1]} of {told.bounded} TTFTs " \
           f"if it is asynchronous, {shares[0]} if it is synchronous{close}."


def extrapolates(benches, found):
    """Where a plan leaves what was measured."""
    prompts = [tokens for bench in benches for tokens in bench.prompt_tokens]
    cached = max(sample.cached_tokens / sample.steps for sample in found.samples)
    beyond = f", more tokens in the cache than {cached:,.0f}" if cached else ""
    return f"A plan extrapolates for more sequences at once than {most_sequences(found):.3g}{beyond}, and for " \
           f"prompts outside {min(prompts):,} to {max(prompts):,} tokens."


def missing(benches, found):
    """What the runs cannot tell, and the run that would."""
    terms, prefill_from, told = found.fit.terms, found.prefill_from, found.overhead
    longest = max(tokens for bench in benches for tokens in bench.prompt_tokens)
    most = max(round(sample.sequences / sample.steps) for sample in found.samples)
    if "sequence" not in terms and most < 8:
        yield "Missing: step_ms_per_sequence is 0. A run with 16 clients, or at half your highest rate, tells it."
    elif "sequence" not in terms:
        yield f"step_ms_per_sequence is 0: steps did not grow with the sequences, {most} at most."
    if "context" not in terms:
        yield "Not told: a cost of the cache. Runs with long and with short prompts tell it."
    if prefill_from in ("nothing", "excess"):
        how = ", and it is 0: plans are too hopeful." if prefill_from == "nothing" else " well."
        yield f"Missing: nothing tells prefill_ms_per_token{how} A run of one client, of several lengths, tells it."
    elif prefill_from == "one length":
        yield "Missing: a run of one client with another prompt length, to tell prefill from overhead."
    elif longest < COMPUTED:
        yield f"Missing: longer prompts. A GPU prefills about {COMPUTED} tokens while it reads its weights, and no " \
              f"prompt has more than {longest}: a plan for longer ones is too hopeful."
    elif prefill_from == "gaps" and sum(sample.prefills > 0 for sample in found.samples) < FEW:
        yield f"Few steps had a prefill: fewer than {FEW}. A longer run tells it better."
    if prefill_from != "one length" and told.alone < SURE and \
            (told.asynchronous is None or told.high_us - told.low_us > 2000):
        yield "Missing: the overhead is not told well. A run with --max-concurrency 1, or at a low rate, tells it."


def most_sequences(found):
    """The most sequences that emitted a token in one step of the runs."""
    return max(sample.sequences / sample.steps for sample in found.samples)


# --- costs that figures told ----------------------------------------------------------------------


def said_of_summaries(loads, found, told):
    """The sentences that explain a SummaryFit."""
    server = found.way.server
    yield from meaning(server.costs, found.points, f"{server.costs.overhead_us / 1000:.2f} ms")
    better = "explains the figures better than a line."
    if found.way.shape == "root":
        yield f"A step that grows with the root of the number of sequences {better}"
    if "experts" in found.terms:
        yield f"A step that reads more experts with more sequences, E/k = {found.way.experts:g}, {better}"
    if "memory" in found.terms:
        yield f"The fit tells a KV cache of about {server.kv_tokens:,} tokens. Give --kv-tokens, as the log has it."
    memory = f"a KV cache of {server.kv_tokens} tokens" if server.kv_tokens else "as much memory as needed"
    yield f"Played with max_num_seqs {server.max_num_seqs}, a budget of {server.max_num_batched_tokens} tokens a " \
          f"step, and {memory}. Predicted against measured:"
    for load, figures in zip(loads, found.figures):
        errors = ", ".join(f"{name.removesuffix('_ms').removesuffix('_tps')} {100 * (figures[name] / value - 1):+.1f}"
                           for name, value in load.figures.items() if name in figures)
        yield from (f"{load.name}: {sentence}" for sentence in [f"{errors} %."][:bool(errors)] + load.oddities)
    yield nearer_scheduler(found)
    yield from not_told(loads, found)
    yield from limits(told, server.max_num_batched_tokens)


def nearer_scheduler(found):
    """Which scheduler comes nearer."""
    name, other = SCHEDULERS if found.way.server.asynchronous is False else SCHEDULERS[::-1]
    rest = ""
    if found.other_error is not None:
        close = ", too near to tell them apart" if found.other_error < SAME * found.error else ""
        rest = f"; {found.other_error:.2f} if it were {other}{close}"
    return f"Scheduler: {name}. Error {found.error:.2f}, of 1 that a prediction may have{rest}."


def not_told(loads, found):
    """What the loads cannot tell, and which load would."""
    prompts = [tokens for load in loads for tokens in load.prompt_tokens]
    if len(found.points) == 1:
        sequences = counted(found.points[0], "sequence")
        yield f"Missing: step_ms_per_sequence is 0, all loads had about {sequences}. A load with more tells it."
    elif len(found.points) == 2 and found.way.shape == "line" and "experts" not in found.terms:
        yield "Between and beyond these two numbers of sequences a step is taken to be a straight line."
    if "context" not in found.terms:
        yield "Not told: a cost of the cache; it is part of the step. Loads with long and with short requests tell it."
    if not any("ttft" in name for load in loads for name in load.figures):
        yield "Missing: a TTFT. What is said of prefill and overhead is a guess."
    if max(prompts) <= APART * min(prompts):
        yield "All prompts have about one length: only the load tells overhead and prefill apart, roughly."
