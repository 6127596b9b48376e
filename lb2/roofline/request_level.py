"""What does an engine lose that schedules whole batches, and reserves room for the longest answer?

Request-level scheduling, as FasterTransformer does it (Orca, OSDI 2022, section 3). A batch forms
when nothing is running. It takes up to `slots` requests that have arrived; it never waits to fill
up. All of them return when the longest has ended. Prompts are padded to the longest prompt of the
batch, and every row is decoded to the end, whether its own request has ended or not.

Prefill computes a whole prompt in one iteration and yields the first output token. Decode computes
one further token a row in each iteration. A slot is the place of one request in the batch.

Two requests of (prompt, output) tokens = (3, 1) and (5, 3), in 2 slots. An iteration lasts 10 ms,
and 1 ms more for each token that is in the cache at its end:

     0 ms  prefill 2 rows of 5    -> 20 ms   10 in the cache; the first has its token, and stays
    20 ms  decode 2 rows          -> 42 ms   12 in the cache
    42 ms  decode 2 rows          -> 66 ms   14 in the cache; both return
"""

from common import Schedule
from roofline import model as orca_model
from roofline.model import duration


def schedule(requests, slots, arrivals_us, roofline=orca_model.roofline):
    """Run all requests in batches and return their Schedule. A batch is one jump.

    requests: Requests, n of them; slots: int >= 1; arrivals_us: n times >= 0 that never fall;
    roofline: see orca_model.roofline. The requests of a batch have the same time of admission.
    """
    prompt_tokens, output_tokens = requests
    n = len(prompt_tokens)
    admitted_us, first_token_us, finished_us = [0] * n, [0] * n, [0] * n
    now_us = iterations = peak_running = head = 0
    while head < n:
        now_us = max(now_us, arrivals_us[head])
        first_new = head
        while head < n and head - first_new < slots and arrivals_us[head] <= now_us:
            head += 1
        rows = head - first_new
        prompt, output = max(prompt_tokens[first_new:head]), max(output_tokens[first_new:head])
        prefilled_us = now_us + duration(roofline(rows * prompt, rows * prompt**2, 0, 0), 1)
        end_us = prefilled_us + duration(roofline(0, 0, rows, rows * prompt), output - 1)
        admitted_us[first_new:head] = [now_us] * rows
        first_token_us[first_new:head] = [prefilled_us] * rows
        finished_us[first_new:head] = [end_us] * rows
        peak_running = max(peak_running, rows)
        iterations += output
        now_us = end_us
    return Schedule(admitted_us, first_token_us, finished_us, iterations, peak_running)
