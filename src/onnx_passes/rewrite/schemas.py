"""Element types by operator schema: which inputs share a type, and which input an output takes it from."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir


@dataclass(frozen=True)
class Signature:
    """Type variables of inputs and outputs, and the types that a schema fixes."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    variadic: bool
    fixed: dict[str, ir.DataType]

    def variable(self, index: int) -> str | None:
        """Return the type variable of an input."""
        if index < len(self.inputs):
            return self.inputs[index]
        return self.inputs[-1] if self.variadic and self.inputs else None

    def dtype_of_input(self, index: int, known: Sequence[ir.DataType | None]) -> ir.DataType | None:
        """Tell the type that a constant must have at an input, from the other inputs or the schema."""
        variable = self.variable(index)
        if variable is None:
            return None
        if variable in self.fixed:
            return self.fixed[variable]
        return self._bound(variable, known)

    def dtype_of_output(self, index: int, known: Sequence[ir.DataType | None]) -> ir.DataType | None:
        """Tell the type of an output, from the inputs or the schema."""
        if index >= len(self.outputs):
            return None
        variable = self.outputs[index]
        return self.fixed.get(variable) or self._bound(variable, known)

    def _bound(self, variable: str, known: Sequence[ir.DataType | None]) -> ir.DataType | None:
        for index, dtype in enumerate(known):
            if dtype is not None and self.variable(index) == variable:
                return dtype
        return None


@functools.cache
def signature(domain: str, op_type: str, version: int) -> Signature | None:
    """Look up the signature of a standard operator."""
    import onnx

    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    fixed: dict[str, ir.DataType] = {}
    for parameter in (*schema.inputs, *schema.outputs):
        types = allowed.get(parameter.type_str, [parameter.type_str])
        if len(types) == 1 and types[0].startswith("tensor("):
            fixed[parameter.type_str] = _dtype(types[0])
    variadic = bool(schema.inputs) and schema.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    return Signature(
        tuple(p.type_str for p in schema.inputs), tuple(p.type_str for p in schema.outputs), variadic, fixed
    )


def _dtype(text: str) -> ir.DataType:
    return ir.DataType[text.removeprefix("tensor(").removesuffix(")").upper()]
