"""The movers of the group ``reorder`` end together, alone and with what eliminates."""

from __future__ import annotations

import numpy as np
import pytest

import onnx_passes
from onnx_passes.core.base import Context
from onnx_passes.core.build import collect
from onnx_passes.passes.control.together import Together
from tests.passes.eliminate.tools import feeds_of
from tests.passes.move.tools import RandomMovement
from tests.passes.tools import check, run


@pytest.mark.parametrize("seed", range(15))
def test_all_movers_on_one_worklist_end_within_the_budget(seed: int):
    model = RandomMovement(seed, nodes=40).model()
    feeds = feeds_of(model)
    expected = run(model, feeds)
    together = Together(body=("reorder",))
    together.run(model, Context())
    assert not together.run(model, Context()).modified
    check(model)
    for found, wanted in zip(run(model, feeds), expected, strict=True):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pipeline", ["fixpoint{max=30}(reorder)", "fixpoint{max=30}(reorder, eliminate)"])
@pytest.mark.parametrize("seed", range(2))
def test_rounds_of_passes_reach_a_fixpoint(pipeline: str, seed: int):
    model = RandomMovement(100 + seed, nodes=25).model()
    result = onnx_passes.apply(model, pipeline)
    assert not [note for step in result.steps for note in step.notes if "round" in note]
    assert not onnx_passes.apply(result.model, pipeline, verify=False).modified


def test_no_mover_makes_the_graph_much_larger():
    for seed in range(10):
        model = RandomMovement(200 + seed, nodes=40).model()
        before = len(model.graph)
        Together(body=("reorder",)).run(model, Context())
        assert len(model.graph) <= 2 * before


def test_every_mover_is_in_the_group():
    names = {member.name for member in collect(["move-transpose-down", "move-selection-up"])}
    [group] = collect(["reorder"])
    assert names <= {member.name for member in group.body}
