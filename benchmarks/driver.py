"""Cost of the rewrite driver beside onnxscript's own: no match, many matches, swapped inputs, roots, growth.

    python benchmarks/driver.py [--quick]

Both drivers run in this process on equal models; figures are CPU seconds, ratios are what counts.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
from onnxscript.rewriter import pattern
from results import record, table

from onnx_passes.rewrite.driver import rewrite
from onnx_passes.rewrite.foreign import from_onnxscript
from onnx_passes.rewrite.index import RuleIndex

OPERATORS = [
    "Relu", "Neg", "Abs", "Exp", "Sqrt", "Sigmoid", "Tanh", "Floor", "Ceil", "Erf",
    "Sin", "Cos", "Identity", "Sign", "Round", "Softplus", "Atan", "Sinh", "Cosh", "Log",
]  # fmt: skip


def chain(nodes: int, operators: Sequence[str] = OPERATORS) -> ir.Model:
    x = ir.val("x", ir.DataType.FLOAT, [4])
    made: list[ir.Node] = []
    value = x
    for i in range(nodes):
        node = ir.Node("", operators[i % len(operators)], [value], name=f"n{i}")
        value = node.outputs[0]
        value.name, value.type, value.shape = f"v{i}", ir.TensorType(ir.DataType.FLOAT), ir.Shape([4])
        made.append(node)
    graph = ir.Graph([x], [value], nodes=made, opset_imports={"": 20}, name="chain")
    return ir.Model(graph, ir_version=10)


def two_nodes(outer: str, inner: str) -> Callable[..., object]:
    return lambda op, x: getattr(op, outer)(getattr(op, inner)(x))


def never_matching(count: int) -> list[pattern.RewriteRule]:
    """Two-node patterns whose operators never follow each other in the chain."""
    rules: list[pattern.RewriteRule] = []
    for i in range(count):
        outer = OPERATORS[i % len(OPERATORS)]
        inner = OPERATORS[(i * 7 + 3 + i // len(OPERATORS)) % len(OPERATORS)]
        if OPERATORS[(OPERATORS.index(inner) + 1) % len(OPERATORS)] == outer:
            inner = outer

        rules.append(pattern.RewriteRule(two_nodes(outer, inner), lambda op, x: op.Relu(x), name=f"r{i}"))
    return rules


def firing() -> list[pattern.RewriteRule]:
    """Rules that each fire once per pair in a chain of Neg and Relu."""
    return [
        pattern.RewriteRule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x), name="neg-neg"),
        pattern.RewriteRule(lambda op, x: op.Relu(op.Relu(x)), lambda op, x: op.Relu(x), name="relu-relu"),
    ]


def sums_and_products(nodes: int) -> ir.Model:
    """A chain of Add and Mul whose inputs come in either order."""
    x, y = ir.val("x", ir.DataType.FLOAT, [4]), ir.val("y", ir.DataType.FLOAT, [4])
    made: list[ir.Node] = []
    value = x
    for i in range(nodes):
        operands = [value, y] if i % 3 else [y, value]
        node = ir.Node("", "Add" if i % 2 else "Mul", operands, name=f"n{i}")
        value = node.outputs[0]
        value.name, value.type, value.shape = f"v{i}", ir.TensorType(ir.DataType.FLOAT), ir.Shape([4])
        made.append(node)
    graph = ir.Graph([x, y], [value], nodes=made, opset_imports={"": 20}, name="sums")
    return ir.Model(graph, ir_version=10)


def nested(depth: int) -> pattern.RewriteRule:
    """A pattern of so many commutative nodes above a Relu, which the chain does not have."""

    def target(op: Any, x: Any, y: Any) -> Any:
        value = op.Relu(x)
        for i in range(depth):
            value = op.Add(value, y) if i % 2 else op.Mul(value, y)
        return value

    return pattern.RewriteRule(target, lambda op, x, y: op.Relu(x), name=f"nested-{depth}")


def matmuls(count: int) -> ir.Model:
    """Products of different inputs with one matrix."""
    weight = ir.val("w", ir.DataType.FLOAT, [4, 4])
    inputs = [ir.val(f"x{i}", ir.DataType.FLOAT, [4, 4]) for i in range(count)]
    made = [ir.Node("", "MatMul", [x, weight], name=f"n{i}") for i, x in enumerate(inputs)]
    for i, node in enumerate(made):
        node.outputs[0].name = f"y{i}"
    outputs = [node.outputs[0] for node in made]
    graph = ir.Graph([*inputs, weight], outputs, nodes=made, opset_imports={"": 20}, name="matmuls")
    return ir.Model(graph, ir_version=10)


def two_roots() -> pattern.RewriteRule:
    return pattern.RewriteRule(
        lambda op, x, a, b: (op.MatMul(x, a), op.MatMul(x, b)), lambda op, x, a, b: None, name="two-roots"
    )


def cpu(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return time.process_time() - start


def best(repeat: int, work: Callable[[], float]) -> float:
    return min(work() for _ in range(repeat))


def compare(
    title: str,
    make: Callable[[], ir.Model],
    rules: list[pattern.RewriteRule],
    repeat: int,
    *,
    commute: bool = False,
) -> tuple[str, float, float, float]:
    ours = RuleIndex([from_onnxscript(rule, commute=commute) for rule in rules])
    stock = pattern.RewriteRuleSet(rules, commute=commute)

    def run_ours() -> float:
        model = make()
        return cpu(lambda: rewrite(model, ours))

    def run_stock() -> float:
        model = make()
        return cpu(lambda: stock.apply_to_model(model))

    mine, theirs = best(repeat, run_ours), best(max(1, repeat // 3), run_stock)
    print(f"{title:44} {mine:9.4f} {theirs:9.4f} {theirs / mine:8.1f}x", flush=True)
    return title, round(1000 * mine, 2), round(1000 * theirs, 2), round(theirs / mine, 1)


def growth(sizes: Sequence[int], repeat: int) -> list[tuple[int, float, float]]:
    rules = RuleIndex([from_onnxscript(rule) for rule in never_matching(100)])
    fires = RuleIndex([from_onnxscript(rule) for rule in firing()])
    print(f"\n{'nodes':>8} {'no match µs/node':>18} {'firing µs/node':>16}")
    first: tuple[float, float] | None = None
    rows: list[tuple[int, float, float]] = []
    for size in sizes:
        rounds = max(1, min(repeat, 200_000 // size))

        def no_match(size: int = size) -> float:
            model = chain(size)
            gc.disable()
            try:
                return cpu(lambda: rewrite(model, rules))
            finally:
                gc.enable()

        def all_fire(size: int = size) -> float:
            model = chain(size, ["Neg", "Neg", "Relu", "Relu"])
            gc.disable()
            try:
                return cpu(lambda: rewrite(model, fires))
            finally:
                gc.enable()

        figures = (best(rounds, no_match) / size * 1e6, best(max(1, rounds // 4), all_fire) / size * 1e6)
        first = first or figures
        print(
            f"{size:8} {figures[0]:12.2f} ({figures[0] / first[0]:.2f}x) "
            f"{figures[1]:10.2f} ({figures[1] / first[1]:.2f}x)"
        )
        rows.append((size, round(figures[0], 2), round(figures[1], 2)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    quick = parser.parse_args().quick
    print(f"{'CPU seconds':44} {'ours':>9} {'stock':>9} {'ratio':>9}")
    rules = never_matching(100)
    rows = [compare("1 000 nodes x 100 rules, none fits", lambda: chain(1000), rules, 9)]
    if not quick:
        rows.append(compare("10 000 nodes x 100 rules, none fits", lambda: chain(10_000), rules, 5))
    fire = ["Neg", "Neg", "Relu", "Relu"]
    rows.append(compare("1 000 nodes, 500 applications", lambda: chain(1000, fire), firing(), 5))
    for depth in (1, 3, 6):
        title = f"2 000 Add and Mul, {depth} swappable in the pattern"
        rows.append(compare(title, lambda: sums_and_products(2000), [nested(depth)], 5, commute=True))
    products = 100 if quick else 400
    rows.append(compare(f"two roots among {products} MatMul", lambda: matmuls(products), [two_roots()], 5))
    grown = growth((1000, 10_000) if quick else (1000, 10_000, 100_000), 20)
    record(
        "driver",
        "The rewrite driver",
        "Both drivers apply the same rules to equal models in one process. CPU milliseconds, the least of some runs.",
        [
            table("Beside the driver of ONNX Script", ("case", "onnx-passes", "onnxscript", "times"), rows),
            table("Growth: CPU microseconds for a node", ("nodes", "no rule fits", "all rules fire"), grown),
        ],
        [f"{title}: {mine} ms, onnxscript {theirs} ms" for title, mine, theirs, _ in rows if mine > theirs],
    )


if __name__ == "__main__":
    main()
