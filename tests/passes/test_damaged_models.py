"""Passes on models that make no sense: they may refuse, in words, but not break or pretend."""

from __future__ import annotations

import random

import onnx_ir as ir
import pytest

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.passes.check.checker import Checker
from onnx_passes.passes.cleanup.cleanup import Cleanup
from tests.helpers.random_models import random_model
from tests.helpers.thorough import some

OPERATORS = ("Add", "Conv", "Reshape", "Foo", "Gemm", "Concat", "Slice", "Resize", "Loop", "Quant")
DIMENSIONS = (-1, 0, 1, 2, "N", "?", "a b", "N/2", "2*N", None)


def damage(model: ir.Model, rng: random.Random) -> None:
    node = rng.choice(list(model.graph.all_nodes()))
    kind = rng.randrange(6)
    if kind == 0 and node.op_type != "If":
        node.attributes.clear()
    elif kind == 1 and node.inputs:
        node.replace_input_with(rng.randrange(len(node.inputs)), None)
    elif kind == 2:
        rng.choice(node.outputs).shape = ir.Shape([rng.choice(DIMENSIONS) for _ in range(rng.randrange(4))])
    elif kind == 3:
        types = (None, ir.TensorType(ir.DataType.INT64), ir.SequenceType(ir.TensorType(ir.DataType.FLOAT)))
        rng.choice(node.outputs).type = rng.choice(types)
    elif kind == 4:
        node.op_type = rng.choice(OPERATORS)
    else:
        rng.choice(model.graph.inputs).shape = ir.Shape([rng.choice(DIMENSIONS), rng.choice(DIMENSIONS)])


@pytest.mark.parametrize("seed", some(range(40), every=2))
def test_passes_refuse_in_words_and_tell_the_truth(seed: int):
    rng = random.Random(seed)
    model = random_model(seed, nodes=15)
    for _ in range(rng.randrange(1, 4)):
        damage(model, rng)
    for pass_ in (ShapeInference(), Cleanup(), Checker(full_check=True), ShapeInference(strict_mode=True)):
        before = full_hash(model)
        refusal, modified = "", False
        try:
            modified = pass_(model).modified
        except OnnxPassesError as error:
            refusal = str(error)
        assert "\n" not in refusal
        assert modified == (full_hash(model) != before)
        assert refusal or not pass_(model).modified
