from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.core.base import Context
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.passes.cleanup.remove_unused_nodes import RemoveUnusedNodes
from onnx_passes.passes.fold.fold_constants import FoldConstants
from onnx_passes.passes.fold.fold_shapes import FoldShapes
from tests.passes.tools import apply, assert_equal_results, check, model_of, operators, run


def inferred(text: str, *, opset: int = 18) -> ir.Model:
    model = model_of(text, opset=opset)
    RemoveUnusedNodes().call(model)
    ShapeInference().run(model, Context())
    return model


def data(*shape: int) -> np.ndarray:
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def constant_of(model: ir.Model, name: str) -> list[int] | int:
    tensor = model.graph.initializers[name].const_value
    assert tensor is not None
    return tensor.numpy().tolist()


HEAD = "g (float[N, 3, 4] x, int64[K] p) => (int64[K] y) <int64 i0 = {0}, int64 i1 = {1}, int64 i2 = {2}, int64[1] a0 = {0}, int64[1] a1 = {1}, int64[1] a3 = {3}, int64[2] a12 = {1, 2}, int64[1] m1 = {-1}, int64[1] far = {-9}, int64[3] t = {2, -1, 5}, bool[1] yes = {1}>"  # noqa: E501


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("v = Shape <start = 1> (x)", [3, 4]),
        ("v = Shape <start = -1> (x)", [4]),
        ("v = Shape <start = -2, end = -1> (x)", [3]),
        ("v = Shape <start = 2, end = 1> (x)", []),
        ("s = Shape (x) v = Gather (s, i1)", 3),
        ("s = Shape (x) v = Gather (s, a12)", [3, 4]),
        ("s = Shape (x) v = Gather (s, m1)", [4]),
        ("s = Shape (x) v = Slice (s, a1, a3)", [3, 4]),
        ("s = Shape (x) v = Slice (s, m1, a0, a0, m1)", [4, 3]),
        ("s = Shape (x) r = Slice (s, m1, far, a0, m1) v = Slice (r, a0, a1)", [4]),
        ("s = Shape (x) a = Gather (s, i1) b = Unsqueeze (a, a0) v = Concat <axis = 0> (b, t)", [3, 2, -1, 5]),
        ("s = Shape (x) a = Gather (s, i1) b = Gather (s, i2) v = Mul (a, b)", 12),
        ("s = Shape (x) a = Gather (s, i1) b = Gather (s, i2) v = Sub (a, b)", -1),
        ("s = Shape (x) a = Gather (s, i2) b = Gather (s, i1) v = Div (a, b)", 1),
        ("s = Shape (x) n = Gather (s, i0) m = Mul (n, i2) v = Div (m, n)", 2),
        ("s = Shape (x) n = Gather (s, i0) m = Add (n, i2) v = Sub (m, n)", 2),
        ("s = Shape (x) a, b, c = Split <num_outputs = 3> (s) v = Squeeze (c, a0)", 4),
        ("s = Shape (x) a = Slice (s, a1, a3) v = ReduceProd <keepdims = 0> (a)", 12),
        ("s = Shape (x) a = Slice (s, a1, a3) v = ReduceSum (a)", [7]),
        ("s = Shape (x) a = Gather (s, a1) e = Equal (a, a3) v = Cast <to = 7> (e)", [1]),
        ("s = Shape (x) a = Gather (s, i0) e = Equal (a, m1) v = Cast <to = 7> (e)", [0]),
        ("s = Shape (x) a = Gather (s, i0) b = Add (a, i1) e = Greater (b, a) v = Cast <to = 7> (e)", 1),
        ("s = Shape (x) a = Gather (s, i0) e = GreaterOrEqual (a, a) v = Cast <to = 7> (e)", 1),
        ("s = Shape (x) e = Equal (s, s) o = Not (e) v = Cast <to = 7> (o)", [0, 0, 0]),
        ("s = Shape (x) a = Slice (s, a1, a3) n = Gather (s, i0) v = Where (yes, a, n)", [3, 4]),
        ("s = Shape (x) a = Gather (s, i1) c = Cast <to = 6> (a) v = Cast <to = 7> (c)", 3),
        ("s = Shape (x) a = Gather (s, a12) r = Reshape (a, m1) v = Max (r, a3)", [3, 4]),
        ("s = Shape (x) a = Gather (s, i1) b = Neg (a) v = Min (b, i0)", -3),
        ("s = Shape (x) a = Gather (s, i1) v = Expand (a, a3)", [3, 3, 3]),
    ],
)  # fmt: skip
def test_known_parts_of_shapes_become_constant(nodes: str, expected: list[int] | int):
    model = inferred(f"{HEAD} {{ {nodes} y = Add (p, v) }}")
    feeds = {"x": data(2, 3, 4), "p": np.zeros(max(np.size(expected), 1), np.int64)}
    before = run(model, feeds)
    assert np.array_equal(before[0], np.zeros(1, np.int64) + np.array(expected, np.int64))
    assert apply(FoldShapes(), model)
    assert operators(model.graph) == ["Add"]
    assert constant_of(model, "v") == expected
    check(model)
    assert_equal_results(model, before, feeds)


@pytest.mark.parametrize(
    "nodes",
    [
        "v = Shape (x)",
        "s = Shape (x) v = Gather (s, i0)",
        "s = Shape (x) v = Slice (s, a0, a1)",
        "v = Size (x)",
        "s = Shape (x) a = Gather (s, i0) e = Equal (a, a3) v = Cast <to = 7> (e)",
        "s = Shape (x) a = Gather (s, i0) v = Max (a, i1)",
        "s = Shape (x) a = Gather (s, i0) e = Greater (a, i0) v = Cast <to = 7> (e)",
        "s = Shape (x) a = Gather (s, i0) v = Div (a, i2)",
        "s = Shape (p) v = Gather (s, i0)",
    ],
)
def test_dynamic_dimensions_stay(nodes: str):
    assert not apply(FoldShapes(), inferred(f"{HEAD} {{ {nodes} y = Add (p, v) }}"))


def test_static_shapes_and_sizes():
    model = inferred("g (float[2, 3] x) => (int64[2] y, int64 z) { s = Shape (x) y = Identity (s) z = Size (x) }")
    assert apply(FoldShapes(), model)
    assert operators(model.graph) == ["Constant", "Constant"]
    assert_equal_results(model, [np.array([2, 3]), np.array(6)], {"x": data(2, 3)})


def test_equal_names_are_equal_sizes():
    model = inferred("""g (float[N, 3] x, float[N, 5] z, int64 p) => (int64 y) <int64 i0 = {0}> {
      s = Shape (x) a = Gather (s, i0) t = Shape (z) b = Gather (t, i0) v = Sub (a, b) y = Add (p, v)
    }""")
    assert apply(FoldShapes(), model)
    assert constant_of(model, "v") == 0


def test_numbers_that_wrap_around_are_left_alone():
    model = inferred("""g (float[N, 3] x, int32 p) => (int32 y) <int64 i1 = {1}, int32 big = {2000000000}> {
      s = Shape (x) a = Gather (s, i1) c = Cast <to = 6> (a) v = Mul (c, big) y = Add (p, v)
    }""")
    feeds = {"x": data(1, 3), "p": np.array(0, np.int32)}
    before = run(model, feeds)
    apply(FoldShapes(), model)
    assert operators(model.graph) == ["Mul", "Add"]
    assert apply(FoldConstants(), model)
    assert operators(model.graph) == ["Add"]
    assert_equal_results(model, before, feeds)


RESHAPE = """g (float[N, 4, 6] x%s) => (float[P, Q%s] y) <int64 i0 = {0}, int64 i1 = {1}, int64 i2 = {2},
  int64[1] a0 = {0}, int64[1] m1 = {-1}, int64[1] c24 = {24}, int64[1] c2 = {2}, int64[1] c12 = {12},
  int64[1] c3 = {3}> {
  s = Shape (x)
  n = Gather (s, i0)
  n1 = Unsqueeze (n, a0)
  d = Mul (n, i2)
  d1 = Unsqueeze (d, a0)
  %s
  y = Reshape %s (x, t)
}"""


@pytest.mark.parametrize(
    ("target", "rank", "expected"),
    [
        ("t = Concat <axis = 0> (n1, c24)", 2, [0, 24]),
        ("t = Concat <axis = 0> (n1, m1)", 2, [0, 24]),
        ("t = Concat <axis = 0> (n1, c2, c12)", 3, [0, 2, 12]),
        ("t = Concat <axis = 0> (c24, n1)", 2, [24, -1]),
        ("t = Concat <axis = 0> (d1, c12)", 2, [-1, 12]),
        ("t = Concat <axis = 0> (d1, c3, m1)", 3, [-1, 3, 4]),
    ],
)
def test_reshape_copies_or_infers_what_it_can(target: str, rank: int, expected: list[int]):
    model = inferred(RESHAPE % ("", ", R" * (rank - 2), target, ""))
    feeds = {"x": data(5, 4, 6)}
    before = run(model, feeds)
    assert apply(FoldShapes(), model)
    assert operators(model.graph) == ["Reshape"]
    assert constant_of(model, "y/shape") == expected
    check(model)
    assert_equal_results(model, before, feeds)


def test_an_unknown_element_is_inferred():
    model = inferred(RESHAPE % (", int64[1] u", "", "t = Concat <axis = 0> (u, c12)", ""))
    for size in (-1, 4):
        feeds = {"x": data(2, 4, 6), "u": np.array([size])}
        before = run(model, feeds)
        apply(FoldShapes(), model)
        assert operators(model.graph) == ["Reshape"]
        assert_equal_results(model, before, feeds)


def test_zero_is_no_copy_where_it_is_allowed():
    model = inferred(RESHAPE % ("", "", "t = Concat <axis = 0> (n1, c24)", "<allowzero = 1>"))
    assert apply(FoldShapes(), model)
    assert constant_of(model, "y/shape") == [-1, 24]


class TestEmptyDimensions:
    TEXT = """g (float[N, M, 6] x) => (float[N, Q] y)
      <int64 i0 = {0}, int64 i1 = {1}, int64 c6 = {6}, int64[1] a0 = {0}> {
      s = Shape (x)
      n = Gather (s, i0)
      n1 = Unsqueeze (n, a0)
      m = Gather (s, i1)
      k = Mul (m, c6)
      k1 = Unsqueeze (k, a0)
      t = Concat <axis = 0> (n1, k1)
      y = Reshape (x, t)
    }"""

    def test_nothing_is_inferred_beside_what_may_be_empty(self):
        model = inferred(self.TEXT)
        assert not apply(FoldShapes(), model)
        assert run(model, {"x": np.zeros((0, 2, 6), np.float32)})[0].shape == (0, 12)

    def test_unless_asked_for(self):
        model = inferred(self.TEXT)
        assert apply(FoldShapes(nonempty=True), model)
        assert constant_of(model, "y/shape") == [0, -1]

    @pytest.mark.parametrize("pass_", [FoldShapes(), FoldConstants()])
    def test_copies_are_right(self, pass_: FoldShapes | FoldConstants):
        model = inferred(RESHAPE % ("", "", "t = Concat <axis = 0> (n1, c24)", ""))
        assert apply(pass_, model)
        assert_equal_results(model, [np.zeros((0, 24), np.float32)], {"x": np.zeros((0, 4, 6), np.float32)})


def test_expand_leaves_dimensions_alone_that_are_right():
    model = inferred("""g (float[N, 1] x) => (float[N, 4] y) <int64 i0 = {0}, int64[1] a0 = {0}, int64[1] four = {4}> {
      s = Shape (x) n = Gather (s, i0) n1 = Unsqueeze (n, a0) t = Concat <axis = 0> (n1, four) y = Expand (x, t)
    }""")
    assert apply(FoldShapes(), model)
    assert operators(model.graph) == ["Expand"]
    assert constant_of(model, "y/shape") == [1, 4]
    for rows in (0, 1, 3):
        assert_equal_results(model, [np.repeat(data(rows, 1), 4, 1)], {"x": data(rows, 1)})


def test_expand_to_another_dynamic_size_stays():
    model = inferred("""g (float[1, 4] x, float[N] z) => (float[N, 4] y) <int64[1] four = {4}> {
      s = Shape (z) t = Concat <axis = 0> (s, four) y = Expand (x, t)
    }""")
    assert not apply(FoldShapes(), model)


def test_the_pattern_of_exporters_for_expand():
    text = """g (float[N, 1] x) => (float[N, 4] y)
      <int64 i0 = {0}, int64[1] a0 = {0}, int64[1] four = {4}, int64[1] two = {2}, int64 m1 = {-1}> {
        s = Shape (x)
        n = Gather (s, i0)
        n1 = Unsqueeze (n, a0)
        c = Concat <axis = 0> (n1, four)
        ones = ConstantOfShape <value = int64[1] {1}> (two)
        minus = Mul (ones, m1)
        e = Equal (c, minus)
        t = Where (e, ones, c)
        y = Expand (x, t)
      }"""
    model = inferred(text)
    assert apply(FoldConstants(), model)
    assert operators(model.graph) == ["Expand"]
    assert_equal_results(model, [np.repeat(data(3, 1), 4, 1)], {"x": data(3, 1)})


def test_shapes_found_on_the_way_are_used():
    model = inferred("""g (float[2, 3] x, int64[K] u) => (float[A, B] y)
      <int64[1] a0 = {0}, int64[1] m1 = {-1}> {
      s = Shape (x)
      f = Cast <to = 1> (s)
      i = Cast <to = 7> (f)
      e = ConstantOfShape (i)
      q = Add (e, x)
      r = Shape (q)
      g0 = Gather (r, a0)
      t = Concat <axis = 0> (g0, m1)
      y = Reshape (x, t)
    }""")
    before = run(model, {"x": data(2, 3), "u": np.zeros(1, np.int64)})
    assert apply(FoldConstants(), model)
    assert operators(model.graph) == ["Reshape"]
    assert_equal_results(model, before, {"x": data(2, 3), "u": np.zeros(1, np.int64)})


def test_ranges_of_known_length():
    model = inferred("""g (float[N, 3] x, int64[3] p) => (int64[3] y) <int64 i1 = {1}, int64 i0 = {0}> {
      s = Shape (x) n = Gather (s, i1) v = Range (i0, n, i1) y = Add (p, v)
    }""")
    assert apply(FoldConstants(), model)
    assert constant_of(model, "v") == [0, 1, 2]


def test_attributes_of_older_opsets():
    model = inferred(
        """g (float[N, 3, 4] x, int64[3] p) => (int64[3] y) {
          s = Shape (x)
          a = Slice <starts = [1], ends = [3], axes = [0]> (s)
          b = Slice <starts = [1], ends = [2]> (s)
          c = Squeeze <axes = [0]> (b)
          d = Unsqueeze <axes = [0]> (c)
          v = Concat <axis = 0> (a, d)
          y = Add (p, v)
        }""",
        opset=9,
    )
    assert apply(FoldShapes(), model)
    assert constant_of(model, "v") == [3, 4, 3]
    assert_equal_results(model, [np.array([3, 4, 3])], {"x": data(1, 3, 4), "p": np.zeros(3, np.int64)})


def test_bodies_use_shapes_from_outside_and_inside():
    model = inferred("""g (bool k, float[N, 3] x) => (int64 y) <int64 i1 = {1}> {
      s = Shape (x)
      y = If (k) <then_branch = t () => (int64 r) { a = Gather (s, i1) r = Add (a, i1) },
                  else_branch = e () => (int64 q) { b = Abs (x) c = Shape (b) d = Gather (c, i1) q = Neg (d) }>
    }""")
    assert apply(FoldShapes(), model)
    assert [operators(graph) for graph in model.graphs()] == [["If"], ["Constant"], ["Constant"]]
    check(model)
    for taken, expected in ((True, 4), (False, -3)):
        assert_equal_results(model, [np.array(expected)], {"k": np.array(taken), "x": data(2, 3)})


def test_several_consumers_and_outputs():
    model = inferred("""g (float[N, 3] x) => (int64[2] s, int64 z) <int64 i1 = {1}> {
      s = Shape (x) z = Gather (s, i1)
    }""")
    assert apply(FoldShapes(), model)
    assert operators(model.graph) == ["Shape", "Constant"]
    assert_equal_results(model, [np.array([5, 3]), np.array(3)], {"x": data(5, 3)})


STEPS = (
    "{v} = Gather ({a}, first)",
    "{v} = Gather ({a}, last)",
    "{v} = Slice ({a}, zero, two)",
    "{v} = Slice ({a}, minus, far, zero, minus)",
    "{v} = Concat <axis = 0> ({a}, {b})",
    "{v} = Add ({a}, two)",
    "{v} = Sub ({a}, two)",
    "{v} = Mul ({a}, two)",
    "{v} = Mul ({a}, {a})",
    "{v} = Neg ({a})",
    "{v} = Div ({a}, two)",
    "{v} = Max ({a}, two)",
    "{v} = Min ({a}, zero)",
    "{v} = ReduceProd ({a})",
    "{v} = ReduceSum ({a})",
    "{v}_e = Equal ({a}, two) {v} = Where ({v}_e, minus, {a})",
    "{v}_l = Less ({a}, zero) {v} = Cast <to = 7> ({v}_l)",
    "{v}_g = GreaterOrEqual ({a}, minus) {v}_n = Not ({v}_g) {v} = Cast <to = 7> ({v}_n)",
    "{v}_c = Cast <to = 6> ({a}) {v} = Cast <to = 7> ({v}_c)",
    "{v}_s = Gather ({a}, scalar) {v}_t = Mul ({v}_s, {v}_s) {v} = Unsqueeze ({v}_t, zero)",
    "{v}_s = ConstantOfShape <value = int64[1] {{3}}> ({a}) {v} = Shape ({v}_s)",
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=9))
def test_random_arithmetic_on_shapes_gives_the_same(steps: list[tuple[str, int, int]]):
    known, lines = ["s", "t"], ["s = Shape (x)", "t = Shape <start = 1> (z)"]
    for number, (step, a, b) in enumerate(steps):
        lines.append(step.format(v=f"v{number}", a=known[a % len(known)], b=known[b % len(known)]))
        known.append(f"v{number}")
    outputs = ", ".join(f"int64[L{name}] o{name}" for name in known)
    lines += [f"o{name} = Identity ({name})" for name in known]
    text = f"""g (float[N, 3, M] x, float[M, N] z) => ({outputs}) <int64[1] first = {{0}}, int64[1] last = {{-1}},
      int64[1] zero = {{0}}, int64[1] two = {{2}}, int64[1] minus = {{-1}}, int64[1] far = {{-99}},
      int64 scalar = {{0}}>
      {{ {" ".join(lines)} }}"""
    model, original = inferred(text), inferred(text)
    FoldConstants().run(model, Context())
    check(model)
    for n, m in ((0, 1), (1, 2), (5, 4)):
        feeds = {"x": data(n, 3, m), "z": data(m, n)}
        try:
            before = run(original, feeds)
        except Exception:  # noqa: BLE001 - ConstantOfShape refuses negative sizes
            continue
        assert_equal_results(model, before, feeds)


def test_equal_sizes_are_computed_once():
    model = inferred("""g (float[N,M] x, float[M,3] z) => (int64[K] y, int64[K] w)
      <int64 i0 = {0}, int64 i1 = {1}, int64 one = {1}> {
        s = Shape (x) n = Gather (s, i1) y = Range (i0, n, one)
        t = Shape (z) m = Gather (t, i0) w = Range (i0, m, one)
      }""")
    feeds = {"x": data(2, 4), "z": data(4, 3)}
    expected = run(model, feeds)
    assert apply(FoldShapes(), model)
    assert operators(model.graph) == ["Shape", "Gather", "Range", "Range"]
    assert_equal_results(model, expected, feeds)


@pytest.mark.parametrize("shapes", ["float[N,M] x, float[K,3] z", "float[N,?] x, float[?,3] z"])
def test_sizes_that_may_differ_are_computed_both(shapes: str):
    text = f"""g ({shapes}) => (int64 y) <int64 i0 = {{0}}, int64 i1 = {{1}}> {{
        s = Shape (x) n = Gather (s, i1) t = Shape (z) m = Gather (t, i0) y = Add (n, m)
      }}"""
    assert not apply(FoldShapes(), inferred(text))
