"""Move constants off the decision boundaries of their quantizers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.options import option
from onnx_passes.graph.constants import constant
from onnx_passes.graph.wording import name_of
from onnx_passes.numbers.arithmetic import ExactArithmetic, UnknownOperatorError
from onnx_passes.ops.definition import definition_of
from onnx_passes.ops.quantizer import Quantizer
from onnx_passes.ops.semantics.exact import apply
from onnx_passes.passes.streamline.fold_quantized_weights import folded_quantizer
from onnx_passes.passes.thresholds.conversion import Semantics, promise_of_semantics
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

_NEAR = 2.0**-20
_MOST = 4096
"""Maximum number of elements that are evaluated one by one."""


@passes.verify.tolerance
@passes.register(tags=("streamline", "quantized"))
class SettleQuantizedConstants(EditorPass):
    """Replace elements of constants that floats and exact arithmetic round to different levels by one of these levels.

    Rewrites: ``Quant(w, s, z, bits)`` → ``Quant(w', s, z, bits)``, where ambiguous elements of w' are the level nearest
              to the exact quotient or, with ``semantics=float``, the level that floats choose; other elements are those
              of w. After that, all consumers find the same level.
    Refuses:  quantizers with a computed input.
    Exactness: a weight that floats round to the wrong side of a tie moves by one level; bit-exact with
              ``semantics=float``.
    """

    semantics: Semantics = option("exact", "whether the exact or the float quotient decides")

    def __post_init__(self) -> None:
        """Claim equality if floats decide."""
        promise_of_semantics(self, self.semantics)

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Settle all quantizers of constants."""
        for node in tuple(model.graph):
            x = node.inputs[0] if node.inputs else None
            if x is None or editor.stopped or constant(x) is None:
                continue
            settled = _settled(node, self.semantics)
            if isinstance(settled, str):
                editor.context.note(f"{name_of(node)} is not exact: {settled}")
            elif settled is not None:
                with editor.rewrite("constant between levels", node) as r:
                    held = r.op.initializer(settled, f"{x.name}_settled")
                    r.replace(node.outputs[0], r.op.like(node, [held, *node.inputs[1:]]))


def _settled(node: ir.Node, semantics: Semantics) -> np.ndarray | str | None:
    """Return the settled constant, None if no element is ambiguous, or the reason why the levels are not known."""
    if not isinstance(definition_of(node), Quantizer) or len(node.inputs) < 3:
        return None
    x, scale, zero = (constant(value) for value in node.inputs[:3])
    if x is None or scale is None or zero is None:
        return None
    with np.errstate(all="ignore"):
        twice = 2 * (x / scale + zero)
        near = np.abs(twice - np.rint(twice)) <= _NEAR * np.maximum(np.abs(twice), 1)
        if _rounds_to_nearest(node):
            near &= np.rint(twice) % 2 != 0
    places = np.argwhere(near)
    folded = folded_quantizer(node) if len(places) else None
    if folded is None or folded.shape != x.shape:
        return None
    meant = _exact_levels(node, places, folded.dtype)
    if isinstance(meant, str):
        return meant
    steps = np.abs(np.broadcast_to(scale, x.shape)[near]) / 2
    wrong = np.abs(meant - folded[near].astype(np.float64)) > steps
    if not wrong.any():
        return None
    settled = x.copy()
    settled[tuple(places[wrong].T)] = (meant if semantics == "exact" else folded[near])[wrong]
    return settled


def _rounds_to_nearest(node: ir.Node) -> bool:
    return node.op_type != "Trunc" and node.attributes.get_string("rounding_mode", "ROUND").upper() in (
        "ROUND",
        "HALF_EVEN",
        "HALF_UP",
        "HALF_DOWN",
    )


def _exact_levels(node: ir.Node, places: np.ndarray, dtype: np.dtype[np.floating]) -> np.ndarray | str:
    """Return the exact rounding results of the quotients at some indices.

    Doubles suffice for floats: a quotient that is not a multiple of 1/2 is further from one than ``2**-26``.
    """
    definition, arrays = definition_of(node), [constant(value) for value in node.inputs]
    assert isinstance(definition, Quantizer)
    given = [array for array in arrays if array is not None]
    shape = given[0].shape
    if all(array.dtype == np.float32 for array in given[:2]) and (given[2] == np.rint(given[2])).all():
        index = tuple(places.T)
        taken = [np.broadcast_to(array, shape)[index].astype(np.float64) for array in given]
        return np.asarray(definition.compute(taken, definition.checked(node)))
    if len(places) > _MOST:
        return "its parameters are not float32 with integer zero points"
    found: list[float] = []
    for place in places:
        arithmetic = ExactArithmetic(tuple(int(at) for at in place))
        try:
            found.append(float(apply(arithmetic, node, {}).item()))
        except (UnknownOperatorError, ArithmeticError) as error:
            return str(error)
    return np.array(found).astype(dtype)
