"""Remove Dropout outside of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arguments import argument
from onnx_passes.graph.constants import holds_only
from onnx_passes.passes.eliminate.forms import examples
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_WITHOUT_TRAINING, _MASK_IS_BOOLEAN = 7, 10


@passes.verify.equality
@passes.register("eliminate")
class EliminateDropout(Transformation, RewriteRuleSetPass):
    """Remove Dropout that is not in training mode.

    Rewrites: ``Dropout(x)`` → ``x``; its mask, where it is used → ``true`` everywhere.
    Refuses:  a training mode that is computed, true, or may be overridden; opsets below 7 (and, if the mask is used,
              below 10), where training is an attribute.
    Exactness: bit-exact.
    """

    fuzz_hints: ClassVar[Mapping[str, Any]] = examples(
        "g (float[2,3] x) => (float[2,3] y, bool[2,3] m) {y, m = Dropout (x)}",
        "g (float x, float r) => (float y, bool m) <bool t = {0}> {y, m = Dropout (x, r, t)}",
        "g (float16[N] x) => (float16[N] y, m) <float r = {0.3}> {a, b = Dropout (x, r) y = Neg (a) m = Not (b)}",
        "g (double[0,2] x) => (double[0,2] y, bool[0,2] m) {y, m = Dropout (x)}",
    )

    def rules(self) -> Sequence[Rule]:
        """Return the rules with and without the mask."""
        return [
            Rule(_value, _keep_value, _check_value, name="Dropout"),
            Rule(_value_and_mask, _keep_both, _check_mask, name="DropoutWithMask"),
        ]


def _value(op: Any, x: Any) -> Any:
    return op.Dropout(x, _allow_other_inputs=True)


def _value_and_mask(op: Any, x: Any) -> Any:
    return op.Dropout(x, _allow_other_inputs=True, _outputs=["value", "mask"])


def _keep_value(op: Any, x: ir.Value) -> Any:
    return x


def _keep_both(op: Any, x: ir.Value) -> Any:
    return x, op.Expand(np.array(True), op.Shape(x))


def _check_value(op: Match) -> Any:
    return _is_inactive(op, _WITHOUT_TRAINING)


def _check_mask(op: Match) -> Any:
    return _is_inactive(op, _MASK_IS_BOOLEAN)


def _is_inactive(match: Match, since: int) -> Any:
    training = argument(match.root, 2)
    if match.graph_or_function.opset_imports.get("", 1) < since:
        return no("training is an attribute in this opset", at=match.root)
    if training is not None and not holds_only(training, False):
        return no("it may be in training mode", at=training)
    return yes
