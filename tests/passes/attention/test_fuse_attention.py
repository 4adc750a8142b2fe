from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

import onnx_passes
from tests.helpers.thorough import some
from tests.passes.fuse.tools import applied, outcome, reasons
from tests.passes.tools import model_of, operators

LOWEST = float(np.finfo(np.float32).min)
CONSTANTS = {
    "float half": "{0.5}",
    "float quarter": "{0.25}",
    "float four": "{4}",
    "float zero": "{0}",
    "float lowest": f"{{{LOWEST}}}",
    "float[4,1,1] each": "{1,2,3,4}",
    "int64[4] split": "{0,0,4,16}",
    "int64[4] split2": "{0,0,2,16}",
    "int64[3] merge": "{0,0,64}",
    "int64[4] repeated": "{0,4,-1,16}",
    "int64[5] twice": "{1,1,2,1,1}",
    "int64[1] two": "{2}",
}
HEADS = "float[B,4,S,16] q, float[B,4,T,16] k, float[B,4,T,16] v"
FLAT = "float[B,S,64] x, float[B,T,64] y, float[B,T,64] z"
SPLIT = """q3 = Reshape (x, split) q = Transpose <perm = [0,2,1,3]> (q3) k3 = Reshape (y, split)
    v3 = Reshape (z, split) v = Transpose <perm = [0,2,1,3]> (v3)"""
MERGE = "o4 = Transpose <perm = [0,2,1,3]> (o) out = Reshape (o4, merge)"
PLAIN = "t = Transpose <perm = [0,1,3,2]> (k) s = MatMul (q, t)"
WEIGHTS = "p = Softmax <axis = -1> (s) out = MatMul (p, v)"


def attention(inner: str, inputs: str = HEADS, outputs: str = "float[?,?,?,?] out") -> str:
    """Write a graph with the constants that it uses."""
    kept = [
        f"{name} = {held}"
        for name, held in CONSTANTS.items()
        if name.split()[1] in inner.replace(",", " ").replace(")", " ").replace("(", " ").split()
    ]
    constants = f"<{', '.join(kept)}>" if kept else ""
    return f"g ({inputs}) => ({outputs}) {constants} {{ {inner} }}"


def fused(text: str) -> ir.Node:
    """Return the one Attention that is left."""
    (node,) = [node for node in applied("fuse-attention", text, opset=23).graph if node.op_type == "Attention"]
    return node


@pytest.mark.parametrize(
    ("scores", "scale"),
    [
        (f"{PLAIN}", 1.0),
        ("t = Transpose <perm = [0,1,3,2]> (k) r = MatMul (q, t) s = Mul (r, half)", 0.5),
        ("t = Transpose <perm = [0,1,3,2]> (k) r = MatMul (q, t) s = Div (r, four)", 0.25),
        ("t = Transpose <perm = [0,1,3,2]> (k) h = Mul (half, q) s = MatMul (h, t)", 0.5),
        ("t = Transpose <perm = [0,1,3,2]> (k) h = Mul (q, half) d = Mul (t, half) s = MatMul (h, d)", 0.25),
        ("d = Mul (k, half) t = Transpose <perm = [0,1,3,2]> (d) s = MatMul (q, t)", 0.5),
    ],
)
def test_a_scale_wherever_it_is(scores: str, scale: float):
    node = fused(attention(f"{scores} {WEIGHTS}"))
    assert node.attributes.get_float("scale", 16**-0.5) == pytest.approx(scale)


def test_the_usual_scale_is_left_out():
    assert "scale" not in fused(attention(f"{PLAIN.replace('s =', 'r =')} s = Mul (r, quarter) {WEIGHTS}")).attributes


def test_heads_that_are_split_and_merged():
    inner = f"""{SPLIT} t = Transpose <perm = [0,2,3,1]> (k3) s = MatMul (q, t) p = Softmax <axis = -1> (s)
        o = MatMul (p, v) {MERGE}"""
    node = fused(attention(inner, FLAT, "float[?,?,?] out"))
    assert [value.name for value in node.inputs if value is not None] == ["x", "y", "z"]
    assert (node.attributes.get_int("q_num_heads"), node.attributes.get_int("kv_num_heads")) == (4, 4)


def test_heads_without_an_axis_are_one():
    inner = """t = Transpose <perm = [0,2,1]> (k) r = MatMul (q, t) s = Add (r, m) p = Softmax <axis = 2> (s)
        out = MatMul (p, v)"""
    inputs = "float[B,S,16] q, float[B,T,16] k, float[B,T,8] v, float[B,S,T] m"
    text = attention(inner, inputs, "float[?,?,?] out")
    assert outcome("fuse-attention", text, opset=23) == ["Max", "Unsqueeze", "Attention"]


def test_keys_that_are_transposed_as_rows_of_matrices():
    inner = """r = Reshape (k, rows) t3 = Transpose <perm = [0,2,1]> (r) t = Reshape (t3, back) s = MatMul (q, t)
        p = Softmax <axis = -1> (s) out = MatMul (p, v)"""
    text = attention(inner, "float[2,4,3,16] q, float[2,4,5,16] k, float[2,4,5,16] v").replace(
        "{", "<int64[3] rows = {-1,5,16}, int64[4] back = {2,4,16,5}> {", 1
    )
    assert outcome("fuse-attention", text, opset=23) == ["Attention"]


REPEATED = """k5 = Unsqueeze (k, two) ke = Expand (k5, twice) kr = Reshape (ke, repeated)
    v5 = Unsqueeze (v, two) ve = Expand (v5, twice) vr = Reshape (ve, repeated)
    t = Transpose <perm = [0,1,3,2]> (kr) s = MatMul (q, t) p = Softmax <axis = -1> (s) out = MatMul (p, vr)"""


def test_keys_and_values_for_groups_of_queries():
    inputs = HEADS.replace("4,T", "2,T")
    assert outcome("fuse-attention", attention(REPEATED, inputs), opset=23) == ["Attention"]


def test_one_head_of_keys_for_all_queries():
    assert outcome("fuse-attention", attention(f"{PLAIN} {WEIGHTS}", HEADS.replace("4,T", "1,T")), opset=23) == [
        "Attention"
    ]


def test_past_and_present():
    inner = f"""k = Concat <axis = 2> (pk, nk) v = Concat <axis = -2> (pv, nv) {PLAIN} {WEIGHTS}"""
    inputs = ", ".join(
        [
            "float[B,4,S,16] q",
            *(f"float[B,4,{n},16] {v}" for n, v in zip("SPSP", ("nk", "pk", "nv", "pv"), strict=True)),
        ]
    )
    outputs = "float[?,?,?,?] out, float[?,?,?,?] k, float[?,?,?,?] v"
    node = fused(attention(inner, inputs, outputs))
    assert [value.name if value else None for value in node.inputs] == ["q", "nk", "nv", None, "pk", "pv"]
    assert [value.name for value in node.outputs] == ["out", "k", "v"]


def test_past_that_a_mask_depends_on_stays_outside():
    inner = f"""k = Concat <axis = 2> (pk, nk) v = Concat <axis = 2> (pv, nv) n = Shape (k)
        c = ConstantOfShape (n) w = Mul (c, k)
        t = Transpose <perm = [0,1,3,2]> (k) s = MatMul (w, t) {WEIGHTS}"""
    inputs = ", ".join(f"float[B,4,{n},16] {v}" for n, v in zip("SPSP", ("nk", "pk", "nv", "pv"), strict=True))
    assert "Concat" in outcome("fuse-attention", attention(inner, inputs), opset=23)


MASKED = "t = Transpose <perm = [0,1,3,2]> (k) r = MatMul (q, t) {} p = Softmax <axis = -1> (s) out = MatMul (p, v)"


@pytest.mark.parametrize(
    ("mask", "given", "left"),
    [
        ("s = Add (r, m)", "float[B,1,S,T] m", ["Max", "Attention"]),
        ("s = Add (m, r)", "float[S,T] m", ["Max", "Attention"]),
        ("s = Add (r, m)", "float[1,4,S,T] m", ["Max", "Attention"]),
        ("s = Add (r, m)", "float[B,1,1,T] m", ["Max", "Shape", "Concat", "Expand", "Attention"]),
        ("s = Add (r, m)", "float[T] m", ["Max", "Shape", "Concat", "Expand", "Attention"]),
        ("s = Add (r, m)", "float[1,1,S,1] m", ["Max", "Shape", "Shape", "Concat", "Expand", "Attention"]),
        ("s = Add (r, m)", "float[1,1,S,U] m", ["Max", "Shape", "Shape", "Concat", "Expand", "Attention"]),
        ("w = Where (m, zero, lowest) s = Add (r, w)", "bool[B,1,S,T] m", ["Where", "Attention"]),
        ("w = Where (m, lowest, zero) s = Add (r, w)", "bool[B,1,S,T] m", ["Where", "Attention"]),
        ("s = Where (m, r, lowest)", "bool[B,1,S,T] m", ["Where", "Attention"]),
        ("s = Where (m, lowest, r)", "bool[B,1,S,T] m", ["Where", "Attention"]),
        (
            "w = Where (m, zero, lowest) a = Add (r, b) s = Add (a, w)",
            "bool[S,T] m, float[4,S,T] b",
            ["Where", "Max", "Add", "Attention"],
        ),
    ],
)
def test_masks(mask: str, given: str, left: list[str]):
    assert sorted(outcome("fuse-attention", attention(MASKED.format(mask), f"{HEADS}, {given}"), opset=23)) == sorted(
        left
    )


def with_infinity(text: str) -> ir.Model:
    """ONNX text has no infinity."""
    model = model_of(text, opset=23, ir_version=11)
    model.graph.initializers["lowest"].const_value = ir.Tensor(np.array(-np.inf, np.float32), name="lowest")
    return model


@pytest.mark.parametrize("mask", ["w = Where (m, zero, lowest) s = Add (r, w)", "s = Where (m, r, lowest)"])
def test_minus_infinity_is_a_mask_of_truths_if_guarded_against_nan(mask: str):
    inner, inputs = MASKED.format(mask), f"{HEADS}, bool[B,1,S,T] m"
    guard = "n = IsNaN (p1) p = Where (n, zero, p1)"
    guarded = inner.replace("p = Soft", "p1 = Soft").replace("out =", f"{guard} out =")
    (node,) = onnx_passes.apply(with_infinity(attention(guarded, inputs)), "fuse-attention").model.graph
    assert node.inputs[3] is not None
    assert node.inputs[3].dtype is ir.DataType.BOOL
    assert "may be NaN" in reasons("fuse-attention", with_infinity(attention(inner, inputs)))


@pytest.mark.parametrize(
    ("fill", "given"),
    some([(fill, given) for fill in (LOWEST, -1e30, -10000.0, -np.inf) for given in ("bool", "float")], every=3),
)
def test_rows_that_are_all_masked(fill: float, given: str):
    """Zeros where the weights are guarded against NaN, the mean of all values where they are equal."""
    mask = "w = Where (m, zero, lowest) s = Add (r, w)" if given == "bool" else "s = Add (r, m)"
    inner = (
        MASKED.format(mask)
        .replace("p = Soft", "p1 = Soft")
        .replace("out =", "n = IsNaN (p1) p = Where (n, zero, p1) out =")
    )
    text = attention(inner, f"{HEADS}, {given}[S,T] m").replace(str(LOWEST), "-1")
    model = model_of(text, opset=23, ir_version=11)
    if given == "bool":
        model.graph.initializers["lowest"].const_value = ir.Tensor(np.array(fill, np.float32), name="lowest")
    result = onnx_passes.apply(model, "fuse-attention")
    assert "Softmax" not in [node.op_type for node in result.model.graph]
    keeps = np.array([[True, True, False], [False, False, False]])
    generator = np.random.default_rng(0)
    feeds = {
        name: generator.standard_normal((1, 4, n, 16), dtype=np.float32) for name, n in (("q", 2), ("k", 3), ("v", 3))
    }
    feeds["m"] = keeps if given == "bool" else np.where(keeps, 0, fill).astype(np.float32)
    (before,), (after,) = (
        onnxruntime.InferenceSession(ir.to_proto(one).SerializeToString()).run(None, feeds)
        for one in (model, result.model)
    )
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def test_soft_cap():
    capped = "a = Mul (r, half) b = Div (a, four) c = Tanh (b) s = Mul (c, four)"
    node = fused(attention(MASKED.format(capped)))
    assert node.attributes.get_float("softcap") == 4
    assert node.attributes.get_float("scale") == 0.5


def test_soft_caps_are_noted_and_stay_if_asked_for():
    capped = attention(MASKED.format("a = Mul (r, half) b = Div (a, four) c = Tanh (b) s = Mul (c, four)"))
    result = onnx_passes.apply(model_of(capped, opset=23), "modernize")
    notes = [note for step in result.record.steps for note in step.notes]
    assert any("1 with a soft cap, slow in ONNX Runtime on a CPU" in note for note in notes)
    left = onnx_passes.apply(model_of(capped, opset=23), "modernize{fuse-attention.soft-cap=false}")
    assert "Attention" not in operators(left.model.graph)
    assert not any("soft cap" in note for step in left.record.steps for note in step.notes)
    plain = onnx_passes.apply(model_of(attention(MASKED.format("s = Mul (r, half)")), opset=23), "modernize")
    assert "Attention" in operators(plain.model.graph)
    assert not any("soft cap" in note for step in plain.record.steps for note in step.notes)


def test_softmax_in_another_precision():
    inner = """t = Transpose <perm = [0,1,3,2]> (k) r = MatMul (q, t) s = Cast <to = 1> (r) p1 = Softmax <axis = -1> (s)
        p = Cast <to = 10> (p1) out = MatMul (p, v)"""
    node = fused(attention(inner, HEADS.replace("float", "float16"), "float16[?,?,?,?] out"))
    assert node.attributes.get_int("softmax_precision") == ir.DataType.FLOAT.value


def test_weights_that_are_an_output_stay():
    outputs = "float[?,?,?,?] out, float[?,?,?,?] p"
    assert "used elsewhere" in reasons("fuse-attention", attention(f"{PLAIN} {WEIGHTS}", HEADS, outputs), opset=23)


@pytest.mark.parametrize(
    ("inner", "inputs", "reason"),
    [
        (f"{PLAIN} p = Softmax <axis = 2> (s) out = MatMul (p, v)", HEADS, "not over the keys"),
        (MASKED.format("s = Mul (r, each)"), HEADS, "not one constant number"),
        (MASKED.format("a = Add (r, m) s = Mul (a, half)"), f"{HEADS}, float[S,T] m", "mask is scaled"),
        (MASKED.format("s = Add (r, m)"), f"{HEADS}, float[C,1,S,T] m", "broadcast to the scores"),
        (MASKED.format("s = Add (r, m)"), f"{HEADS}, float[5,B,1,S,T] m", "broadcast to the scores"),
        (MASKED.format("s = Where (m, r, zero)"), f"{HEADS}, bool[S,T] m", "far below"),
        (MASKED.format("n = Neg (half) s = Mul (r, n)"), HEADS, "not one constant number"),
        (f"{PLAIN} {WEIGHTS}", HEADS.replace("B,4,T,16] v", "C,4,T,16] v"), "same batch"),
        (f"{PLAIN} {WEIGHTS}", "float[B,1,S,16] q, float[B,4,T,16] k, float[B,4,T,16] v", "heads"),
        (f"{PLAIN} {WEIGHTS}", HEADS.replace("float", "double"), "half precision"),
        (f"{PLAIN} {WEIGHTS}", "float[2,B,4,S,16] q, float[2,B,4,T,16] k, float[2,B,4,T,16] v", "rank three"),
    ],
)
def test_refuses(inner: str, inputs: str, reason: str):
    outputs = (
        "double[?,?,?,?] out"
        if "double" in inputs
        else "float out"
        if "[2,B" in inputs or "[5,B" in inputs
        else "float[?,?,?,?] out"
    )
    assert reason in reasons("fuse-attention", attention(inner, inputs, outputs), opset=23)


def test_refuses_old_opsets():
    assert "opset 23: run modernize" in reasons("fuse-attention", attention(f"{PLAIN} {WEIGHTS}"), opset=22)


def test_a_product_without_a_softmax_is_not_tried():
    result = onnx_passes.apply(
        model_of(attention(PLAIN.replace("s =", "out =")), opset=23, ir_version=11), "fuse-attention"
    )
    assert not [rule for step in result.steps for rule in step.rules]


def test_an_attention_that_is_there_takes_in_the_heads_around_it():
    split = SPLIT.replace("k3 = Reshape (y, split)", "k3 = Reshape (y, split) k = Transpose <perm = [0,2,1,3]> (k3)")
    inner = f"{split} o = Attention <scale = 0.5, is_causal = 1> (q, k, v, m) {MERGE}"
    node = fused(attention(inner, f"{FLAT}, float[S,T] m", "float[?,?,?] out"))
    assert [value.name for value in node.inputs if value is not None] == ["x", "y", "z", "m"]
    assert {name: attribute.value for name, attribute in node.attributes.items()} == {
        "scale": 0.5, "is_causal": 1, "q_num_heads": 4, "kv_num_heads": 4
    }  # fmt: skip


def test_an_attention_that_is_there_repeats_heads_by_itself():
    inner = REPEATED[: REPEATED.index("t =")] + "out = Attention (q, kr, vr)"
    assert outcome("fuse-attention", attention(inner, HEADS.replace("4,T", "2,T")), opset=23) == ["Attention"]


def test_an_attention_with_nothing_around_it_stays():
    text = attention("out = Attention (q, k, v)")
    assert not onnx_passes.apply(model_of(text, opset=23, ir_version=11), "fuse-attention").steps[-1].modified


def test_a_causal_attention_does_not_take_in_the_past_which_would_move_its_mask():
    text = """g (float[1,2,3,4] q, float[1,2,3,4] k, float[1,2,3,4] v,
        float[1,2,2,4] pk, float[1,2,2,4] pv) => (float[1,2,3,4] y) {
            ck = Concat <axis = 2> (pk, k) cv = Concat <axis = 2> (pv, v) y = Attention <is_causal = 1> (q, ck, cv)
        }"""
    assert "is_causal counts keys from the end of a cache" in reasons("fuse-attention", text, opset=23)
