"""Small example models for passes: generated for rules, hand-written for others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import onnx
import onnx_ir as ir

import onnx_passes
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.registry import Entry
from onnx_passes.graph.text import from_text
from onnx_passes.testing.fuzz.draws import Draws, RandomSource, UnbuildableError
from onnx_passes.testing.fuzz.generate import generate
from onnx_passes.testing.fuzz.targets import FuzzTarget, registered

MODELS = Path(__file__).parent / "models"
_MOST_EXAMPLES = 3
_TRIES = 80
_ENOUGH = 6
"""Number of matching models from which the smallest is chosen."""

T = TypeVar("T")


@dataclass(frozen=True)
class Example:
    """Model before and after, and the pipeline; ``rule`` is set if the pass has several."""

    before: ir.Model
    after: ir.Model
    pipeline: str
    rule: str = ""


class Examples:
    """Finds examples of passes, with a maximum number for each; the rules of all passes are compiled once."""

    def __init__(self, most: int = _MOST_EXAMPLES) -> None:
        self._most = most
        self._rules: dict[str, list[FuzzTarget]] = {}
        for target in registered():
            self._rules.setdefault(target.name.partition("/")[0], []).append(target)

    def of(self, entry: Entry) -> list[Example]:
        """Return the examples of a pass, at most one for each rule; none for an analysis, which changes nothing."""
        written = MODELS / f"{entry.name}.onnxtxt"
        if written.exists():
            return [_by_hand(entry, written.read_text(encoding="utf-8"))]
        found: list[Example] = []
        for target in self._rules.get(entry.name, ()):
            example = smallest(target)
            if example is not None and not any(_are_alike(example, other) for other in found):
                found.append(example)
            if len(found) == self._most:
                break
        return found


def _by_hand(entry: Entry, text: str) -> Example:
    """Run the pipeline of the comment ``# run:`` on the model, after that of ``# first:``."""
    said = dict(line[2:].split(": ", 1) for line in text.splitlines() if line.startswith(("# run:", "# first:")))
    # Loading would repair the defects that some passes repair.
    before = ir.from_proto(from_text(text, entry.name))
    if "first" in said:
        before = onnx_passes.apply(before, said["first"], verify=False).model
    pipeline = said.get("run", entry.name)
    return Example(before, onnx_passes.apply(before, pipeline, verify=False).model, pipeline)


class _Plain(Draws):
    """Draws that build the pattern only, without surroundings."""

    def freely(self, options: Sequence[T]) -> T:
        return options[0]

    def happens(self, *, percent: int) -> bool:
        return False


def smallest(target: FuzzTarget, is_fine: Callable[[onnx.ModelProto], bool] = lambda _: True) -> Example | None:
    """Apply a rule to models that fit its pattern, and return the smallest rewritten one that ``is_fine`` accepts."""
    best: tuple[tuple[int, ...], ir.Model, ir.Model] | None = None
    found = 0
    for proto in _candidates(target):
        size = _size(proto)
        if not is_fine(proto) or (best is not None and best[0] <= size):
            continue
        after = ir.from_proto(proto)
        if not _applies(target, after):
            continue
        best = (size, ir.from_proto(proto), after)
        found += 1
        if found == _ENOUGH:
            break
    if best is None:
        return None
    name, _, rule = target.name.partition("/")
    return Example(best[1], best[2], name, rule)


def _candidates(target: FuzzTarget) -> Iterator[onnx.ModelProto]:
    for text in target.hints.models:
        yield from_text(text, target.name)
    for seed in range(_TRIES):
        try:
            case = generate(target, _Plain(RandomSource(seed)))
        except UnbuildableError:
            continue
        yield onnx.ModelProto.FromString(case.model)


def _applies(target: FuzzTarget, model: ir.Model) -> bool:
    try:
        return target.apply(model) > 0
    except OnnxPassesError:
        return False


def _size(model: onnx.ModelProto) -> tuple[int, ...]:
    """Order models by complexity: nodes, values, types other than float, axes, attributes.

    Those without inputs come last, since all their values are constant.
    """
    graph = model.graph
    tensors = [value.type.tensor_type for value in graph.input]
    return (
        not graph.input,
        len(graph.node),
        len(graph.input) + len(graph.output),
        sum(tensor.elem_type != onnx.TensorProto.FLOAT for tensor in tensors),
        sum(len(tensor.shape.dim) for tensor in tensors),
        sum(len(node.attribute) for node in graph.node),
    )


def _are_alike(one: Example, other: Example) -> bool:
    return _operators(one) == _operators(other)


def _operators(example: Example) -> list[list[str]]:
    return [[node.op_type for node in model.graph] for model in (example.before, example.after)]
