"""Quantized networks in ONNX text, taken to integers, run and looked into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

import onnx_passes
from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.analysis.streamlined import Streamlined
from onnx_passes.api import Result
from onnx_passes.graph.constants import constant
from onnx_passes.graph.traits import is_product
from onnx_passes.verify.run.execute import Executor, Sample
from tests.passes.tools import check, model_of

DOMAIN = "qonnx.custom_op.general"
AGGREGATE = "extract-quant-scale-zeropoint, aggregate-scales, fold-quantized-weights"
_TYPES = {"float32": "float"}
_WIDTHS = {f"bits{width}": float(width) for width in (1, 2, 3, 4, 6, 8, 16)}


def quant(x: str, scale: str, bits: int = 4, *, zero: str = "zero", signed: int = 1, narrow: int = 0) -> str:
    """Write a quantizer; constants for its bits and for zero are part of every network."""
    return f"{DOMAIN}.Quant<signed={signed}, narrow={narrow}>({x}, {scale}, {zero}, bits{bits})"


def network(
    body: str,
    x: str = "float[2,4] x",
    y: str = "float[2,3] y",
    *,
    opset: int = 18,
    before: str = "",
    **constants: float | Sequence[object] | np.ndarray,
) -> ir.Model:
    """Make a network of inputs, outputs, nodes and constants by name; ``before`` declares more initializers."""
    arrays = {name: _array(given) for name, given in {"zero": 0.0, **_WIDTHS, **constants}.items()}
    declared = [_declared(name, array) for name, array in arrays.items()]
    text = f"g ({x}) => ({y}) <{', '.join([*declared, *([before] if before else [])])}> {{ {body} }}"
    return model_of(text, opset=opset, domains=f'"{DOMAIN}" : 1')


def _array(given: float | Sequence[object] | np.ndarray) -> np.ndarray:
    array = np.asarray(given)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def _declared(name: str, array: np.ndarray) -> str:
    sizes = f"[{','.join(map(str, array.shape))}]" if array.ndim else ""
    numbers = ", ".join(repr(number) for number in array.reshape(-1).tolist())
    return f"{_TYPES.get(array.dtype.name, array.dtype.name)}{sizes} {name} = {{{numbers}}}"


def numbers(*shape: int, seed: int = 0, size: float = 1.0) -> np.ndarray:
    """Return weights: some of them are on a grid, none is so large that rounding hides it."""
    return np.random.default_rng(seed).normal(0, size, shape).astype(np.float32)


def samples(model: ir.Model, *, step: float = 0.125, batch: int = 3) -> list[Sample]:
    """Return random inputs, inputs on a grid with ties, and inputs beyond all that a quantizer holds."""
    random = np.random.default_rng(7)

    def each(kind: int, shape: tuple[int, ...]) -> np.ndarray:
        match kind:
            case 0:
                found = random.normal(0, 1, shape)
            case 1:
                found = random.integers(-20, 21, shape) * step
            case 2:
                found = random.normal(0, 4, shape)
            case _:
                found = random.choice([-1e6, -0.0, step / 2, 1e6], shape)
        return found.astype(np.float32)

    shapes = {
        str(value.name): tuple(size if isinstance(size, int) else batch for size in value.shape or ())
        for value in model.graph.inputs
        if value.name not in model.graph.initializers
    }
    return [{name: each(kind % 4, shape) for name, shape in shapes.items()} for kind in range(8)]


def run(model: ir.Model, feeds: Sequence[Sample]) -> list[list[np.ndarray]]:
    """Run a model, custom operators and all, in ONNX Runtime."""
    ready = Executor().prepare(model, engine="onnxruntime")
    found = [ready.run(sample) for sample in feeds]
    return [[results[str(value.name)] for value in model.graph.outputs] for results in found]


def assert_same(before: ir.Model, after: ir.Model, *, exact: bool, feeds: Sequence[Sample] | None = None) -> None:
    """Compare what two models compute: bit by bit but for signs of zeros, or relative to the range of results."""
    inputs = samples(before) if feeds is None else feeds
    wanted, found = run(before, inputs), run(after, inputs)
    for index, old in enumerate(zip(*wanted, strict=True)):
        size = max(float(np.abs(array).max()) for array in old) if old[0].size else 0.0
        for a, results in zip(old, found, strict=True):
            b = results[index]
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            if exact:
                np.testing.assert_array_equal(a, b)
            else:
                assert np.abs(a - b).max(initial=0) <= 1e-5 * size


def interior(model: ir.Model, values: Sequence[ir.Value]) -> list[list[np.ndarray]]:
    """Return what some values of a model are, for each sample."""
    ready = Executor().prepare(model, also=values, engine="onnxruntime")
    found = [ready.run(sample) for sample in samples(model)]
    return [[results[str(value.name)] for results in found] for value in values]


def products(model: ir.Model) -> list[ir.Node]:
    """Return the nodes that multiply and accumulate."""
    return [node for node in model.graph if is_product(node)]


def assert_integer_products(model: ir.Model) -> None:
    """Look at what products of matrices, and convolutions, are really given: integers."""
    found = products(model)
    assert found
    for node in found:
        for value in node.inputs[:2]:
            held = constant(value)
            if held is not None:
                np.testing.assert_array_equal(held, np.rint(held))
        assert not node.inputs[2:], "a bias is left in a product"
    computed = [value for node in found for value in node.inputs[:2] if value is not None and constant(value) is None]
    for arrays in interior(model, computed):
        for array in arrays:
            np.testing.assert_array_equal(array, np.rint(array))


def aggregated(model: ir.Model, *, exact: bool, integer: bool = True) -> ir.Model:
    """Bring the scales of a network together, verified; nothing is left to do, results and names are the same."""
    result = onnx_passes.apply(model, AGGREGATE)
    assert any(step.evidence is not None and step.evidence.samples for step in result.steps)
    assert not onnx_passes.apply(result.model, AGGREGATE, verify=False).modified
    check(result.model)
    assert_interface(model, result.model)
    assert_same(model, result.model, exact=exact)
    if integer:
        assert_integer_products(result.model)
    return result.model


def assert_interface(before: ir.Model, after: ir.Model) -> None:
    """Inputs and outputs keep names, types and shapes."""
    for old, new in ((before.graph.inputs, after.graph.inputs), (before.graph.outputs, after.graph.outputs)):
        assert [(value.name, value.type, value.shape) for value in old] == [
            (value.name, value.type, value.shape) for value in new
        ]


@dataclass
class Streamed:
    """A network that was streamlined, and what check-streamlined found."""

    model: ir.Model
    found: Streamlined
    result: Result

    @property
    def operators(self) -> list[str]:
        """List the operators."""
        return [node.op_type for node in self.model.graph]


def streamline(model: ir.Model, *, exact: bool, step: float = 0.125, whole: bool = True) -> Streamed:
    """Streamline a network, verified; a second time changes nothing, and results are the same.

    Behind a value that no input can change, the second run may still find something to do.
    """
    result = onnx_passes.apply(model, "streamline")
    if not has_stuck_values(model):
        again = onnx_passes.apply(result.model, "streamline", verify=False)
        assert not again.modified, [step.name for step in again.steps if step.modified]
    assert_interface(model, result.model)
    assert_same(model, result.model, exact=exact, feeds=samples(model, step=step))
    found = result["check-streamlined"]
    assert isinstance(found, Streamlined)
    if whole:
        assert found.fraction == 1
        assert not found.blockers
    return Streamed(result.model, found, result)


def has_stuck_values(model: ir.Model) -> bool:
    """Tell whether something that depends on an input is the same for all inputs."""
    inferred = onnx_passes.apply(model, "shape-inference", verify=False).model
    known = ranges_of(inferred)
    computed: set[ir.Value] = set(inferred.graph.inputs)
    for node in inferred.graph:
        if any(value in computed for value in node.inputs):
            computed.update(node.outputs)
    return any(known[value].is_point for value in computed)
