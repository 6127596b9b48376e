"""Does preempting often cost throughput? The policies of paged_preemption.py over max_num_seqs.

A line is a policy: is the whole prompt reserved at admission or not, and is a preempted request
computed again (recompute) or fetched from host memory (swap)? The marks are the rows of
paged_preemption.csv.
"""

from itertools import product

import paged_preemption
from common import progress
from static import throughput_tps
from files.costs import Costs
from drawing.svg import LEFT, LINE, MARGIN, RIGHT, axes, draw, group, line, marks, picture, sample, text
from drawing.scales import Panel, Scale, from_zero

LIMITS = (1, *range(2, 41, 2))
LONG = 1000  # of longer lists only the limits of the file are played
POLICIES = {  # (whole prompt reserved?, how a preempted request resumes): words, colour, mark, kind of line
    (True, "recompute"): ("reserve the prompt, recompute", "good", "circle", ""),
    (True, "swap"): ("reserve the prompt, swap", "good", "diamond", "dash"),
    (False, "recompute"): ("reserve nothing, recompute", "bad", "square", ""),
    (False, "swap"): ("reserve nothing, swap", "bad", "triangle", "dash"),
}


def preemption_data(requests, costs=Costs(), rows=None):
    """{policy: [(max_num_seqs, tokens per second, preemptions), ...]}: played, or from
    paged_preemption.csv's rows.

    Raises BadInput if a request can never fit.
    """
    points = {policy: [] for policy in POLICIES}
    if rows:
        for row in rows:
            point = int(row["max_num_seqs"]), float(row["throughput_tps"]), int(row["preemptions"])
            points[row["reserve_full_prompt"] == "true", row["resume"]].append(point)
        return points
    limits = paged_preemption.MAX_NUM_SEQS
    if len(requests.output_tokens) <= LONG:
        limits = sorted({*LIMITS, *limits})
    cases = list(product(POLICIES, limits))
    plays = (paged_preemption.measure(requests, *policy, limit, costs) for policy, limit in cases)
    for (policy, limit), result in zip(cases, progress(plays, len(cases))):
        points[policy].append((limit, throughput_tps(requests, result), result.preemptions))
    return points


def draw_preemption(points):
    """points: {policy: [(max_num_seqs, tokens per second, preemptions), ...]}."""
    everything = [point for some in points.values() for point in some]
    last = max(limit for limit, *_ in everything)
    y = from_zero([tps for _, tps, _ in everything], 452, 252)
    panel = Panel("throughput", Scale(0, last, LEFT, RIGHT - 20), y)
    pieces, keys, ends = [], [], []
    for row, (policy, some) in enumerate(points.items()):
        words, kind, shape, dash = POLICIES[policy]
        noted = [point[:2] for point in some if point[0] in paged_preemption.MAX_NUM_SEQS]
        way = line(panel, [point[:2] for point in some], dash)
        pieces.append(group(kind, words, way, marks(panel, shape, noted, "hollow")))
        ends.append(f"{words} {some[-1][1]:,.0f} tokens/s")
        keys.append(sample(MARGIN, 108 + row * LINE, kind, shape, words, dash, "hollow"))
    most = max(preemptions for *_, preemptions in everything)
    said = f"Up to {most:,} preemptions." if most else "Nothing is preempted: there is room for all that run."
    blocks = f"{paged_preemption.KV_BLOCKS} blocks of {paged_preemption.BLOCK_SIZE} tokens"
    return picture(
        "Does preempting often cost throughput?",
        f"At max_num_seqs {last}: {'; '.join(ends)}. {said}",
        510,
        text(MARGIN, 68, f"{blocks}; {f'up to {most:,} preemptions' if most else 'nothing is preempted'}"),
        *keys,
        draw(panel, axes(panel, "max_num_seqs", "tokens per second"), *pieces),
    )
