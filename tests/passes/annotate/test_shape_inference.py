from __future__ import annotations

import re
import sys

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.core.errors import PassFailedError
from onnx_passes.graph import annotations
from onnx_passes.graph.hashing.fingerprint import full_hash, structural_hash
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from tests.helpers.random_models import random_inputs, random_model
from tests.passes.tools import apply, assert_equal_results, check, model_of, notes_of, run, value, values

QONNX = '"qonnx.custom_op.general" : 2'


def described(v: ir.Value) -> str:
    return f"{'' if v.dtype is None else v.dtype.name}{'?' if v.shape is None else v.shape}"


def infer(model: ir.Model) -> dict[str, str]:
    """Infer, and return element type and shape of every value by its name."""
    before = structural_hash(model)
    apply(ShapeInference(), model)
    assert structural_hash(model) == before
    return {
        v.name or "": f"{'' if v.dtype is None else v.dtype.name}{'?' if v.shape is None else v.shape}"
        for v in values(model)
    }


def forget(model: ir.Model) -> ir.Model:
    """Drop types and shapes of all results but those of the model."""
    for node in model.graph.all_nodes():
        for output in node.outputs:
            if output not in model.graph.outputs:
                output.type = output.shape = None
    return model


def test_infers_types_and_shapes():
    found = infer(model_of("g (float[2, 3] x) => (float y) { a = Transpose (x) b = Shape (a) y = ReduceSum (a) }"))
    assert (found["a"], found["b"]) == ("FLOAT[3,2]", "INT64[2]")


def test_what_is_known_already_is_no_change():
    assert not apply(
        ShapeInference(), model_of("g (float[2] x) => (float[2] y) <float[2] a> { a = Abs (x) y = Relu (a) }")
    )


def test_constants_keep_the_name_of_their_tensor():
    model = model_of(
        "g (float[1] x) => (float[1] y) <float[1] c> { c = Constant <value = float[1] {1}> () y = Add (x, c) }"
    )
    assert not apply(ShapeInference(), model)


def test_dimensions_are_computed_by_name():
    found = infer(model_of("g (float[N, 8] x) => (float[M, 8] y) { a = Concat <axis = 0> (x, x) y = Relu (a) }"))
    assert found["a"] == "FLOAT[2*N,8]"
    assert found["y"] == "FLOAT[M,8]"


def test_declared_arithmetic_keeps_its_spelling():
    model = model_of("g (float[N, 8] x) => (float[M, 8] y) { a = Concat <axis = 0> (x, x, x) y = Relu (a) }")
    model.graph.inputs[0].shape = ir.Shape(["2*P+1", 8])
    value(model, "a").shape = ir.Shape(["3*(2*P+1)", 8])
    found = infer(model)
    assert (found["x"], found["a"], found["y"]) == ("FLOAT[2*P+1,8]", "FLOAT[3*(2*P+1),8]", "FLOAT[M,8]")
    assert not apply(ShapeInference(), model)


def test_equal_sizes_found_in_different_ways_have_one_name():
    model = model_of("""g (float[N, 4, H] x) => (float[A] y) <int64[2] f = {0, -1}> {
      a = MaxPool <kernel_shape = [2], strides = [2]> (x)
      b = Concat <axis = 2> (a, a) c = Reshape (b, f) d = Reshape (a, f) e = Concat <axis = 1> (d, d) y = ReduceSum (e)
    }""")
    found = infer(model)
    assert found["c"] == found["e"] == "FLOAT[N,8*floor(H/2)]"


def test_numbers_replace_declared_names_and_unknowns():
    model = model_of("g (float[2, 8] x) => (float[N, ?] y) { y = Relu (x) }")
    assert infer(model)["y"] == "FLOAT[2,8]"


FALSE = {
    "number": ("g (float[N, 8] x) => (float[M, 8] y) <float[M, 3] a> { a = Abs (x) y = Relu (a) }", "FLOAT[M,8]"),
    "rank": ("g (float[N, 8] x) => (float[M, 8] y) <float[M] a> { a = Abs (x) y = Relu (a) }", "FLOAT[N,8]"),
    "fixed number": ("g (float[2, 8] x) => (float[2, 8] y) <float[3, 8] a> { a = Abs (x) y = Relu (a) }", "FLOAT[2,8]"),
    "fixed rank": ("g (float[2, 8] x) => (float[2, 8] y) <float[2] a> { a = Abs (x) y = Relu (a) }", "FLOAT[2,8]"),
    "rank of a branch": (
        """g (float[N, 8] x, bool c) => (float[K] y) <float[M] a, int64[1] flat = {-1}> {
          a = If (c) <then_branch = t () => (float u) { u = Reshape (x, flat) },
                      else_branch = e () => (float v) { v = Abs (x) }>
          y = Reshape (a, flat) }""",
        "FLOAT?",
    ),
    "number of a branch": (
        """g (float[3, 8] x, bool c) => (float[K] y) <float[3, 8] a, int64[1] flat = {-1}> {
          a = If (c) <then_branch = t () => (float u) { u = Abs (x) },
                      else_branch = e () => (float v) { v = Concat <axis = 0> (x, x) }>
          y = Reshape (a, flat) }""",
        "FLOAT[?,8]",
    ),
}


@pytest.mark.parametrize("name", FALSE)
def test_declarations_that_operators_contradict_are_dropped(name: str):
    text, expected = FALSE[name]
    model = model_of(text)
    assert apply(ShapeInference(), model)
    assert re.sub(r"_d\d+", "?", described(value(model, "a"))) == expected
    (note,) = notes_of(ShapeInference(), model_of(text))
    assert note.startswith("dropped a declared shape: ")
    assert not apply(ShapeInference(), model)


@pytest.mark.parametrize("size", ["N", "4"])
def test_a_false_output_is_what_its_operator_gives(size: str):
    model = model_of(f"g (float[{size}, 8] x) => (float[M] y) {{ y = Relu (x) }}")
    assert infer(model)["y"] == f"FLOAT[{size},8]"


def test_a_false_rank_is_not_folded():
    model = model_of("""g (float[N, 8] x, bool c) => (float y, int64 rank) <float[M] a, int64[1] flat = {-1}> {
      a = If (c) <then_branch = t () => (float u) { u = Reshape (x, flat) },
                  else_branch = e () => (float v) { v = Abs (x) }>
      s = Shape (a) rank = Size (s) y = Reshape (a, flat) }""")
    feeds = {"x": np.ones((2, 8), np.float32), "c": np.array(False)}
    folded = onnx_passes.apply(model, "fold-constants", verify=False).model
    assert run(model, feeds)[1] == 2
    assert run(folded, feeds)[1] == 2


def test_sequences_that_a_loop_carries_are_no_tensors():
    model = model_of("""g (float[2, 3] x, int64 n, bool c) => (float y) {
      s = SequenceConstruct (x)
      t = Loop (n, c, s) <body = b (int64 i, bool ci, seq(float[2, 3]) a) => (bool co, seq(float[2, 3]) o) {
        co = Identity (ci) o = SequenceInsert (a, x) }>
      y = ConcatFromSequence <axis = 0> (t) }""")
    body = next(node for node in model.graph if node.op_type == "Loop").attributes["body"].as_graph()
    for inner in (body.inputs[2], body.outputs[1]):
        inner.type = inner.shape = None
    infer(model)
    assert isinstance(body.inputs[2].type, ir.SequenceType)
    assert isinstance(value(model, "t").type, ir.SequenceType)
    feeds = {"x": np.ones((2, 3), np.float32), "n": np.array(2), "c": np.array(True)}
    assert run(model, feeds)[0].shape == (6, 3)


def test_inputs_get_names_for_unknown_dimensions_only():
    model = model_of("g (float[?, 3, ?] x, float[N] z) => (float[?, 3, ?] y) { y = Relu (x) }")
    found = infer(model)
    assert (found["x"], found["z"], found["y"]) == ("FLOAT[_d0,3,_d1]", "FLOAT[N]", "FLOAT[_d0,3,_d1]")


def test_declared_types_win():
    model = model_of("g (float[2] x) => (int64[2] y) <double[2] a> { a = Abs (x) y = Relu (a) }")
    found = infer(model)
    assert (found["a"], found["y"]) == ("DOUBLE[2]", "INT64[2]")


def test_denotations_survive():
    model = model_of("g (float[2, 8] x) => (float[N, 8] y) { y = Relu (x) }")
    y = model.graph.outputs[0]
    y.shape.set_denotation(0, "DATA_BATCH")
    infer(model)
    assert (y.shape, y.shape.get_denotation(0)) == ([2, 8], "DATA_BATCH")


def test_values_share_no_shape_and_no_type():
    model = model_of(
        "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Mul (x, w) b = Relu (a) y = Relu (b) }"
    )
    infer(model)
    shapes = [v.shape for v in values(model)]
    types = [v.type for v in values(model)]
    assert len({id(s) for s in shapes}) == len(shapes)
    assert len({id(t) for t in types}) == len(types)
    assert not any(value(model, name).shape.frozen for name in "ab")


def test_nothing_else_is_left_behind():
    model = model_of(
        "g (float[2, 3] x) => (float[?, ?] y) <int64[2] i = {1, 0}> { s = Shape(x) t = Gather(s, i) y = Reshape(x, t) }"
    )
    constants = {v: v.const_value for v in values(model)}
    infer(model)
    assert all(v.const_value is constants[v] for v in values(model))
    assert not any(v.metadata_props for v in values(model))
    assert value(model, "y").shape == [3, 2]


SUBGRAPHS = """g (bool k, float[N, 2] x) => (float[N, 2] y) {
  a = Abs (x)
  b = If (k) <then_branch = t () => (r) { u = Neg (a) r = Relu (u) },
              else_branch = e () => (s) { s = Concat <axis = 1> (a, a) }>
  c = If (k) <then_branch = tt () => (rr) { rr = Neg (a) },
              else_branch = ee () => (ss) { ss = Relu (a) }>
  y = Relu (c)
}"""


def test_subgraphs():
    found = infer(model_of(SUBGRAPHS))
    assert (found["u"], found["r"], found["s"], found["c"]) == (
        "FLOAT[N,2]",
        "FLOAT[N,2]",
        "FLOAT[N,4]",
        "FLOAT[N,2]",
    )
    assert found["b"].startswith("FLOAT[N,_d")


def test_results_of_functions_per_call():
    model = model_of(
        """g (float[2, 3] x, int32[N] z) => (float y) {
          a = local.f <k = 0> (x) b = local.f <k = -1> (x) c = local.f <k = 0> (z) y = ReduceSum (x)
        }
        <domain: "local", opset_import: ["" : 18]>
        f <k> (p) => (r) { q = Concat <axis: int = @k> (p, p) r = Abs (q) }""",
        domains='"local" : 1',
    )
    found = infer(model)
    assert (found["a"], found["b"], found["c"]) == ("FLOAT[4,3]", "FLOAT[2,6]", "INT32[2*N]")
    function = next(iter(model.functions.values()))
    assert all(v.shape is None for node in function for v in node.outputs)


@pytest.mark.parametrize(
    "domain", ["qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general", "finn", "onnx_passes"]
)
@pytest.mark.parametrize("imported", [True, False])
def test_custom_operators(domain: str, *, imported: bool):
    text = """g (float[N, 8] x, float[8, 4] w) => (float[N, 4] y) <float s = {1}, float z = {0}, float n = {4}> {
      a = {d}.Quant (x, s, z, n)
      b = {d}.IntQuant (a, s, z, n)
      c = {d}.BipolarQuant (b, s)
      d = {d}.Trunc (c, s, z, n, n)
      e = {d}.FloatQuant (d, s, n, n)
      f = {d}.MultiThreshold (e, w)
      h = {d}.XnorPopcountMatMul (f, w)
      y = Relu (h)
    }"""
    model = model_of(text.replace("{d}", domain), domains=f'"{domain}" : 1')
    if not imported:
        del model.opset_imports[domain]
    found = infer(model)
    assert {found[name] for name in "abcdef"} == {"FLOAT[N,8]"}
    assert found["h"] == "FLOAT[N,4]"


@pytest.mark.parametrize(
    ("size", "attributes", "expected"),
    [
        ("1, 6, 6, 4", "stride = [1, 1], kernel_size = [3, 3], pad_amount = [0, 0, 0, 0]", "[1,4,4,36]"),
        ("1, 7, 9, 2", "stride = [2, 3], kernel_size = [3, 2], pad_amount = [1, 0, 1, 1]", "[1,4,3,12]"),
        ("1, 9, 9, 1", "stride = [1, 1], kernel_size = [3, 3], dilations = [2, 2]", "[1,5,5,9]"),
        ("N, 6, 6, 4", "stride = [1, 1], kernel_size = [1, 1]", "[N,6,6,4]"),
    ],
)
def test_im2col(size: str, attributes: str, expected: str):
    call = f"qonnx.custom_op.general.Im2Col <{attributes}> (x)"
    text = f"g (float[{size}] x) => (float y) {{ a = {call} y = ReduceSum (a) }}"
    assert infer(model_of(text, domains=QONNX))["a"] == f"FLOAT{expected}"


def test_unknown_operators_leave_what_is_declared_behind_them():
    model = model_of(
        "g (float[2] x) => (float[4] y) <float[4] b> { a = other.Op (x) b = other.Op (a) c = Abs (b) y = Relu (c) }",
        domains='"other" : 1',
    )
    found = infer(model)
    assert (found["a"], found["b"], found["c"]) == ("?", "FLOAT[4]", "FLOAT[4]")


@pytest.mark.parametrize("name", ["?", "-1", "batch size", "Quant/a.1/x_dim_0", "batch-size", "2x", "floor"])
def test_names_of_dimensions_that_are_no_arithmetic(name: str):
    model = model_of("g (float[N, 2] x) => (float[M] y) { a = Abs (x) b = Concat <axis = 0> (a, a) y = ReduceSum (b) }")
    x = model.graph.inputs[0]
    x.shape = ir.Shape([name, 2])
    infer(model)
    kept = "_d0" if name in ("?", "-1") else name
    assert list(x.shape) == list(value(model, "a").shape) == [kept, 2]
    doubled = value(model, "b").shape[0]
    assert isinstance(doubled, ir.SymbolicDim)
    assert doubled.evaluate({next(iter(doubled.free_symbols())): 3}) == 6


def test_negative_dimensions_are_unknown_ones():
    model = model_of("g (float[2, 2] x) => (float[2] y) { a = MaxPool <kernel_shape = [2]> (x) y = ReduceSum (x) }")
    model.graph.inputs[0].shape = ir.Shape([-1, 3, 8])
    assert infer(model)["a"] == "FLOAT[_d0,3,7]"


def test_dimensions_of_different_names_are_not_taken_for_equal():
    model = model_of("""g (float[N, 3] x, float[M, 3] z, float[1, 3] o, float[K, N, 3] w, float[L, 3, 4] v) => (float y)
    {
      a = Add (x, z) b = Add (x, o) c = Add (x, x) d = MatMul (w, v) y = ReduceSum (a)
    }""")
    found = infer(model)
    assert found["a"].startswith("FLOAT[_d")
    assert found["b"] == found["c"] == "FLOAT[N,3]"
    assert found["d"].startswith("FLOAT[_d")
    assert found["d"].endswith(",N,4]")


def test_inputs_with_a_default_are_no_constants():
    text = "g (float[2, 3] x, int64[2] s) => (float[A, B] y) <int64[2] s = {3, 2}> { y = Reshape (x, s) }"
    overridable, constant = model_of(text), model_of(text.replace(", int64[2] s)", ")"))
    assert isinstance(value(overridable, "s"), ir.Value)
    assert infer(overridable)["y"] == "FLOAT[A,B]"
    assert infer(constant)["y"] == "FLOAT[3,2]"
    assert infer(model_of(text, ir_version=3, opset=8))["y"] == "FLOAT[3,2]"


GROWING = """g (float[1] x, int64 n, bool c) => (float[K] y, float[L] z) {
  v, w = Loop (n, c, x) <body = b (int64 i, bool ci, float[?] a) => (bool co, float[?] o, float[?] s) {
    co = Identity (ci) o = Concat <axis = 0> (a, x) s = Relu (x) }>
  y = Relu (v)
  z = Relu (w)
}"""


def test_loops_that_change_shapes_are_not_believed():
    model = forget(model_of(GROWING))
    body = model.graph[0].attributes["body"].as_graph()
    body.inputs[2].shape = None
    assert any("Loop" in note for note in notes_of(ShapeInference(), model))
    infer(model)
    assert value(model, "v").shape is None
    feeds = {"x": np.ones(1, np.float32), "n": np.array(3), "c": np.array(True)}
    assert run(model, feeds)[0].shape == (4,)


def test_loops_in_functions_are_not_believed():
    model = model_of(
        """g (float[1] x, int64 n, bool c) => (float[K] y) { v = local.f (x, n, c) y = Relu (v) }
        <domain: "local", opset_import: ["" : 18]> f (x, n, c) => (v) {
          v = Loop (n, c, x) <body = b (int64 i, bool ci, a) => (bool co, o) {
            co = Identity (ci) o = Concat <axis = 0> (a, x) }>
        }""",
        domains='"local" : 1',
    )
    assert infer(model)["v"] in ("FLOAT?", "?")


def test_loops_that_keep_shapes_are():
    model = forget(
        model_of("""g (float[N, 4] x, int64 n, bool c) => (float[K, 4] y) {
          v = Loop (n, c, x) <body = b (int64 i, bool ci, float[?] a) => (bool co, float[?] o) {
            co = Identity (ci) o = Mul (a, a) }>
          y = Relu (v)
        }""")
    )
    model.graph[0].attributes["body"].as_graph().inputs[2].shape = None
    assert infer(model)["v"] == "FLOAT[N,4]"


BAD = "g (float[2, 3] x, float[5, 2] z) => (float[2, 3] y) { [bad] a = MatMul (x, z) b = Abs (x) y = Relu (b) }"


def test_a_node_that_cannot_be_inferred_does_not_stop_the_rest():
    model = model_of(BAD)
    found = infer(model)
    assert found["b"] == "FLOAT[2,3]"
    (note,) = notes_of(ShapeInference(), model_of(BAD))
    assert "'bad'" in note


def test_strict_mode_names_the_node_that_cannot_be_inferred():
    model = model_of(BAD)
    before = full_hash(model)
    with pytest.raises(PassFailedError, match="'bad'"):
        ShapeInference(strict_mode=True)(model)
    assert full_hash(model) == before


def test_strict_mode_refuses_contradicting_shapes():
    model = model_of("g (float[2, 3] x) => (float[2, 3] y) <float[3, 3] a> { [n] a = Abs (x) y = Relu (x) }")
    ShapeInference(check_type=True)(model.clone())
    with pytest.raises(PassFailedError, match=r"Abs 'n' is declared as \[3,3\], but its operator gives \[2,3\]"):
        ShapeInference(strict_mode=True)(model)


def test_check_type_refuses_contradicting_types():
    model = model_of("g (float[2] x) => (int64[2] y) { [n] y = Relu (x) }")
    ShapeInference(strict_mode=True)(model.clone())
    with pytest.raises(PassFailedError, match="Relu 'n' is declared as INT64, but its operator gives FLOAT"):
        ShapeInference(check_type=True)(model)


def test_strict_mode_and_check_type_accept_what_fits():
    assert apply(ShapeInference(strict_mode=True, check_type=True), model_of(SUBGRAPHS))


@pytest.mark.parametrize("extra", [0, 40], ids=["few", "many"])
def test_gaps_are_filled_alone_where_they_are_few(extra: int, monkeypatch: pytest.MonkeyPatch):
    asked: list[ir.Model] = []
    module = sys.modules[ShapeInference.__module__]
    fill = module.fill_gaps
    monkeypatch.setattr(module, "fill_gaps", lambda model, **options: (asked.append(model), fill(model, **options))[1])
    chain = " ".join(f"e{number} = Exp (e{number - 1})" for number in range(1, extra + 1))
    model = model_of(f"""g (float[N, _d0] x, float[_d0, 8] w, int64[2] s) => (float[P, 8] y, float[Q, R] z) {{
        h = Relu (x) m = MatMul (h, w) e0 = Tanh (m) {chain} y = Identity (e{extra}) v = ConstantOfShape (s) z = Neg (v)
    }}""")
    value(model, "h").type, value(model, "h").shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(["N", "_d0"])
    assert apply(ShapeInference(gaps_only=True), model)
    assert bool(asked) == bool(extra)
    if not extra:
        assert described(value(model, "m")) == "FLOAT[N,8]"
    assert all(v.dtype is not None and v.shape is not None for v in values(model))
    assert "_d0" not in str(value(model, "v").shape), "a new name is not one that means something else"
    assert not apply(ShapeInference(gaps_only=True), model)


def test_onnx_fills_gaps():
    model = forget(
        model_of(
            "g (float[2] x, float[?] z) => (float[2] y) { a = other.Op (x) s = Shape (a) k = Size (a) y = Relu (x) }",
            domains='"other" : 1',
        )
    )
    found = infer(model)
    assert found["s"].startswith("INT64[")
    assert found["k"] == "INT64[]"


def test_unsorted_nodes_are_no_reason_to_fail():
    model = model_of("g (float[2] x) => (float[2] y) { a = Abs (x) y = Relu (a) }")
    model.graph.extend(list(reversed(model.graph)))
    ShapeInference()(model)
    with pytest.raises(PassFailedError, match="not in order"):
        ShapeInference(strict_mode=True)(model)


@pytest.mark.parametrize("seed", range(25))
def test_random_models_get_back_what_they_had(seed: int):
    model = random_model(seed, nodes=30)
    feeds = random_inputs(model)
    expected = run(model, feeds)
    known = {v: (v.dtype, v.shape) for v in annotations.values(model.graph)}
    forget(model)
    infer(model)
    assert {v: (v.dtype, v.shape) for v in annotations.values(model.graph)} == known
    check(model)
    assert_equal_results(model, expected, feeds)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [("5", ["unknown", 6, 2]), ("-1", ["unknown", 6, 2])],
)
def test_slice_of_a_dynamic_dimension_may_find_less_than_it_asks_for(ends, expected):
    model = model_of(
        f"""g (float[N,6,2] x) => (float[M,6,2] y) {{
            s = Constant<value_ints=[0]>() e = Constant<value_ints=[{ends}]>() a = Constant<value_ints=[0]>()
            y = Slice(x, s, e, a)
        }}"""
    )
    ShapeInference().call(model)
    shape = model.graph.outputs[0].shape
    assert [size if isinstance(size, int) else "unknown" for size in shape] == expected


def test_slice_keeps_the_axes_that_it_does_not_touch():
    model = model_of(
        """g (float[1,N,8] x, int64[1] s) => (float[A,B,C] y) {
            e = Constant<value_ints=[4]>() a = Constant<value_ints=[2]>() z = Slice(x, s, e, a) y = Neg(z)
        }"""
    )
    ShapeInference().call(model)
    sliced = next(node for node in model.graph if node.op_type == "Slice").outputs[0].shape
    assert sliced[0] == 1
    assert sliced[1] == ir.SymbolicDim("N")
    assert not isinstance(sliced[2], int)


def test_made_up_names_are_inferred_again_if_asked_for():
    text = "g (bool[B,N] c, float[B,N] x) => (float[?,?] z) <float[1] o = {1}> { w = Where (c, o, o) z = Mul (w, x) }"
    model = model_of(text)
    value(model, "w").shape = ir.Shape(["_d0", "_d1"])
    ShapeInference()(model)
    assert described(value(model, "w")) == "FLOAT[_d0,_d1]"
    assert not ShapeInference()(model).modified
    assert ShapeInference(renew=True)(model).modified
    assert described(value(model, "w")) == "FLOAT[B,N]"
    assert described(value(model, "c")) == "BOOL[B,N]"


def test_shapes_that_cannot_be_inferred_again_stay():
    model = model_of(
        "g (float[B] x) => (float[Loop_y_dim_0] y) { y = some.where.Thing (x) }", domains='"some.where" : 1'
    )
    assert not ShapeInference(renew=True)(model).modified
    assert described(value(model, "y")) == "FLOAT[Loop_y_dim_0]"


def test_a_size_meets_the_lesser_of_itself_and_a_number():
    model = model_of(
        """g (float[1,N] x) => (float[?,?] y, float[?,?] e)
        <float[1,64] t = {"0": 0}, int64[1] z = {0}, int64[1] one = {1}> {
            s = Shape <start = 1> (x) c = Slice (t, z, s, one) y = Add (x, c)
            n = Concat <axis = 0> (one, s) e = Expand (c, n)
        }""".replace('{"0": 0}', "{" + ",".join(["0"] * 64) + "}")
    )
    found = infer(model)
    assert (found["c"], found["y"], found["e"]) == ("FLOAT[1,Min(64, N)]", "FLOAT[1,N]", "FLOAT[1,N]")


def test_a_constant_condition_chooses_sizes():
    model = model_of(
        """g (float[1,N] x, float[B,N] z) => (float[?,?] y)
        <bool[2] c = {0, 1}, int64[2] ones = {1, 1}, int64[1] any = {-1}> {
            b = Shape <end = 1> (z) s = Concat <axis = 0> (b, any) t = Where (c, ones, s) y = Expand (x, t)
        }"""
    )
    assert infer(model)["y"] == "FLOAT[B,N]"


def test_names_of_torchscript_are_inferred_again_if_asked_for():
    model = model_of("g (float[B,N] x) => (float[Relu_y_dim_0,N] y) { y = Relu (x) }")
    ShapeInference()(model)
    assert described(value(model, "y")) == "FLOAT[Relu_y_dim_0,N]"
    ShapeInference(renew=True)(model)
    assert described(value(model, "y")) == "FLOAT[B,N]"
