"""A failed step as an object: its pipeline text, the error, and the model that it would give."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnx_passes.api import apply
from onnx_passes.check.settings import Settings
from onnx_passes.check.verdict import Verdict, check
from onnx_passes.check.verification import Verification
from onnx_passes.core.claims import Claim
from onnx_passes.core.display import Displayed
from onnx_passes.core.errors import OnnxPassesError, PassFailedError
from onnx_passes.core.plan import Plan
from onnx_passes.graph.diff import ModelDiff, diff
from onnx_passes.session.data import Data
from onnx_passes.session.states import SessionState
from onnx_passes.verify.comparison.compare import Element, TensorComparison
from onnx_passes.verify.failure import Failure


@dataclass(repr=False)
class FailedStep(Displayed):
    """The error of a step; the session stayed on ``state``, the one before it.

    ``report`` has the findings of the verification, ``wrong`` the model after the step, unverified.
    """

    state: SessionState
    error: Exception
    plan: Plan
    data: Data
    verification: bool | Verification

    @property
    def text(self) -> str:
        """Return the pipeline text of the step."""
        return self.plan.pipeline

    @property
    def report(self) -> Failure | None:
        """Return the findings of the verification; None if something else failed."""
        return getattr(self.error, "failure", None)

    @property
    def pass_(self) -> str:
        """Return the pass to blame as text."""
        return self.report.text if self.report is not None else self.text

    @property
    def rewrite(self) -> str:
        """Name the rewrite to blame, if it is known."""
        return self.report.application if self.report is not None else ""

    @property
    def node(self) -> str:
        """Name the nodes that the rewrite replaced."""
        return self.report.matched if self.report is not None else ""

    @cached_property
    def wrong(self) -> ir.Model:
        """Apply the step without verification."""
        try:
            return apply(self.state.model, self.plan.requested, verify=False).model
        except OnnxPassesError as error:
            raise PassFailedError("the step leaves no model to look at", hint=str(error)) from error

    @cached_property
    def diff(self) -> ModelDiff:
        """Return the changes of the step."""
        return diff(self.state.model, self.wrong)

    @cached_property
    def comparison(self) -> Verdict | None:
        """Compare the results before and after the step; None if one of the models does not run."""
        try:
            settings = Settings(inputs=self._inputs(), seed=self.data.seed)
            return check(Claim("tolerance"), self.state.model, self.wrong, settings)
        except OnnxPassesError:
            return None

    @property
    def tensor(self) -> TensorComparison | None:
        """Return the first output that is other than before."""
        results = () if self.comparison is None else self.comparison.results
        return next((result.first for result in results if result.first is not None), None)

    @property
    def element(self) -> Element | None:
        """Return the element of that output that is furthest off."""
        return None if self.tensor is None else self.tensor.worst

    def reproducer(self, folder: str | Path) -> Path:
        """Write a folder that shows the failure, for ``onnx-passes repro run`` and ``reduce``."""
        given = self.verification
        verification = copy.copy(given) if isinstance(given, Verification) else Verification(inputs=self._inputs())
        verification.reproducer = Path(folder)
        try:
            apply(self.state.model, self.plan.requested, verify=verification)
        except OnnxPassesError as error:
            failure: Any = getattr(error, "failure", None)
            if failure is not None and Path(failure.reproducer).is_dir():
                return Path(failure.reproducer)
        raise PassFailedError("there is nothing to reproduce", hint="only what verification finds is written")

    def _inputs(self) -> Sequence[Any]:
        return self.data.at(self.state)

    def __repr__(self) -> str:
        return f"<FailedStep {self.text}: {self.report.difference if self.report is not None else self.error}>"

    def __str__(self) -> str:
        return str(self.error)
