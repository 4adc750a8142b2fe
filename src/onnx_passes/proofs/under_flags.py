"""Equality of bits in other ways than by ``prove_equal``.

``prove_under_flags`` excuses what flags of fast math excuse. Results of the second model are taken for those of the
first where an input that they depend on, or the first result, is NaN (``nnan``) or infinite (``ninf``); zero is added
to both, which takes away the sign of zeros (``nsz``). What is left is compared bit by bit. Other flags excuse nothing.

``prove_unfolded`` leaves constants as they are written: functions that runtimes approximate stay unknown, of constants
too. Where one model applies such a function to a constant alone, and the other to a tensor of which the constant is a
part, that shows what computing constants hides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.algebra import Symbol, TooLargeError, UnsupportedError
from onnx_passes.ops.number_systems.terms import VARIABLE, Terms
from onnx_passes.ops.semantics.evaluation import Evaluation
from onnx_passes.proofs.decide import decide
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.proofs.samples import assumptions_of, interface_difference, paired_inputs, variables

FLAGS = ("nnan", "ninf", "nsz")
_BOOL = ir.DataType.BOOL
_MOST_PAIRS = 32


def prove_under_flags(
    before: ir.Model, after: ir.Model, flags: Collection[str], *, seconds: float = 3.0
) -> Proof | Unproved:
    """Prove that two models compute the same bits, but for what some flags excuse."""
    terms = Terms(flags=flags)
    try:
        inputs = paired_inputs(before, after)
        made = variables(terms, before)
        first, second = Evaluation(before, terms), Evaluation(after, terms)
        a = first.outputs(made)
        b = second.outputs([made[index] for index in inputs])
        different = interface_difference(before, a, b)
        if different:
            return Unproved(different, refuted=True)
        ends = [(x.elements(terms).reshape(-1), y.elements(terms).reshape(-1)) for x, y in zip(a, b, strict=True)]
        pairs = dict.fromkeys(pair for x, y in ends for pair in zip(x.tolist(), y.tolist(), strict=True))
        methods: set[str] = set()
        for pair in [_excused(terms, *pair, flags) for pair in pairs if pair[0] != pair[1]][:_MOST_PAIRS]:
            if pair[0] == pair[1]:
                methods.add("congruence")
                continue
            verdict = decide(terms, *pair, {}, solver=True, seconds=seconds)
            if verdict.status != "same":
                return Unproved(f"not decided under {', '.join(sorted(flags))}: {verdict.method}")
            methods.add(verdict.method)
    except UnsupportedError as error:
        return Unproved(str(error))
    except TooLargeError as error:
        return Unproved(f"too large: {error}")
    if sum(first != second for first, second in pairs) > _MOST_PAIRS:
        return Unproved(f"more than {_MOST_PAIRS} different pairs of terms")
    used = tuple(flag for flag in FLAGS if flag in flags)
    assumed = assumptions_of(terms, first, second)
    return Proof("proved-here", ", ".join(sorted(methods)) or "congruence", flags=used, assumptions=assumed)


def _excused(terms: Terms, first: int, second: int, flags: Collection[str]) -> tuple[int, int]:
    """Return a pair of terms that are the same if the given ones are, but for what flags excuse."""
    dtype = terms.symbols[first].dtype
    is_float = dtype.is_floating_point()
    below = terms.below(first, second)
    leaves = [term for term in below if terms.symbols[term].name == VARIABLE]
    for term in (*leaves, *((first,) if is_float else ())):
        for test in _tests(terms, term, flags):
            second = terms.make(Symbol("Where", dtype, (_BOOL, dtype, dtype)), (test, first, second))
    if is_float and "nsz" in flags:
        zero = terms.number(dtype, np.zeros(()))
        add = Symbol("Add", dtype, (dtype, dtype))
        first, second = terms.make(add, (first, zero)), terms.make(add, (second, zero))
    return first, second


def _tests(terms: Terms, term: int, flags: Collection[str]) -> Iterator[int]:
    """Yield the conditions under which what depends on a term is excused."""
    dtype = terms.symbols[term].dtype
    if not dtype.is_floating_point():
        return
    if "nnan" in flags:
        yield terms.make(Symbol("IsNaN", _BOOL, (dtype,)), (term,))
    if "ninf" in flags:
        size = terms.make(Symbol("Abs", dtype, (dtype,)), (term,))
        limit = terms.number(dtype, np.asarray(np.inf))
        yield terms.make(Symbol("Equal", _BOOL, (dtype, dtype)), (size, limit))


def prove_unfolded(before: ir.Model, after: ir.Model) -> Proof | None:
    """Prove that all elements of the outputs of two models are the same terms."""
    terms = Terms()
    first, second = (Evaluation(model, terms, fold=False) for model in (before, after))
    try:
        inputs = paired_inputs(before, after)
        made = variables(terms, before)
        a = first.outputs(made)
        b = second.outputs([made[index] for index in inputs])
    except (TooLargeError, UnsupportedError):
        return None
    if interface_difference(before, a, b):
        return None
    same = all((x.elements(terms) == y.elements(terms)).all() for x, y in zip(a, b, strict=True))
    assumed = assumptions_of(terms, first, second)
    return Proof("proved-here", "congruence", assumptions=assumed) if same else None
