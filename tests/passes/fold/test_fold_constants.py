from __future__ import annotations

import math
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnx_passes
from onnx_passes.core.base import Context
from onnx_passes.core.config import parse_config
from onnx_passes.core.options import parse_options
from onnx_passes.graph import annotations
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.passes.fold.fold_constants import FoldConstants
from onnx_passes.verify.run.execute import Executor, Profile
from tests.helpers.random_models import random_inputs, random_model
from tests.helpers.small_models import files
from tests.passes.tools import apply, assert_equal_results, check, model_of, notes_of, operators, run

X = np.array([1.5, -2.0], np.float32)


def folded(text: str, *, opset: int = 18, domains: str = "", pass_: FoldConstants | None = None) -> ir.Model:
    """Fold, with what the pass promises held against ONNX Runtime."""
    model = inferred(text, opset=opset, domains=domains)
    assert apply(pass_ or FoldConstants(), model)
    check(model)
    return model


def inferred(text: str, *, opset: int = 18, domains: str = "") -> ir.Model:
    """Parse a model and infer its shapes, as the pass needs it."""
    model = model_of(text, opset=opset, domains=domains)
    ShapeInference().run(model, Context())
    return model


def with_weights(text: str, **weights: np.ndarray) -> ir.Model:
    """Turn inputs into initializers."""
    model = inferred(text)
    for name, array in weights.items():
        value = next(value for value in model.graph.inputs if value.name == name)
        model.graph.inputs.remove(value)
        value.const_value = ir.Tensor(array, name=name)
        model.graph.register_initializer(value)
    return model


def tensor(model: ir.Model, name: str) -> np.ndarray:
    found = model.graph.initializers[name].const_value
    assert found is not None
    return found.numpy()


def test_a_whole_constant_part_becomes_one_initializer():
    model = folded("""g (float[2] x) => (float[2] y)
      <float[2] a = {1, 2}, float[2] b = {3, 4}, float[2] unread = {0, 0}> {
        s = Add (a, b)
        t = Mul (s, b)
        u = Neg (t)
        y = Add (x, u)
    }""")
    assert operators(model.graph) == ["Add"]
    assert set(model.graph.initializers) == {"u", "unread"}
    assert tensor(model, "u").tolist() == [-12, -24]
    assert model.graph.initializers["u"].shape == [2]
    assert_equal_results(model, [X - np.array([12, 24], np.float32)], {"x": X})


def test_what_reads_data_stays():
    model = model_of("g (float[2] x) => (float[2] y) <float[2] a = {1, 2}> { s = Neg (x) y = Add (s, a) }")
    assert not apply(FoldConstants(), model)


def test_defaults_of_inputs_are_not_constant():
    text = "g (float[2] x, float[2] a) => (float[2] y) <float[2] a = {1, 2}> { n = Neg (a) y = Add (x, n) }"
    model = model_of(text)
    assert not apply(FoldConstants(), model)
    [note] = notes_of(FoldConstants(), model)
    assert "1 node on defaults of inputs" in note
    assert "remove-initializers-from-inputs" in note
    assert "Neg -> 'n'" in note


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("Sub (zero, zero)", 0.0),
        ("Neg (zero)", -0.0),
        ("Mul (zero, minus)", -0.0),
        ("Div (zero, zero)", math.nan),
        ("Div (one, zero)", math.inf),
        ("Div (minus, zero)", -math.inf),
        ("Exp (large)", math.inf),
        ("Mul (tiny, tiny)", 0.0),
        ("Mul (tiny, half)", 2.0**-149),
    ],
)
def test_special_numbers_are_kept(node: str, expected: float):
    model = model_of(
        f"""g (float[1] x) => (float[1] y, float[1] z) <float[1] zero = {{0}}, float[1] one = {{1}},
        float[1] minus = {{-1}}, float[1] large = {{1000}}, float[1] tiny = {{2.8e-45}}, float[1] half = {{0.5}}> {{
          c = {node}
          y = Identity (c)
          z = Add (x, c)
        }}"""
    )
    before = run(model, {"x": np.zeros(1, np.float32)})
    assert apply(FoldConstants(), model)
    assert operators(model.graph) == ["Constant", "Add"]
    assert_equal_results(model, before, {"x": np.zeros(1, np.float32)})
    assert np.array(expected, np.float32).tobytes() == before[0].tobytes() or math.isnan(expected)


@pytest.mark.parametrize(
    ("type_", "node"),
    [
        ("float[2,2]", "MatMul (m, m)"),
        ("float[2,2]", "Gemm (m, m, m)"),
        ("float[2,2]", "Transpose (m)"),
        ("float[1,2]", "ReduceSum (m, axis)"),
        ("float[4]", "Reshape (m, four)"),
        ("float[2,2]", "Softmax (m)"),
        ("float[2]", "Gather (m, index)"),
        ("float[4,2]", "Concat <axis = 0> (m, m)"),
        ("float[2,2]", "Clip (m, , one)"),
        ("float[2,2]", "Where (yes, m, one)"),
        ("int64[2,2]", "Cast <to = 7> (m)"),
        ("float[2,4]", "Tile (m, repeats)"),
        ("float[3,3]", "Pad (m, pads)"),
        ("float[2,1,2]", "Unsqueeze (m, one_axis)"),
        ("int64[2,3]", "NonZero (m)"),
        ("float[4]", "ConstantOfShape (four)"),
        ("int64[4]", "Range (i0, i8, i2)"),
        ("uint8[2,2]", "QuantizeLinear (m, one, zero_point)"),
        ("float[2,2]", "CumSum (m, i0)"),
        ("float[2,3,2]", "Expand (m3, target)"),
        ("int64[2,2]", "OneHot (pair, depth, offon)"),
        ("float[1,1,1,1]", "Conv (image, image)"),
        ("int32[2]", "Mod (ints, ints)"),
        ("uint8[2]", "BitShift <direction = \"LEFT\"> (bytes, bytes)"),
        ("int64[2]", "Shape (m)"),
        ("int64", "Size (m)"),
    ],
)  # fmt: skip
def test_every_kind_of_operator(type_: str, node: str):
    model = model_of(f"""g () => ({type_} y) <float[2,2] m = {{0.5, 2, 3, 0}}, float one = {{1}}, int64[1] axis = {{0}},
      int64[1] four = {{4}}, int64 index = {{1}}, bool[2,2] yes = {{1, 0, 1, 0}}, int64[2] repeats = {{1, 2}},
      int64[4] pads = {{1, 0, 0, 1}}, int64[1] one_axis = {{1}}, int64 i0 = {{0}}, int64 i8 = {{8}}, int64 i2 = {{2}},
      uint8 zero_point = {{3}}, float[2,1,2] m3 = {{1, 2, 3, 4}}, int64[3] target = {{1, 3, 1}},
      int64[2] pair = {{1, 0}}, int64 depth = {{2}}, int64[2] offon = {{5, 7}}, float[1,1,2,2] image = {{1, 2, 3, 4}},
      int32[2] ints = {{7, -3}}, uint8[2] bytes = {{1, 2}}>
      {{ v = {node} y = Identity (v) }}""")
    expected = run(model, {})
    assert apply(FoldConstants(), model)
    assert operators(model.graph) == ["Constant"]
    check(model)
    assert_equal_results(model, expected, {})


def test_operators_with_several_results():
    model = folded("""g (float[2] x) => (float[2] y, float[1] b)
      <float[4] w = {1, 2, 3, 4}, int64[3] sizes = {2, 1, 1}> {
      a, b, unread = Split (w, sizes)
      y = Add (x, a)
    }""")
    assert operators(model.graph) == ["Constant", "Add"]
    assert set(model.graph.initializers) == {"a"}
    assert_equal_results(model, [X + np.array([1, 2], np.float32), np.array([3], np.float32)], {"x": X})


def test_results_left_out_do_not_matter():
    model = model_of("g (float[2] x) => (float[2] y) <float[2] a = {1, 2}> { d = Dropout (a) y = Add (x, d) }")
    dropout = model.graph[0]
    dropout.resize_outputs(2)
    dropout.outputs[1].name = ""
    assert apply(FoldConstants(), model)
    assert operators(model.graph) == ["Add"]


def test_constant_nodes_count_as_constants():
    model = folded("""g (float[2] x) => (float[2] y) {
      a = Constant <value_floats = [1.0, 2.0]> ()
      n = Neg (a)
      y = Add (x, n)
    }""")
    assert operators(model.graph) == ["Add"]


def test_strings():
    model = model_of("""g () => (string[2] y) <string[2] a = {"ä", "b"}> {
      i = Constant <value_ints = [1, 0]> ()
      r = Identity (a)
      y = Gather <axis = 0> (r, i)
    }""")
    assert apply(FoldConstants(), model)
    assert operators(model.graph) == ["Constant"]
    assert run(model, {})[0].tolist() == ["b", "ä"]


@pytest.mark.parametrize(
    "node",
    ["RandomNormal <shape = [2]> ()", "RandomUniformLike (a)", "Bernoulli (a)", "Dropout (a, half, yes)"],
)
def test_random_operators_stay(node: str):
    model = model_of(
        f"""g (float[2] x) => (float[2] y) <float[2] a = {{1, 1}}, float half = {{0.5}}, bool yes = {{1}}>
        {{ r = {node} y = Mul (x, r) }}""",
        opset=15,
    )
    context = Context()
    assert not FoldConstants().run(model, context).modified


@pytest.mark.parametrize(
    ("opset", "attributes"),
    [(14, "training_mode = 1"), (17, "training_mode = 1, momentum = 0.5, epsilon = 0.25")],
)
def test_weights_that_are_standardised_by_batch_normalization_in_training_mode_fold(opset: int, attributes: str):
    text = f"""g (float[1,3,2] x) => (float[1,3,2] y, float[1,3,2] z)
      <float[1,3,2] w = {{1, 2, -3, 0.5, 7, 7}}, float[3] c = {{1, 2, 0.5}}, float[3] v = {{1, 4, 9}},
       float[3] d = {{1, 2, 0.5}}, float[3] e = {{1, 4, 9}}> {{
        n = Neg (w) a = ReduceMean <axes = [0, 2], keepdims = 0> (n) b = ReduceMax <axes = [0, 2], keepdims = 0> (w)
        p, m, s = BatchNormalization <{attributes}> (w, c, v, a, b)
        q, m2, s2 = BatchNormalization <{attributes}> (n, c, v, d, e)
        y = Mul (x, p) z = Mul (x, q)
      }}"""
    model = inferred(text, opset=opset)
    x = {"x": X.repeat(3).reshape(1, 3, 2)}
    expected = run(model, x)
    assert apply(FoldConstants(), model)
    assert operators(model.graph) == ["Mul", "Mul"]
    assert_equal_results(model, expected, x)


@pytest.mark.parametrize("result", ["r", "m"])
def test_statistics_that_onnx_runtime_overwrites_and_somebody_reads_stay(result: str):
    others = "c, c" if result == "r" else "a, b"
    text = f"""g (float[1,3] x) => (float[1,3] y)
      <float[1,3] w = {{1, 2, -3}}, float[3] c = {{1, 2, 3}}, float[3] a = {{1, 1, 1}}, float[3] b = {{1, 1, 1}}> {{
        r, m, s = BatchNormalization <training_mode = 1> (w, c, c, {others}) y = Mul (x, {result})
      }}"""
    assert not apply(FoldConstants(), inferred(text))


def test_sequences_stay():
    model = model_of("""g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, int64 i = {0}> {
      s = SequenceConstruct (a, a)
      e = SequenceAt (s, i)
      y = Add (x, e)
    }""")
    assert not apply(FoldConstants(), model)


def test_quantized_weights_stay_small_unless_asked():
    text = """g (float[2] x) => (float[2] y) <int8[2] w = {1, 2}, float s = {0.5}> {
      d = DequantizeLinear (w, s)
      y = Mul (x, d)
    }"""
    assert not apply(FoldConstants(), model_of(text))
    model = folded(text, pass_=FoldConstants(dequantize=True))
    assert tensor(model, "d").tolist() == [0.5, 1.0]


def test_division_by_zero_is_left_to_the_model():
    text = """g (bool k, int64[1] x) => (int64[1] y) <int64[1] z = {0}, int64[1] one = {1}> {
      y = If (k) <then_branch = t () => (int64[1] r) { d = Sub (one, one) q = Div (one, d) r = Add (x, q) },
                  else_branch = e () => (int64[1] s) { s = Identity (x) }>
    }"""
    model = model_of(text)
    FoldConstants().run(model, Context())
    assert [operators(g) for g in model.graphs()] == [["If"], ["Div", "Add"], ["Identity"]]
    lowest = model_of(f"""g (int64[1] x) => (int64[1] y) <int64[1] a = {{{-(2**63)}}}, int64[1] b = {{-1}}> {{
      q = Div (a, b)
      y = Add (x, q)
    }}""")
    assert not FoldConstants().run(lowest, Context()).modified


def test_divisions_in_a_row_are_folded_at_once():
    divisions = " ".join(f"v{i + 1} = Div (v{i}, {'minus' if i % 3 == 0 else 'two'})" for i in range(8))
    model = folded(f"""g (int64[1] x) => (int64[1] y) <int64[1] v0 = {{5001}}, int64[1] two = {{2}},
      int64[1] minus = {{-1}}> {{
      {divisions}
      y = Add (x, v8)
    }}""")
    assert operators(model.graph) == ["Add"]
    assert tensor(model, "v8").tolist() == [-156]


def test_what_fails_in_a_branch_that_is_not_taken_stays_and_the_rest_is_folded():
    model = model_of("""g (bool k, float[2] x) => (float[2] y) <float[2] a = {1, 2}, int64 far = {7}> {
      n = Neg (a)
      m = Mul (x, n)
      y = If (k) <then_branch = t () => (float[2] r) { b = Gather (a, far) c = Neg (b) r = Mul (m, c) },
                  else_branch = e () => (float[2] s) { s = Identity (m) }>
    }""")
    result = FoldConstants().run(model, Context())
    assert result.modified
    assert [operators(g) for g in model.graphs()] == [["Mul", "If"], ["Gather", "Neg", "Mul"], ["Identity"]]
    assert_equal_results(model, [X * np.array([-1, -2], np.float32)], {"k": np.array(False), "x": X})


def test_bodies_are_folded_with_constants_from_outside():
    model = model_of("""g (int64 n, float[2] x) => (float[2] y) <float[2] a = {1, 2}, bool go = {1}> {
      y = Loop (n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) {
        h = Constant <value_floats = [0.5, 0.5]> ()
        s = Mul (a, h)
        d = Identity (c)
        w = Add (v, s)
      }>
    }""")
    feeds = {"n": np.array(3), "x": X}
    expected = run(model, feeds)
    assert apply(FoldConstants(), model)
    body = next(graph for graph in model.graphs() if graph.name == "b")
    assert operators(body) == ["Identity", "Add"]
    assert list(body.initializers) == ["s"]
    assert "a" not in model.graph.initializers
    check(model)
    assert_equal_results(model, expected, feeds)


def test_results_of_a_body_stay_nodes():
    model = model_of("""g (bool k) => (float[2] y) <float[2] a = {1, 2}> {
      y = If (k) <then_branch = t () => (float[2] r) { r = Neg (a) },
                  else_branch = e () => (float[2] s) { s = Abs (a) }>
    }""")
    expected = run(model, {"k": np.array(True)})
    assert apply(FoldConstants(), model)
    assert [operators(graph) for graph in model.graphs()] == [["If"], ["Constant"], ["Constant"]]
    check(model)
    assert_equal_results(model, expected, {"k": np.array(True)})


def test_names_annotations_and_metadata_come_along():
    model = model_of("g (float[1] x) => (float[1] y) <float[1] a = {1}> { [n] c = Neg (a) y = Add (x, c) }")
    node = model.graph[0]
    output = node.outputs[0]
    annotations.set(output, {"finn_datatype": "INT2"})
    output.metadata_props["of"] = "value"
    node.metadata_props.update({"of": "node", "by": "node"})
    output.doc_string = "minus one"
    assert apply(FoldConstants(), model)
    value = model.graph.initializers["c"]
    assert annotations.get(value) == {"finn_datatype": "INT2"}
    assert value.metadata_props == {"of": "value", "by": "node"}
    assert value.doc_string == "minus one"


def test_tensors_that_annotations_name_stay():
    model = model_of("""g (float[1] x) => (float[1] y) <float[1] a = {1}> {
      s = Neg (a)
      t = Neg (s)
      y = Add (x, t)
    }""")
    annotations.set(model.graph.inputs[0], {"SCALE_TENSOR": "s", "ZERO_POINT_TENSOR": "a"})
    assert apply(FoldConstants(), model)
    assert set(model.graph.initializers) == {"s", "t", "a"}
    assert operators(model.graph) == ["Add"]


def test_outputs_keep_name_and_type():
    model = model_of("g () => (float[N] y) <float[2] a = {1, 2}> { y = Neg (a) }")
    assert apply(FoldConstants(), model)
    output = model.graph.outputs[0]
    assert (output.name, output.shape, output.dtype) == ("y", [2], ir.DataType.FLOAT)
    check(model)


def test_old_models_get_constant_nodes():
    text = """g (float[1] x) => (float[1] y) {
      a = Constant <value = float[1] {1}> ()
      n = Neg (a)
      y = Add (x, n)
    }"""
    model = model_of(text, ir_version=3, opset=8)
    assert apply(FoldConstants(), model)
    assert operators(model.graph) == ["Constant", "Add"]
    check(model)


def test_functions_are_computed_as_a_whole_and_stay_as_they_are():
    text = """g (float[2] x) => (float[2] y) <float[2] a = {1, 2}> { c = local.f <k = 3.0> (a) y = Add (x, c) }
      <domain: "local", opset_import: ["" : 18]>
      f <k> (v) => (w) {
        a = Constant <value_float : float = @k> ()
        b = Constant <value_float = 2.0> ()
        c = Neg (b)
        d = Mul (v, a)
        w = Mul (d, c)
      }"""
    model = folded(text, domains='"local" : 1')
    assert operators(model.graph) == ["Add"]
    assert tensor(model, "c").tolist() == [-6, -12]
    [function] = model.functions.values()
    assert operators(function) == ["Constant", "Constant", "Neg", "Mul", "Mul"]


def test_function_bodies_are_folded_if_asked_for():
    text = """g (float[2] x) => (float[2] y) { y = local.f <k = 3.0> (x) }
      <domain: "local", opset_import: ["" : 18]>
      f <k> (v) => (w) {
        a = Constant <value_float : float = @k> ()
        b = Constant <value_float = 2.0> ()
        c = Neg (b)
        d = Mul (v, a)
        w = Mul (d, c)
      }"""
    model = model_of(text, domains='"local" : 1')
    assert not apply(FoldConstants(), model)
    model = folded(text, domains='"local" : 1', pass_=FoldConstants(functions=True))
    [function] = model.functions.values()
    assert sorted(operators(function)) == ["Constant", "Constant", "Mul", "Mul"]
    assert_equal_results(model, [X * np.float32(-6)], {"x": X})


def test_functions_with_random_results_stay():
    text = """g (float[2] x) => (float[2] y) <float[2] a = {1, 2}> { c = local.f (a) y = Add (x, c) }
      <domain: "local", opset_import: ["" : 18]>
      f (v) => (w) { w = local.h (v) }
      <domain: "local", opset_import: ["" : 18]>
      h (v) => (w) { w = RandomNormalLike (v) }"""
    model = model_of(text, domains='"local" : 1')
    assert not FoldConstants().run(model, Context()).modified


def test_unknown_operators_stay():
    model = model_of(
        "g (float[2] x) => (float[2] y) <float[2] a = {1, 2}> { c = other.F (a) y = Add (x, c) }", domains='"other" : 1'
    )
    assert not FoldConstants().run(model, Context()).modified


def test_without_a_kernel_the_reference_evaluator_helps():
    text = """g (bfloat16[2] a, float[2] b, float[2] x) => (float[2] y) {
      s = Add (a, a)
      t = Mul (s, a)
      f = Cast <to = 1> (t)
      n = Neg (f)
      m = Mul (n, b)
      y = Add (x, m)
    }"""
    model = with_weights(text, a=np.array([1, 2], ml_dtypes.bfloat16), b=np.array([3, 4], np.float32))
    assert apply(FoldConstants(), model)
    assert operators(model.graph) == ["Add"]
    assert tensor(model, "m").tolist() == [-6, -32]


class TestLimits:
    LARGE = """g (float[N] x) => (float[N] y) <int64[1] n = {300000}> {
      c = ConstantOfShape (n)
      y = Add (x, c)
    }"""

    def test_large_results_from_little_stay(self):
        model = inferred(self.LARGE)
        assert not apply(FoldConstants(), model)
        [note] = notes_of(FoldConstants(), model)
        assert note == "left 1 node too large to store (max-size): the largest is ConstantOfShape -> 'c' with 1.14 MiB"

    def test_a_size_can_be_asked_for(self):
        assert operators(folded(self.LARGE, pass_=FoldConstants(max_size=1_200_000)).graph) == ["Add"]

    def test_a_smaller_size_can_be_asked_for(self):
        text = "g (float[3] x) => (float[3] y) <float[3] a = {1, 2, 3}> { c = Neg (a) y = Add (x, c) }"
        assert not apply(FoldConstants(max_size=11), inferred(text))
        assert apply(FoldConstants(max_size=12), inferred(text))

    def test_results_no_larger_than_what_they_come_from_are_stored(self):
        text = "g (float[600, 600] w, float[600, 600] x) => (float[600, 600] y) { c = Transpose (w) y = Add (x, c) }"
        model = with_weights(text, w=np.ones((600, 600), np.float32))
        assert apply(FoldConstants(), model)
        assert operators(model.graph) == ["Add"]

    def test_what_is_large_on_the_way_does_not_matter(self):
        model = folded("""g (float x) => (float y) <int64[1] n = {300000}, float[1] one = {1}> {
          c = ConstantOfShape (n)
          d = Add (c, one)
          s = ReduceSum <keepdims = 0> (d)
          y = Add (x, s)
        }""")
        assert operators(model.graph) == ["Add"]
        assert tensor(model, "s") == 300000

    def test_nothing_enormous_is_computed(self):
        model = inferred("""g (float x) => (float y) <int64[2] n = {1000000, 1000000}> {
          c = ConstantOfShape (n)
          s = ReduceSum <keepdims = 0> (c)
          y = Add (x, s)
        }""")
        FoldConstants().run(model, Context())
        assert operators(model.graph) == ["ConstantOfShape", "ReduceSum", "Add"]
        assert "max-size" in notes_of(FoldConstants(), model)[0]

    def test_nothing_enormous_is_computed_of_sizes_that_are_computed(self):
        model = inferred("""g (float x) => (float y) <int64[2] n = {1000, 1000}> {
          m = Mul (n, n)
          c = ConstantOfShape (m)
          s = ReduceSum <keepdims = 0> (c)
          y = Add (x, s)
        }""")
        FoldConstants().run(model, Context())
        assert operators(model.graph) == ["ConstantOfShape", "ReduceSum", "Add"]

    def test_large_inputs_are_not_read(self):
        text = "g (float[3] x) => (float[3] y) <float[3] a = {1, 2, 3}> { c = Neg (a) y = Add (x, c) }"
        model = inferred(text)
        assert not apply(FoldConstants(max_input=11), model)
        [note] = notes_of(FoldConstants(max_input=11), model)
        assert "too large to compute with (max-input): the largest is Neg -> 'c' with 12 bytes" in note

    def test_all_together_may_not_grow_too_much(self):
        text = """g (float[3] x) => (float[3] y) <int64[1] n = {3}> {
          c = ConstantOfShape <value = float[1] {1}> (n)
          d = ConstantOfShape <value = float[1] {2}> (n)
          e = Add (x, c)
          y = Add (e, d)
        }"""
        model = inferred(text)
        assert apply(FoldConstants(max_growth=15), model)
        assert sorted(operators(model.graph)) == ["Add", "Add", "ConstantOfShape"]
        [note] = notes_of(FoldConstants(max_growth=0), inferred(text))
        assert "left 2 nodes beyond the growth of the model that is allowed (max-growth)" in note

    def test_the_configuration_sets_them(self):
        config = parse_config({"fold_constants": {"max_size": "1KiB", "dequantize": True}})
        arguments = parse_options(FoldConstants, config.pass_options()["fold-constants"], owner="fold-constants")
        pass_ = FoldConstants(**arguments)
        assert (pass_.max_size, pass_.dequantize) == (1024, True)


HALF = """g (float16[200] a, float16[200] b, float16[200] x) => (float16[200] y) {
  s = Add (a, b)
  t = Mul (s, a)
  y = Mul (x, t)
}"""


def test_half_precision_that_is_not_rounded_stays():
    a, b, x = (np.random.default_rng(seed).normal(size=200).astype(np.float16) for seed in range(3))
    model = with_weights(HALF, a=a, b=b)
    expected = run(model, {"x": x})
    assert not apply(FoldConstants(), model)
    assert_equal_results(model, expected, {"x": x})
    assert "half precision that ONNX Runtime does not round" in notes_of(FoldConstants(), model)[0]


def test_half_precision_that_is_exact_is_folded():
    a, b, x = (np.arange(200).astype(np.float16) % (5 + seed) for seed in range(3))
    b[:3] = np.nan, np.inf, -0.0
    model = with_weights(HALF, a=a, b=b)
    expected = run(model, {"x": x})
    assert apply(FoldConstants(), model)
    assert operators(model.graph) == ["Mul"]
    assert_equal_results(model, expected, {"x": x})


@pytest.mark.parametrize(("operator", "is_folded"), [("Sin", False), ("Neg", True)])
def test_what_is_computed_of_halves_in_another_type_must_not_depend_on_their_rounding(operator: str, is_folded: bool):
    text = f"""g (float16[200] a, float[200] x) => (float[200] y, bool[200] z) {{
      s = {operator} (a) t = Cast <to = 1> (s) y = Mul (x, t) z = Cast <to = 9> (t) }}"""
    model = with_weights(text, a=np.random.default_rng(0).normal(size=200).astype(np.float16))
    x = np.ones(200, np.float32)
    rounded = Executor().prepare(model).run({"x": x})
    kept = Executor(Profile(round_halves=False)).prepare(model).run({"x": x})
    assert np.array_equal(rounded["y"], kept["y"]) == is_folded
    apply(FoldConstants(), model)
    assert (operator not in operators(model.graph)) == is_folded
    for executor, expected in ((Executor(), rounded), (Executor(Profile(round_halves=False)), kept)):
        found = executor.prepare(model).run({"x": x})
        assert all(np.array_equal(found[name], array) for name, array in expected.items())


def test_clones_do_not_notice():
    model = model_of("g (float[1] x) => (float[1] y) <float[1] a = {1}> { c = Neg (a) y = Add (x, c) }")
    clone = model.clone()
    assert apply(FoldConstants(), model)
    assert operators(clone.graph) == ["Neg", "Add"]
    assert_equal_results(clone, [np.zeros(1, np.float32)], {"x": np.ones(1, np.float32)})


def test_nodes_out_of_order_are_folded_too():
    model = model_of("""g (float[1] x) => (float[1] y) <float[1] a = {1}> {
      c = Neg (a)
      d = Neg (c)
      y = Add (x, d)
    }""")
    nodes = list(model.graph)
    model.graph.remove(nodes)
    model.graph.extend(reversed(nodes))
    FoldConstants().run(model, Context())
    assert operators(model.graph) == ["Add"]


def long_model(count: int) -> ir.Model:
    """Return a chain in which each node reads a value computed from one shared constant."""
    kind, shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([1])
    weight = ir.Value(name="w", type=kind, shape=shape, const_value=ir.Tensor(np.ones(1, np.float32), name="w"))
    start = last = ir.Value(name="x", type=kind, shape=shape)
    nodes: list[ir.Node] = []
    for number in range(count):
        negated = ir.Value(name=f"n{number}", type=kind, shape=shape)
        nodes.append(ir.Node("", "Neg", [weight], outputs=[negated]))
        total = ir.Value(name=f"s{number}", type=kind, shape=shape)
        nodes.append(ir.Node("", "Add", [last, negated], outputs=[total]))
        last = total
    graph = ir.Graph([start], [last], nodes=nodes, initializers=[weight], opset_imports={"": 18})
    return ir.Model(graph, ir_version=9)


def test_time_grows_with_the_number_of_nodes():
    def seconds(count: int) -> float:
        model = long_model(count)
        started = time.process_time()
        FoldConstants().run(model, Context())
        assert operators(model.graph) == ["Add"] * count
        return time.process_time() - started

    seconds(100)
    assert seconds(4000) < 12 * seconds(1000) + 0.5


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_random_models_compute_the_same_with_inputs_made_constant(seed: int, fixed: int):
    model = random_model(seed, nodes=25, inputs=3)
    feeds = random_inputs(model, seed)
    expected = run(model, feeds)
    for value in list(model.graph.inputs)[:fixed]:
        assert value.name is not None
        model.graph.inputs.remove(value)
        value.const_value = ir.Tensor(feeds.pop(value.name), name=value.name)
        model.graph.register_initializer(value)
    apply(FoldConstants(), model)
    check(model)
    assert_equal_results(model, expected, feeds)
    if fixed == 3:
        assert set(operators(model.graph)) <= {"Constant"}


# The reference evaluator takes minutes for one of them, which ONNX Runtime cannot run.
FLOAT = files("float", every=3, keep=lambda path: "resnet50" not in path.stem)


@pytest.mark.parametrize("path", FLOAT, indirect=True)
def test_networks_compute_the_same(path: Path):
    model = onnx_passes.load(path)
    steps = onnx_passes.apply(model, "remove-initializers-from-inputs, fold-constants, fold-constants").steps
    first, second = [step for step in steps if step.name == "fold-constants"]
    assert first.evidence is not None
    assert first.evidence.level in ("bits:sampled", "unchanged", "unverified")
    assert not second.modified


def test_sizes_in_function_bodies_are_told_by_the_contents_of_inputs():
    model = model_of(
        """g (float[2] x) => (float[2] y) { y = local.f (x) }
        <domain: "local", opset_import: ["" : 18]>
        f (x) => (y) {
          s = Constant <value = int64[1] {2}> () a = ConstantOfShape <value = float[1] {3}> (s)
          i = Constant <value = int64 {0}> () j = Constant <value = int64 {2}> () k = Constant <value = int64 {1}> ()
          r = Range (i, j, k) q = Cast <to = 1> (r) d = Add (a, q) y = Add (x, d)
        }""",
        domains='"local" : 1',
    )
    apply(FoldConstants(functions=True), model)
    (function,) = model.functions.values()
    assert [node.op_type for node in function] == ["Constant", "Add"]
