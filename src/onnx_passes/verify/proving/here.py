"""Prove one application locally, by the cheapest method that succeeds.

When a pass begins, and then in ``before_rewrite``, while the graph still is as before::

    facts = Facts(model, executor)
    found = prove_here(application, facts, ignores)

``ignores`` are the fast-math flags of the pass (``Promise.ignores``): ``nsz`` leaves out the sign of zeros, ``nnan``
and ``ninf`` NaN and infinities. Facts are of one pass: make new ones for the next, and ``forget`` ranges where a
rewrite changed values. Nothing is raised; what could not be proved says why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.evidence import SEMANTICS
from onnx_passes.core.records import Application
from onnx_passes.fragment.fragment import FragmentError
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.proving.coefficients import prove_coefficients
from onnx_passes.verify.proving.congruence import prove_congruent
from onnx_passes.verify.proving.constants import prove_constant
from onnx_passes.verify.proving.facts import SPENT, Facts, fragments_of
from onnx_passes.verify.proving.finite import prove_finite
from onnx_passes.verify.proving.labelled import moves_alone, prove_labelled
from onnx_passes.verify.proving.pointwise import Pointwise, pointwise
from onnx_passes.verify.proving.real_steps import prove_real_steps
from onnx_passes.verify.proving.reshaped import keeps_order, prove_reshaped
from onnx_passes.verify.proving.same_definition import prove_same_definition
from onnx_passes.verify.proving.scaled import prove_scaled
from onnx_passes.verify.proving.shapes import prove_shapes, reads_shapes_alone
from onnx_passes.verify.proving.steps import prove_steps

Attempt = Callable[[], Proof | Unproved]
_UNFORESEEN = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


def prove_here(
    application: Application, facts: Facts, ignores: Collection[str] = (), wanted: Collection[str] = SEMANTICS
) -> Proof | Unproved:
    """Try the cheapest method first; return the first proof in a wanted semantics, or why the last attempt failed.

    A proof in other semantics is returned if there is none in a wanted one.
    """
    found: Proof | Unproved = Unproved("nothing was tried")
    refuted: Unproved | None = None
    given_up: Unproved | None = None
    other: Proof | None = None
    facts.keeps_bits = False
    for attempt in _attempts(application, facts, frozenset(ignores), wanted or SEMANTICS):
        try:
            found = attempt()
        except OnnxPassesError as error:
            found = Unproved(f"it does not run by itself: {error}")
        except _UNFORESEEN as error:
            # A rewrite that no method foresaw is not proved, and no reason to end a run.
            found = Unproved(f"{type(error).__name__}: {error}")
        if isinstance(found, Unproved):
            refuted = found if found.refuted else refuted
            given_up = found if found.reason == SPENT else given_up
        elif wanted and not set(found.preserves) & set(wanted):
            other = other or found
        else:
            break
    proof = found if isinstance(found, Proof) else other
    facts.keeps_bits = proof is not None and "bits" in proof.preserves
    return proof or refuted or given_up or found


def _attempts(
    application: Application, facts: Facts, ignores: frozenset[str], wanted: Collection[str]
) -> Iterator[Attempt]:
    if application.update is not None and application.root is not None:
        update, root = application.update, application.root
        yield lambda: prove_same_definition(root, update)
    if not application.replaced:
        return
    try:
        sides = fragments_of(application, facts.model.functions)
    except FragmentError as error:
        reason = str(error)
        yield lambda: Unproved(reason)
        return
    yield lambda: prove_congruent(*sides, facts)
    if not any(side.inputs for side in sides):
        yield lambda: prove_constant(*sides, facts)
        return
    if all(map(reads_shapes_alone, sides)):
        yield lambda: prove_shapes(*sides, facts)
        return
    if all(map(keeps_order, sides)):
        yield lambda: prove_reshaped(*sides)
    if all(map(moves_alone, sides)):
        yield lambda: prove_labelled(*sides, facts)
        return
    by_element = pointwise(sides)
    if isinstance(by_element, Pointwise):
        steps = [lambda: prove_steps(by_element, facts, ignores), lambda: prove_real_steps(by_element, facts)]
        # Where bits are lost already, what holds in real numbers is all that is left to prove.
        yield from steps if "bits" in wanted else reversed(steps)
        yield lambda: prove_finite(by_element, facts, ignores)
    yield lambda: prove_coefficients(*sides)
    yield lambda: prove_scaled(*sides, facts)
