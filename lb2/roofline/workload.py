"""Which requests arrive when, and how is a run of them measured?

    load_workload("requests.json")
        -> Workload(Requests([334, 143, ...], [33, 40, ...]), arrivals_s=[0.680, 1.700, 1.719, ...])
    arrivals_at(workload, 4)
        -> [169982.976, 424882.258, 429833.924, ...]

The requests arrive at random moments, one a second on average: a Poisson process. At another rate
the same requests come closer together or farther apart, so that two runs differ in the rate alone.
The first fifth of the requests, in the order of arrival, is the warm-up: both measures leave it
out.
"""

from itertools import accumulate
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

from common import BadInput, Requests, count
from files.sources import load_trace
from roofline.model import MAX_SEQ_TOKENS
from running.options import add_time_unit, parser_of, whole

RECORDED = Path(__file__).resolve().parent.parent.parent / "fixtures" / "orca" / "requests.json"
DRAWN = 1000  # requests of a fresh workload, as many as in the recorded one
PROMPT_TOKENS, OUTPUT_TOKENS = (32, 512), (1, 128)  # least and most of its uniform lengths


class Workload(NamedTuple):
    requests: Requests
    arrivals_s: list  # at one request per second; never falling


# --- in -------------------------------------------------------------------------------------------


def arguments(docstring):
    """The parser of a script of this lab: it takes requests that have a gap, or draws fresh ones."""
    parser = parser_of(docstring)
    parser.add_argument("--requests", type=Path, default=RECORDED, metavar="FILE",
                        help='JSON list of {"gap": seconds, "prompt_tokens": int, "output_tokens": int}, or a trace '
                             "with arrivals (default: fixtures/orca/requests.json)")
    parser.add_argument("--first", type=count, metavar="N", help="take the first N requests only (default: all)")
    add_time_unit(parser)
    parser.add_argument("--seed", type=whole, metavar="N", help="draw a fresh workload with this seed instead")
    return parser


def chosen_workload(args):
    """The Workload that the arguments of a script ask for. Raises BadInput or OSError."""
    if args.seed is None:
        return load_workload(args.requests, args.first, args.time_unit)
    if args.requests != RECORDED:
        raise BadInput("--seed draws a workload of its own: give it or --requests, not both")
    requests, arrivals_s = draw_workload(Random(args.seed))
    return Workload(Requests(*(column[: args.first] for column in requests)), arrivals_s[: args.first])


def load_workload(path, first=None, time_unit=None):
    """Read a JSON list of requests with a gap, or a trace with arrivals, as a Workload.

    gap: seconds since the arrival before, 0..MOST, at one request per second on average. The gaps
    of any other file are stretched to that rate. first: take so many requests only. Raises BadInput
    or OSError.
    """
    trace = load_trace(path, first, time_unit)
    if trace.gaps_s:
        arrivals_s = list(accumulate(trace.gaps_s))
    elif trace.arrivals_us and trace.arrivals_us[-1]:
        own_rps = (len(trace.arrivals_us) - 1) * 1e6 / trace.arrivals_us[-1]
        arrivals_s = [arrival / 1e6 * own_rps for arrival in trace.arrivals_us]
    else:
        found = "no arrivals" if trace.arrivals_us is None else "one moment of arrival for all"
        raise BadInput(f"{path}: {found}, and this lab needs them: a gap in each record, or a trace with arrivals")
    for position, (prompt, output) in enumerate(zip(*trace.requests)):
        if prompt + output > MAX_SEQ_TOKENS:
            raise BadInput(
                f"{path}: record {position}: prompt_tokens + output_tokens: "
                f"expected at most {MAX_SEQ_TOKENS}, the model's longest sequence, found {prompt + output}"
            )
    return Workload(trace.requests, arrivals_s)


def draw_workload(r):
    """A fresh Workload from a random.Random: a Poisson process, uniform lengths."""
    arrivals_s = list(accumulate(r.expovariate(1.0) for _ in range(DRAWN)))
    prompts = [r.randint(*PROMPT_TOKENS) for _ in range(DRAWN)]
    outputs = [r.randint(*OUTPUT_TOKENS) for _ in range(DRAWN)]
    return Workload(Requests(prompts, outputs), arrivals_s)


def arrivals_at(workload, rate_rps):
    """When the requests arrive at this rate: n times in us, not rounded."""
    return [arrival / rate_rps * 1e6 for arrival in workload.arrivals_s]


# --- measures -------------------------------------------------------------------------------------


def warm_up(requests):
    """How many of the first requests are left out of the measures."""
    return len(requests) // 5


def throughput_rps(arrivals_us, finished_us, warm):
    """Requests served per second, without the first `warm` ones.

    The others are divided by the time from the first one's arrival to the last one's finish.
    """
    return (len(arrivals_us) - warm) * 1e6 / (max(finished_us[warm:]) - arrivals_us[warm])


def p50_ms_per_token(output_tokens, arrivals_us, finished_us):
    """Normalized latency in ms: p50, the median, of (finish - arrival) / output tokens after the warm-up."""
    warm = warm_up(arrivals_us)
    measured = zip(output_tokens[warm:], arrivals_us[warm:], finished_us[warm:])
    return median((finished - arrival) / tokens for tokens, arrival, finished in measured) / 1000
