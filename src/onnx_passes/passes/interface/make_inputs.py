"""Convert initializers to inputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.errors import OptionError
from onnx_passes.core.options import internal, option
from onnx_passes.passes.interface.values import named, require_once
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.equality
@passes.register(tags=("interface",))
class MakeInputs(EditorPass):
    """Make initializers inputs of the model, after the existing ones; make-initializers is the inverse.

    Rewrites: with ``initializers=[w]`` the model ``g (x) => (y) <float[2] w = {1, 2}>`` → ``g (x, float[2] w) => (y)``;
              with ``default=true`` the value stays as the default of the input.
    Refuses:  names that no initializer of the graph has, patterns.
    Exactness: bit-exact for callers that pass the values of the initializers.
    """

    needs = ("lift-constants",)

    initializers: tuple[str, ...] = option((), "names of initializers")
    default: bool = option(False, "keep their values as defaults of the inputs")

    _arrays: dict[str, np.ndarray] = internal(default_factory=dict[str, np.ndarray])

    def __post_init__(self) -> None:
        if not self.initializers:
            raise OptionError("no initializers are named", hint=f"as in {self.name}{{initializers=[w]}}")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Declare the initializers as inputs, and remove their values."""
        graph = model.graph
        require_once(self.initializers, "initializer")
        known = dict(graph.initializers)
        free = {str(value.name) for value in graph.inputs if not value.is_initializer()}
        meant = [named(name, known, "initializer") for name in self.initializers if name not in free]
        self._arrays = {
            str(value.name): value.const_value.numpy()
            for value in meant
            if value.const_value is not None and not self.default
        }
        changed = [value for value in meant if not (self.default and value.is_graph_input())]

        def put() -> None:
            for value in changed:
                if not value.is_graph_input():
                    graph.inputs.append(value)
                if not self.default:
                    graph.initializers.pop(str(value.name))
                    value.const_value = None

        if changed:
            editor.change("initializers as inputs", (), put)

    def inputs_after(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the data with the values of the initializers."""
        return {**self._arrays, **sample}

    def outputs_after(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the results unchanged."""
        return dict(results)
