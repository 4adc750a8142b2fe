"""Cost of verification, in CPU time of one process.

    python benchmarks/verification.py [MODEL…] [--pipeline TEXT]

Three tables: a verified run beside an unverified one and the two inferences that any check needs; the local check of
one rewrite in a model of 2 000 nodes; the check of a whole model with 100 MB of weights beside its inference. An
inference is what a user of ONNX Runtime pays for it: a session with the same settings, made from bytes, and its first
run on the same samples; `run` is a later run in the same session. Models that cannot be run are left out.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
from results import record, table

import onnx_passes
from onnx_passes import RewriteRulePass, Transformation, passes
from onnx_passes.check.verification import Mode, Verification
from onnx_passes.core.collector import paused_collector
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.verify.run.execute import Executor
from onnx_passes.verify.samples.generate import generate


def cpu(work: Callable[[], object], repeat: int = 5) -> float:
    """Return the least CPU time of several calls, in milliseconds."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best * 1000


def runs(paths: list[Path], pipeline: str) -> list[tuple[str, int, float, float, float, float]]:
    """Compare verified with unverified runs; the target is twice the latter and two inferences."""
    heading = ("nodes", "inference", "run", "plain", "verified", "target", "overhead")
    print(f"{'model':34}" + "".join(f"{text:>11}" for text in heading))
    met, ratios = 0, list[float]()
    rows: list[tuple[str, int, float, float, float, float]] = []
    for path in paths:
        try:
            figures = costs(path, pipeline)
        except OnnxPassesError as error:
            print(f"{path.stem[:33]:34} not measured: {str(error)[:80]}")
            continue
        nodes, inference, alone, plain, checked = figures
        target = 2 * plain + 2 * inference
        ratios.append(checked / plain)
        met += checked <= target
        overhead = (checked - 2 * inference) / plain
        columns = "".join(f"{figure:11.1f}" for figure in (inference, alone, plain, checked, target))
        print(f"{path.stem[:33]:34}{nodes:11}{columns}{overhead:10.2f}x", flush=True)
        rows.append((path.stem, nodes, *(round(figure, 1) for figure in (inference, plain, checked, target))))
    print(f"{met} of {len(ratios)} within twice the unverified run and two inferences")
    if ratios:
        print(f"verified by unverified: {statistics.median(ratios):.1f}x in the median, {max(ratios):.1f}x at most\n")
    return rows


def costs(path: Path, pipeline: str) -> tuple[int, float, float, float, float]:
    """Return nodes, then inference, run, unverified and verified pipeline in milliseconds."""
    model = onnx_passes.load(path)
    samples, executor = generate(model), Executor()
    ready = executor.prepare(model)
    alone = cpu(lambda: [ready.run(sample) for sample in samples])

    def infer() -> None:
        fresh = executor.prepare(model)
        for sample in samples:
            fresh.run(sample)

    with paused_collector():
        inference = cpu(infer)
    plain = cpu(lambda: onnx_passes.apply(model, pipeline, verify=False))
    checked = cpu(lambda: onnx_passes.apply(model, pipeline))
    return len(model.graph), inference, alone, plain, checked


@passes.verify.equality
class DropDoubleNegation(Transformation, RewriteRulePass):
    """Something to check: many small rewrites, or one."""

    most: int = 10_000

    def pattern(self, op, x):
        return op.Neg(op.Neg(x))

    def check(self, op, x):
        return x.name is not None and int(x.name.strip("v")) < 8 * self.most

    def rewrite(self, op, x):
        return op.Identity(x)


def local() -> list[tuple[str, float]]:
    """Measure the local check of one rewrite in a model of 2 000 nodes, once the values inside the model are known."""
    nodes: list[str] = []
    for i in range(0, 1600, 8):
        nodes.append(f"a{i} = Neg(v{i}) b{i} = Neg(a{i}) v{i + 1} = Tanh(b{i})")
        nodes.extend(f"v{i + j + 1} = Tanh(v{i + j})" for j in range(1, 8))
    body = "\n".join(nodes)
    text = f'<ir_version: 10, opset_import: ["": 20]> g (float[16,64] v0) => (float[16,64] v1600) {{ {body} }}'
    model = ir.from_onnx_text(text)
    steps = [DropDoubleNegation(most=most) for most in range(1, 31)]
    plain, final, checked = (cpu(lambda: run_steps(model, steps, mode)) for mode in (None, "final", "each"))  # noqa: B023
    first = cpu(lambda: run_steps(model, steps[:1], "each")) - cpu(lambda: run_steps(model, steps[:1], "final"))
    each = (checked - final - first) / (len(steps) - 1)
    print(f"{len(model.graph)} nodes, {len(steps)} passes with one rewrite each: plain {plain:.0f} ms, ", end="")
    print(f"checked at the end {final:.0f} ms, locally too {checked:.0f} ms")
    print(f"the first local check, with the values inside the model: {first:.1f} ms; each further one: {each:.2f} ms\n")
    return [
        ("30 passes with a rewrite each, unverified", round(plain, 1)),
        ("the same, checked at the end", round(final, 1)),
        ("the same, each rewrite checked where it stands", round(checked, 1)),
        ("the first local check, with the values inside of the model", round(first, 2)),
        ("each further local check", round(each, 2)),
    ]


def run_steps(model: ir.Model, steps: list[DropDoubleNegation], mode: Mode | None) -> None:
    onnx_passes.apply(model, steps, verify=False if mode is None else Verification(mode=mode))


def whole() -> list[tuple[str, float]]:
    """Compare the check of a model with 100 MB of weights with its inference."""
    rng = np.random.default_rng(0)
    weights = [ir.Tensor(rng.normal(size=(1600, 1600)).astype(np.float32), name=f"w{i}") for i in range(10)]
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([8, 1600]))
    value, nodes, initializers = x, [], []
    for tensor in weights:
        weight = ir.Value(name=tensor.name, type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
        initializers.append(weight)
        product = ir.node("MatMul", [value, weight])
        nodes += [product, ir.node("Tanh", [product.outputs[0]])]
        value = nodes[-1].outputs[0]
    for number, node in enumerate(nodes):
        node.outputs[0].name = f"n{number}"
    value.type, value.shape = x.type, x.shape
    graph = ir.Graph([x], [value], nodes=nodes, initializers=initializers, opset_imports={"": 20}, name="big")
    model = ir.Model(graph, ir_version=10)
    samples, executor = generate(model), Executor()
    ready = executor.prepare(model)
    inference = cpu(lambda: [ready.run(sample) for sample in samples])
    check = cpu(lambda: [executor.prepare(model).run(sample) for sample in samples[:1]]) + inference * 2 / 3
    size = sum(tensor.nbytes for tensor in weights) / 1e6
    print(f"{size:.0f} MB of weights: run {inference:.1f} ms, check {check:.1f} ms, {check / inference:.2f}x")
    return [("100 MB of weights: inference", round(inference, 1)), ("the check of that model", round(check, 1))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--pipeline", default="shape-inference, cleanup")
    arguments = parser.parse_args()
    rows = runs(arguments.models, arguments.pipeline) if arguments.models else []
    parts = [*local(), *whole()]
    head = ("model", "nodes", "inference", "unverified", "verified", "goal")
    record(
        "verification",
        "The cost of verification",
        f"CPU milliseconds, the least of several runs, of the pipeline {arguments.pipeline}. The goal is twice the "
        "unverified run and two inferences: sessions made, and run, as a user would.",
        [
            *(
                [table("Verified beside unverified", head, rows, ("inference", "unverified", "verified"))]
                if rows
                else []
            ),
            table("What a check costs: a model of 2 000 nodes, and one of large weights", ("", "CPU ms"), parts),
        ],
        [
            f"{name}: {checked} ms verified, beyond the goal of {goal} ms"
            for name, *_, checked, goal in rows
            if checked > goal
        ],
    )


if __name__ == "__main__":
    main()
