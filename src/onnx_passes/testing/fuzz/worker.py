"""Forked process that judges cases: crashes and hangs only end this process."""

from __future__ import annotations

import contextlib
import gc
import json
import traceback
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Self

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.effort import Effort
from onnx_passes.testing.fuzz.judge import CaseJudge, CaseVerdict
from onnx_passes.testing.fuzz.report import Kind
from onnx_passes.testing.fuzz.targets import FuzzTarget
from onnx_passes.verify.run.child import Started, fork, how_ended, limit_processor
from onnx_passes.verify.run.execute import Executor

_ENTERING = b"rule"
_FAILED = b"failed"
_MATCH, _JUDGE = b"m", b"j"
_PATIENCE = 3
"""Factor for the time limit of the second attempt of a slow case."""


Answer = Callable[[bytes], CaseVerdict]
"""Function that answers a question."""


class JudgingProcess:
    """Process that answers questions one by one, and is replaced when it is lost.

    ``prepare`` is called in the process, with a function to call before code under test, and returns the function that
    answers, so that everything is loaded once.
    """

    def __init__(self, prepare: Callable[[Callable[[], None]], Answer], seconds: float = Effort.seconds) -> None:
        self._prepare = prepare
        self._seconds = seconds
        self._started: Started | None = None
        self._finalizer: Callable[[], Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def ask(self, question: bytes) -> CaseVerdict:
        """Return the answer, even if the process ends; a timeout must occur twice to be a finding.

        The second attempt has more time: on a busy machine the first timeout means little.
        """
        longest = _PATIENCE * self._seconds
        verdict = self._ask(question, self._seconds) or self._ask(question, longest)
        return verdict or CaseVerdict("finding", Kind.HANG, f"no answer in {longest:g} s")

    def _ask(self, question: bytes, seconds: float) -> CaseVerdict | None:
        connection = self._connection()
        entered = False
        try:
            connection.send_bytes(question)
            while connection.poll(seconds):
                answer = connection.recv_bytes()
                if answer.startswith(_FAILED):
                    raise OnnxPassesError(f"the fuzzer itself failed: {answer.removeprefix(_FAILED).decode()}")
                if answer != _ENTERING:
                    return CaseVerdict(**json.loads(answer))
                entered = True
        except (EOFError, ConnectionError):
            how = self._reap()
            return (
                CaseVerdict("finding", Kind.CRASH, f"the process ended with {how}")
                if entered
                else CaseVerdict("skipped")
            )
        self.stop()
        return None if entered else CaseVerdict("skipped")

    def stop(self) -> None:
        """Stop the process, if there is one."""
        if self._finalizer is not None:
            self._reap()

    def _reap(self) -> str:
        assert self._finalizer is not None
        status, self._started, self._finalizer = self._finalizer(), None, None
        return how_ended(status)

    def _connection(self) -> Connection:
        if self._started is None:
            self._started = fork(partial(_serve, self._prepare, self._seconds))
            self._finalizer = weakref.finalize(self, self._started.end)
        return self._started.way


class Worker(JudgingProcess):
    """Judges cases for rules; one process serves all targets."""

    def __init__(self, targets: Sequence[FuzzTarget], seconds: float = Effort.seconds) -> None:
        super().__init__(partial(_judging, targets), seconds)
        self._numbers = {id(target): number for number, target in enumerate(targets)}

    def judge(self, target: FuzzTarget, case: Case, *, match_only: bool = False) -> CaseVerdict:
        """Judge a case; with ``match_only`` only check whether the rule applies to a model that runs."""
        return self.ask((_MATCH if match_only else _JUDGE) + self._numbers[id(target)].to_bytes(4) + case.encode())


def _judging(targets: Sequence[FuzzTarget], entering: Callable[[], None]) -> Answer:
    executor = Executor(protected=True)

    def answer(question: bytes) -> CaseVerdict:
        target = targets[int.from_bytes(question[1:5])]
        return CaseJudge(target, executor, entering)(Case.decode(question[5:]), match_only=question[:1] == _MATCH)

    return answer


def _serve(prepare: Callable[[Callable[[], None]], Answer], seconds: float, connection: Connection) -> None:
    # The objects of the parent stay alive: exclude them from garbage collection.
    gc.freeze()
    answer = prepare(lambda: connection.send_bytes(_ENTERING))
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            question = connection.recv_bytes()
            limit_processor(_PATIENCE * seconds)
            try:
                connection.send_bytes(json.dumps(asdict(answer(question))).encode())
            except Exception:  # noqa: BLE001 - raised again on the other side
                connection.send_bytes(_FAILED + traceback.format_exc().encode())
