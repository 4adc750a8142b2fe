from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pytest

from onnx_passes.workers.completed import Lost, completed
from onnx_passes.workers.processes import Processes
from tests.workers import jobs


@pytest.fixture(scope="module")
def two() -> Iterator[Processes]:
    with Processes(2) as workers:
        yield workers


def test_everything_is_done_and_by_more_than_one(two: Processes):
    found = dict(completed(two, jobs.square, range(20)))
    assert found == {number: number * number for number in range(20)}
    others = {process for _, process in completed(two, jobs.own_process, range(6))}
    assert len(others) == 2
    assert os.getpid() not in others


def test_no_more_is_taken_than_is_needed(two: Processes):
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    results = completed(two, jobs.square, items(), ahead=4)
    assert [next(results)[1] in (0, 1, 4, 9, 16, 25) for _ in range(3)] == [True] * 3
    assert len(taken) == 7
    results.close()


def test_without_workers_work_is_done_here():
    assert list(completed(None, jobs.own_process, [1])) == [(1, os.getpid())]


def test_what_work_raises_is_raised_and_the_rest_is_cancelled(two: Processes):
    with pytest.raises(ValueError, match="three"):
        list(completed(two, jobs.fail_on_three, range(500)))
    assert dict(completed(two, jobs.square, [7])) == {7: 49}


def test_a_lost_worker_costs_only_what_it_worked_on(two: Processes, tmp_path: Path):
    marks = [str(tmp_path / name) for name in "abc"]
    assert dict(completed(two, jobs.die_once, marks)) == {mark: f"{Path(mark).name} is done" for mark in marks}


def test_work_that_no_worker_survives_is_told_and_the_others_are_done(two: Processes):
    found = dict(completed(two, jobs.die_or_square, range(8)))
    lost = found.pop(2)
    assert isinstance(lost, Lost)
    assert lost.attempts == 3
    assert "was lost, 3 times" in str(lost)
    assert found == {number: number * number for number in range(8) if number != 2}


def test_one_future_tells_of_its_worker(two: Processes):
    with pytest.raises(BrokenExecutor):
        two.submit(jobs.die, 0).result(timeout=60)
    assert two.submit(jobs.square, 4).result(timeout=60) == 16


_DRIVER = """
import signal
import sys
from onnx_passes.workers.completed import completed
from onnx_passes.workers.processes import Processes
from tests.workers import jobs

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with Processes(1) as workers:
        list(completed(workers, jobs.sleep_long, sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_whoever_gave_them_work(tmp_path: Path, how: signal.Signals):
    mark, script = tmp_path / "mark", tmp_path / "driver.py"
    script.write_text(_DRIVER)
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), str(root / "src")])
    driver = subprocess.Popen(
        [sys.executable, str(script), str(mark)],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    try:
        worker = int(_soon(lambda: mark.read_text() if mark.exists() else ""))
        # A terminal interrupts all processes at once.
        (os.killpg if how is signal.SIGINT else os.kill)(driver.pid, how)
        _, told = driver.communicate(timeout=30)
        assert told.count("Traceback") == (how is signal.SIGINT), told
        assert _soon(lambda: "gone" if not _runs(worker) else "")
    finally:
        driver.kill()


def _soon(look) -> str:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen within a minute")


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split(")")[-1].split()[0] != "Z"
    except FileNotFoundError:
        return False
