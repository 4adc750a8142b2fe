"""The generator: what it makes runs, and covers what rules stumble over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx
import onnx_ir as ir
import pytest

from onnx_passes import Rule
from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.draws import Draws, RandomSource, UnbuildableError
from onnx_passes.testing.fuzz.feeds import feeds_of
from onnx_passes.testing.fuzz.generate import generate
from onnx_passes.testing.fuzz.targets import targets_of
from onnx_passes.verify.run.execute import ExecutionError, Executor


def cases(pattern: object, count: int = 300) -> Iterator[Case]:
    [target] = targets_of(Rule(pattern, lambda op, **_: None, name="pattern"))  # pyright: ignore[reportArgumentType]
    for seed in range(count):
        try:
            yield generate(target, Draws(RandomSource(seed)))
        except UnbuildableError:
            continue


def model_of(case: Case) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(case.model)


@pytest.fixture(scope="module")
def additions() -> list[Case]:
    return list(cases(lambda op, x, c: op.Relu(op.Add(x, c))))


def test_ranks_and_sizes(additions: list[Case]) -> None:
    shapes = [item.shape for case in additions for item in case.inputs]
    assert {len(shape) for shape in shapes} >= {0, 1, 2, 3, 4}
    assert {size for shape in shapes for size in shape} >= {0, 1, 2, 3, 5}


def test_types(additions: list[Case]) -> None:
    found = Counter(item.dtype.name for case in additions for item in case.inputs)
    assert found.keys() >= {"FLOAT", "DOUBLE", "FLOAT16", "INT32", "INT64", "INT8"}
    assert found.most_common(1)[0][0] == "FLOAT"


def test_constness(additions: list[Case]) -> None:
    kinds: Counter[str] = Counter()
    for case in additions:
        graph = model_of(case).graph
        inputs = {value.name for value in graph.input}
        kinds["overridable"] += any(tensor.name in inputs for tensor in graph.initializer)
        kinds["initializer"] += any(tensor.name not in inputs for tensor in graph.initializer)
        kinds["constant node"] += any(node.op_type == "Constant" for node in graph.node)
        kinds["two inputs"] += len(inputs) == 2
    assert min(kinds.values()) >= 5, kinds
    assert len(kinds) == 4


def test_surroundings(additions: list[Case]) -> None:
    seen: Counter[str] = Counter()
    for case in additions:
        graph = model_of(case).graph
        operators = {node.op_type for node in graph.node}
        seen.update(operators & {"If", "Loop", "Identity"})
        seen["several outputs"] += len(graph.output) > 1
        seen["dynamic"] += any(
            dim.WhichOneof("value") != "dim_value" for value in graph.input for dim in value.type.tensor_type.shape.dim
        )
        seen["annotated"] += len(graph.quantization_annotation) > 0
        seen["two shapes"] += bool(case.other_shapes)
        seen["nameless"] += any(not node.name for node in graph.node)
    assert min(seen.values()) >= 5, seen
    assert len(seen) == 8


def test_both_operands_may_be_the_larger_one(additions: list[Case]) -> None:
    larger: Counter[int] = Counter()
    for case in additions:
        shapes = [item.shape for item in case.inputs if item.name != "condition"]
        if len(shapes) == 2 and shapes[0] != shapes[1]:
            larger[len(shapes[0]) > len(shapes[1])] += 1
    assert len(larger) == 2


def test_case_survives_its_encoding(additions: list[Case]) -> None:
    for case in additions[:30]:
        again = Case.decode(case.encode())
        assert again.model == case.model
        for old, new in zip(feeds_of(case), feeds_of(again), strict=True):
            assert old.name == new.name
            assert {k: (v.dtype, v.tobytes()) for k, v in old.arrays.items()} == {
                k: (v.dtype, v.tobytes()) for k, v in new.arrays.items()
            }


PATTERNS = {
    "elementwise": lambda op, x, y: op.Mul(op.Add(x, y), x),
    "movement": lambda op, x, s, y: op.Add(op.Reshape(op.Transpose(x), s), y),
    "slices": lambda op, x, a, b, c, d, y: op.Mul(op.Slice(x, a, b, c, d), y),
    "products": lambda op, x, w, b: op.Add(op.MatMul(op.Transpose(x), w), b),
    "reductions": lambda op, x, a, y: op.Sub(op.ReduceSum(x, a), y),
    "convolution": lambda op, x, w, b, y: op.Relu(op.Add(op.Conv(x, w, b), y)),
    "pooling": lambda op, x: op.MaxPool(op.Relu(x)),
    "joining": lambda op, x, y, z: op.Concat(op.Neg(x), y, z),
    "gathering": lambda op, x, i: op.Gather(op.Unsqueeze(x, [0]), i),
    "normalization": lambda op, x, s, b, m, v: op.BatchNormalization(x, s, b, m, v),
    "quantization": lambda op, x, s, z: op.DequantizeLinear(op.QuantizeLinear(x, s, z), s, z),
    "choice": lambda op, c, x, y: op.Where(op.Less(x, y), x, op.Where(c, y, x)),
    "padding": lambda op, x, p, w: op.Conv(op.Pad(x, p), w),
    "casts": lambda op, x: op.Cast(op.Cast(x)),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_most_models_run(name: str) -> None:
    executor = Executor()
    ran = total = 0
    for case in cases(PATTERNS[name], 60):
        total += 1
        try:
            ready = executor.prepare(ir.from_proto(model_of(case)), engine="onnxruntime")
            ready.run(feeds_of(case)[0].arrays)
        except ExecutionError:
            continue
        ran += 1
    assert total >= 20
    assert ran >= 0.3 * total, f"{ran} of {total}"


def test_padding_that_crops_more_than_there_is_makes_no_model() -> None:
    models = [model_of(case) for case in cases(lambda op, x, p: op.Abs(op.Pad(x, p)), 200)]
    assert len(models) >= 100
    outputs = [value.type.tensor_type.shape for model in models for value in model.graph.output]
    sizes = [dim.dim_value for shape in outputs for dim in shape.dim]
    assert min(sizes) >= 0


def test_casts_do_not_saturate_where_onnxruntime_knows_no_other_way() -> None:
    nodes = [node for case in cases(lambda op, x: op.Cast(x), 100) for node in model_of(case).graph.node]
    saturated = [a.i for node in nodes for a in node.attribute if a.name == "saturate"]
    assert saturated
    assert all(saturated)
