"""Does our paged scheduler decide what vLLM decided, step by step?

    python3 lb2/paged.py --replay fixtures/vllm/cases.json        writes nothing; a line a case

paging/scheduler.py is the scheduler, and says what a step is.
"""

import argparse
import sys
from collections import deque
from pathlib import Path

from paging.replay import replay
from paging.scheduler import Request, Scheduler, refuse_what_cannot_fit
from common import run

CASES_FILE = Path(__file__).resolve().parent.parent / "fixtures" / "vllm" / "cases.json"


def decisions(case):
    """What our scheduler decides on a recorded Case: a line a step. Here the clock counts steps. Raises BadInput."""
    requests = case.requests
    refuse_what_cannot_fit(requests, case.max_num_seqs, case.kv_blocks, case.block_size, case.max_num_batched_tokens,
                           case.chunked_prefill)
    scheduler = Scheduler(case.max_num_seqs, case.kv_blocks, case.block_size, case.max_num_batched_tokens,
                          case.chunked_prefill, case.reserve_full_prompt, case.prefix_caching)
    coming = deque(sorted(range(len(case.arrivals)), key=case.arrivals.__getitem__))
    asked = [Request(*request) for request in zip(range(len(coming)), *requests, case.prefixes)]
    in_flight, lines = deque(), []
    while coming or scheduler.waiting or scheduler.running:
        while coming and case.arrivals[coming[0]] <= len(lines) + len(in_flight):
            scheduler.waiting.append(asked[coming.popleft()])
        in_flight.append(scheduler.schedule())
        if len(in_flight) > case.asynchronous:
            lines.append(line(len(lines), in_flight[0], scheduler.update(in_flight.popleft())))
    return lines + [line(len(lines), step, []) for step in in_flight]


def line(number, step, finished):
    """One Step as a log has it: step|request:tokens,...|preempted,...|finished,...|free blocks."""
    scheduled = ",".join(f"{chunk.request.position}:{chunk.tokens}" for chunk in step.chunks)
    preempted, ended = (",".join(map(str, positions)) for positions in (step.preempted, finished))
    return f"{number}|{scheduled}|{preempted}|{ended}|{step.free}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replay", type=Path, default=CASES_FILE, metavar="FILE",
                        help="recorded cases, logs/NAME.log.gz beside them (default: fixtures/vllm/cases.json)")
    sys.exit(1 if replay(parser.parse_args().replay, decisions) else 0)


if __name__ == "__main__":
    run(main)
