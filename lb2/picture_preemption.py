"""Does preempting often cost throughput? The policies of paged_preemption.py over max_num_seqs.

A line is a policy: is the whole prompt reserved at admission or not, and is a preempted request computed again
(recompute) or fetched from host memory (swap)? The marks are the rows of paged_preemption.csv.
"""

from itertools import product

import paged_preemption
from command_line import progress
from common import throughput_tps
from cost_model import Costs
from svg import LEFT, LINE, MARGIN, RIGHT, axes, draw, group, line, marks, picture, sample, text
from svg_scales import Panel, Scale, from_zero

LIMITS = (1, *range(2, 41, 2))
LONG = 1000  # of longer lists only the limits of the file are played
POLICIES = {  # (whole prompt reserved?, how a preempted request resumes): words, colour, mark, kind of line
    (True, "recompute"): ("reserve the prompt, recompute", "good", "circle", ""),
    (True, "swap"): ("reserve the prompt, swap", "good", "diamond", "dash"),
    (False, "recompute"): ("reserve nothing, recompute", "bad", "square", ""),
    (False, "swap"): ("reserve nothing, swap", "bad", "triangle", "dash"),
}


def preemption_data(requests, costs=Costs()):
    """{policy: [(max_num_seqs, tokens per second, preemptions), ...]}. Raises BadInput if a request can never fit."""
    limits = paged_preemption.MAX_NUM_SEQS
    if len(requests.output_tokens) <= LONG:
        limits = sorted({*LIMITS, *limits})
    cases = list(product(POLICIES, limits))
    plays = (paged_preemption.measure(requests, *policy, limit, costs) for policy, limit in cases)
    points = {policy: [] for policy in POLICIES}
    for (policy, limit), result in zip(cases, progress(plays, len(cases))):
        points[policy].append((limit, throughput_tps(requests, result), result.preemptions))
    return points


def draw_preemption(points):
    """points: {policy: [(max_num_seqs, tokens per second, preemptions), ...]}."""
    everything = [point for some in points.values() for point in some]
    last = max(limit for limit, *_ in everything)
    panel = Panel("throughput", Scale(0, last, LEFT, RIGHT - 20), from_zero([tps for _, tps, _ in everything], 452, 252))
    pieces, keys, ends = [], [], []
    for row, (policy, some) in enumerate(points.items()):
        words, kind, shape, dash = POLICIES[policy]
        noted = [point[:2] for point in some if point[0] in paged_preemption.MAX_NUM_SEQS]
        pieces.append(group(kind, words, line(panel, [point[:2] for point in some], dash), marks(panel, shape, noted, "hollow")))
        ends.append(f"{words} {some[-1][1]:,.0f} tokens/s")
        keys.append(sample(MARGIN, 108 + row * LINE, kind, shape, words, dash, "hollow"))
    most = max(preemptions for *_, preemptions in everything)
    said = f"Up to {most:,} preemptions." if most else "Nothing is preempted: the cache has room for all that run together."
    return picture(
        "Does preempting often cost throughput?",
        f"At max_num_seqs {last}: {'; '.join(ends)}. {said}",
        510,
        text(MARGIN, 68, f"{paged_preemption.KV_BLOCKS} blocks of {paged_preemption.BLOCK_SIZE} tokens; at most "
                         f"{most:,} preemptions" if most else "Nothing is preempted: there is room for all"),
        *keys,
        draw(panel, axes(panel, "max_num_seqs", "tokens per second"), *pieces),
    )
