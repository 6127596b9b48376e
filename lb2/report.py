"""What do I need to serve these requests, on one page that I can send to whoever pays for it?

The answer, its picture, the targets, the traffic, what was measured and what was not, and below the
eight steps as tables. One HTML file that needs nothing else: no network, no script, no font. For a
trace with arrivals the answer is plan.py's, from its first 1,000 requests; for a list without, it is
step 8's. At most 10,000 requests are taken: those at the beginning.

    python3 lb2/report.py --requests mine.json --target-ttft-ms 300        writes report.html
"""

import math
from typing import NamedTuple

import continuous
import plan
import queueing
import static
import tune
from common import number, progress, run, save
from drawing.plan import draw_plan, rate
from drawing.scales import milliseconds
from drawing.traffic import draw_traffic
from drawing.tune import draw_tune
from files.costs import load_server
from files.sources import counted, load_trace
from planning.arrivals import own_rps
from planning.engine import TIMES
from planning.results import picture_of, title
from planning.words import disagreement
from reporting.page import folded, image, listed, page, table
from running.options import add_columns, add_time_unit, arguments, options

MOST, PLANNED = 10_000, 1_000  # requests taken, and requests of them that are planned
LONG = 2_000  # requests, beyond which step 8 ends at its first miss, and is left out for a trace
UP_TO, SLOTS, QUEUE_SLOTS, RATES_RPS = 256, 16, 32, (5, 10, 20, 40)  # the steps'
FEW = 500  # requests, below which a p99 is not firm


class Answer(NamedTuple):
    headline: str
    picture: str  # SVG; "" if there is none
    targets: list  # rows of the table: header first
    rests_on: list  # sentences: what was measured, and what was not


def server_of(args):
    """The server in words."""
    return f"the server of {args.costs.name}" if args.costs else "the lab's made-up server"


def clients_words(best, points, target, server, memory_words):
    """The headline of step 8."""
    if best is None:
        return (f"No number of clients meets {target} on {server}: one alone has "
                f"{milliseconds(points[0].p99_ttft_ms)}")
    most = ", the most tried, still" if best is points[-1] else ""
    who = f"{counted(best.concurrency, 'client')}{most} {'meets' if best.concurrency == 1 else 'meet'}"
    return f"{who} {target} on {server}, {memory_words}"


def memory(requests, clients, kv_tokens):
    """(how many clients fit, words): what the KV cache must hold for so many average requests at full length."""
    each = (sum(requests.prompt_tokens) + sum(requests.output_tokens)) / len(requests.prompt_tokens)
    if kv_tokens is None:
        return clients, f"if its KV cache holds {math.ceil(clients * each):,} tokens"
    fit = min(clients, int(kv_tokens // each))
    return fit, f"whose KV cache of {kv_tokens:,} tokens holds {'them' if fit == clients else 'no more'}"


def clients_answer(args, requests, server):
    """(Answer of step 8, its Points)."""
    target_ms, n = args.target_ttft_ms, len(requests.prompt_tokens)
    up_to = min(UP_TO, n, server.max_num_seqs or UP_TO)
    points = []
    for point in progress((tune.measure(requests, clients, server.costs) for clients in range(1, up_to + 1)), up_to):
        points.append(point)
        if n > LONG and point.p99_ttft_ms > target_ms:
            break
    best = tune.largest_within(points, target_ms, tune.p99)
    chosen = {"p99": best, "mean": tune.largest_within(points, target_ms, tune.mean) if n <= LONG else None}
    fit, memory_words = memory(requests, best.concurrency if best else 1, server.kv_tokens)
    if best and fit < best.concurrency:
        best = points[fit - 1] if fit else None
    target = f"a p99 TTFT of {target_ms:,.12g} ms"
    headline = clients_words(best, points, target, server_of(args), memory_words) if fit else \
        f"Not one request fits into the KV cache of {server_of(args)}: {server.kv_tokens:,} tokens"
    at = best or points[0]
    rows = [["measure", "target", counted(at.concurrency, "client")],
            ["p99 time to first token (TTFT)", f"{target_ms:,.12g} ms", milliseconds(at.p99_ttft_ms)],
            ["mean TTFT", "", milliseconds(at.mean_ttft_ms)],
            ["tokens per second", "", f"{at.throughput_tps:,.0f}"]]
    return Answer(headline, draw_tune(target_ms, points, chosen, None, n), rows, [
        "A client sends its next request when its last answer is there. All start at once.",
        "Not known: when requests arrive. A file with arrivals gets the load that the server carries, and how many "
        "servers today's needs.", *costs_words(args, server, at.concurrency),
        *([f"The p99 of {counted(n, 'request')} rests on few: record {FEW} or more."] if n < FEW else [])]), points


def costs_words(args, server, running):
    """What is known of the server, and what is not."""
    costs = server.costs
    each = f"{costs.prefill_us_per_token / 1000:.3g} ms a prompt token, {costs.decode_us(1) / 1000:.3g} ms a step " \
           f"with 1 sequence, {costs.decode_us(32) / 1000:.3g} ms with 32"
    yield f"Measured on the server: {each}." if args.costs else f"Not measured: the server. Its costs are {each}. " \
        "python3 lb2/calibrate.py --help says how to measure yours."
    if server.measured_sequences and running > server.measured_sequences:
        yield f"Extrapolated: the costs were measured with up to {server.measured_sequences} sequences at once."
    if server.kv_tokens is None:
        yield "Not known: the size of the KV cache. A server whose cache is short is slower."


def planned_answer(args, n, today_rps):
    """The Answer of plan.py for the first requests of a trace."""
    asked = ["--requests", str(args.requests), "--first", str(min(PLANNED, n)),
             "--target-ttft-ms", f"{args.target_ttft_ms:.12g}", *(["--costs", str(args.costs)] if args.costs else []),
             *(["--time-unit", args.time_unit] if args.time_unit else []),
             *(["--columns", *args.columns] if args.columns else [])]
    made, fields, words, _ = plan.planned(plan.parser().parse_args(asked))
    found, targets = made.found, made.problem.targets.given
    shown, name, today = picture_of(made)._replace(today_rps=today_rps), server_of(args), rate(today_rps)
    part = [f"Planned with the first {PLANNED:,} of {n:,} requests."] if n > PLANNED else []
    server, where, alone = f"{name[0].upper()}{name[1:]}", "a request alone", ""
    if shown.answer:
        limits, where = " and ".join(f"{title(measure)} {ms:,.12g} ms" for measure, ms in targets.items()), \
            f"at {rate(shown.answer[1])} requests/s"
        headline = (f"{server} carries {rate(shown.answer[1])} requests/s within p99 {limits}, "
                    f"{shown.answer[1] / today_rps:.2g} times today's {today}")
        if shown.answer[1] < today_rps:
            headline += f": today needs about {math.ceil(today_rps / shown.answer[1]):,} of them"
            part.append(f"How many exactly: python3 lb2/plan.py --rps {today_rps:.3g}. It takes minutes.")
    elif shown.no_edge:
        headline = (f"{server} meets the targets up to its capacity of {rate(shown.capacity_rps)} requests/s; "
                    f"today comes {today}")
    else:
        alone = "" if found.open else ": a request alone misses it"
        headline = f"No load meets {shown.measure} {shown.target_ms:,.12g} ms on {name}{alone}; " \
                   f"today comes {today} requests/s"
    if any(disagreement(made)):
        headline += ". But a measured run disagrees: see what this rests on"
    at = {measure: fields.get(measure) if shown.answer else getattr(found.alone, measure) for measure in TIMES}
    rows = [[f"p99 {title(measure)}", f"{targets[measure]:,.12g} ms" if measure in targets else "none",
             milliseconds(float(ms))] for measure, ms in at.items() if ms is not None]
    return Answer(headline, draw_plan(shown) if shown.limits else "",
                  [["measure", "target", where], *rows], [*part, *words])


def batch_rows(output_tokens, most=8):
    """Step 1: the first static batches."""
    yield ["batch", "requests", "shortest", "longest", "slots that work"]
    for start in range(0, min(len(output_tokens), most * SLOTS), SLOTS):
        batch = output_tokens[start : start + SLOTS]
        yield [start // SLOTS, len(batch), min(batch), max(batch), f"{sum(batch) / (SLOTS * max(batch)):.0%}"]


def step_tables(requests, costs, points):
    """[(question, rows, note), ...] of the eight steps. points: step 8's, or None: it was left out."""
    n, tokens = len(requests.prompt_tokens), sum(requests.output_tokens)
    runs = {module.__name__: module.schedule(requests, SLOTS, None, costs) for module in (static, continuous)}
    measures = {name: [result.iterations, f"{static.throughput_tps(requests, result):,.2f}",
                       f"{static.slot_util(requests, result, SLOTS):.4f}"] for name, result in runs.items()}
    header = ["batching", "iterations", "tokens/s", "share of the slots that work"]
    speedup = static.throughput_tps(requests, runs["continuous"]) / static.throughput_tps(requests, runs["static"])
    limited = continuous.schedule(requests, QUEUE_SLOTS, costs=costs)
    draws = [queueing.unit_arrivals(seed, n) for seed in range(queueing.DRAWS)]
    waits = [["requests/s", "requests that wait", "p99 wait, ms"]]
    for rps in progress(RATES_RPS, len(RATES_RPS)):
        mean, p99_ms = queueing.queue_at(requests, draws, rps, QUEUE_SLOTS, costs)
        waits.append([rps, f"{mean:,.3f}", f"{p99_ms:,.1f}"])
    prefill_ms = sum(map(costs.prefill_us, requests.prompt_tokens)) / 1000
    decode_ms = tokens * costs.decode_us(1) / 1000
    yield "1. What do static batches look like?", list(batch_rows(requests.output_tokens)), \
        f"The first of {-(-n // SLOTS):,} batches." if n > 8 * SLOTS else ""
    yield "2. How much does static batching serve?", [header, ["static", *measures["static"]]], ""
    yield "3. How much does continuous batching serve?", [header, ["continuous", *measures["continuous"]]], ""
    yield "4. Which one is faster?", [["static", "continuous", "times as fast"], [
        measures["static"][1], measures["continuous"][1], f"{speedup:.3f}"]], ""
    yield "5. Is a limit of 32 sequences reached?", [["limit", "most at once", "tokens/s"], [
        QUEUE_SLOTS, limited.peak_running, f"{static.throughput_tps(requests, limited):,.2f}"]], ""
    yield f"6. How do requests wait, with {QUEUE_SLOTS} slots?", waits, ""
    yield "7. Prefill or decode, each request alone?", [["prefill, s", "decode, s", "share of decode"], [
        f"{prefill_ms / 1000:,.1f}", f"{decode_ms / 1000:,.1f}", f"{decode_ms / (prefill_ms + decode_ms):.4f}"]], ""
    if points is None:
        yield "8. How many clients meet the TTFT target?", [], \
            f"Left out: it takes long for {n:,} requests. python3 lb2/tune.py answers it."
        return
    shown = [point for point in points if point.concurrency & (point.concurrency - 1) == 0 or point is points[-1]]
    yield "8. How many clients meet the TTFT target?", [["clients", "mean TTFT, ms", "p99 TTFT, ms", "tokens/s"], *(
        [clients, *(f"{value:,.2f}" for value in rest)] for clients, *rest in shown)], \
        f"More clients were not tried: it takes long for {n:,} requests." if n > LONG else ""


def command(args):
    """What made the page, without the folders of this machine."""
    words = ["--requests", args.requests.name, "--target-ttft-ms", f"{args.target_ttft_ms:.12g}"]
    words += ["--first", str(args.first)] if args.first else []
    return " ".join(["python3 lb2/report.py", *words, *(["--costs", args.costs.name] if args.costs else [])])


def main():
    parser = arguments(__doc__)
    add_columns(parser)
    add_time_unit(parser)
    parser.add_argument("--target-ttft-ms", type=number, default=200.0, metavar="MS",
                        help="p99 time to first token allowed, in ms (default: 200)")
    args = options(parser)
    trace = load_trace(args.requests, min(args.first or MOST, MOST), args.time_unit, columns=args.columns)
    server = load_server(args.costs)
    requests, today_rps = trace.requests, own_rps(trace.arrivals_us) if trace.arrivals_us else None
    n = len(requests.prompt_tokens)
    print(f"{args.requests.name}: {trace}. The answer", flush=True)
    answer, points = clients_answer(args, requests, server) if not today_rps or n <= LONG else (None, None)
    if today_rps:
        answer = planned_answer(args, n, today_rps)
    print("The eight steps", flush=True)
    steps = [folded(question, (table(rows) if rows else ""), note)
             for question, rows, note in step_tables(requests, server.costs, points)]
    today = [f"Today: {rate(today_rps)} requests/s."] if today_rps else []
    text = page(f"{answer.headline}.", [
        image(answer.picture) if answer.picture else "", table(answer.targets),
        "<h2>The traffic</h2>", listed([f"{args.requests.name}: {trace}.", *today]), image(draw_traffic(requests)),
        "<h2>What this rests on</h2>", listed(answer.rests_on),
        "<h2>The eight steps of the lab, for these requests</h2>", *steps,
        listed([f"Made by: {command(args)}"])])
    save(args.out, {"report.html": text})
    print(f"{args.out / 'report.html'}: {len(text) // 1000} kB")


if __name__ == "__main__":
    run(main)
