"""Passes written by hand: a fault in one is blamed on its rewrite and nodes, and a limit stops inside each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pkgutil import resolve_name
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import apply, examples
from onnx_passes.core.instruments import Limit
from onnx_passes.debug.lineage import Lineage
from onnx_passes.graph.copy import copy_model
from onnx_passes.verify.failure import PostconditionError
from onnx_passes.verify.run.execute import Executor

AGGREGATED = "extract-quant-scale-zeropoint, aggregate-scales, fold-quantized-weights"


@dataclass(frozen=True)
class Planted:
    """A pass on the example CNN as others leave it, and what in it is made wrong the second time it is called."""

    text: str
    before: str
    target: str
    wrong: Callable[..., Any]
    rule: str
    matched: str


def late_thresholds(right: Callable[..., Any], op: Any, x: ir.Value, tail: Any, found: Any, levels: Any) -> ir.Value:
    return right(op, x, tail, replace(found, thresholds=found.thresholds + np.float32(2)), levels)


def larger_scale(right: Callable[..., Any], sweep: Any, value: ir.Value, form: Any) -> ir.Value:
    return right(sweep, value, form.times(1.25))


def one_more(right: Callable[..., Any], twins: Any, integer: ir.Value, old: ir.Value) -> ir.Value:
    assert integer.dtype is not None
    return right(twins, twins.op.Add(integer, np.ones((), integer.dtype.numpy())), old)


PLANTED = [
    Planted(
        "export-integer",
        "streamline",
        "onnx_passes.passes.export.integer_twins.IntegerTwins.restored",
        one_more,
        "integers of Conv",
        "Conv",
    ),
    Planted(
        "aggregate-scales",
        "import-qonnx, streamline-floats, extract-quant-scale-zeropoint",
        "onnx_passes.passes.streamline.aggregate_scales._Sweep._as_float",
        larger_scale,
        "integer form of ",
        "Conv",
    ),
    Planted(
        "infer-thresholds",
        f"import-qonnx, streamline-floats, {AGGREGATED}",
        "onnx_passes.passes.thresholds.conversion.write",
        late_thresholds,
        "thresholds of a tail",
        "Quant",
    ),
]
ids = [planted.text for planted in PLANTED]


@cache
def _example(before: str) -> ir.Model:
    return apply(examples.path("digits-cnn"), before, verify=False).model


def example(before: str) -> ir.Model:
    """Return the example CNN, as some passes leave it."""
    return copy_model(_example(before))


def plant(monkeypatch: pytest.MonkeyPatch, planted: Planted) -> None:
    owner, name = planted.target.rsplit(".", 1)
    right, calls = getattr(resolve_name(owner), name), [0]

    def either(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        return planted.wrong(right, *args, **kwargs) if calls[0] == 2 else right(*args, **kwargs)

    monkeypatch.setattr(planted.target, either)


@pytest.mark.parametrize("planted", PLANTED, ids=ids)
def test_a_fault_is_blamed_on_its_rewrite_and_nodes(planted: Planted, monkeypatch: pytest.MonkeyPatch):
    plant(monkeypatch, planted)
    with pytest.raises(PostconditionError) as raised:
        apply(example(planted.before), planted.text)
    failure = raised.value.failure
    assert planted.rule in failure.application
    assert failure.application.startswith("number 2 of "), failure.application
    assert planted.matched in failure.matched
    assert failure.replacement


@pytest.mark.parametrize("planted", PLANTED, ids=ids)
def test_a_limit_stops_inside(planted: Planted):
    before = example(planted.before)
    image = {"x": np.random.default_rng(0).normal(size=(1, 1, 8, 8)).astype(np.float32)}
    image = {str(value.name): array for value, array in zip(before.graph.inputs, image.values(), strict=True)}
    expected = Executor().prepare(copy_model(before)).run(image)
    limit = Limit(1)
    result = apply(before, planted.text, instruments=[limit], paranoid=True)
    assert limit.reached
    assert result.record.applications == 1
    found = Executor().prepare(result.model).run(image)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)


def test_why_follows_a_node_to_its_integers():
    lineage = Lineage()
    apply(examples.path("digits-cnn"), "streamline, export-integer", verify=False, instruments=[lineage])
    story = lineage.of("conv1/Conv")
    text = str(story)
    assert not story.present
    assert "integer form of" in text
    assert "integers of Conv" in text
    assert any("ConvInteger" in str(item) for item in story.successors), text
