"""What does a step cost on a server?

A step prefills P prompt tokens, lets S sequences emit a token each, and reads a cache of C tokens.
It lasts

    step(S) + context x C + max(0, prefill x P - hidden)

step(S) is a line, or straight pieces through measured points. hidden is the part of a prefill that
the GPU does while it reads the weights. The lab's own server knows two of these figures: 0.05 ms a
prompt token, and 8 ms a step.

    Costs().prefill_us(200) -> 10000   Costs().decode_us(16) -> 8000   Costs().context_us(5000) -> 0

The figures may be fractions of a microsecond. The clock counts whole microseconds, so each term is
rounded once a step.
"""

from bisect import bisect_right
from typing import NamedTuple

from inputs import BadInput, read_text

MOST_MS = 1_000_000


class Costs(NamedTuple):
    """The costs of a server, in microseconds. The defaults are the lab's own."""

    prefill_us_per_token: float = 50
    step_us: float = 8_000
    step_us_per_sequence: float = 0
    overhead_us: float = 0  # from the client to the scheduler: network, tokenizer
    context_us_per_token: float = 0
    hidden_us: float = 0
    step_points: tuple = ()  # ((sequences, us of a step), ...) in order; () means the line above

    def prefill_us(self, prompt_tokens):
        """Time to prefill this many prompt tokens, of one prompt or of several."""
        return max(0, round(self.prefill_us_per_token * prompt_tokens - self.hidden_us))

    def decode_us(self, sequences):
        """Time of one pass in which each of the sequences emits a token."""
        if self.step_points:
            return max(1, round(interpolated(self.step_points, sequences)))
        return round(self.step_us + self.step_us_per_sequence * sequences)

    def context_us(self, cached_tokens):
        """Time to read this many tokens in the cache."""
        return round(self.context_us_per_token * cached_tokens)


def interpolated(points, x):
    """The value at x of straight pieces through two or more points (x, y). The outer pieces go on beyond the ends."""
    right = min(max(bisect_right(points, (x,)), 1), len(points) - 1)
    (x0, y0), (x1, y1) = points[right - 1], points[right]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


REQUIRED = {  # key of a --costs file, in ms: field of Costs, in us
    "prefill_ms_per_token": "prefill_us_per_token",
    "step_ms": "step_us",
    "step_ms_per_sequence": "step_us_per_sequence",
    "overhead_ms": "overhead_us",
}
OPTIONAL = {"context_ms_per_token": "context_us_per_token", "hidden_ms": "hidden_us"}


def load_costs(path):
    """Read a --costs file: pairs of key=value in milliseconds. None: the lab's costs. Raises BadInput or OSError."""
    if path is None:
        return Costs()
    keys = REQUIRED | OPTIONAL
    values = {}
    for pair in read_text(path).split():
        key, _, text = pair.partition("=")
        if key not in keys or keys[key] in values:
            raise BadInput(f"{path}: expected each of {', '.join(REQUIRED)} once, found {pair[:40]}")
        values[keys[key]] = microseconds(f"{path}: {key}", text)
    missing = [key for key, field in REQUIRED.items() if field not in values]
    if missing:
        raise BadInput(f"{path}: {', '.join(missing)} is missing")
    if values["step_us"] < 1:
        raise BadInput(f"{path}: step_ms: expected at least 0.001, found {values['step_us'] / 1000:g}")
    return Costs(**values)


def microseconds(where, text):
    """Milliseconds as a file says them, 0 to MOST_MS, in microseconds: a whole number where it is one."""
    try:
        us = float(text) * 1000
    except ValueError:
        raise BadInput(f"{where}: expected milliseconds, found {text[:40]}") from None
    if not 0 <= us <= 1000 * MOST_MS:
        raise BadInput(f"{where}: expected milliseconds from 0 to {MOST_MS:,}, found {text[:40]}")
    return round(us) if abs(us - round(us)) < 1e-6 else us
