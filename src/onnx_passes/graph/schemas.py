"""Types in operator schemas: type variables of inputs and outputs, and types of attributes."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import onnx_ir as ir

from onnx_passes.core.errors import did_you_mean

if TYPE_CHECKING:
    import onnx

_PREFERRED_INTEGER = ir.DataType.INT64


@dataclass(frozen=True)
class Signature:
    """Type variables of inputs and outputs, the element types that each allows, and types of attributes.

    A parameter that may have values of different types at once has no variable.
    """

    inputs: tuple[str | None, ...]
    outputs: tuple[str | None, ...]
    variadic_inputs: bool
    variadic_outputs: bool
    allowed: Mapping[str, frozenset[ir.DataType]]
    attributes: Mapping[str, ir.AttributeType]

    def variable_of_input(self, index: int) -> str | None:
        """Return the type variable of an input."""
        return _variable(self.inputs, index, variadic=self.variadic_inputs)

    def variable_of_output(self, index: int) -> str | None:
        """Return the type variable of an output."""
        return _variable(self.outputs, index, variadic=self.variadic_outputs)

    def required_dtype(self, index: int, known: Sequence[ir.TypeProtocol | None]) -> ir.DataType | None:
        """Return the type that an input must have: that of other inputs with its variable, or the only one allowed."""
        variable = _variable(self.inputs, index, variadic=self.variadic_inputs)
        if variable is None:
            return None
        bound = self._bound(variable, known)
        if bound is not None:
            return bound.dtype
        allowed = self.allowed.get(variable, frozenset())
        return next(iter(allowed)) if len(allowed) == 1 else None

    def natural_dtype(
        self, index: int, known: Sequence[ir.TypeProtocol | None], *, integer: bool
    ) -> ir.DataType | None:
        """Return the type of a Python number at an input that allows several types.

        The type of the first input if allowed (``Pow(x, 2)``), else 64-bit integers if an integer is given and only
        integers are allowed (``Slice(x, [0], [2])``).
        """
        variable = _variable(self.inputs, index, variadic=self.variadic_inputs)
        allowed = frozenset[ir.DataType]() if variable is None else self.allowed.get(variable, frozenset())
        first = known[0].dtype if known and known[0] is not None else None
        if first in allowed:
            return first
        only_integers = integer and _PREFERRED_INTEGER in allowed and all(dtype.is_integer() for dtype in allowed)
        return _PREFERRED_INTEGER if only_integers else None

    def type_of_output(self, index: int, known: Sequence[ir.TypeProtocol | None]) -> ir.TypeProtocol | None:
        """Return the type of an output, from the inputs or because only one is allowed; None if unknown."""
        variable = _variable(self.outputs, index, variadic=self.variadic_outputs)
        if variable is None:
            return None
        bound = self._bound(variable, known)
        if bound is not None:
            return bound
        allowed = self.allowed.get(variable, frozenset())
        return ir.TensorType(next(iter(allowed))) if len(allowed) == 1 else None

    def _bound(self, variable: str, known: Sequence[ir.TypeProtocol | None]) -> ir.TypeProtocol | None:
        for index, type_ in enumerate(known):
            if type_ is not None and _variable(self.inputs, index, variadic=self.variadic_inputs) == variable:
                return type_
        return None


def _variable(variables: tuple[str | None, ...], index: int, *, variadic: bool) -> str | None:
    if index < len(variables):
        return variables[index]
    return variables[-1] if variadic else None


@functools.cache
def schema_of(domain: str, op_type: str, version: int | None = None) -> onnx.defs.OpSchema | None:
    """Return the schema of an operator in a version, or in the newest; None for unknown operators."""
    import onnx

    try:
        if version is None:
            return onnx.defs.get_schema(op_type, domain)
        return onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None


def is_standard(op_type: str) -> bool:
    """Return whether ONNX has an operator, in any version; much cheaper than to list them."""
    import onnx

    return onnx.defs.has(op_type)


@functools.cache
def standard_operators() -> frozenset[str]:
    """Return the names of all operators of ONNX, of any version."""
    import onnx

    return frozenset(schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == "")


def misspelt(domain: str, op_type: str) -> str | None:
    """Return a hint with similar names of ONNX operators; None for known operators and for other domains."""
    if domain not in ("", "ai.onnx") or is_standard(op_type):
        return None
    # Names with less similarity may be plug-ins in the wrong domain.
    as_long = {name.casefold(): name for name in standard_operators() if abs(len(name) - len(op_type)) <= 1}
    near = difflib.get_close_matches(op_type.casefold(), as_long, cutoff=0.75)
    return did_you_mean(op_type, [as_long[name] for name in near])


@functools.cache
def signature(domain: str, op_type: str, version: int) -> Signature | None:
    """Return the signature of a standard operator; None if it is unknown."""
    import onnx

    schema = schema_of(domain, op_type, version)
    if schema is None:
        return None
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    parameters = (*schema.inputs, *schema.outputs)
    types = {parameter.type_str: [parameter.type_str] for parameter in parameters}
    types.update({c.type_param_str: list(c.allowed_type_strs) for c in schema.type_constraints})
    return Signature(
        inputs=tuple(p.type_str if p.is_homogeneous else None for p in schema.inputs),
        outputs=tuple(p.type_str if p.is_homogeneous else None for p in schema.outputs),
        variadic_inputs=bool(schema.inputs) and schema.inputs[-1].option == variadic,
        variadic_outputs=bool(schema.outputs) and schema.outputs[-1].option == variadic,
        allowed={variable: _dtypes(allowed) for variable, allowed in types.items()},
        attributes={
            name: ir.AttributeType(int(cast(Any, attribute.type))) for name, attribute in schema.attributes.items()
        },
    )


@functools.cache
def allows(domain: str, op_type: str, version: int, variable: str, dtype: ir.DataType) -> bool:
    """Return whether a type variable of an operator allows tensors of an element type."""
    schema = schema_of(domain, op_type, version)
    if schema is None:
        return False
    found = (c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == variable)
    return f"tensor({dtype.name.lower()})" in next(found, ())


def _dtypes(types: Sequence[str]) -> frozenset[ir.DataType]:
    """Return the element types; empty if other types than tensors are among them."""
    if not all(text.startswith("tensor(") for text in types):
        return frozenset()
    return frozenset(ir.DataType[text.removeprefix("tensor(").removesuffix(")").upper()] for text in types)


@functools.cache
def default_attribute(domain: str, op_type: str, name: str, version: int) -> Any:
    """Return the default of an attribute; None if it has none."""
    import onnx

    schema = schema_of(domain, op_type, version)
    declared = None if schema is None else schema.attributes.get(name)
    if declared is None or not declared.default_value.name:
        return None
    value: Any = onnx.helper.get_attribute_value(declared.default_value)
    return value.decode() if isinstance(value, bytes) else value


@functools.cache
def takes_graphs(domain: str, op_type: str) -> bool:
    """Return whether a standard operator has graph attributes, as If and Loop have."""
    import onnx

    schema = schema_of(domain, op_type)
    attributes = () if schema is None else schema.attributes.values()
    return any(attribute.type == onnx.defs.OpSchema.AttrType.GRAPH for attribute in attributes)


@functools.cache
def parameter_names(domain: str, op_type: str) -> tuple[str, ...]:
    """Return the names of the inputs of a standard operator; empty for unknown ones."""
    schema = schema_of(domain, op_type)
    return () if schema is None else tuple(parameter.name for parameter in schema.inputs)
