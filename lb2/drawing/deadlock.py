"""What happens to a memory that nobody reserves? Tokens in the cache over time, in
orca_reservation.py's four modes.

For `paged` the tokens are those of the blocks that are held. At 12 requests/s `none` fills the
memory and stops for good, because each running request waits for a token's room. The schedulers are
asked what is in the cache whenever they admit requests: the roofline that they call is told.

    sampled([(0.0, 5), (0.1, 6), (9.0, 7)], 10, 10.0)   -> [(0.1, 6), (9.0, 7)]     the last of each bin
"""

from roofline import iteration_level as orca_iteration
from roofline import model as orca_model
import orca_reservation
from roofline import stall as orca_stall
from paging import clock as paged_time
from common import progress
from roofline.model import CAPACITY_TOKENS, MAX_SEQ_TOKENS
from orca_reservation import BLOCK_SIZE, MAX_BATCH, MAX_GEN
from roofline.workload import arrivals_at
from drawing.svg import LEFT, LINE, MARGIN, RIGHT, axes, draw, group, line, marks, picture, sample, text
from drawing.labels import across
from drawing.scales import Panel, Scale, from_zero

RATE_RPS = 12
BINS = 240
MODES = {  # mode: colour, mark, kind of line
    "max_seq": ("quiet", "triangle", "thin"),
    "max_gen": ("quiet", "diamond", "dash"),
    "paged": ("good", "circle", ""),
    "none": ("bad", "cross", "dash"),  # the last one is drawn over the others
}


def at_admissions(schedule, requests, arrivals_us, *more):
    """(Outcome, [(time in s, tokens in the cache), ...]) of a scheduler that calls a roofline, at
    each admission.
    """
    seen = []

    def roofline(prompt_tokens, prompt_squares, rows, cached_tokens):
        if prompt_tokens:
            seen.append(cached_tokens + prompt_tokens)
        return orca_model.roofline(prompt_tokens, prompt_squares, rows, cached_tokens)

    outcome = schedule(requests, MAX_BATCH, arrivals_us, *more, roofline=roofline)
    times_us = sorted({time for time in outcome.schedule.admitted_us if time is not None})
    return outcome, [(time / 1e6, tokens) for time, tokens in zip(times_us, seen)]


def deadlock_data(workload, path):
    """{mode: [(time in s, tokens in the cache), ...]} and when `none` deadlocks, in s, or None.
    Raises BadInput.
    """
    orca_reservation.refuse_longer_than_declared(path, workload.requests.output_tokens)
    requests, arrivals_us = workload.requests, arrivals_at(workload, RATE_RPS)
    points, stuck_s = {}, None
    for mode in progress(MODES, len(MODES)):
        if mode == "none":
            outcome, points[mode] = at_admissions(orca_stall.schedule, requests, arrivals_us)
            if outcome.deadlock_us is not None:
                stuck_s = outcome.deadlock_us / 1e6
                points[mode].append((stuck_s, CAPACITY_TOKENS))
        elif mode == "paged":
            log = []
            blocks = CAPACITY_TOKENS // BLOCK_SIZE
            paged_time.schedule(requests, MAX_BATCH, arrivals_us, orca_reservation.step_us, blocks, BLOCK_SIZE, log=log)
            points[mode] = [(step.end_us / 1e6, BLOCK_SIZE * (blocks - step.free)) for step in log]
        else:
            needs = [MAX_SEQ_TOKENS if mode == "max_seq" else prompt + MAX_GEN for prompt in requests.prompt_tokens]
            _, points[mode] = at_admissions(orca_iteration.schedule, requests, arrivals_us, needs)
    return points, stuck_s


def sampled(points, bins, end_s):
    """The last point of each bin of time up to end_s, so that a line has at most so many points."""
    return list({min(bins - 1, int(bins * point[0] / end_s)): point for point in points}.values())


def draw_deadlock(points, stuck_s):
    """The arguments are what deadlock_data returns."""
    end_s = 2 * stuck_s if stuck_s else points["paged"][-1][0]
    x = Scale(0, end_s, LEFT, RIGHT - 20)
    panel = Panel("cache", x, from_zero([CAPACITY_TOKENS], 430, 212)._replace(high=1.08 * CAPACITY_TOKENS))
    pieces, keys = [group("ink", "capacity", across(panel, CAPACITY_TOKENS))], []
    for row, (mode, (kind, shape, way)) in enumerate(MODES.items()):
        some = [point for point in points[mode] if point[0] <= end_s]
        pieces.append(group(kind, mode, line(panel, sampled(some, BINS, end_s), way)))
        keys.append(sample(MARGIN + 152 * row, 104, kind, shape, mode, way))
    said = "Nobody runs out of memory."
    if stuck_s is not None:
        flat = [(stuck_s, CAPACITY_TOKENS), (x.high, CAPACITY_TOKENS)]
        pieces.append(group("bad", "flat", line(panel, flat), marks(panel, "cross", flat[:1])))
        said = f"With none the cache is full, and all stops, at {stuck_s:.1f} s."
    most = {mode: max(tokens for _, tokens in some) for mode, some in points.items()}
    peaks = ", ".join(f"{mode} {tokens:,}" for mode, tokens in most.items())
    return picture(
        "What if nobody reserves memory?",
        f"{said} Most tokens in the cache, of {CAPACITY_TOKENS:,} that fit: {peaks}.",
        490,
        text(MARGIN, 68, f"Tokens in the cache at {RATE_RPS} requests/s; {CAPACITY_TOKENS:,} fit"),
        *keys,
        text(MARGIN, 104 + LINE + 4, said, "bad" if stuck_s is not None else "good"),
        draw(panel, axes(panel, "seconds", "tokens in the cache", rise=24), *pieces),
    )
