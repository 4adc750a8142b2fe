"""What is told when a pass broke something that the run asks for, rather than a promise of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx_passes.core.plan import Step
from onnx_passes.core.records import Evidence, Status, StepRecord
from onnx_passes.verify.failure import Failure, PostconditionError, VerificationError


@dataclass
class RunFailure(Failure):
    """Where a pass went wrong, and the facts that show it."""

    facts: Mapping[str, str] = field(default_factory=dict[str, str])

    def lines(self) -> list[str]:
        """List the facts, one a line."""
        facts = {"pass": f"{self.text} (step {self.step})", **self.facts}
        return [f"  {label + ':':13} {text}" for label, text in facts.items() if text]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {**super().to_json(), "facts": dict(self.facts)}


def conclude(record: StepRecord, step: Step, claim: str, what: str, facts: Mapping[str, str]) -> PostconditionError:
    """Note in the record that a step failed, and make the error that says so."""
    record.status, record.reason = Status.FAILED, what
    record.evidence = Evidence("failed", claim, reason=what)
    failure = RunFailure(record.number, step.text, claim, what, "", facts=facts)
    error = PostconditionError(f"Post-condition for pass '{type(step.pass_).__name__}' failed", failure)
    error.__cause__ = VerificationError(what)
    return error
