"""Assertions for tests of passes: models before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from onnx_passes.api import Result, apply
from onnx_passes.core.compose import PassLike
from onnx_passes.graph.diff import diff, text_diff
from onnx_passes.graph.equality import first_difference
from onnx_passes.graph.load import Source, load


def check_pass(
    before: Source,
    pass_: PassLike | Iterable[PassLike],
    after: Source,
    *,
    inputs: Sequence[Any] = (),
    options: Mapping[str, Mapping[str, object]] | None = None,
) -> Result:
    """Assert that a pass turns one model into another, and that both compute the same.

    Models are ONNX text or anything that ``apply`` takes. Structure and interface must be those of ``after``,
    independent of names inside; for a pass that refuses, those of ``before``. Every step is verified in ONNX Runtime,
    on ``inputs`` or on generated ones, and checked against the contract of its kind. The result has the steps and their
    refusals.
    """
    original, expected = _model(before), _model(after)
    result = apply(original, pass_, inputs=inputs, options=options, paranoid=True)
    assert_same_graph(result.model, expected)
    for step in result.record.leaves():
        if step.evidence is not None and step.evidence.level == "unverified":
            raise AssertionError(f"{step.text} cannot be verified: {step.evidence.reason}")
    return result


def assert_same_graph(found: Source, expected: Source) -> None:
    """Assert that two models, ONNX text or anything that ``apply`` takes, are the same up to names inside.

    Names, types and shapes of inputs and outputs count, as do operators, attributes, constants and connections.
    """
    model, wanted = _model(found), _model(expected)
    difference = first_difference(wanted, model)
    changes = diff(wanted, model)
    if difference is None and not changes.interface:
        return
    what = "; ".join(changes.interface) if difference is None else str(difference)
    raise AssertionError(f"not the expected graph: {what}\n{text_diff(wanted, model, 'expected', 'found')}")


def _model(given: Source) -> ir.Model:
    is_text = isinstance(given, str) and given.lstrip().startswith("<")
    return load(given.encode() if is_text and isinstance(given, str) else given)
