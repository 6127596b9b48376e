"""How does one server serve this traffic: what does each request wait, and how much does the server
carry?

    play(server, traffic, 64)                -> Play, arrivals as the traffic says (open loop)
    play(server, traffic, 64, clients=20)    -> Play, each client sends its next request when its last one has ended
    measured(targets, [play])                -> Measures(ttft_ms=180.2, tpot_ms=21.4, ..., peak_running=51)

This is the only file of the plan that calls the scheduler.

TTFT is the time from sending a request to its first token. TPOT is the mean time between two of its
tokens. E2E is the time from sending it to its last token. ITL is the time between two consecutive
tokens, of all requests together.
"""

import math
from collections import Counter
from typing import NamedTuple

from paging import fast as paged_fast
from paging.clock import percentile_of_counts
from files.costs import Costs
from common import Requests
from paging.scheduler import UNLIMITED

BLOCK_SIZE = 16  # tokens in a block of the KV cache, vLLM's default
OWN_BLOCKS = 1  # of the cache that vLLM logs: a server that logs 400 blocks has 399 to give
LEAST_KV_TOKENS = (1 + OWN_BLOCKS) * BLOCK_SIZE
FILL = 10  # capacity: as many waves of max_num_seqs requests, so that filling up and running empty weigh little
MOST_FILL = 10_000  # requests made of a short list for that


def blocks_of(kv_tokens):
    """The blocks that a server can give whose KV cache holds so many tokens, as vLLM logs it; None: any number."""
    return kv_tokens // BLOCK_SIZE - OWN_BLOCKS if kv_tokens else UNLIMITED


class Traffic(NamedTuple):
    """n requests in the order in which they are sent."""

    requests: Requests
    arrivals_us: list  # n times from 0 on; None: there are none
    prefixes: list  # n lists of (name, tokens), for the scheduler; None: prefix caching is off


class Server(NamedTuple):
    costs: Costs = Costs()
    max_num_batched_tokens: int = 2048
    kv_blocks: int = UNLIMITED
    asynchronous: bool = True


class Targets(NamedTuple):
    """What the percentile of each measure may be, in ms. math.inf: no target."""

    percentile: float = 99
    ttft_ms: float = 200.0
    tpot_ms: float = 50.0
    e2e_ms: float = math.inf
    itl_ms: float = math.inf


class Play(NamedTuple):
    """What the clients saw, in us; three columns of n, and the gaps of all requests."""

    ttfts_us: list
    tpots_us: list  # None for a request of one token
    e2es_us: list
    gaps_us: Counter  # time between two tokens -> how many times
    output_tokens: int
    span_us: int  # from the first request to the last token
    peak_running: int


class Measures(NamedTuple):
    """The percentile of each measure in ms; None: no request has two tokens."""

    ttft_ms: float
    tpot_ms: float
    e2e_ms: float
    itl_ms: float
    throughput_tps: float
    goodput: float  # share of the requests that meet the targets of TTFT, TPOT and E2E together
    peak_running: int

    def meets(self, targets):
        """Is each target met at its percentile?"""
        return all(value is None or value <= target for value, target in zip(self[:4], targets[1:]))


# --- one play ---------------------------------------------------------------------------------------


def play(server, traffic, max_num_seqs, clients=None):
    """The Play of one server. clients: closed loop of so many; with arrivals, a gateway that lets so many through.

    Waiting at the gateway counts: with arrivals, times are counted from them.
    """
    result = scheduled(server, traffic, max_num_seqs, clients)
    issued_us = traffic.arrivals_us or result.issued_us
    ttfts_us = [first - issued for first, issued in zip(result.first_token_us, issued_us)]
    e2es_us = [finished - issued for finished, issued in zip(result.finished_us, issued_us)]
    tpots_us = [
        (finished - first) / (output - 1) if output > 1 else None
        for finished, first, output in zip(result.finished_us, result.first_token_us, traffic.requests.output_tokens)
    ]
    return Play(ttfts_us, tpots_us, e2es_us, result.gaps_us, sum(traffic.requests.output_tokens),
                max(result.finished_us), result.peak_running)


def scheduled(server, traffic, max_num_seqs, clients=None):
    """The Schedule of the engine. Clients of a closed loop begin a microsecond apart: calibration/loads.py says why."""
    requests, arrivals_us, prefixes = traffic
    if clients and arrivals_us is None:
        arrivals_us = range(len(requests.prompt_tokens))
    return paged_fast.schedule(
        requests, max_num_seqs, arrivals_us, server.costs, server.kv_blocks, BLOCK_SIZE,
        server.max_num_batched_tokens, prefixes=prefixes, asynchronous=server.asynchronous, clients=clients,
        overhead_us=server.costs.overhead_us,
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
    """A Play in which no request meets another: what no load and no number of servers can better.

    Only two tokens of each are played; the others come as the second did, which is at least as fast as in truth.
    """
    requests, _, prefixes = traffic
    short = Requests(requests.prompt_tokens, [min(2, output) for output in requests.output_tokens])
    one = play(server, Traffic(short, None, prefixes), 1, clients=1)
    e2es_us = [ttft if gap is None else ttft + (output - 1) * gap
               for ttft, gap, output in zip(one.ttfts_us, one.tpots_us, requests.output_tokens)]
    return one._replace(e2es_us=e2es_us)


# --- its measures -----------------------------------------------------------------------------------


def together(plays):
    """The Play of several servers that begin at the same moment, as if they were one."""
    if len(plays) == 1:
        return plays[0]
    columns = [[us for column in columns for us in column] for columns in zip(*(play[:3] for play in plays))]
    return Play(*columns, pooled(play.gaps_us for play in plays), sum(play.output_tokens for play in plays),
                max(play.span_us for play in plays), max(play.peak_running for play in plays))


def pooled(counters):
    """The sum of several Counters."""
    total = Counter()
    for counter in counters:
        total.update(counter)
    return total


def measured(targets, plays):
    """The Measures of one or more plays, one after the other, their requests pooled."""
    ttfts_us = [us for play in plays for us in play.ttfts_us]
    tpots_us = [us for play in plays for us in play.tpots_us]
    e2es_us = [us for play in plays for us in play.e2es_us]
    gaps_us = plays[0].gaps_us if len(plays) == 1 else pooled(play.gaps_us for play in plays)
    limits_us = [1000 * target for target in (targets.ttft_ms, targets.tpot_ms, targets.e2e_ms)]
    good = sum(ttft <= limits_us[0] and (tpot is None or tpot <= limits_us[1]) and e2e <= limits_us[2]
               for ttft, tpot, e2e in zip(ttfts_us, tpots_us, e2es_us))
    times_us = [percentile_of_counts(Counter(values), targets.percentile)
                for values in (ttfts_us, [us for us in tpots_us if us is not None], e2es_us)]
    times_us.append(percentile_of_counts(gaps_us, targets.percentile))
    tokens = sum(play.output_tokens for play in plays)
    return Measures(*(us if us is None else us / 1000 for us in times_us),
                    tokens * 1_000_000 / sum(play.span_us for play in plays),
                    good / len(ttfts_us), max(play.peak_running for play in plays))
