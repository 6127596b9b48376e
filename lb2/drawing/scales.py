"""Where on the paper does a value stand, and which round numbers are written beside it?

    Scale(0, 40, 60, 620).at(10)            -> 200.0           where a value is drawn
    ticks(Scale(0, 42, 60, 620))            -> [0, 10, 20, 30, 40]
    ticks(Scale(5, 3000, 300, 60, True))    -> [10, 100, 1000]
    number(12597), number(2500000)          -> "12,597", "2.5M"
    milliseconds(40), milliseconds(25000)   -> "40 ms", "25 s"
"""

from math import ceil, floor, log10
from typing import NamedTuple


class Scale(NamedTuple):
    """Values from low to high are drawn from start to end."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value):
        low, high = self.low, self.high
        if self.log:
            value, low, high = log10(value), log10(low), log10(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


class Panel(NamedTuple):
    """A part of a picture with its own two scales."""

    name: str
    x: Scale
    y: Scale  # start is below end


def step(span, most=6):
    """The smallest of ... 1 2 5 10 20 50 ... that goes into span at most `most` times."""
    size = 10.0 ** floor(log10(span / most))
    return next(factor * size for factor in (1, 2, 5, 10, 20) if span <= factor * size * most)


def from_zero(values, start, end):
    """A linear scale from 0 to a round number that holds all the values (>= 0)."""
    highest = max(values) or 1
    size = step(highest)
    return Scale(0, ceil(highest / size) * size, start, end)


def decades(values, start, end):
    """A logarithmic scale that holds all the values above 0, from and to one of ... 1 2 5 10 20 50 ..."""
    positive = [value for value in values if value > 0] or [1]
    low, high = (10.0 ** floor(log10(value)) for value in (min(positive), max(positive)))
    low *= max(factor for factor in (1, 2, 5) if factor * low <= min(positive))
    high *= min(factor for factor in (1, 2, 5, 10) if factor * high >= max(positive))
    return Scale(low, high if high > low else 10 * low, start, end, log=True)


def ticks(scale, most=5):
    """Round values within the scale. Linear: in at most `most` steps. Logarithmic: 1, 2 and 5 of each decade, or, where
    these are more than `most`, the decades, or every second one of them.
    """
    if not scale.log:
        size = step(scale.high - scale.low, most)
        return [k * size for k in range(ceil(scale.low / size), floor(scale.high / size + 1e-9) + 1)]
    powers = range(floor(log10(scale.low)), ceil(log10(scale.high)) + 1)
    values = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    values = [value for value in values if 0.999 * scale.low <= value <= 1.001 * scale.high]
    decades = [value for value in values if log10(value) % 1 < 1e-9 or log10(value) % 1 > 1 - 1e-9]
    return values if len(values) <= most else decades[:: ceil(len(decades) / most)]


def number(value):
    """As a label: 12,597 in full, and three digits of what is 100,000 and more."""
    for size, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= max(size, 99_999.5):
            return f"{value / size:.3g}{name}"
    return f"{value:,.6g}"


def milliseconds(ms):
    """A time in words: three digits, in seconds where ms would have five."""
    if ms >= 9_999.5:
        return f"{number(float(f'{ms / 1000:.3g}'))} s"
    return f"{ms:,.0f} ms" if ms >= 99.95 else f"{ms:.3g} ms"
