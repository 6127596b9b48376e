"""What happens at one load: so many requests per second at each server, or so many clients?

    setup = Setup(Server(), 64)                        one server in open loop
    stream_for(problem, setup, 3)                      -> the Traffic of replay 3, as long as this setup needs
    run_at(setup, traffic, 4.1, problem.nominal_rps)   -> Run at 4.1 requests/s

Each server gets at least 800 requests, and six times as many as it can run at once; a shorter trace is
repeated, or more blocks of it are drawn. (A stream that ends before its first requests do never fills
its servers: at 1,000 requests/s 1,500 rows asked for 59 of them where 74 are needed.)

In closed loop all clients send their first request at once. That rush happens once, so each client's
first request is not measured, except by ITL, whose gaps are counted together.
"""

from typing import NamedTuple

from files.costs import Server
from planning.arrivals import scaled
from planning.engine import Targets, Traffic, measured, simulate, together
from planning.replays import stream

LONG = 800  # requests at a server, at least
WAVES = 6  # requests at a server, as many times as it can run at once, or as there are clients
MEASURED_SERVERS = 8  # of many servers so many are simulated: the others are like them


class Problem(NamedTuple):
    """What stays the same while setups and loads are tried."""

    targets: Targets
    traffic: Traffic  # the trace
    block: int  # rows in a block of its replays
    nominal_rps: float  # the trace's rate; 1 where it has none

    @property
    def requests(self):
        return len(self.traffic.requests.prompt_tokens)


class Setup(NamedTuple):
    """A server, or several, and how requests come to it."""

    server: Server
    max_num_seqs: int
    gateway: int = None  # open loop: at most so many requests under way at a server; others wait before it
    servers: int = 1  # requests are dealt to them in turn
    closed_to: int = None  # closed loop, the most clients tried; None: open loop


def rows_for(problem, setup):
    """Requests in a stream: at least those of the trace, and so many that a server's beginning and end weigh little."""
    at_a_server = max(LONG, WAVES * max(setup.max_num_seqs, setup.closed_to or 0))
    return max(problem.requests, setup.servers * at_a_server)


def stream_for(problem, setup, seed):
    """The Traffic of a setup, from the trace (seed None) or a replay."""
    return stream(problem.traffic, problem.block, rows_for(problem, setup), seed)


def run_at(setup, traffic, load, nominal_rps):
    """The Run at a load: clients in closed loop, else requests per second at each server."""
    if setup.closed_to:
        run = simulate(setup.server, traffic._replace(arrivals_us=None), setup.max_num_seqs, load)
        return run.part(slice(load, None))
    traffic = traffic._replace(arrivals_us=scaled(traffic.arrivals_us, setup.servers * load / nominal_rps))
    parts = [traffic.part(slice(first, None, setup.servers)) for first in range(min(setup.servers, MEASURED_SERVERS))]
    return together([simulate(setup.server, part, setup.max_num_seqs, setup.gateway) for part in parts])


def measures_at(problem, setup, traffic, load):
    """The Measures at a load; None of no load."""
    return load and measured(problem.targets, run_at(setup, traffic, load, problem.nominal_rps))
