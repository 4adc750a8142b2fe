"""Proofs of the rewrites of a run, each looked for while old and new nodes stand side by side."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import onnx_ir as ir

from onnx_passes.core.base import Pass
from onnx_passes.core.evidence import SEMANTICS, STEP, RewriteProof, composed
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Application, StepRecord
from onnx_passes.proofs.proof import Assumption, Proof, Unproved
from onnx_passes.verify.comparison.declarations import ChangesInterface
from onnx_passes.verify.comparison.evidence import claim_of
from onnx_passes.verify.proving.accounts import METHOD, Accounts
from onnx_passes.verify.proving.constants import StoredConstants
from onnx_passes.verify.proving.facts import Budget, Declared, Facts, attached_outside
from onnx_passes.verify.proving.here import prove_here
from onnx_passes.verify.run.execute import Executor
from onnx_passes.verify.run.sessions import checksum

_POINTS = 2**22
"""Compared in a quarter of a second: the steps of three quantizers of 16 bits, or of some hundred of 8 bits."""


class Method(Protocol):
    """One way to prove applications of rules."""

    def begin(self, model: ir.Model) -> None:
        """Prepare for a pass."""
        ...

    def prove(self, application: Application, owner: Pass, wanted: Collection[str]) -> Proof | Unproved | None:
        """Prove an application of a rule of a pass in one of the wanted semantics, or return the reason why not.

        None if the method does not apply.
        """
        ...

    def follow(self, application: Application, owner: Pass) -> None:
        """Update after the application has changed the model."""
        ...


class Here:
    """Local proofs: from constants, shapes and ranges of values.

    ``declared`` are the declarations of the inputs of the original model.
    """

    def __init__(self, executor: Executor, effort: float = 1.0, declared: Mapping[str, Declared] | None = None) -> None:
        self._executor, self._original = executor, declared
        self._budget = Budget(effort * _POINTS)
        self._facts: Facts | None = None

    def begin(self, model: ir.Model) -> None:
        """Discard the facts from before the pass."""
        self._facts = Facts(model, self._executor, self._budget, self._original)

    def prove(self, application: Application, owner: Pass, wanted: Collection[str]) -> Proof | Unproved | None:
        """Compare the removed nodes of the application with the added ones."""
        assert self._facts is not None
        found = prove_here(application, self._facts, owner.fast_math, wanted)
        assumptions = self._facts.assumptions if isinstance(found, Proof) else ()
        return replace(found, assumptions=(*found.assumptions, *assumptions)) if isinstance(found, Proof) else found

    def follow(self, application: Application, owner: Pass) -> None:
        """Discard ranges that rounding may have moved."""
        if self._facts is not None and application.replaced and claim_of(owner).kind != "equality":
            self._facts.forget()


class _Sealed:
    """A constant that a rewrite of a step has stored, with the checksum of its elements at that time."""

    def __init__(self, record: StepRecord, value: ir.Value) -> None:
        self.record, self.value, self._tensor = record, value, value.const_value
        self._checksum = checksum(self._tensor)

    @property
    def is_broken(self) -> bool:
        """Return whether the same tensor holds other elements by now."""
        return checksum(self._tensor) != self._checksum


class ProofSearch:
    """Asks methods, the cheapest first, for a proof of each rewrite, and keeps the proofs with the step.

    Rewrites are proved from the values that they replace. That nothing else changed is found out at the end of the
    step, by comparing the model with a snapshot: changes that replace no value are proved so, and a step that changed
    anything beside its rewrites is not proved, whatever is proved of these.
    """

    def __init__(self, methods: Sequence[Method], executor: Executor) -> None:
        self._methods = methods
        self._executor = executor
        self._accounts: Accounts | None = None
        self._last: StepRecord | None = None
        self._sealed: list[_Sealed] = []
        self._pass: Pass | None = None
        self._waiting: tuple[Application, RewriteProof | None] | None = None
        self._kept: Collection[str] = SEMANTICS
        """The semantics that the proofs so far preserve."""

    def before_pass(self, step: Step, model: ir.Model) -> None:
        """Prepare for the rewrites of a pass."""
        self._accounts = self._accounts or Accounts(model)
        is_known = step.pass_.announces() and not isinstance(step.pass_, ChangesInterface)
        self._pass = step.pass_ if is_known else None
        self._model, self._is_ready, self._waiting = model, False, None
        self._stored = StoredConstants(Facts(model, self._executor))
        self._without_values: list[Application] = []

    def after_pass(self, record: StepRecord, model: ir.Model) -> None:
        """Conclude the proofs of a step from the model that it left."""
        if record.has_children or self._accounts is None:
            return
        self._conclude_stored(record)
        if record.modified or record.applications:
            self._last = record
            started = time.perf_counter()
            self._conclude(record, self._accounts, self._accounts.objection(model))
            record.proving += time.perf_counter() - started
            self._accounts = None

    def after_pipeline(self, model: ir.Model) -> None:
        """Take back proofs of a model that was changed in place since, or by steps that told nothing of it."""
        if self._accounts is not None and self._last is not None and (objection := self._accounts.objection(model)):
            # The steps that changed it said that they did not: what is known of the last one that did counts no more.
            self._last.proofs.append(_kept(STEP, self._last.name, Unproved(f"beside all rewrites, {objection}")))
        for sealed in self._sealed:
            if sealed.is_broken:
                reason = f"constant '{sealed.value.name}' was changed in place after its rewrite was proved"
                sealed.record.proofs.append(_kept(STEP, sealed.record.name, Unproved(reason)))
        self._sealed = []

    def before_rewrite(self, application: Application) -> bool:
        """Look for a proof while the graph is as before; tell whether all bits are proved to be kept."""
        if self._accounts is not None:
            self._accounts.announce(application)
        if self._pass is None:
            return False
        self._sealed += [_Sealed(application.step, value) for value in application.initializers]
        started = time.perf_counter()
        found = self._prove(application, application.owner or self._pass)
        self._waiting = application, found
        application.step.proving += time.perf_counter() - started
        return found is not None and found.keeps_bits

    def after_rewrite(self, application: Application) -> None:
        """Keep the proof of a rewrite that no instrument vetoed."""
        if self._accounts is not None:
            self._accounts.follow(application)
        if self._waiting is None or self._waiting[0] is not application:
            return
        assert self._pass is not None
        if self._waiting[1] is not None:
            application.step.proofs.append(self._waiting[1])
            self._kept = composed(self._kept, self._waiting[1].preserves)
            for method in self._methods:
                method.follow(application, application.owner or self._pass)
        elif not application.replaced:
            self._without_values.append(application)
        if self._stored.is_full:
            self._conclude_stored(application.step)
        self._waiting = None

    def _prove(self, application: Application, owner: Pass) -> RewriteProof | None:
        """Return the first proof, or the reasons why there is none; None if that is known at the end of the step."""
        if application.settled and application.replaced:
            found = self._stored.add(application)
            return None if found is None else _kept(application.number, application.rule, found)
        if not application.replaced and not application.added and application.update is None:
            return None
        reasons: list[str] = []
        other: Proof | None = None
        if not self._is_ready:
            self._is_ready = True
            for method in self._methods:
                method.begin(self._model)
        for method in self._methods:
            try:
                found = method.prove(application, owner, self._kept)
            except Exception as error:  # noqa: BLE001 - what cannot be proved is still checked by running it
                found = Unproved(f"the search for a proof failed: {type(error).__name__}: {error}")
            if isinstance(found, Proof):
                found = replace(found, assumptions=(*found.assumptions, *_attached(application)))
            if isinstance(found, Proof) and (not self._kept or set(found.preserves) & set(self._kept)):
                return _kept(application.number, application.rule, found)
            if isinstance(found, Proof):
                other = other or found
            elif found is not None:
                reasons.append(found.reason)
        if other is not None:
            return _kept(application.number, application.rule, other)
        why = "; ".join(dict.fromkeys(reasons)) or "no method of proof applies"
        return _kept(application.number, application.rule, Unproved(why))

    def _conclude_stored(self, record: StepRecord) -> None:
        started = time.perf_counter()
        record.proofs.extend(_kept(*known) for known in self._stored.finish())
        record.proving += time.perf_counter() - started

    def _conclude(self, record: StepRecord, accounts: Accounts, objection: str) -> None:
        """Prove rewrites that replace no value, or the step, by the account of changes."""
        found = Unproved(objection) if objection else Proof("proved-here", METHOD, ("the same objects compute it",))
        record.proofs.extend(_kept(each.number, each.rule, found) for each in self._without_values)
        if isinstance(found, Proof) and not accounts.computes_otherwise and not record.applications:
            record.proofs.append(_kept(STEP, record.name, found))
        elif objection and record.proofs:
            record.proofs.append(_kept(STEP, record.name, Unproved(f"beside its rewrites, {objection}")))


def _attached(application: Application) -> list[Assumption]:
    """List the statements of modules outside of this package about the operators of a rewrite."""
    nodes = (*application.matched, *application.added)
    return [Assumption(text) for text in dict.fromkeys(text for node in nodes for text in attached_outside(node))]


def _kept(number: int, rule: str, found: Proof | Unproved) -> RewriteProof:
    if isinstance(found, Unproved):
        return RewriteProof(number, rule, reason=found.reason)
    return RewriteProof(number, rule, found.preserves, found.known, found.method, found.facts, found.bound)
