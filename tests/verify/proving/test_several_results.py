"""An application of several results is proved only if all of them are, by whatever method."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import api
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.proving.facts import Facts
from onnx_passes.verify.proving.here import prove_here
from tests.verify.proving.near_misses.pairs import Pair
from tests.verify.proving.test_near_misses import METHODS, foreseen, pairs
from tests.verify.proving.windows import HEAD, OPSET, Q, _application, prove

__all__ = ["foreseen"]


def joined(*afters: Pair) -> Proof | Unproved:
    """Prove that what the first text computes is what each of the second texts does."""
    first = afters[0]
    old = api.apply(first.model(first.before), "shape-inference", verify=False).model
    shared = sum(1 for node in old.graph if _names(node) & _inside(first))
    made = [
        _application(old, api.apply(each.model(each.after), "shape-inference", verify=False).model, shared)
        for each in afters
    ]
    whole = made[0]
    whole.added = tuple(node for each in made for node in each.added)
    whole.replaced = tuple(pair for each in made for pair in each.replaced)
    return prove_here(whole, Facts(old), first.ignores)


def _names(node: ir.Node) -> set[str]:
    return {str(value.name) for value in node.outputs}


def _inside(pair: Pair) -> set[str]:
    head = HEAD.replace(f": {OPSET},", f": {pair.opset},")
    text = f"{head} g ({pair.signature}) => () {{ {pair.inside} }}"
    return {name for node in ir.from_onnx_text(text).graph for name in _names(node)} if pair.inside else set()


CASES = [
    pytest.param(pair, id=f"{method}-{place}")
    for method in METHODS
    for place, pair in enumerate(pairs(method))
    if any(True for _ in pair.near_misses())
]


def _misses(pair: Pair) -> list[Pair]:
    """Return near misses whose first text, with its constants, is that of the right pair."""
    read = f"{pair.before} {pair.inside}".replace("(", " ").replace(")", " ").replace(",", " ").split()
    return [
        changed
        for _, changed in pair.near_misses()
        if changed.before == pair.before
        and changed.constants == pair.constants
        and all(changed.held[name] is array for name, array in pair.held.items() if name in read)
    ]


@pytest.mark.parametrize("pair", CASES)
def test_one_wrong_result_is_enough(pair: Pair):
    for changed in _misses(pair)[:3]:
        assert not isinstance(joined(pair, changed), Proof)
        assert not isinstance(joined(changed, pair), Proof)


CONSTANTS = "float one = {1}, float zero = {0}, float bits = {8}, float far = {300}, float further = {301}"
QUANT = f"{Q}.Quant <signed = 1, narrow = 0> ({{}}, one, zero, bits)"


@pytest.mark.parametrize("outputs", ["y, z", "z, y"])
@pytest.mark.parametrize("inside", ["", f"x = {Q}.Quant <signed = 1, narrow = 0> (w, one, zero, more)"])
def test_steps_of_every_result_are_looked_for(outputs: str, inside: str):
    flat = f"n = Relu(x) m = Min(n, zero) y = {QUANT.format('m')}"
    found = prove(
        "float[2,3] w" if inside else "float[2,3] x",
        f"{flat} a = Sub(x, far) z = {QUANT.format('a')}",
        f"{flat} a = Sub(x, further) z = {QUANT.format('a')}",
        constants=f"{CONSTANTS}, float more = {{12}}",
        inside=inside,
        ignores=("nsz", "nnan", "ninf"),
        outputs=outputs,
    )
    assert not isinstance(found, Proof)
