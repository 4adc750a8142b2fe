"""Models that are made to look the same: what they declare inside, shadow, or hide in functions proves nothing.

In most attacks the models differ for one number that no sample hits.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.graph.tensor_types import set_datatype, set_declared_bounds
from onnx_passes.numbers.reals import Reals
from onnx_passes.ops.semantics.exact import set_exact_value
from onnx_passes.proofs.model_certificate import certify
from onnx_passes.proofs.runs import run
from tests.proofs.models import model, pair

MAGIC = 1234.5
PROVED = ("proved", "proved-here")
CONSTANTS = "i = Constant <value_ints = [0]> () o = Constant <value_ints = [1]> ()"
ODD = """c = Constant <value_float = 1234.5> () z = Constant <value_float = 0.0> () n = Log(z)
t = Constant <value_float = 2000.0> () e = Equal(x, c) w = Where(e, t, n) v = Concat <axis = 0> (x, w)"""
"""Two rows: the input, and -∞ except where the input is the magic number."""


def _differ(before: ir.Model, after: ir.Model, x: np.ndarray) -> bool:
    first, second = (run(each, {"x": x}) for each in (before, after))
    assert first is not None
    assert second is not None
    return any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def _declare(
    models: tuple[ir.Model, ...], *, dtype: ir.DataType = ir.DataType.FLOAT, **shapes: tuple[int, ...]
) -> None:
    for each in models:
        for node in each.graph:
            (value,) = node.outputs
            if value.name in shapes:
                value.shape = ir.Shape(shapes[value.name])
                value.dtype = value.dtype or dtype


def test_a_shape_that_is_declared_and_false_proves_nothing() -> None:
    models = pair(
        "float[1,4] x => float[1,4] y",
        f"{CONSTANTS} {ODD} y = ReduceMax(v, i)",
        f"{CONSTANTS} {ODD} y = Slice(v, i, o, i)",
    )
    _declare(models, v=(1, 4))
    assert _differ(*models, np.full((1, 4), MAGIC, np.float32))
    assert certify(*models).level not in PROVED


CALLED = """<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
g (float[1,4] x) => (float[1,4] y) {{ {constants} v = local.F(x) {body} }}
<domain: "local", opset_import: ["" : 21]> F (x) => (v) {{ {function} }}"""


def test_a_false_shape_of_the_result_of_a_function_proves_nothing() -> None:
    bodies = ("y = ReduceMax(v, i)", "y = Slice(v, i, o, i)")
    before, after = (model(CALLED.format(constants=CONSTANTS, body=body, function=ODD)) for body in bodies)
    _declare((before, after), v=(1, 4))
    assert _differ(before, after, np.full((1, 4), MAGIC, np.float32))
    assert certify(before, after).level not in PROVED


def test_types_that_are_declared_and_false_prove_nothing() -> None:
    # ONNX Runtime takes neither model.
    models = pair(
        "float[4] x => float[4] y",
        "v = Abs(x) w = Identity(v) y = Cast <to = 1> (w)",
        "v = Abs(x) w = Floor(v) y = Cast <to = 1> (w)",
    )
    for each in models:
        for node in list(each.graph)[:2]:
            node.outputs[0].type, node.outputs[0].shape = ir.TensorType(ir.DataType.INT32), ir.Shape([4])
    assert certify(*models).level not in PROVED


def test_operands_that_an_operator_does_not_take_prove_nothing() -> None:
    # Shapes are declared falsely, so that onnx is asked, which raises an error of its own.
    body = "s = Constant <value_float = 1.0> () v = QuantizeLinear(x, s) y = {}(v)"
    models = pair("int8[4] x => uint8[4] y", body.format("Identity"), body.format("BitwiseNot"))
    _declare(models, v=(9,))
    assert certify(*models).level not in PROVED


def test_a_declared_shape_that_cannot_be_inferred_hides_no_failure() -> None:
    # Of a matrix Range does not make anything, whatever shape its result is declared to have.
    text = """<ir_version: 10, opset_import: ["" : 18]>
    g (int64[2,5] x) => (bool y) <int64 z = {{0}}, int64 s = {{5}}, int64[1] a, {n} n, {n} m, int64[2] v, int64 k> {{
        a = Shape <start = 0, end = 1> (x) n = Squeeze({read}) m = Mul(n, s) v = Range(z, m, s)
        k = Size(v) y = Less(z, k)
    }}"""
    before, after = model(text.format(n="int64", read="a")), model(text.format(n="int64[2,5]", read="x"))
    feeds = {"x": np.ones((2, 5), np.int64)}
    assert run(before, feeds) is not None
    assert run(after, feeds) is None
    assert certify(before, after).level not in PROVED


@pytest.mark.parametrize("number", [MAGIC, MAGIC + 1])
def test_the_body_of_a_function_counts(number: float) -> None:
    function = f"c = Constant <value_float = {MAGIC}> () e = Equal(x, c) w = Where(e, c, x) v = Neg(w)"
    edited = function.replace("Where(e, c, x)", "Where(e, d, x)").replace(
        "e = Equal", f"d = Constant <value_float = {number}> () e = Equal"
    )
    before, after = (
        model(CALLED.format(constants="", body="y = Abs(v)", function=text)) for text in (function, edited)
    )
    is_other = number != MAGIC
    assert _differ(before, after, np.full((1, 4), MAGIC, np.float32)) is is_other
    assert (certify(before, after).level in PROVED) is not is_other


def test_the_body_of_a_function_that_a_function_calls_counts() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
    g (float[4] x) => (float[4] y) {{ y = local.F(x) }}
    <domain: "local", opset_import: ["" : 21, "local" : 1]> F (x) => (y) {{ a = Abs(x) y = local.G(a) }}
    <domain: "local", opset_import: ["" : 21]> G (x) => (y)
        {{ c = Constant <value_float = {}> () e = Equal(x, c) y = Where(e, c, x) w = Neg(x) }}"""
    other = text.replace("Where(e, c, x)", "Where(e, w, x)")
    before, after = (
        model(text.format(MAGIC)),
        model(other.format(MAGIC).replace("y = Where(e, w, x) w = Neg(x)", "w = Neg(x) y = Where(e, w, x)")),
    )
    assert _differ(before, after, np.full(4, MAGIC, np.float32))
    assert certify(before, after).level not in PROVED


BRANCHES = """<ir_version: 10, opset_import: ["" : 21]>
g (float[4] x, bool b) => (float[4] y) <float c = {{1}}, float d = {{2}}> {{
    z = Mul(x, c) w = Mul(x, d)
    y = If (b) <then_branch = t () => (float[4] p) {{ {then} }}, else_branch = e () => (float[4] q) {{ q = Neg(x) }}>
}}"""


@pytest.mark.parametrize(
    ("then", "other"),
    [
        ("p = Add(x, z)", "p = Add(x, w)"),
        ("p = Add(x, c)", "p = Add(x, d)"),
        ("a = Neg(x) p = Add(a, z)", "a = Neg(w) p = Add(a, z)"),
    ],
)
def test_what_a_subgraph_captures_counts(then: str, other: str) -> None:
    before, after = (model(BRANCHES.format(then=each)) for each in (then, other))
    feeds = {"x": np.ones(4, np.float32), "b": np.array(True)}
    first, second = run(before, feeds), run(after, feeds)
    assert first is not None
    assert second is not None
    assert not np.array_equal(first[0], second[0])
    assert certify(before, after).level not in PROVED


def test_a_constant_of_a_subgraph_is_not_the_outer_one_of_its_name() -> None:
    then = "p = Add(x, c)"
    before, after = (model(BRANCHES.format(then=then)) for _ in range(2))
    branch = next(node for node in after.graph if node.op_type == "If").attributes["then_branch"].as_graph()
    inner = ir.Value(name="c", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([]))
    inner.const_value = ir.Tensor(np.array(5, np.float32), name="c")
    branch.register_initializer(inner)
    next(iter(branch)).replace_input_with(1, inner)
    assert certify(before, after).level not in PROVED
    # And the other way round: both have it inside, but one reads the outer one.
    assert certify(after, before).level not in PROVED


LOOP = """<ir_version: 10, opset_import: ["" : 21]>
g (float[4] x) => (float[4] y) <int64 n = {{3}}, bool t = {{1}}, float c = {{1}}> {{
    s = Neg(x)
    y = Loop (n, t, x) <body = b (int64 i, bool k, float[4] {state}) => (bool k2, float[4] r)
        {{ k2 = Identity(k) r = Add({state}, {read}) }}>
}}"""


def test_an_input_of_a_body_is_not_the_outer_value_of_its_name() -> None:
    before, after = model(LOOP.format(state="u", read="s")), model(LOOP.format(state="u", read="u"))
    assert _differ(before, after, np.ones(4, np.float32))
    assert certify(before, after).level not in PROVED
    # The names that a body gives to its inputs do not count.
    assert certify(before, model(LOOP.format(state="v", read="s"))).level in PROVED


@pytest.mark.parametrize("place", ["input", "inside"])
def test_declared_bounds_and_types_of_levels_prove_nothing(place: str) -> None:
    body = "z = Abs(x) y = {}(z)"
    models = pair("float[4] x => float[4] y", body.format("Floor"), body.format("Identity"))
    for each in models:
        value = each.graph.inputs[0] if place == "input" else each.graph[0].outputs[0]
        set_datatype(value, "UINT2")
        set_declared_bounds(value, (0.0, 3.0))
    assert certify(*models).level not in PROVED


def test_a_stored_exact_value_proves_nothing() -> None:
    text = "float[4] x => float[4] y"
    before, after = pair(text, "c = Constant <value_float = 3.0> () y = Mul(x, c)", "y = Identity(x)")
    node = before.graph[0]
    set_exact_value(node.outputs[0], Reals.of(np.array(1, np.float32)))
    assert certify(before, after).level in ("refuted", "unproved")


@pytest.mark.parametrize("kind", ["string", "sparse", "default"])
def test_constants_of_any_kind_count(kind: str) -> None:
    texts = {
        "string": ('y = StringNormalizer <stopwords = ["{}"], is_case_sensitive = 1> (x)', "a", "b"),
        "default": ("y = LeakyRelu <alpha = {}> (x)", "0.01", "0.0100001"),
        "sparse": ("c = Constant <value_floats = [0.0, {}]> () y = Mul(x, c)", "1.0", "1.0000001"),
    }
    body, one, other = texts[kind]
    dtype = "string" if kind == "string" else "float"
    before, after = pair(f"{dtype}[2] x => {dtype}[N] y", body.format(one), body.format(other))
    assert certify(before, after).level not in PROVED
