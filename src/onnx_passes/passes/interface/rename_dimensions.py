"""Rename dynamic dimensions."""

from __future__ import annotations

import re
from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.errors import OptionError, PassFailedError, did_you_mean
from onnx_passes.core.options import named_by_user
from onnx_passes.graph import annotations
from onnx_passes.graph.extents import symbols_of
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.equality
@passes.register(tags=("interface", "shapes"))
class RenameDimensions(EditorPass):
    """Rename dynamic dimensions everywhere.

    Rewrites: with ``N=batch`` the input ``x: float[N,3,H,W]`` → ``x: float[batch,3,H,W]``, and a size of ``2*N`` inside
              the model → ``2*batch``.
    Refuses:  names that no dimension has; the name of another dimension, as both would become equal.
    Exactness: bit-exact.
    """

    names: Mapping[str, object] = named_by_user("dimension, and its new name")

    def __post_init__(self) -> None:
        for old, new in self.names.items():
            if not re.fullmatch(r"[A-Za-z_]\w*", str(new)):
                raise OptionError(
                    f"'{new}' is not a name for dimension '{old}'", hint="write letters, digits and _, a letter first"
                )

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Replace the old names everywhere."""
        names = {old: str(new) for old, new in self.names.items() if old != new}
        values = [value for value in annotations.values(model.graph) if value.shape is not None]
        known = dict.fromkeys(symbol for value in values for dim in value.shape or () for symbol in symbols_of(dim))
        for old, new in names.items():
            if old not in known and new not in known:
                hint = did_you_mean(old, known) or f"dimensions: {', '.join(known) or 'none has a name'}"
                raise PassFailedError(f"no value has a dimension '{old}'", hint=hint)
            if old in known and new in known and new not in names:
                raise PassFailedError(
                    f"dimension '{old}' cannot become '{new}': another dimension has this name",
                    hint="choose another name",
                )
        if len({*names.values()}) < len(names):
            raise PassFailedError("two dimensions would have the same name", hint="give each its own")
        if not any(old in known for old in names):
            return

        def put() -> None:
            for value in values:
                assert value.shape is not None
                if any(names.keys() & symbols_of(dim) for dim in value.shape):
                    dims = [_renamed(dim, names) for dim in value.shape]
                    denotations = [value.shape.get_denotation(axis) for axis in range(len(dims))]
                    value.shape = ir.Shape(dims, denotations=denotations)

        editor.change("names of dimensions", (), put)


def _is_plain(dim: ir.SymbolicDim) -> bool:
    """Return whether a dimension is a name, not an expression."""
    return symbols_of(dim) <= {dim.value}


def _renamed(dim: int | ir.SymbolicDim, names: Mapping[str, str]) -> int | ir.SymbolicDim:
    if isinstance(dim, int) or dim.value is None:
        return dim
    if _is_plain(dim):
        return ir.SymbolicDim(names.get(dim.value, dim.value))
    return ir.SymbolicDim(re.sub(r"[A-Za-z_]\w*", lambda word: names.get(word[0], word[0]), dim.value))
