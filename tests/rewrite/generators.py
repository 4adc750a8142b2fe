"""Rules that change no value as long as numbers are exact, and models of exact numbers full of their patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter.pattern import OrValue, RewriteRule

from onnx_passes.graph.constants import constant
from onnx_passes.rewrite.foreign import from_onnxscript
from onnx_passes.rewrite.rule import Rule

Rng = np.random.Generator
DTYPE = ir.DataType.DOUBLE


def exact_rules() -> list[Rule]:
    """Compile the rules for our driver."""
    return [from_onnxscript(rule) for rule in foreign_rules()]


def free_rules() -> list[Rule]:
    """Return further exact rules that only our driver can run: they return existing values, and merge nodes."""

    def twins(op: Any, x: Any) -> Any:
        return op.Relu(x, _outputs=["first"]), op.Relu(x, _outputs=["second"])

    return [
        Rule(lambda op, x: op.Identity(x), lambda op, x: x, name="identity"),
        Rule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: x, name="neg-neg-through"),
        Rule(twins, lambda op, first, second: (first, first), name="merge-relu"),
        Rule(
            lambda op, x, y: (op.Abs(x), op.Sub(y, x)),
            lambda op, x, y: (op.Max(x, op.Neg(x)), op.Add(y, op.Neg(x))),
            name="abs-and-sub",
        ),
    ]


def foreign_rules() -> list[RewriteRule]:
    """Return rules as onnxscript has them; they use nothing that its driver cannot do."""
    return [
        RewriteRule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x), name="neg-neg"),
        RewriteRule(lambda op, x: op.Relu(op.Relu(x)), lambda op, x: op.Relu(x), name="relu-relu"),
        RewriteRule(lambda op, x: op.Add(x, 0.0), lambda op, x: op.Identity(x), name="add-zero"),
        RewriteRule(lambda op, x: op.Mul(1.0, x), lambda op, x: op.Identity(x), name="one-mul"),
        RewriteRule(lambda op, x: op.Max(x, 0.0), lambda op, x: op.Relu(x), name="max-zero"),
        RewriteRule(_transposed_twice, _transpose_once, name="transpose-transpose"),
        RewriteRule(_sum_of_products, lambda op, x, y, c: op.Mul(op.Add(x, y), c), name="factor"),
        RewriteRule(
            lambda op, x, y, c: op.Mul(op.Sub(x, y), c),
            lambda op, x, y, c: op.Sub(op.Mul(x, c), op.Mul(y, c)),
            name="distribute",
        ),
        RewriteRule(lambda op, x, a, b: op.Add(op.Add(x, a), b), _add_sum, _are_constant, name="reassociate"),
        RewriteRule(lambda op, x, a: op.Sub(x, a), _add_negative, _are_constant, name="sub-constant"),
        RewriteRule(_product_and_sum, lambda op, a, b, c: op.Gemm(a, b, c), _fits_gemm, name="gemm"),
        RewriteRule(_relu_of_either, _drop_relu, name="relu-of-positive"),
        RewriteRule(lambda op, x: (op.Relu(x), op.Abs(x)), _relu_and_abs, _is_typed, name="relu-and-abs"),
    ]


def _transposed_twice(op: Any, x: Any, p: Any, q: Any) -> Any:
    return op.Transpose(op.Transpose(x, perm=p), perm=q)


def _transpose_once(op: Any, x: Any, p: ir.Attr, q: ir.Attr) -> Any:
    perm = [p.as_ints()[axis] for axis in q.as_ints()]
    return op.Identity(x) if perm == sorted(perm) else op.Transpose(x, perm=perm)


def _sum_of_products(op: Any, x: Any, y: Any, c: Any) -> Any:
    return op.Add(op.Mul(x, c), op.Mul(y, c))


def _product_and_sum(op: Any, a: Any, b: Any, c: Any) -> Any:
    return op.Add(op.MatMul(a, b), c)


def _relu_of_either(op: Any, x: Any) -> Any:
    return op.Relu(OrValue([op.Relu(x), op.Abs(x)], tag_var="inner", tag_values=["Relu", "Abs"]))


def _drop_relu(op: Any, x: Any, inner: str) -> Any:
    return getattr(op, inner)(x)


def _are_constant(context: Any, a: Any, b: Any = None, **_: Any) -> bool:
    return constant(a) is not None and (b is None or constant(b) is not None)


def _constant(op: Any, array: Any) -> Any:
    return op.Constant(value=ir.tensor(np.asarray(array)))


def _add_sum(op: Any, x: Any, a: Any, b: Any) -> Any:
    return op.Add(x, _constant(op, constant(a) + constant(b)))


def _add_negative(op: Any, x: Any, a: Any) -> Any:
    return op.Add(x, _constant(op, -constant(a)))  # pyright: ignore[reportOptionalOperand]


def _fits_gemm(context: Any, a: ir.Value, b: ir.Value, c: ir.Value) -> bool:
    return all(item.shape is not None for item in (a, b, c)) and len(a.shape) == len(b.shape) == 2 and len(c.shape) == 1


def _is_typed(context: Any, x: ir.Value) -> bool:
    return x.dtype is not None


def _relu_and_abs(op: Any, x: Any) -> Any:
    absolute = op.Max(x, op.Neg(x))
    half = _constant(op, np.array(0.5, x.dtype.numpy()))
    return op.Mul(op.Add(x, absolute), half), absolute


def exact_model(seed: int | Rng, nodes: int = 20) -> ir.Model:
    """Return a model of small whole numbers with forks, several outputs, shared constants and branches."""
    rng = np.random.default_rng(seed)
    builder = _Builder(rng)
    inputs = [ir.val(f"x{i}", DTYPE, [2, 3]) for i in range(2)]
    builder.pool.extend(inputs)
    while len(builder.nodes) < nodes:
        builder.step()
    computed = [item for item in builder.pool if item.producer() is not None]
    outputs = [item for item in computed if not item.uses() or rng.random() < 0.08]
    graph = ir.Graph(
        inputs,
        outputs,
        nodes=builder.nodes,
        initializers=builder.initializers,
        opset_imports={"": 20},
        name="exact",
    )
    return ir.Model(graph, ir_version=10)


def exact_feeds(seed: int) -> dict[str, np.ndarray]:
    """Return whole numbers for the inputs of an exact model."""
    rng = np.random.default_rng(seed)
    return {f"x{i}": rng.integers(-4, 5, size=(2, 3)).astype(np.float64) for i in range(2)}


class _Builder:
    def __init__(self, rng: Rng, outer: _Builder | None = None) -> None:
        self.rng = rng
        self.nodes: list[ir.Node] = []
        self.initializers: list[ir.Value] = []
        self.pool: list[ir.Value] = list(outer.pool) if outer else []
        self.root: _Builder = outer.root if outer else self
        self.named = 0

    def name(self) -> str:
        self.root.named += 1
        return f"v{self.root.named}"

    def pick(self) -> ir.Value:
        recent = self.pool[-4:] if self.rng.random() < 0.7 else self.pool
        return recent[self.rng.integers(len(recent))]

    def constant(self, array: Any) -> ir.Value:
        tensor = ir.Tensor(np.asarray(array, np.float64))
        if self.rng.random() < 0.3:
            node = self.add("Constant", [], tensor.shape, [ir.AttrTensor("value", tensor)])
            self.pool.remove(node)
            return node
        for value in self.initializers:
            if np.array_equal(value.const_value.numpy(), tensor.numpy()):
                return value
        value = ir.Value(name=self.name(), shape=tensor.shape, type=ir.TensorType(DTYPE), const_value=tensor)
        self.initializers.append(value)
        return value

    def add(
        self, op_type: str, inputs: list[ir.Value], shape: Any, attributes: Any = (), dtype: ir.DataType = DTYPE
    ) -> ir.Value:
        node = ir.Node("", op_type, inputs, attributes, name=self.name())
        [value] = node.outputs
        value.name, value.type, value.shape = self.name(), ir.TensorType(dtype), ir.Shape(shape)
        self.nodes.append(node)
        self.pool.append(value)
        return value

    def step(self) -> None:
        steps: list[Callable[[], Any]] = [
            self.unary, self.unary, self.unary, self.with_number, self.with_number, self.binary, self.products,
            self.transpose, self.matmul, self.twins,
        ]  # fmt: skip
        if self.root is self and self.rng.random() < 0.1:
            steps = [self.branch]
        steps[self.rng.integers(len(steps))]()

    def unary(self) -> ir.Value:
        value = self.pick()
        op_type = self.rng.choice(["Neg", "Neg", "Relu", "Relu", "Abs", "Identity"])
        return self.add(str(op_type), [value], value.shape)

    def with_number(self) -> ir.Value:
        value = self.pick()
        number = self.rng.choice([0.0, 1.0, 2.0, -1.0])
        columns = int(value.shape[-1])
        other = self.constant(number if self.rng.random() < 0.7 else self.rng.integers(-2, 3, size=columns))
        op_type = str(self.rng.choice(["Add", "Add", "Sub", "Mul", "Max"]))
        operands = [value, other] if self.rng.random() < 0.7 else [other, value]
        return self.add(op_type, operands, value.shape)

    def alike(self, value: ir.Value) -> ir.Value:
        alike = [item for item in self.pool if item.shape == value.shape]
        return alike[self.rng.integers(len(alike))]

    def binary(self) -> ir.Value:
        value = self.pick()
        return self.add(str(self.rng.choice(["Add", "Sub", "Max"])), [value, self.alike(value)], value.shape)

    def products(self) -> ir.Value:
        x = self.pick()
        y, factor = self.alike(x), self.constant(self.rng.choice([2.0, 3.0, -1.0]))
        op_type = str(self.rng.choice(["Add", "Sub"]))
        if self.rng.random() < 0.5:
            return self.add("Mul", [self.add(op_type, [x, y], x.shape), factor], x.shape)
        left, right = self.add("Mul", [x, factor], x.shape), self.add("Mul", [y, factor], x.shape)
        return self.add(op_type, [left, right], x.shape)

    def transpose(self) -> ir.Value:
        value = self.pick()
        return self.add("Transpose", [value], value.shape[::-1], [ir.AttrInt64s("perm", [1, 0])])

    def matmul(self) -> ir.Value:
        value = self.pick()
        columns = int(self.rng.integers(2, 4))
        weight = self.constant(self.rng.integers(-1, 2, size=(int(value.shape[1]), columns)))
        product = self.add("MatMul", [value, weight], [value.shape[0], columns])
        if self.rng.random() < 0.6:
            bias = self.constant(self.rng.integers(-2, 3, size=columns))
            return self.add("Add", [product, bias], product.shape)
        return product

    def twins(self) -> None:
        value = self.pick()
        for op_type in self.rng.permutation(["Relu", "Abs"]):
            self.add(str(op_type), [value], value.shape)

    def branch(self) -> ir.Value:
        value = self.pick()
        total = self.add("ReduceSum", [value], [], [ir.AttrInt64("keepdims", 0)])
        test = self.add("Greater", [total, self.constant(0.0)], [], dtype=ir.DataType.BOOL)
        self.pool.remove(total)
        self.pool.remove(test)
        branches = []
        for name in ("then_branch", "else_branch"):
            inner = _Builder(self.rng, outer=self)
            result = inner.add("Neg", [value], value.shape)
            for _ in range(self.rng.integers(0, 4)):
                op_type = str(self.rng.choice(["Neg", "Relu", "Abs"]))
                result = inner.add(op_type, [result], value.shape)
            branches.append(ir.AttrGraph(name, ir.Graph([], [result], nodes=inner.nodes, name=name)))
        return self.add("If", [test], value.shape, branches)
