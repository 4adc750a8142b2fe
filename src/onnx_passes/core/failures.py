"""Errors as plain data: for the command line, for records and reports."""

from __future__ import annotations

from typing import Any

from onnx_passes.core.errors import OnnxPassesError


def describe_failure(error: BaseException) -> dict[str, Any]:
    """Return type and message of an error; where, hint and details if they are known.

    If a claim of a pass was violated, the message is that of the difference.
    """
    if not isinstance(error, OnnxPassesError):
        return {"type": type(error).__name__, "message": str(error) or type(error).__name__}
    found = getattr(error, "failure", None)
    told = error.__cause__ if found is not None and error.__cause__ is not None else error
    known = {"where": error.where, "hint": error.hint, "details": None if found is None else found.to_json()}
    return {
        "type": type(told).__name__,
        "message": told.what if isinstance(told, OnnxPassesError) else error.what,
        **{key: item for key, item in known.items() if item},
    }
