"""How a pair of texts and its near misses are written, and what ONNX Runtime says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.run.execute import ExecutionError, Executor
from onnx_passes.verify.samples.generate import generate
from tests.verify.proving.windows import HEAD, OPSET, hold, prove

Arrays = Mapping[str, np.ndarray]
Change = tuple[str, str]
"""What stands in a text, and what stands there instead: behind ``before:`` in the first text, else in the second one,
or in the constants if it is not there."""


@dataclass(frozen=True)
class Pair:
    """Two texts that compute ``y``; the second may stand for the first, but not with any of the changes.

    ``held`` are constants given as arrays, ``other`` arrays with which it may not either, each in the place of one of
    these. ``fed`` are inputs on which a change shows, where generated ones do not do.
    """

    signature: str
    before: str
    after: str
    changes: tuple[Change, ...] = ()
    constants: str = ""
    inside: str = ""
    ignores: tuple[str, ...] = ()
    held: Arrays = field(default_factory=dict[str, np.ndarray])
    other: tuple[tuple[str, np.ndarray], ...] = ()
    fed: Arrays = field(default_factory=dict[str, np.ndarray])
    opset: int = OPSET

    def near_misses(self) -> Iterator[tuple[str, Pair]]:
        """Yield the changed pairs, with what was changed."""
        for old, new in self.changes:
            yield f"{old} → {new}", self._changed(old, new)
        for name, array in self.other:
            yield f"{name} = {array.reshape(-1)[:4].tolist()}", replace(self, held={**self.held, name: array})

    def _changed(self, old: str, new: str) -> Pair:
        if old.startswith("before:"):
            old = old.removeprefix("before:")
            assert self.before.count(old) == 1, f"'{old}' does not stand once in the first text"
            return replace(self, before=self.before.replace(old, new))
        places = [name for name in ("after", "constants") if getattr(self, name).count(old) == 1]
        assert places, f"'{old}' stands nowhere, or more than once"
        return replace(self, **{places[0]: getattr(self, places[0]).replace(old, new)})

    def proof(self) -> Proof | Unproved:
        """Ask for a proof, of whatever semantics."""
        given: dict[str, Any] = {**self.held}
        return prove(
            self.signature,
            self.before,
            self.after,
            constants=self.constants,
            inside=self.inside,
            ignores=self.ignores,
            opset=self.opset,
            **given,
        )

    def results(self) -> Iterator[tuple[np.ndarray, np.ndarray] | None]:
        """Yield the results of both texts in ONNX Runtime for each sample; None if it refuses one of the texts."""
        models = [self.model(body) for body in (self.before, self.after)]
        samples = [dict(self.fed)] if self.fed else generate(models[0], samples=6)
        for sample in samples:
            found = [_run(model, sample) for model in models]
            # Texts that both fail show nothing.
            if found[0] is not None or found[1] is not None:
                yield None if found[0] is None or found[1] is None else (found[0], found[1])

    def model(self, body: str) -> ir.Model:
        head = HEAD.replace(f": {OPSET},", f": {self.opset},")
        text = f"{head} g ({self.signature}) => (y) <{self.constants}> {{ {self.inside} {body} }}"
        model = ir.from_onnx_text(text)
        hold(model, self.held)
        return model


def differs(old: np.ndarray, new: np.ndarray, *, beyond: float) -> bool:
    """Tell whether results are other ones: by more than a part of the greatest or, of 0, by any bit that counts."""
    if old.dtype != new.dtype or old.shape != new.shape:
        return True
    if not beyond or old.dtype.kind != "f":
        both_nan = (old != old) & (new != new)
        signs = np.signbit(old) != np.signbit(new) if old.dtype.kind == "f" else np.zeros(old.shape, bool)
        return bool((((old != new) | ((old == 0) & signs)) & ~both_nan).any())
    finite = np.isfinite(old) & np.isfinite(new)
    far = np.abs(np.where(finite, old, 0) - np.where(finite, new, 0)).max(initial=0.0)
    return bool((np.isfinite(old) != np.isfinite(new)).any() or far > beyond * np.abs(old[finite]).max(initial=0.0))


def _run(model: ir.Model, sample: Arrays) -> np.ndarray | None:
    try:
        return Executor().prepare(model, engine="onnxruntime").run(sample)["y"]
    except ExecutionError:
        return None
