"""What rounding may do to a value is never less than what it does, and not much more."""

from __future__ import annotations

import itertools

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.verify.comparison.noise import Noise, rounding_bounds
from onnx_passes.verify.run.execute import Executor

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
NEW = '<ir_version: 10, opset_import: ["": 23]>'
"""ONNX Runtime draws no uniform numbers in this version."""
MODELS = {
    "product": ("float[8,512] x, float[512,16] w", "y = MatMul (x, w)", {"x": (8, 512), "w": (512, 16)}),
    "convolution": (
        "float[1,8,12,12] x, float[4,8,3,3] w",
        "y = Conv (x, w)",
        {"x": (1, 8, 12, 12), "w": (4, 8, 3, 3)},
    ),
    "sum": ("float[64,300] x", "y = ReduceSum <keepdims = 0> (x, axes)", {"x": (64, 300)}),
    "chain": ("float[500] x, float[500] w", "a = Mul (x, w) b = Add (a, x) y = Sub (b, a)", {"x": (500,), "w": (500,)}),
    "norm": (
        "float[1,4,6,6] x, float[4] w",
        "p = Mul (w, w) y = BatchNormalization (x, w, w, w, p)",
        {"x": (1, 4, 6, 6), "w": (4,)},
    ),
    "training": (
        "float[8,4,6,6] x, float[4] w, float[4] m, float[4] v",
        "y, mean, variance = BatchNormalization <training_mode = 1> (x, w, w, m, v)",
        {"x": (8, 4, 6, 6), "w": (4,), "m": (4,), "v": (4,)},
    ),
    "layer": ("float[4,64] x, float[64] w", "y = LayerNormalization (x, w)", {"x": (4, 64), "w": (64,)}),
}


def model_of(name: str, head: str = HEAD) -> ir.Model:
    inputs, nodes, _ = MODELS[name]
    return ir.from_onnx_text(f"{head} g ({inputs}) => (float y) <int64[1] axes = {{1}}> {{ {nodes} }}")


def in_doubles(name: str, sample: dict[str, np.ndarray]) -> np.ndarray:
    """Compute the same with onnx's own evaluator, in doubles."""
    from onnx.reference import ReferenceEvaluator

    text = f"{HEAD} g ({MODELS[name][0]}) => (float y) <int64[1] axes = {{1}}> {{ {MODELS[name][1]} }}"
    proto = ir.to_proto(ir.from_onnx_text(text.replace("float", "double")))
    return ReferenceEvaluator(proto).run(None, {key: array.astype(np.float64) for key, array in sample.items()})[0]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("offset", [0.0, 3.0])
@pytest.mark.parametrize(("seed", "head"), [(0, HEAD), (1, HEAD), (2, NEW)])
def test_errors_are_within_the_bound_element_by_element(name: str, offset: float, seed: int, head: str):
    rng = np.random.default_rng(seed)
    sample = {key: (rng.normal(size=shape) + offset).astype(np.float32) for key, shape in MODELS[name][2].items()}
    model = model_of(name, head)
    found = Executor().prepare(model_of(name, head)).run(sample)["y"]
    bounds = rounding_bounds(model, list(model.graph.outputs), [sample], Executor())
    assert bounds is not None
    exact = in_doubles(name, sample)
    error = np.abs(found - exact)
    # Few runs may happen to show a little less, as one element in some ten thousand does.
    assert (error <= bounds[0]["y"]).mean() > 0.999
    assert (error <= 2 * bounds[0]["y"]).all()
    assert (bounds[0]["y"] <= 1e-3 * np.abs(exact).max()).all()


def test_nothing_is_lost_where_nothing_is_rounded():
    model = ir.from_onnx_text(f"{HEAD} g (float[4] x) => (float[4] y) {{ a = Neg (x) b = Relu (a) y = Floor (b) }}")
    sample = {"x": np.array([-2, -1.5, 0, 3], np.float32)}
    bounds = rounding_bounds(model, list(model.graph.outputs), [sample], Executor(), at=list(model.graph))
    assert bounds == [{}]


def test_one_great_channel_says_nothing_of_the_others():
    model = ir.from_onnx_text(f"{HEAD} g (float[2,3] x, float[3] w) => (float[2,3] y) {{ y = Mul (x, w) }}")
    sample = {"x": np.ones((2, 3), np.float32), "w": np.array([1e6, 1, -1e9], np.float32)}
    bounds = rounding_bounds(model, list(model.graph.outputs), [sample], Executor())
    assert bounds is not None
    assert (bounds[0]["y"][:, 1] < 1e-5).all()


def test_the_same_is_found_every_time():
    samples = [{"x": np.arange(500, dtype=np.float32), "w": np.full(500, np.float32(0.1))}]
    models = [model_of("chain"), model_of("chain")]
    first, second = (rounding_bounds(model, list(model.graph.outputs), samples, Executor()) for model in models)
    assert first is not None
    assert second is not None
    np.testing.assert_array_equal(first[0]["y"], second[0]["y"])


@pytest.mark.parametrize("head", [HEAD, NEW])
def test_norms_of_nearly_equal_elements_are_uncertain(head: str):
    rng = np.random.default_rng(0)
    sample = {"x": (1e5 + 0.01 * rng.normal(size=(4, 64))).astype(np.float32), "w": np.ones(64, np.float32)}
    model = model_of("layer", head)
    bounds = rounding_bounds(model, list(model.graph.outputs), [sample], Executor(), at=list(model.graph))
    assert bounds is not None
    assert (bounds[0]["y"] > 0.1).all()


def test_sizes_do_not_err_where_a_shorter_type_is_tried():
    text = """g (float[2,3] x) => (float y) <float size = {3}, float one = {1}, int64[1] two = {2}> {
        more = Mul (size, one) count = Cast <to = 7> (more) axis = Unsqueeze (count, zero)
        shape = Concat <axis = 0> (two, axis) z = Reshape (x, shape) y = Add (z, x) }"""
    model = ir.from_onnx_text(f"{HEAD} {text.replace('int64[1] two', 'int64[1] zero = {0}, int64[1] two')}")
    sample = {"x": np.ones((2, 3), np.float32)}
    bound = Noise(model, list(model.graph.outputs), Executor(), unit=2.0**-2).bound(sample)
    assert (bound["y"] > 0).all()


SIZED = {
    "scales": "scales = Constant <value = float[4] {1, 1, 2, 2}> () y = Resize (a, , scales)",
    "computed": """shape = Shape (a) wide = Cast <to = 1> (shape) third = Constant <value_float = 3.0> ()
        far = Mul (wide, third) down = Floor (far) sizes = Cast <to = 7> (down) y = Resize (a, , , sizes)""",
    "counted": """b = Add (a, a) c = Mul (a, b) less = LessOrEqual (c, b) z = Reshape (a, flat)
        w = Reshape (less, flat) y = Compress (z, w)""",
}


@pytest.mark.parametrize("name", SIZED)
def test_sizes_stay_as_they_are_where_the_numbers_beside_them_err(name: str):
    inputs = "(float[1,1,4,4] x) => (float[] y) <int64[1] flat = {-1}>"
    model = ir.from_onnx_text(f"{HEAD} g {inputs} {{ a = Exp (x) {SIZED[name]} }}")
    sample = {"x": np.zeros((1, 1, 4, 4), np.float32)}
    bound = Noise(model, list(model.graph.outputs), Executor()).bound(sample)
    assert (bound["y"] > 0).any()


@pytest.mark.parametrize("text", ["<float c = {0.1}> {", "{ c = Constant <value_float = 0.1> ()"])
def test_constants_do_not_err_however_they_are_written(text: str):
    model = ir.from_onnx_text(f"{HEAD} g (float[4] x) => (float y, float z) {text} y = Neg (c) z = Mul (c, c) }}")
    bound = Noise(model, list(model.graph.outputs), Executor()).bound({"x": np.ones(4, np.float32)})
    assert list(bound) == ["z"]


def test_nothing_is_kept_beside_what_errs_but_what_decides_about_sizes():
    text = "a = MatMul (x, w) b = Exp (a) s = Shape (x) c = MatMul (b, w) d = Reshape (c, s) y = Tanh (d)"
    model = ir.from_onnx_text(f"{HEAD} g (float[4,4] x, float[4,4] w) => (float y) {{ {text} }}")
    noise = Noise(model, list(model.graph.outputs), Executor())
    assert [node.op_type for node in model.graph if not str(node.name).startswith("//noise")] == ["Shape"]
    bounds = list(noise.growing({"x": np.eye(4, dtype=np.float32), "w": np.eye(4, dtype=np.float32)}))
    assert all((more["y"] >= less["y"]).all() for less, more in itertools.pairwise(bounds))
    assert (bounds[-1]["y"] > 0).all()


def test_runs_end_when_enough_is_known() -> None:
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["": 20]> g (float[9] x) => (float[9] y) { y = Exp (x) }')
    samples = [{"x": np.linspace(-1, 1, 9, dtype=np.float32)}, {"x": np.linspace(-2, 2, 9, dtype=np.float32)}]
    asked: list[tuple[int, float]] = []

    def enough(place: int, bound: dict[str, np.ndarray]) -> bool:
        asked.append((place, float(bound["y"].max())))
        return place == 0

    bounds = rounding_bounds(model, list(model.graph.outputs), samples, Executor(), enough=enough)
    assert bounds is not None
    assert [place for place, _ in asked].count(0) == 1
    later = [most for place, most in asked if place == 1]
    assert len(later) > 5
    assert later == sorted(later)
    assert float(bounds[1]["y"].max()) == later[-1]


@pytest.mark.parametrize("dtype", ["float16", "float", "double"])
@pytest.mark.parametrize("head", [HEAD, NEW])
def test_one_rounding_is_a_few_units_in_the_last_place(dtype: str, head: str):
    kind = {"float16": np.float16, "float": np.float32, "double": np.float64}[dtype]
    model = ir.from_onnx_text(f"{head} g ({dtype}[400] x) => ({dtype}[400] y) {{ y = Sigmoid (x) }}")
    sample = {"x": np.linspace(-2, 2, 400).astype(kind)}
    bounds = rounding_bounds(model, list(model.graph.outputs), [sample], Executor(), at=list(model.graph))
    assert bounds is not None
    units = bounds[0]["y"] / np.spacing(1 / (1 + np.exp(-sample["x"].astype(np.float64))).astype(kind))
    assert (units >= 1).mean() > 0.9
    assert units.max() <= 12
