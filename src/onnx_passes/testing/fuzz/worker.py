"""A forked process that judges cases: when a kernel crashes or a rule hangs, only it is lost."""

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
from typing import Any

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.effort import Effort
from onnx_passes.testing.fuzz.judge import Judge, Verdict
from onnx_passes.testing.fuzz.report import Kind
from onnx_passes.testing.fuzz.targets import Target
from onnx_passes.verify.run.child import Started, fork, how_ended, limit_processor
from onnx_passes.verify.run.execute import Executor

_ENTERING = b"rule"
_FAILED = b"failed"
_MATCH, _JUDGE = b"m", b"j"
_PATIENCE = 3
"""A case that takes too long is tried again, with so many times the seconds."""


class Worker:
    """Judges cases one by one in a process of its own, which is replaced when it is lost.

    One process serves all targets: what it needs is loaded once.
    """

    def __init__(self, targets: Sequence[Target], seconds: float = Effort.seconds) -> None:
        self._targets = targets
        self._numbers = {id(target): number for number, target in enumerate(targets)}
        self._seconds = seconds
        self._started: Started | None = None
        self._finalizer: Callable[[], Any] | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def judge(self, target: Target, case: Case, *, match_only: bool = False) -> Verdict:
        """Judge a case, whatever happens to the process; only what takes too long twice is a finding.

        The second time it may take longer: on a busy machine the first says little.
        """
        message = (_MATCH if match_only else _JUDGE) + self._numbers[id(target)].to_bytes(4) + case.encode()
        longest = _PATIENCE * self._seconds
        verdict = self._judge(message, self._seconds) or self._judge(message, longest)
        return verdict or Verdict("finding", Kind.HANG, f"nothing came of it in {longest:g} s")

    def _judge(self, message: bytes, seconds: float) -> Verdict | None:
        connection = self._connection()
        entered = False
        try:
            connection.send_bytes(message)
            while connection.poll(seconds):
                answer = connection.recv_bytes()
                if answer.startswith(_FAILED):
                    raise OnnxPassesError(f"the fuzzer itself failed: {answer.removeprefix(_FAILED).decode()}")
                if answer != _ENTERING:
                    return Verdict(**json.loads(answer))
                entered = True
        except (EOFError, ConnectionError):
            how = self._reap()
            return Verdict("finding", Kind.CRASH, f"the process ended with {how}") if entered else Verdict("skipped")
        self.stop()
        return None if entered else Verdict("skipped")

    def stop(self) -> None:
        """End the process, if there is one."""
        if self._finalizer is not None:
            self._reap()

    def _reap(self) -> str:
        assert self._finalizer is not None
        status, self._started, self._finalizer = self._finalizer(), None, None
        return how_ended(status)

    def _connection(self) -> Connection:
        if self._started is None:
            self._started = fork(partial(_serve, self._targets, self._seconds))
            self._finalizer = weakref.finalize(self, self._started.end)
        return self._started.way


def _serve(targets: Sequence[Target], seconds: float, connection: Connection) -> None:
    # What the fork brought along stays: no need to look through it again and again.
    gc.freeze()
    executor = Executor(protected=True)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            data = connection.recv_bytes()
            limit_processor(_PATIENCE * seconds)
            try:
                target = targets[int.from_bytes(data[1:5])]
                judge = Judge(target, executor, lambda: connection.send_bytes(_ENTERING))
                verdict = judge(Case.decode(data[5:]), match_only=data[:1] == _MATCH)
                connection.send_bytes(json.dumps(asdict(verdict)).encode())
            except Exception:  # noqa: BLE001 - raised again on the other side
                connection.send_bytes(_FAILED + traceback.format_exc().encode())
