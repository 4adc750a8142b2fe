"""Rules that look at nodes in a random order."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_passes import apply
from onnx_passes.core.base import Context
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import plan
from onnx_passes.core.records import Application
from onnx_passes.rewrite.driver import rewrite
from onnx_passes.rewrite.rule import Rule
from tests.passes.tools import model_of, operators

CHAIN = (
    "g (float[4] x) => (float[4] y) {"
    + "".join(f"[n{i}] v{i} = Identity ({'x' if i == 0 else f'v{i - 1}'}) [m{i}] w{i} = Neg (v{i}) " for i in range(12))
    + "y = Sum ("
    + ", ".join(f"w{i}" for i in range(12))
    + ")}"
)


class Order(Instrument):
    def __init__(self) -> None:
        self.names: list[str] = []

    def before_rewrite(self, application: Application) -> str | None:
        self.names.append("" if application.root is None else str(application.root.name))
        return None


def order(pipeline: str) -> list[str]:
    watch = Order()
    result = apply(model_of(CHAIN), pipeline, instruments=[watch], verify=False)
    assert set(operators(result.model.graph)) == {"Neg", "Sum"}
    return watch.names


def test_seed_decides_the_order():
    plain, first, second = (
        order(text) for text in ("eliminate-identity", *(f"shuffle{{seed={s}}}(eliminate-identity)" for s in (1, 2)))
    )
    assert sorted(plain) == sorted(first) == sorted(second)
    assert plain != first != second
    assert first == order("shuffle{seed=1}(eliminate-identity)")


def test_all_members_are_shuffled_and_the_text_says_so():
    planned = plan("shuffle{seed=3}(fixpoint(eliminate), simplify)")
    assert planned.pipeline == "shuffle{seed=3}(fixpoint(eliminate), simplify)"
    rules = {step.pass_.shuffle_seed for _, step in planned.walk() if step.why.reason == "requested"}
    assert rules <= {3, None}
    assert next(s.pass_.shuffle_seed for _, s in planned.walk() if s.name == "eliminate-slice") == 3


def test_driver_takes_the_seed_from_its_context():
    def swap(op: Any, x: ir.Value) -> ir.Value:
        return op.Abs(x)

    rule = Rule(lambda op, x: op.Neg(x), swap, name="swap")
    seen: list[str] = []
    context = Context(after_rewrite=lambda application: seen.append(str(application.root and application.root.name)))
    context.shuffle_seed = 5
    assert rewrite(model_of(CHAIN), [rule], context) == 12
    assert seen != sorted(seen, key=lambda name: int(name[1:]))
