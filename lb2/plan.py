"""With my traffic, on my server, at my targets: what max_num_seqs, how much load, how many replicas?

Plays a trace through the paged scheduler at the costs of a server (plan_calibrate.py) and looks for the largest load at which
both targets hold at p99, over all requests; none is dropped or left unfinished.

    closed loop   the largest number of clients, each issuing its next request when its last one ends
    open loop     per max_num_seqs, the highest multiple of the trace's own arrival rate (its time axis shrunk), or in
                  req/s where the file has no rate of its own (step 6's 20 draws): climbed by 5 % to the first miss, or
                  until all arrive within one step
    --replicas    the fewest equal servers, requests dealt in turn, at which the trace at its own rate meets both

TPOT of a request = (finish - first token) / (output_tokens - 1). It leaves out what costs.txt leaves out: attention's
growth with the context, the client, asynchronous scheduling, noise.

    python3 lb2/plan.py --requests trace.csv --costs costs.txt        writes plan.txt and, every load tried, plan.csv
"""

import math
import os
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing import active_children
from typing import NamedTuple

import paged_fast
from command_line import add_time_unit, amount, arguments, count, progress, run
from common import pairs, percentile, save, table
from cost_model import Costs, load_costs
from inputs import BadInput, Requests
from queueing import DRAWS, at_rate, unit_arrivals
from sources import load_trace

BLOCK_SIZE = 16
MAX_NUM_SEQS = [8, 16, 32, 64, 128, 256]
CLIMB = 1.05
HALF = 14  # rungs of 5 % that halve a load, nearly: 1.05^14 = 1.98
HALVINGS = 10  # of the first load, if it misses: below, slower arrivals are not what is missing
BOUNDED = 299  # requests from which their largest TTFT bounds the p99 with 95 %: 0.99^299 < 0.05
HEADER = ["max_num_seqs", "load", "rps", "p99_ttft_ms", "p99_ttft_low_ms", "p99_ttft_high_ms", "p99_tpot_ms",
          "throughput_tps", "meets"]


class Problem(NamedTuple):
    """What stays the same while loads are tried."""

    requests: Requests
    arrivals_us: list  # None: the file has none
    prefixes: list  # for paged_fast.schedule
    costs: Costs
    max_num_batched_tokens: int
    kv_blocks: int
    target_ttft_ms: float
    target_tpot_ms: float  # math.inf: no target


class Point(NamedTuple):
    """One load tried: its p99s in ms, with the 95 % interval of the first (high None: the sample cannot bound it)."""

    max_num_seqs: int
    load: float
    rps: float
    p99_ttft_ms: float
    ttft_low_ms: float
    ttft_high_ms: float
    p99_tpot_ms: float
    throughput_tps: float
    meets: bool


# --- the uncertainty of a p99 -------------------------------------------------------------------------------------


@cache
def p99_ranks(n):
    """(low, high): ranks from 1 of the order statistics that hold the p99 of n independent numbers between them, 95 %.

    The number of values above the p99 is binomial (n, 0.01). Equal tails of 2.5 % where the largest value is enough for
    that; from 299 numbers the largest closes the interval and the lower end gets what is left of 5 %; below, high is None.
    """
    log_odds = math.log(0.01 / 0.99)
    log_pmf, above = n * math.log(0.99), [math.exp(n * math.log(0.99))]  # above[k]: P(at most k values above)
    for k in range(1, n + 1):
        log_pmf += math.log((n - k + 1) / k) + log_odds
        above.append(above[-1] + math.exp(log_pmf))
        if above[-1] >= 1 - 1e-12 or (k > 0.01 * n and math.exp(log_pmf) < 1e-15):
            break
    high = n - next(k for k in range(len(above)) if above[k] > 0.025) + 1 if above[0] <= 0.025 else n
    tail = 0.025 if above[0] <= 0.025 else max(0.0, 0.05 - above[0]) if n >= BOUNDED else 0.05
    low = n - next((k for k, p in enumerate(above) if 1 - p <= tail), n - 1)
    return max(1, low), high if n >= BOUNDED else None


def p99_interval(values):
    """(p99, low, high) of one or more numbers."""
    ordered = sorted(values)
    low, high = p99_ranks(len(ordered))
    p99 = percentile(ordered, 99)
    return p99, min(p99, ordered[low - 1]), ordered[high - 1] if high else None


# --- one load -----------------------------------------------------------------------------------------------------


def play(problem, max_num_seqs, arrivals_us, positions=None):
    """(TTFTs, TPOTs, tokens, span) in us of one server with these arrivals (None: a closed loop of max_num_seqs clients)."""
    requests, prefixes = problem.requests, problem.prefixes
    if positions is not None:
        requests = Requests(*([column[i] for i in positions] for column in requests))
        prefixes = prefixes and [prefixes[i] for i in positions]
    result = paged_fast.schedule(
        requests, max_num_seqs, arrivals_us, problem.costs, problem.kv_blocks, BLOCK_SIZE,
        problem.max_num_batched_tokens, prefixes=prefixes,
    )
    issued_us = arrivals_us or closed_loop_issues(result.finished_us, max_num_seqs)
    ttfts_us = [first - issued + problem.costs.overhead_us for first, issued in zip(result.first_token_us, issued_us)]
    tpots_us = [
        (finished - first) / (output - 1)
        for finished, first, output in zip(result.finished_us, result.first_token_us, requests.output_tokens)
        if output > 1
    ]
    return ttfts_us, tpots_us, sum(requests.output_tokens), max(result.finished_us)


def closed_loop_issues(finished_us, clients):
    """When each request was issued: the first `clients` at 0, the others as one more request ended."""
    return [0] * min(clients, len(finished_us)) + sorted(finished_us)[: max(0, len(finished_us) - clients)]


def measured(problem, max_num_seqs, load, rps, plays, span=sum):
    """The Point of one load, from one or more plays, pooled. span: their time, sum of one after the other, or max."""
    ttfts_us, tpots_us, tokens, spans_us = [], [], 0, []
    for more_ttfts, more_tpots, more_tokens, more_span in plays:
        ttfts_us += more_ttfts
        tpots_us += more_tpots
        tokens += more_tokens
        spans_us.append(more_span)
    p99, low, high = p99_interval(ttfts_us)
    p99_tpot = percentile(tpots_us, 99) if tpots_us else 0.0
    meets = p99 <= 1000 * problem.target_ttft_ms and p99_tpot <= 1000 * problem.target_tpot_ms
    return Point(max_num_seqs, load, rps, p99 / 1000, low / 1000, high and high / 1000, p99_tpot / 1000,
                 tokens * 1_000_000 / span(spans_us), meets)


def own_rps(arrivals_us):
    """Requests per second of a trace: the gaps between arrivals by the time they take; None without two moments."""
    if arrivals_us is None or arrivals_us[-1] == 0:
        return None
    return (len(arrivals_us) - 1) * 1_000_000 / arrivals_us[-1]


def at_load(problem, max_num_seqs, load):
    """The Point of an open loop: load is a multiple of the trace's own rate, or req/s where it has none."""
    own = own_rps(problem.arrivals_us)
    if own:
        arrivals = [[round(arrival / load) for arrival in problem.arrivals_us]]
    else:
        arrivals = [at_rate(unit_arrivals(seed, len(problem.requests.prompt_tokens)), load) for seed in range(DRAWS)]
    plays = (play(problem, max_num_seqs, arrivals_us) for arrivals_us in arrivals)
    return measured(problem, max_num_seqs, load, load * (own or 1), plays)


# --- the three searches -------------------------------------------------------------------------------------------


def closed_loop(problem, clients):
    """The Point of so many clients."""
    return measured(problem, clients, clients, 0.0, [play(problem, clients, None)])


def climb(problem, max_num_seqs):
    """(points tried in order of load, is there no edge?): from a load that meets the targets, by 5 %, to the first miss.

    It begins at about half the capacity, and lower, by halves, if that misses already. There is no edge if every load is
    met up to that at which all requests arrive within one step.
    """
    n, own = len(problem.requests.prompt_tokens), own_rps(problem.arrivals_us) or 1
    *_, makespan_us = play(problem, max_num_seqs, [0] * n)
    first = rung = math.floor(math.log(n * 1_000_000 / makespan_us / 2 / own, CLIMB))
    at_once = 1_000_000 * n / problem.costs.decode_us(1) / own  # the load that packs n arrivals into a step
    tried = {rung: at_load(problem, max_num_seqs, load_of(rung))}
    while not tried[rung].meets and rung > first - HALVINGS * HALF:
        rung -= HALF
        tried[rung] = at_load(problem, max_num_seqs, load_of(rung))
    while tried[rung].meets and load_of(rung) < at_once:
        rung += 1
        if rung not in tried:
            tried[rung] = at_load(problem, max_num_seqs, load_of(rung))
    return [tried[rung] for rung in sorted(tried)], tried[rung].meets


def load_of(rung):
    """The load of a rung, to five digits: 5 % above the one below; the same rungs for every setting."""
    return float(f"{CLIMB**rung:.5g}")


def replicas(problem, max_num_seqs):
    """(fewest servers, their Point), requests dealt in turn at the trace's own rate; None if no number is enough."""
    n = len(problem.requests.prompt_tokens)
    for servers in range(1, n + 1):
        plays = []
        for server in range(servers):
            positions = range(server, n, servers)
            plays.append(play(problem, max_num_seqs, [problem.arrivals_us[i] for i in positions], positions))
        point = measured(problem, max_num_seqs, 1.0, own_rps(problem.arrivals_us), plays, span=max)
        if point.meets:
            return servers, point
    return None


def begin(problem):
    """Set up a worker process: what it works on, which is large and so is not sent with every job, and how it ends."""
    global at_work
    at_work = problem
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a word


def work(search, *arguments):
    """In a worker process: one search on its problem."""
    return search(at_work, *arguments)


def in_processes(problem, jobs, processes):
    """The results of jobs (search, *arguments) on a problem, in their order, whatever the number of processes."""
    workers = min(processes or os.cpu_count() or 1, len(jobs))
    with ProcessPoolExecutor(workers, initializer=begin, initargs=(problem,)) as pool:
        try:
            futures = [pool.submit(work, *job) for job in jobs]
            for future in progress(as_completed(futures), len(futures)):
                future.result()
            return [future.result() for future in futures]
        except BaseException:
            for child in active_children():  # interrupted, or one of them failed: the others need not go on
                child.terminate()
            raise


def largest_closed(problem, up_to):
    """(the last Point before the first that misses, or None; was every number up to the limit enough?)."""
    best = None
    most = min(up_to, len(problem.requests.prompt_tokens))
    for clients in range(1, most + 1):
        point = closed_loop(problem, clients)
        if not point.meets:
            return best, False
        best = point
    return best, True


# --- in words -----------------------------------------------------------------------------------------------------


def interval(point):
    """The p99 TTFT as it may be quoted."""
    if point.ttft_high_ms is None:
        return f"at least {point.ttft_low_ms:.2f} ms (95 %; {point.p99_ttft_ms:.2f} here, from too few requests to bound it)"
    return f"{point.p99_ttft_ms:.2f} ms (95 % interval {point.ttft_low_ms:.2f} to {point.ttft_high_ms:.2f})"


def measures(point):
    return f"p99 TTFT {interval(point)}, p99 TPOT {point.p99_tpot_ms:.2f} ms, {point.throughput_tps:.2f} tokens/s"


def rate(rps):
    """Requests per second with three decimals, and a slow one with three digits."""
    return f"{rps:.3f}" if rps >= 0.1 else f"{rps:.3g}"


def row(point):
    """A line of plan.csv."""
    ms = [point.p99_ttft_ms, point.ttft_low_ms, point.ttft_high_ms, point.p99_tpot_ms, point.throughput_tps]
    cells = ["" if value is None else f"{value:.2f}" for value in ms]
    return [point.max_num_seqs, f"{point.load:g}", rate(point.rps), *cells, str(point.meets).lower()]


def plan_line(best):
    """plan.txt of the best open-loop Point; zeros where no load meets the targets."""
    if best is None:
        return pairs(max_num_seqs=0, max_rps="0.000", p99_ttft_ms="0.00", p99_tpot_ms="0.00", throughput_tps="0.00")
    return pairs(max_num_seqs=best.max_num_seqs, max_rps=rate(best.rps), p99_ttft_ms=f"{best.p99_ttft_ms:.2f}",
                 p99_tpot_ms=f"{best.p99_tpot_ms:.2f}", throughput_tps=f"{best.throughput_tps:.2f}")


def print_closed(best, everyone, alone):
    if best is None:
        print(f"Infeasible: one request alone misses a target: {measures(alone)}.")
    elif everyone:
        print(f"Closed loop: no edge found up to {best.max_num_seqs} clients, {measures(best)}.")
    else:
        print(f"Closed loop: {best.max_num_seqs} clients, {measures(best)}.")


def print_open(problem, max_num_seqs, points, endless):
    unit = "times its own rate" if own_rps(problem.arrivals_us) else "requests/s"
    met = [point for point in points if point.meets]
    if endless:
        print(f"Open loop, max_num_seqs {max_num_seqs}: no edge found up to {points[-1].load:g} {unit}, "
              "where all arrive within one step.")
    elif not met:
        print(f"Open loop, max_num_seqs {max_num_seqs}: no load down to {points[0].load:.3g} {unit} meets the targets.")
    else:
        best = met[-1]
        print(
            f"Open loop, max_num_seqs {max_num_seqs}: {best.load:g} {unit} ({rate(best.rps)} requests/s), {measures(best)}."
        )


def print_replicas(problem, limits, alone, processes):
    if own_rps(problem.arrivals_us) is None:
        print("Replicas: the file has no rate of its own to serve: no arrivals, or all at one moment.")
    elif not alone.meets:
        print("Replicas: no number of servers is enough for what one request alone misses.")
    else:
        found = in_processes(problem, [(replicas, limit) for limit in limits], processes)
        answers = {limit: answer for limit, answer in zip(limits, found) if answer}
        if answers:
            limit = min(answers, key=lambda limit: (answers[limit][0], limit))
            servers, point = answers[limit]
            print(
                f"Replicas: {servers}, each with max_num_seqs {limit}, for {rate(point.rps)} requests/s: {measures(point)}."
            )
        else:
            print(
                "Replicas: no number of servers meets the targets: what misses them are requests that arrive together."
            )


# --- the command line ---------------------------------------------------------------------------------------------


def target(text):
    """argparse type: milliseconds, or none."""
    return math.inf if text == "none" else amount(text)


def parser():
    parser = arguments(__doc__)
    add_time_unit(parser)
    parser.add_argument("--target-ttft-ms", type=target, default=200.0, metavar="MS",
                        help="p99 time to first token allowed, in ms, or none (default: 200)")
    parser.add_argument("--target-tpot-ms", type=target, default=50.0, metavar="MS",
                        help="p99 time per output token allowed, in ms, or none (default: 50)")
    parser.add_argument("--max-num-seqs", type=count, nargs="+", default=MAX_NUM_SEQS, metavar="N",
                        help=f"limits to try in open loop (default: {' '.join(map(str, MAX_NUM_SEQS))})")
    parser.add_argument("--max-num-batched-tokens", type=count, default=2048, metavar="N",
                        help="token budget of a step (default: 2048)")
    parser.add_argument(
        "--kv-tokens", type=count, metavar="N", help="tokens that the KV cache holds (default: unlimited)"
    )
    parser.add_argument(
        "--up-to", type=count, default=256, metavar="N", help="most clients tried in closed loop (default: 256)"
    )
    parser.add_argument(
        "--replicas", action="store_true", help="also find the fewest servers for the trace at its own rate"
    )
    parser.add_argument("--processes", type=count, metavar="N",
                        help="processes to use (default: the machine's); the result does not depend on it")
    return parser


def main():
    args = parser().parse_args()
    costs, trace = load_costs(args.costs), load_trace(args.requests, args.first, args.time_unit)
    print(f"{args.requests.name}: {trace}")
    if args.kv_tokens is not None and args.kv_tokens < BLOCK_SIZE:
        raise BadInput(f"--kv-tokens: expected at least one block of {BLOCK_SIZE}, found {args.kv_tokens}")
    kv_blocks = args.kv_tokens // BLOCK_SIZE if args.kv_tokens else paged_fast.UNLIMITED
    problem = Problem(trace.requests, trace.arrivals_us, trace.prefixes, costs, args.max_num_batched_tokens, kv_blocks,
                      args.target_ttft_ms, args.target_tpot_ms)
    limits = sorted(set(args.max_num_seqs))
    alone = closed_loop(problem, 1)
    climbs, closed = {}, (None, False)
    if alone.meets:
        jobs = [(largest_closed, args.up_to), *((climb, limit) for limit in reversed(limits))]
        closed, *found = in_processes(problem, jobs, args.processes)
        climbs = dict(zip(reversed(limits), found))
    points = [point for limit in limits if limit in climbs for point in climbs[limit][0]]
    best = max(
        (point for point in points if point.meets), key=lambda point: (point.rps, -point.max_num_seqs), default=None
    )
    line = plan_line(best)
    save(args.out, {"plan.txt": line, "plan.csv": table(HEADER, map(row, points))})

    print(f"plan.txt: {line}", end="")
    print_closed(*closed, alone)
    for limit in limits:
        if limit in climbs:
            print_open(problem, limit, *climbs[limit])
    if alone.meets and problem.target_tpot_ms == math.inf:
        print(
            "Without a TPOT target, raising max_num_seqs has no upper edge in open loop: more sequences only slow each other."
        )
    if args.replicas:
        print_replicas(problem, limits, alone, args.processes)


if __name__ == "__main__":
    run(main)
