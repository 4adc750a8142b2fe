from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.core.base import Pass
from onnx_passes.core.evidence import Finding, reaches
from onnx_passes.core.plan import Step, plan
from onnx_passes.core.registry import REGISTRY
from onnx_passes.core.walk import all_nodes
from onnx_passes.rewrite.together import Together
from tests.helpers.networks import NETWORKS
from tests.passes.tools import operators

FEWEST = {
    "cnn": 8,
    "residual": 7,
    "mobile": 8,
    "detector": 10,
    "encoder": 29,
    "decoder": 26,
    "lstm": 5,
    "flattened": 6,
    "voice": 6,
    "branches": 4,
    "loop": 5,
    "upsampler": 8,
    "perceptron": 4,
}
"""The most nodes that may be left, subgraphs included; no tool we know of leaves fewer."""


@pytest.fixture(params=NETWORKS)
def name(request) -> str:
    return request.param


def nodes(model: ir.Model) -> int:
    return sum(node.op_type != "Constant" for node in all_nodes(model.graph))


def test_networks_become_small_and_stay_right(name):
    result = onnx_passes.apply(NETWORKS[name](), "simplify")
    assert reaches(result.record.level, Finding("tolerance", "sampled"))
    assert nodes(result.model) <= FEWEST[name], "\n".join(n.op_type for n in all_nodes(result.model.graph))
    onnx.checker.check_model(ir.to_proto(result.model), full_check=True)


def test_second_time_changes_nothing(name):
    once = onnx_passes.apply(NETWORKS[name](), "simplify", verify=False).model
    assert not onnx_passes.apply(once, "simplify", verify=False).modified


def test_two_runs_give_the_same_bytes(name):
    first, second = (onnx_passes.apply(NETWORKS[name](), "simplify", verify=False).model for _ in range(2))
    assert ir.to_proto(first).SerializeToString(deterministic=True) == ir.to_proto(second).SerializeToString(
        deterministic=True
    )


def test_contracts_are_kept(name):
    onnx_passes.apply(NETWORKS[name](), "simplify", paranoid=True)


def _members(steps: Iterable[Step]) -> Iterator[Pass]:
    for step in steps:
        if step.children:
            yield from _members(step.children)
        elif isinstance(step.pass_, Together):
            yield from step.pass_.members
        else:
            yield step.pass_


def test_passes_with_equal_bits_need_no_fast_math_and_fusing_is_left_out_on_demand() -> None:
    """As docs/concepts/exactness.md says of simplify."""
    members = {member.name: member for member in _members(plan("simplify").steps)}
    flagged = {name for name, member in members.items() if member.fast_math}
    assert "fuse-batchnorm" in flagged
    assert all(claim.kind == "tolerance" for name in flagged for claim in members[name].claims)
    rounding = {name for name, member in members.items() if any(claim.kind != "equality" for claim in member.claims)}
    assert flagged <= rounding <= {entry.name for entry in REGISTRY.find("fuse").entries}
    kept = operators(onnx_passes.apply(NETWORKS["cnn"](), "simplify", skip=["fuse"]).model.graph)
    assert "BatchNormalization" in kept
    assert "BatchNormalization" not in operators(onnx_passes.apply(NETWORKS["cnn"](), "simplify").model.graph)
