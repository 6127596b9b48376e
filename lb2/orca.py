"""What did Orca gain by deciding before every iteration? All of the second lab in one command.

It runs the four demos, and compares their results with the numbers that the lecture prints. Each
demo is also a script of its own, with a question of its own. A system that one demo has played is
not played again for another. (Demo 1 is the exception: its three runs take a few milliseconds.)
Demo 4 takes half of the time, so it runs in a second process beside the others.

    python3 lb2/orca.py        writes the five files of the demos; exit status 1 if a number differs
"""

import signal
from multiprocessing import Pipe, Process

import orca_curves
import orca_homogeneous
import orca_lecture
import orca_reservation
import orca_waste
from command_line import run, say
from common import save
from inputs import BadInput
from orca_model import ASSUMPTIONS
from orca_workload import arguments, chosen_workload


def send_results(pipe, workload):
    """What the second process does: it plays demo 4 and sends the results."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a word
    pipe.send(orca_reservation.results(workload))


def main():
    args = arguments(__doc__).parse_args()
    workload = chosen_workload(args)
    output_tokens = workload.requests.output_tokens
    orca_reservation.refuse_longer_than_declared(args.requests, output_tokens)

    receiving, sending = Pipe(duplex=False)
    Process(target=send_results, args=(sending, workload), daemon=True).start()
    sending.close()  # the second process has its own
    wastes = orca_waste.results(workload)
    curves = orca_curves.results(workload)
    equal = orca_homogeneous.results(workload)
    try:
        runs = receiving.recv()
    except EOFError:
        raise BadInput("the second process ended without results; is there enough memory?") from None

    texts = orca_waste.files(wastes) | orca_curves.files(curves)
    texts |= orca_homogeneous.files(equal) | orca_reservation.files(runs)
    save(args.out, texts)

    say(ASSUMPTIONS)
    orca_waste.show(wastes)
    orca_curves.show(curves)
    orca_homogeneous.show(equal)
    orca_reservation.show(runs, output_tokens)
    orca_lecture.show(wastes, curves.points, equal.peaks, runs, workload)


if __name__ == "__main__":
    run(main)
