"""How far is the engine from runs that were measured? And which servers are recorded in fixtures/?

    result_of(RECORDED[0]) -> Result(rows=[Comparison("async", "async_c01", "predicted", "p50_ttft_ms", 27.6, ...)])
"""

from pathlib import Path
from typing import NamedTuple

from files.costs import BUDGET, MAX_NUM_SEQS, Server, costs_line
from calibration.loads import is_summary, load_summaries, predicted_figures
from calibration.ways import found_in

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"
MEASURES = ["p50_ttft_ms", "p99_ttft_ms", "p50_itl_ms", "p99_itl_ms", "p99_tpot_ms", "throughput_tps"]


class Recorded(NamedTuple):
    """A server whose runs are in fixtures/, and by how much its identical runs differ (its README)."""

    name: str
    calibrate: list
    predict: list
    max_num_seqs: int = None
    noise: str = ""
    noise_percent: float = 0


def recorded(folder, calibrate, *predict):
    """The paths of runs in a folder."""
    return [FIXTURES / folder / f"{calibrate}.json.gz"], [FIXTURES / folder / f"{name}.json.gz" for name in predict]


CLOCKED = "identical runs differ by up to 1.7 % in TTFT, 1 % in ITL and 0.1 % in duration"
RECORDED = [
    Recorded("async", *recorded("clocked", "async_open5", "async_c01", "async_c04"), 32, CLOCKED, 1.7),
    Recorded("roofline", *recorded("clocked", "roofline_open4", "roofline_c16"), 128, CLOCKED, 1.7),
    Recorded("sync", *recorded("clocked", "sync_c16"), 32, CLOCKED, 1.7),
    Recorded("cpu", *recorded("measured", "open_060", "closed_01", "closed_04", "closed_16"), 32,
             "identical runs differ by 5 to 40 %", 40),
]


class Comparison(NamedTuple):
    """One measure of one run; error in per cent of the measurement."""

    server: str
    run: str
    role: str  # "predicted", or "calibrated" for the run that the costs come from
    measure: str
    measured: float
    predicted: float
    error_percent: float


class Result(NamedTuple):
    """What came of one server."""

    server: Recorded
    rows: list  # Comparisons
    loads: list
    settings: str  # how its predictions were made


def result_of(recorded, told=Server(), experts=None):
    """The Result of a server. told: what is known of it, its costs where no run calibrates. experts: E/k of a mixture.

    Raises BadInput.
    """
    server = told._replace(max_num_seqs=told.max_num_seqs or recorded.max_num_seqs)
    if recorded.calibrate:
        server = found_in(recorded.calibrate, server, experts=experts).server
    return played(recorded, server)


def played(recorded, server):
    """The Result of a server whose costs are known."""
    loads, others = ([load for path in paths for load in load_summaries(path)] for paths in recorded[1:3])
    others = [load for load in others if load not in loads]
    figures = None if any(map(is_summary, [*recorded.calibrate, *recorded.predict])) else MEASURES
    rows = [row for role, some in (("calibrated", loads), ("predicted", others)) for load in some
            for row in compared(recorded.name, load, role, predicted_figures(load, server), figures)]
    return Result(recorded, rows, [*loads, *others], settings(recorded.name, loads, server))


def compared(name, load, role, ours, measures=None):
    """The Comparisons of a load with what the engine predicts for it. measures: which; None: all that it has."""
    return [Comparison(name, load.name, role, measure, load.figures[measure], ours[measure],
                       100 * (ours[measure] / load.figures[measure] - 1))
            for measure in measures or load.figures if measure in load.figures and measure in ours]


def settings(name, calibrate, server):
    """How the predictions of a server were made, in words."""
    names = " and ".join(load.name for load in calibrate) or "a costs file"
    memory = f", a KV cache of {server.kv_tokens} tokens" if server.kv_tokens else ""
    return f"{name}: costs from {names}, max_num_seqs {server.max_num_seqs or MAX_NUM_SEQS}, " \
           f"budget {server.max_num_batched_tokens or BUDGET}{memory}: " \
           f"{costs_line(Server(server.costs, server.asynchronous is not False)).strip()}"
