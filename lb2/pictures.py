"""What does each lesson of the labs look like?

Seven pictures, drawn from the numbers that the scripts write: the same functions, the same settings.

    python3 lb2/pictures.py        writes slots.svg queue.svg tune.svg paged.svg orca_curves.svg orca_reservation.svg
                                   measured.svg, into lb2/pictures unless --out says otherwise

A ..._data function plays requests, and the draw_... function makes of what it returns the text of an SVG file. Blue is
what one hopes for and vermilion what one pays, in all of them; words beside the lines say which is which.
"""

from heapq import heappop, heappush
from itertools import product
from pathlib import Path

import continuous
import plan_measured as measured
import orca_curves
import orca_reservation
import paged_prefix
import paged_preemption
import queueing
import static
import tune
from command_line import REQUESTS_FILE, arguments, progress, run
from common import load_requests, percentile, save, slot_util, throughput_tps
from cost_model import Costs, load_costs
from inputs import BadInput
from orca_model import CAPACITY_TOKENS
from orca_workload import RECORDED, load_workload
from svg import LINE, MARGIN, WIDTH, Panel, Scale, axes, bar, decades, draw, from_zero, group, line, marks, number
from svg import picture, rule, spread, text

FOLDER = Path(__file__).resolve().parent / "pictures"
LEFT, RIGHT = 72, WIDTH - MARGIN  # of a panel with numbers on its left
ENDS = RIGHT - 56  # of one with names on its right, too

SLOTS = 16  # static.py's and continuous.py's
BATCHES_DRAWN, REQUESTS_DRAWN = 8, 1000  # the beginning of a long list
NOTED_RPS, MAX_NUM_SEQS = (5, 10, 20, 40), 32  # queueing.py's
RATES_RPS = [half / 2 for half in range(2, 81)]
TARGET_MS, UP_TO = 200, 256  # tune.py's
LIMITS = (1, *range(2, 41, 2))
SYSTEM_TOKENS = range(0, 4097, 256)


def names(panel, labels):
    """Words at the right end of a panel. labels: [(value of y, words, kind), ...]."""
    heights = spread([panel.y.at(value) + 6 for value, _, _ in labels], panel.y.end - 10, panel.y.start)
    return [text(panel.x.end + 10, height, words, kind) for height, (_, words, kind) in zip(heights, labels)]


def drop(panel, x, y):
    """A dotted line from a point down to the axis ..."""
    return rule(panel.x.at(x), panel.y.at(y), panel.x.at(x), panel.y.start)


def flag(panel, x, row, words, kind):
    """... and words beside it, `row` lines above the axis: on its right, or where the panel ends, on its left."""
    place = panel.x.at(x)
    if place > (panel.x.start + panel.x.end) / 2:
        return text(place - 8, panel.y.start - 10 - row * LINE, words, f"{kind} end")
    return text(place + 8, panel.y.start - 10 - row * LINE, words, kind)


def across(panel, value):
    """A dotted line at a value of y."""
    return group("ink", "target", rule(panel.x.start, panel.y.at(value), panel.x.end, panel.y.at(value)))


# --- slots --------------------------------------------------------------------------------------------------------


def slots_data(requests, costs=Costs(), slots=SLOTS):
    """The requests, the slots and the Schedules of both batchings."""
    both = (
        module.schedule(requests, slots, None, costs) for module in (static, continuous)
    )
    return requests, slots, *both


def stays(schedule, slots, until_us):
    """Who sits where: for each slot its [(from, to), ...] in us. A request takes the lowest slot that is free."""
    rows = [[] for _ in range(slots)]
    free, busy = list(range(slots)), []  # heaps: slots; (when it falls free, slot)
    for position in sorted(range(len(schedule.admitted_us)), key=schedule.admitted_us.__getitem__):
        start, end = schedule.admitted_us[position], schedule.finished_us[position]
        if start >= until_us:
            break
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        slot = heappop(free)
        heappush(busy, (end, slot))
        rows[slot].append((start, min(end, until_us)))
    return rows


def gaps(row, until_us):
    """The times between the stays in a slot, up to until_us."""
    edges = [0, *(edge for stay in row for edge in stay), until_us]
    return [(start, end) for start, end in zip(edges[::2], edges[1::2]) if start < end]


def slot_bars(panel, schedule, slots):
    """A row a slot, a bar a request, and what is idle until the last one ends. The panel's x: seconds."""
    until_us = min(max(schedule.finished_us), panel.x.high * 1e6)
    pitch = (panel.y.start - panel.y.end) / slots
    thickness = pitch - min(1, pitch / 5)
    idle, held = [], []
    for slot, row in enumerate(stays(schedule, slots, until_us)):
        for pieces, times, seam in ((idle, gaps(row, until_us), 0), (held, row, 0.6)):
            for start, end in times:
                left, right = panel.x.at(start / 1e6), panel.x.at(end / 1e6)
                pieces.append(bar(left, panel.y.at(slot), max(right - seam, left + 0.1), panel.y.at(slot) + thickness))
    return group("bad", "idle", *idle), group("quiet", "requests", *held)


def draw_slots(requests, slots, by_batch, by_iteration):
    """Both schedulers' slots on one time axis. by_batch, by_iteration: the Schedules, all requests there at time 0."""
    n = len(requests.output_tokens)
    until_us = max(by_batch.finished_us[: BATCHES_DRAWN * slots])
    if n > REQUESTS_DRAWN:
        until_us = min(until_us, by_iteration.admitted_us[REQUESTS_DRAWN])
    x = Scale(0, until_us / 1e6, MARGIN, RIGHT)
    speedup = f"{throughput_tps(requests, by_iteration) / throughput_tps(requests, by_batch):.3f} times the throughput"
    pieces, said = [], []
    for name, schedule, top in (("static", by_batch, 112), ("continuous", by_iteration, 306)):
        panel = Panel(name, x, Scale(slots, 0, top + 152, top))
        end_s = max(schedule.finished_us) / 1e6
        words = [f"ends at {end_s:,.2f} s", f"slot_util {slot_util(requests, schedule, slots):.4f}"]
        said.append(f"{name.capitalize()} batching {' with '.join(words)}.")
        pieces.append(text(MARGIN, top - 9, f"{name.capitalize()} batching", "head"))
        pieces.append(draw(panel, *slot_bars(panel, schedule, slots)))
        if schedule is by_iteration and end_s < x.high / 2:  # the room that was gained
            place = x.at(end_s) + 14
            pieces += [text(place, top + 58, words[0]), text(place, top + 80, words[1])]
            pieces.append(text(place, top + 102, speedup, "good"))
        else:
            pieces.append(text(RIGHT, top - 9, ", ".join(words), "end"))
    part = "" if until_us == max(by_batch.finished_us) else f"the first {x.high:,.0f} "
    return picture(
        "What if a freed slot were filled at once?",
        " ".join([*said, f"The same {n:,} requests in {slots} slots: {speedup}."]),
        510,
        group("bad", "key", bar(MARGIN, 51, MARGIN + 13, 64)),
        text(MARGIN + 20, 63, "a slot that stands idle"),
        group("quiet", "key", bar(280, 51, 293, 64)),
        text(300, 63, f"a request ({n:,} in {slots} slots)"),
        *pieces,
        draw(Panel("time", *panel[1:]), axes(panel, f"{part}seconds", "")),
    )


# --- queue --------------------------------------------------------------------------------------------------------


def queue_data(requests, costs=Costs(), max_num_seqs=MAX_NUM_SEQS, noted_rps=NOTED_RPS):
    """max_num_seqs, noted_rps and [(requests per second, mean wait in ms, p99 wait in ms), ...]."""
    n = len(requests.output_tokens)
    draws = [queueing.unit_arrivals(seed, n) for seed in range(queueing.DRAWS)]
    rates_rps = RATES_RPS if n <= REQUESTS_DRAWN else RATES_RPS[3::5]  # a long list makes smooth curves, slowly
    points = []
    for rps in sorted({*rates_rps, *noted_rps}):
        waits_us, _ = queueing.waits_at(requests, draws, rps, max_num_seqs, costs)
        points.append((rps, sum(waits_us) / len(waits_us) / 1000, percentile(waits_us, 99) / 1000))
    return max_num_seqs, noted_rps, points


def draw_queue(max_num_seqs, noted_rps, points):
    """Mean and p99 wait against the rate, with a number at the noted ones."""
    waits_ms = [ms for point in points for ms in point[1:]]
    panel = Panel("wait", Scale(0, points[-1][0], LEFT, ENDS), decades(waits_ms, 356, 106))
    y_title = "wait in ms, log scale" if min(waits_ms) > 0 else "wait in ms, log scale, on which 0 has no place"
    pieces, labels = [axes(panel, "requests per second", y_title)], []
    noted = [point for point in points if point[0] in noted_rps]
    for name, kind, shape, column in (("p99", "bad", "square", 2), ("mean", "good", "circle", 1)):
        way, some = ([(point[0], point[column]) for point in these] for these in (points, noted))
        pieces.append(group(kind, name, line(panel, way), marks(panel, shape, some)))
        labels.append((max(points[-1][column], panel.y.low), name, kind))
    for rps, mean, p99 in noted:  # the larger number goes above its line, the smaller one below
        pair = sorted([(p99, "bad"), (mean, "good")], key=lambda wait: -wait[0])
        heights = [panel.y.at(max(ms, panel.y.low)) + rise for (ms, _), rise in zip(pair, (-12, 24))]
        for (ms, kind), height, shift in zip(pair, spread(heights, panel.y.end + 4, panel.y.start - 6), (-8, 8)):
            place, side = (ENDS + 6, "end") if rps == panel.x.high else (panel.x.at(rps) + shift, "middle")
            if ms > 0:
                pieces.append(text(place, height, number(round(ms)), f"{kind} {side}"))
    said = "; ".join(f"at {rps:g} requests/s {mean:,.0f} and {p99:,.0f} ms" for rps, mean, p99 in noted)
    return picture(
        "How long do requests wait as load grows?",
        f"Mean and p99 of the wait: {said}.",
        416,
        text(MARGIN, 62, f"Poisson arrivals, continuous batching in {max_num_seqs} slots"),
        draw(panel, *pieces, *names(panel, labels)),
    )


# --- tune ---------------------------------------------------------------------------------------------------------


def tune_data(requests, costs=Costs(), target_ms=TARGET_MS, up_to=UP_TO):
    """The target and a tune.Point for each concurrency."""
    return target_ms, [tune.measure(requests, n, costs) for n in range(1, min(up_to, len(requests.output_tokens)) + 1)]


def draw_tune(target_ms, points):
    """TTFT and throughput against concurrency. points: of tune.measure, for 1, 2, 3 ... clients."""
    x = Scale(0, max(points[-1].concurrency, 6), LEFT, ENDS)  # no fractions of a client
    ttft = Panel("ttft", x, decades([target_ms, *(ms for point in points for ms in point[1:3])], 306, 106))
    tps = Panel("throughput", x, from_zero([point.throughput_tps for point in points], 460, 356))
    above = [axes(ttft, "", "TTFT in ms, log scale"), across(ttft, target_ms)]
    below = [axes(tps, "clients", "tokens per second")]
    below.append(group("ink", "throughput", line(tps, [(point.concurrency, point.throughput_tps) for point in points])))
    labels, flags, more_flags, said = [], [], [], []
    measures = (("p99", "bad", "square", tune.p99), ("mean", "good", "circle", tune.mean))
    for row, (name, kind, shape, measure) in enumerate(measures):
        above.append(group(kind, name, line(ttft, [(point.concurrency, measure(point)) for point in points])))
        labels.append((measure(points[-1]), name, kind))
        best = tune.largest_within(points, target_ms, measure)
        if best:
            n, tps_then = best.concurrency, best.throughput_tps
            chosen = f"{name} choice"
            above.append(group(kind, chosen, drop(ttft, n, measure(best)), marks(ttft, shape, [(n, measure(best))])))
            below.append(group(kind, chosen, drop(tps, n, tps_then), marks(tps, shape, [(n, tps_then)])))
            words = f"{name}: {n}{' or more' if best is points[-1] else ''}"
            if best.p99_ttft_ms > target_ms:
                words += f" (p99 {number(round(best.p99_ttft_ms))} ms)"
            flags.append(flag(ttft, n, row, words, kind))
            more_flags.append(flag(tps, n, row, number(round(tps_then)), kind))
            said.append(f"by the {name} {n}, with {tps_then:,.0f} tokens/s and a p99 of {best.p99_ttft_ms:,.0f} ms")
    return picture(
        "How many clients meet the TTFT target?",
        f"Clients that meet {target_ms:,.12g} ms: {'; '.join(said) or 'none'}.",
        520,
        text(MARGIN, 62, f"each client has one request in flight; target {target_ms:,.12g} ms"),
        draw(ttft, *above, *flags, *names(ttft, [*labels, (target_ms, "target", "")])),
        draw(tps, *below, *more_flags),
    )


# --- paged --------------------------------------------------------------------------------------------------------


def paged_data(requests, costs=Costs()):
    """Tokens per second by (whole prompt reserved?, how to resume), the ratios of TTFT, and where they pass RATIO."""
    throughputs = {
        (reserve, resume): [
            (limit, throughput_tps(requests, paged_preemption.measure(requests, reserve, resume, limit, costs)))
            for limit in sorted({*LIMITS, *paged_preemption.MAX_NUM_SEQS})
        ]
        for reserve, resume in product((False, True), ("recompute", "swap"))
    }
    lengths = sorted({*SYSTEM_TOKENS, *paged_prefix.SYSTEM_TOKENS})
    measured = [paged_prefix.measure(requests, tokens, costs) for tokens in lengths]
    beyond = None
    if measured[-1][1] > paged_prefix.RATIO * measured[-1][2]:  # else it lies outside the picture, perhaps far away
        beyond = paged_prefix.shortest_beyond(requests, paged_prefix.RATIO, costs)
        measured = sorted({*measured, paged_prefix.measure(requests, beyond, costs)})
    return throughputs, [(tokens, off / on) for tokens, off, on in measured], beyond


def draw_paged(throughputs, ratios, beyond):
    """What preemption costs, and what sharing saves.

    throughputs  {(whole prompt reserved?, "recompute" or "swap"): [(max_num_seqs, tokens per second), ...]}
    ratios       [(system tokens, median TTFT without caching / with it), ...]
    beyond       the fewest system tokens at which that is more than RATIO, one of the points; or None
    """
    points = [point for some in throughputs.values() for point in some]
    x = Scale(0, max(limit for limit, _ in points), LEFT, RIGHT - 146)
    tps = Panel("throughput", x, from_zero([served for _, served in points], 350, 132))
    above, labels = [axes(tps, "max_num_seqs", "tokens per second")], []
    for (reserve, resume), some in throughputs.items():
        kind, shape = ("good", "circle") if reserve else ("bad", "square")
        name = f"{'with' if reserve else 'without'}{', swap' if resume == 'swap' else ''}"
        noted = [point for point in some if point[0] in paged_preemption.MAX_NUM_SEQS]
        above.append(group(kind, name, line(tps, some, dashed=resume == "swap"), marks(tps, shape, noted)))
        labels.append((some[-1][1], name, kind))
    system = Scale(0, ratios[-1][0], LEFT, RIGHT - 16)
    ttft = Panel("ratio", system, from_zero([ratio for _, ratio in ratios], 610, 470))
    noted = [point for point in ratios if point[0] in paged_prefix.SYSTEM_TOKENS]
    below = [axes(ttft, "tokens of system prompt", "median TTFT without the cache / with it")]
    below.append(group("good", "ratio", line(ttft, ratios), marks(ttft, "circle", noted)))
    if beyond is not None:
        ratio = dict(ratios)[beyond]
        left = rule(system.start, ttft.y.at(ratio), system.at(beyond), ttft.y.at(ratio))
        below.append(group("ink", "beyond", left, drop(ttft, beyond, ratio), marks(ttft, "diamond", [(beyond, ratio)])))
        below.append(text(LEFT + 10, ttft.y.at(ratio) - 9, f"{paged_prefix.RATIO} times from {beyond:,} tokens on"))
    ends = ", ".join(f"{name} {served:,.0f} tokens/s" for served, name, _ in labels)
    return picture(
        "What do preemption and sharing change?",
        f"With and without reserving the whole prompt, at max_num_seqs {x.high}: {ends}. A system prompt of "
        f"{system.high:,} tokens that is cached makes the median TTFT {ratios[-1][1]:.1f} times shorter.",
        670,
        text(MARGIN, 66, "Does preempting often cost throughput?", "head"),
        text(MARGIN, 88, f"{paged_preemption.KV_BLOCKS} blocks of {paged_preemption.BLOCK_SIZE}; with and without reserving the prompt"),
        draw(tps, *above, *names(tps, labels)),
        text(MARGIN, 432, "How much TTFT does a cached system prompt save?", "head"),
        draw(ttft, *below),
    )


# --- the second lab -----------------------------------------------------------------------------------------------

SHAPES = {1: "triangle", 8: "square", 16: "diamond", 32: "circle"}


def curves_data(workload):
    """Target in ms per token, {system: its Points}, {system: the Point of its highest rate within the target}."""
    curves = {system: orca_curves.curve(system, workload, orca_curves.RATES_RPS) for system in orca_curves.SYSTEMS}
    target_ms = 2 * curves[orca_curves.MANY][0].p50_ms_per_token
    return target_ms, curves, {system: orca_curves.highest_within(system, workload, target_ms) for system in curves}


def draw_curves(target_ms, curves, within):
    """Median latency against throughput, as in Orca's Figure 10, and the most that is served within the target."""
    points = [point for some in curves.values() for point in some]
    x = Scale(0, max(point.throughput_rps for point in points), LEFT, ENDS)
    room = target_ms / 8, 2 * max(point.p50_ms_per_token for point in points)  # for words, below and above the lines
    panel = Panel("latency", x, decades([*room, *(point.p50_ms_per_token for point in points)], 400, 106))
    pieces = [axes(panel, "requests served per second", "median ms per output token, log scale")]
    pieces.append(across(panel, target_ms))
    ends = [panel.y.at(some[-1].p50_ms_per_token) - 12 for some in curves.values()]
    words, best = [], {}
    for (system, some), height in zip(curves.items(), spread(ends, panel.y.end, panel.y.start)):
        name, kind = orca_curves.name(system), "bad" if system[0] == "request" else "good"
        way = [(point.throughput_rps, point.p50_ms_per_token) for point in some]
        pieces.append(group(kind, name, line(panel, way), marks(panel, SHAPES.get(system[1], "circle"), way)))
        end = x.at(way[-1][0])
        side, turned = (6, f"{kind} end") if end > x.end - 70 else (-6, kind)
        words.append(text(end + side, height, name, turned))
        served = within[system].throughput_rps, within[system].p50_ms_per_token, name
        best[kind] = max(best.get(kind, served), served)
    for row, (kind, (rps, ms, name)) in enumerate(best.items()):
        if rps:
            pieces.append(group(kind, f"{name} within", drop(panel, rps, ms)))
            words.append(flag(panel, rps, row, f"{rps:.2f} by {name}", kind))
    said = ", ".join(f"{orca_curves.name(system)} {point.throughput_rps:.2f}" for system, point in within.items())
    return picture(
        "Which load does each scheduler carry?",
        f"Requests served per second within {target_ms:.1f} ms per output token: {said}.",
        460,
        text(MARGIN, 62, f"GPT-3 13B on an A100, modelled; target {target_ms:.1f} ms"),
        draw(panel, *pieces, *words, *names(panel, [(target_ms, "target", "")])),
    )


def reservation_data(workload, path):
    """How many requests there are, and {(requests per second, mode): Measures}. Raises BadInput, naming the path."""
    orca_reservation.refuse_longer_than_declared(path, workload.requests.output_tokens)
    cases = product(orca_reservation.RATES_RPS, orca_reservation.MODES)
    runs = {(rate, mode): orca_reservation.measure(mode, workload, rate) for rate, mode in cases}
    return len(workload.arrivals_s), runs


def draw_reservation(requests, runs):
    """Tokens used and reserved, a bar for each mode at each rate. runs: {(requests per second, mode): Measures}."""
    x = Scale(0, CAPACITY_TOKENS, 108, RIGHT - 64)
    used, unused, stuck, words, said = [], [], [], [], []
    y = 92
    for rate in dict.fromkeys(rate for rate, _ in runs):
        words.append(text(MARGIN, y + 14, f"{rate:g} requests per second", "head"))
        y += 24
        for mode in (mode for some_rate, mode in runs if some_rate == rate):
            measures = runs[rate, mode]
            middle, end = x.at(measures.mean_used_tokens), x.at(measures.mean_reserved_tokens)
            used.append(bar(x.start, y, middle, y + 16))
            unused.append(bar(middle, y, end, y + 16))
            words.append(text(x.start - 8, y + 14, mode, "end"))
            words.append(text(RIGHT, y + 14, f"{measures.reserved_per_used:.2f}", "end"))
            tokens = f"{measures.mean_reserved_tokens:,.0f} and {measures.mean_used_tokens:,.0f}"
            said.append(f"{mode} at {rate:g} requests/s {tokens}")
            y += 23
            if measures.deadlock_s is not None:
                stuck.append((measures.mean_used_tokens, y - 15))
                deadlock = f"deadlock at {measures.deadlock_s:.1f} s, {measures.finished:,} of {requests:,} served"
                words.append(text(x.start, y + 14, deadlock, "bad"))
                said.append(deadlock)
                y += 23
        y += 12
    panel = Panel("tokens", x, Scale(y, 84, y, 84))
    return picture(
        "How much reserved memory is ever used?",
        f"Mean tokens reserved and used: {'; '.join(said)}.",
        y + 58,
        group("good", "key", bar(MARGIN, 51, MARGIN + 13, 64)),
        text(MARGIN + 20, 63, "tokens in use"),
        group("bad", "key", bar(200, 51, 213, 64)),
        text(220, 63, "reserved, not in use"),
        text(RIGHT, 63, "reserved / used", "end"),
        draw(
            panel,
            axes(panel, f"mean tokens, of {CAPACITY_TOKENS:,} that fit", ""),
            group("ink", "capacity", rule(x.end, panel.y.end, x.end, panel.y.start)),
            group("good", "used", *used),
            group("bad", "reserved", *unused),
            group("ink", "deadlock", marks(panel, "cross", stuck)) if stuck else "",
            *words,
        ),
    )


# --- measured -----------------------------------------------------------------------------------------------------


def measured_data():
    """[(run, closed loop?, concurrency, p99 TTFT measured, predicted, in ms), ...] of the recorded runs, and the runs
    that the predictions were calibrated on."""
    result = measured.result_of(measured.RECORDED[-1])
    rows = {row.run: row for row in result.rows if row.measure == "p99_ttft_ms"}
    points = []
    for bench in result.benches:
        under_way = bench.clients or (sum(bench.ttfts_s) + sum(map(sum, bench.itls_s))) / bench.duration_s
        row = rows[bench.name]
        points.append((bench.name, bench.closed, under_way, row.measured, row.predicted))
    return points, [run for run, row in rows.items() if row.role == "calibrated"]


def draw_measured(points, calibrated):
    """Measured and predicted p99 TTFT against concurrency: the closed loops as lines, an open loop as points."""
    most = max(point[2] for point in points)
    panel = Panel("ttft", Scale(0, most, LEFT, RIGHT - 96), from_zero([ms for p in points for ms in p[3:]], 356, 106))
    closed = sorted((point for point in points if point[1]), key=lambda point: point[2])
    pieces, labels = [axes(panel, "requests under way", "p99 TTFT in ms")], []
    for name, kind, shape, column in (("measured", "ink", "circle", 3), ("predicted", "good", "square", 4)):
        way = [(point[2], point[column]) for point in closed]
        alone = [(point[2], point[column]) for point in points if not point[1]]
        pieces.append(group(kind, name, line(panel, way, dashed=column == 4), marks(panel, shape, way)))
        pieces.append(group(kind, f"{name} open", marks(panel, shape, alone)))
        labels.append((way[-1][1], name, "" if kind == "ink" else kind))
    for _, _, concurrency, theirs, ours in (point for point in points if not point[1]):
        place, top, bottom = panel.x.at(concurrency), panel.y.at(theirs), panel.y.at(ours)
        pieces.append(group("ink", "miss", rule(place, top, place, bottom)))
        pieces.append(text(place - 12, top + 6, f"open loop, {100 * (ours / theirs - 1):+.0f} %", "end"))
    said = "; ".join(f"{name} {theirs:,.0f} and {ours:,.0f} ms" for name, _, _, theirs, ours in points)
    return picture(
        "How far are predictions from a real server?",
        f"p99 TTFT, measured and predicted: {said}. Calibrated on {' and '.join(calibrated)}.",
        416,
        text(MARGIN, 62, "vLLM on two CPU cores; calibrated on the open loop"),
        draw(panel, *pieces, *names(panel, labels)),
    )


# --- all of them --------------------------------------------------------------------------------------------------


def recipes(requests, costs, target_ms, records, first=None):
    """{file name: a function that draws it}; records: the file of the second lab's requests, first: how many of them."""
    return {
        "slots.svg": lambda: draw_slots(*slots_data(requests, costs)),
        "queue.svg": lambda: draw_queue(*queue_data(requests, costs)),
        "tune.svg": lambda: draw_tune(*tune_data(requests, costs, target_ms)),
        "paged.svg": lambda: draw_paged(*paged_data(requests, costs)),
        "orca_curves.svg": lambda: draw_curves(*curves_data(load_workload(records, first))),
        "orca_reservation.svg": lambda: draw_reservation(*reservation_data(load_workload(records, first), records)),
        "measured.svg": lambda: draw_measured(*measured_data()),
    }


def drawn(chosen):
    """({file name: picture}, [why another is not drawn, ...]) of some recipes."""
    results = dict(zip(chosen, progress(map(attempt, chosen.values()), len(chosen))))
    refused = [f"{name} is not drawn: {result}" for name, result in results.items() if isinstance(result, BadInput)]
    return {name: result for name, result in results.items() if isinstance(result, str)}, refused


def attempt(recipe):
    """The picture, or the BadInput that says why these requests have none."""
    try:
        return recipe()
    except BadInput as error:
        return error


def records_of(args):
    """The second lab's requests have gaps: the recorded ones, unless the arguments name a file of one's own."""
    return RECORDED if args.requests.resolve() == REQUESTS_FILE else args.requests


def main():
    parser = arguments(__doc__, out=FOLDER)
    args = parser.parse_args()
    pictures, refused = drawn(recipes(load_requests(args.requests, args.first), load_costs(args.costs), TARGET_MS, records_of(args), args.first))
    save(args.out, pictures)
    print("\n".join([f"Pictures in {args.out}:", *pictures, *refused]))


if __name__ == "__main__":
    run(main)
