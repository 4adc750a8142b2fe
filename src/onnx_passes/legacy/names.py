"""Names of version 0.4, and their replacements."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

_CONSTANTS = "remove-initializers-from-inputs, fold-constants"
WRITTEN: Mapping[str, str] = {
    "inline-qonnx": f"{_CONSTANTS}, inline-qonnx, fold-constants",
    "lower-conv": "lower-conv{im2col=true}",
    "lower-pooling": "lower-pooling{im2col=true}",
}
"""Passes of 0.4 that left another form: with the options, and the passes around them, that give it.

Its inlining computed constants; its lowering made ``Im2Col`` of images with channels last.
"""
_MOVING_TRANSPOSES = ("streamline-thresholds", "streamline")


def written(name: str, text: str, operators: Collection[str]) -> str:
    """Return the text of a pass of 0.4 for a model with certain operators; given options are kept.

    Its streamlining also moved transpositions.
    """
    if name in _MOVING_TRANSPOSES and "Transpose" in operators:
        return f"absorb-layouts, {text}"
    return WRITTEN.get(name, text) if text == name else text


_BOOLEAN = "(Bitwise)?(And|Or|Xor)"
_CLASSES = (
    ("AbsorbMulIntoMatMul", "fuse-scale"),
    ("AbsorbTransposeIntoLayoutConverter", "absorb-transpose-into-layout"),
    ("Absorb(Neg|Mul|Clip|Relu|Sigmoid|Silu|Square|Exp|Log)IntoComparison", "absorb-into-comparison"),
    ("(AveragePoolToReduceSum|MaxPoolToReduceMax|ExplicitGlobal(Average|Max|Lp)Pool)", "lower-pooling"),
    ("CleanupRangeAnnotation", "cleanup"),
    ("ConvToMatMul", "lower-conv"),
    ("ConvertDivToMul", "convert-div"),
    ("ConvertLess(OrEqual)?ToGreater(OrEqual)?", "order-comparison"),
    ("ConvertNegToMul", "convert-neg"),
    ("ConvertRoundToThresholds", "infer-thresholds"),
    ("(ConvertSubToAdd|SwapAntiCommutativeSub)", "convert-sub"),
    (r"ConvertVersion(?P<version>1[89]|2[0-3])", r"convert-opset\g<version>"),
    ("(Convert(Flatten|Squeeze|Unsqueeze)|ExplicitAllowzero|EliminateIdentity|Fuse)(To)?Reshape", "eliminate-reshape"),
    ("(ConvertAddToMul|DistributiveMulAdd)", "factorize"),
    ("Convert(Bitwise)?XorTo(Bitwise)?Not", "absorb-not"),
    ("DeMorgan(Bitwise|Boolean)", "absorb-not"),
    ("Distributive(And|Or|Max|Min|Bitwise|MatMul).*", "algebraic"),
    (f"Eliminate(Abs|Ceil|Floor|Round|{_BOOLEAN})", "eliminate-idempotence"),
    ("Eliminate(Neg|Reciprocal|Not|BitwiseNot)", "eliminate-involution"),
    ("EliminateAbsorption(Bitwise|MinMax)", "eliminate-absorption"),
    ("Eliminate(Add|Infinity)?(From)?Comparison", "algebraic"),
    (f"EliminateAnnihilator(Mul|{_BOOLEAN})", "eliminate-annihilator"),
    (f"EliminateComplementation(Add|Sub|Mul|Div|{_BOOLEAN})", "eliminate-complement"),
    (f"EliminateIdentity(Add|Sub|Mul|Div|BitShift|MatMul[LR]hs|{_BOOLEAN})", "eliminate-neutral-element"),
    ("EliminateIdentityCast(Like)?", "eliminate-cast"),
    ("EliminateIdentity(?P<operator>Expand|Reduce|Slice|Transpose)", r"Eliminate\g<operator>"),
    ("EliminateIdentityIm2Col", "eliminate"),
    ("EliminateWhere[LR]hs", "eliminate-where"),
    ("ExtractCommonScaleFrom(MatMul|Gather)", "factorize"),
    ("FoldConstantQONNXQuant", "fold-quantized-weights"),
    ("FoldConstant(Shape|Size)", "fold-shapes"),
    ("FuseThresholdSegments", "fuse-thresholds"),
    ("(FuseTranspose|InferTransposePerm)", "eliminate-transpose"),
    ("GiveUniqueNames", "unique-names"),
    ("GroupAddComparison", "absorb-into-comparison"),
    (f"Group(Add|Mul|Max|Min|{_BOOLEAN})", "group-constants"),
    ("InferSqueezeAxes", "eliminate-squeeze"),
    ("InjectCustomOps", "inject-ops"),
    ("InlineQONNXQuant", "inline-qonnx"),
    ("InlineUnitThresholds", "inline-thresholds"),
    ("Lift(Constants|Subgraph)(To)?Initializers(ToMainGraph)?", "lift-constants"),
    ("MoveElementwisePastConcat", "move-concat-up"),
    (r"Move\w+Past(Slice|Split)", "move-selection-up"),
    (r"MoveMulPast\w+", "move-scale-down"),
    ("Move(Bitwise)?NotPast(Bitwise)?Xor", "absorb-not"),
    (r"MoveTransposePast\w+", "move-transpose-down"),
    (r"Move\w+Past(Transpose|Reshape|Im2Col)", "reorder"),
    (r"MoveAddPast\w+", "algebraic"),
    ("MoveSplitPastElementwise", "move-selection-up"),
    ("Threshold(Granularity|Monotonicity|Multiplicity)Decomposition", "decompose-thresholds"),
    ("Unbroadcast(Elementwise|Thresholds)", "unbroadcast"),
    ("Verify(Equality|Metric|Tolerance)", "verify"),
)
"""Classes of 0.4, one for each operator, and the pass or group that replaces them."""


def renamed(name: str) -> str | None:
    """Return the current name of a class of version 0.4; None for unknown names."""
    for pattern, text in _CLASSES:
        found = re.fullmatch(pattern, name)
        if found is not None:
            return found.expand(text)
    return None
