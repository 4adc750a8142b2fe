"""The levels that a quantizer without scale and zero point rounds to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.ops.collection import definition_of


@dataclass(frozen=True)
class Levels:
    """Integers from ``low`` to ``high`` in steps of ``step``, and the name of their data type."""

    low: int
    high: int
    step: int
    datatype: str

    @property
    def steps(self) -> int:
        """Return how many thresholds tell the levels apart."""
        return (self.high - self.low) // self.step


def levels_of(node: ir.Node) -> Levels | str:
    """Return the levels of a quantizer, or why they are not known."""
    definition = definition_of(node)
    if definition is None:
        return f"{node.op_type} is no quantizer"
    given = definition.checked(node)
    if node.op_type == "Trunc" and "signed" not in given:
        return "what it rounds to has no bounds"
    if node.op_type == "BipolarQuant":
        return _bipolar() if _is(node, 1, 1) else "its scale is not 1"
    if not _is(node, 4 if node.op_type == "Trunc" else 1, 1) or not _is(node, 2, 0):
        return "its scale is not 1, or its zero point not 0"
    bits = constant(node.inputs[len(node.inputs) - 1])
    if bits is None or bits.size == 0 or not np.all(bits == bits.flat[0]) or bits.flat[0] != round(float(bits.flat[0])):
        return "its bit width is not one whole number"
    return _integers(int(bits.flat[0]), signed=bool(given["signed"]), narrow=bool(given["narrow"]), of=node.op_type)


def _bipolar() -> Levels:
    return Levels(-1, 1, 2, "BIPOLAR")


def _integers(bits: int, *, signed: bool, narrow: bool, of: str) -> Levels:
    if not signed:
        return Levels(0, 2**bits - 1 - narrow, 1, "BINARY" if bits == 1 else f"UINT{bits}")
    if bits == 1 and of != "Trunc":
        return _bipolar()
    return Levels(-(2 ** (bits - 1)) + narrow, 2 ** (bits - 1) - 1, 1, f"INT{bits}")


def _is(node: ir.Node, index: int, number: float) -> bool:
    array = constant(node.inputs[index])
    return array is not None and bool(np.all(array == number))
