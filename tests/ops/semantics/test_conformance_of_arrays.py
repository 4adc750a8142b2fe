"""Semantics of operators on whole arrays, on special values of all types, against ONNX Runtime and the reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from onnx_passes.numbers.algebra import TooLargeError, UnsupportedError
from onnx_passes.ops.number_systems import values
from onnx_passes.ops.number_systems.terms import Terms
from onnx_passes.ops.semantics.evaluation import Evaluation
from onnx_passes.proofs.runs import Runner
from onnx_passes.proofs.samples import variables
from tests.helpers.thorough import some

_NEWEST = 23
_SAMPLES = 6


_REFERENCE_DIFFERS = {
    "AveragePool": "it passes over NaN",
    "ConvTranspose": "it does not multiply the zeros between elements",
    "Gemm": "it multiplies integers as floats",
    "GlobalMaxPool": "it returns NaN",
    "LpPool": "it passes over NaN, and counts padding",
    "MaxPool": "it passes over NaN, and has other sizes for SAME_LOWER",
    "OneHot": "it adds the difference of both values",
    "QuantizeLinear": "it casts infinities to integers",
    "ReduceL1": "it wraps integers around",
    "ReduceL2": "it wraps integers around",
    "ReduceMax": "it returns NaN",
    "ReduceMean": "it divides as floats",
    "ReduceMin": "it returns NaN",
    "ReduceSumSquare": "it computes in other types",
}
_ORDINARY_ONLY = {
    "ConvTranspose": "ONNX Runtime does not multiply the zeros between elements with infinite weights",
    "MaxPool": "ONNX Runtime passes over NaN in some places only, which proofs assume",
}
"""Operators of floats that are compared on finite numbers."""
_ROUNDED_INSIDE = (("CumSum", "float16"), ("QuantizeLinear", "given"))
"""Operators that ONNX Runtime computes in float32 where models have float16, which certificates assume."""


class Free(NamedTuple):
    """An input of the graph; of the type of the case, unless another one is named."""

    shape: tuple[int, ...]
    dtype: str = ""


class Like(NamedTuple):
    """A constant of the type of the case."""

    numbers: Any


@dataclass(frozen=True)
class Use:
    """One way to use an operator: its operands, of which arrays are constants as they are, and its attributes."""

    operands: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1


def _ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def _uses() -> Iterator[tuple[str, Use]]:
    yield from _reductions()
    yield from _pooling()
    yield from _products()
    yield from _indexing()
    yield from _quantizers()


def _reductions() -> Iterator[tuple[str, Use]]:
    x = Free((2, 3, 2))
    for name in ("Sum", "Mean", "Max", "Min", "Prod", "SumSquare", "L1", "L2", "LogSum", "LogSumExp"):
        yield f"Reduce{name}", Use((x,))
        yield f"Reduce{name}", Use((x,), {"axes": [1], "keepdims": 0})
        yield f"Reduce{name}", Use((x, _ints(-1)), {"keepdims": 0})
        yield f"Reduce{name}", Use((x, _ints(0, 2)))
        yield f"Reduce{name}", Use((x, _ints()), {"noop_with_empty_axes": 1})
        yield f"Reduce{name}", Use((Free(()),), {"keepdims": 0})
        yield f"Reduce{name}", Use((Free((2, 0)), _ints(1)))
    for name in ("ArgMax", "ArgMin"):
        yield name, Use((x,), {"axis": 1})
        yield name, Use((x,), {"axis": -1, "keepdims": 0, "select_last_index": 1})
    for attributes in ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}):
        yield "CumSum", Use((x, np.array(1, np.int64)), attributes)
    yield "TopK", Use((x, _ints(2)), {"axis": 1}, 2)
    yield "TopK", Use((x, _ints(2)), {"axis": 1, "largest": 0}, 2)


def _pooling() -> Iterator[tuple[str, Use]]:
    image, line = Free((1, 2, 4, 5)), Free((1, 1, 7))
    ways: list[dict[str, Any]] = [
        {"kernel_shape": [2, 2]},
        {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 0, 0, 2]},
        {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1], "ceil_mode": 1},
        {"kernel_shape": [2, 2], "dilations": [2, 1]},
        {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"},
        {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"kernel_shape": [2, 2], "auto_pad": "VALID"},
    ]
    for way in ways:
        yield "MaxPool", Use((image,), way)
        yield "AveragePool", Use((image,), way)
        yield "AveragePool", Use((image,), {**way, "count_include_pad": 1})
        yield "LpPool", Use((image,), way)
    yield "MaxPool", Use((line,), {"kernel_shape": [3], "strides": [3], "ceil_mode": 1})
    yield "AveragePool", Use((line,), {"kernel_shape": [3], "strides": [3], "ceil_mode": 1, "count_include_pad": 1})
    yield "LpPool", Use((line,), {"kernel_shape": [2], "p": 1})
    for name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        yield name, Use((image,))


def _products() -> Iterator[tuple[str, Use]]:
    a, b = Free((2, 3)), Free((3, 2))
    yield "MatMul", Use((a, b))
    yield "MatMul", Use((Free((3,)), Free((2, 3, 2))))
    yield "MatMul", Use((Free((2, 1, 2, 3)), Free((2, 3, 1))))
    yield "Gemm", Use((a, b, Free((2,))), {"alpha": 0.5, "beta": -2.0})
    yield "Gemm", Use((b, Free((2, 3)), Free(())), {"transA": 1, "transB": 1})
    yield "Gemm", Use((b, a))
    image = Free((1, 2, 3, 4))
    for way in ({"pads": [1, 0, 0, 1]}, {"strides": [2, 1]}, {"dilations": [1, 2]}, {"auto_pad": "SAME_LOWER"}):
        yield "Conv", Use((image, Free((2, 2, 2, 2))), way)
        yield "ConvTranspose", Use((image, Free((2, 1, 2, 2))), way)
    yield "Conv", Use((image, Free((4, 1, 2, 2)), Free((4,))), {"group": 2})
    yield (
        "ConvTranspose",
        Use((image, Free((2, 2, 2, 1)), Free((4,))), {"group": 2, "output_padding": [1, 0], "strides": [2, 1]}),
    )
    for first in ("uint8", "int8"):
        rows = (np.array([3, 250 if first == "uint8" else -7], first), np.array(5, "int8"))
        yield "MatMulInteger", Use((Free((2, 3), first), Free((3, 2), "int8")))
        yield "MatMulInteger", Use((Free((2, 3), first), Free((3, 2), "int8"), rows[0][0], rows[1]))
        yield (
            "ConvInteger",
            Use(
                (Free((1, 1, 3, 3), first), Free((1, 1, 2, 2), "uint8"), rows[0][0], np.array(7, "uint8")),
                {"pads": [1, 0, 0, 0]},
            ),
        )
    yield "Einsum", Use((a, b), {"equation": "ij,jk->ki"})


def _indexing() -> Iterator[tuple[str, Use]]:
    x = Free((3, 2, 2))
    yield "Gather", Use((x, np.array([[0, -1], [2, 1]])))
    yield "Gather", Use((x, np.array(-2)), {"axis": 2})
    yield "GatherElements", Use((x, np.array([[[0, -1]], [[2, 1]]])))
    yield "GatherND", Use((x, np.array([[0, -1], [2, 1]])))
    yield "GatherND", Use((x, np.array([2, 0, -1])))
    yield "GatherND", Use((x, np.array([[-1], [0], [1]])), {"batch_dims": 1})
    for how in ("none", "add", "mul", "max", "min"):
        given = {} if how == "none" else {"reduction": how}
        yield "ScatterElements", Use((x, np.array([[[1, -1]]]), Free((1, 1, 2))), given)
        yield "ScatterND", Use((x, np.array([[0, 1], [-1, 0]]), Free((2, 2))), given)
        yield "ScatterND", Use((x, np.array([[0], [0]]), Free((2, 2, 2))), given)
        yield "ScatterElements", Use((x, np.array([[[1, 1]], [[1, 1]]]), Free((2, 1, 2))), {**given, "axis": 0})
    yield "Scatter", Use((x, np.array([[[1, -1]]]), Free((1, 1, 2))))
    yield "Compress", Use((x, np.array([False, True, True])), {"axis": 0})
    yield "Compress", Use((x, np.array([False, True, True, False, True])))
    yield "OneHot", Use((np.array([0, -1, 5, 2]), np.array(3), Free((2,))))
    yield "OneHot", Use((np.array([[1.0, 2.0]], np.float32), np.array([3]), Free((2,))), {"axis": 0})
    yield "Slice", Use((x, _ints(-1), _ints(-9), _ints(0), _ints(-1)))
    yield "Slice", Use((x, _ints(1, 0), _ints(9, -1), _ints(0, 2)))
    yield "Tile", Use((x, _ints(1, 2, 2)))
    yield "Expand", Use((Free((3, 1, 2)), _ints(2, 1, 4, 1)))
    for mode in ("constant", "reflect", "edge", "wrap"):
        yield "Pad", Use((Free((3, 2)), _ints(1, 0, 1, 1), Like(3)), {"mode": mode})
        yield "Pad", Use((Free((3, 2)), _ints(1, 0, -1, 1)), {"mode": mode})
    yield "Trilu", Use((Free((3, 4)), np.array(-1)), {"upper": 1})
    yield "Trilu", Use((Free((3, 4)), np.array(1)), {"upper": 0})
    yield "DepthToSpace", Use((Free((1, 8, 1, 2)),), {"blocksize": 2})
    yield "DepthToSpace", Use((Free((1, 8, 1, 2)),), {"blocksize": 2, "mode": "CRD"})
    yield "SpaceToDepth", Use((Free((1, 1, 4, 2)),), {"blocksize": 2})
    yield "ReverseSequence", Use((x, _ints(1, 3)), {"batch_axis": 1, "time_axis": 0})
    yield "Concat", Use((x, Free((1, 2, 2))), {"axis": 0})
    yield "Split", Use((x, _ints(1, 2)), {"axis": 0}, 2)
    yield "Where", Use((np.array([[True], [False]]), x, Free((2, 2))))


def _quantizers() -> Iterator[tuple[str, Use]]:
    scale, channels = np.array(0.25, np.float32), np.array([0.5, 0.1, 3.0], np.float32)
    for kind in ("uint8", "int8", "uint16", "int16"):
        zero, zeros = np.array(3, kind), np.array([0, 7, 100], kind)
        x, q = Free((3, 4), "float32"), Free((3, 4), kind)
        yield "QuantizeLinear", Use((x, scale, zero))
        yield "QuantizeLinear", Use((x, channels, zeros), {"axis": 0})
        yield "DequantizeLinear", Use((q, scale, zero))
        yield "DequantizeLinear", Use((q, channels, zeros), {"axis": 0})
        yield "DequantizeLinear", Use((q, scale))
        yield "QuantizeLinear", Use((Free((3, 4), "float16"), scale.astype("float16"), zero))
        yield "QuantizeLinear", Use((Free((3, 4), "float16"), scale, zero))
        yield (
            "QuantizeLinear",
            Use((x, np.full((3, 2), 0.5, np.float32), np.full((3, 2), 1, kind)), {"axis": 1, "block_size": 2}),
        )
        yield "QuantizeLinear", Use((x, scale), {"output_dtype": int(ir.DataType[kind.upper()])})
    yield "QuantizeLinear", Use((Free((3, 4), "int32"), scale, np.array(3, "int8")))
    yield "DequantizeLinear", Use((Free((3, 4), "int32"), scale))
    yield "DynamicQuantizeLinear", Use((Free((3, 2), "float32"),), {}, 3)
    for kind in ("uint8", "int8"):
        one, half, zero = np.array(0.5, np.float32), np.array(0.75, np.float32), np.array(4, kind)
        yield "QLinearMatMul", Use((Free((2, 3), kind), one, zero, Free((3, 2), kind), half, zero, one, zero))
        yield "QLinearConv", Use((Free((1, 1, 3, 3), kind), one, zero, Free((1, 1, 2, 2), kind), half, zero, one, zero))


class Case(NamedTuple):
    """A use of an operator at one version, with the type of its operands."""

    op_type: str
    version: int
    dtype: str
    use: Use

    @property
    def name(self) -> str:
        shapes = [tuple(x.shape) if hasattr(x, "shape") else "like" for x in self.use.operands]
        return f"{self.op_type}-{self.version}-{self.dtype}-{shapes}-{self.use.attributes}".replace(" ", "")


_TYPES = (
    "float32",
    "float64",
    "float16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
)


def _cases() -> Iterator[Case]:
    schemas = onnx.defs.get_all_schemas_with_history()
    for op_type, use in _uses():
        versions = {schema.since_version for schema in schemas if schema.name == op_type and not schema.domain}
        is_free = any(isinstance(each, Free) and not each.dtype for each in use.operands)
        for version in sorted({max(each, 7) for each in versions if each <= _NEWEST}):
            schema = onnx.defs.get_schema(op_type, version, "")
            if not schema.deprecated and use.attributes.keys() <= schema.attributes.keys():
                yield from (Case(op_type, version, dtype, use) for dtype in (_TYPES if is_free else ("given",)))


def _model(case: Case) -> onnx.ModelProto | None:
    """Make a model of one node; None if the operator does not take such operands in this version."""
    inputs, held, names = [], [], []
    for place, operand in enumerate(case.use.operands):
        names.append(f"x{place}")
        if isinstance(operand, Free):
            kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(operand.dtype or case.dtype))
            inputs.append(onnx.helper.make_tensor_value_info(names[-1], kind, operand.shape))
        else:
            array = np.array(operand.numbers, case.dtype) if isinstance(operand, Like) else np.asarray(operand)
            held.append(onnx.numpy_helper.from_array(array, names[-1]))
    outputs = [f"y{place}" for place in range(case.use.outputs)]
    node = onnx.helper.make_node(case.op_type, names, outputs, **case.use.attributes)
    graph = onnx.helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name=name) for name in outputs], held)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", case.version)], ir_version=10)
    try:
        model = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return None
    return model


def _sample(shape: Sequence[int], dtype: np.dtype, rng: np.random.Generator, number: int) -> np.ndarray:
    """Draw ordinary numbers, small integers first, then special ones."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        if number < _SAMPLES // 2:
            return rng.integers(max(info.min, -4), 5, shape).astype(dtype)
        return rng.choice(np.array([info.min, info.max, 0, 1, info.max - 1, info.max // 2 + 1], dtype), shape)
    if number < 2:
        return np.asarray(rng.normal(size=shape) * 3).astype(dtype)
    tiny = float(ml_dtypes.finfo(dtype).smallest_normal)
    special = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        0.5,
        2.5,
        tiny,
        *([np.inf, -np.inf] if number >= 3 else []),
        *([np.nan] * (number >= 4)),
    ]
    return rng.choice(np.array(special, dtype), shape)


def _ours(proto: onnx.ModelProto, feeds: Sequence[dict[str, np.ndarray]]) -> tuple[list[Any], Terms] | None:
    """Return for each output its terms, with what they are worth for each sample."""
    terms, model = Terms(most=100_000), ir.from_proto(proto)
    try:
        made = variables(terms, model)
        results = Evaluation(model, terms).outputs(made)
    except (UnsupportedError, TooLargeError):
        return None
    numbers: dict[int, np.ndarray] = {}
    for value, tensor in zip(model.graph.inputs, made, strict=True):
        columns = np.stack([feed[str(value.name)].reshape(-1) for feed in feeds], -1)
        numbers.update(zip(tensor.elements(terms).reshape(-1).tolist(), columns, strict=True))
    found: list[Any] = []
    for result in results:
        roots = result.elements(terms)
        try:
            each = [
                values.compute(terms, [root], numbers or {-1: np.zeros(len(feeds))})
                for root in roots.reshape(-1).tolist()
            ]
        except values.NoValueError:
            return None
        found.append((roots, each, result.dtype))
    return found, terms


def _near(dtype: np.dtype) -> float:
    return 2e-2 if dtype.itemsize < 4 else 1e-4


def _feeds(proto: onnx.ModelProto) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    feeds: list[dict[str, np.ndarray]] = []
    for number in range(_SAMPLES):
        feeds.append({})
        for value in ir.from_proto(proto).graph.inputs:
            assert value.dtype is not None
            assert value.shape is not None
            feeds[-1][str(value.name)] = np.asarray(
                _sample(value.shape.numpy(), np.dtype(value.dtype.numpy()), rng, number)
            )
    return feeds


CASES = list(_cases())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", some(CASES, every=7), ids=lambda case: case.name)
def test_arrays_agree_on_special_values(case: Case):
    proto = _model(case)
    if proto is None:
        pytest.skip("the operator does not take such operands in this version")
    feeds = _feeds(proto)
    ours = _ours(proto, feeds)
    if ours is None:
        pytest.skip("nothing is known of it but that it is a function")
    results, terms = ours
    runner = Runner(ir.from_proto(proto))
    for number, feed in enumerate(feeds):
        is_float = not all(array.dtype.kind in "biu" for array in feed.values())
        overflows = terms.assumed and number >= _SAMPLES // 2
        if is_float and case.op_type in _ORDINARY_ONLY and number >= 3:
            continue
        halves = any(array.dtype == np.float16 for array in feed.values())
        if halves and (case.op_type, case.dtype) in _ROUNDED_INSIDE:
            continue
        for who, expected in (("ONNX Runtime", runner(feed)), ("the reference", _reference(proto, feed))):
            if expected is None or overflows or (who == "the reference" and case.op_type in _REFERENCE_DIFFERS):
                continue
            for (roots, each, dtype), array in zip(results, map(np.asarray, expected), strict=True):
                assert roots.shape == array.shape, who
                assert dtype.numpy() == array.dtype, who
                for place, (values_, wanted) in enumerate(zip(each, array.reshape(-1), strict=True)):
                    root = int(roots.reshape(-1)[place])
                    if values_.undefined[number]:
                        continue
                    got = values_.of[root][number]
                    assert _agrees(got, wanted, values_.settled, signs=who == "ONNX Runtime"), (
                        f"{who}: {wanted}, not {got} at {place} for {feed}"
                    )


def _agrees(got: Any, wanted: Any, is_settled: bool, *, signs: bool) -> bool:
    pair = np.asarray(got).reshape(1), np.asarray(wanted).reshape(1)
    if is_settled or pair[0].dtype.kind not in "f":
        return bool(values.same(*pair).all()) or (not signs and bool(np.array_equal(*pair)))
    a, b = (float(each[0]) for each in pair)
    near = _near(pair[1].dtype)
    return bool(np.isclose(a, b, rtol=near, atol=near, equal_nan=True))


def _reference(proto: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[Any] | None:
    try:
        with np.errstate(all="ignore"):
            return list(ReferenceEvaluator(proto).run(None, feed))
    except Exception:  # noqa: BLE001 - what the reference cannot run says nothing
        return None
