"""How fast the first lab is, as ratios within one run: `make bench`. Nothing here passes or fails.

1. continuous.py --max-num-seqs 32 on 500,000 random requests, against reading the same file with json.load and pushing
   each request once through a heap of 32: what any program in plain Python that looks at every request must pay.
2. `make all`, against seven processes that do nothing but import what common imports.

Whole processes, in pairs, A B A B; the ratio's median is the figure.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from math import exp
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent
REQUESTS = 500_000
FLOOR = """
import json, sys
from heapq import heappush, heapreplace
running = []
for record in json.load(open(sys.argv[1])):
    if len(running) < 32:
        heappush(running, record["output_tokens"])
    else:
        heapreplace(running, running[0] + record["output_tokens"])
"""


def write_requests(path, n, seed=0):
    """Prompts uniform 16..600; outputs log-normal, median 129, sigma 1, clipped to 10..1000. Row by row: a large parent
    would hide the peak memory of its children."""
    r = Random(seed)
    with open(path, "w", encoding="ascii") as file:
        for i in range(n):
            output = min(1000, max(10, round(129 * exp(r.gauss(0, 1)))))
            start = "," if i else "["
            file.write(f'{start}{{"prompt_tokens": {r.randint(16, 600)}, "output_tokens": {output}}}\n')
        file.write("]\n")


def seconds(command):
    """(wall seconds, CPU seconds) of a command, its children included."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def pairs(what, a, b, runs):
    seconds(a), seconds(b)
    timed = [(seconds(a), seconds(b)) for _ in range(runs)]
    wall = statistics.median(x[0] / y[0] for x, y in timed)
    cpu = statistics.median(x[1] / y[1] for x, y in timed)
    fastest = min(x[0] for x, _ in timed), min(y[0] for _, y in timed)
    print(f"{what}: wall {wall:.2f}, CPU {cpu:.2f} times (fastest {fastest[0]:.3f} s against {fastest[1]:.3f} s)")


def peak_mib(command):
    """The largest resident size of a command, in MiB."""
    pid = os.posix_spawn(
        command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    )
    return os.wait4(pid, 0)[2].ru_maxrss / 1024


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requests.json"
        write_requests(path, REQUESTS)
        step = [sys.executable, str(ROOT / "lb2" / "continuous.py"), "--max-num-seqs", "32", "--out", folder]
        large = [*step, "--requests", str(path)]
        pairs(f"continuous.py, {REQUESTS:,} requests", large, [sys.executable, "-c", FLOOR, str(path)], runs=7)
        per_request = (peak_mib(large) - peak_mib(step)) * 2**20 / REQUESTS
        floor = (peak_mib([sys.executable, "-c", FLOOR, str(path)]) - peak_mib(step)) * 2**20 / REQUESTS
        print(f"memory: {per_request:.0f} bytes a request; json.load alone {floor:.0f}")
        make = ["make", "-s", "-C", str(ROOT), f"PYTHON={sys.executable}", f"OUT={folder}/out"]
        startup = ["sh", "-c", "for i in 1 2 3 4 5 6 7; do \"$0\" -c 'import json, os, statistics, sys, textwrap, argparse, functools, pathlib, typing'; done", sys.executable]
        pairs("make all against seven starts of Python", make, startup, runs=15)


if __name__ == "__main__":
    main()
