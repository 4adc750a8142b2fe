"""Ranges hold what ONNX Runtime computes at their ends, where rounding goes over them and constants vary."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.numbers.grid import Grid
from onnx_passes.numbers.range import Range
from tests.analysis.ranges.soundness import inferred, require_sound

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
RNG = np.random.default_rng(0)
Held = Mapping[str, np.ndarray]


def model(signature: str, body: str, **held: np.ndarray) -> ir.Model:
    before, after = signature.split(" => ")
    made = ir.from_onnx_text(f"{HEAD} g ({before}) => ({after}) {{ {body} }}")
    for name, array in held.items():
        value = ir.Value(name=name, const_value=ir.tensor(array), shape=ir.Shape(array.shape))
        value.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))
        made.graph.initializers.add(value)
        for node in made.graph:
            for place, given in enumerate(node.inputs):
                if given is not None and given.name == name:
                    node.replace_input_with(place, value)
    return inferred(made)


def result(of: ir.Model, seeds: Mapping[str, object]) -> Range:
    return ranges_of(of, seeds)[of.graph.outputs[0]]  # pyright: ignore[reportArgumentType]


def integers(low: float, high: float) -> Range:
    scalar = np.asarray
    return Range(scalar(low), scalar(high), Grid.integers(scalar(low), scalar(high)))


def constant(shape: tuple[int, ...], number: np.float32) -> dict[str, np.ndarray]:
    return {"x": np.full(shape, number, np.float32)}


TENTHS = [np.float32(number) for number in (0.1, 0.3, 0.7, 1.1, 3.3, 7.7, 123.4)]
CONV = ("float[1,64,1,30] x => float[1,200,1,1] y", "y = Conv(x, w)", (1, 64, 1, 30))
MATMUL = ("float[1,2000] x => float[1,200] y", "y = MatMul(x, w)", (1, 2000))
POOL = ("float[1,50,3,3] x => float[1,50,1,1] y", "y = AveragePool <kernel_shape = [3,3]> (x)", (1, 50, 3, 3))
SUM = ("float[50,700] x => float[50] y", "y = ReduceSum <keepdims = 0> (x, last)", (50, 700))


@pytest.mark.parametrize("number", TENTHS, ids=str)
@pytest.mark.parametrize("kind", ["conv", "matmul", "pool", "sum"])
def test_sums_of_one_number_are_rounded_beyond_it(kind: str, number: np.float32):
    """The range of each input is a single number, so that nothing but rounding is left of that of the result."""
    signature, body, shape = {"conv": CONV, "matmul": MATMUL, "pool": POOL, "sum": SUM}[kind]
    held = {
        "conv": {"w": RNG.uniform(0.5, 1, (200, 64, 1, 30)).astype(np.float32)},
        "matmul": {"w": RNG.uniform(0.5, 1, (2000, 200)).astype(np.float32)},
        "sum": {"last": np.array([1])},
    }.get(kind, {})
    of = model(signature, body, **held)
    require_sound(of, {"x": (float(number), float(number))}, [constant(shape, number)])


PLANE = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
KERNEL = RNG.integers(-3, 4, (2, 1, 2, 2)).astype(np.float32)


@pytest.mark.parametrize(
    "body",
    [
        "a = Add(x, plane) y = Conv(a, w)",
        "a = Mul(x, plane) y = Conv(a, w)",
        "a = Add(x, plane) y = AveragePool <kernel_shape = [2,2]> (a)",
        "a = Mul(x, plane) y = AveragePool <kernel_shape = [2,2], strides = [2,2]> (a)",
        "a = Mul(x, plane) y = AveragePool <kernel_shape = [3,3], pads = [1,1,1,1]> (a)",
        "a = Add(x, plane) y = MaxPool <kernel_shape = [2,2]> (a)",
        "a = Add(x, plane) y = GlobalAveragePool(a)",
    ],
)
@pytest.mark.parametrize("grid", [False, True])
def test_windows_meet_what_varies_over_an_image(body: str, grid: bool):
    of = model("float[1,1,4,4] x => float[?,?,?,?] y", body, plane=PLANE, w=KERNEL)
    samples = [{"x": RNG.integers(-2, 4, (1, 1, 4, 4)).astype(np.float32)} for _ in range(5)]
    samples += [{"x": np.full((1, 1, 4, 4), end, np.float32)} for end in (-2, 3)]
    counts = require_sound(of, {"x": integers(-2, 3) if grid else (-2.0, 3.0)}, samples)
    assert counts["bounded"] == counts["values"]
    found = result(of, {"x": (-2.0, 3.0)})
    assert found.low.shape[2:] in ((1, 1), (2, 2), (3, 3), (4, 4))


@pytest.mark.parametrize("number", [600, 614, 640])
def test_scales_that_differ_between_channels_are_not_added_up_exactly(number: int):
    """What is added last is near half of the last place, and rounded each time."""
    scales = np.array([1] * 32 + [2.0**-19] * 64, np.float32).reshape(1, 96, 1, 1)
    weights = np.ones((1, 96, 1, 1), np.float32)
    of = model("float[1,96,1,1] x => float[1,1,1,1] y", "a = Mul(x, s) y = Conv(a, w)", s=scales, w=weights)
    for least in (0, number):
        require_sound(of, {"x": integers(least, number)}, [constant((1, 96, 1, 1), np.float32(number))])


@pytest.mark.parametrize("operator", ["Conv", "MatMul"])
def test_weights_that_are_shifted_and_not_known_leave_no_grid_of_integers(operator: str):
    x, w = ("float[1,2,3,3]", "float[1,2,2,2]") if operator == "Conv" else ("float[3,3]", "float[3,3]")
    of = model(f"{x} x, {w} v => float[?] y", f"w = Add(v, half) y = {operator}(x, w)", half=np.array(0.5, np.float32))
    shapes = [tuple(value.shape.numpy()) for value in of.graph.inputs]
    samples = [
        {name: RNG.integers(-3, 4, shape).astype(np.float32) for name, shape in zip("xv", shapes, strict=True)}
        for _ in range(20)
    ]
    require_sound(of, {"x": integers(-3, 3), "v": integers(-3, 3)}, samples)


@pytest.mark.parametrize("operator", ["Conv", "MatMul"])
def test_inputs_that_are_shifted_under_weights_that_are_not_known(operator: str):
    x, w = ("float[1,2,3,3]", "float[1,2,2,2]") if operator == "Conv" else ("float[3,3]", "float[3,3]")
    of = model(f"{x} x, {w} v => float[?] y", f"a = Add(x, half) y = {operator}(a, v)", half=np.array(0.25, np.float32))
    shapes = [tuple(value.shape.numpy()) for value in of.graph.inputs]
    samples = [
        {name: RNG.integers(-3, 4, shape).astype(np.float32) for name, shape in zip("xv", shapes, strict=True)}
        for _ in range(20)
    ]
    require_sound(of, {"x": integers(-3, 3), "v": integers(-3, 3)}, samples)


@pytest.mark.parametrize("body", ["y = Pow(x, two)", "y = Mul(x, x)"])
@pytest.mark.parametrize("grid", [False, True])
def test_squares_are_least_between_the_ends(body: str, grid: bool):
    of = model("float[3] x => float[3] y", body, two=np.array(2, np.float32))
    seeds = {"x": integers(-2, 3) if grid else (-2.0, 3.0)}
    require_sound(of, seeds, [{"x": np.array([-2, 0, 3], np.float32)}])
    assert result(of, seeds).high.max() == pytest.approx(9, rel=1e-4)


def test_quotients_of_integers_are_cut_off():
    of = model("int32[4] x => int32[4] y", "y = Div(x, two)", two=np.array(2, np.int32))
    found = result(of, {"x": (-7, 7)})
    assert (found.low.min(), found.high.max()) == (-3, 3)
    require_sound(of, {"x": (-7, 7)}, [{"x": np.array([-7, 7, -1, 1], np.int32)}])


def test_integers_that_floats_do_not_hold_are_bounded_further_out():
    one, zero, large = np.ones(1), np.zeros(1), 2.0**55
    grid = Grid.of(one, zero, np.array([-large]), np.array([large]))
    assert grid is not None
    assert grid.low[0] < -large
    assert grid.high[0] > large


@pytest.mark.parametrize("noop", [0, 1])
def test_no_axes_are_all_or_none(noop: int):
    of = model(
        "float[3,4] x => float[?,?] y",
        f"y = ReduceSum <noop_with_empty_axes = {noop}> (x, none)",
        none=np.zeros(0, np.int64),
    )
    samples = [{"x": np.full((3, 4), number, np.float32)} for number in (1, 1.5, 2)]
    require_sound(of, {"x": (1.0, 2.0)}, samples)
    found = result(of, {"x": (1.0, 2.0)})
    assert found.high.max() == pytest.approx(2 if noop else 24, rel=1e-4)


@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_rows_and_columns_of_products_keep_their_ranges(turned: tuple[int, int]):
    rows, columns = np.array([[1], [10], [100]], np.float32), np.array([[1, 20, 400]], np.float32)
    first, second = turned
    of = model(
        "float[3,3] x, float[3,3] z => float[3,3] y",
        f"a = Mul(x, rows) b = Mul(z, columns) y = Gemm <transA = {first}, transB = {second}> (a, b)",
        rows=rows,
        columns=columns,
    )
    ends = [{name: np.full((3, 3), end, np.float32) for name in "xz"} for end in (-1, 1)]
    drawn = [{name: RNG.uniform(-1, 1, (3, 3)).astype(np.float32) for name in "xz"} for _ in range(5)]
    require_sound(of, {"x": (-1.0, 1.0), "z": (-1.0, 1.0)}, [*ends, *drawn])


def test_a_turned_matrix_is_summed_up_along_its_rows():
    rows = np.array([[1], [10], [100]], np.float32)
    body = "a = Mul(x, rows) y = Gemm <transA = 1> (a, z)"
    of = model("float[3,3] x, float[3,3] z => float[3,3] y", body, rows=rows)
    assert result(of, {"x": (-1.0, 1.0), "z": (-1.0, 1.0)}).high == pytest.approx(111, rel=1e-4)
