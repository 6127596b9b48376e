"""Does our paged scheduler decide what vLLM decided, step by step?

It replays recorded cases: the same requests, the same limits, and what vLLM's own scheduler gave to
whom in every step. paging/scheduler.py decides, and says what a step is. It ignores time.

    python3 lb2/paged.py --replay fixtures/vllm/cases.json        writes nothing; a line a case
"""

import argparse
import sys
from pathlib import Path

from common import LAB, run
from paging.replay import replay

CASES_FILE = LAB.parent / "fixtures" / "vllm" / "cases.json"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replay", type=Path, default=CASES_FILE, metavar="FILE",
                        help="recorded cases, logs/NAME.log.gz beside them (default: fixtures/vllm/cases.json)")
    sys.exit(1 if replay(parser.parse_args().replay) else 0)


if __name__ == "__main__":
    run(main)
