"""Declare the numbers of an input."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges import range_of_type
from onnx_passes.core.errors import OptionError, PassFailedError, UsageError, did_you_mean
from onnx_passes.core.options import internal, option
from onnx_passes.datatypes import DataType, FixedPoint, parse
from onnx_passes.graph.edits import prepend, read_instead
from onnx_passes.graph.shapes import rank
from onnx_passes.graph.tensor_types import datatype_of, declared_bounds, set_datatype, set_declared_bounds
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass

_MARK = "onnx_passes.input_scale"
_OFF = 0.01
"""Tolerance for data off the quantization levels, relative to the step: rounding elsewhere may have moved them."""


@passes.verify.equality
@passes.register(tags=("interface", "datatypes", "ranges"))
class SetInput(EditorPass):
    """Set the data type and the range of an input; with a scale, make it an input of integers.

    Rewrites: with ``name=x, type=UINT8`` the input is annotated as ``UINT8``, with ``low=0, high=1`` with this range.
              With ``scale=0.00392`` the input takes integers ``q``, and the consumers of ``x`` read ``q * scale``, or
              ``q * scale + bias``; lists have one number per index of ``axis``, as for means of colors.
    Refuses:  inputs that do not exist, or are also outputs; types without a range; a scale without a type, or of
              non-float inputs; lists whose length is not the size of the axis.
    Exactness: bit-exact, for inputs with such numbers: ``after(q) = before(q * scale + bias)``.
    """

    followed_by = ("shape-inference",)

    input: str = option("", "the input; optional if there is only one", name="name")
    type: str = option("", "data type of its numbers, as UINT8, INT4, BIPOLAR or FIXED<8,4>")
    low: float | None = option(None, "least number of the input")
    high: float | None = option(None, "greatest number of the input")
    scale: tuple[float, ...] = option((), "factors that turn the integers into the original input")
    bias: tuple[float, ...] = option((), "summands after the scale")
    axis: int = option(1, "axis of lists of scales and biases")

    _changed: str = internal("")
    _factors: tuple[np.ndarray, np.ndarray | None] | None = internal(None)

    def __post_init__(self) -> None:
        if not (self.type or self.low is not None or self.high is not None):
            raise OptionError("there is nothing to set", hint="give a type such as UINT8, or low and high")
        if self.type and range_of_type(parse(self.type)) is None:
            raise OptionError(f"'{self.type}' has no range of numbers", hint="write UINT8, INT4, BIPOLAR …")
        if (self.scale or self.bias) and not self.type:
            raise OptionError("a scale needs the type of the integers", hint="add type=UINT8, for example")
        if (self.low is None) != (self.high is None):
            raise OptionError("a range has two ends", hint="give low and high")
        if self.bounds is not None and not self.bounds[0] <= self.bounds[1]:
            raise OptionError(f"the range from {self.low} to {self.high} is empty", hint="give the lower end first")
        if not (np.isfinite([*self.scale, *self.bias]).all() and all(self.scale)):
            raise OptionError("a scale or bias is not a usable number", hint="scales are finite and not zero")

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Return the given range; None if there is none."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Annotate the input, and insert the scale after it."""
        self._changed, self._factors = "", None
        value = self._input(model)
        wanted = None if not self.type else parse(self.type)
        scaled = (self.scale or self.bias) and value.metadata_props.get(_MARK) != str(self)
        if not scaled and (wanted is None or datatype_of(value) == wanted) and declared_bounds(value) == self.bounds:
            return
        if scaled and not self._scale(value, editor):
            return
        if editor.change("numbers of an input", (), partial(_annotate, value, wanted, self.bounds)):
            self._changed = str(value.name)

    def _input(self, model: ir.Model) -> ir.Value:
        inputs = {str(v.name): v for v in model.graph.inputs if not v.is_initializer()}
        if not self.input and len(inputs) == 1:
            return next(iter(inputs.values()))
        if self.input not in inputs:
            hint = did_you_mean(self.input, inputs) or f"inputs: {', '.join(inputs)}"
            what = f"the model has no input '{self.input}'" if self.input else "no input is named"
            raise PassFailedError(what, hint=hint)
        return inputs[self.input]

    def _scale(self, value: ir.Value, editor: Editor) -> bool:
        """Insert scale and bias after an input; return False if that was vetoed."""
        if value.dtype is None or not value.dtype.is_floating_point() or value.is_graph_output():
            raise PassFailedError(
                f"input '{value.name}' cannot be scaled: it does not hold floats, or is also an output",
                hint="give only its type",
            )
        scale = self._along(value, self.scale or (1.0,))
        bias = self._along(value, self.bias) if self.bias else None
        op, nodes = editor.builder(), list(value.consumers())
        result = op.Mul(value, op.initializer(scale, f"{value.name}_scale"))
        if bias is not None:
            result = op.Add(result, op.initializer(bias, f"{value.name}_bias"))
        result.name = editor.scope.names.value(f"{value.name}_scaled")
        result.type, result.shape = value.type, value.shape

        def put() -> None:
            for initializer in op.initializers:
                initializer.name = editor.scope.names.value(str(initializer.name))
                editor.graph.register_initializer(initializer)
            for node in op.nodes:
                node.name = editor.scope.names.node(f"{value.name}/{node.op_type}")
            read_instead(value, op.nodes)
            prepend(editor.graph, op.nodes)
            value.metadata_props[_MARK] = str(self)

        done = editor.change("scale of an input", nodes, put, added=op.nodes, initializers=op.initializers)
        if done:
            self._factors = scale, bias
        else:
            op.discard()
        return done

    def _along(self, value: ir.Value, numbers: tuple[float, ...]) -> np.ndarray:
        """Return numbers as a constant that broadcasts along the axis."""
        assert value.dtype is not None
        found = np.array(numbers, value.dtype.numpy())
        if len(numbers) == 1:
            return found.reshape(())
        axes = rank(value)
        if axes is None or not -axes <= self.axis < axes:
            raise PassFailedError(f"input '{value.name}' has no axis {self.axis}", hint="give axis, or a single number")
        shape = value.shape
        size = None if shape is None else shape[self.axis]
        if isinstance(size, int) and size != len(numbers):
            raise PassFailedError(
                f"axis {self.axis} of input '{value.name}' has size {size}, but {len(numbers)} numbers are given",
                hint="give one for each, or a single one",
            )
        return found.reshape([-1, *(1,) * (axes - 1 - self.axis % axes)])

    def inputs_after(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return data of the original model for the new model. Raises UsageError if that is impossible."""
        given = sample.get(self._changed)
        if given is None:
            return dict(sample)
        numbers = given.astype(np.float64)
        if self._factors is not None:
            scale, bias = self._factors
            numbers = (numbers - (0 if bias is None else bias.astype(np.float64))) / scale.astype(np.float64)
        if self.type:
            numbers = _on_grid(numbers, parse(self.type), self._changed)
        low, high = self.bounds or (-np.inf, np.inf)
        if not ((low <= numbers) & (numbers <= high)).all():
            raise UsageError(f"input '{self._changed}' holds numbers beyond {low:g} and {high:g}")
        return {**sample, self._changed: numbers.astype(given.dtype)}

    def inputs_before(self, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return data of the new model for the original model."""
        if self._changed not in sample or self._factors is None:
            return dict(sample)
        scale, bias = self._factors
        scaled = sample[self._changed] * scale
        return {**sample, self._changed: scaled if bias is None else scaled + bias}

    def outputs_after(self, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the results unchanged."""
        return dict(results)


def _annotate(value: ir.Value, datatype: DataType | None, bounds: tuple[float, float] | None) -> None:
    if datatype is not None:
        set_datatype(value, datatype)
    set_declared_bounds(value, bounds)


def _on_grid(numbers: np.ndarray, datatype: DataType, name: str) -> np.ndarray:
    """Round numbers to those of a data type; refuse numbers that are further off than rounding errors."""
    step = 2.0**-datatype.fraction_bits if isinstance(datatype, FixedPoint) else 1.0
    rounded, known = np.rint(numbers / step) * step, range_of_type(datatype)
    assert known is not None
    wrong = (np.abs(numbers - rounded) > _OFF * step) | (rounded < known.low) | (rounded > known.high)
    wrong |= np.isnan(numbers)
    if str(datatype) == "BIPOLAR":
        wrong |= rounded == 0
    if wrong.any():
        raise UsageError(
            f"input '{name}' holds {numbers[wrong].flat[0]:g}, which is not a number of {datatype}",
            hint="correct type, scale or bias, or the data",
        )
    return rounded
