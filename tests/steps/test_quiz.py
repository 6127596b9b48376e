"""The time line that quiz.py shows is the schedule itself."""

import continuous
import pytest
import quiz
import static
from common import Requests
from fixture import script

# (100, 1), (200, 3), (100, 2), (20, 1) prompt and output tokens, refilled at once: A and B are prefilled in 5 + 10 ms
# and decode for 8; then C (5 + 8); then all decode once more (8), and B and C end; then D (1 + 8).
BY_HAND = [(0, "AB", "AB", 23), (23, "C", "BC", 36), (36, "", "BC", 44), (44, "D", "D", 53)]


def test_four_requests_by_hand():
    requests = Requests([100, 200, 100, 20], [1, 3, 2, 1])
    found = quiz.iterations(requests, continuous.schedule(requests, quiz.SLOTS))
    assert [(start / 1000, new, running, end / 1000) for start, new, running, end in found] == BY_HAND


@pytest.mark.parametrize("schedule", [static.schedule, continuous.schedule], ids=["static", "continuous"])
def test_the_time_line_agrees_with_the_scheduler(schedule):
    for seed in range(50):
        requests = quiz.problem(seed)
        result = schedule(requests, quiz.SLOTS)
        lines = quiz.iterations(requests, result)
        assert len(lines) == result.iterations and lines[-1][3] == max(result.finished_us)
        decoded = "".join(line[2] for line in lines)
        assert [decoded.count(letter) for letter in quiz.LETTERS] == requests.output_tokens
        for position, letter in enumerate(quiz.LETTERS):
            assert [end for _, _, running, end in lines if letter in running][-1] == result.finished_us[position]


def test_the_answer_is_shown_when_it_is_asked_for():
    asked, answered = script("quiz", "--seed", "7"), script("quiz", "--seed", "7", "--answer")
    assert asked.returncode == answered.returncode == 0
    assert "slot_util =" not in asked.stdout and asked.stdout.endswith("python3 lb2/quiz.py --seed 7 --answer\n")
    assert "slot_util = 10 / (2 x 8) = 0.6250\n  mean TTFT = 41.00 ms\n" in answered.stdout
