"""Cut a part out of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.errors import OptionError, PassFailedError
from onnx_passes.core.options import internal, option
from onnx_passes.graph import annotations
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.edits import carry_annotations, copy_type_and_shape, remove_all
from onnx_passes.graph.liveness import between
from onnx_passes.passes.interface.values import named, require_once, values_of
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.equality
@passes.register(tags=("interface",))
class Extract(EditorPass):
    """Cut out the part of a model that leads from some values to others.

    Rewrites: with ``inputs=[a], outputs=[b]`` the model takes ``a``, whatever computed it, and returns ``b``, in the
              order given. Types, shapes and annotations stay, and of initializers, functions and opset imports what
              is needed. Without ``inputs`` those of the model that are needed stay, without ``outputs`` all.
    Refuses:  names that no value has, patterns; inputs that no output depends on; outputs that depend on an input which
              is not named, which are constant, or are inputs.
    Exactness: bit-exact: the part computes what these values hold inside the model.
    """

    needs = ("unique-names", "shape-inference")
    followed_by = ("remove-unused", "shape-inference")

    inputs: tuple[str, ...] = option((), "names of the values that the part takes; any value of the graph")
    outputs: tuple[str, ...] = option((), "names of the values that it returns, in this order")

    _taken: tuple[str, ...] = internal(())
    _returned: tuple[str, ...] = internal(())

    def __post_init__(self) -> None:
        if not (self.inputs or self.outputs):
            raise OptionError("it is not said what is cut out", hint="as in extract{inputs=[a], outputs=[b]}")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Let the graph begin and end at the values that are named."""
        graph, known = model.graph, values_of(model)
        require_once(self.inputs, "input")
        require_once(self.outputs, "output")
        outputs = [named(name, known, "value") for name in self.outputs] or list(graph.outputs)
        inputs = [named(name, known, "value") for name in self.inputs]
        part = _Part(inputs, outputs)
        if self.inputs:
            part.refuse_missing(graph.inputs)
        else:
            inputs = [value for value in graph.inputs if value in part.values]
        defaults = [value for value in graph.inputs if value.is_initializer() and value in part.values]
        inputs = list(dict.fromkeys((*inputs, *defaults)))
        self._taken = tuple(str(value.name) for value in inputs)
        self._returned = tuple(str(value.name) for value in outputs)
        if inputs == list(graph.inputs) and outputs == list(graph.outputs):
            return
        removed = [node for node in graph if node not in part.nodes]

        def put() -> None:
            graph.outputs[:] = outputs
            graph.inputs[:] = [value if value.is_graph_input() else _as_input(value, editor) for value in inputs]
            remove_all(graph, removed)
            # ONNX Runtime does not take initializers of old models that nothing reads and that are no inputs.
            named = annotations.referenced_names(graph)
            for name in [name for name in graph.initializers if name not in named]:
                if graph.initializers[name] not in part.values:
                    graph.initializers.pop(name)

        editor.change("cut out", removed, put)

    def values_inside(self, model: ir.Model) -> list[ir.Value]:
        """Return the values of the model that its interface is cut to."""
        known = values_of(model)
        wanted = (known.get(name) for name in (*self.inputs, *self.outputs))
        return [value for value in wanted if value is not None and value.producer() is not None]

    def inputs_after(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the values that the part takes."""
        return {name: sample[name] for name in self._taken if name in sample}

    def outputs_after(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the values that the part returns."""
        return {name: results[name] for name in self._returned if name in results}


class _Part:
    """What lies between some values and others."""

    def __init__(self, inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> None:
        self.values, self.nodes = between(inputs, outputs)
        self._outputs, self._inputs = outputs, inputs
        for value in outputs:
            if value in inputs or value.producer() is None:
                kind = "an input" if value in inputs or value.is_graph_input() else "constant"
                raise PassFailedError(f"output '{value.name}' is {kind}", hint="name a value that a node computes")
        for value in inputs:
            if value.is_initializer() or is_constant(value):
                raise PassFailedError(
                    f"input '{value.name}' is constant", hint=f"make-inputs{{initializers=[{value.name}]}} makes it one"
                )
            if value not in self.values and not value.is_graph_input():
                ends = ", ".join(f"'{output.name}'" for output in outputs)
                raise PassFailedError(f"input '{value.name}' is not needed: {ends} can be computed without it")

    def refuse_missing(self, given: Iterable[ir.Value]) -> None:
        """Refuse outputs that depend on an input of the model which is not one of the part."""
        for missing in given:
            if missing in self.values and missing not in self._inputs and not missing.is_initializer():
                output = next(value for value in self._outputs if missing in between(self._inputs, [value])[0])
                raise PassFailedError(
                    f"'{output.name}' also depends on input '{missing.name}'",
                    hint=f"add '{missing.name}' to the inputs, or {self._between(missing)}",
                )

    def _between(self, missing: ir.Value) -> str:
        """Name a value further on that could be taken in the place of an input."""
        users = [node for node in missing.consumers() if node in self.nodes]
        some = [str(value.name) for node in users[:3] for value in node.outputs[:1] if value not in self._outputs]
        return f"a value behind it, as {', '.join(map(repr, some))}" if some else "leave that output out"


def _as_input(value: ir.Value, editor: Editor) -> ir.Value:
    """Put an input in the place of a value that was computed."""
    taken = ir.Value(name=value.name)
    copy_type_and_shape(value, taken)
    carry_annotations(value, taken)
    # The node that computes it stays if another of its results is needed.
    value.name = editor.scope.names.value(f"{value.name}_uncut")
    for user, index in list(value.uses()):
        user.replace_input_with(index, taken)
    return taken
