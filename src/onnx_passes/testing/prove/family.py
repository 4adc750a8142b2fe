"""The family of a rule: small models that it rewrites, so varied that a proof for all of them proves the rule.

Models are drawn as the fuzzer draws them, but small, and with the kinds of answers in round-robin order; or they are
variants of the models that the author of the rule gives, with other sizes, and other constants in the same places.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.graph.constants import is_constant_node
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.text import from_text
from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.draws import Draws, Experience, Lessons, RandomSource, UnbuildableError
from onnx_passes.testing.fuzz.generate import case_of_model, generate
from onnx_passes.testing.fuzz.targets import FuzzTarget
from onnx_passes.testing.fuzz.values import convert, make

T = TypeVar("T")

RANKS = (0, 1, 2, 3, 4)
SIZES = (2, 3, 1, 0)
OPSETS = (20, 21, 18, 13, 22, 17, 23)
_DIMS = (2, 3, 2, 3, 2, 1, 1, 3, 2, 0)
_EXACT_CONSTANTS = (
    *("mixed", "ramp", "one", "zero", "minus-one", "two", "half", "positive", "power"),
    *("identity", "diagonal"),
)
"""Small dyadic numbers: what a rule computes of them is not rounded."""
_FREE = 4
"""One in so many models draws its type and rank freely, as experience has it."""


@dataclass(frozen=True)
class Stratum:
    """Position of a model in the family: its number decides its rank, types, operator set and declaration."""

    number: int
    exact: bool

    @property
    def is_free(self) -> bool:
        """Return whether rank and types are drawn from experience."""
        return self.number % _FREE == _FREE - 1

    def turn(self, options: Sequence[Any], period: int = 1) -> Any:
        """Choose round-robin: the next option after every ``period`` models."""
        return options[self.number // period % len(options)]


class StratifiedDraws(Draws):
    """Draws that choose round-robin where the family must cover all answers, and at random elsewhere.

    Nothing surrounds the pattern: the driver, not the rules, handles branches, loops and names.
    """

    every_type: ClassVar[bool] = True

    def __init__(self, stratum: Stratum, seed: int, experience: Experience | None = None) -> None:
        super().__init__(RandomSource(seed), experience)
        self._stratum = stratum
        self._asked: set[str] = set()

    def choose(self, question: str, options: Sequence[T]) -> T:
        """Choose one of the options."""
        fixed = self._fixed(question, options)
        if fixed is None:
            return super().choose(question, options)
        self.answers.append((question, repr(fixed)))
        return fixed

    def _fixed(self, question: str, given: Sequence[Any]) -> Any:
        """Return the answer that the stratum determines, or a draw from fewer options; None for an ordinary draw."""
        kind = question.partition(":")[0]
        first = question not in self._asked
        self._asked.add(question)
        match kind:
            case "opset":
                return self._stratum.turn(OPSETS, 3)
            case "kind of argument":
                return given[-1] if self._stratum.is_free else given[0]
            case "kind of constant" | "kind of variable" | "fixed":
                return given[0]
            case "dim":
                return self._any([size for size in _DIMS if size in given])
            case "rank" if first and not self._stratum.is_free:
                return self._stratum.turn(RANKS)
            case "dtype" if not self._stratum.is_free:
                return self._stratum.turn(list(dict.fromkeys(given)), len(RANKS))
            case "recipe" if self._stratum.exact:
                return self._any([each for each in given if each in _EXACT_CONSTANTS])
            case _:
                return None

    def _any(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def freely(self, options: Sequence[T]) -> T:
        """Choose the first option, the simplest one: no nodes around the pattern."""
        return options[0]


_UNBIASED = 60
"""So many models are drawn before what made others match guides the next ones."""


@dataclass(frozen=True)
class Instance:
    """Model and its rewrite by the rule, both with static inputs; ``answers`` are the choices of the generator."""

    number: int
    before: ir.Model
    after: ir.Model
    answers: frozenset[tuple[str, str]] = field(repr=False)


@dataclass(frozen=True)
class FamilyEffort:
    """Number of models to draw and of instances of a family; more models are drawn while instances are too few."""

    models: int = 400
    most_models: int = 2400
    most_instances: int = 40
    enough_instances: int = 16


def family_of(target: FuzzTarget, effort: FamilyEffort | None = None) -> Iterator[Instance]:
    """Yield models that a rule rewrites until they cover the choices of the generator; the order is deterministic.

    A model is taken if it answers a question of the generator in a new way: another rank, size, type, constant,
    attribute, broadcasting, or constness of an operand.
    """
    effort = effort or FamilyEffort()
    lessons = Lessons()
    seen: set[bytes] = set()
    covered: set[tuple[str, str]] = set()
    taken = 0
    for number in range(effort.most_models):
        if number >= effort.models and taken >= effort.enough_instances:
            return
        experience = lessons.experience() if number > _UNBIASED else None
        # What needs constants of its author that are no small fractions, such as a root, has them in the end.
        stratum = Stratum(number, exact=target.limits is not None)
        drawn = _draw(target, stratum, experience, lessons, dyadic=stratum.exact and number < effort.models)
        if drawn is None:
            continue
        case, before, after, answers = drawn
        digest = hashlib.sha256(case.model).digest()
        if digest in seen or (taken >= effort.enough_instances and answers <= covered):
            continue
        seen.add(digest)
        covered |= answers
        for shapes in _shapes(case):
            first = settled(before, case, shapes)
            if first.graph.inputs and fits(first):
                yield Instance(number, first, settled(after, case, shapes), answers)
                taken += 1
        if taken >= effort.most_instances:
            return


def _draw(
    target: FuzzTarget, stratum: Stratum, experience: Experience | None, lessons: Lessons, *, dyadic: bool
) -> tuple[Case, ir.Model, ir.Model, frozenset[tuple[str, str]]] | None:
    """Draw a model and apply the rule, unless there is none or it does not match."""
    draws = StratifiedDraws(stratum, stratum.number, experience)
    try:
        case = _case(target, draws, dyadic=dyadic)
        if not case.inputs:
            raise UnbuildableError("a model without inputs says nothing")
        proto = onnx.ModelProto.FromString(case.model)
        before = ir.from_proto(proto)
        after = copy_model(before)
        applied = target.apply(after) > 0
        if applied:
            onnx.checker.check_model(proto)  # pyright: ignore[reportUnknownMemberType]
    except (UnbuildableError, OnnxPassesError, onnx.checker.ValidationError, ir.serde.SerdeError):
        applied = False
    lessons.add(draws.answers, good=applied)
    return (case, before, after, frozenset(draws.answers)) if applied else None  # pyright: ignore[reportPossiblyUnboundVariable]


def _case(target: FuzzTarget, draws: StratifiedDraws, *, dyadic: bool) -> Case:
    """Draw a model, or vary one of the models that the author of the rule gives."""
    if target.hints.models and draws.often("model of the author", percent=50):
        model = from_text(draws.choose("model", target.hints.models), target.name)
        return case_of_model(varied(model, draws, dyadic=dyadic), 0)
    return generate(replace(target, hints=replace(target.hints, models=())), draws)


def _shapes(case: Case) -> Iterator[Mapping[str, tuple[int, ...]]]:
    """Yield shapes of the inputs: the drawn shapes, then other valid ones if inputs are dynamic."""
    yield {given.name: given.shape for given in case.inputs}
    if case.other_shapes:
        yield {given.name: case.other_shapes.get(given.name, given.shape) for given in case.inputs}


def settled(model: ir.Model, case: Case, shapes: Mapping[str, tuple[int, ...]]) -> ir.Model:
    """Copy a model with static inputs; inputs that must hold certain values, such as axes, become constants.

    If all inputs must hold certain values, floats among them stay variables: the proof is then stronger than needed.
    """
    model = copy_model(model)
    some_are_free = any(given.values is None for given in case.inputs)
    by_name = {given.name: given for given in case.inputs}
    for value in list(model.graph.inputs):
        name = str(value.name)
        given = by_name[name]
        value.shape = ir.Shape(shapes[name])
        is_needed = some_are_free or not given.dtype.is_floating_point()
        if given.values is not None and is_needed and not given.overridable:
            model.graph.inputs.remove(value)
            value.const_value = ir.Tensor(np.asarray(given.values), given.dtype, name=name)
            model.graph.register_initializer(value)
    return model


def fits(model: ir.Model) -> bool:
    """Return whether the shape inference of onnx accepts a model."""
    proto = ir.to_proto(model)
    del proto.graph.value_info[:]
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    is_standard = not any(node.domain for node in proto.graph.node)
    try:
        cast(Any, onnx.shape_inference.infer_shapes)(proto, strict_mode=is_standard, data_prop=True)
    except onnx.shape_inference.InferenceError:
        return False
    return True


_SIZES = (2, 3, 1)
_CHANGES = ("keep", "keep", "double", "halve", "negate", "positive", "power", "mixed")


def varied(model: onnx.ModelProto, draws: Draws, *, dyadic: bool) -> onnx.ModelProto:
    """Copy a model with other sizes and constants; raises UnbuildableError if they do not fit together.

    ``dyadic`` rounds constants to eighths, so that what a rule computes of them is exact.
    """
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    _settle(copied, draws)
    # Of operators of other domains onnx cannot tell the shape: there static sizes stay as they are.
    is_standard = not any(node.domain for node in copied.graph.node)
    if is_standard:
        _resize(copied, draws)
    for tensor in copied.graph.initializer:
        _change(tensor, draws, dyadic=dyadic)
    for node in copied.graph.node:
        for attribute in node.attribute:
            if is_constant_node(node) and attribute.name == "value":
                _change(attribute.t, draws, dyadic=dyadic)
    try:
        inferred = cast(Any, onnx.shape_inference.infer_shapes)(copied, strict_mode=is_standard, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        raise UnbuildableError(str(error)) from error
    return inferred


def _axes(model: onnx.ModelProto) -> list[onnx.TensorShapeProto.Dimension]:
    overridable = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in overridable]
    return [dim for value in inputs for dim in value.type.tensor_type.shape.dim]


def _settle(model: onnx.ModelProto, draws: Draws) -> None:
    """Choose sizes for dynamic axes."""
    named: dict[str, int] = {}
    for dim in _axes(model):
        if not dim.HasField("dim_value"):
            name = dim.dim_param or str(len(named))
            dim.dim_value = named[name] if name in named else named.setdefault(name, draws.choose("dim", _SIZES))


def _resize(model: onnx.ModelProto, draws: Draws) -> None:
    """Change the size of an axis in half of the cases, and remove the declared shapes of computed values."""
    axes = _axes(model)
    if axes and draws.often("other size", percent=50):
        axes[draws.number(0, len(axes) - 1)].dim_value = draws.choose("dim", _SIZES)
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")


def _change(tensor: onnx.TensorProto, draws: Draws, *, dyadic: bool) -> None:
    dtype = ir.DataType(tensor.data_type)
    if not dtype.is_floating_point():
        return
    how = draws.choose("constant of the author", _CHANGES)
    array = onnx.numpy_helper.to_array(tensor)
    if dyadic:
        array = convert(np.rint(array.astype(np.float64) * 8) / 8, dtype)
    match how:
        case "keep":
            changed = array
        case "double" | "halve" | "negate":
            changed = array * np.asarray({"double": 2, "halve": 0.5, "negate": -1}[how], array.dtype)
        case _:
            changed = make(how, dtype, array.shape, draws.number(0, 3))
    name = tensor.name
    tensor.CopyFrom(ir.to_proto(ir.Tensor(convert(changed, dtype), dtype, name=name)))
