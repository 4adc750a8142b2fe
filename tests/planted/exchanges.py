"""Faults as pairs of models: a right one, and one in which some nodes were exchanged for wrong ones.

The pass that goes wrong is made of the two: what differs is taken out and put in, by a rewrite that is announced and
checked where it stands, or behind the back of the verification, so that only runs of the whole model can show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import PassResult, Transformation, passes
from onnx_passes.core.base import Context, Pass
from onnx_passes.rewrite.editor import Editor
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.evidence import DEFAULT, Promise, promise_of
from onnx_passes.verify.run.execute import ExecutionError, Executor, Sample
from tests.planted.planting import text

Make = Callable[[], ir.Model]
_PADDING = 420
"""So many nodes make a model that is not small."""


@dataclass(frozen=True, eq=False)
class Exchange:
    """Two models, of which the second is wrong, and inputs that show it where the usual search does not find any."""

    name: str
    kind: str
    right: Make
    wrong: Make
    claim: Callable[[type[Pass]], type[Pass]] = passes.verify.equality
    witness: Sample | None = None

    def pass_class(self, *, announced: bool = True) -> type[Pass]:
        """Make the pass that puts the wrong nodes in; the verification sees the rewrite, or the result alone."""

        def run(pass_: Pass, model: ir.Model, context: Context) -> PassResult:
            with Editor(model, context if announced else None) as editor:
                _exchange(editor, model.graph, self.wrong().graph)
            return PassResult(model, modified=editor.applied > 0)

        members = {"run": run, "call": lambda self, model: run(self, model, Context())}
        words = "".join(word.capitalize() for word in self.kind.split())
        return self.claim(type(f"Planted{words}", (Transformation,), members))

    def is_shown(self) -> bool:
        """Tell whether some inputs, not those of the verification, show that the second model is wrong."""
        executor = Executor()
        right, wrong = (executor.prepare(make()) for make in (self.right, self.wrong))
        given = {str(value.name) for value in self.right().graph.inputs}
        witness = {name: array for name, array in (self.witness or {}).items() if name in given}
        samples = [witness] if witness else _wide_samples(self.right())
        promise = promise_of([self.pass_class()()], DEFAULT)
        return any(_differ(right.run, wrong.run, sample, promise) for sample in samples)


def exchange(
    kind: str,
    right: str,
    wrong: str,
    body: str = "v = Neg(x) @ y = Neg(w)",
    *,
    inputs: str = "float[3,8] x",
    result: str = "float",
    constants: str = "",
    opset: int = 20,
    large: bool = False,
    claim: Callable[[type[Pass]], type[Pass]] = passes.verify.equality,
    witness: Sample | None = None,
) -> Exchange:
    """Make a fault of the text of some nodes, which the body holds at ``@``, in a small or a ``large`` model."""

    def model(nodes: str) -> Make:
        given, outputs, written = inputs, f"{result}[] y", body.replace("@", nodes)
        if large:
            given, outputs = f"{inputs}, float[2] side", f"{outputs}, float[2] side{_PADDING}"
            steps = (f"side{n + 1} = {('Sin', 'Cos')[n % 2]}(side{n or ''})" for n in range(_PADDING))
            written = "\n".join((written, *steps))
        return lambda: ir.from_onnx_text(text(given, outputs, written, initializers=constants, opset=opset))

    name = f"{right} becomes {wrong} for {inputs}{' in a large model' if large else ''}"
    return Exchange(name, kind, model(right), model(wrong), claim, witness)


def _exchange(
    editor: Editor, graph: ir.Graph, wrong: ir.Graph, around: Mapping[str | None, ir.Value] = MappingProxyType({})
) -> None:
    """Replace the nodes that differ, in the innermost graph that holds all of them."""
    old, new = list(graph), list(wrong)
    first = _common(old, new)
    last = _common(old[first:][::-1], new[first:][::-1])
    old, new = old[first : len(old) - last], new[first : len(new) - last]
    if not old:
        return
    known = {**around, **_values(graph)}
    inner = list(_nested(old, new))
    if inner:
        for mine, theirs in inner:
            _exchange(editor, mine, theirs, known)
        return
    with editor.rewrite("exchange", old[-1], matched=old) as rewrite:
        for node in new:
            inputs = [None if value is None else _here(rewrite, value, known) for value in node.inputs]
            found = rewrite.op.op(
                node.op_type, *inputs, _domain=node.domain, _outputs=len(node.outputs), **node.attributes
            )
            made = found if isinstance(found, list) else [found]
            known |= {output.name: value for output, value in zip(node.outputs, made, strict=True)}
        own = set(old)
        for value in (value for node in old for value in node.outputs):
            if value.is_graph_output() or any(user not in own for user in value.consumers()):
                rewrite.replace(value, known[value.name])


def _values(graph: ir.Graph) -> dict[str | None, ir.Value]:
    made = [value for node in graph for value in node.outputs]
    return {value.name: value for value in (*graph.inputs, *graph.initializers.values(), *made)}


def _here(rewrite: Any, value: ir.Value, known: Mapping[str | None, ir.Value]) -> ir.Value:
    """Return what a wrong node reads: a value of the right model, or a constant that is not there."""
    mine = known.get(value.name)
    if value.const_value is None or (mine is not None and _same_constant(mine, value)):
        return known[value.name]
    return rewrite.op.initializer(value.const_value.numpy())


def _common(old: Sequence[ir.Node], new: Sequence[ir.Node]) -> int:
    pairs = zip(old, new, strict=False)
    return next((n for n, pair in enumerate(pairs) if not _same(*pair)), min(len(old), len(new)))


def _same(old: ir.Node, new: ir.Node) -> bool:
    if (old.op_identifier(), len(old.inputs)) != (new.op_identifier(), len(new.inputs)):
        return False
    pairs = zip((*old.inputs, *old.outputs), (*new.inputs, *new.outputs), strict=True)
    named = all((a and a.name) == (b and b.name) and _same_constant(a, b) for a, b in pairs)
    return named and _text(old) == _text(new)


def _same_constant(old: ir.Value | None, new: ir.Value | None) -> bool:
    mine, theirs = (None if value is None else value.const_value for value in (old, new))
    if mine is None or theirs is None:
        return mine is theirs
    return mine.dtype == theirs.dtype and np.array_equal(mine.numpy(), theirs.numpy(), equal_nan=True)


def _text(node: ir.Node) -> list[bytes]:
    return sorted(ir.to_proto(attribute).SerializeToString() for attribute in node.attributes.values())


def _nested(old: Sequence[ir.Node], new: Sequence[ir.Node]) -> Iterator[tuple[ir.Graph, ir.Graph]]:
    """Yield the graphs of nodes that differ in nothing but these."""
    if len(old) != len(new) or any(a.op_identifier() != b.op_identifier() for a, b in zip(old, new, strict=True)):
        return
    for mine, theirs in zip(old, new, strict=True):
        for name, attribute in mine.attributes.items():
            if attribute.type is ir.AttributeType.GRAPH:
                yield attribute.as_graph(), theirs.attributes[name].as_graph()


def _wide_samples(model: ir.Model) -> Iterator[Sample]:
    """Draw inputs from all that a type holds, near constants of the model and near zero, of many sizes."""
    random = np.random.default_rng(77)
    tensors = [value.const_value for graph in model.graphs() for value in graph.initializers.values()]
    held = [tensor.numpy().reshape(-1)[:64] for tensor in tensors if tensor is not None]
    numbers = np.concatenate([[0.0], *(array.astype(np.float64) for array in held if array.dtype.kind in "fiu")])
    for number in range(60):
        size = (1, 3, 20, 40, 70, 2, 5, 130)[number % 8]
        yield {str(value.name): _wide(value, numbers, size, random, number) for value in model.graph.inputs}


def _wide(value: ir.Value, numbers: np.ndarray, size: int, random: np.random.Generator, number: int) -> np.ndarray:
    shape = [dim if isinstance(dim, int) else size for dim in value.shape or ()]
    dtype = value.dtype.numpy() if value.dtype is not None else np.dtype(np.float32)
    count = int(np.prod(shape))
    if dtype.kind == "b":
        return random.integers(2, size=shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        near = [int(n) + d for n in numbers for d in (-1, 0, 1) if info.min <= n + d <= info.max]
        pool = np.array([info.min, info.max, info.min + 1, info.max - 1, *near], dtype)
        any_ = random.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
        small = random.integers(max(info.min, -9), 10, count).astype(dtype)
        drawn = np.choose(random.integers(3, size=count), [any_, small, pool[random.integers(pool.size, size=count)]])
        return drawn.astype(dtype).reshape(shape)
    with np.errstate(all="ignore"):
        near = np.concatenate([numbers, -numbers, numbers + 1, numbers / 2]).astype(dtype)
        pool = np.concatenate([near, *(np.nextafter(near, dtype.type(end)) for end in (-np.inf, np.inf))])
        extreme = np.array([np.nan, np.inf, -np.inf, np.finfo(dtype).max, np.finfo(dtype).tiny, -0.0], dtype)
        normal = random.standard_normal(count) * 10.0 ** random.integers(-2, 4, count)
        chosen = [normal, pool[random.integers(pool.size, size=count)], random.integers(-99, 99, count) / 2]
        drawn = np.choose(random.integers(3, size=count), chosen).astype(dtype)
        if number % 2:
            drawn[random.random(count) < 0.1] = extreme[random.integers(extreme.size)]
    return drawn.reshape(shape)


def _differ(
    right: Callable[[Sample], Sample], wrong: Callable[[Sample], Sample], sample: Sample, promise: Promise
) -> bool:
    try:
        expected = right(sample)
    except ExecutionError:
        return False
    try:
        found = wrong(sample)
    except ExecutionError:
        return True
    return promise.broken(compare(expected, found)) is not None
