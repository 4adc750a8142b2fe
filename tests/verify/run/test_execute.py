from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.core.errors import UsageError
from onnx_passes.verify.run.execute import ExecutionError, Executor, Profile


def model(body: str, opset: int = 21) -> ir.Model:
    return ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": {opset}, "local": 1]>\n{body}')


def test_outputs_come_by_name_and_in_order():
    two = model("g (float[2] x) => (float[2] b, float[2] a) { a = Neg(x) b = Abs(x) }")
    result = Executor().prepare(two).run({"x": np.array([-1, 2], np.float32)})
    assert list(result) == ["b", "a"]
    np.testing.assert_array_equal(result["a"], [1, -2])


def test_interior_values_can_be_seen():
    chain = model("g (float[2] x) => (float[2] y) { h = Neg(x) y = Abs(h) }")
    hidden = chain.graph[0].outputs[0]
    result = Executor().prepare(chain, also=[hidden]).run({"x": np.array([1, 2], np.float32)})
    np.testing.assert_array_equal(result["h"], [-1, -2])


def with_weight(weight: np.ndarray) -> ir.Model:
    made = model("g (float[2, 32] x) => (float[2, 32] y) { y = MatMul(x, w) }".replace("w)", "x)"))
    value = ir.Value(
        name="w",
        const_value=ir.Tensor(weight, name="w"),
        type=ir.TensorType(ir.DataType.FLOAT),
        shape=ir.Shape(weight.shape),
    )
    made.graph.register_initializer(value)
    made.graph[0].replace_input_with(1, value)
    return made


def test_weights_are_handed_over_without_a_copy():
    weight = np.zeros((32, 32), np.float32)
    executor = Executor()
    ready = executor.prepare(with_weight(weight))
    x = np.ones((2, 32), np.float32)
    assert not ready.run({"x": x})["y"].any()
    weight[:] = 1
    assert (ready.run({"x": x})["y"] == 32).all()


def test_statistics_that_onnx_runtime_writes_to_are_handed_over_as_copies():
    training = model(
        """g (float[2,512] x) => (float[2,512] y) {
        y, n, w = BatchNormalization <training_mode = 1> (x, s, b, m, v) }""".replace("s, b, m, v", "x, x, x, x")
    )
    held = {name: np.full(512, number, np.float32) for number, name in enumerate("sbmv", 1)}
    for index, (name, array) in enumerate(held.items(), 1):
        value = ir.Value(name=name, const_value=ir.Tensor(array), type=ir.TensorType(ir.DataType.FLOAT))
        value.shape = ir.Shape(array.shape)
        training.graph.register_initializer(value)
        training.graph[0].replace_input_with(index, value)
    ready = Executor().prepare(training)
    x = np.random.default_rng(0).normal(size=(2, 512)).astype(np.float32)
    np.testing.assert_array_equal(ready.run({"x": x})["y"], ready.run({"x": x})["y"])
    assert [float(array[0]) for array in held.values()] == [1, 2, 3, 4]


def test_versions_of_a_model_share_weights():
    executor = Executor()
    first = with_weight(np.eye(32, dtype=np.float32))
    executor.prepare(first)
    held = list(executor.weights._handed.values())
    executor.prepare(first.clone())
    assert [id(value) for value in executor.weights._handed.values()] == [id(value) for value in held]


def test_model_is_left_as_it_was():
    made = with_weight(np.eye(32, dtype=np.float32))
    before = made.graph.initializers["w"].const_value
    Executor().prepare(made)
    assert made.graph.initializers["w"].const_value is before
    assert [value.name for value in made.graph.outputs] == ["y"]


@pytest.mark.parametrize("name", ["bfloat16", "float8e4m3fn", "float8e5m2"])
def test_narrow_floats_go_in_and_out(name):
    dtype = ir.DataType[name.upper()].numpy()
    made = model(f"g ({name}[3] x) => ({name}[3] y) {{ y = Identity(x) }}")
    x = np.array([1.5, -0.25, 0]).astype(dtype)
    y = Executor().prepare(made, engine="onnxruntime").run({"x": x})["y"]
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.view(np.uint8), x.view(np.uint8))


def test_four_bit_integers_come_out():
    made = model("g (int8[3] x) => (int4[3] y) { y = Cast<to = 22>(x) }")
    y = Executor().prepare(made, engine="onnxruntime").run({"x": np.array([-8, 0, 7], np.int8)})["y"]
    assert y.dtype == ir.DataType.INT4.numpy()
    np.testing.assert_array_equal(y.astype(np.int8), [-8, 0, 7])


def test_strings_subgraphs_functions_and_no_inputs():
    strings = model("g (string[2] x) => (string[2] y) { y = StringConcat(x, x) }")
    assert Executor().prepare(strings).engine == "onnxruntime"
    assert list(Executor().prepare(strings).run({"x": np.array(["a", "b"], object)})["y"]) == ["aa", "bb"]
    branch = model("""
        g (bool c, float[1] x) => (float[1] y) {
            y = If (c) <then_branch = t () => (float[1] a) { a = local.Twice(x) },
                        else_branch = e () => (float[1] b) { b = Neg(x) }>
        }
        <domain: "local", opset_import: ["": 21]> Twice (v) => (w) { w = Add(v, v) }
    """)
    assert Executor().prepare(branch).run({"c": np.array(True), "x": np.array([3], np.float32)})["y"] == [6]
    nothing = model("g () => (float[1] y) { y = Constant<value = float[1] {2.0}>() }")
    assert Executor().prepare(nothing).run({})["y"] == [2]


def test_operators_can_be_defined_from_outside():
    made = model("g (float[1] x) => (float[1] y) { y = local.Triple(x) }")
    with pytest.raises(ExecutionError, match=r"Triple 'y': nothing defines the operator local::Triple"):
        Executor().prepare(made)
    triple = onnx.helper.make_function(
        "local", "Triple", ["v"], ["w"],
        [onnx.helper.make_node("Sum", ["v", "v", "v"], ["w"])], [onnx.helper.make_opsetid("", 21)],
    )  # fmt: skip
    assert Executor(functions=[triple]).prepare(made).run({"x": np.array([2], np.float32)})["y"] == [6]


def test_reference_evaluator_helps_out_where_onnx_runtime_has_no_kernel():
    made = model("g (int16[2] x) => (int16[2] y) { y = Relu(x) }")
    with pytest.raises(ExecutionError, match=r"no kernel for Relu"):
        Executor().prepare(made, engine="onnxruntime")
    ready = Executor().prepare(made)
    assert ready.engine == "reference"
    np.testing.assert_array_equal(ready.run({"x": np.array([-1, 4], np.int16)})["y"], [0, 4])


@pytest.mark.parametrize("kind", ["float", "bfloat16"])
def test_scalars_of_numpy_are_arrays_of_rank_0(kind):
    ready = Executor().prepare(model(f"g ({kind} x) => ({kind} y) {{ y = Neg(x) }}"))
    x = np.maximum(np.array(2, ir.DataType[kind.upper()].numpy()), 1).astype(ir.DataType[kind.upper()].numpy())
    assert isinstance(x, np.generic)
    assert ready.run({"x": x})["y"] == -2


def test_failure_on_the_data_is_told():
    made = model("g (float[N] x, int64[1] s) => (float[M] y) { y = Reshape(x, s) }")
    ready = Executor().prepare(made)
    with pytest.raises(ExecutionError, match="failed on the data"):
        ready.run({"x": np.zeros(3, np.float32), "s": np.array([2])})


def test_provider_that_is_not_there_is_refused():
    made = model("g (float[1] x) => (float[1] y) { y = Neg(x) }")
    with pytest.raises(UsageError, match="no provider 'CPUExecutionProvder' here; did you mean 'CPUExecutionProvider'"):
        Executor(Profile(providers=("CPUExecutionProvder",))).prepare(made)


def test_values_that_cannot_be_told_apart_are_refused():
    made = model("g (float[1] x) => (float[1] y) { a = Neg(x) b = Abs(x) y = Add(a, b) }")
    made.graph[1].outputs[0].name = "a"
    with pytest.raises(ExecutionError, match="two values are named 'a'"):
        Executor().prepare(made)
    made.graph[1].outputs[0].name = None
    with pytest.raises(ExecutionError, match="a result of Abs has no name"):
        Executor().prepare(made)


BRANCHES = """
    g (float[1] x, bool b) => (float[1] y) {
        p = If (b) <then_branch = t1 () => (float[1] o) { a = Neg (x) o = Abs (a) },
                    else_branch = e1 () => (float[1] n) { a = Exp (x) n = Neg (a) }>
        y = If (b) <then_branch = t2 () => (float[1] m) { a = Neg (p) m = Abs (a) },
                    else_branch = e2 () => (float[1] q) { q = Identity (p) }>
    }"""


def test_bodies_that_do_not_see_each_other_may_use_the_same_names():
    ready = Executor().prepare(model(BRANCHES))
    assert ready.run({"x": np.float32([2]), "b": np.array(False)})["y"] == pytest.approx(-np.exp(2))
    with pytest.raises(ExecutionError, match="two values are named 'p'"):
        Executor().prepare(model(BRANCHES.replace("m", "p")))


def test_a_failure_inside_of_a_body_names_the_node_there():
    text = """
        g (float[N] x, bool b) => (float[M] y) {
            y = If (b) <then_branch = t () => (float[2] o) {
                            s = Constant <value_ints = [2, 7]> () [inner] o = Reshape (x, s) },
                        else_branch = e () => (float[K] n) { n = Neg (x) }>
        }"""
    with pytest.raises(
        ExecutionError, match=r"running Reshape node. Name:'inner'.*Message: The input tensor cannot be"
    ):
        Executor().prepare(model(text)).run({"x": np.zeros(3, np.float32), "b": np.array(True)})


def test_defaults_that_nobody_feeds_are_weights_also_in_old_models():
    text = """
        <ir_version: 3, opset_import: ["": 9]>
        g (float[2] x, float[2] w = {1, 2}, float[2] unused = {3, 4}) => (float[2] y) { y = Add(x, w) }
    """
    x = np.array([1, 1], np.float32)
    ready = Executor().prepare(ir.from_onnx_text(text), engine="onnxruntime", feeds={"x"})
    assert ready.run({"x": x})["y"].tolist() == [2, 3]
