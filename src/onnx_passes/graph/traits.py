"""What operators have in common, in one table, so that rules need not name them one by one.

Algebraic traits hold for real numbers; ``exact`` says that they also hold
bit by bit in floating point, except that ONNX Runtime decides between zeros of different sign by their order in Max and
Min. On integers elementwise operators wrap around and are exact; ONNX Runtime's integer sums and products are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import onnx_ir as ir

from onnx_passes.graph.operators import Interface

Number = bool | float
Kind = Literal["elementwise", "reduction", "pooling", "movement", "normalization", "product", "other"]


@dataclass(frozen=True)
class Traits:
    """What is known of one operator.

    A ``product`` does nothing but multiply and add up, so that integers stay integers; a ``normalization`` gives groups
    of elements a common size.
    ``arity`` counts the inputs that are broadcast against each other (0: any number). ``identity`` leaves the other
    input as it is, from the right only if not ``commutative``; ``annihilator`` is the result whatever the other input
    is. ``idempotent`` means ``f(f(x)) = f(x)``, with two inputs ``f(x, x) = x``; ``involution`` means ``f(f(x)) = x``.
    ``monotone`` is 1 if the result grows with the first input, -1 if it falls, 0 if neither. ``parity`` is -1 if
    ``f(-x) = -f(x)``, 1 if ``f(-x) = f(x)``. ``converse`` is the comparison with swapped inputs, ``complement`` the
    one that holds exactly when this one does not (NaN apart). ``undoes`` names the operator that takes it back. No rule
    duplicates what is ``expensive`` just to get past a fork. What
    ``decides`` has a result that jumps where its inputs move by the last bit; one of ``exact_grid`` holds exactly what
    its grid says, whatever was rounded before. ``keeps_zero`` means that zero becomes zero, of the same sign and type.
    What is ``place_dependent`` gives an element other bits elsewhere in memory: vectorised code rounds functions that
    are approximated differently from that for the elements left over, and some of the loops that broadcast lose the
    sign of zeros.
    """

    kind: Kind = "other"
    arity: int = 1
    commutative: bool = False
    associative: bool = False
    exact: bool = False
    idempotent: bool = False
    involution: bool = False
    monotone: int = 0
    parity: int = 0
    identity: Number | None = None
    annihilator: Number | None = None
    distributes_over: tuple[str, ...] = ()
    undoes: str = ""
    converse: str = ""
    complement: str = ""
    expensive: bool = False
    decides: bool = False
    exact_grid: bool = False
    keeps_zero: bool = False
    place_dependent: bool = False


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

TRAITS: Interface[Traits] = Interface(
    "traits",
    "what it has in common with other operators, such as its algebra",
    "onnx_passes.ops.channels_last",
    "onnx_passes.ops.xnor_popcount_matmul",
)
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

_NOTHING = Traits()


def traits_of(node: ir.Node | str) -> Traits:
    """Return what is known of an operator; a name alone is one of ONNX itself."""
    return (TRAITS.named(node) if isinstance(node, str) else TRAITS.get(node)) or _NOTHING


def operators(kind: Kind | None = None, *, arity: int | None = None, **traits: object) -> tuple[str, ...]:
    """List the standard operators that have all given traits: ``operators("elementwise", arity=1, exact=True)``."""
    return tuple(
        name
        for name, known in TRAITS.standard().items()
        if (kind is None or known.kind == kind)
        and (arity is None or known.arity == arity)
        and all(getattr(known, trait) == value for trait, value in traits.items())
    )


def is_elementwise(node: ir.Node) -> bool:
    """Tell whether every element of the result depends on one element of each input, broadcast."""
    return traits_of(node).kind == "elementwise"


def is_commutative(domain: str, op_type: str) -> bool:
    """Tell whether the inputs of an operator may be swapped."""
    found = TRAITS.named(op_type, domain)
    return found is not None and found.commutative


def is_cheap(node: ir.Node) -> bool:
    """Tell whether computing a node twice costs little; operators that nothing is known of are if they are standard."""
    found = TRAITS.get(node)
    return node.domain == "" if found is None else not found.expensive


def is_product(node: ir.Node) -> bool:
    """Tell whether a node does nothing but multiply and add up."""
    return traits_of(node).kind == "product"
