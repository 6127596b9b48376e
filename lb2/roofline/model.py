"""How long is one iteration of GPT-3 13B on one A100, and how many tokens fit beside its weights?

The answer comes from a roofline. In an iteration the GPU computes, and it moves bytes between its
memory and its processors. Both happen at the same time, so the slower one decides how long the
iteration lasts. A fixed overhead comes on top. The figures of the model are from a paper, those of
the GPU from a data sheet. The three shares and the overhead are assumptions; nothing is measured.

KV stands for the keys and values that attention keeps for every token it has seen: the cache.

It ignores that kernels lose time on small or odd shapes, the work of the embeddings, and all that
more than one GPU would bring.

    PARAMETERS = 12_840_227_840       WEIGHT_BYTES = 25_680_455_680
    KV_BYTES_PER_TOKEN = 819_200      CAPACITY_TOKENS = 12_597        FULL_LENGTH_SLOTS = 6

While the same rows decode, each of them adds one token to its cache in every iteration. Both sides
of the roofline then grow by the same amount each time, so many iterations can be added up by a
formula. That is the second half of this file.
"""

from bisect import bisect_left
from functools import partial

LAYERS, HIDDEN = 40, 5120  # GPT-3 13B: Orca (OSDI 2022), Table 1
VOCABULARY = 50_257  # GPT-2's byte-pair encoding, which GPT-3 uses
MAX_SEQ_TOKENS = 2_048  # the longest prompt + output of GPT-3 (Brown et al. 2020, section 2.1)
BYTES_PER_VALUE = 2  # fp16

GPU_FLOP_PER_S = 312e12  # A100 data sheet: dense fp16 on the tensor cores
GPU_BYTES_PER_S = 1_555e9  # A100-40GB data sheet: memory bandwidth
GPU_BYTES = 40e9  # A100-40GB data sheet: memory

FLOP_SHARE = 0.60  # assumed: matrix products reach this share of the data sheet's FLOP/s
BANDWIDTH_SHARE = 0.80  # assumed: they reach this share of its bandwidth
MEMORY_SHARE = 0.90  # assumed: weights and cache may fill this share; activations need the rest
OVERHEAD_US = 1_000  # assumed: kernel launches, sampling and scheduling, in every iteration

ASSUMPTIONS = (
    "GPT-3 13B on one A100-40GB, by a roofline and not measured. Assumed: kernels reach "
    f"{FLOP_SHARE:.0%} of its FLOP/s and {BANDWIDTH_SHARE:.0%} of its bandwidth, an iteration costs "
    f"{OVERHEAD_US / 1000:g} ms on top, {MEMORY_SHARE:.0%} of its memory is usable."
)  # every demo begins with it

PARAMETERS = 12 * LAYERS * HIDDEN**2 + VOCABULARY * HIDDEN  # a layer: attention 4 h^2, feed-forward 8 h^2
WEIGHT_BYTES = BYTES_PER_VALUE * PARAMETERS
KV_BYTES_PER_TOKEN = 2 * LAYERS * HIDDEN * BYTES_PER_VALUE  # a key and a value in every layer
CAPACITY_TOKENS = int((MEMORY_SHARE * GPU_BYTES - WEIGHT_BYTES) // KV_BYTES_PER_TOKEN)
FULL_LENGTH_SLOTS = CAPACITY_TOKENS // MAX_SEQ_TOKENS  # requests that fit if each reserves the longest possible

FLOP_PER_TOKEN = 2 * PARAMETERS  # one multiplication and one addition for each parameter
FLOP_PER_PAIR = 4 * LAYERS * HIDDEN  # attention of one token to one other: a score and a weighted sum
FLOP_PER_US = FLOP_SHARE * GPU_FLOP_PER_S / 1e6
BYTES_PER_US = BANDWIDTH_SHARE * GPU_BYTES_PER_S / 1e6

TOKEN_COMPUTE_US = FLOP_PER_TOKEN / FLOP_PER_US
PAIR_COMPUTE_US = FLOP_PER_PAIR / FLOP_PER_US
WEIGHTS_MEMORY_US = WEIGHT_BYTES / BYTES_PER_US
TOKEN_MEMORY_US = KV_BYTES_PER_TOKEN / BYTES_PER_US


def roofline(prompt_tokens, prompt_squares, rows, cached_tokens):
    """The two sides of one iteration's roofline, in us: (compute, its growth, memory, its growth).

    prompt_tokens: sum of the lengths of the prompts that are prefilled in this iteration;
    prompt_squares: sum of the squares of these lengths; rows: sequences that decode one token in
    it; cached_tokens: tokens that these rows had in the cache before it.

    The iteration lasts as long as the larger side, which is more than 0. If the same rows decode
    once more, and no prompt is prefilled, each side has grown by its growth, which is 0 or more.
    """
    tokens = prompt_tokens + rows
    pairs = prompt_squares / 2 + cached_tokens  # a token of a prompt attends only to those before it
    return (
        OVERHEAD_US + TOKEN_COMPUTE_US * tokens + PAIR_COMPUTE_US * pairs,
        PAIR_COMPUTE_US * rows,
        OVERHEAD_US + WEIGHTS_MEMORY_US + TOKEN_MEMORY_US * (cached_tokens + tokens),
        TOKEN_MEMORY_US * rows,
    )


# --- k iterations at once -------------------------------------------------------------------------


def stretches(sides, iterations):
    """Cut `iterations` where the sides cross: [(time of the first, growth, how many)], one or two of them."""
    high, high_growth, low, low_growth = sides
    if low > high or low == high and low_growth > high_growth:
        high, high_growth, low, low_growth = low, low_growth, high, high_growth
    last = iterations - 1
    if high + last * high_growth >= low + last * low_growth:
        return [(high, high_growth, iterations)]
    before = int((high - low) // (low_growth - high_growth)) + 1  # after so many the lower side is the larger
    return [(high, high_growth, before), (low + before * low_growth, low_growth, iterations - before)]


def duration(sides, iterations):
    """Time of this many iterations (>= 0), in the unit of the sides; exact where these are whole numbers."""
    return time_and_load(sides, iterations, 0, 0)[0]


def time_and_load(sides, iterations, tokens, growth):
    """Time of this many iterations (>= 1), and the sum over them of time x tokens in the cache.

    tokens: in the cache in the first iteration; growth: how many more in each further one.
    """
    if iterations == 1:  # the most frequent case
        us = max(sides[0], sides[2])
        return us, us * tokens
    us = token_us = 0
    for first, slower, k in stretches(sides, iterations):
        pairs = k * (k - 1) // 2  # 0 + 1 + ... + (k - 1)
        squares = pairs * (2 * k - 1) // 3  # 0^2 + 1^2 + ... + (k - 1)^2
        stretch_us = k * first + pairs * slower
        us += stretch_us
        token_us += tokens * stretch_us + growth * (pairs * first + squares * slower)
        tokens += k * growth
    return us, token_us


def iterations_until(sides, wait, most):
    """The fewest iterations (>= 1) that last at least `wait` (> 0); `most` if that is not enough.

    Iterations never become shorter, so the first one and the last one possible bracket the answer.
    """
    compute, compute_growth, memory, memory_growth = sides
    shortest = max(compute, memory)
    if wait <= shortest:
        return 1
    most = min(most, int(wait // shortest) + 1)
    last = most - 1
    longest = max(compute + last * compute_growth, memory + last * memory_growth)
    fewest = min(most, max(1, int(wait // longest)))
    return bisect_left(range(most), wait, fewest, most, key=partial(duration, sides))
