"""Proofs of the rewrites of a run, each looked for while old and new nodes stand side by side."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import onnx_ir as ir

from onnx_passes.core.base import Pass
from onnx_passes.core.evidence import STEP, RewriteProof
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Application, StepRecord
from onnx_passes.graph.wiring import wiring
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.comparison.declarations import ChangesInterface
from onnx_passes.verify.comparison.promise import claim_of
from onnx_passes.verify.proving.facts import Facts
from onnx_passes.verify.proving.here import prove_here
from onnx_passes.verify.run.execute import Executor


class Method(Protocol):
    """One way to prove applications of rules."""

    def begin(self, model: ir.Model) -> None:
        """Get ready for a pass."""
        ...

    def prove(self, application: Application, owner: Pass) -> Proof | Unproved | None:
        """Prove an application of a rule of a pass; says why that is impossible, or nothing without anything to say."""
        ...

    def follow(self, application: Application, owner: Pass) -> None:
        """Take in that the application has changed the model."""
        ...


class Here:
    """Proofs from what stands at one place: constants, shapes, and what values can be."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._facts: Facts | None = None

    def begin(self, model: ir.Model) -> None:
        """Let go of what was known before the pass."""
        self._facts = Facts(model, self._executor)

    def prove(self, application: Application, owner: Pass) -> Proof | Unproved | None:
        """Look at what the application takes out and puts in."""
        assert self._facts is not None
        return prove_here(application, self._facts, owner.fast_math)

    def follow(self, application: Application, owner: Pass) -> None:
        """Let go of ranges that rounding may have moved."""
        if self._facts is not None and application.replaced and claim_of(owner).kind != "equality":
            self._facts.forget()


class ProofSearch:
    """Asks methods, the cheapest first, for a proof of each rewrite, and keeps what they find with its step.

    Only a pass all of whose changes are announced, and which keeps the interface, is known by its rewrites; an
    annotation by leaving nodes as they are.
    """

    def __init__(self, methods: Sequence[Method]) -> None:
        self._methods = methods
        self._pass: Pass | None = None
        self._is_ready = False
        self._waiting: tuple[Application, RewriteProof] | None = None
        self._wiring: int | None = None

    def before_pass(self, step: Step, model: ir.Model) -> None:
        """Get ready for the rewrites of a pass."""
        is_known = step.pass_.announces() and not isinstance(step.pass_, ChangesInterface)
        self._pass = step.pass_ if is_known else None
        self._waiting, self._is_ready, self._model = None, False, model
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
            assert self._pass is not None
            for method in self._methods:
                method.follow(application, application.owner or self._pass)
        self._waiting = None

    def _prove(self, application: Application, owner: Pass) -> RewriteProof:
        number, rule = application.number, application.rule
        reasons: list[str] = []
        if not self._is_ready:
            self._is_ready = True
            for method in self._methods:
                method.begin(self._model)
        for method in self._methods:
            try:
                found = method.prove(application, owner)
            except Exception as error:  # noqa: BLE001 - what cannot be proved is still checked by running it
                found = Unproved(f"the search for a proof failed: {type(error).__name__}: {error}")
            if isinstance(found, Proof):
                return RewriteProof(number, rule, found.level, found.method, found.facts, found.bound)
            if found is not None:
                reasons.append(found.reason)
        return RewriteProof(number, rule, reason="; ".join(dict.fromkeys(reasons)) or "no method of proof applies")
