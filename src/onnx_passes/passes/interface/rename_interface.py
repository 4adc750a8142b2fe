"""Rename inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.errors import OptionError, PassFailedError
from onnx_passes.core.options import internal, named_by_user
from onnx_passes.graph import annotations
from onnx_passes.graph.edits import may_rename
from onnx_passes.passes.interface.values import named
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.equality
@passes.register(tags=("interface",))
class RenameInterface(EditorPass):
    """Rename inputs and outputs of a model.

    Rewrites: with ``x=image, y=logits`` the model ``g (x) => (y) { y = Relu(x) }`` → ``g (image) => (logits) { logits =
              Relu(image) }``; two values may exchange their names. An interior value with the new name is renamed.
    Refuses:  names that no input or output has, patterns; one name for two values, or that of an initializer.
    Exactness: bit-exact up to the names.
    """

    names: Mapping[str, object] = named_by_user("input or output, and its new name")

    _renamed: dict[str, str] = internal(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        for old, new in self.names.items():
            if not isinstance(new, str) or not new:
                raise OptionError(f"'{new}' is not a name for '{old}'", hint="as in rename-interface{x=image}")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Give each value its name, and rename interior values with the same name."""
        graph = model.graph
        self._renamed = {}
        known = {str(value.name): value for value in (*graph.inputs, *graph.outputs)}
        wanted = {named(old, known, "input or output"): str(new) for old, new in self.names.items()}
        wanted = {value: new for value, new in wanted.items() if value.name != new}
        taken = {value.name: value for value in annotations.values(graph) if value not in wanted}
        if len({*wanted.values()}) < len(wanted):
            raise PassFailedError("two values would have the same name", hint="give each its own")
        for value, new in wanted.items():
            other = taken.get(new)
            if other is not None and not may_rename(other):
                raise PassFailedError(
                    f"'{value.name}' cannot become '{new}': another input, output or constant has this name",
                    hint="choose another name, or rename the other one as well",
                )
        moved = {taken[new]: editor.scope.names.value(f"{new}_1") for new in wanted.values() if new in taken}
        if not wanted:
            return

        def put() -> None:
            names = {**moved, **wanted}
            renamed = {str(value.name): new for value, new in names.items()}
            # Temporary names avoid clashes, as when two values exchange their names.
            for value in names:
                value.name = editor.scope.names.value(f"{value.name}_renamed")
            for value, new in names.items():
                value.name = new
            annotations.rename_references(graph, renamed)

        old_names = {str(value.name): new for value, new in wanted.items()}
        if editor.change("names of inputs and outputs", (), put):
            self._renamed = old_names

    @property
    def renamed(self) -> Mapping[str, str]:
        """Return the new names by the old ones, of the last call."""
        return self._renamed

    def inputs_after(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the data under the new names."""
        return {self._renamed.get(name, name): array for name, array in sample.items()}

    def outputs_after(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the results under the new names."""
        return {self._renamed.get(name, name): array for name, array in results.items()}
