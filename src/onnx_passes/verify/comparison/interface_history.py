"""Data for a model whose inputs and outputs passes have changed since data were given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from onnx_passes.core.errors import UsageError
from onnx_passes.verify.comparison.declarations import ChangesInterface, RenamesInterface, ShowsInside
from onnx_passes.verify.comparison.ulp import Array
from onnx_passes.verify.samples.dataset import Batch
from onnx_passes.verify.samples.reference import Sample


@dataclass(frozen=True)
class InterfaceHistory:
    """The outputs that a model had, and what passes did to inputs and outputs since."""

    outputs: tuple[str, ...] = ()
    changes: tuple[ChangesInterface, ...] = ()

    def then(self, change: ChangesInterface) -> InterfaceHistory:
        """Return the history with one more change."""
        return replace(self, changes=(*self.changes, change))

    def as_taken_now(self, batch: Batch) -> Batch:
        """Give inputs the form that they have now."""
        inputs = batch.inputs
        for change in self.changes:
            inputs = change.inputs_after(inputs)
        return replace(batch, inputs=inputs)

    def left(self, expected: Sample, found: Sample) -> list[str]:
        """Return the outputs of which something is expected; only a pass that says so may have taken some away."""
        may_drop = any(isinstance(change, ShowsInside) for change in self.changes)
        left = [output for output in expected if output in found or not may_drop]
        for output in left if left else expected:
            if output not in found:
                raise UsageError(f"there is no output '{output}'")
        return left

    def under_old_names(self, found: Sample) -> Sample:
        """Return results of outputs that the original has, too, under the names that they have there."""
        named = {output: output for output in self.outputs}
        for change in self.changes:
            renamed: Mapping[str, str] = change.renamed if isinstance(change, RenamesInterface) else {}
            named = {old: renamed.get(now, now) for old, now in named.items()}
        return {old: found[now] for old, now in named.items() if now in found}

    def as_returned_now(self, name: str, expected: Array, found: Array) -> Array:
        """Give what is expected of an output the form that it has now; labels have none."""
        if expected.ndim == found.ndim:
            for change in self.changes:
                ((name, expected),) = change.outputs_after({name: expected}).items()
        return expected
