"""How much memory should a request reserve, if nobody knows how long its output will be?

The iteration level is run with four answers, the modes of this demo:

    max_seq    the longest sequence that the model allows, 2,048 tokens
    max_gen    the prompt, and the output limit that the client declares: here 512 for every request
    none       nothing. A request takes memory when it writes. It may find none left; then it
               stalls. Nobody serves like this. It shows why paging needs preemption.
    paged      a block of 16 tokens at a time, as today's servers do. If no block is left, the
               request that came last gives its blocks back. They are computed again later.

    python3 lb2/orca_reservation.py        writes orca_reservation.csv

    mean_reserved_tokens, mean_used_tokens    averages over the time in which anything runs
    deadlock_s                                when all running requests stall; empty if never
"""

from statistics import mean
from typing import NamedTuple

from common import BadInput, run, save, say, table
from paging import clock as paged_time
from roofline import iteration_level as orca_iteration
from roofline import stall as orca_stall
from roofline.iteration_level import Outcome
from roofline.model import ASSUMPTIONS, CAPACITY_TOKENS, MAX_SEQ_TOKENS, duration, roofline
from roofline.workload import arguments, arrivals_at, chosen_workload, p50_ms_per_token, throughput_rps, warm_up
from running.options import aligned

MAX_BATCH = 64
MAX_GEN = 512  # output tokens that every request declares
RATES_RPS = (4, 8, 12)
BLOCK_SIZE = 16  # tokens of a block, for paged


def max_seq(requests, arrivals_us):
    """The Outcome where every request reserves the longest sequence that the model allows."""
    return orca_iteration.schedule(requests, MAX_BATCH, arrivals_us, [MAX_SEQ_TOKENS] * len(arrivals_us))


def max_gen(requests, arrivals_us):
    """The Outcome where every request reserves its prompt and the output that it declares."""
    needs = [prompt + MAX_GEN for prompt in requests.prompt_tokens]
    return orca_iteration.schedule(requests, MAX_BATCH, arrivals_us, needs)


def none(requests, arrivals_us):
    """The Outcome where nothing is reserved."""
    return orca_stall.schedule(requests, MAX_BATCH, arrivals_us)


def step_us(chunks, rows, cached):
    """Time of one step of the paged scheduler, by the roofline.

    chunks: the prompt parts that are computed in it, each with its tokens and with the cached ones
    before it; rows: sequences that decode one token; cached: tokens that these rows have in the
    cache.

    A chunk of n tokens behind c cached ones makes n^2 / 2 + n c pairs, and reads the c from the
    cache. roofline would count one pair for each of the c, as it does for the rows: they are
    subtracted.
    """
    tokens = sum(chunk.tokens for chunk in chunks)
    behind = sum(chunk.cached for chunk in chunks)
    pairs = sum(chunk.tokens * (chunk.tokens / 2 + chunk.cached) for chunk in chunks)
    return duration(roofline(tokens, 2 * (pairs - behind), rows, cached + behind), 1)


def in_blocks(requests, arrivals_us):
    """The Outcome of the paged scheduler; reserved are the tokens of the blocks held, used those written.

    The memory is the same, the budget of tokens for a step has no limit, and prompts are never
    split.
    """
    log = []
    blocks = CAPACITY_TOKENS // BLOCK_SIZE
    result = paged_time.schedule(requests, MAX_BATCH, arrivals_us, step_us, blocks, BLOCK_SIZE, log=log)
    busy_us = reserved_token_us = used_token_us = used = 0
    written = [0] * len(arrivals_us)  # tokens that each request has in memory
    for step in log:
        for position in step.preempted:
            used -= written[position]
            written[position] = 0
        for position, tokens in step.scheduled:
            used += tokens
            written[position] += tokens
        step_time_us = step.end_us - step.start_us
        busy_us += step_time_us
        reserved_token_us += step_time_us * BLOCK_SIZE * (blocks - step.free)
        used_token_us += step_time_us * used
        for position in step.finished:
            used -= written[position]
    return Outcome(result, reserved_token_us / busy_us, used_token_us / busy_us)


MODES = {"max_seq": max_seq, "max_gen": max_gen, "none": none, "paged": in_blocks}  # Requests, n times in us -> Outcome


class Measures(NamedTuple):
    """One mode at one rate. A deadlock leaves no throughput and no latency."""

    mean_reserved_tokens: float
    mean_used_tokens: float
    throughput_rps: float | None
    p50_ms_per_token: float | None
    deadlock_s: float | None
    finished: int

    @property
    def reserved_per_used(self):
        return self.mean_reserved_tokens / self.mean_used_tokens


def measure(mode, workload, rate_rps):
    """The Measures of a Workload that arrives at this rate."""
    arrivals_us = arrivals_at(workload, rate_rps)
    schedule, reserved, used, deadlock_us = MODES[mode](workload.requests, arrivals_us)
    if deadlock_us is not None:
        finished = sum(time is not None for time in schedule.finished_us)
        return Measures(reserved, used, None, None, deadlock_us / 1e6, finished)
    latency = p50_ms_per_token(workload.requests.output_tokens, arrivals_us, schedule.finished_us)
    throughput = throughput_rps(arrivals_us, schedule.finished_us, warm_up(arrivals_us))
    return Measures(reserved, used, throughput, latency, None, len(arrivals_us))


def refuse_longer_than_declared(path, output_tokens):
    """max_gen reserves MAX_GEN tokens for each output, so no output may be longer."""
    for position, output in enumerate(output_tokens):
        if output > MAX_GEN:
            what = f"output_tokens: expected at most {MAX_GEN}, which max_gen declares, found {output}"
            raise BadInput(f"{path}: record {position}: {what}")


def rows_of(runs):
    """The rows of the file: tokens with one decimal, the rest with three, nothing where there is nothing."""
    rows = []
    for (rate, mode), (reserved, used, *rest, finished) in runs.items():
        rest = ["" if number is None else f"{number:.3f}" for number in rest]
        rows.append([f"{rate:.3f}", mode, f"{reserved:.1f}", f"{used:.1f}", *rest, finished])
    return rows


def show(runs, output_tokens):
    """runs: {(rate, mode): Measures}; output_tokens: of the requests, in full."""
    print("Demo 4: what a request reserves")
    print("orca_reservation.csv; reserved and used are the mean numbers of tokens:")
    header = ["rate_rps", "reserve", "reserved", "used", *Measures._fields[2:]]
    print(aligned(header, rows_of(runs)), end="")
    say(f"Notice: on average an output takes {mean(output_tokens):.0f} of the {MAX_GEN} tokens that max_gen reserves "
        "for it.")
    notice_memory({mode: runs[max(RATES_RPS), mode] for mode in MODES})
    notice_deadlocks(runs, len(output_tokens))


def notice_memory(busiest):
    """What each mode makes of the memory at the highest rate, and what that does to the latency.

    busiest: {mode: Measures}
    """
    ratios = [f"{mode} {measures.reserved_per_used:.2f}" for mode, measures in busiest.items()]
    shares = [f"{mode} {measures.mean_used_tokens / CAPACITY_TOKENS:.0%}" for mode, measures in busiest.items()]
    latencies = [f"{mode} {m.p50_ms_per_token:.0f}" for mode, m in busiest.items() if m.p50_ms_per_token is not None]
    say(f"Notice: tokens reserved for one used, at {max(RATES_RPS)} requests/s: {', '.join(ratios)}.")
    say(f"Notice: of the {CAPACITY_TOKENS:,} tokens of memory so much is used then: {', '.join(shares)}.")
    if latencies:
        say(f"Notice: the median latency is then, in ms per token: {', '.join(latencies)}.")


def notice_deadlocks(runs, requests):
    for (rate, mode), measures in runs.items():
        if measures.deadlock_s is not None:
            say(f"Notice: at {rate} requests/s {mode} deadlocks after {measures.deadlock_s:.1f} s, when "
                f"{measures.finished} of {requests} requests have finished. Every running request waits for memory "
                "that another one holds.")


def main():
    args = arguments(__doc__).parse_args()
    workload = chosen_workload(args)
    refuse_longer_than_declared(args.requests, workload.requests.output_tokens)
    runs = {(rate, mode): measure(mode, workload, rate) for rate in RATES_RPS for mode in MODES}
    save(args.out, {"orca_reservation.csv": table(["rate_rps", "reserve", *Measures._fields], rows_of(runs))})
    say(ASSUMPTIONS)
    show(runs, workload.requests.output_tokens)


if __name__ == "__main__":
    run(main)
