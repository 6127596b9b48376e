"""What does a step cost on a server?

A step prefills P prompt tokens, lets S sequences emit a token each, and reads a cache of C tokens.
It lasts

    step(S) + context x C + max(0, prefill x P - hidden)

microseconds. S, P and C are those of the step, C when it is over. step(S) is a line, or straight
pieces through measured points. hidden is the part of a prefill that the GPU does while it reads the
weights. The defaults are the lab's: 50 us a prompt token, 8000 us a step, and nothing else.

    Costs().prefill_us(200) -> 10000   Costs().decode_us(16) -> 8000   Costs().context_us(5000) -> 0

The figures may be fractions of a microsecond. The clock counts whole microseconds, so each term is
rounded once a step.
"""

from bisect import bisect_right
from typing import NamedTuple

from common import BadInput, count, number
from files.inputs import read_text


class Costs(NamedTuple):
    """The costs of a server, in microseconds. The defaults are the lab's own.

    Not common.Costs, whose four figures the steps use: these also hold what only a whole schedule with a cache knows.
    """

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


# --- the --costs file -----------------------------------------------------------------------------

TIMES = {field.replace("_us", "_ms"): field for field in Costs._fields[:-1]}  # key, in ms: field of Costs, in us
OPTIONAL = ("context_ms_per_token", "hidden_ms")  # zero where they are missing
POINTS = "step_ms_at"  # 1:8.05,8:8.41,16:8.8 = ms of a step by sequences; step_ms is then the straight line near it
LIMITS = ("max_num_seqs", "max_num_batched_tokens", "kv_tokens", "measured_sequences", "measured_prompt_tokens")
MAX_NUM_SEQS, BUDGET = 256, 2048  # vLLM's, where nothing else is known; BUDGET: max_num_batched_tokens
SCHEDULERS = ("synchronous", "asynchronous")
WORDS = ("trusted", "why", "assumed")  # no; the doubts of the calibration; limits that nobody told: a plan is for these


class Server(NamedTuple):
    """A server, as a --costs file describes it; None where it says nothing."""

    costs: Costs = Costs()
    asynchronous: bool = None
    max_num_seqs: int = None
    max_num_batched_tokens: int = None
    kv_tokens: int = None
    measured_sequences: int = None  # the most at once in the runs that the costs were fitted to
    measured_prompt_tokens: int = None  # the longest prompt in them
    trusted: str = None  # "no": the calibration doubts the costs
    why: str = None  # its doubts, in a word each: stalls,drift
    assumed: str = None  # vLLM's defaults that it took: max_num_batched_tokens:2048


def load_server(path):
    """The Server of a --costs file: pairs of key=value, times in ms. None: the lab's. Raises BadInput or OSError."""
    return Server() if path is None else parsed(path, read_text(path))


def parsed(path, text):
    """The Server of the text of a --costs file. Raises BadInput."""
    keys = {*TIMES, *LIMITS, *WORDS, POINTS, "scheduling"}
    costs, server, seen = {}, {}, set()
    for pair in text.split():
        key, _, value = pair.partition("=")
        if key in seen:
            raise BadInput(f"{path}: {key}: found twice")
        if key not in keys:
            raise BadInput(f"{path}: expected key=value with {', '.join(sorted(keys))}, found {pair[:40]}")
        seen.add(key)
        if key in TIMES:
            costs[TIMES[key]] = microseconds(f"{path}: {key}", value)
        elif key == POINTS:
            costs["step_points"] = points(f"{path}: {key}", value)
        elif key in LIMITS:
            server[key] = count(value, where=f"{path}: {key}: ")
        elif key in WORDS:
            if not value.isascii() or not value or (key == "trusted" and value != "no"):
                raise BadInput(f"{path}: {key}: expected {'no' if key == 'trusted' else 'words'}, found {value[:40]}")
            server[key] = value
        elif value in SCHEDULERS:
            server["asynchronous"] = value == "asynchronous"
        else:
            raise BadInput(f"{path}: scheduling: expected {' or '.join(SCHEDULERS)}, found {value[:40]}")
    missing = [key for key in TIMES if key not in seen and key not in OPTIONAL]
    if missing:
        raise BadInput(f"{path}: {', '.join(missing)} is missing")
    if costs["step_us"] < 1:
        raise BadInput(f"{path}: step_ms: expected at least 0.001, found {costs['step_us'] / 1000:g}")
    return Server(Costs(**costs), **server)


def microseconds(where, text):
    """Milliseconds as a file says them, in microseconds: a whole number where it is one."""
    us = 1000 * number(text, 0, f"{where}: ")
    return round(us) if round(us) and abs(us - round(us)) < 1e-6 else us


def points(where, text):
    """((sequences, us), ...) of two or more points like 1:8.05,8:8.41, in order."""
    pairs = [point.partition(":")[::2] for point in text.split(",")]
    found = tuple((count(sequences, where=f"{where}: "), microseconds(where, ms)) for sequences, ms in pairs)
    in_order = all(one[0] < other[0] for one, other in zip(found, found[1:]))
    if len(found) < 2 or not in_order or min(us for _, us in found) < 1:
        raise BadInput(f"{where}: expected two or more sequences:ms, in order, each at least 0.001, found {text[:40]}")
    return found


def costs_line(server):
    """The text of a Server's --costs file: six digits, and no key that says only what its absence says."""
    costs = server.costs
    times = {key: getattr(costs, field) for key, field in TIMES.items()}
    fields = {key: in_ms(us) for key, us in times.items() if us or key not in OPTIONAL}
    if costs.step_points:
        fields[POINTS] = ",".join(f"{sequences}:{in_ms(us)}" for sequences, us in costs.step_points)
    if server.asynchronous is not None:
        fields["scheduling"] = SCHEDULERS[server.asynchronous]
    fields |= {limit: value for limit in (*LIMITS, *WORDS) if (value := getattr(server, limit))}
    return " ".join(f"{key}={value}" for key, value in fields.items()) + "\n"


def in_ms(us):
    """Microseconds in ms with six digits: 0.0516, 24.0042, 8."""
    return f"{us / 1000:.6g}"
