"""What ONNX Runtime tells apart is never proved: rules of the collection, and models with a fault put in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.graph.copy import copy_model
from onnx_passes.proofs.equal import prove_equal
from onnx_passes.proofs.proof import Proof
from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.draws import Draws, RandomSource, UnbuildableError
from onnx_passes.testing.fuzz.feeds import feeds_of
from onnx_passes.testing.fuzz.generate import generate
from onnx_passes.testing.fuzz.targets import FuzzTarget, registered
from onnx_passes.verify.run.execute import ExecutionError, Executor, Sample
from tests.helpers.thorough import some

ALIKE = (
    ("Relu", "Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Identity", "Sqrt", "Exp", "Reciprocal"),
    ("Add", "Sub", "Mul", "Div", "Max", "Min"),
    ("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"),
    ("And", "Or", "Xor"),
    ("BitwiseAnd", "BitwiseOr", "BitwiseXor"),
)
Rng = np.random.Generator


def _other_operator(model: ir.Model, rng: Rng) -> bool:
    places = [(node, names) for node in model.graph for names in ALIKE if node.op_type in names and not node.domain]
    if not places:
        return False
    node, names = places[rng.integers(len(places))]
    node.op_type = str(rng.choice([name for name in names if name != node.op_type]))
    return True


def _swapped_inputs(model: ir.Model, rng: Rng) -> bool:
    nodes = [node for node in model.graph if len(node.inputs) == 2 and None not in node.inputs]
    if not nodes:
        return False
    node = nodes[rng.integers(len(nodes))]
    first, second = node.inputs
    node.replace_input_with(0, second)
    node.replace_input_with(1, first)
    return True


def _other_constant(model: ir.Model, rng: Rng) -> bool:
    values = [value for value in model.graph.initializers.values() if value.const_value and value.const_value.size]
    values = [value for value in values if value.const_value.numpy().dtype.kind in "iuf"]
    if not values:
        return False
    value = values[rng.integers(len(values))]
    array = value.const_value.numpy().copy()
    at = np.unravel_index(rng.integers(array.size), array.shape)
    with np.errstate(all="ignore"):
        array[at] = np.nextafter(array[at], np.inf, dtype=array.dtype) if array.dtype.kind == "f" else array[at] + 1
    value.const_value = ir.Tensor(array, name=value.name)
    return True


_NOTICED = 1e-6
"""A proof that allows for more than this says so itself."""
FAULTS = (_other_operator, _swapped_inputs, _other_constant)


def _pairs(target: FuzzTarget, seed: int) -> Iterator[tuple[Case, ir.Model, ir.Model]]:
    """Yield models before and after a rule, then the same with faults."""
    try:
        case = generate(target, Draws(RandomSource(seed)))
        before = ir.from_proto(onnx.ModelProto.FromString(case.model))
        after = copy_model(before)
        target.apply(after)
    except (UnbuildableError, OnnxPassesError):
        return
    yield case, before, after
    for number, fault in enumerate(FAULTS):
        wrong = copy_model(after)
        if fault(wrong, np.random.default_rng(seed + number)):
            yield case, before, wrong


def _results(executor: Executor, model: ir.Model, case: Case) -> list[Sample | None]:
    ready = executor.prepare(model, engine="onnxruntime")
    found: list[Sample | None] = []
    for feed in feeds_of(case):
        try:
            found.append(ready.run(feed.arrays))
        except ExecutionError:
            found.append(None)
    return found


def _differ(one: Sample | None, other: Sample | None) -> bool:
    """Tell whether results differ by more than rounding, of which a proof may speak."""
    if one is None or other is None:
        return False
    for name, a in one.items():
        b = other[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            return True
        if a.dtype.kind in "iub":
            if not np.array_equal(a, b):
                return True
        elif a.dtype.kind in "fV":
            last = 64 * float(np.finfo(a.dtype).eps) if a.dtype.kind == "f" else 0.25
            x, y = a.astype(np.float64), b.astype(np.float64)
            if not np.allclose(x, y, rtol=last, atol=last, equal_nan=True):
                return True
    return False


TARGETS = some(registered(), every=18)


@pytest.mark.parametrize("target", TARGETS, ids=[target.name for target in TARGETS])
def test_what_differs_is_never_proved(target: FuzzTarget) -> None:
    executor = Executor()
    for case, before, other in _pairs(target, seed=7):
        found = prove_equal(before, other, solver=False)
        if isinstance(found, Proof):
            try:
                results = [_results(executor, model, case) for model in (before, other)]
            except ExecutionError:
                continue
            if found.bound is not None and found.bound > _NOTICED:
                continue
            wrong = [n for n, (a, b) in enumerate(zip(*results, strict=True)) if _differ(a, b)]
            # Real numbers know neither NaN nor what overflows: these flags are told with such a proof.
            assert not wrong or set(found.flags) & {"nnan", "ninf", "nsz"}, (found, wrong)
