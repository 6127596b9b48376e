"""Where does the time go, reading prompts (prefill) or writing answers (decode)?

Two formulas are all that the lab knows of a GPU: a prompt token costs 0.05 ms of prefill, and a decode iteration
costs 8.0 ms, however many sequences are in it. This script adds them up as if each request were served alone, and
then says what batching makes of it. It ignores how attention grows with the length of the context.

    python3 lb2/cost.py        writes cost.txt

prefill_us(200) -> 10000     decode_us(16) -> 8000
"""

from typing import NamedTuple

from common import MOST, BadInput, arguments, pairs, read_text, requests_of, run, save

PREFILL_US_PER_TOKEN = 50
DECODE_US = 8_000
SLOTS = 16


def prefill_us(prompt_tokens):
    """Microseconds to prefill this many prompt tokens, of one prompt or of several one after the other."""
    return PREFILL_US_PER_TOKEN * prompt_tokens


def decode_us(sequences):
    """Microseconds of one decode pass, in which each of the sequences emits one token."""
    return DECODE_US


class Costs(NamedTuple):
    """Another server's costs, in whole microseconds (calibrate.py fits them); as they stand, the lab's own."""

    prefill_us_per_token: int = PREFILL_US_PER_TOKEN
    step_us: int = DECODE_US
    step_us_per_sequence: int = 0
    overhead_us: int = 0  # added to every TTFT: time outside the scheduler

    def prefill_us(self, prompt_tokens):
        return self.prefill_us_per_token * prompt_tokens

    def decode_us(self, sequences):
        return self.step_us + self.step_us_per_sequence * sequences


COSTS_KEYS = ("prefill_ms_per_token", "step_ms", "step_ms_per_sequence", "overhead_ms")  # Costs, as a file says them


def load_costs(path):
    """Read a --costs file: one line of key=value. Raises BadInput or OSError."""
    values = {}
    for pair in read_text(path).split():
        key, _, value = pair.partition("=")
        if key not in COSTS_KEYS or key in values:
            raise BadInput(f"{path}: expected each of {', '.join(COSTS_KEYS)} once, found {pair[:40]}")
        try:
            values[key] = round(1000 * float(value))
        except (ValueError, OverflowError):
            raise BadInput(f"{path}: {key}: expected milliseconds, found {value[:40]}") from None
        if not 0 <= values[key] <= MOST:
            raise BadInput(f"{path}: {key}: expected milliseconds from 0 to 1,000,000, found {value[:40]}")
    missing = [key for key in COSTS_KEYS if key not in values]
    if missing:
        raise BadInput(f"{path}: {', '.join(missing)} is missing")
    if values["step_ms"] == 0:
        raise BadInput(f"{path}: step_ms: expected at least 0.001, found 0")
    return Costs(*(values[key] for key in COSTS_KEYS))


def costs_of(args):
    """The costs that a script's arguments name, or the lab's."""
    return load_costs(args.costs) if args.costs else Costs()


def main():
    from continuous import schedule  # here, because continuous.py takes its costs from this file

    args = arguments(__doc__).parse_args()
    requests, costs = requests_of(args), costs_of(args)
    prefill = costs.prefill_us(sum(requests.prompt_tokens))
    decode = costs.decode_us(1) * sum(requests.output_tokens)
    line = pairs(
        total_prefill_ms=f"{prefill / 1000:.2f}",
        total_decode_ms=f"{decode / 1000:.2f}",
        decode_share=f"{decode / (prefill + decode):.4f}",
    )
    save(args.out, {"cost.txt": line})

    result = schedule(requests, SLOTS, prefill_us=costs.prefill_us, decode_us=costs.decode_us)
    batched = max(result.finished_us) - prefill
    print("Step 7: prefill and decode")
    print(f"cost.txt: {line}", end="")
    print(
        f"Notice: served alone, {decode / (prefill + decode):.1%} of the time is decode. Continuous batching in {SLOTS} "
        f"slots shares its passes; of its time decode is {batched / (prefill + batched):.4f}."
    )


if __name__ == "__main__":
    run(main)
