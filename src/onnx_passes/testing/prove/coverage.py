"""What a family of models covers: the domain of a proof, and whether it is wide enough to speak of one."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from onnx_passes.proofs.extent import Extent, extent_of
from onnx_passes.proofs.rule_certificate import Domain
from onnx_passes.testing.prove.family import Instance

LEAST_INSTANCES = 8
"""Fewer models say too little of a rule."""


def domain_of(instances: Iterable[Instance]) -> Domain:
    """Sum up what the models of a family are like."""
    extents = [extent_of_instance(instance) for instance in instances]
    recipes = {answer for instance in instances for question, answer in instance.answers if _is_recipe(question)}
    return Domain(
        types=tuple(sorted({name for extent in extents for name in extent.types})),
        ranks=tuple(sorted({rank for extent in extents for rank in extent.ranks})),
        sizes=tuple(sorted({size for instance in instances for size in _sizes(instance.before)})),
        constants=tuple(sorted(recipe.strip("'") for recipe in recipes)),
        opsets=tuple(sorted({extent.opset for extent in extents})),
    )


def why_thin(instances: list[Instance], domain: Domain) -> str:
    """Say why a family covers too little, or nothing."""
    if not instances:
        return "no model was found that it rewrites"
    if len(instances) < LEAST_INSTANCES:
        return f"only {len(instances)} models were found that it rewrites, fewer than {LEAST_INSTANCES}"
    if domain.ranks and max(domain.ranks) > 0 and len(set(domain.sizes) - {0}) < 2:
        return "all models that were found have the same sizes"
    return ""


def extent_of_instance(instance: Instance) -> Extent:
    """Return types and ranks of all tensors of a model."""
    return extent_of(_values(instance.before), instance.before.graph.opset_imports.get("", 0))


def _values(model: ir.Model) -> list[ir.Value]:
    graph = model.graph
    computed = [value for node in graph for value in node.outputs]
    return [*graph.inputs, *graph.initializers.values(), *computed]


def _sizes(model: ir.Model) -> set[int]:
    shapes = [value.shape for value in _values(model) if value.shape is not None]
    return {size for shape in shapes for size in shape if isinstance(size, int)}


def _is_recipe(question: str) -> bool:
    return question.startswith("recipe:")
