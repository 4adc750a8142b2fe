"""Scalar functions of the table of semantics, on special values, against ONNX Runtime and the reference of ONNX."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from onnx_passes.graph.traits import operators
from onnx_passes.numbers.algebra import UnsupportedError
from onnx_passes.ops.number_systems import values
from onnx_passes.ops.number_systems.scalars import SCALARS
from onnx_passes.ops.number_systems.terms import Terms
from onnx_passes.ops.semantics.evaluation import Evaluation
from onnx_passes.proofs.samples import variables
from tests.helpers.thorough import some

_OLDEST, _NEWEST = 7, 23
_OPERANDS = {"Clip": 3, "Where": 3, "Sum": 2, "Mean": 2, "Max": 2, "Min": 2}
_ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "Mod": [{"fmod": 1}],
    "BitShift": [{"direction": "LEFT"}, {"direction": "RIGHT"}],
    "LeakyRelu": [{}, {"alpha": -0.5}],
    "Elu": [{}, {"alpha": 2.0}],
    "HardSigmoid": [{}, {"alpha": 0.5, "beta": 0.25}],
    "Gelu": [{}, {"approximate": "tanh"}],
    "IsInf": [{}, {"detect_negative": 0}, {"detect_positive": 0}],
    "ThresholdedRelu": [{}, {"alpha": 0.5}],
    "Shrink": [{}, {"lambd": 1.0, "bias": 0.25}],
}
_NOT_FUNCTIONS = frozenset({"Cast", "CastLike", "BitCast", "Identity"})
"""What has no operands of its own kind, or is no function of numbers."""
REFERENCE_DIFFERS = {
    "Clip": "numpy.clip lets NaN through bounds",
    "Sign": "numpy.sign keeps the sign of zero",
}


class Case(NamedTuple):
    """An operator at one version, with a type of its operands and attributes."""

    op_type: str
    version: int
    dtype: ir.DataType
    attributes: tuple[tuple[str, Any], ...]

    @property
    def name(self) -> str:
        return f"{self.op_type}-{self.version}-{self.dtype.name}-{dict(self.attributes)}"


def _cases() -> Iterator[Case]:
    names = [name for name in operators("elementwise") if SCALARS.get(("", name)) is not None]
    for name in sorted({*names, "Clip", "Max", "Min", "Sum"} - _NOT_FUNCTIONS):
        schemas = [s for s in onnx.defs.get_all_schemas_with_history() if s.name == name and s.domain == ""]
        for schema in schemas:
            if not _OLDEST <= max(schema.since_version, _OLDEST) <= _NEWEST or schema.deprecated:
                continue
            for dtype in _types(schema):
                for attributes in _ATTRIBUTES.get(name, [{}]):
                    known = {key: value for key, value in attributes.items() if key in schema.attributes}
                    yield Case(name, max(schema.since_version, _OLDEST), dtype, tuple(known.items()))


def _types(schema: Any) -> list[ir.DataType]:
    """List the types of the last operand."""
    last = schema.inputs[min(_OPERANDS.get(schema.name, 2), len(schema.inputs)) - 1]
    texts = [text for text in last.types if text.startswith("tensor(")]
    found = [ir.DataType(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(_NUMPY[t]))) for t in texts if t in _NUMPY]
    return sorted(set(found))


_NUMPY: dict[str, Any] = {
    **{f"tensor({name})": name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bfloat16)": ml_dtypes.bfloat16,
    "tensor(bool)": "bool",
}


def specials(dtype: ir.DataType) -> np.ndarray:
    """Return the numbers of a type that operators go wrong at."""
    kind = dtype.numpy()
    if dtype is ir.DataType.BOOL:
        return np.array([False, True])
    if dtype.is_integer():
        info = np.iinfo(kind)
        near = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 5, 7]
        return np.array([*near, *([-1, -2, -3, -7] if dtype.is_signed() else [])]).astype(kind)
    info: Any = ml_dtypes.finfo(kind)
    most, least, tiny = float(info.max), float(info.smallest_subnormal), float(info.smallest_normal)
    found = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 1e-3, 0.7, tiny, least, most, float("inf"), 20.0, 100.0]
    return np.array([*found, *(-each for each in found), float("nan")]).astype(kind)


def _operands(case: Case, schema: Any) -> list[np.ndarray]:
    amount = _OPERANDS.get(case.op_type, min(len(schema.inputs), 2))
    if case.op_type == "Clip" and case.version < 11:
        amount = 1
    kinds = [ir.DataType.BOOL if case.op_type == "Where" and not place else case.dtype for place in range(amount)]
    rows = list(itertools.product(*(specials(kind).tolist() for kind in kinds)))
    if case.op_type == "Clip" and amount == 3:
        rows = [row for row in rows if row[1] <= row[2]]
    if case.op_type in ("Div", "Mod") and case.dtype.is_integer():
        rows = [row for row in rows if row[1] and row[1] != -1]
    if case.op_type == "BitShift":
        rows = [row for row in rows if row[1] < 64]
    columns = list(zip(*rows, strict=True))
    return [np.array(column).astype(kind.numpy()) for column, kind in zip(columns, kinds, strict=True)]


def _model(case: Case, operands: Sequence[np.ndarray], size: int) -> onnx.ModelProto:
    kinds = [onnx.helper.np_dtype_to_tensor_dtype(each.dtype) for each in operands]
    names = [f"x{place}" for place in range(len(operands))]
    # Bounds of Clip are scalars.
    shapes = [[] if case.op_type == "Clip" and place else [size] for place in range(len(operands))]
    node = onnx.helper.make_node(case.op_type, names, ["y"], **dict(case.attributes))
    inputs = [onnx.helper.make_tensor_value_info(*each) for each in zip(names, kinds, shapes, strict=True)]
    graph = onnx.helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", case.version)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


def _ours(model: onnx.ModelProto, operands: Sequence[np.ndarray]) -> tuple[np.ndarray, values.Values] | None:
    terms, read = Terms(), ir.from_proto(model)
    made = variables(terms, read)
    try:
        (result,) = Evaluation(read, terms).outputs(made)
        (root,) = result.elements(terms).reshape(-1).tolist()
        numbers = {int(each.elements(terms).reshape(-1)[0]): x for each, x in zip(made, operands, strict=True)}
        found = values.compute(terms, [root], numbers)
    except (UnsupportedError, values.NoValueError):
        return None
    return found.of[root], found


def _runtime(case: Case, operands: Sequence[np.ndarray]) -> np.ndarray | None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if any(each.dtype == ml_dtypes.bfloat16 for each in operands):
        return None
    try:
        if case.op_type == "Clip" and len(operands) == 3:
            session = _session(_model(case, operands, 1), options)
            rows = zip(*operands, strict=True)
            return np.concatenate([_run(session, [np.array([x]), low, high]) for x, low, high in rows])
        return _run(_session(_model(case, operands, operands[0].size), options), operands)
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return None
    except onnxruntime.capi.onnxruntime_pybind11_state.InvalidGraph:
        return None


def _session(model: onnx.ModelProto, options: Any) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _run(session: onnxruntime.InferenceSession, operands: Sequence[Any]) -> np.ndarray:
    return np.asarray(session.run(None, {f"x{place}": np.asarray(each) for place, each in enumerate(operands)})[0])


def _reference(case: Case, operands: Sequence[np.ndarray]) -> np.ndarray | None:
    try:
        with np.errstate(all="ignore"):
            feeds = {f"x{place}": each for place, each in enumerate(operands)}
            if case.op_type == "Clip" and len(operands) == 3:
                return None
            return np.asarray(ReferenceEvaluator(_model(case, operands, operands[0].size)).run(None, feeds)[0])
    except Exception:  # noqa: BLE001 - what the reference cannot run says nothing
        return None


def _differences(
    found: np.ndarray, expected: np.ndarray, *, settled: bool, undefined: np.ndarray, signs: bool
) -> np.ndarray:
    if settled and not signs:
        return ~((found == expected) | ((found != found) & (expected != expected))) & ~undefined
    if settled:
        return ~values.same(found, expected.astype(found.dtype)) & ~undefined
    a, b = found.astype(np.float64), expected.astype(np.float64)
    near = 3e-2 if found.dtype == ml_dtypes.bfloat16 else 4e-3 if found.dtype.itemsize < 4 else 2e-5
    with np.errstate(all="ignore"):
        apart = np.abs(a - b) > near * np.maximum(np.abs(b), 1e-2 if found.dtype.itemsize >= 4 else 1e-1)
    other = (np.isnan(a) != np.isnan(b)) | (np.isinf(a) & np.isinf(b) & (a != b))
    return ((apart & np.isfinite(a) & np.isfinite(b)) | other) & ~undefined


CASES = list(_cases())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", some(CASES, every=6), ids=lambda case: case.name)
def test_functions_agree_on_special_values(case: Case):
    schema = onnx.defs.get_schema(case.op_type, case.version, "")
    operands = _operands(case, schema)
    one = _model(case, operands, 1)
    ours = _ours(one, operands)
    if ours is None:
        pytest.skip("nothing is known of it but that it is a function")
    found, computed = ours
    others = {"ONNX Runtime": _runtime(case, operands), "the reference": _reference(case, operands)}
    if all(each is None for each in others.values()):
        pytest.skip("no kernel computes it for this type")
    for who, expected in others.items():
        if expected is None or (who == "the reference" and case.op_type in REFERENCE_DIFFERS):
            continue
        if who == "the reference" and not computed.settled and (found.dtype.kind in "iu" or found.dtype.itemsize < 4):
            continue
        # The standard does not say which zero a function returns.
        signs = who == "ONNX Runtime"
        wrong = _differences(found, expected, settled=computed.settled, undefined=computed.undefined, signs=signs)
        rows = [tuple(each[place].item() for each in operands) for place in np.flatnonzero(wrong)[:5]]
        assert not wrong.any(), f"{who}: {rows} give {expected[wrong][:5]}, not {found[wrong][:5]}"
