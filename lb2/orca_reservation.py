"""How much memory should a request reserve, if nobody knows how long its answer will be?

Iteration-level scheduling with three answers: the model's longest sequence (max_seq); the prompt and the output limit
that the client declares, here 512 for outputs of at most 128 (max_gen); nothing (none), so that a request takes memory
as it writes, may find none left, and stalls. Nobody serves with the last: it shows what paging needs preemption for.
It ignores swapping and recomputing.

    python3 lb2/orca_reservation.py        writes orca_reservation.csv

    mean_reserved_tokens, mean_used_tokens     averages over the time in which anything ran; 12,597 tokens fit
    deadlock_s                                 when all that ran waited for memory; empty if it never came to that
"""

from typing import NamedTuple

import orca_iteration
import orca_stall
from common import BadInput, aligned, run, save, table
from orca_model import ASSUMPTIONS, CAPACITY_TOKENS, MAX_SEQ_TOKENS
from orca_workload import arguments, arrivals_at, chosen_workload, p50_ms_per_token, throughput_rps

MAX_BATCH = 64
MAX_GEN = 512  # output tokens that every request declares
RATES_RPS = (4, 8, 12)


def max_seq(requests, arrivals_us):
    needs = [MAX_SEQ_TOKENS for _ in requests.prompt_tokens]
    return orca_iteration.schedule(requests, MAX_BATCH, arrivals_us, needs)


def max_gen(requests, arrivals_us):
    needs = [prompt + MAX_GEN for prompt in requests.prompt_tokens]
    return orca_iteration.schedule(requests, MAX_BATCH, arrivals_us, needs)


def none(requests, arrivals_us):
    return orca_stall.schedule(requests, MAX_BATCH, arrivals_us)


MODES = {"max_seq": max_seq, "max_gen": max_gen, "none": none}  # (Requests, n times in us) -> Outcome


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
