"""Lower Quant to QuantizeLinear, Clip and DequantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.core.options import option
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.traits import is_product
from onnx_passes.numbers.rounding import round_numpy
from onnx_passes.passes.export.targets import HELP, TARGETS, Target, strangers, target_of
from onnx_passes.passes.qonnx.inline_qonnx import InlineQonnx
from onnx_passes.passes.quant.linear import Linear, argument, dequantized, sizes_of, steps
from onnx_passes.passes.quant.quantizer import DOMAIN, QuantParameters, quantizer_of
from onnx_passes.passes.quant.samples import QUANT
from onnx_passes.passes.quant.widths import Width, type_bounds
from onnx_passes.rewrite.node_rule import node_rule
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no
from onnx_passes.rewrite.rule import Rule
from onnx_passes.rewrite.source import source_of

_LEAST = 13
"""The first opset with per-channel scales, and with Clip of 8-bit integers."""
_OPTIMIZED = (
    "verification runs ONNX Runtime with optimizations off; by default it computes layers between DequantizeLinear and "
    "QuantizeLinear in integers, and results differ by levels: compare them on your data, or set the session option "
    "session.disable_quant_qdq=1, which leaves differences of float rounding"
)


@passes.verify.tolerance
@passes.register(tags=("quant",))
class ConvertToQcdq(Transformation, RewriteRuleSetPass):
    """Lower Quant to QuantizeLinear and DequantizeLinear, with Clip between them for uncommon bit widths.

    Quantizers that QuantizeLinear cannot express become other standard operators, so that the file loads wherever
    these are known; they are counted at the end of the run, with the reasons. Parameters that are inputs with a
    default become constants.

    Rewrites: ``Quant(x)`` → ``DequantizeLinear(Clip(QuantizeLinear(x)))`` of int8 or uint8, and of int16 or uint16 for
              exactly 16 bits; of a constant → ``DequantizeLinear(Clip(w))`` of integers, int32 for more than 8 bits,
              also ``BipolarQuant(w)``. Other operators of QONNX are lowered as by inline-qonnx, unless ``rest`` is
              ``keep``. ``convert-qcdq`` restores the same widths, scales and zero points.
    Refuses:  quantizers that QuantizeLinear cannot express: rounding other than half to even, zero points, which Quant
              adds before it rounds, unless ``asymmetric``, one signed bit, other numbers of bits; constants may have
              these, except for more than 32 bits and zero points that are not integers of the type. Trunc, FloatQuant
              and thresholds. Parameters that are computed or vary along several axes; an unknown shape with per-channel
              scales; opsets below 13, and below 21 for 16 bits; types to which the ``target`` does not quantize.
    Exactness:equal, but no zeros are negative, and NaN becomes the least integer, with optimizations of ONNX Runtime
              off, as in verification; its default ones compute between DequantizeLinear and QuantizeLinear in integers,
              and round elsewhere. ``asymmetric`` quantizers are one step off at and next to ties, which verification
              rejects. Rounding modes and one-bit signedness of constants are lost, as the integers already include
              their effect.
    """

    needs = ("remove-initializers-from-inputs", "import-qonnx", "shape-inference")
    fast_math = ("nnan", "nsz")
    fuzz_hints = MappingProxyType({"models": QUANT})
    converts = MappingProxyType(
        {
            "BipolarQuant": "",
            "FloatQuant": "it rounds to floats, and QuantizeLinear to integers",
            "MultiThreshold": "thresholds are not a quantizer: run convert-thresholds-to-quant first",
            "Quant": "",
            "Trunc": "QuantizeLinear does not truncate",
        }
    )

    int4: bool = option(default=False, help="use int4 and uint4 for exactly 4 bits, which needs opset 21")

    asymmetric: bool = option(
        default=False, help="also convert activations with integer zero points; ties then round differently"
    )

    target: str = option("onnxruntime", HELP)

    rest: Literal["lower", "keep"] = option(
        "lower", "operators that QuantizeLinear cannot express: lower them to standard ones, or keep"
    )

    def __post_init__(self) -> None:
        """Refuse an unknown target."""
        target_of(self.target)

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Convert the quantizers, lower the rest, and note types that the target does not support."""
        modified = super().run(model, context).modified
        if self.rest == "lower" and InlineQonnx().run(model, context).modified:
            context.note("quantizers that QuantizeLinear cannot express were lowered to other standard operators")
            modified = True
        if modified and self.target == "onnxruntime" and any(map(_is_fused, model.graph.all_nodes())):
            context.note(_OPTIMIZED)
        for note in strangers(model, target_of(self.target)).notes():
            context.note(note)
        return PassResult(model, modified)

    def rules(self) -> Sequence[Rule]:
        """Return the rules of the quantizers, under the names that they have after import."""
        target = target_of(self.target)

        def quantized(op: Builder, node: ir.Node) -> Rewritten:
            return _linear_form(op, node, int4=self.int4, asymmetric=self.asymmetric, target=target)

        return [
            node_rule("Quant", quantized, domain=DOMAIN, source=source_of(_linear_form)),
            node_rule("BipolarQuant", _signs, domain=DOMAIN),
        ]


def _is_fused(node: ir.Node) -> bool:
    """Return whether default sessions compute a node in integers: between quantizers, or as a product."""
    quantized = [other for other in node.predecessors() if other.op_type == "DequantizeLinear"]
    if all(constant(other.inputs[0]) is not None for other in quantized):
        return False
    return is_product(node) or any(other.op_type == "QuantizeLinear" for other in node.successors())


def _signs(op: Builder, node: ir.Node) -> Rewritten:
    """Store the signs of a constant as integers."""
    x, scale = node.inputs
    values, held = constant(x), constant(scale)
    if x is None or values is None:
        return no("one signed bit is -1 or 1, and QuantizeLinear has zero as well", at=node)
    if held is None or values.dtype != np.float32:
        return no("the scale is not constant, or the input not in single precision", at=node)
    zero, width = np.zeros((), np.float32), Width(1, signed=True, narrow=False)
    linear = _linear(QuantParameters(held, zero, width, "ROUND", held.shape), values.shape, node)
    storage = storage_of(width, op.opset, of_constant=True, int4=False, target=TARGETS["onnxruntime"])
    if isinstance(linear, Refusal):
        return linear
    if isinstance(storage, Refusal):
        return storage
    return _stored(op, x, np.where(values >= 0, 1, -1), linear, storage)


def _linear_form(op: Builder, node: ir.Node, *, int4: bool, asymmetric: bool, target: Target) -> Rewritten:
    x, given = argument(node, 0), quantizer_of(node)
    if isinstance(given, Refusal):
        return given
    values = constant(x)
    if x is None or (x.dtype if values is None else ir.DataType.from_numpy(values.dtype)) is not ir.DataType.FLOAT:
        return no("the input is not known to be in single precision", at=x)
    if values is None and given.rounding != "ROUND":
        return no(f"it rounds by {given.rounding}, QuantizeLinear half to even", at=node)
    if values is None and given.zero.any() and not asymmetric:
        return no("it has a zero point, which QuantizeLinear adds after rounding", at=node)
    linear = _linear(given, sizes_of(x) if values is None else values.shape, node)
    storage = storage_of(given.width, op.opset, of_constant=values is not None, int4=int4, target=target)
    for refusal in (linear, storage):
        if isinstance(refusal, Refusal):
            return refusal
    assert isinstance(linear, Linear)
    assert isinstance(storage, Storage)
    refusal = _misfit(linear, storage, node)
    if refusal is not None:
        return refusal
    if op.opset < _LEAST:
        return no(f"it needs opset {_LEAST}: convert-opset{{version={_LEAST}}} first", at=node)
    if values is None:
        return _quantized(op, x, linear, storage)
    return _constant(op, x, values, given, linear, storage)


def _linear(given: QuantParameters, sizes: Sequence[int | None] | None, node: ir.Node) -> Linear | Refusal:
    """Return scales and zero points as vectors along their axis, or the reason why that is impossible."""
    if not np.array_equal(given.zero, np.rint(given.zero)):
        return no("the zero point is not an integer", at=node)
    if not (np.isfinite(given.scale).all() and (given.scale > 0).all()) or given.scale.dtype != np.float32:
        return no("a scale is not a positive number in single precision", at=node)
    shape = given.shape
    if shape and (sizes is None or len(sizes) < len(shape)):
        reason = "the rank is not known" if sizes is None else "the parameters have a higher rank than the input"
        return no(f"{reason}, so that parameters cannot be put on their axis", at=node)
    axes = [axis for axis, size in enumerate(shape, -len(shape)) if size != 1]
    if len(axes) > 1:
        return no("scales and zero points vary along several axes", at=node)
    scale, zero = (np.broadcast_to(array, shape).reshape(-1) for array in (given.scale, given.zero.astype(np.int64)))
    if not axes:
        return Linear(scale.reshape(()), zero.reshape(()), 0)
    assert sizes is not None
    if sizes[axes[0]] != scale.size:
        return no("it is not known to have as many channels as there are scales", at=node)
    return Linear(scale, zero, len(sizes) + axes[0])


def _misfit(linear: Linear, storage: Storage, node: ir.Node) -> Refusal | None:
    """Return the reason if the type cannot hold the zero points."""
    least, greatest = type_bounds(storage.dtype)
    if linear.zero.any() and storage.dtype is ir.DataType.INT32:
        return no("DequantizeLinear of int32 takes no zero point", at=node)
    if linear.zero.min() < least or linear.zero.max() > greatest:
        return no(f"the zero point does not fit into {storage.dtype.name}", at=node)
    return None


def _quantized(op: Builder, x: ir.Value, linear: Linear, storage: Storage) -> Rewritten:
    """Build QuantizeLinear, Clip and DequantizeLinear of a value."""
    parameters = _parameters(op, linear, storage)
    axis = linear.axis if linear.is_per_channel else None
    integers = op.QuantizeLinear(x, *parameters, axis=axis)
    return op.DequantizeLinear(_clipped(op, integers, storage), *parameters, axis=axis)


def _constant(
    op: Builder, x: ir.Value, values: np.ndarray, given: QuantParameters, linear: Linear, storage: Storage
) -> ir.Value | Refusal:
    """Build the integers of a constant, and their DequantizeLinear."""
    scale, zero = linear.spread(values.ndim)
    shifted = steps(values, scale, zero, given.width.bounds)
    if given.width.is_bipolar:
        with np.errstate(all="ignore"):
            rounded = np.where(values / scale + zero.astype(np.float32) >= 0, np.float32(1), np.float32(-1))
    else:
        rounded = round_numpy(given.rounding, shifted)
    if not np.isfinite(rounded).all():
        return no("a constant is not a number", at=x)
    low, high = storage.bounds
    integers = np.clip(rounded.astype(np.int64), low, high)
    if not np.array_equal(dequantized(integers, scale, zero), (rounded - zero.astype(np.float32)) * scale):
        return no("the integers are too large for single precision", at=x)
    return _stored(op, x, integers, linear, storage)


def _stored(op: Builder, x: ir.Value, integers: np.ndarray, linear: Linear, storage: Storage) -> ir.Value:
    held = op.initializer(_tensor(integers, storage.dtype), f"{x.name}_quantized")
    axis = linear.axis if linear.is_per_channel else None
    return op.DequantizeLinear(_clipped(op, held, storage), *_parameters(op, linear, storage), axis=axis)


def _clipped(op: Builder, integers: ir.Value, storage: Storage) -> ir.Value:
    if not storage.has_to_clip:
        return integers
    low, high = (np.array(bound, storage.dtype.numpy()) for bound in storage.bounds)
    return op.Clip(integers, low, high)


def _parameters(op: Builder, linear: Linear, storage: Storage) -> tuple[ir.Value, ir.Value]:
    return op.initializer(linear.scale, "scale"), op.initializer(_tensor(linear.zero, storage.dtype), "zero_point")


def _tensor(integers: np.ndarray, dtype: ir.DataType) -> ir.TensorProtocol:
    return ir.Tensor(integers.astype(dtype.numpy()), dtype=dtype)


_SMALL_TYPES = 21
"""The first opset with 4-bit and 16-bit types in QuantizeLinear and DequantizeLinear."""


class Storage(NamedTuple):
    """An integer type, and the range to clip to if it is smaller."""

    dtype: ir.DataType
    bounds: tuple[int, int]

    @property
    def has_to_clip(self) -> bool:
        """Return whether the type has integers outside the bounds."""
        return self.bounds != type_bounds(self.dtype)


def storage_of(width: Width, opset: int, *, of_constant: bool, int4: bool, target: Target) -> Storage | Refusal:
    """Return the storage type of a width: the usual one, or another one that the target supports."""
    found = _usual_storage(width, opset, of_constant=of_constant, int4=int4)
    if of_constant or isinstance(found, Refusal) or target.takes(found.dtype):
        return found
    for dtype in (ir.DataType.UINT8, ir.DataType.INT8):
        least, greatest = type_bounds(dtype)
        if target.takes(dtype) and least <= found.bounds[0] and found.bounds[1] <= greatest:
            return Storage(dtype, found.bounds)
    return no(f"{target.name} has no quantizers of {found.dtype.name}")


def _usual_storage(width: Width, opset: int, *, of_constant: bool, int4: bool) -> Storage | Refusal:
    bounds = (-1, 1) if width.is_bipolar else width.bounds
    if width.is_bipolar and not of_constant:
        return no("one signed bit is -1 or 1, and QuantizeLinear has zero as well")
    whole = opset >= _SMALL_TYPES and not width.narrow
    if width.bits == 4 and whole and int4:
        return Storage(ir.DataType.INT4 if width.signed else ir.DataType.UINT4, bounds)
    if width.bits <= 8:
        return Storage(ir.DataType.INT8 if width.signed else ir.DataType.UINT8, bounds)
    if width.bits == 16 and whole:
        return Storage(ir.DataType.INT16 if width.signed else ir.DataType.UINT16, bounds)
    if of_constant and bounds[1] < 1 << 31:
        return Storage(ir.DataType.INT32, bounds)
    if width.bits == 16:
        reason = "ONNX Runtime does not clip them" if width.narrow else f"convert-opset{{version={_SMALL_TYPES}}} first"
        return no(f"16 bits need {'their full range' if width.narrow else f'opset {_SMALL_TYPES}'}: {reason}")
    return no(f"QuantizeLinear has no type of {width.bits} bits")
