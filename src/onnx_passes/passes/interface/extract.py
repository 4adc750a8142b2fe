"""Extract a part of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.errors import OptionError, PassFailedError
from onnx_passes.core.options import internal, option
from onnx_passes.fragment.fragment import Fragment
from onnx_passes.graph import annotations
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.edits import carry_annotations, copy_type_and_shape, remove_all
from onnx_passes.passes.interface.values import named, require_once, values_of
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.equality
@passes.register(tags=("interface",))
class Extract(EditorPass):
    """Extract the part of a model between given values.

    Rewrites: with ``inputs=[a], outputs=[b]`` the model takes ``a``, regardless of its producer, and returns ``b``, in
              the order given. Types, shapes and annotations stay, and the needed initializers, functions and opset
              imports. Without ``inputs``, the needed inputs of the model stay, without ``outputs`` all outputs.
    Refuses:  names that no value has, patterns; inputs on which no output depends; outputs that depend on an input that
              is not named, that are constant, or are inputs.
    Exactness: bit-exact: the part computes the values inside the model.
    """

    needs = ("unique-names", "shape-inference")
    followed_by = ("remove-unused", "shape-inference")

    inputs: tuple[str, ...] = option((), "names of the values that the part takes; any value of the graph")
    outputs: tuple[str, ...] = option((), "names of the values that it returns, in this order")

    _taken: tuple[str, ...] = internal(())
    _returned: tuple[str, ...] = internal(())

    def __post_init__(self) -> None:
        if not (self.inputs or self.outputs):
            raise OptionError("no inputs or outputs are named", hint="as in extract{inputs=[a], outputs=[b]}")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Make the graph begin and end at the named values."""
        graph, known = model.graph, values_of(model)
        require_once(self.inputs, "input")
        require_once(self.outputs, "output")
        outputs = [named(name, known, "value") for name in self.outputs] or list(graph.outputs)
        inputs = [named(name, known, "value") for name in self.inputs]
        fragment = Fragment.between(inputs, outputs)
        _require_computed(outputs, inputs)
        _require_read(inputs, fragment)
        if self.inputs:
            _require_complete(inputs, fragment)
        else:
            inputs = [value for value in graph.inputs if value in fragment.inputs]
        defaults = [value for value in graph.inputs if value.is_initializer() and value in fragment.inputs]
        inputs = list(dict.fromkeys((*inputs, *defaults)))
        self._taken = tuple(str(value.name) for value in inputs)
        self._returned = tuple(str(value.name) for value in outputs)
        if inputs == list(graph.inputs) and outputs == list(graph.outputs):
            return
        kept = {*fragment.nodes, *(value.producer() for value in fragment.constants)}
        removed = [node for node in graph if node not in kept]

        def put() -> None:
            graph.outputs[:] = outputs
            graph.inputs[:] = [value if value.is_graph_input() else _as_input(value, editor) for value in inputs]
            remove_all(graph, removed)
            # ONNX Runtime does not take initializers of old models that nothing reads and that are no inputs.
            named = annotations.referenced_names(graph)
            for name in [name for name in graph.initializers if name not in named]:
                if graph.initializers[name] not in (*fragment.constants, *fragment.inputs):
                    graph.initializers.pop(name)

        editor.change("cut out", removed, put)

    def values_inside(self, model: ir.Model) -> list[ir.Value]:
        """Return the interior values that become inputs and outputs."""
        known = values_of(model)
        wanted = (known.get(name) for name in (*self.inputs, *self.outputs))
        return [value for value in wanted if value is not None and value.producer() is not None]

    def inputs_after(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the values of the inputs of the part."""
        return {name: sample[name] for name in self._taken if name in sample}

    def outputs_after(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the values of the outputs of the part."""
        return {name: results[name] for name in self._returned if name in results}


def _require_computed(outputs: Sequence[ir.Value], inputs: Sequence[ir.Value]) -> None:
    """Refuse outputs that no node computes."""
    for value in outputs:
        if value in inputs or value.producer() is None:
            kind = "an input" if value in inputs or value.is_graph_input() else "constant"
            raise PassFailedError(f"output '{value.name}' is {kind}", hint="name a value that a node computes")


def _require_read(inputs: Sequence[ir.Value], fragment: Fragment) -> None:
    """Refuse inputs that are constant or that no output depends on."""
    for value in inputs:
        if value.is_initializer() or is_constant(value):
            raise PassFailedError(
                f"input '{value.name}' is constant", hint=f"make-inputs{{initializers=[{value.name}]}} makes it one"
            )
        if value not in fragment.inputs and not value.is_graph_input():
            ends = ", ".join(f"'{output.name}'" for output in fragment.outputs)
            raise PassFailedError(f"input '{value.name}' is not needed: {ends} can be computed without it")


def _require_complete(inputs: Sequence[ir.Value], fragment: Fragment) -> None:
    """Refuse outputs that depend on an input of the model outside the fragment."""
    for missing in fragment.inputs:
        if missing not in inputs and not missing.is_initializer():
            output = next(v for v in fragment.outputs if missing in Fragment.between(inputs, [v]).inputs)
            users = [node for node in missing.consumers() if node in fragment.nodes]
            values = [v for node in users[:3] for v in node.outputs[:1] if v not in fragment.outputs]
            nearest = ", ".join(f"'{value.name}'" for value in values)
            other = f"a value behind it, as {nearest}" if nearest else "leave that output out"
            raise PassFailedError(
                f"'{output.name}' also depends on input '{missing.name}'",
                hint=f"add '{missing.name}' to the inputs, or {other}",
            )


def _as_input(value: ir.Value, editor: Editor) -> ir.Value:
    """Replace a computed value by an input."""
    taken = ir.Value(name=value.name)
    copy_type_and_shape(value, taken)
    carry_annotations(value, taken)
    # The node that computes it stays if another of its results is needed.
    value.name = editor.scope.names.value(f"{value.name}_uncut")
    for user, index in list(value.uses()):
        user.replace_input_with(index, taken)
    return taken
