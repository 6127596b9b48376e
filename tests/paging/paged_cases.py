"""Random cases for the paged schedulers: tight and ample memory, budgets, prefixes, clients, arrivals, costs."""

import random

from common import Requests
from files.costs import Costs
from paging.scheduler import UNLIMITED


def random_costs(r):
    """The lab's costs, or a server's with some of the terms, fractions of microseconds included."""
    if r.random() < 0.3:
        return Costs()
    points = r.choice(((), ((1, 900.5), (4, 1_000.25)), ((1, 500), (3, 700), (8, 2_000.75))))
    return Costs(
        prefill_us_per_token=r.choice((0, 7, 50, 5.3)),
        step_us=r.choice((1, 100, 8_000, 333.4)),
        step_us_per_sequence=r.choice((0, 13, 0.7)),
        context_us_per_token=r.choice((0, 0, 1, 0.16, 2.5)),
        hidden_us=r.choice((0, 0, 20, 180.5)),
        step_points=points,
    )


def random_prefixes(r, prompts):
    """For each prompt the prefixes with which it begins: none, one, nested ones, or a chain of named blocks."""
    kind, block = r.random(), r.choice((4, 7, 16))
    chains = [[f"{chain}{k}" for k in range(20)] for chain in "xyz"]
    prefixes = []
    for prompt in prompts:
        if kind < 0.1:
            prefixes.append([])
        elif kind < 0.5:
            nested = [("a", min(prompt, 10)), (f"a{r.randint(0, 1)}", min(prompt, 30))]
            middle = [("b", min(prompt, 6)), ("a", r.randint(min(prompt, 6), prompt))]  # "a" from its second part on
            prefixes.append(r.choice(([], [(r.choice("ab"), r.randint(0, prompt))], nested, middle)))
        else:  # as Mooncake's: names of blocks, each stands for all before it
            chain, own = r.choice(chains), r.randint(0, 9)
            names = [*chain[:own], *(f"own{len(prefixes)} {k}" for k in range(r.randint(0, 3)))]
            tokens = [min(prompt, (k + 1) * block) for k in range(len(names))]
            prefixes.append([(name, end) for name, end, before in zip(names, tokens, [0, *tokens]) if end > before])
    return prefixes


def random_case(seed):
    """(requests, max_num_seqs, arrivals, Costs, the other arguments) of one play."""
    r = random.Random(seed)
    n, block_size = r.randint(1, 25), r.choice((1, 2, 3, 4, 16))
    longest = r.choice((1, 3, 40))
    requests = Requests([r.randint(1, r.choice((5, 60))) for _ in range(n)], [r.randint(1, longest) for _ in range(n)])
    costs = random_costs(r)
    largest = max(-(-(p + o - 1) // block_size) for p, o in zip(*requests))
    kv_blocks = r.choice((UNLIMITED, largest, largest + r.randint(0, 10), 2 * largest, 3 * largest))
    chunked = r.random() < 0.8
    budget = r.choice((UNLIMITED, r.randint(1, 20), r.randint(1, 80)))
    if not chunked:
        budget = max(budget, max(p + o for p, o in zip(*requests)))
    step_us = max(1, costs.decode_us(1))
    arrivals = r.choice((None, [r.randint(0, 40 * step_us) for _ in range(n)],
                         [step_us * r.randint(0, 30) for _ in range(n)], [r.choice((0, 1, 2)) for _ in range(n)]))
    more = {
        "kv_blocks": kv_blocks,
        "block_size": block_size,
        "max_num_batched_tokens": budget,
        "chunked_prefill": chunked,
        "reserve_full_prompt": r.random() < 0.5,
        "prefixes": random_prefixes(r, requests.prompt_tokens) if r.random() < 0.5 else None,
        "asynchronous": r.random() < 0.5,
        "overhead_us": r.choice((0, 0, 1, step_us, 3.7 * step_us, r.randint(0, 3 * step_us))),
    }
    if r.random() < (0.7 if arrivals is None else 0.3):  # with arrivals: a cap
        more["clients"] = r.choice((1, 2, 3, n, n + 2))
    return requests, r.choice((1, 2, 5, n, 30)), arrivals, costs, more
