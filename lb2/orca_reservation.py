"""How much memory should a request reserve, if nobody knows how long its answer will be?

Iteration-level scheduling with three answers: the model's longest sequence (max_seq); the prompt and the output limit
that the client declares, here 512 for outputs of at most 128 (max_gen); nothing (none), so that a request takes memory
as it writes, may find none left, and stalls. Nobody serves with the last: it shows what paging needs preemption for.
And the answer of today's servers (paged): a block of 16 tokens at a time, and whoever came last gives its blocks back
when there are none left, to be computed again later.

    python3 lb2/orca_reservation.py        writes orca_reservation.csv

    mean_reserved_tokens, mean_used_tokens     averages over the time in which anything ran; 12,597 tokens fit
    deadlock_s                                 when all that ran waited for memory; empty if it never came to that
"""

from typing import NamedTuple

import orca_iteration
import orca_stall
import paged
from command_line import run
from common import aligned, save, table
from inputs import BadInput
from orca_iteration import Outcome
from orca_model import CAPACITY_TOKENS, MAX_SEQ_TOKENS, duration, roofline
from orca_words import ASSUMPTIONS
from orca_workload import arguments, arrivals_at, chosen_workload, p50_ms_per_token, throughput_rps

MAX_BATCH = 64
MAX_GEN = 512  # output tokens that every request declares
RATES_RPS = (4, 8, 12)
BLOCK_SIZE = 16  # tokens of a block, for paged


def max_seq(requests, arrivals_us):
    """The Outcome where every request reserves the longest sequence that the model knows."""
    needs = [MAX_SEQ_TOKENS for _ in requests.prompt_tokens]
    return orca_iteration.schedule(requests, MAX_BATCH, arrivals_us, needs)


def max_gen(requests, arrivals_us):
    """The Outcome where every request reserves its prompt and the output that it declares."""
    needs = [prompt + MAX_GEN for prompt in requests.prompt_tokens]
    return orca_iteration.schedule(requests, MAX_BATCH, arrivals_us, needs)


def none(requests, arrivals_us):
    """The Outcome where nothing is reserved."""
    return orca_stall.schedule(requests, MAX_BATCH, arrivals_us)


def step_us(chunks, rows, cached):
    """One step of the roofline: a chunk of n tokens behind c cached ones makes n^2 / 2 + n c pairs, and reads the c."""
    tokens, behind = sum(chunk.tokens for chunk in chunks), sum(chunk.cached for chunk in chunks)
    pairs = sum(chunk.tokens * (chunk.tokens / 2 + chunk.cached) for chunk in chunks)
    # roofline counts a pair for each cached token of the rows; those behind a chunk are only read, their pairs are above
    return duration(roofline(tokens, 2 * (pairs - behind), rows, cached + behind), 1)


def in_blocks(requests, arrivals_us):
    """The Outcome of the paged scheduler: blocks within the same memory, any number of tokens a step, whole prompts only.

    arrivals_us: n times in us. reserved: the tokens of the blocks that are held; used: those written.
    """
    log = []
    blocks = CAPACITY_TOKENS // BLOCK_SIZE
    result = paged.schedule(requests, MAX_BATCH, arrivals_us, step_us, blocks, BLOCK_SIZE, log=log)
    busy_us = reserved_token_us = used_token_us = 0
    written = {}  # position -> tokens it has in memory
    for step in log:
        for position in step.preempted:
            del written[position]
        for position, tokens in step.scheduled:
            written[position] = written.get(position, 0) + tokens
        step_time_us = step.end_us - step.start_us
        busy_us += step_time_us
        reserved_token_us += step_time_us * BLOCK_SIZE * (blocks - step.free)
        used_token_us += step_time_us * sum(written.values())
        for position in step.finished:
            del written[position]
    return Outcome(result, reserved_token_us / busy_us, used_token_us / busy_us)


MODES = {
    "max_seq": max_seq,
    "max_gen": max_gen,
    "none": none,
    "paged": in_blocks,
}  # (Requests, n times in us) -> Outcome


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
    throughput = throughput_rps(arrivals_us, schedule.finished_us)
    return Measures(reserved, used, throughput, latency, None, len(arrivals_us))


def refuse_longer_than_declared(path, output_tokens):
    for position, output in enumerate(output_tokens):
        if output > MAX_GEN:
            what = f"output_tokens: expected at most {MAX_GEN}, which max_gen declares, found {output}"
            raise BadInput(f"{path}: record {position}: {what}")


def cells(measures):
    """A row of the file: tokens with one decimal, the rest with three, nothing where there is nothing."""
    reserved, used, *rest, finished = measures
    rest = ["" if number is None else f"{number:.3f}" for number in rest]
    return [f"{reserved:.1f}", f"{used:.1f}", *rest, finished]


def print_notices(runs, requests):
    """runs: Measures by (rate, mode)."""
    busiest = max(RATES_RPS)
    ratios = [f"{mode} {runs[busiest, mode].reserved_per_used:.2f}" for mode in MODES]
    print(f"Notice: tokens reserved for one that is used, at {busiest} requests/s: {', '.join(ratios)}.")
    shares = [f"{mode} {runs[busiest, mode].mean_used_tokens / CAPACITY_TOKENS:.0%}" for mode in MODES]
    print(f"Notice: of the {CAPACITY_TOKENS:,} tokens of memory so much is in use then: {', '.join(shares)}.")
    for (rate, mode), measures in runs.items():
        if measures.deadlock_s is not None:
            print(
                f"Notice: at {rate} requests/s {mode} deadlocks after {measures.deadlock_s:.1f} s, with "
                f"{measures.finished} of {requests} requests finished: every one in memory waits for memory."
            )
    slower = [
        f"{runs[busiest, mode].p50_ms_per_token:.0f} ({mode})" for mode in MODES if runs[busiest, mode].p50_ms_per_token
    ]
    print(f"Notice: median ms per token at {busiest} requests/s, of those that finish: {', '.join(slower)}.")


def main():
    args = arguments(__doc__).parse_args()
    workload = chosen_workload(args)
    refuse_longer_than_declared(args.requests, workload.requests.output_tokens)
    runs = {(rate, mode): measure(mode, workload, rate) for rate in RATES_RPS for mode in MODES}
    header = ["rate_rps", "reserve", *Measures._fields]
    rows = [[f"{rate:.3f}", mode, *cells(measures)] for (rate, mode), measures in runs.items()]
    save(args.out, {"orca_reservation.csv": table(header, rows)})

    print(f"Demo 4: what a request reserves\n{ASSUMPTIONS}")
    print(f"orca_reservation.csv:\n{aligned(header, rows)}", end="")
    print_notices(runs, len(workload.arrivals_s))


if __name__ == "__main__":
    run(main)
