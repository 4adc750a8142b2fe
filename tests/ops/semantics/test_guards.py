"""Terms of operators are those of what ONNX Runtime computes, and none are made where that is not known."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.numbers.algebra import UnsupportedError
from onnx_passes.ops.definition import definition_of
from onnx_passes.ops.number_systems.terms import Terms
from onnx_passes.ops.quant import Quant
from onnx_passes.ops.semantics.evaluation import Evaluation
from onnx_passes.proofs.samples import variables
from onnx_passes.verify.run.execute import Executor
from tests.passes.tools import model_of

Q = "qonnx.custom_op.general"


def model(signature: str, body: str, constants: str = "") -> ir.Model:
    before, after = signature.split(" => ")
    return model_of(f"g ({before}) => ({after}) <{constants}> {{ {body} }}", opset=20, domains=f'"{Q}": 1')


def same(signature: str, first: str, second: str) -> bool:
    """Tell whether two texts are the same terms."""
    terms = Terms()
    old, new = model(signature, first), model(signature, second)
    made = variables(terms, old)
    a, b = (Evaluation(each, terms, fold=False).outputs(made) for each in (old, new))
    return all(
        x.shape == y.shape and np.array_equal(x.elements(terms), y.elements(terms)) for x, y in zip(a, b, strict=True)
    )


def computes_the_same(signature: str, first: str, second: str) -> bool:
    """Tell whether ONNX Runtime computes the same for both texts."""
    old, new = model(signature, first), model(signature, second)
    rng = np.random.default_rng(0)
    feeds = {str(v.name): rng.integers(-9, 9, v.shape.numpy()).astype(np.float32) for v in old.graph.inputs}
    results = [Executor().prepare(each, engine="onnxruntime").run(feeds) for each in (old, new)]
    return all(np.array_equal(results[0][name], results[1][name]) for name in results[0])


IMAGE = "float[1,1,4,4] x, float[1,1,2,2] w => float[1,1,4,4] y"
STRIDED = "float[1,1,5,5] x, float[1,1,2,2] w => float[1,1,3,3] y"
EQUAL = [
    (IMAGE, 'y = Conv <auto_pad = "SAME_UPPER"> (x, w)', "y = Conv <pads = [0,0,1,1]> (x, w)", True),
    (IMAGE, 'y = Conv <auto_pad = "SAME_LOWER"> (x, w)', "y = Conv <pads = [1,1,0,0]> (x, w)", True),
    (IMAGE, 'y = Conv <auto_pad = "SAME_UPPER"> (x, w)', "y = Conv <pads = [1,1,0,0]> (x, w)", False),
    (IMAGE, 'y = Conv <auto_pad = "SAME_LOWER"> (x, w)', "y = Conv <pads = [0,0,1,1]> (x, w)", False),
    (
        STRIDED,
        'y = Conv <auto_pad = "SAME_UPPER", strides = [2,2]> (x, w)',
        "y = Conv <pads = [0,0,1,1], strides = [2,2]> (x, w)",
        True,
    ),
    ("float[2,3] x, float[3,4] w => float[2,4] y", "y = Gemm(x, w)", "y = MatMul(x, w)", True),
    ("float[2,3] x, float[3,4] w => float[2,4] y", "y = Gemm <alpha = 2.0> (x, w)", "y = Gemm(x, w)", False),
    ("float[2,3] x, float[3,4] w => float[2,4] y", "y = Gemm <alpha = 2.0> (x, w)", "y = MatMul(x, w)", False),
    ("float[3,3] x, float[3,3] w => float[3,3] y", "y = Gemm <transA = 1> (x, w)", "y = Gemm(x, w)", False),
]


@pytest.mark.parametrize(("signature", "first", "second", "expected"), EQUAL)
def test_terms_are_the_same_where_the_runtime_computes_the_same(
    signature: str, first: str, second: str, expected: bool
):
    assert same(signature, first, second) == expected
    assert computes_the_same(signature, first, second) == expected


RECURRENT = (
    "float[2,1,3] x, float[1,8,3] w, float[1,8,2] r => float[1,1,2] y, float[1,1,2] z",
    "o, {}, {} = LSTM <hidden_size = 2> (x, w, r)",
)


def test_results_of_one_operator_are_told_apart():
    signature, body = RECURRENT
    assert same(signature, body.format("y", "z"), body.format("y", "z"))
    assert not same(signature, body.format("y", "z"), body.format("z", "y"))
    assert not computes_the_same(signature, body.format("y", "z"), body.format("z", "y"))


@pytest.mark.parametrize("operator", ["RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"])
def test_what_is_drawn_has_no_terms(operator: str):
    terms, given = Terms(), model("float[3] x => float[3] y", f"y = {operator}(x)")
    with pytest.raises(UnsupportedError):
        Evaluation(given, terms, fold=False).outputs(variables(terms, given))


def test_statistics_of_a_batch_are_not_those_that_are_given():
    signature = "float[2,3] x, float[3] s, float[3] b, float[3] m, float[3] v => float[2,3] y"
    usual, training = (f"y = BatchNormalization <training_mode = {mode}> (x, s, b, m, v)" for mode in (0, 1))
    assert same(signature, usual, "y = BatchNormalization(x, s, b, m, v)")
    assert not same(signature, usual, training)


def test_norms_of_windows_are_told_apart():
    signature = "float[1,1,4,4] x => float[1,1,3,3] y"
    texts = [f"y = LpPool <kernel_shape = [2,2], p = {p}> (x)" for p in (1, 2, 3)]
    assert [[same(signature, a, b) for a in texts] for b in texts] == np.eye(3).tolist()
    assert not computes_the_same(signature, *texts[1:])


@pytest.mark.parametrize(
    ("signed", "narrow", "expected"), [(1, 0, (-128, 127)), (1, 1, (-127, 127)), (0, 0, (0, 255)), (0, 1, (0, 254))]
)
def test_a_quantizer_knows_the_integers_that_it_returns(signed: int, narrow: int, expected: tuple[int, int]):
    given = model(
        "float[600] x => float[600] y",
        f"y = {Q}.Quant <signed = {signed}, narrow = {narrow}> (x, one, zero, bits)",
        "float one = {1}, float zero = {0}, float bits = {8}",
    )
    definition = definition_of(given.graph[0])
    assert isinstance(definition, Quant)
    grid = definition.grid(given.graph[0])
    assert grid is not None
    assert (grid.low, grid.high) == expected
    found = Executor().prepare(given).run({"x": np.arange(-300, 300, dtype=np.float32)})["y"]
    assert (found.min(), found.max()) == expected


@pytest.mark.parametrize(
    ("layout", "shape", "axis"),
    [
        ("NC", (2, 4, 3), 2),
        ("NWC", (4, 3), 1),
        ("NHWC", (2, 4, 4, 3), 3),
        ("NCHW", (2, 3, 4, 4), 1),
        ("NCW", (2, 3, 4), 1),
        ("", (2, 4, 3), 2),
        ("", (2, 3, 4, 4), 1),
    ],
)
def test_thresholds_belong_to_the_channels_of_the_layout(layout: str, shape: tuple[int, ...], axis: int):
    sizes = ",".join(map(str, shape))
    given = model(
        f"float[{sizes}] x => float[{sizes}] y",
        f'y = {Q}.MultiThreshold <data_layout = "{layout}"> (x, t)',
        "float[3,2] t = {0, 1, 10, 11, 20, 21}",
    )
    x = np.random.default_rng(0).integers(-1, 23, shape).astype(np.float32)
    starts = np.array([0, 10, 20], np.float32).reshape([3 if place == axis else 1 for place in range(len(shape))])
    expected = (x >= starts).astype(np.float32) + (x >= starts + 1)
    np.testing.assert_array_equal(Executor().prepare(given).run({"x": x})["y"], expected)
    definition = definition_of(given.graph[0])
    thresholds = given.graph.initializers["t"].const_value.numpy()
    np.testing.assert_array_equal(definition.compute([x, thresholds], definition.checked(given.graph[0])), expected)


@pytest.mark.parametrize(
    ("body", "missing"),
    [("y = Gather(c, i)", 1), ("y = GatherElements(c, i)", 1), ("y = Compress(c, k)", 1), ("y = NonZero(c)", 0)],
)
@pytest.mark.parametrize("fold", [True, False])
def test_a_missing_input_is_refused_by_name(body: str, missing: int, fold: bool):
    constants = "float[3] c = {1, 2, 3}, int64[2] i = {0, 1}, bool[3] k = {1, 0, 1}"
    broken = model("float[2] x => float[2] y", body, constants)
    broken.graph[0].replace_input_with(missing, None)
    terms = Terms()
    with pytest.raises(UnsupportedError, match=f"lacks input {missing}"):
        Evaluation(broken, terms, fold=fold).outputs(variables(terms, broken))
