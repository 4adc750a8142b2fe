from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.core.errors import UsageError
from onnx_passes.graph import annotations
from onnx_passes.graph.tensor_types import set_declared_bounds
from onnx_passes.verify.samples.generate import Sampling, draw_special, generate

TYPES = [t for t in ir.DataType if t is not ir.DataType.UNDEFINED]
FLOATS = [t for t in TYPES if t.is_floating_point()]


def model(inputs: str, body: str = "", initializers: str = "", opsets: str = '"": 20') -> ir.Model:
    return ir.from_onnx_text(f"""
<ir_version: 10, opset_import: [{opsets}]>
g ({inputs}) => (float[1] out) {initializers} {{
    {body}
    out = Constant <value_floats: floats = [1.0]> ()
}}
""")


def of_type(dtype: ir.DataType, shape: tuple[int | str | None, ...] = (64,)) -> ir.Model:
    result = model("float[2] x")
    result.graph.inputs[0].type = ir.TensorType(dtype)
    result.graph.inputs[0].shape = ir.Shape(shape)
    return result


def annotated(datatype: str, declared: str = "float[500]") -> ir.Model:
    result = model(f"{declared} x")
    annotations.set(result.graph.inputs[0], {"finn_datatype": datatype})
    return result


def digest(samples: list[dict[str, np.ndarray]]) -> list[dict[str, str]]:
    def one(array: np.ndarray) -> str:
        content = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
        return hashlib.sha256(content + str((array.dtype, array.shape)).encode()).hexdigest()

    return [{name: one(array) for name, array in sample.items()} for sample in samples]


def runs(m: ir.Model, samples: list[dict[str, np.ndarray]]) -> list[list[np.ndarray]]:
    session = ort.InferenceSession(ir.to_proto(m).SerializeToString(), providers=["CPUExecutionProvider"])
    return [session.run(None, sample) for sample in samples]


def values(m: ir.Model, **kwargs: object) -> np.ndarray:
    """All that is generated for the first input, as float64."""
    name = str(m.graph.inputs[0].name)
    return np.concatenate([s[name].astype(np.float64).ravel() for s in generate(m, **kwargs)])  # type: ignore[arg-type]


def refusal(m: ir.Model, **kwargs: object) -> str:
    with pytest.raises(UsageError) as caught:
        generate(m, **kwargs)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.name)
def test_every_element_type_is_generated_and_repeatable(dtype: ir.DataType):
    first, again = (generate(of_type(dtype), seed=5) for _ in range(2))
    assert len(first) == 3
    assert all(s["x"].dtype == dtype.numpy() and s["x"].shape == (64,) for s in first)
    assert digest(first) == digest(again)
    assert all(len(set(s["x"].tolist())) > 1 for s in first)
    assert digest(first) != digest(generate(of_type(dtype), seed=6))


def test_an_input_does_not_depend_on_the_others():
    alone = generate(model("float[N,7] x"))
    for inputs in ("float[N,7] x, int64[3] y", "bool y, float[N,7] x"):
        assert [d["x"] for d in digest(generate(model(inputs)))] == [d["x"] for d in digest(alone)]
    same = generate(model("float[9] x, float[9] y"))
    assert not np.array_equal(same[0]["x"], same[0]["y"])


def test_more_samples_keep_the_first_ones():
    m = model("float[N] x")
    assert digest(generate(m, samples=7))[:2] == digest(generate(m, samples=2))
    assert len(generate(m, samples=7)) == 7


def test_the_model_is_left_alone():
    m = model("float[N] x", "y = Identity(x)")
    before = ir.to_proto(m).SerializeToString()
    generate(m)
    assert ir.to_proto(m).SerializeToString() == before


def test_dynamic_dimensions_vary_and_agree():
    samples = generate(model("float[N,3] x, int64[2,N,?] y, bool[M] z"))
    assert [s["x"].shape for s in samples[:3]] == [(1, 3), (2, 3), (3, 3)]
    assert all(s["y"].shape[1] == s["x"].shape[0] for s in samples)
    assert [s["y"].shape[2] for s in samples[:3]] == [1, 2, 3]


def test_several_dynamic_dimensions_differ_in_a_fourth_sample():
    samples = generate(model("float[N,3] x, int64[2,N,?] y, bool[M] z"))
    assert len(samples) == 4
    assert len({samples[3]["x"].shape[0], samples[3]["y"].shape[2], samples[3]["z"].shape[0]}) == 3
    for one in (generate(model("float[N,N] x")), generate(model("float[N,M] x"), dimensions={"N": 2})):
        assert len(one) == 3
    assert len(generate(model("float[N,M] x"), samples=3)) == 3


def test_a_single_condition_is_both_true_and_false():
    for name in "abcdefgh":
        assert {s[name].item() for s in generate(model(f"bool {name}"))} == {True, False}


def test_dimensions_can_be_given():
    samples = generate(model("float[N,?] x, float[N,M] y"), dimensions={"N": 5, "x[1]": 0})
    assert all(s["x"].shape == (5, 0) and s["y"].shape[0] == 5 for s in samples)
    assert [s["y"].shape[1] for s in samples] == [1, 2, 3]


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.one_of(st.integers(0, 4), st.sampled_from(["N", "M", None])), max_size=5),
    st.sampled_from([t for t in TYPES if t.name in ("FLOAT", "INT64", "BOOL", "STRING", "BFLOAT16", "INT4")]),
    st.integers(0, 2**70),
)
def test_shapes_fit_the_declaration(dims: list[int | str | None], dtype: ir.DataType, seed: int):
    for sample in generate(of_type(dtype, tuple(dims)), seed=seed):
        shape = sample["x"].shape
        assert len(shape) == len(dims)
        bound: dict[str, int] = {}
        for size, dim in zip(shape, dims, strict=True):
            assert not isinstance(dim, int) or size == dim
            assert not isinstance(dim, str) or bound.setdefault(dim, size) == size
            assert isinstance(dim, int) or size > 0


def test_dimensions_that_are_sums_of_others_add_up():
    m = model("float[1] a, float[1] b, float[1] c")
    for value, shape in zip(m.graph.inputs, (("past", 4), ("past + 1",), ("batch-size",)), strict=True):
        value.shape = ir.Shape(shape)
    samples = generate(m)
    assert all(sample["b"].shape[0] == sample["a"].shape[0] + 1 for sample in samples)
    assert all(sample["c"].shape[0] == sample["a"].shape[0] for sample in samples[:3])


def test_an_unreasonable_dimension_name_is_just_a_name():
    for name in ("9**9**9**9*past", "__import__('os')", "a/0", "(", "a+", "*", "2*(past"):
        samples = generate(of_type(ir.DataType.FLOAT, ("past", name)))
        assert [s["x"].shape for s in samples[:3]] == [(1, 1), (2, 2), (3, 3)]


def test_windows_get_room():
    kernel = "<float[4,3,3,3] w>"
    m = model("float[N,3,H,W] x", "y = Conv(x, w)", kernel)
    shapes = [s["x"].shape for s in generate(m)]
    assert [s[0] for s in shapes] == [1, 2, 3, 2]
    assert all(size >= 32 for s in shapes for size in s[2:])
    assert len({s[2] for s in shapes}) == 3


def test_windows_behind_arithmetic_get_room():
    m = model("float[N,T] x", "c = Add(x, x) y = Pad(c, p)", "<int64[4] p = {0, 3, 0, 3}>")
    assert all(s["x"].shape[1] >= 512 for s in generate(m))


def test_negative_dimensions_are_unknown_ones():
    assert [s["x"].shape for s in generate(of_type(ir.DataType.FLOAT, (-1, 2)))] == [(1, 2), (2, 2), (3, 2)]


def test_inputs_with_defaults_keep_them():
    m = model("float[2] x, float[2] c", initializers="<float[2] c = {1, 2}>")
    assert [list(s) for s in generate(m)] == [["x"]] * 3


def test_a_model_without_inputs_has_empty_samples():
    assert generate(model("")) == [{}, {}, {}]


def test_floats_are_normal_then_integers_then_edges():
    normal, integers, edges = (s["x"] for s in generate(model("float[4000] x")))
    assert abs(normal.mean()) < 0.1
    assert abs(normal.std() - 1) < 0.1
    assert set(integers.tolist()) == set(range(-4, 5))
    assert {0.0, 0.5, -0.5, 2.5, 1e3, -1e3} <= set(edges.tolist())
    assert np.signbit(edges[edges == 0]).any()
    assert not np.signbit(edges[edges == 0]).all()
    assert np.isfinite(edges).all()
    assert np.abs(edges).max() <= 1e3


@pytest.mark.parametrize("seed", range(5))
def test_small_inputs_get_the_edges_that_matter_most(seed: int):
    for size in (6, 10):
        edges = generate(model(f"float[{size}] x"), seed=seed)[2]["x"]
        assert {0.5, 1e3, -1e3, 0.0} <= set(edges.tolist())
        assert len(set(np.signbit(edges[edges == 0]).tolist())) == 2
    assert {2.5, -2.5, 1e3, 16.0, -64.0} <= set(generate(model("float[19] x"), seed=seed)[2]["x"].tolist())


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.name)
def test_floats_are_finite(dtype: ir.DataType):
    assert np.isfinite(values(of_type(dtype, (4000,)))).all()


def test_integers_are_small_unless_their_type_is():
    assert set(values(model("int64[300] x"))) == set(range(-9, 10))
    assert set(values(model("uint64[300] x"))) == set(range(10))
    assert set(values(model("uint8[5000] x"))) == set(range(256))
    assert set(values(of_type(ir.DataType.INT4, (500,)))) == set(range(-8, 8))


def test_narrow_integers_are_small_in_the_second_sample():
    first, second, third = (s["x"] for s in generate(model("int8[400] x")))
    assert set(second.tolist()) == set(range(-8, 9))
    assert first.min() == third.min() == -128
    assert generate(model("uint16[400] x"))[1]["x"].max() == 8


def test_integers_that_may_be_sizes_are_not_negative():
    m = model("int64[300] x", "y = CumSum(x, x)")
    assert set(values(m)) == {0, 1, 2, 3}


def test_integer_divisors_are_of_both_signs_and_never_zero():
    m = model("int32[300] x, int32[300] y", "d = Cast<to = 7>(x) e = Cast<to = 7>(y) q = Div(e, d)")
    first, second, third = (set(s["x"].tolist()) for s in generate(m))
    assert first == second == {1, 2, 3, 4}
    assert third == {-4, -3, -2, -1, 1, 2, 3, 4}
    assert generate(model("uint32[300] x, uint32[300] y", "q = Div(y, x)"))[2]["x"].max() == 4
    m.graph.outputs[0] = m.graph.node(2).outputs[0]
    m.graph.outputs[0].type = ir.TensorType(ir.DataType.INT64)
    assert len(runs(m, generate(m))) == 3


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_integers_that_are_only_calculated_with_reach_the_ends_of_their_type(dtype: str):
    m = model(f"{dtype}[40] x", f"c = Constant<value = {dtype} {{3}}>() s = Mul(x, c) q = Div(s, c) y = Less(q, x)")
    samples = generate(m)
    info = np.iinfo(dtype)
    assert {int(info.min), int(info.max)} <= set(samples[2]["x"].tolist())
    assert samples[0]["x"].max() == 3
    assert 9 < np.abs(samples[1]["x"].astype(np.float64)).max() <= 300


@pytest.mark.parametrize(
    "body",
    [
        "a = Neg(x) y = Gather(t, a)",
        "a = Neg(x) y = Reshape(t, a)",
        "a = Neg(x) f = Cast<to = 1>(a) y = Exp(f)",
        "c = Constant<value = int64 {-1}>() y = Div(x, c)",
        "a = Neg(x) b = Mul(a, a) y = Mod(a, b)",
        "a = Neg(x) y = CumSum(x, a)",
        "",
    ],
)
def test_integers_that_may_do_harm_stay_small(body: str):
    m = model("int64[40] x", body, "<float[40] t>")
    assert np.abs(values(m)).max() <= 9


INDEXING: Mapping[str, tuple[str, str, int]] = {
    "Gather": ("int64[50] x", "y = Gather(t, x)", 5),
    "Gather on the last axis": ("int32[50] x", "y = Gather<axis = -1>(t, x)", 3),
    "GatherElements": ("int64[2,3] x", "y = GatherElements(t, x)", 5),
    "GatherND": ("int64[50,2] x", "y = GatherND(t, x)", 3),
    "ScatterElements": (
        "int64[2,3] x",
        "u = Constant<value = float[2,3] {1,2,3,4,5,6}>() y = ScatterElements(t, x, u)",
        5,
    ),
    "through data movement": ("int32[3,4] x", "a = Cast<to = 7>(x) b = Transpose(a) y = Gather(t, b)", 5),
    "of two tables": ("int64[50] x", "y = Gather(t, x) z = Gather<axis = 1>(t, x)", 3),
    "narrow type": ("int8[50] x", "a = Cast<to = 7>(x) y = Gather(t, a)", 5),
    "float indices": ("float[50] x", "a = Cast<to = 7>(x) y = Gather(t, a)", 5),
    "OneHot": (
        "int64[50] x",
        "d = Constant<value_int = 6>() v = Constant<value_floats = [0.0, 1.0]>() y = OneHot(x, d, v)",
        6,
    ),
}


@pytest.mark.parametrize("case", INDEXING)
def test_indices_are_in_bounds(case: str):
    inputs, body, size = INDEXING[case]
    m = model(inputs, body, "<float[5,3] t = {0,1,2,3,4,5,6,7,8,9,10,11,12,13,14}>")
    m.graph.outputs.extend(v for node in m.graph for v in node.outputs if v.name in ("y", "z"))
    for value in m.graph.outputs:
        value.type = ir.TensorType(ir.DataType.FLOAT)
    samples = generate(m, samples=6)
    assert len(runs(m, samples)) == 6
    found = np.concatenate([s["x"].ravel() for s in samples]).astype(np.int64)
    # Negative ones count from the end; where one hot is none, they do not.
    assert (found.min(), found.max()) == (0 if case in ("float indices", "OneHot") else -size, size - 1)


def test_negative_indices_are_left_out_where_operators_do_not_know_them():
    m = model("int64[50] x", "y = Gather(t, x)", "<float[5] t = {0,1,2,3,4}>", opsets='"": 10')
    assert values(m).min() == 0


def test_indices_into_an_input_follow_its_size():
    m = model("float[N,3] t, int64[8] x", "y = Gather(t, x)")
    samples = generate(m)
    assert [int(s["x"].max()) for s in samples] == [0, 1, 2]


def test_indices_into_something_of_unknown_size_point_at_the_first():
    m = model("float[4] t, int64[8] x", "u = NonZero(t) y = Gather(u, x)")
    assert all(set(s["x"].tolist()) <= {0, -1} for s in generate(m))


def test_many_ways_to_the_same_place_are_one():
    doubled = " ".join(f"v{i + 1} = Concat<axis = 0>(v{i}, v{i})" for i in range(60))
    m = model("int64[8] v0", f"{doubled} y = Gather(t, v60)", "<float[6] t>")
    assert values(m).max() == 5


def test_indices_are_found_inside_functions():
    m = ir.from_onnx_text("""
<ir_version: 10, opset_import: ["": 20, "local": 1]>
g (int64[50] x) => (float[50] y) { y = local.Lookup(x) }
<domain: "local", opset_import: ["": 20]>
Lookup (i) => (o) { t = Constant<value_floats = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]>() o = Gather(t, i) }
""")
    samples = generate(m)
    assert max(s["x"].max() for s in samples) == 6
    assert len(runs(m, samples)) == 3


def quantizer(
    op: str, parameters: str, declared: str = "float[400]", domain: str = "qonnx.custom_op.general"
) -> ir.Model:
    names = "s, z, b" if op != "BipolarQuant" else "s"
    return model(f"{declared} x", f"y = {domain}.{op}(x, {names})", f"<{parameters}>", f'"": 20, "{domain}": 1')


@pytest.mark.parametrize("domain", ["qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general"])
@pytest.mark.parametrize(
    ("op", "low", "high"),
    [
        ("Quant", -8, 7),
        ("IntQuant<signed = 1, narrow = 1>", -7, 7),
        ("Quant<signed = 0, narrow = 0>", 0, 15),
        ("Quant<signed = 0, narrow = 1>", 0, 14),
    ],
)
def test_inputs_of_a_quantizer_cover_its_grid(domain: str, op: str, low: int, high: int):
    m = quantizer(op, "float s = {0.25}, float z = {0}, float b = {4}", domain=domain)
    for sample in generate(m):
        steps = set((sample["x"] / np.float32(0.25)).tolist())
        assert set(range(low - 1, high + 2)) <= steps
        assert {k + 0.5 for k in range(low - 1, high + 1)} <= steps
        assert max(steps) > high + 1.5
        assert any(step * 2 != round(step * 2) for step in steps)


def test_ties_of_a_quantizer_are_ties_for_scales_that_are_no_powers_of_two():
    m = quantizer("Quant", "float s = {0.1}, float z = {3}, float b = {8}")
    steps = np.concatenate([s["x"] / np.float32(0.1) + np.float32(3) for s in generate(m)])
    assert np.mean(np.abs(steps - np.floor(steps)) == 0.5) > 0.1


def test_a_small_input_of_a_quantizer_has_a_tie():
    m = quantizer("Quant", "float s = {0.25}, float z = {0}, float b = {4}", "float[4]")
    for seed in range(20):
        steps = generate(m, seed=seed, samples=1)[0]["x"] * 4
        assert (np.abs(steps - np.floor(steps)) == 0.5).any()


def test_channels_of_a_quantizer_have_their_own_grid():
    m = quantizer("Quant", "float[2,1] s = {0.5, 64}, float z = {0}, float b = {3}", "float[N,2,200]")
    for sample in generate(m):
        for channel, scale in enumerate((0.5, 64)):
            steps = set((sample["x"][:, channel] / np.float32(scale)).ravel().tolist())
            assert {-4, 3, -0.5, 0.5, 1.5} <= steps


def test_bipolar_quantizers_are_seen_around_zero():
    steps = values(quantizer("BipolarQuant", "float s = {0.5}")) / 0.5
    assert {-1.0, -0.5, 0.0, 0.5, 1.0} <= set(steps)
    assert len(set(np.signbit(steps[steps == 0]))) == 2


@pytest.mark.parametrize(
    "parameters",
    [
        "float[3] s = {1, 2, 3}, float z = {0}, float b = {4}",
        "float s = {0.25}, float z = {0}, float b = {99}",
        "float[0] s, float z = {0}, float b = {4}",
    ],
)
def test_a_quantizer_that_makes_no_sense_is_no_hint(parameters: str):
    m = quantizer("Quant", parameters)
    assert abs(generate(m)[0]["x"].std() - 1) < 0.2


def test_inputs_of_quantize_linear_cover_its_grid():
    m = model("float[3000] x", "y = QuantizeLinear(x, s, z)", "<float s = {0.5}, int8 z = {-3}>")
    for sample in generate(m):
        steps = set((sample["x"] * 2 - 3).tolist())
        assert {-128, 127, -128.5, 127.5, -129, 128} <= steps
        assert sum(step % 1 == 0.5 for step in steps) > 100


def test_quantize_linear_by_channel_is_hit_in_the_runtime():
    m = model(
        "float[2,3,500] x",
        "y = QuantizeLinear<axis = 1>(x, s, z)",
        "<float[3] s = {0.5, 2, 16}, uint8[3] z = {0, 9, 255}>",
    )
    m.graph.outputs[0] = m.graph.node(0).outputs[0]
    m.graph.outputs[0].type = ir.TensorType(ir.DataType.UINT8)
    samples = generate(m)
    for sample, [codes] in zip(samples, runs(m, samples), strict=True):
        for channel, scale in enumerate((0.5, 2, 16)):
            assert len(np.unique(codes[:, channel])) > 150
            assert {0, 255} <= set(codes[:, channel].ravel().tolist())
            assert (np.abs(sample["x"][:, channel] / scale % 1) == 0.5).mean() > 0.1


@pytest.mark.parametrize(
    ("datatype", "expected"),
    [
        ("INT3", set(range(-4, 4))),
        ("UINT2", {0, 1, 2, 3}),
        ("BIPOLAR", {-1, 1}),
        ("BINARY", {0, 1}),
        ("TERNARY", {-1, 0, 1}),
        ("FIXED<3,1>", {k / 4 for k in range(-4, 4)}),
    ],
)
def test_an_annotated_input_holds_exactly_its_data_type(datatype: str, expected: set[float]):
    assert set(values(annotated(datatype))) == expected
    assert set(values(annotated(datatype, "float16[500]"))) == expected


def test_an_annotation_narrows_an_integer_input():
    assert set(values(annotated("INT3", "int8[500]"))) == set(range(-4, 4))


@pytest.mark.parametrize("datatype", ["INT32", "UINT64", "INT900"])
def test_a_wide_data_type_stays_exact_in_its_container(datatype: str):
    found = values(annotated(datatype))
    assert np.abs(found).max() == 2**24
    assert (found == np.rint(found)).all()


@pytest.mark.parametrize("datatype", ["FLOAT32", "INT0", "INT", "INT4>", "FIXED<4", "SCALEDINT<8>", ""])
def test_other_annotations_are_no_hint(datatype: str):
    assert generate(annotated(datatype))[0]["x"].tolist() == generate(model("float[500] x"))[0]["x"].tolist()


def ranged(m: ir.Model, **bounds: tuple[float, float]) -> ir.Model:
    for value in m.graph.inputs:
        set_declared_bounds(value, bounds.get(str(value.name)))
    return m


def test_ranges_hold_and_reach_their_ends():
    for sample in generate(ranged(model("float[50] x, int64[50] y"), x=(-2, 3), y=(10.5, 12))):
        assert (sample["x"].min(), sample["x"].max()) == (-2, 3)
        assert set(sample["y"].tolist()) == {11, 12}


def test_ranges_may_be_wide():
    m = ranged(model("uint64[99] x, int64[99] y"), x=(0, 2.0**63), y=(-(2.0**63), 2.0**62))
    [sample] = generate(m, samples=1)
    assert (int(sample["x"].min()), int(sample["x"].max())) == (0, 2**63)
    assert (int(sample["y"].min()), int(sample["y"].max())) == (-(2**63), 2**62)


def test_large_inputs_are_cheap_and_rows_differ():
    m = model("float[16,3,512,512] x, uint8[16,3,512,512] y")
    start = time.process_time()
    samples = generate(m)
    assert time.process_time() - start < 5
    assert not np.array_equal(samples[0]["x"][0], samples[0]["x"][12])
    assert not np.array_equal(samples[2]["y"][0, 0], samples[2]["y"][0, 1])


def test_text_is_text():
    samples = generate(model("string[40] x"))
    assert all(isinstance(text, str) for s in samples for text in s["x"].tolist())


@pytest.mark.parametrize("kind", ["seq(float[2])", "optional(float[2])"])
def test_refuses_inputs_that_are_no_tensors(kind: str):
    text = refusal(model(f"float[1] x, {kind} items"))
    assert "input 'items' is no tensor but" in text
    assert "give its data with --inputs" in text


def test_refuses_inputs_without_type_or_shape():
    m = model("float[2] x")
    m.graph.inputs[0].shape = None
    assert refusal(m) == "input 'x' has no shape, so no data can be generated; give its data with --inputs"
    m.graph.inputs[0].type = None
    assert "input 'x' has no element type" in refusal(m)


def test_refuses_what_does_not_fit_in_memory():
    assert "too large to generate; give its data" in refusal(of_type(ir.DataType.FLOAT, (2**40, 2**40)))


def test_refuses_unknown_names():
    m = model("float[batch] images")
    assert "no dynamic dimension 'batsh' to generate; did you mean 'batch'?" in refusal(m, dimensions={"batsh": 1})
    assert "no dynamic dimension 'z' to generate; known: 'batch'" in refusal(m, dimensions={"z": 1})
    assert "known: none" in refusal(model("float[1] x"), dimensions={"z": 1})


def test_refuses_numbers_out_of_range():
    m = model("float[N] x, uint8[2] y, bool[2] z")
    assert "'N' cannot have the size -1" in refusal(m, dimensions={"N": -1})
    assert "cannot generate 0 samples" in refusal(m, samples=0)
    assert "from seed -1" in refusal(m, seed=-1)
    for bounds in ((0, np.inf), (0, 1e300)):
        assert "for input 'x'" in refusal(ranged(m, x=bounds))
    for bounds in ((-1, 3), (0, 256), (0.2, 0.8), (0, np.inf)):
        assert "give two numbers between 0 and 255" in refusal(ranged(m, y=bounds))
    assert "input 'z' holds bool, which has no range" in refusal(ranged(m, z=(0, 1)))


HEADER = '<ir_version: 10, opset_import: ["": 20, "qonnx.custom_op.general": 2]>'


def thorough(text: str, **options) -> list[np.ndarray]:
    return [sample["x"] for sample in generate(ir.from_onnx_text(text), thorough=True, **options)]


def test_bounds_are_reached_through_factors_and_terms():
    drawn = thorough(
        f"{HEADER} g (float[4,8] x) => (float[4,8] y) <float[8] f = {{0.7, 1.3, 0.11, 2.9, 0.37, 5.1, 0.9, 1.7}}, "
        "float c = {0.2}, float low = {-40.0}, float high = {40.0}> "
        "{ a = Mul(x, f) b = Add(a, c) y = Clip(b, low, high) }"
    )
    factor = np.array([0.7, 1.3, 0.11, 2.9, 0.37, 5.1, 0.9, 1.7], np.float32)
    values = np.concatenate([x * factor + np.float32(0.2) for x in drawn])
    for bound in np.float32([-40, 40]):
        assert (values == bound).any(axis=0).sum() >= 4
        near = np.abs(values - bound) < 1e-4
        assert (near & (values >= bound)).any(axis=0).all()
        assert (near & (values < bound)).any(axis=0).all()


def test_every_threshold_is_seen_from_both_sides():
    steps = np.sort(np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32))
    written = ", ".join(repr(float(step)) for step in steps.flat)
    drawn = thorough(
        f"{HEADER} g (float[4,3] x) => (float[4,3] y) <float[3,5] t = {{{written}}}> "
        "{ n = Neg(x) y = qonnx.custom_op.general.MultiThreshold(n, t) }"
    )
    values = -np.concatenate(drawn)
    for channel, step in np.ndindex(steps.shape):
        near = steps[channel, step]
        assert (values[:, channel] == near).any()
        assert (values[:, channel] == np.nextafter(near, np.float32(-9))).any()


def test_integers_come_to_the_limits_that_they_are_compared_with():
    drawn = thorough(f"{HEADER} g (int32[8] x) => (bool[8] y) <int32 c = {{12345}}> {{ n = Neg(x) y = Greater(n, c) }}")
    assert {12344, 12345, 12346} <= set((-np.concatenate(drawn)).tolist())


@pytest.mark.parametrize("shape", ["", "[1]", "[0]", "[2,0,3]"])
@pytest.mark.parametrize(("dtype", "limit"), [("float", 0.3), ("double", 0.3), ("float16", 0.3), ("int64", 7)])
def test_limits_of_inputs_of_any_shape(shape, dtype, limit):
    constant = f"{dtype} c = {{{limit}}}" if dtype != "float16" else "float16 c = {13517}"
    drawn = thorough(f"{HEADER} g ({dtype}{shape} x) => (bool{shape} y) <{constant}> {{ n = Neg(x) y = Less(n, c) }}")
    assert len(drawn) > 3
    assert shape.count("0") or any(abs(float(-x.reshape(-1)[0]) - limit) < 1e-3 for x in drawn)


def test_rows_that_hardly_vary():
    drawn = thorough(f"{HEADER} g (float[5,16] x) => (float[5,16] y) {{ y = Softmax(x) }}")
    spread = [float(np.ptp(row)) for x in drawn for row in x]
    means = [abs(float(row.mean())) for x in drawn for row in x if 0 < np.ptp(row) < 0.01]
    assert 0.0 in spread
    assert max(means) > 50


def test_sizes_beyond_what_one_counts_by_hand():
    drawn = thorough(f"{HEADER} g (float[N,4] x) => (float[M,4] y) {{ y = Neg(x) }}")
    sizes = {len(x) for x in drawn}
    assert {1, 2, 3} < sizes
    assert max(sizes) >= 9


def test_large_models_get_no_more_samples():
    text = f"{HEADER} g (float[1,3,512,512] x) => (float[1,3,512,512] y) {{ y = Relu(x) }}"
    assert len(thorough(text)) == 3


def test_models_whose_kernels_are_computed_get_no_more_samples():
    text = f"{HEADER} g (float[1,3,9,9] x, float[4,3,3,3] w) => (float[1,4,7,7] y) {{ n = Neg(w) y = Conv(x, n) }}"
    assert len(thorough(text)) == 3


def test_annotated_inputs_hold_nothing_else():
    """What is known of an input is true in every sample."""
    model = ir.from_onnx_text(f"{HEADER} g (float[16] x) => (float[16] y) <float c = {{0.3}}> {{ y = Max(x, c) }}")
    annotations.set(model.graph.inputs[0], {"finn_datatype": "INT4"})
    for sample in generate(model, thorough=True):
        assert set(sample["x"].tolist()) <= set(range(-8, 8))


def test_number_of_samples_is_that_asked_for():
    text = f"{HEADER} g (float[2,4] x) => (float[2,4] y) <float c = {{0.3}}> {{ y = Max(x, c) }}"
    assert [len(thorough(text, samples=count)) for count in (1, 3, 30)] == [1, 3, 30]


@pytest.mark.parametrize("shape", ["", "[1]", "[3]", "[8]", "[64]"])
def test_special_samples_of_inputs_of_any_size_hold_nan_and_both_infinities(shape: str) -> None:
    model = ir.from_onnx_text(HEADER + f"g (float{shape} x, float{shape} u) => (float{shape} y) {{ y = Add(x, u) }}")
    drawn = [sample for kind, sample in draw_special(model, Sampling(0)) if kind == "infinite"]
    assert len(drawn) <= 3
    for name in ("x", "u"):
        values = np.concatenate([sample[name].reshape(-1) for sample in drawn])
        assert np.isnan(values).any()
        assert {np.inf, -np.inf} <= set(values.tolist())
