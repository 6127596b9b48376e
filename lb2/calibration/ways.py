"""In which of two ways do these results tell the costs of their server?

    found_in([Path("closed_16.json"), Path("open_5.json")]) -> Found(server=Server(costs=Costs(...), ...), ...)

Detailed results tell them by the gaps between tokens (gaps.py). Where one of the results is a
summary, they are those with which the engine comes nearest to the figures of all (search.py).
"""

from math import log
from typing import NamedTuple

from files.benchmarks import load_benches
from files.costs import BUDGET, MAX_NUM_SEQS, Server
from calibration.doubts import Doubt, doubts
from calibration.gaps import calibrated
from calibration.loads import is_summary, load_summaries, with_lengths
from calibration.search import fitted
from calibration.words import most_sequences, said, said_of_summaries

AS_PLAYED = 0.1  # of the log of a throughput: a load that is played so differently is another one


class Found(NamedTuple):
    """The Server that results tell, and the sentences that explain it."""

    server: Server
    sentences: list


def found_in(paths, told=Server(), points=(), lengths=None, experts=None, columns=None):
    """The Found of some results. Raises BadInput.

    told: what the user says of the server. points: Loads beside the results. lengths: Requests, for summaries whose
    lengths are not known. experts: E/k of a mixture of E experts, k of which serve a token. columns: of logs.
    """
    if points or any(map(is_summary, paths)):
        loads = [*(load for path in paths for load in load_summaries(path, columns)), *points]
        return found_by_figures([with_lengths(load, lengths) for load in loads] if lengths else loads, told, experts)
    return found_by_gaps([bench for path in paths for bench in load_benches(path, columns)], told)


def found_by_figures(loads, told, experts):
    """The Found of the engine that comes nearest to the figures of some loads."""
    found = fitted(loads, told, experts)
    signs = [*(doubt for load in loads for doubt in load.doubts), *fit_doubts(loads, found)]
    return founded(found.way.server, told, loads, found.points[-1], signs, said_of_summaries(loads, found, told))


def found_by_gaps(benches, told):
    """The Found of detailed results."""
    found = calibrated(benches, told.max_num_batched_tokens)
    asynchronous = found.asynchronous is not False if told.asynchronous is None else told.asynchronous
    server = told._replace(costs=found.costs, asynchronous=asynchronous, max_num_batched_tokens=found.budget)
    return founded(server, told, benches, round(most_sequences(found)), doubts(benches, found),
                   said(benches, found, told))


def founded(server, told, runs, sequences, signs, sentences):
    """The Found. It knows how far the runs reached, and which limits are vLLM's defaults; first it says the doubts."""
    budget = server.max_num_batched_tokens if server.max_num_batched_tokens != BUDGET else told.max_num_batched_tokens
    limits = [("max_num_batched_tokens", budget, BUDGET), ("max_num_seqs", told.max_num_seqs, MAX_NUM_SEQS)]
    server = server._replace(
        max_num_seqs=told.max_num_seqs, max_num_batched_tokens=budget, measured_sequences=sequences,
        measured_prompt_tokens=max(tokens for run in runs for tokens in run.prompt_tokens),
        assumed=",".join(f"{name}:{default}" for name, known, default in limits if not known) or None)
    if not signs:
        return Found(server, list(sentences))
    names = list(dict.fromkeys(sign.name for sign in signs))
    first = f"DISAGREEMENT: do not trust these costs ({', '.join(names)}). costs.txt and plans say so, too."
    return Found(server._replace(trusted="no", why=",".join(names)),
                 [first, *dict.fromkeys(sign.sentence for sign in signs), *sentences])


def fit_doubts(loads, found):
    """Doubts about a fit that does not come near, and about loads that were not what their file says."""
    for load, figures in zip(loads, found.figures):
        played, measured = figures["throughput_tps"], load.figures.get("throughput_tps")
        if measured and abs(log(played / measured)) > AS_PLAYED:
            yield Doubt("load", f"{load.name}: {measured:.0f} tokens/s were measured, and {played:.0f} are played. The "
                        "load was probably not what its file says.")
    if found.error >= 1:
        yield Doubt("fit", f"The fit is off by {found.error:.2f}; 1 is as far as a prediction may be. A limit of the "
                    "server may be missing (--max-num-seqs, --max-num-batched-tokens, --kv-tokens), or the loads are "
                    "not of one server.")
