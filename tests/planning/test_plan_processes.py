"""plan's processes: the same results for any number of them, and whoever is ended, none is left."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import plan
import pytest
from common import BadInput
from fixture import LAB, files, heed_ctrl_c
from running import processes as ours
from running.processes import in_processes


def script(*arguments, **more):
    command = [sys.executable, str(LAB / "plan.py"), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True, **more)


def double(number):
    return 2 * number


def long(number):
    return [number] * 100_000


def refuse():
    raise BadInput("no")


def end_early():
    os._exit(1)


def test_jobs_end_in_any_order_and_what_one_refuses_is_raised():
    jobs = [(double, number) for number in range(7)]
    for processes in (1, 3, 20):
        assert dict(in_processes(jobs, processes)) == {number: 2 * number for number in range(7)}
        with pytest.raises(BadInput, match="^no$"):
            list(in_processes([*jobs, (refuse,), *jobs], processes))


def test_at_most_so_many_processes_and_none_for_one(monkeypatch):
    begun, start = [], ours.start
    monkeypatch.setattr(ours, "start", lambda *job: (start(*job), begun.append(len(job[0]))))
    for jobs, processes in (([(os.getpid,)] * 3, 1), ([(os.getpid,)], 4)):
        assert dict(in_processes(jobs, processes)) == dict.fromkeys(range(len(jobs)), os.getpid())
    assert begun == []
    found = dict(in_processes([(os.getpid,)] * 4, 2))
    assert len({*found.values(), os.getpid()}) == 5 and max(begun) == 2 and len(begun) == 4


def test_when_one_refuses_the_others_have_ended_though_they_write():
    """A result of 100,000 numbers does not fit into a pipe: its process waits in the middle of it. Another one sleeps."""
    begun = time.monotonic()
    with pytest.raises(BadInput, match="^no$"):
        for _ in in_processes([(time.sleep, 60), (double, 1), (long, 2), (long, 3), (refuse,)], 5):
            time.sleep(0.05)
    assert multiprocessing.active_children() == [] and time.monotonic() - begun < 20


def test_a_process_that_ended_early_is_one_line():
    with pytest.raises(BadInput, match="^a process of the plan ended early, killed by somebody or for want of memory; "
                                       "--processes 1 needs the least$"):
        list(in_processes([(end_early,), (os.getpid,)], 2))


def need_too_much():
    raise MemoryError


def no_thread(**_):
    raise RuntimeError("can't start new thread")


def test_want_of_memory_in_a_process_is_one_line(monkeypatch, capfd):
    with pytest.raises(MemoryError):
        list(in_processes([(need_too_much,), (double, 1)], 2))
    monkeypatch.setattr(ours.threading, "Thread", no_thread)
    with pytest.raises(BadInput, match="ended early"):
        list(in_processes([(double, 1), (double, 2)], 2))
    assert capfd.readouterr() == ("", "")


def test_cores_where_they_can_and_cannot_be_told(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5} - {pid}, raising=False)
    assert ours.cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert ours.cores() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert ours.cores() == 1


@pytest.mark.parametrize("sent, to, status", [
    (signal.SIGKILL, "plan", -9), (signal.SIGTERM, "plan", -15), (signal.SIGINT, "plan", 130),
    (signal.SIGINT, "all", 130), (signal.SIGKILL, "worker", 2),
])
def test_nothing_is_left_behind(tmp_path, sent, to, status):
    """Long answers, each step of which has its own time, so the first processes work for seconds. Whoever is ended, no
    process is left, and no more than one line is said."""
    trace, costs = tmp_path / "trace.json", tmp_path / "costs.txt"
    trace.write_text(json.dumps([{"prompt_tokens": 300, "output_tokens": 30_000, "arrival_ms": 100 * i}
                                 for i in range(2_000)]))
    costs.write_text("prefill_ms_per_token=0.05 step_ms=8 step_ms_per_sequence=0 overhead_ms=0 "
                     "context_ms_per_token=1e-5")
    run = script("--requests", trace, "--costs", costs, "--processes", 3, "--out", tmp_path / "out",
                 "--target-ttft-ms", 10_000, "--target-tpot-ms", "none", preexec_fn=heed_ctrl_c)
    workers = []
    deadline = time.monotonic() + 30
    while len(workers) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
        workers = children(run.pid)
    if to == "all":
        os.killpg(run.pid, sent)
    else:
        os.kill(run.pid if to == "plan" else workers[0], sent)
    out, errors = run.communicate(timeout=5)  # returns when the last process that has the pipes has ended
    assert run.returncode == status and out == ""
    assert errors.count("\n") == (1 if to == "worker" else 0) and ("ended early" in errors) == (to == "worker")
    deadline = time.monotonic() + 5
    while any(map(lives, workers)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(workers) >= 2 and not any(map(lives, workers)) and files(tmp_path / "out") == {}


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        pytest.skip("needs /proc")


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_the_number_of_processes_changes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("planning.loads.LONG", 100)
    said = []
    for processes in ("1", "3"):
        monkeypatch.setattr(sys, "argv", ["plan.py", "--first", "20", "--max-num-seqs", "4", "16", "--up-to", "3",
                                          "--processes", processes, "--out", str(tmp_path / processes)])
        plan.main()
        said.append(capsys.readouterr())
    assert files(tmp_path / "1") == files(tmp_path / "3") and said[0] == said[1] and said[0].out


def test_results_come_before_words(tmp_path):
    """A reader that closes at once, as in `plan.py | true`, finds the files all the same. (8 ms are infeasible, so
    nothing is searched.)"""
    with script("--first", 10, "--target-ttft-ms", 8, "--out", tmp_path / "out") as done:
        done.stdout.close()
        assert done.stderr.read() == "" and done.wait() == 0
    assert set(files(tmp_path / "out")) == {"plan.txt", "plan.csv", "plan.svg"}
