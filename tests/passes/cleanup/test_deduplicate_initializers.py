from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.core.build import collect
from onnx_passes.graph import annotations
from onnx_passes.passes.cleanup.deduplicate_initializers import DeduplicateInitializers
from tests.helpers.random_models import random_inputs, random_model
from tests.passes.tools import apply, assert_equal_results, check, model_of, run


def names(model: ir.Model) -> list[str]:
    return list(model.graph.initializers)


def model_with(**arrays: np.ndarray) -> ir.Model:
    """Return a model that sums up initializers, each cast to float."""
    nodes = [ir.node("Cast", [ir.val(name)], {"to": int(ir.DataType.FLOAT)}) for name in arrays]
    weights: list[ir.Value] = []
    for node, (name, array) in zip(nodes, arrays.items(), strict=True):
        weight = ir.Value(name=name, const_value=ir.Tensor(array), shape=ir.Shape(array.shape))
        weight.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))
        node.replace_input_with(0, weight)
        weights.append(weight)
    outputs = [node.outputs[0] for node in nodes]
    for weight, output in zip(weights, outputs, strict=True):
        output.name, output.shape, output.type = f"{weight.name}_out", weight.shape, ir.TensorType(ir.DataType.FLOAT)
    graph = ir.Graph([], outputs, nodes=nodes, initializers=weights, opset_imports={"": 18}, name="g")
    return ir.Model(graph, ir_version=9)


def test_keeps_the_first():
    model = model_with(a=np.ones(3, np.float32), b=np.ones(3, np.float32), c=np.zeros(3, np.float32))
    expected = run(model, {})
    assert apply(DeduplicateInitializers(), model)
    assert names(model) == ["a", "c"]
    assert_equal_results(model, expected, {})


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.array([0.0], np.float32), np.array([-0.0], np.float32)),
        (np.array([1], np.int32), np.array([1], np.float32).view(np.int32)),
        (np.array([1.0], np.float32), np.array([1.0], np.float32).view(np.int32)),
        (np.array([1, 2], np.int64), np.array([[1, 2]], np.int64)),
        (np.array([1, 0], np.int32), np.array([1], np.int64)),
        (np.array(1.0, np.float32), np.array([1.0], np.float32)),
        (np.array([np.nan], np.float32), -np.array([np.nan], np.float32)),
    ],
    ids=["signed zero", "value", "type", "shape", "width", "scalar", "sign of nan"],
)
def test_refuses_tensors_that_differ_in_bits_type_or_shape(a: np.ndarray, b: np.ndarray):
    model = model_with(a=a, b=b)
    assert not apply(DeduplicateInitializers(), model)


def test_equal_nan_and_empty_tensors_merge():
    nan, empty = np.array([np.nan], np.float32), np.zeros((0, 3), np.int8)
    model = model_with(a=nan, b=nan.copy(), c=empty, d=empty.copy())
    assert apply(DeduplicateInitializers(), model)
    assert names(model) == ["a", "c"]


def test_strings_merge():
    model = model_of(
        """g (string[2] x) => (bool[2] y, bool[2] z)
          <string[2] a = {"p", "q"}, string[2] b = {"p", "q"}, string[2] c = {"pq", ""}> {
          y = Equal (x, a) t = Equal (x, b) u = Equal (x, c) z = Or (t, u)
        }""",
        opset=19,
    )
    assert apply(DeduplicateInitializers(), model)
    assert names(model) == ["a", "c"]
    check(model)


def test_inputs_and_outputs_are_left_alone():
    model = model_of("""g (float[1] x, float[1] a) => (float[1] y, float[1] b)
      <float[1] a = {1}, float[1] b = {1}, float[1] c = {1}> { y = Sum (x, a, b, c) }""")
    assert not apply(DeduplicateInitializers(), model)


def test_max_size_leaves_larger_tensors_alone():
    model = model_with(a=np.ones(300, np.float32), b=np.ones(300, np.float32), c=np.ones(2), d=np.ones(2))
    (pass_,) = collect("deduplicate-initializers{max-size=1KB}")
    assert apply(pass_, model)
    assert names(model) == ["a", "b", "c"]


def annotated(**texts: dict[str, str]) -> ir.Model:
    model = model_with(**{name: np.ones(3, np.float32) for name in texts})
    for name, text in texts.items():
        annotations.set(model.graph.initializers[name], text)
    return model


def test_different_annotations_stay_apart_and_equal_ones_merge():
    model = annotated(a={"finn_datatype": "INT4"}, b={"finn_datatype": "INT2"}, c={"finn_datatype": "INT4"})
    assert apply(DeduplicateInitializers(), model)
    assert names(model) == ["a", "b"]


@pytest.mark.parametrize("first", ["annotated", "bare"])
def test_no_annotation_fits_any(first: str):
    texts = [{"finn_datatype": "INT4"}, {}] if first == "annotated" else [{}, {"finn_datatype": "INT4"}]
    model = annotated(a=texts[0], b=texts[1], c={"finn_datatype": "INT2"})
    assert apply(DeduplicateInitializers(), model)
    found = {name: annotations.get(v) for name, v in model.graph.initializers.items()}
    assert found == {"a": {"finn_datatype": "INT4"}, "c": {"finn_datatype": "INT2"}}


def test_references_of_annotations_follow():
    model = model_with(w=np.ones(3, np.float32), v=np.ones(3, np.float32), s=np.ones(1), t=np.ones(1))
    annotations.set(model.graph.initializers["w"], {"SCALE_TENSOR": "s"})
    annotations.set(model.graph.initializers["v"], {"SCALE_TENSOR": "t"})
    assert apply(DeduplicateInitializers(), model)
    assert names(model) == ["w", "s"]
    assert annotations.get(model.graph.initializers["w"]) == {"SCALE_TENSOR": "s"}


NESTED = """g (bool k, float[2] x) => (float[2] y) <float[2] a = {1, 2}> {
  t = Mul (x, a)
  y = If (k) <
    then_branch = t () => (float[2] r) <float[2] b = {1, 2}, float[2] c = {3, 4}, float[2] d = {3, 4}> {
      p = Mul (t, b) q = Mul (p, c) r = Mul (q, d) },
    else_branch = e () => (float[2] s) <float[2] f = {3, 4}> { s = Mul (t, f) }>
}"""


def test_subgraphs_merge_with_what_is_around_them_but_not_with_each_other():
    model = model_of(NESTED)
    feeds = {"k": np.array(True), "x": np.array([5, 6], np.float32)}
    expected = run(model, feeds)
    assert apply(DeduplicateInitializers(), model)
    assert {graph.name: list(graph.initializers) for graph in model.graphs()} == {"g": ["a"], "t": ["c"], "e": ["f"]}
    check(model)
    assert_equal_results(model, expected, feeds)


def test_refuses_an_outer_name_that_a_subgraph_hides():
    model = model_of(NESTED)
    branch = model.graph[-1].attributes["then_branch"].as_graph()
    branch[0].outputs[0].name = "a"
    assert apply(DeduplicateInitializers(), model)
    assert list(branch.initializers) == ["b", "c"]


@pytest.mark.parametrize("seed", range(15))
def test_random_models_compute_the_same(seed: int):
    model = random_model(seed, nodes=30)
    feeds = random_inputs(model)
    expected = run(model, feeds)
    apply(DeduplicateInitializers(), model)
    check(model)
    assert_equal_results(model, expected, feeds)


def test_refuses_tensors_that_begin_alike_and_differ_at_the_end():
    a, b = np.zeros(1000, np.float32), np.zeros(1000, np.float32)
    b[-1] = 1
    x = ir.val("x", ir.DataType.FLOAT, [1000])
    weights = []
    for name, array in (("a", a), ("b", b), ("c", b.copy())):
        weight = ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1000]))
        weight.const_value = ir.Tensor(array, name=name)
        weights.append(weight)
    node = ir.node("Sum", [x, *weights])
    node.outputs[0].name = "y"
    graph = ir.Graph([x], node.outputs, nodes=[node], initializers=weights, opset_imports={"": 20}, name="g")
    DeduplicateInitializers()(ir.Model(graph, ir_version=10))
    assert list(graph.initializers) == ["a", "b"]
    assert [value.name for value in node.inputs] == ["x", "a", "b", "b"]


def test_statistics_that_onnx_runtime_writes_to_stay_apart():
    model = model_of("""g (float[2,3] x) => (float[2,3] y)
      <float[3] s = {1, 2, 3}, float[3] b = {1, 2, 3}, float[3] m = {1, 2, 3}, float[3] v = {1, 2, 3}> {
        y, n, w = BatchNormalization <training_mode = 1> (x, s, b, m, v)
      }""")
    x = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    expected = run(model, x)
    assert apply(DeduplicateInitializers(), model)
    assert names(model) == ["s", "m", "v"]
    assert_equal_results(model, expected, x)
