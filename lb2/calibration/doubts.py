"""Can costs be trusted that gaps between tokens told? If not, what is probably the matter, and what helps?

    doubts(benches, found) -> [Doubt("stalls", "11 % of the time between tokens is explained by no step ..."), ...]

On the six runs of fixtures/clocked, real vLLM around a known clock, 0.2 % of the time is far off, no
step with a prefill is off by a fifth, and no part of a run by 1 %. Each sign is several times that.
"""

from math import fsum
from statistics import median
from typing import NamedTuple

from common import percentile
from calibration.fit import fit
from calibration.overhead import ENOUGH
from calibration.samples import Sample, computed_tokens, shares_s, arrivals, together_s

FAR, MOST_FAR = 0.5, 0.01  # a step is far off by half of itself. One per cent of the time is what a p99 is made of
OFF, MOST_OFF = 0.2, 0.05  # the aim is a p99 TTFT within 20 %; one step with a prefill in twenty may miss it
DRIFTED = 0.03  # the aim is costs within 3 %: no tenth of a run may be further off
LUMPED = 0.05  # of the gaps: more than a late delivery here and there
IN_TTFT = 0.5  # of the time that tokens without a gap need: TTFT holds them, or it would be far shorter
STEPS, LONG_US = 10, 50_000.0  # an overhead above both is no way through HTTP and a tokenizer
FASTEST_US = 1.0  # a prompt token: a GPU of 1,000 TFLOP/s needs so long for a model of half a billion weights
COMPUTED = 300  # prompt tokens that a GPU computes while it reads its weights: H100 990 TFLOP/s / 3.35 TB/s, B200 alike
TURNS = 0.6  # of the requests hold the one before and its answer: chance brings no more than half


class Doubt(NamedTuple):
    """Why costs cannot be trusted: a word for costs.txt, and a sentence."""

    name: str
    sentence: str


def doubts(benches, found):
    """The Doubts about a Calibration. One that explains others stands for them."""
    signs = list(lumps(benches))
    if not signs:
        signs = list(drifts(benches, found)) or [*stalls(found), *prefills(benches, found)]
        signs += free_prefill(benches, found)
    return [*signs, *long_overhead(found), *conversations(benches)]


def stalls(found):
    """Time between tokens that no step explains."""
    far_us = [sample.us * sample.gaps for sample, residual in zip(found.samples, found.fit.residuals_us)
              if not sample.prefills and abs(residual) > FAR * (sample.us - residual)]
    share = fsum(far_us) / fsum(sample.us * sample.gaps for sample in found.samples)
    if share > MOST_FAR:
        yield Doubt("stalls", f"{100 * share:.1f} % of the time between tokens is explained by no step. Something else "
                    "held the server up. Predicted times leave it out. Look at its log, and measure it alone.")


def prefills(benches, found):
    """Steps whose prefill took another time than its tokens say. Chunks of several tokens do not tell single steps."""
    off = [abs(residual) > OFF * sample.us for sample, residual in zip(found.samples, found.fit.residuals_us)
           if sample.prefills]
    chunks = sum(len(itls) for bench in benches for itls in bench.itls_s)
    tokens = sum(output - 1 for bench in benches for output in bench.output_tokens)
    if sum(off) >= ENOUGH and sum(off) > MOST_OFF * len(off) and chunks > (1 - LUMPED) * tokens:
        yield Doubt("prefills", f"{100 * sum(off) / len(off):.0f} % of the steps with a prefill are off by more than "
                    "20 %: prompts cost far less or more than their length says. Probably a prefix cache was at work. "
                    "Measure with --no-enable-prefix-caching, or with prompts that share nothing.")


def drifts(benches, found):
    """Tenths of a run that were slower or faster than all together. Without start times no single step is known."""
    pairs = iter(zip(found.samples, found.fit.residuals_us))
    for bench, steps in zip(benches, found.steps):
        mine = [next(pairs) for _ in steps.samples] if steps else []
        if bench.starts_s is None:
            continue
        whole_us, now_us, parts = fsum(sample.us for sample, _ in mine), 0.0, [[] for _ in range(10)]
        for sample, residual in mine:
            parts[min(9, int(10 * now_us / whole_us))].append(residual / (sample.us - residual))
            now_us += sample.us
        off = {i: median(part) for i, part in enumerate(parts, start=1) if len(part) >= ENOUGH}
        worst = max(off, key=lambda i: abs(off[i]), default=None)
        if worst and abs(off[worst]) > DRIFTED:
            way = "longer" if off[worst] > 0 else "shorter"
            yield Doubt("drift", f"{bench.name}: in the {worst}. tenth of its time steps take "
                        f"{100 * abs(off[worst]):.0f} % {way} than the fit of all. The server warmed up, its speed "
                        "drifted, or the runs are of different servers. Warm it up, or leave that part out.")


def lumps(benches):
    """Runs whose tokens did not come one at a time, or not at all. Chunks of one size are no matter."""
    for bench in benches:
        gaps, tokens = sum(map(len, bench.itls_s)), sum(bench.output_tokens) - len(bench.output_tokens)
        if not gaps:
            continue
        least_s = together_s(bench)
        together = sum(gap < least_s for itls in bench.itls_s for gap in itls) / gaps
        each = [(output - 1) / len(itls) for output, itls in zip(bench.output_tokens, bench.itls_s) if itls]
        uneven = gaps < (1 - LUMPED) * tokens and percentile(each, 75) - percentile(each, 25) > LUMPED * median(each)
        step_s = median(share * came for of_request in arrivals(bench)
                        for share, (_, came) in zip(shares_s(of_request), of_request[1:]))
        missing = [ttft / (step_s * (output - 1 - len(itls))) for ttft, output, itls
                   in zip(bench.ttfts_s, bench.output_tokens, bench.itls_s) if output - 1 > len(itls)]
        if uneven and median(missing) > IN_TTFT:
            yield Doubt("hidden_tokens", f"{bench.name}: there are {gaps:,} gaps for {tokens:,} tokens. TTFT may hold "
                        "the others, which the client did not see, as a model's reasoning: let it count them. The "
                        f"true step takes about {1000 * step_s:.2f} ms; prefill and overhead are not told.")
        elif bench.accepted or together > LUMPED or uneven:
            named = f" (the file names {bench.accepted:g} tokens a step)" if bench.accepted else ""
            yield Doubt("several_tokens", f"{bench.name}: a step takes about {1000 * step_s:.2f} ms and brings a "
                        f"sequence {tokens / (gaps * (1 - together)):.2f} tokens: speculative decoding{named}. The "
                        "costs are those of one token; ITL, and requests of other lengths, are not predicted.")


def long_overhead(found):
    """TTFT that no step explains."""
    overhead_us, step_us = found.overhead.us, found.costs.decode_us(1)
    if overhead_us > max(STEPS * step_us, LONG_US):
        yield Doubt("overhead", f"A TTFT holds {overhead_us / 1000:.0f} ms that no step explains, "
                    f"{overhead_us / step_us:.0f} times a step: tokens that the client does not see (reasoning), a "
                    "queue before the server, or another server for the prefill. If it is the network, it is right.")


def free_prefill(benches, found):
    """Prompts that add nothing to the steps beside which they were prefilled, though they are long."""
    long = sum(sample.prefills > 0 and sample.prompt_tokens >= COMPUTED * sample.prefills for sample in found.samples)
    if long < ENOUGH or found.fit.terms.get("prefill", 0.0) >= FASTEST_US:
        return
    waits = [Sample(1e6 * ttft, 1, 0, prompt, 1, 0, 1) for bench in benches
             for ttft, prompt in zip(bench.ttfts_s, computed_tokens(bench))]
    if fit(waits).terms.get("prefill", 0.0) >= FASTEST_US:
        yield Doubt("elsewhere", f"{long} steps should hold a prefill of {COMPUTED} tokens or more, and none "
                    "takes longer for it, though TTFT grows with the prompt: prefill and decode apart. A plan, of "
                    "one GPU for both, would be wrong.")
    else:
        yield Doubt("free_prompts", "Prompts add almost nothing to a step, and TTFT does not grow with them: was the "
                    "prefix cache warm, from a run with the same prompts before? Measure with another --seed, or with "
                    "--no-enable-prefix-caching.")


def conversations(benches):
    """Turns of conversations, whose history is in the cache of most servers."""
    for bench in benches:
        requests = list(zip(bench.prompt_tokens, bench.output_tokens))
        grown = sum(after[0] > before[0] + before[1] for before, after in zip(requests, requests[1:]))
        many = len(requests) > 4 * ENOUGH and grown > TURNS * (len(requests) - 1)
        if bench.cached_tokens is None and (bench.turns or many):
            which = f"{bench.turns} of {len(requests)} requests are later" if bench.turns else \
                f"{grown} of {len(requests) - 1} requests are longer than the one before and its answer:"
            yield Doubt("history", f"{bench.name}: {which} turns of conversations, whose history most servers find in "
                        "their cache. Then a computed prompt token costs several times more than it seems. Measure "
                        "with --cache-report.")
            return
