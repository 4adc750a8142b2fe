"""Random float models that pass the ONNX checker and run in ONNX Runtime, and ways to change them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.hashing.content import subgraphs

Rng = np.random.Generator
FLOAT = ir.DataType.FLOAT

UNARY = ("Relu", "Abs", "Neg", "Sigmoid", "Tanh", "Tanh", "Identity")
BINARY = ("Add", "Mul", "Sub", "Max", "Min")
PREFIXES = ("v", "t.", "/layer/", "onnx::", "x_")


def random_model(
    seed: int | Rng,
    *,
    nodes: int = 20,
    inputs: int = 2,
    control_flow: bool = True,
    dead: bool = False,
) -> ir.Model:
    """Return a model with forks, several outputs, shared constants and, if asked for, If and dead nodes.

    Every value that nothing reads is an output, and some others too; with ``dead`` about half of them are not.
    The same seed gives the same model.
    """
    rng = np.random.default_rng(seed)
    builder = _Builder(rng, control_flow=control_flow)
    for index in range(max(1, inputs)):
        builder.inputs.append(ir.val(f"input_{index}", FLOAT, builder.shape()))
    builder.pool.extend(builder.inputs)
    while len(builder.nodes) < nodes:
        builder.step()
    outputs = builder.choose_outputs(dead=dead)
    graph = ir.Graph(
        builder.inputs,
        outputs,
        nodes=builder.nodes,
        initializers=builder.initializers,
        opset_imports={"": 18},
        name="random",
    )
    return ir.Model(graph, ir_version=9, producer_name="random_models")


def random_inputs(model: ir.Model, seed: int | Rng = 0) -> dict[str, np.ndarray]:
    """Return an array for each input of a random model."""
    rng = np.random.default_rng(seed)
    return {
        value.name: rng.normal(size=value.shape.numpy()).astype(np.float32)
        for value in model.graph.inputs
        if value.name is not None and value.shape is not None
    }


class _Builder:
    def __init__(self, rng: Rng, *, control_flow: bool, outer: _Builder | None = None) -> None:
        self.rng = rng
        self.inputs: list[ir.Value] = []
        self.nodes: list[ir.Node] = []
        self.initializers: list[ir.Value] = []
        self.pool: list[ir.Value] = list(outer.pool) if outer else []
        self.control_flow = control_flow
        self.root: _Builder = outer.root if outer else self
        self.named = 0

    def shape(self) -> list[int]:
        return [int(self.rng.integers(2, 5)) for _ in range(self.rng.integers(1, 4))]

    def name(self) -> str:
        self.root.named += 1
        return f"{self.rng.choice(PREFIXES)}{self.root.named}"

    def pick(self, values: list[ir.Value] | None = None) -> ir.Value:
        # Recent values are preferred, so that graphs get deep and not only wide.
        values = self.pool if values is None else values
        recent = values[-6:] if self.rng.random() < 0.6 else values
        return recent[self.rng.integers(len(recent))]

    def constant(self, shape: list[int], array: np.ndarray | None = None) -> ir.Value:
        """Return an initializer of a shape, often one that exists already, or the output of a Constant."""
        shared = [value for value in self.initializers if value.shape == shape and value.dtype == FLOAT]
        if array is None and shared and self.rng.random() < 0.5:
            return self.pick(shared)
        if array is None:
            array = self.rng.choice([-1.0, -0.5, 0.25, 0.5, 1.0, 2.0], size=shape).astype(np.float32)
        tensor = ir.Tensor(array)
        if self.rng.random() < 0.3:
            return self.add("Constant", [], shape, [ir.AttrTensor("value", tensor)], dtype=tensor.dtype, pooled=False)
        value = ir.Value(
            name=self.name(), shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor
        )
        self.initializers.append(value)
        return value

    def add(
        self,
        op: str,
        inputs: list[ir.Value | None],
        shape: list[int],
        attributes: list[ir.Attr] | None = None,
        *,
        dtype: ir.DataType = FLOAT,
        pooled: bool = True,
        outputs: int = 1,
    ) -> ir.Value:
        node = ir.Node("", op, inputs, attributes or [], name=self.name(), num_outputs=outputs)
        for value in node.outputs:
            value.name, value.shape, value.type = self.name(), ir.Shape(shape), ir.TensorType(dtype)
            if pooled:
                self.pool.append(value)
        self.nodes.append(node)
        return node.outputs[0]

    def step(self) -> None:
        steps: list[Callable[[], object]] = [
            self.unary, self.unary, self.binary, self.binary, self.binary, self.matmul, self.transpose,
            self.reshape, self.softmax, self.clip, self.concat, self.split,
        ]  # fmt: skip
        if self.control_flow:
            steps.append(self.condition)
        steps[self.rng.integers(len(steps))]()

    def unary(self, value: ir.Value | None = None) -> ir.Value:
        value = value or self.pick()
        return self.add(str(self.rng.choice(UNARY)), [value], dims(value))

    def binary(self, value: ir.Value | None = None) -> ir.Value:
        value = value or self.pick()
        alike = [other for other in self.pool if other.shape == value.shape]
        if self.rng.random() < 0.5:
            other = self.pick(alike)
        else:
            rank = len(dims(value))
            other = self.constant(dims(value)[self.rng.integers(rank + 1) :])
        operands: list[ir.Value | None] = [value, other]
        self.rng.shuffle(operands)  # pyright: ignore[reportArgumentType]
        return self.add(str(self.rng.choice(BINARY)), operands, dims(value))

    def matmul(self) -> ir.Value:
        value = self.pick([value for value in self.pool if len(dims(value)) > 1] or [self.expanded()])
        columns = int(self.rng.integers(2, 5))
        weight = self.constant([dims(value)[-1], columns])
        return self.add("MatMul", [value, weight], [*dims(value)[:-1], columns])

    def expanded(self) -> ir.Value:
        value = self.pick()
        axes = self.constant([1], np.zeros(1, np.int64))
        return self.add("Unsqueeze", [value, axes], [1, *dims(value)])

    def transpose(self) -> ir.Value:
        value = self.pick()
        axes = [int(axis) for axis in self.rng.permutation(len(dims(value)))]
        shape = [dims(value)[axis] for axis in axes]
        return self.add("Transpose", [value], shape, [ir.AttrInt64s("perm", axes)])

    def reshape(self) -> ir.Value:
        value = self.pick()
        shape = [int(dim) for dim in self.rng.permutation(dims(value))]
        if len(shape) > 1 and self.rng.random() < 0.5:
            shape = [shape[0] * shape[1], *shape[2:]]
        target = self.constant([len(shape)], np.array(shape, np.int64))
        return self.add("Reshape", [value, target], shape)

    def softmax(self) -> ir.Value:
        value = self.pick()
        axis = int(self.rng.integers(-1, len(dims(value))))
        return self.add("Softmax", [value], dims(value), [ir.AttrInt64("axis", axis)])

    def clip(self) -> ir.Value:
        value = self.pick()
        bound = self.constant([])
        bounds: list[list[ir.Value | None]] = [[bound], [None, bound], [bound, None]]
        return self.add("Clip", [value, *bounds[self.rng.integers(3)]], dims(value))

    def concat(self) -> ir.Value:
        value = self.pick()
        alike = [other for other in self.pool if other.shape == value.shape]
        axis = int(self.rng.integers(len(dims(value))))
        shape = [2 * dim if position == axis else dim for position, dim in enumerate(dims(value))]
        if shape[axis] > 16:
            return self.unary(value)
        return self.add("Concat", [value, self.pick(alike)], shape, [ir.AttrInt64("axis", axis)])

    def split(self) -> ir.Value:
        value = self.pick()
        even = [axis for axis, dim in enumerate(dims(value)) if dim % 2 == 0]
        if not even:
            return self.unary(value)
        axis = even[self.rng.integers(len(even))]
        shape = [dim // 2 if position == axis else dim for position, dim in enumerate(dims(value))]
        attributes = [ir.AttrInt64("axis", axis), ir.AttrInt64("num_outputs", 2)]
        return self.add("Split", [value], shape, attributes, outputs=2)

    def condition(self) -> ir.Value:
        value = self.pick()
        mean = self.add("ReduceMean", [value], [], [ir.AttrInt64("keepdims", 0)], pooled=False)
        zero = self.constant([], np.zeros((), np.float32))
        test = self.add("Greater", [mean, zero], [], dtype=ir.DataType.BOOL, pooled=False)
        branches = [ir.AttrGraph(f"{name}_branch", self.branch(value, name)) for name in ("then", "else")]
        return self.add("If", [test], dims(value), branches)

    def branch(self, value: ir.Value, name: str) -> ir.Graph:
        inner = _Builder(self.rng, control_flow=False, outer=self)
        result = value
        for _ in range(self.rng.integers(1, 4)):
            result = inner.unary(result) if self.rng.random() < 0.5 else inner.binary(result)
        return ir.Graph([], [result], nodes=inner.nodes, initializers=inner.initializers, name=name)

    def choose_outputs(self, *, dead: bool) -> list[ir.Value]:
        written = [value for node in self.nodes for value in node.outputs if value.dtype == FLOAT]
        unread = [value for value in written if not value.uses()]
        if dead:
            unread = [value for value in unread if self.rng.random() < 0.5] or unread[:1]
        extra = [value for value in written if value.uses() and self.rng.random() < 0.1]
        outputs = [*unread, *extra]
        self.rng.shuffle(outputs)  # pyright: ignore[reportArgumentType]
        return outputs


def dims(value: ir.Value) -> list[int]:
    """Return the static dimensions of a value."""
    assert value.shape is not None
    return list(value.shape.numpy())


def copy_of(model: ir.Model) -> ir.Model:
    """Return a copy that shares nothing with the model, not even the names of tensors."""
    return ir.from_proto(ir.to_proto(model))


def graphs_of(model: ir.Model) -> Iterator[ir.Graph]:
    """Return the graph of a model and all graphs nested in it."""
    yield model.graph
    yield from model.graph.subgraphs()


def shuffle_names_and_order(model: ir.Model, seed: int | Rng, *, topological: bool = True) -> ir.Model:
    """Return a copy with new names for all but the interface and another order of nodes and initializers.

    With ``topological`` producers still come first; else any order may result.
    """
    rng = np.random.default_rng(seed)
    copy = copy_of(model)
    interface = {id(value) for value in (*copy.graph.inputs, *copy.graph.outputs)}
    taken = {value.name for value in (*copy.graph.inputs, *copy.graph.outputs)}
    renamed: list[ir.Value | ir.Node] = []
    for graph in graphs_of(copy):
        renamed.extend(graph.initializers.values())
        renamed.extend(value for value in graph.inputs if not value.is_initializer())
        renamed.extend(graph)
        renamed.extend(value for node in graph for value in node.outputs if value.name)
    numbers = iter(rng.permutation(len(renamed) + len(taken)).tolist())
    for item in renamed:
        if id(item) not in interface:
            item.name = next(name for name in (f"s{number}" for number in numbers) if name not in taken)
    for graph in graphs_of(copy):
        _shuffle_order(graph, rng, topological=topological)
    return copy


def _shuffle_order(graph: ir.Graph, rng: Rng, *, topological: bool) -> None:
    initializers = list(graph.initializers.values())
    graph.initializers.clear()
    for index in rng.permutation(len(initializers)):
        graph.initializers.add(initializers[index])
    nodes = list(graph)
    order = _random_topological_order(nodes, rng) if topological else [nodes[i] for i in rng.permutation(len(nodes))]
    graph.remove(nodes)
    graph.extend(order)
    for node in order:
        attributes = list(node.attributes.values())
        node.attributes.clear()
        for index in rng.permutation(len(attributes)):
            node.attributes.add(attributes[index])


def _random_topological_order(nodes: list[ir.Node], rng: Rng) -> list[ir.Node]:
    here = set(nodes)
    waiting = {node: {producer for producer in _producers(node) if producer in here} for node in nodes}
    readers: dict[ir.Node, list[ir.Node]] = {node: [] for node in nodes}
    for node, producers in waiting.items():
        for producer in producers:
            readers[producer].append(node)
    ready = [node for node in nodes if not waiting[node]]
    order: list[ir.Node] = []
    while ready:
        node = ready.pop(int(rng.integers(len(ready))))
        order.append(node)
        for reader in readers[node]:
            waiting[reader].discard(node)
            if not waiting[reader]:
                ready.append(reader)
    assert len(order) == len(nodes)
    return order


def _producers(node: ir.Node) -> Iterator[ir.Node]:
    """Return what a node and the nodes nested in it read from."""
    for value in node.inputs:
        producer = value.producer() if value is not None else None
        if producer is not None:
            yield producer
    for _, _, graph in subgraphs(node):
        for nested in graph:
            yield from _producers(nested)
