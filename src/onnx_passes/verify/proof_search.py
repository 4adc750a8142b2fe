"""Proofs of the rewrites of a run, each looked for while old and new nodes stand side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnx_passes.core.base import Pass
from onnx_passes.core.evidence import STEP, RewriteProof
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Application, StepRecord
from onnx_passes.graph.wiring import wiring
from onnx_passes.proofs.proof import Proof, Unproved

Method = Callable[[Application, Pass], Proof | Unproved | None]
"""Proves one application of a rule of a pass; says why it cannot, or nothing if it has nothing to say."""


class ProofSearch:
    """Asks methods, the cheapest first, for a proof of each rewrite, and keeps what they find with its step.

    Only a pass all of whose changes are announced is known by its rewrites; an annotation by leaving nodes as they are.
    """

    def __init__(self, methods: Sequence[Method]) -> None:
        self._methods = methods
        self._pass: Pass | None = None
        self._waiting: tuple[Application, RewriteProof] | None = None
        self._wiring: int | None = None

    def before_pass(self, step: Step, model: ir.Model) -> None:
        """Get ready for the rewrites of a pass."""
        self._pass = step.pass_ if step.pass_.announces() else None
        self._waiting = None
        self._wiring = wiring(model) if step.pass_.kind == "annotation" else None

    def after_pass(self, record: StepRecord, model: ir.Model) -> None:
        """See whether an annotation kept to its kind."""
        if record.modified and self._wiring is not None and wiring(model) == self._wiring:
            record.proofs = [RewriteProof(STEP, record.name, "proved", "all nodes, inputs and weights are the same")]
        self._wiring = None

    def before_rewrite(self, application: Application) -> None:
        """Look for a proof, as long as the graph is as before."""
        if self._pass is None:
            return
        started = time.perf_counter()
        self._waiting = application, self._prove(application, application.owner or self._pass)
        application.step.proving += time.perf_counter() - started

    def after_rewrite(self, application: Application) -> None:
        """Keep what was found: nobody vetoed the rewrite."""
        if self._waiting is not None and self._waiting[0] is application:
            application.step.proofs.append(self._waiting[1])
        self._waiting = None

    def _prove(self, application: Application, owner: Pass) -> RewriteProof:
        number, rule = application.number, application.rule
        reasons: list[str] = []
        for method in self._methods:
            found = method(application, owner)
            if isinstance(found, Proof):
                return RewriteProof(number, rule, found.level, found.method, found.facts, found.bound)
            if found is not None:
                reasons.append(found.reason)
        return RewriteProof(number, rule, reason="; ".join(dict.fromkeys(reasons)) or "no method of proof applies")
