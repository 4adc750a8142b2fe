"""Congruence with constants as they are written: functions that runtimes approximate stay unknown, of constants too.

Where one side applies such a function to a constant alone, and the other to a tensor of which the constant is a part,
that shows what computing constants hides.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.proofs.algebra import TooLargeError, UnsupportedError
from onnx_passes.proofs.inputs import interface_difference, paired_inputs, variables
from onnx_passes.proofs.symbolic import Evaluation
from onnx_passes.proofs.terms import Terms


def same_unfolded(before: ir.Model, after: ir.Model) -> bool:
    """Tell whether all elements of the outputs of two models are the same terms."""
    terms = Terms()
    try:
        inputs = paired_inputs(before, after)
        made = variables(terms, before)
        a = Evaluation(before, terms, fold=False).outputs(made)
        b = Evaluation(after, terms, fold=False).outputs([made[index] for index in inputs])
    except (TooLargeError, UnsupportedError):
        return False
    if interface_difference(before, a, b):
        return False
    return all((x.elements(terms) == y.elements(terms)).all() for x, y in zip(a, b, strict=True))
