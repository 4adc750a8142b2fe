"""The family of a rule: small models that it rewrites, so varied that what holds for all of them holds for the rule."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.text import from_text
from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.draws import Experience, Lessons, UnbuildableError
from onnx_passes.testing.fuzz.generate import case_of_model, generate
from onnx_passes.testing.fuzz.targets import Target
from onnx_passes.testing.prove.strata import StratifiedDraws, Stratum
from onnx_passes.testing.prove.variants import varied

_UNBIASED = 60
"""So many models are drawn before what made others match guides the next ones."""


@dataclass(frozen=True)
class Instance:
    """A model, and what the rule makes of it; both with static inputs. ``answers`` are the choices that led to it."""

    number: int
    before: ir.Model
    after: ir.Model
    answers: frozenset[tuple[str, str]] = field(repr=False)


@dataclass(frozen=True)
class Effort:
    """How many models are drawn, and how many instances a family has; more are drawn while there are not enough."""

    models: int = 400
    most_models: int = 2400
    most_instances: int = 40
    enough_instances: int = 16


def family_of(target: Target, effort: Effort | None = None) -> Iterator[Instance]:
    """Yield models that a rule rewrites until they cover what there is to choose; the same ones every time.

    A model is taken if it answers a question of the generator in a new way: another rank, size, type, constant,
    attribute, broadcasting, or constness of an operand.
    """
    effort = effort or Effort()
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
    target: Target, stratum: Stratum, experience: Experience | None, lessons: Lessons, *, dyadic: bool
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


def _case(target: Target, draws: StratifiedDraws, *, dyadic: bool) -> Case:
    """Draw a model, or vary one of those that the author of the rule gives."""
    if target.hints.models and draws.often("model of the author", percent=50):
        model = from_text(draws.choose("model", target.hints.models), target.name)
        return case_of_model(varied(model, draws, dyadic=dyadic), 0)
    return generate(replace(target, hints=replace(target.hints, models=())), draws)


def _shapes(case: Case) -> Iterator[Mapping[str, tuple[int, ...]]]:
    """Yield the sizes of the inputs: those that were drawn, and where they are dynamic, others that also fit."""
    yield {given.name: given.shape for given in case.inputs}
    if case.other_shapes:
        yield {given.name: case.other_shapes.get(given.name, given.shape) for given in case.inputs}


def settled(model: ir.Model, case: Case, shapes: Mapping[str, tuple[int, ...]]) -> ir.Model:
    """Copy a model with static inputs; those that must hold certain values, such as axes, become constants.

    Where all of them must and are floats, as operators of bits ask for it, they stay variables: more is proved than is
    needed.
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
    """Tell whether the shapes of a model fit together, as far as onnx can tell."""
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
