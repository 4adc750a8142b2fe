"""Congruence with constants as they are written: functions that runtimes approximate stay unknown, of constants too.

Where one side applies such a function to a constant alone, and the other to a tensor of which the constant is a part,
that shows what computing constants hides.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.proofs.algebra import TooLargeError, UnsupportedError
from onnx_passes.proofs.inputs import interface_difference, paired_inputs, variables
from onnx_passes.proofs.places import assumptions_of
from onnx_passes.proofs.proof import Proof
from onnx_passes.proofs.symbolic import Evaluation
from onnx_passes.proofs.terms import Terms


def prove_unfolded(before: ir.Model, after: ir.Model) -> Proof | None:
    """Prove that all elements of the outputs of two models are the same terms."""
    terms = Terms()
    first, second = (Evaluation(model, terms, fold=False) for model in (before, after))
    try:
        inputs = paired_inputs(before, after)
        made = variables(terms, before)
        a = first.outputs(made)
        b = second.outputs([made[index] for index in inputs])
    except (TooLargeError, UnsupportedError):
        return None
    if interface_difference(before, a, b):
        return None
    same = all((x.elements(terms) == y.elements(terms)).all() for x, y in zip(a, b, strict=True))
    assumed = assumptions_of(terms, first, second)
    return Proof("proved-here", "congruence", assumptions=assumed) if same else None
