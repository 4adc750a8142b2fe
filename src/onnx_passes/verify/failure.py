"""Report of a pass that changed the results: the two lines that users know, then all further facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnx_passes.core.display import Displayed
from onnx_passes.core.errors import ExitCode, OnnxPassesError
from onnx_passes.core.evidence import Evidence
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Status, StepRecord


class VerificationError(OnnxPassesError):
    """Results are not as expected."""

    exit_code = ExitCode.VERIFICATION


class UnverifiedError(VerificationError):
    """Evidence is required of a run that could not be verified."""

    exit_code = ExitCode.UNVERIFIED


class PostconditionError(OnnxPassesError, ir.passes.PostconditionError):
    """A pass did not keep its promise."""

    exit_code = ExitCode.VERIFICATION

    def __init__(self, what: str, failure: Failure) -> None:
        super().__init__(what)
        self.failure = failure

    def __str__(self) -> str:
        cause = self.__cause__
        lines = [f"PostconditionError: {self.what}"]
        if isinstance(cause, OnnxPassesError):
            lines.append(f"VerificationError: {cause.what}")
        return "\n".join([*lines, *self.failure.lines()])


@dataclass
class Failure(Displayed):
    """Where and how a pass went wrong; ``facts`` show it where the run asked for something beside promises."""

    step: int
    text: str
    claim: str
    difference: str
    sample: str = ""
    application: str = ""
    source: str = ""
    matched: str = ""
    replacement: str = ""
    diverges: str = ""
    reproducer: str = ""
    number: int = 0
    no_excuse: str = ""
    advice: str = ""
    facts: Mapping[str, str] | None = None

    def lines(self) -> list[str]:
        """List the facts, one a line."""
        if self.facts is not None:
            return fact_lines({"pass": f"{self.text} (step {self.step})", **self.facts})
        return fact_lines(
            {
                "pass": f"{self.text} (step {self.step}, promises {self.claim})",
                "difference": self.difference,
                "sample": self.sample,
                "rewrite": self.application,
                "rule": self.source,
                "matched": self.matched,
                "replaced by": self.replacement,
                "diverges at": self.diverges,
                "not accepted": self.no_excuse,
                "to accept": self.advice,
                "reproducer": self.reproducer,
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {key: value for key, value in vars(self).items() if value not in ("", 0, None)}


def fact_lines(facts: Mapping[str, str]) -> list[str]:
    """List facts, one a line."""
    return [f"  {label + ':':13} {text}" for label, text in facts.items() if text]


def failed_step(record: StepRecord, step: Step, failure: Failure, what: str = "") -> PostconditionError:
    """Mark a step as failed, and return its error, with the difference in the words of users."""
    record.status, record.reason = Status.FAILED, failure.difference
    record.evidence = Evidence("failed", failure.claim, reason=failure.difference)
    error = PostconditionError(f"Post-condition for pass '{type(step.pass_).__name__}' failed", failure)
    error.__cause__ = VerificationError(what or failure.difference)
    return error
