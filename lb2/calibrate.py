"""What does a step cost on my own server?

Reads detailed results of vllm bench serve (--save-result --save-detailed) or of sglang's
bench_serving (--output-details), one run or several of the same server, of any load. Every gap
between two tokens is a sample of one step. Of logs that hold only the first and the last token of
each request (guidellm, a gateway's, with --columns), a request is a sample of the sum of its steps.
They tell

    prefill_ms_per_token   what a prompt token adds to a step
    hidden_ms              the part of a prefill that costs nothing, as long as weights are read
    step_ms                a step with nothing in it
    step_ms_per_sequence   what each sequence that emits a token adds; or step_ms_at, the ms of a
                           step by number of sequences, where one straight line does not do
    context_ms_per_token   what a token in the cache adds
    overhead_ms            from the client to the scheduler and back
    scheduling             asynchronous (vLLM's default) or synchronous, whichever explains more

A cost enters only if the samples tell it. What is missing is said, and which run would tell it.
Speculative decoding, prefix caching and a speed that drifts are no part of the costs.

Without the times of each request, summaries of two loads or more of one server will do. Then the
costs are those with which the engine comes nearest to their TTFT, TPOT and throughput:

    a result of vllm bench serve without --save-detailed
    a list of {"name", "clients" or null, "prompt", "output", "arrivals_ms", "measured"}, of which
        FILE:NAME or FILE:NUMBER chooses one load
    run.json:1-50, a window of a detailed result: its requests 1 to 50; the whole run is played
    --point "clients=16 prompt=1024 output=1024 p50_ttft_ms=34 p50_tpot_ms=4.7 tps=3265", with
        rps=5 in place of clients for an open loop

    python3 lb2/calibrate.py closed_16.json open_5.json    writes costs.txt, for --costs
"""

from pathlib import Path

from common import BadInput, count, run, save, say
from running.options import add_columns, options, parser_of
from files.costs import BUDGET, Server, costs_line, parsed
from calibration.loads import load_of_point
from calibration.search import ratio
from calibration.ways import found_in
from files.inputs import refuse_twins
from files.sources import load_trace


def parser():
    parser = parser_of(__doc__)
    parser.add_argument("benches", nargs="*", type=Path, metavar="BENCH.json",
                        help="detailed results, plain or gzipped; a file may hold several runs. Or summaries")
    parser.add_argument("--point", action="append", default=[], metavar="FIGURES",
                        help="figures of one load; two times or more, or beside summaries")
    parser.add_argument("--max-num-batched-tokens", type=count, metavar="N",
                        help=f"the server's token budget of a step (default: what the fit tells, else {BUDGET})")
    parser.add_argument("--max-num-seqs", type=count, metavar="N", help="the server's, written for plan and measured")
    parser.add_argument("--kv-tokens", type=count, metavar="N",
                        help="size of the server's KV cache, as vLLM logs it; written for plan and measured")
    add_columns(parser)
    parser.add_argument("--experts", type=ratio, metavar="E/k",
                        help="a mixture of E experts, k of which serve a token; for summaries")
    parser.add_argument("--lengths", type=Path, metavar="FILE",
                        help="requests like those of summaries whose lengths vary and are not in the file")
    return parser


def main():
    args = options(parser())
    if not args.benches and not args.point:
        raise BadInput("give results of a benchmark, or --point two times or more")
    told = Server(max_num_seqs=args.max_num_seqs, kv_tokens=args.kv_tokens,
                  max_num_batched_tokens=args.max_num_batched_tokens)
    refuse_twins(args.benches)
    points = list(map(load_of_point, args.point))
    lengths = args.lengths and load_trace(args.lengths, timed=False).requests
    found = found_in(args.benches, told, points, lengths, args.experts, args.columns)
    text = costs_line(found.server)
    parsed("costs.txt", text)  # what is written can be read
    save(args.out, {"costs.txt": text})
    say(f"costs.txt: {text}")
    for sentence in found.sentences:
        say(sentence)


if __name__ == "__main__":
    run(main)
