"""Random models are what real ones are: several types, dynamic sizes, bodies, functions, defaults, shared constants."""

from __future__ import annotations

from collections import Counter
from functools import cache

import onnx
import onnx_ir as ir
import pytest

from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.whole.models import FAMILIES, Family, all_nodes, families_named, random_case

_MODELS = 150


@cache
def models(family: Family) -> list[tuple[Case, onnx.ModelProto]]:
    cases = [random_case(family, seed) for seed in range(_MODELS)]
    return [(case, onnx.ModelProto.FromString(case.model)) for case in cases]


def traits_of(case: Case, model: onnx.ModelProto) -> set[str]:
    graph = model.graph
    nodes = list(all_nodes(graph.node))
    reads = Counter(name for node in nodes for name in node.input)
    outputs, constants = {v.name for v in graph.output}, {t.name for t in graph.initializer}
    found = {node.op_type for node in nodes if node.op_type in ("If", "Loop", "Scan", "Constant")}
    found |= {"function"} if model.functions else set()
    found |= {"function with attributes"} if any(f.attribute for f in model.functions) else set()
    found |= {"output inside"} if any(reads[name] for name in outputs) else set()
    found |= {"shared constant"} if any(reads[name] > 1 for name in constants) else set()
    found |= {"default"} if any(item.overridable for item in case.inputs) else set()
    found |= {"dynamic sizes"} if case.other_shapes else set()
    found |= {"nothing inferred"} if not graph.value_info else set()
    found |= {str(ir.DataType(v.type.tensor_type.elem_type)) for v in (*graph.input, *graph.output)}
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_models_have_what_passes_must_cope_with(family: Family):
    met = Counter(trait for case, model in models(family) for trait in traits_of(case, model))
    wanted = {"If", "Loop", "Scan", "Constant", "function", "function with attributes", "output inside", "default"}
    wanted |= {"shared constant", "dynamic sizes", "nothing inferred", "FLOAT", "BOOL"}
    wanted |= {"DOUBLE", "INT64", "INT32", "FLOAT16"} if family == "float" else {"INT8", "UINT8"}
    assert not {trait for trait in wanted if met[trait] < 2}, met


def test_quantized_models_are_spelt_in_several_ways():
    used = Counter(node.op_type for _, model in models("quantized") for node in all_nodes(model.graph.node))
    wanted = {"Quant", "BipolarQuant", "QuantizeLinear", "DequantizeLinear", "MultiThreshold", "MatMulInteger", "Conv"}
    assert not wanted - set(used)


@pytest.mark.parametrize("family", FAMILIES)
def test_same_seed_makes_the_same_model(family: Family):
    assert [random_case(family, seed).encode() for seed in range(5)] == [
        case.encode() for case, _ in models(family)[:5]
    ]
    assert len({case.model for case, _ in models(family)}) == _MODELS


@pytest.mark.parametrize("family", FAMILIES)
def test_most_models_are_valid(family: Family):
    refused = Counter[str]()
    for _, model in models(family):
        try:
            onnx.checker.check_model(model)
        except onnx.checker.ValidationError as error:
            refused[str(error)] += 1
    assert refused.total() <= 0.1 * _MODELS, refused


def test_families_have_names():
    assert families_named("all") == FAMILIES
    assert families_named("quantized") == ("quantized",)
    assert families_named(None) == ()
