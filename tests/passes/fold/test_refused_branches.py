from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.passes.fold.fold_constants import FoldConstants
from onnx_passes.passes.fold.fold_if import FoldIf
from onnx_passes.passes.fold.refused_branches import remaining_branch
from onnx_passes.verify.run.execute import ExecutionError, Executor
from tests.passes.tools import apply, model_of, operators, run

SQUEEZED = """
  shape = Shape (x)
  size = Gather (shape, three)
  single = Equal (size, one)
  s = If (single) <then_branch = t () => (float[B, S, F] p) { p = Squeeze (x, three_) },
                   else_branch = e () => (float[B, S, F, T] q) { q = Identity (x) }>
"""
WEIGHTS = (
    "int64 three = {3}, int64[1] three_ = {3}, int64 one = {1}, int64[1] zero_ = {0}, int64 two = {2},"
    " int64[1] last = {-1}, int64[3] three_axes = {0, 0, -1}, int64[2] two_axes = {0, -1}"
)
RECURRENT = {
    "LSTM": "y, yh, yc = LSTM <hidden_size = 1> (%s, w, r)",
    "GRU": "y, yh = GRU <hidden_size = 1> (%s, w, r)",
    "RNN": "y, yh = RNN <hidden_size = 1> (%s, w, r)",
}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(operator: str, body: str, value: str) -> ir.Model:
    gates = GATES[operator]
    numbers = ", ".join(str(0.1 * (i + 1)) for i in range(2 * gates))
    hidden = ", ".join(str(0.2 * (i + 1)) for i in range(gates))
    return model_of(f"""g (float[B, S, F, T] x) => (float[S, 1, U, 1] y)
    <{WEIGHTS}, float[1, {gates}, 2] w = {{{numbers}}}, float[1, {gates}, 1] r = {{{hidden}}}>
    {{ {body} {RECURRENT[operator] % value} }}""")


def results(model: ir.Model, *shape: int) -> np.ndarray:
    x = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    return Executor().prepare(model, engine="onnxruntime").run({"x": x})["y"]


@pytest.mark.parametrize("operator", RECURRENT)
def test_a_branch_whose_rank_is_refused_is_never_taken(operator: str):
    model = recurrent(operator, SQUEEZED, "s")
    expected = results(model, 3, 4, 2, 1)
    with pytest.raises(ExecutionError):
        results(model, 3, 4, 2, 5)
    assert apply(ShapeInference(), model)
    assert apply(FoldIf(), model)
    assert operators(model.graph) == ["Squeeze", operator]
    np.testing.assert_array_equal(results(model, 3, 4, 2, 1), expected)
    with pytest.raises(ExecutionError):
        results(model, 3, 4, 2, 5)


@pytest.mark.parametrize(
    ("operator", "inputs"), [("LSTM", ", , s"), ("LSTM", ", , z, s"), ("GRU", ", , s"), ("RNN", ", , s")]
)
def test_states_have_three_axes(operator: str, inputs: str):
    """What the pass takes for granted of ONNX Runtime."""
    arrays = {
        "x": np.ones((2, 3, 2), np.float32),
        "z": np.zeros((1, 3, 1), np.float32),
        "w": np.ones((1, GATES[operator], 2), np.float32),
        "r": np.ones((1, GATES[operator], 1), np.float32),
    }
    for shape in ((1, 3, 1), (3, 1), (1, 1, 3, 1)):
        feeds = {**arrays, "s": np.zeros(shape, np.float32)}
        declared = ", ".join(f"float{list(array.shape)} {name}" for name, array in feeds.items())
        nodes = RECURRENT[operator].replace("%s, w, r", f"x, w, r, {inputs}")
        model = model_of(f"g ({declared}) => (float[2, 1, 3, 1] y) {{ {nodes} }}")
        if len(shape) == 3:
            assert run(model, feeds)[0].shape == (2, 1, 3, 1)
        else:
            with pytest.raises(ExecutionError):
                Executor().prepare(model, engine="onnxruntime").run(feeds)


def test_convolutions_take_the_rank_of_their_weights():
    model = model_of(f"""g (float[B, S, F, T] x) => (float[B, 1, O] y) <{WEIGHTS}, float[1, 4, 1] w = {{1, 2, 3, 4}}>
    {{ {SQUEEZED} a = Relu (s) y = Conv (a, w) }}""")
    expected = results(model, 3, 4, 2, 1)
    with pytest.raises(ExecutionError):
        results(model, 3, 4, 2, 5)
    apply(ShapeInference(), model)
    assert apply(FoldIf(), model)
    assert operators(model.graph) == ["Squeeze", "Relu", "Conv"]
    np.testing.assert_array_equal(results(model, 3, 4, 2, 1), expected)


BATCHED = """
  shape = Shape (x)
  flat = {flat}
  features = Gather (shape, two)
  is_one = Equal (features, one)
  v = If (is_one) <then_branch = a () => (p) {{ p = Squeeze (flat, last) }},
                   else_branch = b () => (q) {{ q = Identity (flat) }}>
  size = Shape (v)
  rank = Size (size)
  is_matrix = Equal (rank, two)
  lacks_batch = Not (is_matrix)
  u = If (lacks_batch) <then_branch = c () => (d) {{ d = Unsqueeze (v, zero_) }},
                        else_branch = f () => (h) {{ h = Identity (v) }}>
  z = Unsqueeze (u, zero_)
"""
"""A layer that adds an axis where it finds none for a batch, as exporters write it."""


def test_what_depends_on_the_rank_is_followed():
    """Three axes would become five."""
    model = recurrent("LSTM", BATCHED.format(flat="Reshape (x, three_axes)"), "z")
    apply(ShapeInference(), model)
    assert apply(FoldConstants(), model)
    assert operators(model.graph) == ["Reshape", "Squeeze", "Identity", "Unsqueeze", "LSTM"]
    assert not apply(ShapeInference(), model), "more is known now"


def test_branches_that_later_ones_repair_stay():
    """One axis becomes three, and so do two."""
    model = recurrent("LSTM", BATCHED.format(flat="Reshape (x, two_axes)"), "z")
    apply(ShapeInference(), model)
    apply(FoldConstants(), model)
    assert operators(model.graph).count("If") == 2


def remaining(text: str) -> str | None:
    """Return which branch of the first If is left."""
    model = model_of(text)
    apply(ShapeInference(), model)
    node = next(node for node in model.graph if node.op_type == "If")
    branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
    found = remaining_branch(node, branches)
    return None if found is None else ("then", "else")[branches.index(found)]


HEAD = f"g (float[B, 1, F] x, bool c) => (y) <{WEIGHTS}, float[1, 1, 1] w = {{1}}, float[1, 1, 1] r = {{1}}>"
CHOICE = """s = If (c) <then_branch = t () => (p) { p = Squeeze (x, last) },
                        else_branch = e () => (q) { q = Neg (x) }>"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("n, y = RNN <hidden_size = 1> (s, w, r)", "else"),
        ("m = Unsqueeze (s, last) n, y = RNN <hidden_size = 1> (m, w, r)", "then"),
        ("m = Mul (s, s) k = Cast <to = 1> (m) n, y = RNN <hidden_size = 1> (k, w, r)", "else"),
        ("n, y = RNN <hidden_size = 1> (x, w, r, , , s)", "else"),
        ("m = Reshape (s, three_axes) n, y = RNN <hidden_size = 1> (m, w, r)", None),
        ("m = Squeeze (s) n, y = RNN <hidden_size = 1> (m, w, r)", None),
        ("m = Add (s, x) n, y = RNN <hidden_size = 1> (m, w, r)", None),
        ("n, unused = RNN <hidden_size = 1> (s, w, r) y = Neg (x)", None),
        (
            "y = If (c) <then_branch = a () => (i) { n, i = RNN <hidden_size = 1> (s, w, r) },"
            " else_branch = b () => (j) { j = Neg (x) }>",
            None,
        ),
        ("y = Abs (s)", None),
    ],
)
def test_only_ranks_that_are_certain_count(body: str, expected: str | None):
    assert remaining(f"{HEAD} {{ {CHOICE} {body} }}") == expected
