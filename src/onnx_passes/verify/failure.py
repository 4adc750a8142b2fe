"""What is told when a pass changed the results: the two lines that users know, then everything that helps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnx_passes.core.errors import ExitCode, OnnxPassesError


class VerificationError(OnnxPassesError):
    """Results are not as expected."""

    exit_code = ExitCode.VERIFICATION


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
class Failure:
    """Where and how a pass went wrong."""

    step: int
    text: str
    claim: str
    difference: str
    sample: str
    application: str = ""
    source: str = ""
    matched: str = ""
    replacement: str = ""
    diverges: str = ""
    reproducer: str = ""
    number: int = 0
    no_excuse: str = ""
    advice: str = ""

    def lines(self) -> list[str]:
        """List the facts, one a line."""
        facts = [
            ("pass", f"{self.text} (step {self.step}, promises {self.claim})"),
            ("difference", self.difference),
            ("sample", self.sample),
            ("rewrite", self.application),
            ("rule", self.source),
            ("matched", self.matched),
            ("replaced by", self.replacement),
            ("diverges at", self.diverges),
            ("no excuse", self.no_excuse),
            ("to accept", self.advice),
            ("reproducer", self.reproducer),
        ]
        return [f"  {label + ':':13} {text}" for label, text in facts if text]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {key: value for key, value in vars(self).items() if value}
