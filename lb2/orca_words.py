"""What do all demos of this lab print, and in which form?

    print(ASSUMPTIONS)             two lines; every demo begins with them
    notice("memory is full.")      prints "Notice: memory is full.", in lines of at most 100 columns
    decimals([0.5, 12])            -> ["0.500", "12.000"]
"""

from textwrap import fill

from orca_model import BANDWIDTH_SHARE, FLOP_SHARE, MEMORY_SHARE, OVERHEAD_US

COLUMNS = 100

ASSUMPTIONS = (
    "GPT-3 13B on one A100-40GB, by a roofline and not measured. Assumed: kernels reach "
    f"{FLOP_SHARE:.0%} of its\nFLOP/s and {BANDWIDTH_SHARE:.0%} of its bandwidth, an iteration costs "
    f"{OVERHEAD_US / 1000:g} ms on top, {MEMORY_SHARE:.0%} of its memory is usable."
)


def notice(text):
    """Print what the reader should notice; further lines are indented."""
    print(fill(f"Notice: {text}", COLUMNS, subsequent_indent="  "))


def decimals(numbers):
    return [f"{number:.3f}" for number in numbers]
