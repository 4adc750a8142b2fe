"""Base of passes that choose the outputs of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import OptionError, PassFailedError
from onnx_passes.core.options import internal, option
from onnx_passes.passes.interface.values import require_once, values_of
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


class ChoosesOutputs(EditorPass):
    """Gives a model the outputs that ``wanted`` returns; expected results are the values inside the original model."""

    names: tuple[str, ...] = option((), "names of values of the graph")

    _taken: tuple[str, ...] = internal(())
    _returned: tuple[str, ...] = internal(())

    def __post_init__(self) -> None:
        if not self.names:
            raise OptionError("no values are named", hint=f"as in {self.name}{{names=[y]}}")

    def wanted(self, model: ir.Model) -> Sequence[ir.Value]:
        """Return the new outputs of the model."""
        raise NotImplementedError

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Set the outputs."""
        require_once(self.names, "value")
        wanted, outputs = list(self.wanted(model)), model.graph.outputs
        for value in wanted:
            if value.producer() is None and value not in outputs:
                kind = "an input" if value.is_graph_input() else "constant"
                raise PassFailedError(f"'{value.name}' is {kind}", hint="name a value that a node computes")
        self._taken = tuple(str(value.name) for value in model.graph.inputs)
        self._returned = tuple(str(value.name) for value in wanted)

        def put() -> None:
            outputs[:] = wanted

        if wanted != list(outputs):
            editor.change("outputs", (), put)

    def values_inside(self, model: ir.Model) -> list[ir.Value]:
        """Return the interior values that become outputs."""
        known = values_of(model)
        wanted = (known.get(name) for name in self.names)
        return [value for value in wanted if value is not None and value.producer() is not None]

    def inputs_after(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the data unchanged."""
        return {name: sample[name] for name in self._taken if name in sample}

    def outputs_after(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the values of the new outputs."""
        return {name: results[name] for name in self._returned if name in results}
