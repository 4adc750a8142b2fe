"""Apply a pass of this room to ONNX text and compare with ONNX Runtime; random models full of data movement."""

from __future__ import annotations

import random

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from onnx_passes.core.base import Context, Pass
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from tests.passes.eliminate.tools import feeds_of, refusals, rewritten
from tests.passes.tools import apply, check, model_of, operators, run

UNARY = ("Relu", "Neg", "Abs", "Exp", "Sign", "Floor")
BINARY = ("Add", "Sub", "Mul", "Max", "Min")


def order(pass_: Pass, text: str, *, opset: int = 18) -> list[str]:
    """Apply a pass, which must change something and no bit of the results, and list the operators that result."""
    return operators(rewritten(pass_, text, opset=opset).graph)


def rounded(pass_: Pass, text: str, *, opset: int = 18) -> list[str]:
    """Apply a pass, which must change something and the results by rounding only, and list the operators."""
    model = model_of(text, opset=opset)
    ShapeInference().run(model, Context())
    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(size=array.shape).astype(array.dtype) for name, array in feeds_of(model).items()}
    expected = run(model, feeds)
    assert apply(pass_, model), "nothing changed"
    check(model)
    for found, wanted in zip(run(model, feeds), expected, strict=True):
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    return operators(model.graph)


class RandomMovement:
    """Builds models of elementwise operators and movement, with forks, whose shapes are all known."""

    def __init__(self, seed: int, nodes: int) -> None:
        self.rng = random.Random(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.pool: list[tuple[str, tuple[int, ...]]] = [("x", (2, 3, 4)), ("y", (3, 4)), ("z", (1, 4))]
        while len(self.nodes) < nodes:
            self.step()

    def model(self) -> ir.Model:
        """Return the model; what nothing reads is an output."""
        read = {name for node in self.nodes for name in node.input}
        inputs = [helper.make_tensor_value_info(n, 1, s) for n, s in self.pool[:3]]
        ends = [(name, shape) for name, shape in self.pool[3:] if name not in read]
        outputs = [helper.make_tensor_value_info(name, 1, shape) for name, shape in ends]
        graph = helper.make_graph(self.nodes, "movement", inputs, outputs, self.constants)
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        model = ir.from_proto(proto)
        ShapeInference().run(model, Context())
        return model

    def step(self) -> None:
        """Add a node that fits."""
        name, shape = self.rng.choice(self.pool[-6:])
        kind = self.rng.randrange(12)
        rank = len(shape)
        if kind < 2:
            self.add(self.rng.choice(UNARY), [name], shape)
        elif kind < 5:
            other, other_shape = self.rng.choice([*self.pool[-6:], (name, shape)])
            if self.rng.random() < 0.4:
                other_shape = tuple(self.rng.choice((1, size)) for size in shape)[self.rng.randrange(rank + 1) :]
                other = self.constant(np.ones(other_shape, np.float32))
            try:
                result = np.broadcast_shapes(shape, other_shape)
            except ValueError:
                return
            self.add(self.rng.choice(BINARY), self.rng.sample([name, other], 2), result)
        elif kind < 7:
            perm = self.rng.sample(range(rank), rank)
            self.add("Transpose", [name], tuple(shape[axis] for axis in perm), perm=perm)
        elif kind == 7 and np.prod(shape):
            result = self.rng.choice([(-1,), (shape[0], -1) if rank else (1, 1), (1, *shape)])
            known = np.zeros(shape).reshape(result).shape
            self.add("Reshape", [name, self.constant(np.array(result, np.int64))], known)
        elif kind == 8 and rank:
            self.slice(name, shape, self.rng.randrange(rank))
        elif kind == 9 and rank:
            axis = self.rng.randrange(rank)
            result = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
            if np.prod(result) < 500:
                twin = self.add(self.rng.choice(UNARY), [name], shape)
                self.add("Concat", [name if self.rng.random() < 0.3 else twin, twin], result, axis=axis)
        elif kind == 10 and np.prod(shape) < 200:
            self.add("Expand", [name, self.constant(np.array((2, *shape), np.int64))], (2, *shape))
        elif kind == 11 and rank:
            pads = np.zeros(2 * rank, np.int64)
            pads[rank] = 1
            self.add("Pad", [name, self.constant(pads)], (shape[0] + 1, *shape[1:]))

    def slice(self, name: str, shape: tuple[int, ...], axis: int) -> None:
        """Cut off the first element of an axis, or leave nothing of it."""
        bounds = [self.constant(np.array([number], np.int64)) for number in (1, 2**31, axis)]
        self.add("Slice", [name, *bounds], (*shape[:axis], max(0, shape[axis] - 1), *shape[axis + 1 :]))

    def constant(self, array: np.ndarray) -> str:
        """Add an initializer."""
        name = f"c{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, op_type: str, inputs: list[str], shape: tuple[int, ...], **attributes: object) -> str:
        """Add a node."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], **attributes))
        self.pool.append((name, shape))
        return name


__all__ = ["RandomMovement", "order", "refusals", "rewritten", "rounded"]
