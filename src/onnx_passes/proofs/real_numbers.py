"""Proofs in real numbers: two models are one real function, and floats differ by rounding, which is bounded.

A bound has to be small beside the results: ``(x + 1e8) − 1e8`` is ``x`` in real numbers, but rounding leaves nothing
of it. Infinities, NaN and signs of zeros are no matter of rounding: where results differ in them, the flags of fast
math that excuse it are named, and the proof holds only if they are allowed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.algebra import Tensor, TooLargeError, UnsupportedError
from onnx_passes.ops.number_systems.bounds import Bound, NoBoundError, bounds, unit
from onnx_passes.ops.number_systems.field import Field, compared
from onnx_passes.ops.number_systems.nearly import Expansion
from onnx_passes.ops.number_systems.real_functions import NO_OVERFLOW
from onnx_passes.ops.number_systems.terms import VARIABLE, Terms
from onnx_passes.ops.semantics.evaluation import Evaluation
from onnx_passes.proofs.proof import Assumption
from onnx_passes.proofs.samples import Domain, variables

_TRIES = 8
_PATIENCE = 64
"""How many times the rounding of all steps a bound may be of the largest result."""


def same_in_fields(
    before: ir.Model, after: ir.Model, inputs: Sequence[int], *, fold: bool, seconds: float = math.inf
) -> tuple[bool, tuple[str, ...]]:
    """Tell whether two models are the same rational function, and what that rests on.

    Points at which a root is missing tell nothing, so that some elements may need others.
    """
    settled: list[np.ndarray] = []
    assumed: set[str] = set()
    for seed in range(_TRIES):
        field = Field(seed)
        try:
            made = variables(field, before)
            a = Evaluation(before, field, fold=fold, seconds=seconds).outputs(made)
            b = Evaluation(after, field, fold=fold, seconds=seconds).outputs([made[index] for index in inputs])
        except (UnsupportedError, TooLargeError):
            return False, ()
        if len(a) != len(b) or any(x.shape != y.shape for x, y in zip(a, b, strict=True)):
            return False, ()
        settled = settled or [np.zeros(x.shape, bool) for x in a]
        for place, (x, y) in enumerate(zip(a, b, strict=True)):
            same, different = _compared(field, x, y)
            if different.any():
                return False, ()
            settled[place] |= same
        assumed |= field.assumed
        if all(mask.all() for mask in settled):
            return True, tuple(sorted(assumed))
    return False, ()


def assumed_of_reals(texts: Iterable[str]) -> tuple[Assumption, ...]:
    """Return the assumptions of an equality of real numbers; an overflow may change any number, unlike rounding."""
    return tuple(Assumption(text, "tested" if text == NO_OVERFLOW else "equal-in-reals") for text in texts)


def _compared(field: Field, x: Tensor, y: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Compare real numbers as such, all else by how it is computed."""
    one, other = x.elements(field), y.elements(field)
    if x.dtype.is_floating_point():
        return compared(one, other)
    same = one["label"] == other["label"]
    return same, ~same


def rounding(
    terms: Terms, pairs: Sequence[tuple[int, int]], domains: Mapping[str, Domain], *, exactly: bool, seconds: float
) -> tuple[float | None, str]:
    """Bound by how much the computed values of pairs of terms can differ, for inputs of at most one or as given.

    ``exactly`` says that they are known to be the same real numbers. Returns no bound and a reason where there is none,
    or where it is not small.
    """
    worst = 0.0
    deadline = time.process_time() + seconds
    for a, b in pairs:
        if time.process_time() > deadline:
            return None, "no bound: it takes too long"
        box = {
            term: (domain.low, domain.high) if (domain := domains.get(terms.symbols[term].params[0])) else (-1.0, 1.0)
            for term in terms.below(a, b)
            if terms.symbols[term].name == VARIABLE
        }
        try:
            found = bounds(terms, (a, b), box)
            apart = 0.0 if exactly else Expansion(terms, found, unit(terms.symbols[a].dtype)).deviation(a, b)
            total = found[a].error + found[b].error + apart
            if total > _allowed(terms, found, a, b):
                return None, f"results of at most {found[b].size:.3g} may be off by {total:.3g}"
        except NoBoundError as error:
            return None, f"no bound: {error}"
        worst = max(worst, total)
    return worst, ""


def _allowed(terms: Terms, found: Mapping[int, Bound], a: int, b: int) -> float:
    steps = sum(max(len(terms.args[term]) - 1, 1) for term in terms.below(a, b))
    return _PATIENCE * steps * unit(terms.symbols[a].dtype) * min(found[a].size, found[b].size) + 2.0**-140
