"""No change that ONNX Runtime can tell is certified: by far more mutants than tests of single faults would name."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from onnx_passes.api import apply
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.randomness import is_random
from onnx_passes.proofs.model_certificate import ModelCertificate, certify
from tests.helpers.thorough import THOROUGH
from tests.proofs.mutations import MUTATIONS
from tests.proofs.small_models import small_models

Array = np.ndarray
MODELS = small_models()
SEEDS = range(2 if THOROUGH else 1)
_CLAIMS = ("proved", "proved-here")
_SPECIALS = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, 0.5, -1.5)
_OF_QUICK_RUNS = 7
"""One in so many mutants is tried in the ordinary suite."""


def _mutants() -> Iterator[tuple[str, ir.Model, str, ir.Model]]:
    """Yield models and their mutants, all of them or every so many."""
    number = 0
    for name, model in MODELS.items():
        for kind, mutate in MUTATIONS.items():
            for seed in SEEDS:
                number += 1
                if not THOROUGH and number % _OF_QUICK_RUNS:
                    continue
                mutant = copy_model(model)
                if mutate(mutant, np.random.default_rng([seed, number])):
                    yield name, model, kind, mutant


@dataclass
class Judge:
    """One model as ONNX Runtime sees it, in which draws of random numbers are inputs of their own."""

    session: ort.InferenceSession | None
    interface: tuple[object, ...]
    draws: Counter[str]

    def run(self, feeds: dict[str, Array]) -> list[Array] | None:
        """Run once; None where ONNX Runtime refuses."""
        try:
            given = {value.name: feeds[value.name] for value in self.session.get_inputs() if value.name in feeds}
            return [np.asarray(each) for each in self.session.run(None, given)]
        except Exception:  # noqa: BLE001 - what is refused is compared as that
            return None


def _judge(model: ir.Model) -> Judge:
    draws = Counter(
        f"{node.op_type} {[(a.name, a.value) for a in node.attributes.values()]}"
        for owner in (model.graph, *model.functions.values())
        for node in owner.all_nodes()
        if is_random(node)
    )
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        data = ir.to_proto(_with_draws_as_inputs(model)).SerializeToString()
        session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001 - what is refused is compared as that
        return Judge(None, (), draws)
    inputs = [(i.name, i.type, tuple(d if isinstance(d, int) else None for d in i.shape)) for i in session.get_inputs()]
    defaults = sorted(value.name for value in session.get_overridable_initializers())
    outputs = [(o.name, o.type, len(o.shape)) for o in session.get_outputs()]
    return Judge(session, (inputs, defaults, outputs), draws)


def _with_draws_as_inputs(model: ir.Model) -> ir.Model:
    """Replace what draws random numbers in a model by inputs, in the order of its nodes."""
    model = copy_model(model)
    drawing = _drawing_functions(model)
    found = [node for node in model.graph.all_nodes() if is_random(node) or node.op_identifier() in drawing]
    for number, node in enumerate(found):
        value = ir.Value(name=f"draw{number}", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([4]))
        model.graph.inputs.append(value)
        node.outputs[0].replace_all_uses_with(value, replace_graph_outputs=True)
        if not any(output.uses() or output.is_graph_output() for output in node.outputs):
            node.graph.remove(node, safe=True)
    return model


def _drawing_functions(model: ir.Model) -> set[ir.OperatorIdentifier]:
    """List the functions that draw random numbers, directly or through others."""
    found: set[ir.OperatorIdentifier] = set()
    for _ in model.functions:
        found |= {
            name
            for name, function in model.functions.items()
            if any(is_random(node) or node.op_identifier() in found for node in function.all_nodes())
        }
    return found


_KINDS = {"float": np.float32, "double": np.float64, "float16": np.float16}


def _feeds(judge: Judge) -> Iterator[dict[str, Array]]:
    """Draw ordinary inputs, and some full of special values; conditions take both values."""
    assert judge.session is not None
    for seed in range(2 + len(_SPECIALS)):
        random = np.random.default_rng(seed)
        found: dict[str, Array] = {}
        for value in (*judge.session.get_inputs(), *judge.session.get_overridable_initializers()):
            shape = [dim if isinstance(dim, int) else 2 for dim in value.shape]
            kind = value.type.removeprefix("tensor(").removesuffix(")")
            if kind == "bool":
                array = np.broadcast_to(np.array(seed % 2 == 0), shape) if not shape else random.random(shape) < 0.5
            elif kind in _KINDS:
                array = random.normal(size=shape) * 2
                if seed >= 2:
                    array.reshape(-1)[seed % 2 :: 2] = _SPECIALS[seed - 2]
                array = array.astype(_KINDS[kind])
            else:
                info = np.iinfo(kind)
                array = random.integers(info.min if seed % 2 else max(info.min, -9), info.max if seed % 2 else 9, shape)
                array = np.asarray(array, kind)
            if value.name in {each.name for each in judge.session.get_inputs()} or seed % 2:
                found[value.name] = np.asarray(array)
        yield found


def _differ(one: Judge, other: Judge) -> bool:
    """Tell whether two models are different ones: by interface, by what they draw, or by the bits of their results."""
    if one.draws != other.draws or one.interface != other.interface:
        return True
    if one.session is None:
        return False
    for feeds in _feeds(one):
        a, b = one.run(feeds), other.run(feeds)
        if a is None or b is None:
            if a is not b:
                return True
            continue
        if any(x.shape != y.shape or x.dtype != y.dtype or not _same_bits(x, y) for x, y in zip(a, b, strict=True)):
            return True
    return False


def _same_bits(x: Array, y: Array) -> bool:
    if x.dtype.kind != "f":
        return np.array_equal(x, y)
    return np.array_equal(x, y, equal_nan=True) and np.array_equal(np.signbit(x[x == 0]), np.signbit(y[y == 0]))


def _certified(before: ir.Model, after: ir.Model) -> ModelCertificate | None:
    """Return the certificate, or None of a model that is refused as invalid."""
    try:
        sized = tuple(apply(copy_model(model), "shape-inference", verify=False).model for model in (before, after))
        return certify(before, after, effort="quick", solver=False, sized=(sized[0], sized[1]))
    except OnnxPassesError:
        return None


@pytest.mark.parametrize("name", list(MODELS)[:: 1 if THOROUGH else 9])
def test_a_model_is_the_same_as_itself(name: str) -> None:
    found = _certified(MODELS[name], copy_model(MODELS[name]))
    assert found is not None
    assert found.windows == ()
    assert found.level == "proved"


def test_no_mutant_that_onnxruntime_tells_apart_is_proved() -> None:
    ort.set_default_logger_severity(4)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    judges = {name: _judge(model) for name, model in MODELS.items()}
    for name, model, kind, mutant in _mutants():
        counts["mutants"] += 1
        is_different = _differ(judges[name], _judge(mutant))
        counts["different"] += is_different
        found = _certified(model, mutant)
        level = "refused" if found is None else found.level
        counts[f"{'different' if is_different else 'equal'}: {level}"] += 1
        if is_different and level in _CLAIMS:
            wrong.append(f"{name}, {kind}: {level} {found.to_json() if found else ''}")
    logging.getLogger(__name__).info("%s", dict(counts))
    assert not wrong, (dict(counts), wrong)
    assert counts["different"] > counts["mutants"] // 2, counts
    assert len(MODELS) >= 50
    assert not THOROUGH or counts["mutants"] >= 2_000, counts
