"""What would a run have measured on a server with these costs?

    measured(bench)                 what its client saw: {"p50_ttft_ms": 40.0, ...}
    predicted(bench, costs, ...)    the same measures of the engine, with the run's requests and load

In open loop the run's own start times are played, in closed loop its own number of clients. These
begin one after the other, a microsecond apart. On real servers, too, the first request finds the
server empty and is scheduled alone, and the others come while it is prefilled.
"""

from math import fsum

from paging import fast as paged_fast
from common import BadInput, percentile, Requests
from paging.clock import percentile_of_counts
from planning.engine import BLOCK_SIZE, blocks_of

MEASURES = ["p50_ttft_ms", "p99_ttft_ms", "p50_itl_ms", "p99_itl_ms", "p99_tpot_ms", "throughput_tps"]


def measured(bench):
    """The MEASURES of a run as its client saw them. None: nothing to measure, or no duration."""
    gaps_ms = [1000 * gap for itls in bench.itls_s for gap in itls]
    ttfts_ms = [1000 * ttft for ttft in bench.ttfts_s]
    pairs = zip(bench.itls_s, bench.output_tokens)
    tpots_ms = [1000 * fsum(itls) / (output - 1) for itls, output in pairs if output > 1]
    columns = [(ttfts_ms, 50), (ttfts_ms, 99), (gaps_ms, 50), (gaps_ms, 99), (tpots_ms, 99)]
    values = [percentile(values, percent) if values else None for values, percent in columns]
    throughput = sum(bench.output_tokens) / bench.duration_s if bench.duration_s else None
    return dict(zip(MEASURES, [*values, throughput]))


def predicted(bench, costs, asynchronous, max_num_seqs, max_num_batched_tokens, kv_tokens=None):
    """The MEASURES of a run as the engine plays it. Raises BadInput.

    kv_tokens: the size of the cache as vLLM logs it; None: it is never short.
    """
    schedule = played(bench, costs, asynchronous, max_num_seqs, max_num_batched_tokens, kv_tokens)
    ttfts_ms = [(first - issued) / 1000 for first, issued in zip(schedule.first_token_us, schedule.issued_us)]
    tpots_ms = [(last - first) / 1000 / (output - 1) for last, first, output
                in zip(schedule.finished_us, schedule.first_token_us, bench.output_tokens) if output > 1]
    gaps_us = schedule.gaps_us
    gaps_ms = [percentile_of_counts(gaps_us, percent) / 1000 if gaps_us else None for percent in (50, 99)]
    tpot_ms = percentile(tpots_ms, 99) if tpots_ms else None
    throughput = sum(bench.output_tokens) * 1_000_000 / max(schedule.finished_us)
    values = [percentile(ttfts_ms, 50), percentile(ttfts_ms, 99), *gaps_ms, tpot_ms, throughput]
    return dict(zip(MEASURES, values))


def played(bench, costs, asynchronous, max_num_seqs, max_num_batched_tokens, kv_tokens=None):
    """The engine's Schedule of a run. Raises BadInput."""
    if not bench.closed and bench.starts_s is None:
        raise BadInput(f"{bench.name}: an open loop without start times cannot be played")
    arrivals_us = list(range(len(bench.ttfts_s))) if bench.closed else [round(1e6 * start) for start in bench.starts_s]
    return paged_fast.schedule(
        Requests(bench.prompt_tokens, bench.output_tokens), max_num_seqs, arrivals_us, costs,
        kv_blocks=blocks_of(kv_tokens), block_size=BLOCK_SIZE, max_num_batched_tokens=max_num_batched_tokens,
        asynchronous=asynchronous, clients=bench.clients if bench.closed else None, overhead_us=costs.overhead_us,
    )
