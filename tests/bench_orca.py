"""How much faster are the second lab's schedulers, which jump, than its oracle, which visits every iteration?

The four demos run, and the arguments of every simulation are kept. Then the oracle plays each of them again, row by row
and iteration by iteration. CPU time within one process is compared: `make bench`. The two must agree to 9 digits;
nothing else here passes or fails.
"""

import sys
from time import process_time

import orca_curves
import orca_homogeneous
from roofline import iteration_level as orca_iteration
import orca_oracle
from roofline import request_level as orca_request
import orca_reservation
from roofline import stall as orca_stall
import orca_waste
from roofline.workload import RECORDED, load_workload

DEMOS = (orca_waste, orca_curves, orca_homogeneous, orca_reservation)


def play_stalling(requests, slots, arrivals_us):
    return orca_oracle.play_iterations(requests, slots, arrivals_us, None)


ORACLES = {
    orca_request: orca_oracle.play_requests,
    orca_iteration: orca_oracle.play_iterations,
    orca_stall: play_stalling,
}


def keeping(schedule, calls):
    """The scheduler; the arguments of every call go into calls."""

    def kept(*arguments):
        calls.append(arguments)
        return schedule(*arguments)

    return kept


def demo_calls():
    """{module: (its scheduler, the arguments of every call of it that the demos make)}."""
    found = {module: (module.schedule, []) for module in ORACLES}
    for module, (schedule, calls) in found.items():
        module.schedule = keeping(schedule, calls)
    workload = load_workload(RECORDED)
    for demo in DEMOS:
        demo.results(workload)
    return found


def cpu_s(function, calls):
    """CPU seconds of all the calls, and their results."""
    start = process_time()
    results = [function(*arguments) for arguments in calls]
    return process_time() - start, results


def main():
    total, ours_s, oracles_s = 0, 0, 0
    for module, (schedule, calls) in demo_calls().items():
        fast_s, results = cpu_s(schedule, calls)
        slow_s, played = cpu_s(ORACLES[module], calls)
        for arguments, ours, oracles in zip(calls, results, played):
            difference = orca_oracle.difference(ours, oracles)
            if difference:
                sys.exit(f"{module.__name__}, {arguments[1]} slots: {difference}")
        print(f"{module.__name__}: {len(calls)} simulations, the oracle takes {slow_s / fast_s:.1f} times the CPU")
        total, ours_s, oracles_s = total + len(calls), ours_s + fast_s, oracles_s + slow_s
    ratio = f"{oracles_s / ours_s:.1f} times ({oracles_s:.2f} s against {ours_s:.2f} s)"
    print(f"the four demos: {total} simulations, {ratio}")


if __name__ == "__main__":
    main()
