"""Hints of a pass for the fuzzer: models to start from, and values to try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def hints(
    *models: str,
    constants: Mapping[str, Sequence[Any]] | None = None,
    shapes: Mapping[str, Sequence[Sequence[int]]] | None = None,
    dtypes: Sequence[str] = (),
) -> Mapping[str, Any]:
    """Make the ``fuzz_hints`` of a pass: models in ONNX text, and values for the variables of its patterns."""
    texts = [in_opset(20, model) if model[0] != "<" else model for model in models]
    given = {"models": texts, "constants": constants, "shapes": shapes, "dtypes": dtypes}
    return {key: hint for key, hint in given.items() if hint}


def in_opset(version: int, graph: str) -> str:
    """Put the header of a model before a graph in ONNX text."""
    return f'<ir_version: 9, opset_import: ["" : {version}]> {graph}'
