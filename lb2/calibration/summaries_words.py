"""What do costs mean that were fitted to summaries, how near do they come, and what did the loads
not tell?

    for sentence in said_of_summaries(loads, found, server): say(sentence)
"""

from calibration.summaries import FIGURES
from calibration.summaries_fit import APART
from files.sources import counted

SAME = 1.05  # errors of two schedulers within this ratio do not tell them apart


def said_of_summaries(loads, found, server):
    """The sentences that explain a SummaryFit. server: the limits it was played with."""
    costs = found.costs
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
    yield f"Played with max_num_seqs {server.max_num_seqs}, a budget of {server.max_num_batched_tokens} tokens a " \
          f"step, and {memory}."
    for load, figures in zip(loads, found.figures):
        errors = ", ".join(f"{name.removesuffix('_ms').removesuffix('_tps')} {100 * (figures[name] / value - 1):+.1f}"
                           for name, value in load.figures.items() if name in figures)
        if errors:
            yield f"{load.name}: {errors} %."
        for oddity in load.oddities:
            yield f"{load.name}: {oddity}"
    yield scheduler(found)
    yield from missing(loads, found)


def scheduler(found):
    """Which scheduler comes nearer."""
    name, other = ("asynchronous", "synchronous") if found.asynchronous else ("synchronous", "asynchronous")
    if found.other_error is None:
        return f"Scheduler: {name}, as told. Error: {found.error:.2f}; 1 is as far as a prediction may be."
    close = "; that is too near to tell them apart" if found.other_error < SAME * found.error else ""
    return f"Scheduler: {name}. Error {found.error:.2f}, {found.other_error:.2f} if it were {other}{close}. " \
           "1 is as far as a prediction may be."


def missing(loads, found):
    """What the loads cannot tell, and which load would."""
    if len(found.points) == 1:
        sequences = counted(found.points[0], "sequence")
        yield f"Missing: step_ms_per_sequence is 0, all loads had about {sequences}. A load with more tells it."
    elif len(found.points) == 2:
        yield "Between and beyond the two numbers of sequences a step is taken to be a straight line. That fails for " \
              "a mixture of experts; a third load between them tells it."
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
