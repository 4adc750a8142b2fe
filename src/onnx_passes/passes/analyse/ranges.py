"""The ranges of the tensors of a model, from any source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx_passes.analysis.ranges import Known, ranges_of
from onnx_passes.core.base import Context
from onnx_passes.core.build import collect
from onnx_passes.core.display import Displayed
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.load import Source, load
from onnx_passes.numbers.range import Range


class Ranges(dict[str, Range], Displayed):
    """Ranges of tensors, by name."""

    def __repr__(self) -> str:
        return f"<Ranges of {len(self)} tensors>"

    def __str__(self) -> str:
        overall = {name: found.overall() for name, found in self.items()}
        return "\n".join(f"{name}: {found.low:g} … {found.high:g}" for name, found in overall.items())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the short form in IPython instead of the dictionary."""
        printer.text(repr(self))


def ranges(source: Source, inputs: Mapping[str, Known] | None = None) -> Ranges:
    """Return the range of each tensor by name: bounds and, for scaled integers, scale and bias.

    ``inputs`` maps names of inputs to their ranges: ``(low, high)``, a data type such as ``"UINT8"``, or a
    ``Range``. Shapes are inferred on a copy; values in bodies of If, Loop and Scan are left out.
    """
    model = copy_model(load(source))
    collect("shape-inference")[0].run(model, Context())
    return Ranges({value.name: found for value, found in ranges_of(model, inputs).items() if value.name})
