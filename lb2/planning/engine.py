"""How does one server serve this traffic: what does each request wait, and how much does the server carry?

    simulate(server, traffic, 64)                -> Run, arrivals as the traffic says (open loop)
    simulate(server, traffic, 64, clients=20)    -> Run, each client sends its next request when its last one has ended
    measured(targets, run)                       -> Measures(ttft_ms=180.2, tpot_ms=21.4, ..., peak_running=51)

This is the only file of the plan that calls the scheduler.
"""

import math
from collections import Counter
from typing import NamedTuple

from paging import fast as paged_fast
from paging.clock import percentile_of_counts
from files.costs import BUDGET
from common import Requests
from paging.scheduler import UNLIMITED

BLOCK_SIZE = 16  # tokens in a block of the KV cache, vLLM's default
OWN_BLOCKS = 1  # of the cache that vLLM logs: a server that logs 400 blocks has 399 to give
LEAST_KV_TOKENS = (1 + OWN_BLOCKS) * BLOCK_SIZE
FILL = 10  # capacity: as many waves of max_num_seqs requests, so that filling up and running empty weigh little
MOST_FILL = 10_000  # requests made of a short list for that
TIMES = ("ttft_ms", "tpot_ms", "e2e_ms", "itl_ms")


def blocks_of(kv_tokens):
    """The blocks that a server can give whose KV cache holds so many tokens, as vLLM logs it; None: any number."""
    return kv_tokens // BLOCK_SIZE - OWN_BLOCKS if kv_tokens else UNLIMITED


class Traffic(NamedTuple):
    """n requests in the order in which they are sent."""

    requests: Requests
    arrivals_us: list  # n times from 0 on; None: there are none
    prefixes: list  # n lists of (name, tokens), for the scheduler; None: prefix caching is off

    def part(self, turn):
        """The same of a slice of the rows."""
        return Traffic(self.requests._make(column[turn] for column in self.requests),
                       self.arrivals_us and self.arrivals_us[turn], self.prefixes and self.prefixes[turn])


class Targets(NamedTuple):
    """What the percentile of each measure may be, in ms. math.inf: no target."""

    percentile: float = 99
    ttft_ms: float = 200.0
    tpot_ms: float = 50.0
    e2e_ms: float = math.inf
    itl_ms: float = math.inf

    @property
    def given(self):
        """{measure: ms} of those that have a target."""
        return {name: ms for name, ms in zip(TIMES, self[1:]) if ms != math.inf}


class Run(NamedTuple):
    """What the clients saw, in us; three columns of n, and the gaps of all requests."""

    ttfts_us: list
    tpots_us: list  # None for a request of one token
    e2es_us: list
    gaps_us: Counter  # time between two tokens -> how many times
    output_tokens: int
    span_us: int  # from the first request to the last token
    peak_running: int

    def part(self, turn):
        """The same of a slice of the requests; gaps, tokens and time stay those of all."""
        return Run(*(column[turn] for column in self[:3]), *self[3:])


class Measures(NamedTuple):
    """The percentile of each measure in ms; None: no request has two tokens."""

    ttft_ms: float
    tpot_ms: float
    e2e_ms: float
    itl_ms: float
    throughput_tps: float
    goodput: float  # share of the requests that meet the targets of TTFT, TPOT and E2E together
    peak_running: int

    def share(self, targets):
        """(the largest of value / target, its measure): which target binds; above 1 it is missed."""
        return max(((value / target, name) for name, target in targets.given.items()
                    if (value := getattr(self, name)) is not None), default=(0.0, None))

    def meets(self, targets):
        """Is each target met at its percentile?"""
        return self.share(targets)[0] <= 1


# --- one run ----------------------------------------------------------------------------------------


def simulate(server, traffic, max_num_seqs, clients=None):
    """The Run of one server. clients: closed loop of so many; with arrivals, a gateway that lets so many through.

    Waiting at the gateway counts: with arrivals, times are counted from them.
    """
    return seen(traffic, scheduled(server, traffic, max_num_seqs, clients))


def seen(traffic, result):
    """The Run of a Schedule."""
    issued_us = traffic.arrivals_us or result.issued_us
    ttfts_us = [first - issued for first, issued in zip(result.first_token_us, issued_us)]
    e2es_us = [finished - issued for finished, issued in zip(result.finished_us, issued_us)]
    outputs = traffic.requests.output_tokens
    tpots_us = [(finished - first) / (output - 1) if output > 1 else None
                for finished, first, output in zip(result.finished_us, result.first_token_us, outputs)]
    return Run(ttfts_us, tpots_us, e2es_us, result.gaps_us, sum(outputs), max(result.finished_us), result.peak_running)


def scheduled(server, traffic, max_num_seqs, clients=None):
    """The Schedule of the engine, with vLLM's defaults for what the Server leaves open.

    Closed loop: clients begin 1 us apart; calibration/loads.py says why.
    """
    requests, arrivals_us, prefixes = traffic
    if clients and arrivals_us is None:
        arrivals_us = range(len(requests.prompt_tokens))
    return paged_fast.schedule(
        requests, max_num_seqs, arrivals_us, server.costs, blocks_of(server.kv_tokens), BLOCK_SIZE,
        server.max_num_batched_tokens or BUDGET, prefixes=prefixes,
        asynchronous=server.asynchronous is not False, clients=clients, overhead_us=server.costs.overhead_us,
    )


def capacity_rps(server, traffic, max_num_seqs):
    """Requests per second that the server carries in steady state: all are there from the start, and none is missing.

    Read when the last request is admitted, so that running empty does not count. A short list is repeated.
    """
    n = len(traffic.requests.prompt_tokens)
    copies = max(1, -(-min(FILL * max_num_seqs, MOST_FILL) // n))
    requests = Requests(*(column * copies for column in traffic.requests))
    prefixes = traffic.prefixes and [[((name, copy), tokens) for name, tokens in prefix]
                                     for copy in range(copies) for prefix in traffic.prefixes]
    result = scheduled(server, Traffic(requests, None, prefixes), max_num_seqs)
    end_us = max(result.admitted_us)
    if max_num_seqs >= n * copies:  # all of them run at once: there is no steady state before the end
        end_us = max(result.finished_us)
    served = sum(
        1.0 if finished <= end_us else (end_us - first) / (finished - first) if first < end_us else 0.0
        for first, finished in zip(result.first_token_us, result.finished_us)
    )
    return served * 1_000_000 / end_us


def alone(server, traffic):
    """A Run in which no request meets another: what no load and no number of servers can better.

    Only two tokens of each are simulated; the others come as the second did, which is at least as fast as in truth.
    """
    requests, _, prefixes = traffic
    short = Requests(requests.prompt_tokens, [min(2, output) for output in requests.output_tokens])
    one = simulate(server, Traffic(short, None, prefixes), 1, clients=1)
    e2es_us = [ttft if gap is None else ttft + (output - 1) * gap
               for ttft, gap, output in zip(one.ttfts_us, one.tpots_us, requests.output_tokens)]
    return one._replace(e2es_us=e2es_us)


# --- its measures -----------------------------------------------------------------------------------


def together(runs):
    """The Run of several servers that begin at the same moment, as if they were one."""
    columns = [[us for column in columns for us in column] for columns in zip(*(run[:3] for run in runs))]
    gaps_us = sum((run.gaps_us for run in runs), Counter())
    return Run(*columns, gaps_us, sum(run.output_tokens for run in runs), max(run.span_us for run in runs),
               max(run.peak_running for run in runs))


def measured(targets, run):
    """The Measures of a run."""
    limits_us = [1000 * target for target in targets[1:4]]
    good = sum(ttft <= limits_us[0] and (tpot is None or tpot <= limits_us[1]) and e2e <= limits_us[2]
               for ttft, tpot, e2e in zip(*run[:3]))
    times_us = [percentile_of_counts(Counter(values), targets.percentile)
                for values in (run.ttfts_us, [us for us in run.tpots_us if us is not None], run.e2es_us)]
    times_us.append(percentile_of_counts(run.gaps_us, targets.percentile))
    return Measures(*(us if us is None else us / 1000 for us in times_us),
                    run.output_tokens * 1_000_000 / run.span_us, good / len(run.ttfts_us), run.peak_running)
