"""What the forms of many operators share: integers as parts of terms, signs, biases and scales that are moved."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from onnx_passes.numbers.reals import Reals
from onnx_passes.verify.proving.forms import Form, NoFormError, Visit


def factors(visit: Visit, steps: np.ndarray) -> tuple[Hashable, ...]:
    """Return what tells factors from others, as part of a term: one for all elements, or each."""
    first = steps.reshape(-1)[0]
    return ("all", int(first)) if (steps == first).all() else ("each", visit.forms.array(steps.astype(np.int64)))


def refuse(visit: Visit, reason: str) -> NoFormError:
    """Say that a node has no form."""
    return NoFormError(f"{visit.node.op_type}: {reason}")


def positive(visit: Visit, form: Form) -> None:
    """Refuse scales that turn integers around."""
    if not (form.scale.signs() > 0).all():
        raise refuse(visit, "a scale is not positive")


def centred(visit: Visit, form: Form) -> Form:
    """Move a bias into the integers, of which it must be a multiple."""
    if not form.has_bias:
        return form
    steps = (form.bias / form.scale).integers()
    if steps is None:
        raise refuse(visit, "a bias is no multiple of the scale")
    term = visit.forms.term("Shift", form.term, factors(visit, steps))
    size = form.size + float(np.abs(steps).max())
    return replace(form, term=term, bias=Reals.zeros(form.rank), size=size, unsigned=False, added=None)


def in_one_scale(visit: Visit, form: Form, axes: Sequence[int]) -> Form:
    """Write a form with a scale that does not vary along axes: the least, of which the others are multiples."""
    base = form.scale
    for axis in axes:
        if base.shape[axis] > 1:
            least = np.abs(base.near).argmin(axis=axis, keepdims=True)
            base = base.moved(lambda places, at=least, axis=axis: np.take_along_axis(places, at, axis=axis))
    steps = (form.scale / base).integers()
    if steps is None:
        raise refuse(visit, "scales vary along the sum")
    term = form.term if (steps == 1).all() else visit.forms.term("Scaled", form.term, factors(visit, steps))
    unsigned = form.unsigned and bool((steps > 0).all())
    return replace(form, term=term, scale=base, size=form.size * float(np.abs(steps).max()), unsigned=unsigned)


def shrunk(array: Reals) -> Reals:
    """Keep size 1 along every axis on which all is the same."""
    for axis, size in enumerate(array.shape):
        first = array.moved(lambda places, axis=axis: np.take(places, [0], axis=axis)) if size > 1 else array
        if size > 1 and bool((array.near == first.near).all()) and array.equals(first):
            array = first
    return array
