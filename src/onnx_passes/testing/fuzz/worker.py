"""A forked process that judges cases: when a kernel crashes or a rule hangs, only it is lost."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import multiprocessing
import os
import signal
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.judge import Judge, Verdict
from onnx_passes.testing.fuzz.report import Kind
from onnx_passes.testing.fuzz.targets import Target
from onnx_passes.verify.run.execute import Executor

_ENTERING = b"rule"
_FAILED = b"failed"
_MATCH, _JUDGE = b"m", b"j"
_TIMEOUT = 10.0


class Worker:
    """Judges cases one by one in a process of its own, which is replaced when it is lost.

    One process serves all targets: what it needs is loaded once.
    """

    def __init__(self, targets: Sequence[Target]) -> None:
        self._targets = targets
        self._numbers = {id(target): number for number, target in enumerate(targets)}
        self._timeout = _TIMEOUT
        self._process: Any = None
        self._connection: Connection | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def judge(self, target: Target, case: Case, *, match_only: bool = False) -> Verdict:
        """Judge a case, whatever happens to the process; only what takes too long twice is a finding.

        The second time it may take longer: on a busy machine the first says little.
        """
        message = (_MATCH if match_only else _JUDGE) + self._numbers[id(target)].to_bytes(4) + case.encode()
        verdict = self._judge(message, self._timeout) or self._judge(message, 3 * self._timeout)
        return verdict or Verdict("finding", Kind.HANG, f"nothing came of it in {3 * self._timeout:g} s")

    def _judge(self, message: bytes, seconds: float) -> Verdict | None:
        connection = self._connect()
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
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def _connect(self) -> Connection:
        if self._connection is None:
            context = multiprocessing.get_context("fork")
            ours, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(self._targets, ours, theirs), daemon=True)
            self._process.start()
            theirs.close()
            self._connection = ours
        return self._connection

    def _reap(self) -> str:
        self._process.join()
        code = self._process.exitcode
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = None
        return signal.Signals(-code).name if code is not None and code < 0 else f"code {code}"


def _serve(targets: Sequence[Target], others: Connection, connection: Connection) -> None:
    others.close()
    # What the fork brought along stays: no need to look through it again and again.
    gc.freeze()
    faulthandler.disable()
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    executor = Executor()
    with contextlib.suppress(EOFError, ConnectionError, KeyboardInterrupt):
        while True:
            data = connection.recv_bytes()
            try:
                target = targets[int.from_bytes(data[1:5])]
                judge = Judge(target, executor, lambda: connection.send_bytes(_ENTERING))
                verdict = judge(Case.decode(data[5:]), match_only=data[:1] == _MATCH)
                connection.send_bytes(json.dumps(asdict(verdict)).encode())
            except Exception:  # noqa: BLE001 - raised again on the other side
                connection.send_bytes(_FAILED + traceback.format_exc().encode())
