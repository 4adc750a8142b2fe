"""What decides about results decides about keys, and what a model cannot be is said before it runs."""

from __future__ import annotations

import os

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.verify.run.child import Child, DiedError, fork
from onnx_passes.verify.run.execute import ExecutionError, Executor
from onnx_passes.verify.run.resources import Resources

HEAD = '<ir_version: 10, opset_import: ["": 20, "local": 1]>'


def weighted(number: float, size: int = 2000) -> ir.Model:
    model = ir.from_onnx_text(f"{HEAD} g (float[{size}] x) => (float[{size}] y) {{ y = Mul(x, w) }}")
    weight = ir.Value(name="w", const_value=ir.tensor(np.full(size, number, np.float32), name="w"))
    weight.shape, weight.type = ir.Shape([size]), ir.TensorType(ir.DataType.FLOAT)
    model.graph.initializers.add(weight)
    model.graph[0].replace_input_with(1, weight)
    return model


@pytest.mark.parametrize("size", [2000, 3])
def test_models_of_other_weights_have_other_keys(size: int):
    """Weights that are handed over are no part of what is serialised."""
    executor = Executor()
    one, other = weighted(1, size), weighted(2, size)
    assert executor.key(one) == executor.key(one)
    assert executor.key(one) != executor.key(other)
    shared = weighted(3, size)
    shared.graph.initializers["w"].const_value = one.graph.initializers["w"].const_value
    assert executor.key(one) == executor.key(shared)


def test_a_definition_of_the_model_outweighs_one_from_outside():
    text = f"""{HEAD} g (float[2] x) => (float[2] y) {{ y = local.f(x) }}
        <domain: "local", opset_import: ["": 20]> f (a) => (b) {{ b = Neg(a) }}"""
    other = onnx.helper.make_function(
        "local", "f", ["a"], ["b"], [onnx.helper.make_node("Abs", ["a"], ["b"])], [onnx.helper.make_opsetid("", 20)]
    )
    executor = Executor(functions=[other])
    x = np.array([1, -2], np.float32)
    np.testing.assert_array_equal(executor.prepare(ir.from_onnx_text(text)).run({"x": x})["y"], [-1, 2])
    undefined = ir.from_onnx_text(f"{HEAD} g (float[2] x) => (float[2] y) {{ y = local.f(x) }}")
    np.testing.assert_array_equal(executor.prepare(undefined).run({"x": x})["y"], [1, 2])


def test_functions_that_expand_without_end_are_refused():
    calls = "".join(
        f'<domain: "local", opset_import: ["": 20, "local": 1]> f{i} (a) => (c)'
        f" {{ b = local.f{i + 1}(a) c = local.f{i + 1}(b) }}\n"
        for i in range(60)
    )
    last = '<domain: "local", opset_import: ["": 20]> f60 (a) => (c) { c = Neg(a) }'
    model = ir.from_onnx_text(f"{HEAD} g (float[2] x) => (float[2] y) {{ y = local.f0(x) }}\n{calls}{last}")
    with pytest.raises(ExecutionError, match="expand to"):
        Executor().prepare(model)


@pytest.mark.parametrize(("code", "error"), [(77, MemoryError), (3, DiedError), (0, DiedError)])
def test_a_process_says_by_its_end_whether_it_lacked_memory(code: int, error: type[Exception]):
    def never() -> tuple[object, object]:
        raise AssertionError

    with pytest.raises(error):
        Child(never, Resources(), start=lambda _: fork(lambda _: os._exit(code)))  # pyright: ignore[reportArgumentType]
