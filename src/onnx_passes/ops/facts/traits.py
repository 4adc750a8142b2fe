"""Traits of the operators of ONNX and ONNX Runtime, and the inputs whose elements decide about shapes."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from onnx_passes.graph.operators import Interface
from onnx_passes.graph.traits import TRAITS, Kind, Traits


def _unary(*names: str, **traits: object) -> dict[str, Traits]:
    return {name: Traits("elementwise", 1, **traits) for name in names}  # pyright: ignore[reportArgumentType]


def _binary(*names: str, **traits: object) -> dict[str, Traits]:
    return {name: Traits("elementwise", 2, **traits) for name in names}  # pyright: ignore[reportArgumentType]


def _kind(kind: Kind, *names: str, expensive: bool = False) -> dict[str, Traits]:
    return dict.fromkeys(names, Traits(kind, expensive=expensive))


_ZERO = {"keeps_zero": True}
_PLACE = {"place_dependent": True}
_LAW = {"commutative": True, "associative": True}
_LATTICE = {**_LAW, "exact": True, "idempotent": True}

TRAITS.attach(
    {
        **_unary("Neg", involution=True, exact=True, monotone=-1, parity=-1, undoes="Neg"),
        **_unary("Not", "BitwiseNot", involution=True, exact=True, monotone=-1),
        **_unary("Reciprocal", involution=True, parity=-1, undoes="Reciprocal"),
        **_unary("Abs", **_ZERO, idempotent=True, exact=True, parity=1),
        **_unary("Sign", **_ZERO, idempotent=True, exact=True, monotone=1, parity=-1, decides=True, exact_grid=True),
        **_unary("Ceil", "Floor", **_ZERO, idempotent=True, exact=True, monotone=1, decides=True, exact_grid=True),
        **_unary("Round", **_ZERO, idempotent=True, exact=True, monotone=1, parity=-1, decides=True, exact_grid=True),
        **_unary("Relu", **_ZERO, idempotent=True, exact=True, monotone=1),
        **_unary("Identity", idempotent=True, exact=True, monotone=1, parity=-1),
        **_unary("Exp", **_PLACE, monotone=1, undoes="Log"),
        **_unary("Log", **_PLACE, monotone=1, undoes="Exp"),
        **_unary("Sqrt", **_ZERO, monotone=1),
        **_unary("Erf", "Tanh", "Sinh", "Atan", "Asin", "Asinh", "Atanh", **_ZERO, **_PLACE, monotone=1, parity=-1),
        **_unary("Softsign", **_ZERO, monotone=1, parity=-1),
        **_unary("Sigmoid", "Softplus", "Acosh", **_PLACE, monotone=1),
        **_unary("Elu", "Celu", "Selu", **_ZERO, **_PLACE, monotone=1),
        **_unary("LeakyRelu", **_ZERO, monotone=1),
        **_unary("HardSigmoid", "ThresholdedRelu", monotone=1),
        **_unary("Acos", **_PLACE, monotone=-1),
        **_unary("Sin", "Tan", **_ZERO, **_PLACE, parity=-1),
        **_unary("Cos", "Cosh", **_PLACE, parity=1),
        **_unary("Gelu", **_ZERO, **_PLACE),
        **_unary("Mish", **_PLACE),
        **_unary("HardSwish", "Swish", "Shrink", "Cast", "BitCast", "IsInf", "IsNaN"),
        **_unary("Clip", idempotent=True, monotone=1),
        **_binary("Add", **_LAW, identity=0.0, monotone=1, undoes="Sub"),
        **_binary("Mul", **_LAW, identity=1.0, annihilator=0.0, distributes_over=("Add", "Sub"), undoes="Div"),
        **_binary("Sub", identity=0.0, monotone=1, undoes="Add"),
        **_binary("Div", identity=1.0, distributes_over=("Add", "Sub"), undoes="Mul"),
        **_binary("Pow", **_PLACE, identity=1.0),
        **_binary("Mod", "BitShift", "PRelu"),
        **_binary("And", **_LATTICE, identity=True, annihilator=False, distributes_over=("Or", "Xor")),
        **_binary("Or", **_LATTICE, identity=False, annihilator=True, distributes_over=("And",)),
        **_binary("Xor", **_LAW, exact=True, identity=False, undoes="Xor"),
        **_binary("BitwiseAnd", **_LATTICE, identity=-1, annihilator=0, distributes_over=("BitwiseOr", "BitwiseXor")),
        **_binary("BitwiseOr", **_LATTICE, identity=0, annihilator=-1, distributes_over=("BitwiseAnd",)),
        **_binary("BitwiseXor", **_LAW, exact=True, identity=0, undoes="BitwiseXor"),
        **_binary("Equal", commutative=True, exact=True, converse="Equal"),
        **_binary("Less", exact=True, decides=True, converse="Greater", complement="GreaterOrEqual"),
        **_binary("LessOrEqual", exact=True, decides=True, converse="GreaterOrEqual", complement="Greater"),
        **_binary("Greater", exact=True, decides=True, converse="Less", complement="LessOrEqual"),
        **_binary("GreaterOrEqual", exact=True, decides=True, converse="LessOrEqual", complement="Less"),
        "Max": Traits("elementwise", 0, **_LATTICE, **_PLACE, monotone=1),  # pyright: ignore[reportArgumentType]
        "Min": Traits("elementwise", 0, **_LATTICE, **_PLACE, monotone=1),  # pyright: ignore[reportArgumentType]
        "Sum": Traits("elementwise", 0, commutative=True, associative=True, identity=0.0, monotone=1),
        "Mean": Traits("elementwise", 0, commutative=True, monotone=1),
        "DequantizeLinear": Traits(exact_grid=True),
        "Where": Traits("elementwise", 3, place_dependent=True),
        **_kind(
            "reduction", "ArgMax", "ArgMin", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax"
        ),
        **_kind("reduction", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
        **_kind("pooling", "AveragePool", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "LpPool", "MaxPool"),
        **_kind(
            "movement", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Pad"
        ),
        **_kind("movement", "Reshape", "ReverseSequence", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile"),
        **_kind("movement", "Transpose", "Trilu", "Unsqueeze"),
        **_kind("normalization", "BatchNormalization", "GroupNormalization", "InstanceNormalization", "LRN"),
        **_kind("normalization", "LayerNormalization", "LpNormalization", "MeanVarianceNormalization"),
        **_kind("normalization", "RMSNormalization", "Hardmax", "LogSoftmax", "Softmax"),
        **_kind(
            "product",
            "Conv",
            "ConvInteger",
            "ConvTranspose",
            "Einsum",
            "Gemm",
            "MatMul",
            "MatMulInteger",
            expensive=True,
        ),
        **_kind(
            "other", "Attention", "DFT", "DeformConv", "GRU", "If", "LSTM", "Loop", "NonMaxSuppression", expensive=True
        ),
        **_kind(
            "other", "QLinearConv", "QLinearMatMul", "RNN", "Resize", "RoiAlign", "STFT", "Scan", "TopK", expensive=True
        ),
    }
)
TRAITS.attach(
    _kind(
        "normalization",
        *("EmbedLayerNormalization", "GroupNorm", "SimplifiedLayerNormalization", "SkipGroupNorm"),
        *("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"),
        expensive=True,
    ),
    domains=("com.microsoft",),
)


SHAPE_INPUTS: Interface[Collection[int]] = Interface("sizes", "which inputs decide about the shapes of its results")
SHAPE_INPUTS.attach(
    {
        **dict.fromkeys(("ConstantOfShape", "NonZero", "Unique"), (0,)),
        **dict.fromkeys(("Compress", "Expand", "OneHot", "Reshape", "Split", "SplitToSequence", "TopK"), (1,)),
        **dict.fromkeys(("AffineGrid", "CenterCropPad", "Squeeze", "Unsqueeze", "Upsample"), (1,)),
        **{f"Reduce{name}": (1,) for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum")},
        "ReduceSumSquare": (1,),
        **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), (0,)),
        "Col2Im": (1, 2),
        "DFT": (1,),
        "MaxUnpool": (2,),
        "MelWeightMatrix": (0, 1),
        "NonMaxSuppression": (0, 1, 2, 3, 4),
        "Pad": (1, 3),
        "Range": (0, 1, 2),
        "Resize": (1, 2, 3),
        "STFT": (1, 3),
        "Slice": (1, 2, 3, 4),
        "Tile": (1, 2),
    }
)


def decides_size(node: ir.Node, index: int) -> bool:
    """Return whether the elements of an input decide about the shape of a result."""
    return index in (SHAPE_INPUTS.get(node) or ())
