"""What did Orca gain by deciding before every iteration: all of the second lab in one command?

It runs the four demos and then compares their results with the numbers that the lecture prints. No
demo plays a system again that another one has played, except demo 1: its three runs take 10 ms.
Each demo is also a script of its own, with a question of its own.

    python3 lb2/orca.py        writes the five files of the demos; exit status 1 if a number differs
"""

import orca_curves
import orca_homogeneous
import orca_lecture
import orca_reservation
import orca_waste
from command_line import run
from common import save
from orca_words import ASSUMPTIONS
from orca_workload import arguments, chosen_workload


def main():
    args = arguments(__doc__).parse_args()
    workload = chosen_workload(args)
    output_tokens = workload.requests.output_tokens
    orca_reservation.refuse_longer_than_declared(args.requests, output_tokens)
    wastes = orca_waste.results(workload)
    curves = orca_curves.results(workload)
    equal = orca_homogeneous.results(workload)
    runs = orca_reservation.results(workload)
    save(args.out, {
        **orca_waste.files(wastes),
        **orca_curves.files(curves),
        **orca_homogeneous.files(equal),
        **orca_reservation.files(runs),
    })
    print(ASSUMPTIONS)
    orca_waste.show(wastes)
    orca_curves.show(curves)
    orca_homogeneous.show(equal)
    orca_reservation.show(runs, output_tokens)
    orca_lecture.show(wastes, curves.points, equal.peaks, runs, workload)


if __name__ == "__main__":
    run(main)
