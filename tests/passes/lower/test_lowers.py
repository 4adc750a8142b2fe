"""Passes of the group say which operators they lower: convert-opset names them where a version lacks one."""

import re

import pytest

from onnx_passes.core.registry import REGISTRY
from onnx_passes.graph.schemas import standard_operators
from onnx_passes.rewrite.laws import LawPass

LOWERING = REGISTRY.groups()["lower"]


@pytest.mark.parametrize("entry", LOWERING, ids=lambda entry: entry.name)
def test_the_operators_are_declared(entry):
    cls = REGISTRY.load(entry)
    assert cls.lowers
    assert standard_operators().issuperset(cls.lowers)
    if issubclass(cls, LawPass):
        assert {re.match(r"\w+", str(law))[0] for law in cls.laws} == {*cls.lowers}


def test_each_operator_has_one():
    lowered = [name for entry in LOWERING for name in REGISTRY.load(entry).lowers]
    assert len(lowered) == len({*lowered})
