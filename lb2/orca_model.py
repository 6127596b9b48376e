"""How long does one iteration of GPT-3 13B take on one A100, and how many tokens fit beside its weights?

A roofline: an iteration computes and it moves bytes, and lasts as long as the slower of the two, plus a fixed overhead.
The figures are a model's and a data sheet's, the three shares and the overhead are assumptions; nothing is measured.
It ignores how kernels lose time on small or odd shapes, the embeddings' own work, and more than one GPU.

    PARAMETERS = 12_840_227_840     KV_BYTES_PER_TOKEN = 819_200     CAPACITY_TOKENS = 12_597     FULL_LENGTH_SLOTS = 6

While the rows of an iteration stay the same, the tokens in their cache grow by one a row, so both sides of the roofline
are straight lines in the iteration's index, and k iterations have a closed form. That is the second half of this file.
"""

from bisect import bisect_left

LAYERS, HIDDEN = 40, 5120  # GPT-3 13B: Orca (OSDI 2022), Table 1
VOCABULARY = 50_257  # GPT-2's byte-pair encoding, which GPT-3 uses
MAX_SEQ_TOKENS = 2_048  # the longest prompt + output of GPT-3 (Brown et al. 2020, section 2.1)
BYTES_PER_VALUE = 2  # fp16

GPU_FLOP_PER_S = 312e12  # A100 data sheet: dense fp16 on the tensor cores
GPU_BYTES_PER_S = 1_555e9  # A100-40GB data sheet: memory bandwidth
GPU_BYTES = 40e9  # the same: memory

FLOP_SHARE = 0.60  # assumed: what matrix products reach of the data sheet's FLOP/s
BANDWIDTH_SHARE = 0.80  # assumed: and of its bandwidth
MEMORY_SHARE = 0.90  # assumed: the rest is for activations
OVERHEAD_US = 1_000  # assumed: kernel launches, sampling and scheduling, per iteration

ASSUMPTIONS = (
    f"GPT-3 13B on one A100-40GB, by a roofline and not measured; assumed: {FLOP_SHARE:.0%} of its FLOP/s, "
    f"{BANDWIDTH_SHARE:.0%} of its bandwidth, {OVERHEAD_US / 1000:g} ms an iteration on top"
)  # every demo says so before its first number

PARAMETERS = 12 * LAYERS * HIDDEN**2 + VOCABULARY * HIDDEN  # attention 4 h^2 and feed-forward 8 h^2 a layer; embedding
WEIGHT_BYTES = BYTES_PER_VALUE * PARAMETERS
KV_BYTES_PER_TOKEN = 2 * LAYERS * HIDDEN * BYTES_PER_VALUE  # a key and a value a layer
CAPACITY_TOKENS = int((MEMORY_SHARE * GPU_BYTES - WEIGHT_BYTES) // KV_BYTES_PER_TOKEN)
FULL_LENGTH_SLOTS = CAPACITY_TOKENS // MAX_SEQ_TOKENS  # requests that fit if each reserves the longest possible

FLOP_PER_TOKEN = 2 * PARAMETERS  # a multiplication and an addition a parameter
FLOP_PER_PAIR = 4 * LAYERS * HIDDEN  # attention of one token to one other: a score and a weighted sum
FLOP_PER_US = FLOP_SHARE * GPU_FLOP_PER_S / 1e6
BYTES_PER_US = BANDWIDTH_SHARE * GPU_BYTES_PER_S / 1e6


def roofline(prompt_tokens, prompt_squares, rows, cached_tokens):
    """The two sides of one iteration's roofline, in us: (compute, its growth, memory, its growth).

    prompt_tokens, prompt_squares: sum of the lengths, and of their squares, of the prompts that are prefilled in it;
    rows: sequences that decode one token in it; cached_tokens: tokens these had in the cache before it. The iteration
    lasts the larger side, more than 0. Each further iteration of the same rows, without prompts, adds the growths, 0 or
    more, to the sides.
    """
    tokens = prompt_tokens + rows
    compute_us = (FLOP_PER_TOKEN * tokens + FLOP_PER_PAIR * (prompt_squares / 2 + cached_tokens)) / FLOP_PER_US
    memory_us = (WEIGHT_BYTES + KV_BYTES_PER_TOKEN * (cached_tokens + tokens)) / BYTES_PER_US
    return (
        compute_us + OVERHEAD_US,
        FLOP_PER_PAIR * rows / FLOP_PER_US,
        memory_us + OVERHEAD_US,
        KV_BYTES_PER_TOKEN * rows / BYTES_PER_US,
    )


# --- k iterations at once -----------------------------------------------------------------------------------------


def stretches(sides, iterations):
    """Cut iterations 0..iterations - 1 where the sides cross: [(first one's time, growth, how many)], one or two."""
    high, high_growth, low, low_growth = sides
    if low > high or low == high and low_growth > high_growth:
        high, high_growth, low, low_growth = low, low_growth, high, high_growth
    last = iterations - 1
    if high + last * high_growth >= low + last * low_growth:
        return [(high, high_growth, iterations)]
    before = int((high - low) // (low_growth - high_growth)) + 1  # iterations until the lower side is the larger
    return [(high, high_growth, before), (low + before * low_growth, low_growth, iterations - before)]


def duration(sides, iterations):
    """Time of this many iterations (>= 1), in the unit of the sides; exact where these are whole numbers."""
    total = 0
    for first, growth, k in stretches(sides, iterations):
        total += k * first + k * (k - 1) // 2 * growth
    return total


def token_time(sides, iterations, tokens, growth):
    """Sum over the iterations of (tokens in the cache) x (time), where tokens grow by `growth` from one to the next."""
    total = 0
    for first, slower, k in stretches(sides, iterations):
        pairs = k * (k - 1) // 2
        total += k * tokens * first + pairs * (tokens * slower + growth * first)
        total += pairs * (2 * k - 1) // 3 * growth * slower
        tokens += k * growth
    return total


def iterations_until(sides, wait, most):
    """The fewest iterations that last at least `wait`, by bisection; `most` if that is not enough.

    Iterations never get shorter, so that the first and the last one possible bracket the answer closely.
    """
    compute, compute_growth, memory, memory_growth = sides
    most = min(most, int(wait // max(compute, memory)) + 1)
    last = most - 1
    fewest = int(wait // max(compute + last * compute_growth, memory + last * memory_growth))
    return bisect_left(range(most), wait, min(most, max(1, fewest)), key=lambda iterations: duration(sides, iterations))
