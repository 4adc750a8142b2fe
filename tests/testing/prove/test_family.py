"""The family of a rule: small models that it rewrites, the same every time, of every kind that it takes."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes.proofs.rule_certificate import Domain
from onnx_passes.testing.fuzz.targets import targets_of
from onnx_passes.testing.prove.family import FamilyEffort, Instance, family_of
from onnx_passes.testing.prove.prover import domain_of, why_thin


@pytest.fixture(scope="module")
def transposes() -> list[Instance]:
    [target] = targets_of("eliminate-transpose/TransposeOfTranspose")
    return list(family_of(target))


def text(instance: Instance) -> bytes:
    return ir.to_proto(instance.before).SerializeToString() + ir.to_proto(instance.after).SerializeToString()


def test_same_models_every_time(transposes: list[Instance]) -> None:
    [target] = targets_of("eliminate-transpose/TransposeOfTranspose")
    assert [text(instance) for instance in family_of(target)] == [text(instance) for instance in transposes]


def test_ranks_sizes_and_types_are_covered(transposes: list[Instance]) -> None:
    domain = domain_of(transposes)
    assert {1, 2, 3, 4} <= set(domain.ranks)
    assert {0, 1, 2, 3} <= set(domain.sizes)
    assert {"float", "double", "float16", "int8", "int64", "bool", "string", "uint16"} <= set(domain.types)
    assert {13, 18, 21, 23} <= set(domain.opsets)
    assert not why_thin(transposes, domain)


def test_all_models_are_rewritten_and_static(transposes: list[Instance]) -> None:
    for instance in transposes:
        before, after = ([node.op_type for node in model.graph] for model in (instance.before, instance.after))
        assert len(after) < len(before)
        assert all(value.shape.is_static() for value in instance.before.graph.inputs)
        assert instance.before.graph.inputs[0].shape == instance.after.graph.inputs[0].shape


def test_constants_of_a_tolerance_are_dyadic() -> None:
    [target] = targets_of("group-constants-fast/Add")
    recipes = set(domain_of(list(family_of(target, FamilyEffort(models=200)))).constants)
    assert recipes
    assert not recipes & {"third", "nan", "inf", "special", "huge"}


def test_few_models_are_too_few(transposes: list[Instance]) -> None:
    assert "only 2 models" in why_thin(transposes[:2], domain_of(transposes[:2]))
    assert "no model" in why_thin([], Domain())
