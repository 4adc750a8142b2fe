from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.graph import annotations
from onnx_passes.passes.fold.fold_constants import FoldConstants
from onnx_passes.passes.fold.fold_if import FoldIf
from tests.passes.tools import apply, assert_equal_results, check, model_of, operators, run, value

X = np.array([1.5, -2.0], np.float32)

TEXT = """g (float[2] x) => (float[2] y) <bool k = {%d}, float[2] a = {1, 2}> {
  m = Mul (x, a)
  i = If (k) <then_branch = t () => (float[2] r) <float[2] w = {3, 4}> { c = Add (m, w) r = Neg (c) },
              else_branch = e () => (float[2] s) { c = Sub (m, a) s = Abs (c) }>
  y = Relu (i)
}"""


@pytest.mark.parametrize(
    ("taken", "expected"), [(1, ["Mul", "Add", "Neg", "Relu"]), (0, ["Mul", "Sub", "Abs", "Relu"])]
)
def test_the_branch_that_is_taken_takes_the_place(taken: int, expected: list[str]):
    model = model_of(TEXT % taken)
    before = run(model, {"x": X})
    assert apply(FoldIf(), model)
    assert operators(model.graph) == expected
    assert [node.outputs[0].name for node in model.graph] == ["m", "c", "i", "y"]
    assert set(model.graph.initializers) == ({"a", "w"} if taken else {"a"})
    check(model)
    assert_equal_results(model, before, {"x": X})


@pytest.mark.parametrize(
    "header", ["(float[2] x, bool k) => (float[2] y) <bool k = {1}>", "(float[2] x, bool k) => (float[2] y)"]
)
def test_conditions_that_may_change_stay(header: str):
    model = model_of(f"""g {header} {{
      y = If (k) <then_branch = t () => (float[2] r) {{ r = Neg (x) }},
                  else_branch = e () => (float[2] s) {{ s = Abs (x) }}>
    }}""")
    assert not apply(FoldIf(), model)


def test_names_that_others_have_are_changed():
    model = model_of("""g (bool q, float[2] x) => (float[2] y, float[2] z) <bool k = {1}> {
      y = If (k) <then_branch = t () => (float[2] r) { c = Neg (x) r = Exp (c) },
                  else_branch = e () => (float[2] s) { s = Abs (x) }>
      z = If (q) <then_branch = u () => (float[2] r) { c = Abs (x) r = Exp (c) },
                  else_branch = v () => (float[2] s) { s = Neg (x) }>
    }""")
    feeds = {"x": X, "q": np.array(True)}
    before = run(model, feeds)
    assert apply(FoldIf(), model)
    assert operators(model.graph) == ["Neg", "Exp", "If"]
    names = [v.name for graph in model.graphs() for node in graph for v in node.outputs]
    assert len(names) == len(set(names))
    check(model)
    assert_equal_results(model, before, feeds)


def test_results_that_are_outputs_keep_their_names():
    model = model_of("""g (float[2] x) => (float[2] y, float[2] w, float[2] v) <bool k = {1}> {
      n = Neg (x)
      y, w, v = If (k) <
        then_branch = t () => (float[2] r, float[2] o, float[2] b) <float[2] b = {5, 6}> {
          r = Exp (x)
          o = Identity (n)
        },
        else_branch = e () => (float[2] s, float[2] q, float[2] p) { s = Abs (x) q = Exp (s) p = Neg (q) }>
    }""")
    before = run(model, {"x": X})
    assert apply(FoldIf(), model)
    assert [output.name for output in model.graph.outputs] == ["y", "w", "v"]
    assert "If" not in operators(model.graph)
    check(model)
    assert_equal_results(model, before, {"x": X})


def test_nested_branches_are_taken_at_once():
    model = model_of("""g (float[2] x) => (float[2] y) <bool k = {1}, bool l = {0}> {
      y = If (k) <
        then_branch = t () => (float[2] r) {
          r = If (l) <then_branch = tt () => (float[2] p) { p = Neg (x) },
                      else_branch = te () => (float[2] q) { m = Abs (x) q = Exp (m) }>
        },
        else_branch = e () => (float[2] s) {
          s = If (l) <then_branch = et () => (float[2] o) { o = Neg (x) },
                      else_branch = ee () => (float[2] n) { n = Abs (x) }>
        }>
    }""")
    before = run(model, {"x": X})
    assert apply(FoldIf(), model)
    assert operators(model.graph) == ["Abs", "Exp"]
    assert not model.graph.initializers
    check(model)
    assert_equal_results(model, before, {"x": X})


def test_inside_the_body_of_a_loop():
    model = model_of("""g (int64 n, float[2] x) => (float[2] y) <bool go = {1}, bool k = {0}> {
      y = Loop (n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) {
        d = Identity (c)
        w = If (k) <then_branch = t () => (float[2] r) { r = Neg (v) },
                    else_branch = e () => (float[2] s) <float[2] a = {1, 2}> { s = Add (v, a) }>
      }>
    }""")
    feeds = {"n": np.array(2), "x": X}
    before = run(model, feeds)
    assert apply(FoldIf(), model)
    body = next(graph for graph in model.graphs() if graph.name == "b")
    assert operators(body) == ["Identity", "Add"]
    assert body.outputs[1].name == "w"
    check(model)
    assert_equal_results(model, before, feeds)


def test_types_annotations_and_metadata_come_along():
    model = model_of(TEXT % 1)
    node = next(node for node in model.graph if node.op_type == "If")
    node.metadata_props["from"] = "the If"
    result = node.outputs[0]
    result.type, result.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([2])
    annotations.set(result, {"finn_datatype": "INT2"})
    assert apply(FoldIf(), model)
    found = value(model, "i")
    assert annotations.get(found) == {"finn_datatype": "INT2"}
    assert (found.dtype, found.shape) == (ir.DataType.FLOAT, [2])
    negation = found.producer()
    assert negation is not None
    assert negation.metadata_props == {"from": "the If"}


def test_a_branch_with_the_only_use_of_something_takes_it_away():
    model = model_of("""g (float[2] x) => (float[2] y) <bool k = {1}, float[2] a = {1, 2}> {
      m = Mul (x, a)
      y = If (k) <then_branch = t () => (float[2] r) { r = Neg (x) },
                  else_branch = e () => (float[2] s) { s = Abs (m) }>
    }""")
    assert apply(FoldIf(), model)
    assert operators(model.graph) == ["Neg"]
    assert not model.graph.initializers


def test_folding_constants_decides_conditions_and_goes_on():
    model = model_of("""g (float[2] x) => (float[2] y) <int64[2] a = {1, 2}, int64 two = {2}, int64 one = {1}> {
      s = Gather (a, one)
      k = Equal (s, two)
      i = If (k) <then_branch = t () => (float[2] r) { r = Constant <value_floats = [3.0, 4.0]> () },
                  else_branch = e () => (float[2] q) { q = Exp (x) }>
      n = Neg (i)
      y = Add (x, n)
    }""")
    before = run(model, {"x": X})
    assert apply(FoldConstants(), model)
    assert operators(model.graph) == ["Add"]
    assert set(model.graph.initializers) == {"n"}
    check(model)
    assert_equal_results(model, before, {"x": X})


def test_functions_are_left_alone_unless_asked_for():
    text = """g (float[2] x) => (float[2] y) { y = local.f (x) }
      <domain: "local", opset_import: ["" : 18]>
      f (v) => (w) {
        k = Constant <value = bool {1}> ()
        w = If (k) <then_branch = t () => (r) { r = Neg (v) }, else_branch = e () => (s) { s = Abs (v) }>
      }"""
    model = model_of(text, domains='"local" : 1')
    assert not apply(FoldIf(), model)
    assert not apply(FoldConstants(), model)
    assert apply(FoldConstants(functions=True), model)
    [function] = model.functions.values()
    assert operators(function) == ["Neg"]
    assert_equal_results(model, [-X], {"x": X})
