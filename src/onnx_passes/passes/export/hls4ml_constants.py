"""A separate constant for each use, as hls4ml removes a constant with the first layer that absorbs it."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.graph.uses import is_used_elsewhere
from onnx_passes.rewrite.editor import Editor

_RULE = "constants of their own"


def give_own_constants(editor: Editor) -> None:
    """Give every node input with a shared initializer its own copy."""
    graph, names = editor.graph, editor.scope.names
    shared = [value for value in graph.initializers.values() if is_used_elsewhere(value) and not value.is_graph_input()]
    if not shared:
        return

    def make() -> None:
        for value in shared:
            for user, index in list(value.uses())[0 if value.is_graph_output() else 1 :]:
                own = ir.Value(
                    name=names.value(value.name or "constant"),
                    type=value.type,
                    shape=value.shape,
                    const_value=value.const_value,
                )
                graph.register_initializer(own)
                user.replace_input_with(index, own)

    editor.change(_RULE, list(dict.fromkeys(node for value in shared for node in value.consumers())), make)
