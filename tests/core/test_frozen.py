"""Weights cannot be changed in place while passes run, whatever the pass says of itself."""

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.core.base import Annotation, PassResult, Transformation
from onnx_passes.core.errors import ContractError
from onnx_passes.core.frozen import frozen_weights

SIZE = 4096


class Writes:
    """Writes into all weights, and says what its class is told to say."""

    says = False

    def call(self, model):
        for value in model.graph.initializers.values():
            value.const_value.numpy()[:] *= 2
        return PassResult(model, modified=self.says)


class SaysNothing(Writes, Transformation):
    pass


class SaysSo(Writes, Transformation):
    says = True


class Annotates(Writes, Annotation):
    says = True


class SortsInPlace(Transformation):
    def call(self, model):
        for value in model.graph.initializers.values():
            value.const_value.numpy().sort()
        return PassResult(model, modified=False)


class AddsWeight(Transformation):
    """Puts a new tensor in the place of the old, as a pass should."""

    def call(self, model):
        value = model.graph.initializers["w"]
        value.const_value = ir.Tensor(value.const_value.numpy() * 1, name="w")
        return PassResult(model, modified=True)


def model_with(array: np.ndarray) -> ir.Model:
    x = ir.val("x", ir.DataType.FLOAT, [SIZE])
    w = ir.Value(name="w", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([SIZE]))
    w.const_value = ir.Tensor(array, name="w")
    node = ir.node("Mul", [x, w])
    y = node.outputs[0]
    y.name, y.type, y.shape = "y", ir.TensorType(ir.DataType.FLOAT), ir.Shape([SIZE])
    return ir.Model(ir.Graph([x], [y], nodes=[node], initializers=[w], opset_imports={"": 20}, name="g"), ir_version=10)


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("pass_", [SaysNothing, SaysSo, Annotates, SortsInPlace])
def test_writing_into_a_weight_is_refused(pass_, verify):
    weights = np.arange(SIZE, dtype=np.float32)[::-1].copy()
    before = weights.copy()
    with pytest.raises(ContractError, match=r"writes into a weight of the model: .* is read-only; models share"):
        onnx_passes.apply(model_with(weights), pass_(), verify=verify)
    assert np.array_equal(weights, before)


@pytest.mark.parametrize("pass_", [SaysNothing, Annotates])
def test_so_are_weights_that_an_earlier_pass_made(pass_):
    with pytest.raises(ContractError, match="writes into a weight of the model"):
        onnx_passes.apply(model_with(np.ones(SIZE, np.float32)), [AddsWeight(), pass_()], in_place=True)


def test_a_pass_that_is_called_alone_is_held_to_it_too():
    with pytest.raises(ValueError, match="read-only"):
        SaysNothing()(model_with(np.ones(SIZE, np.float32)))


def test_a_new_tensor_may_take_the_place_of_the_old():
    assert onnx_passes.apply(model_with(np.ones(SIZE, np.float32)), [AddsWeight(), AddsWeight()]).modified


def test_arrays_of_the_caller_are_as_before_when_the_run_is_over():
    whole = np.ones((2, SIZE), np.float32)
    constant = np.ones(SIZE, np.float32)
    constant.flags.writeable = False
    for array in (whole[0], constant):
        model = model_with(array)
        writable = array.flags.writeable
        onnx_passes.apply(model, "cleanup", in_place=True)
        assert array.flags.writeable == writable
        with pytest.raises(ContractError):
            onnx_passes.apply(model, SaysNothing())
        assert array.flags.writeable == writable


def test_views_of_each_other_are_all_thawed():
    whole = np.ones(2 * SIZE, np.float32)
    model = model_with(whole[:SIZE])
    other = ir.Value(name="v", const_value=ir.Tensor(whole, name="v"))
    model.graph.register_initializer(other)
    views = [model.graph.initializers[name].const_value.numpy() for name in ("w", "v")]
    with frozen_weights(model):
        assert not any(view.flags.writeable for view in views)
    assert all(view.flags.writeable for view in views)
