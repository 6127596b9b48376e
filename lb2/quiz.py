"""Can you play both schedulers by hand? Four requests, two slots, and four questions.

A decode pass takes 8 ms, and prompts are prefilled one after the other at 0.05 ms a token. All requests are there at
time 0, and are admitted in list order. The numbers come from static.py and continuous.py. Guess first.

    python3 lb2/quiz.py --seed 7
    python3 lb2/quiz.py --seed 7 --answer        the time line, iteration by iteration
"""

import argparse
from functools import partial
from random import Random

import continuous
import static
from common import Costs, Requests, number, run, say

SLOTS, N = 2, 4
LETTERS = "ABCD"


def problem(seed):
    """Four small Requests, for which the two schedulers differ: prompts of 20 to 200 tokens, outputs of 1 to 6."""
    draw = Random(seed)
    while True:
        requests = Requests([20 * draw.randint(1, 10) for _ in range(N)], [draw.randint(1, 6) for _ in range(N)])
        if static.schedule(requests, SLOTS) != continuous.schedule(requests, SLOTS):
            return requests


def iterations(requests, result):
    """[(start in us, letters admitted, letters that decode, end in us)]: the Schedule, one iteration at a time."""
    costs, found, now_us, left = Costs(), [], 0, list(requests.output_tokens)
    while any(left):
        new = [i for i in range(N) if result.admitted_us[i] == now_us]
        running = [i for i in range(N) if result.admitted_us[i] <= now_us and left[i]]
        prefill_us = costs.prefill_us(sum(requests.prompt_tokens[i] for i in new))
        end_us = now_us + prefill_us + costs.decode_us(len(running))
        for i in running:
            left[i] -= 1
        found.append((now_us, *("".join(LETTERS[i] for i in some) for some in (new, running)), end_us))
        now_us = end_us
    return found


def show(name, requests, result):
    print(f"{name}\n  from ms  admits  decodes  until ms  ends")
    for start_us, new, running, end_us in iterations(requests, result):
        ends = "".join(LETTERS[i] for i in range(N) if result.finished_us[i] == end_us)
        print(f"{start_us / 1000:9g}  {new or '-':6}  {running:7}  {end_us / 1000:8g}  {ends or '-'}")
    ttft_ms = sum(result.first_token_us) / N / 1000
    tokens = sum(requests.output_tokens)
    util = static.slot_util(requests, result, SLOTS)
    print(f"  slot_util = {tokens} / ({SLOTS} x {result.iterations}) = {util:.4f}")
    print(f"  mean TTFT = {ttft_ms:.2f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=partial(number, least=0, kind=int), default=1, metavar="N",
                        help="another problem for every number (default: 1)")
    parser.add_argument("--answer", action="store_true", help="show the time line of both schedulers")
    args = parser.parse_args()
    requests = problem(args.seed)
    print("request  prompt tokens  output tokens")
    for letter, prompt, output in zip(LETTERS, *requests):
        print(f"{letter:7}  {prompt:13}  {output:13}")
    if args.answer:
        show("Static batching", requests, static.schedule(requests, SLOTS))
        show("Continuous batching", requests, continuous.schedule(requests, SLOTS))
        return
    say(f"{SLOTS} slots, all requests there at time 0; 8 ms a decode pass, 0.05 ms a prompt token. For static batching "
        "and for continuous batching: when does each request end? What is slot_util? What is the mean TTFT, from time "
        "0 to the end of the iteration that admits the request?")
    print(f"The answers: python3 lb2/quiz.py --seed {args.seed} --answer")


if __name__ == "__main__":
    run(main)
