"""Attention in random spellings: what is right is fused, what is nearly right is not, and results stay the same."""

from __future__ import annotations

from random import Random

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

import onnx_passes
from onnx_passes.core.walk import all_nodes
from tests.helpers.thorough import some
from tests.passes.attention.spellings import UNTURNED, WRONG, Spelling

FUSED = ("Attention", "GroupQueryAttention", "MultiHeadAttention")


def run(model: ir.Model, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Run a model as ONNX Runtime does by default."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), options).run(None, feeds)


def fused_by(pass_: str, spelling: Spelling, seed: int) -> tuple[bool, str]:
    """Apply a pass, compare results, and return whether it fused, and why not."""
    model, feeds = spelling.model(dynamic=bool(seed % 2)), spelling.feeds(seed)
    expected = run(model, feeds)
    result = onnx_passes.apply(model, pass_, verify=False)
    for found, wanted in zip(run(result.model, feeds), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5, err_msg=str(spelling.choices))
    reasons = [reason for step in result.steps for rule in step.rules for reason in rule.refused]
    return any(node.op_type in FUSED for node in all_nodes(result.model.graph)), "; ".join(reasons)


@pytest.mark.parametrize("seed", some(range(240), every=9))
def test_right_spellings_are_fused(seed: int):
    spelling = Spelling(Random(seed))
    is_fused, reasons = fused_by("fuse-attention", spelling, seed)
    assert is_fused, (spelling.choices, reasons)


@pytest.mark.parametrize("seed", some(range(240), every=17))
def test_right_spellings_are_fused_for_onnx_runtime(seed: int):
    spelling = Spelling(Random(seed))
    is_fused, reasons = fused_by("fuse-multi-head-attention, fuse-group-query-attention", spelling, seed)
    known = ("multiple of 8", "several queries", "same sequence", "fully masked queries")
    assert is_fused or any(reason in reasons for reason in known), (spelling.choices, reasons)


@pytest.mark.parametrize("seed", some(range(12), every=7))
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("pass_", ["fuse-attention", "fuse-multi-head-attention, fuse-group-query-attention"])
def test_wrong_spellings_are_not(pass_: str, wrong: str, seed: int):
    is_fused, _ = fused_by(pass_, Spelling(Random(seed), wrong), seed)
    assert not is_fused


def test_keys_that_are_not_transposed_are_turned_for_the_operator():
    spelling = Spelling(Random(0), UNTURNED)
    assert fused_by("fuse-attention", spelling, 0)[0]
    left = onnx_passes.apply(spelling.model(dynamic=False), "fuse-attention", verify=False).model.graph
    (attention,) = [node for node in left if node.op_type == "Attention"]
    keys = attention.inputs[1]
    assert keys is not None
    assert [keys.producer().op_type, list(keys.producer().attributes.get_ints("perm"))] == ["Transpose", [0, 1, 3, 2]]
