"""The rewrites of one pass, checked where they stand on values from a run of the whole model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnx_passes.core.coverage import Coverage
from onnx_passes.core.errors import ModelError
from onnx_passes.core.evidence import Evidence
from onnx_passes.core.records import Application
from onnx_passes.verify.baseline import Baseline
from onnx_passes.verify.comparison.promise import Promise, PromiseFor
from onnx_passes.verify.local.specials import SpecialWindows
from onnx_passes.verify.local.windows import WindowCheck, Windows, evidence_of_checks
from onnx_passes.verify.run.activations import Activations
from onnx_passes.verify.run.execute import ExecutionError, Executor
from onnx_passes.verify.samples.coverage import coverage_of
from onnx_passes.verify.ties.decisions import decides


class Rewrites:
    """Collects the rewrites of a pass while it runs, and runs old and new nodes side by side when it has ended.

    ``baseline`` returns what the model is measured against, or nothing if it does not run.
    """

    def __init__(self, executor: Executor, memory: int, baseline: Callable[[], Baseline | None]) -> None:
        self._executor, self._memory, self._baseline = executor, memory, baseline
        self._windows: Windows | None = None
        self._special: SpecialWindows | None = None
        self._activations: Activations | None = None
        self._settled = 0
        self.coverage: Coverage | None = None
        """What the samples brought about inside the model when it was first run for the values there."""

    def begin(self, model: ir.Model) -> None:
        """Get ready for the rewrites of a pass."""
        self._model, self._windows, self._settled = model, None, 0

    def end(self) -> None:
        """Let go of what was collected."""
        self._windows = None

    def forget(self) -> None:
        """Let go of all values inside the model: its interface is another."""
        self._activations = self._special = None

    def add(self, application: Application, *, keeps_bits: bool) -> None:
        """Take in a rewrite, if it replaces values that are not known to be the same.

        What is proved to keep all bits needs no check where it stands: the model shows whether the proof is right.
        """
        if keeps_bits and not application.settled:
            self._settled += 1
            self._follow(application)
            return
        self._settled += application.settled
        if application.settled or not application.replaced:
            return
        if self._windows is None:
            baseline = self._baseline()
            if baseline is None or baseline.engine != "onnxruntime":
                return
            self._windows = self._open(application, baseline)
        self._windows.add(application)
        if self._special is not None:
            self._special.add(application)

    def run(self) -> list[WindowCheck]:
        """Run all that was collected and compare; nothing if that is impossible."""
        if self._windows is None or not self._windows.windows:
            return []
        try:
            checks = self._windows.run(self._executor)
        except (ExecutionError, ModelError):
            return []
        if any(map(decides, self._model.graph)) and not all(check.equal for check in checks):
            # Levels behind what has changed in the last place may be others by now.
            self._activations = None
        return checks

    def first_wrong(self, checks: Sequence[WindowCheck], promise_for: PromiseFor) -> tuple[int, Promise, str] | None:
        """Return the first rewrite that is not as promised, what is promised, and what is wrong."""
        return None if self._windows is None else self._windows.first_wrong(checks, promise_for, self._executor)

    def wrong_special(self, promise_for: PromiseFor) -> tuple[int, str] | None:
        """Return the first rewrite that does not hold for special values, and how."""
        return None if self._special is None else self._special.wrong(promise_for)

    def evidence(
        self, checks: Sequence[WindowCheck], applications: int, promise: Promise, started: float
    ) -> Evidence | None:
        """Sum up checks that hold, unless some of the applications are not among them."""
        if self._windows is None or self._windows.missed or len(checks) + self._settled != applications:
            return None
        return evidence_of_checks(checks, promise, started)

    def _follow(self, application: Application) -> None:
        """Go on with the values that are known of what an application replaces, as those of what it puts in."""
        if self._activations is not None:
            self._activations.follow(application.replaced)
        if self._windows is not None:
            self._windows.follow(application)
        if self._special is not None:
            self._special.follow(application)

    def _open(self, application: Application, baseline: Baseline) -> Windows:
        if application.many:
            self._activations = None
            if self._special is not None:
                self._special.forget()
        nodes = application.step.nodes_before
        windows = Windows(self._model, nodes, self._known(baseline))
        if baseline.specials is not None:
            self._special = self._special or SpecialWindows(baseline.specials.samples, self._executor, self._memory)
            self._special.begin(self._model, nodes)
        return windows

    def _known(self, baseline: Baseline) -> Activations:
        """Run the model once for the values inside, when the first rewrite needs them."""
        if self._activations is None:
            self._activations = Activations(self._executor, self._memory)
            try:
                self._activations.fill(self._model, baseline.samples)
                self.coverage = self.coverage or coverage_of(self._model, self._activations.get)
            except (ExecutionError, ModelError):
                self._activations.samples = baseline.samples[:2]
        return self._activations
