"""With my traffic, on my server, at my targets: how much load, which max_num_seqs, how many servers?

Runs the requests through the paged scheduler at the costs of a server (calibrate.py) and looks for
the largest load at which every target holds at p99, over all requests. None is dropped.

    open loop     requests per second: the trace's own arrivals, faster or slower; Poisson arrivals
                  where the file has none
    closed loop   clients, each of which sends its next request when its last one has ended
    --rps X       how many equal servers the trace needs at X requests/s, dealt to them in turn

The answer is a load that about nine of ten futures of the trace carry. They are told by 20 replays,
made of blocks of consecutive requests that are drawn from the trace. No answer is above the capacity.

TTFT is the time to the first token, TPOT the mean time between a request's tokens, E2E the time to
its last token, ITL the time between two tokens of any request. The engine is asynchronous, as
vLLM's is. It leaves out noise, and whatever the costs leave out.

    python3 lb2/plan.py --requests trace.csv --costs costs.txt      writes plan.txt csv svg
"""

import math
from functools import partial

from common import BadInput, count, number, run, save, say
from running.options import add_columns, add_time_unit, arguments, options, whole
from files.costs import BUDGET, load_server
from files.sources import load_trace
from drawing.plan import draw_plan
from planning.answers import Asked, answers
from planning.arrivals import grid_of, own_rps, spread
from planning.engine import LEAST_KV_TOKENS, Targets, Traffic
from planning.loads import Problem, Setup
from planning.own_run import own_run
from planning.replays import block_rows
from planning.results import picture_of, plan_fields, plan_json, plan_line, plan_table
from planning.words import Plan, sentences
from running.processes import cores

MAX_NUM_SEQS = [8, 16, 32, 64, 128, 256]
PERCENTILES = [50, 90, 95, 99, 99.9]


def target(text):
    """argparse type: milliseconds, or none."""
    return math.inf if text == "none" else number(text)


def parser():
    parser = arguments(__doc__)
    add_time_unit(parser)
    add_columns(parser)
    for name, default, words in (("ttft", 200.0, "time to first token"), ("tpot", 50.0, "time per output token"),
                                 ("e2e", math.inf, "time to the last token"), ("itl", math.inf, "time between tokens")):
        shown = "none" if default == math.inf else f"{default:g}"
        parser.add_argument(f"--target-{name}-ms", type=target, default=default, metavar="MS",
                            help=f"{words} allowed, in ms, or none (default: {shown})")
    parser.add_argument("--percentile", type=number, choices=PERCENTILES, default=99.0, metavar="P",
                        help=f"at which the targets must hold: {', '.join(map(str, PERCENTILES))} (default: 99)")
    parser.add_argument("--max-num-seqs", type=count, nargs="+", metavar="N",
                        help="limits to try (default: the server's if --costs says it, else "
                             f"{' '.join(map(str, MAX_NUM_SEQS))})")
    parser.add_argument("--max-num-batched-tokens", type=count, nargs="+", metavar="N",
                        help=f"token budgets of a step (default: that of --costs, else {BUDGET})")
    parser.add_argument("--kv-tokens", type=count, metavar="N",
                        help="tokens that the KV cache holds (default: those of --costs, else unlimited)")
    parser.add_argument("--synchronous", action="store_true",
                        help="a scheduler that waits for each step's results (default: what --costs says, else not)")
    parser.add_argument("--no-prefix-caching", action="store_true", help="even if the trace names shared prefixes")
    parser.add_argument("--spread", action="store_true", help="spread arrivals on a grid evenly over its steps")
    parser.add_argument("--clients", type=count, metavar="N",
                        help="open loop: a gateway lets N requests through at a time; others wait there, and it counts")
    parser.add_argument("--up-to", type=count, default=256, metavar="N",
                        help="most clients tried in closed loop (default: 256)")
    parser.add_argument("--replicas", action="store_true", help="how many servers for the trace at its own rate")
    parser.add_argument("--rps", type=number, metavar="X", help="how many servers for X requests/s")
    parser.add_argument("--spare", type=whole, metavar="N", help="servers that may be down (with --rps or --replicas)")
    parser.add_argument("--price-per-hour", type=number, metavar="X", help="of a server: what a million tokens cost")
    parser.add_argument("--times", type=partial(number, least=1), metavar="X", help="a burst: so many times the load")
    parser.add_argument("--for", type=number, dest="seconds", metavar="S", help="and for so many seconds")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON instead of words")
    parser.add_argument("--processes", type=count, metavar="N",
                        help="processes to use (default: as many as cores); the plan does not depend on it")
    return parser


def traffic_of(args, trace):
    """(the Traffic, the Grid of its arrivals or None). Raises BadInput."""
    arrivals_us = trace.arrivals_us if own_rps(trace.arrivals_us) else None
    grid = grid_of(trace.grid_us, arrivals_us) if arrivals_us else None
    if args.spread and not grid:
        raise BadInput(f"{args.requests}: --spread is for arrivals on a grid, and these lie on none")
    if args.spread:
        arrivals_us = spread(arrivals_us, grid.step_us)
    return Traffic(trace.requests, arrivals_us, None if args.no_prefix_caching else trace.prefixes), grid


def setups_of(args, described):
    """The Setups to try, by the options, then by the costs file, then by default. Raises BadInput."""
    kv_tokens = args.kv_tokens or described.kv_tokens
    if kv_tokens is not None and kv_tokens < LEAST_KV_TOKENS:
        raise BadInput(f"--kv-tokens: expected at least {LEAST_KV_TOKENS}, found {kv_tokens}")
    budgets = args.max_num_batched_tokens or [described.max_num_batched_tokens or BUDGET]
    limits = args.max_num_seqs or ([described.max_num_seqs] if described.max_num_seqs else MAX_NUM_SEQS)
    asynchronous = not args.synchronous and described.asynchronous is not False
    server = described._replace(asynchronous=asynchronous, kv_tokens=kv_tokens)
    return [Setup(server._replace(max_num_batched_tokens=budget), limit, args.clients)
            for budget in sorted(set(budgets)) for limit in sorted(set(limits))]


def asked_of(args, setups, own):
    """What is Asked. Raises BadInput."""
    if args.replicas and not (own or args.rps):
        raise BadInput(f"{args.requests}: --replicas needs a rate, and the file has no arrivals: give --rps")
    if args.spare is not None and not (args.rps or args.replicas):
        raise BadInput("--spare counts servers: give --rps or --replicas, too")
    if (args.times is None) != (args.seconds is None):
        raise BadInput("a burst needs both --times and --for")
    burst = (args.times, args.seconds) if args.times else None
    return Asked(setups, args.up_to, args.rps or (own if args.replicas else None), args.spare or 0,
                 own_run(args.requests, args.first), burst, args.price_per_hour)


def planned(args):
    """(Plan, plan.txt's fields, sentences, the Trace read) that the arguments of parser() ask for. Raises BadInput."""
    described = load_server(args.costs)
    trace = load_trace(args.requests, args.first, args.time_unit, columns=args.columns)
    traffic, grid = traffic_of(args, trace)
    own = own_rps(traffic.arrivals_us)
    targets = Targets(args.percentile, args.target_ttft_ms, args.target_tpot_ms, args.target_e2e_ms, args.target_itl_ms)
    if not targets.given:
        raise BadInput("no target is left: give at least one of --target-ttft-ms, -tpot-ms, -e2e-ms and -itl-ms")
    problem = Problem(targets, traffic, block_rows(traffic), own or 1.0)
    asked = asked_of(args, setups_of(args, described), own)
    found = answers(problem, asked, args.processes or cores())
    names = args.requests.name, args.costs and args.costs.name
    plan = Plan(problem, asked, found, names, own, grid, args.spread, trace.closed)
    return plan, plan_fields(plan), sentences(plan), trace


def main():
    args = options(parser())
    plan, fields, words, trace = planned(args)
    picture = draw_plan(picture_of(plan))
    save(args.out, {"plan.txt": plan_line(fields), "plan.csv": plan_table(plan), "plan.svg": picture})
    if args.json:
        print(plan_json(plan, fields, words))
        return
    for sentence in (*words, f"{args.requests.name}: {trace}. plan.txt, plan.csv and plan.svg hold the plan."):
        say(sentence)


if __name__ == "__main__":
    run(main)
