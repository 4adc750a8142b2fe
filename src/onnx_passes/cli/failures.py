"""Error messages: for people one text, for programs one JSON object, and one exit code."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import click

from onnx_passes.cli.signals import Terminated
from onnx_passes.core.errors import ExitCode, OnnxPassesError
from onnx_passes.core.failures import describe_failure

Kind = Literal["verification", "usage", "pass", "internal", "unverified", "interrupted"]
INTERRUPTED, TERMINATED = 130, 143
_KINDS: dict[int, Kind] = {
    ExitCode.VERIFICATION: "verification",
    ExitCode.USAGE: "usage",
    ExitCode.PASS: "pass",
    ExitCode.INTERNAL: "internal",
    ExitCode.UNVERIFIED: "unverified",
    INTERRUPTED: "interrupted",
    TERMINATED: "interrupted",
}
_NAME = "onnx-passes"


@dataclass(frozen=True)
class ErrorReport:
    """Error of a run: ``text`` is for people, ``details`` are further fields of the error."""

    code: int
    type: str
    message: str
    text: str
    where: str | None = None
    hint: str | None = None
    details: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data: under ``error`` kind, exit code, type and message; where, hint and details if known."""
        known = {"where": self.where, "hint": self.hint, "details": self.details}
        return {
            "error": {
                "kind": _KINDS.get(self.code, "internal"),
                "exit_code": int(self.code),
                "type": self.type,
                "message": self.message,
                **{key: value for key, value in known.items() if value},
            }
        }

    def show(self, *, as_json: bool) -> int:
        """Print to standard error or, for programs, as JSON to standard output; return the exit code."""
        if as_json:
            click.echo(json.dumps(self.to_json(), indent=2, default=str))
        click.echo(self.text, err=True)
        return self.code


def failure_of(error: BaseException) -> ErrorReport:
    """Describe an error."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return _failure(ExitCode.USAGE, error, "nothing to do", text=error.format_message())
    if isinstance(error, click.ClickException):
        return _of_click(error)
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return _failure(INTERRUPTED, error, "interrupted")
    if isinstance(error, Terminated):
        return _failure(TERMINATED, error, "terminated")
    if isinstance(error, OnnxPassesError):
        return _of_ours(error)
    return _of_others(error)


def _failure(code: int, error: BaseException, message: str, *, text: str = "", **known: Any) -> ErrorReport:
    return ErrorReport(code, type(error).__name__, message, text or f"{_NAME}: {message}", **known)


def _of_click(error: click.ClickException) -> ErrorReport:
    message = error.format_message()
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return _failure(ExitCode.USAGE, error, message)
    hint = f"Try '{error.ctx.command_path} {error.ctx.help_option_names[-1]}' for help."
    text = f"{error.ctx.get_usage()}\n{hint}\n\nError: {message}"
    return _failure(ExitCode.USAGE, error, message, text=text, hint=hint)


def _of_ours(error: OnnxPassesError) -> ErrorReport:
    text = str(error) if error.exit_code in (ExitCode.VERIFICATION, ExitCode.UNVERIFIED) else f"{_NAME}: {error}"
    return ErrorReport(error.exit_code, text=text, **describe_failure(error))


def _of_others(error: BaseException) -> ErrorReport:
    """Describe a foreign exception: a failed pre- or post-condition of a pass, or an internal error."""
    import onnx_ir as ir

    named = f"{type(error).__name__}: {error}"
    if isinstance(error, ir.passes.InvariantError):
        cause = error.__cause__
        lines = [named] if cause is None else [named, f"{type(cause).__name__}: {cause}"]
        return _failure(ExitCode.VERIFICATION, error, "; ".join(lines), text="\n".join(lines))
    message, hint = f"internal error: {named}", "run with --debug for the traceback"
    return _failure(ExitCode.INTERNAL, error, message, text=f"{_NAME}: {message}; {hint}", hint=hint)
