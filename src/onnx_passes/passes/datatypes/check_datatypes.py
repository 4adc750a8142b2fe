"""Check tensors against their annotated data types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Analysis, AnalysisResult, Context
from onnx_passes.core.errors import ExitCode, PassFailedError, UsageError
from onnx_passes.core.options import option
from onnx_passes.datatypes import FLOAT32, DataType
from onnx_passes.graph import annotations
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.tensor_types import datatype_of
from onnx_passes.graph.wording import count
from onnx_passes.verify.run.execute import ExecutionError, Executor
from onnx_passes.verify.samples.generate import generate

_SHOWN = 5


class DataTypeError(PassFailedError):
    """A tensor holds numbers outside its data type."""

    exit_code = ExitCode.VERIFICATION


@passes.verify.equality
@passes.register(tags=("check", "datatypes"))
class CheckDatatypes(Analysis):
    """Check tensors against the data types that they are annotated with (``finn_datatype``).

    Rewrites: nothing; the model is only read and, unless ``execute`` is off, run on generated inputs.
    Refuses:  constants, defaults of inputs and interior results with a number outside their type, naming tensor, type
              and the first such number; data types that do not exist. Results inside subgraphs are not checked. If the
              model cannot be executed, a remark gives the reason.
    Exactness: changes nothing.
    """

    execute: bool = option(True, "also run the model on generated inputs and check the results of its nodes")
    seed: int = option(0, "seed of the generated inputs")

    def analyze(self, model: ir.Model) -> dict[str, Any]:
        """Run without a pass manager."""
        return self._check(model, Context())

    def run(self, model: ir.Model, context: Context) -> AnalysisResult:
        """Check, and note the results that could not be checked."""
        return AnalysisResult(model, modified=False, value=self._check(model, context))

    def _check(self, model: ir.Model, context: Context) -> dict[str, Any]:
        declared = {
            value: datatype
            for value in annotations.values(model.graph)
            if (datatype := datatype_of(value)) is not None and datatype != FLOAT32
        }
        constants = {value: tensor for value in declared if (tensor := _held(value)) is not None}
        _refuse(_misfits(v, declared[v], tensor.numpy()) for v, tensor in constants.items())
        results = [v for v in declared if v not in constants and v.producer() is not None and v.graph is model.graph]
        samples = self._run(model, {value: declared[value] for value in results}, context) if self.execute else 0
        return {"constants": len(constants), "results": len(results) if samples else 0, "samples": samples}

    def _run(self, model: ir.Model, results: dict[ir.Value, DataType], context: Context) -> int:
        """Check results of every sample; return the number of samples."""
        if not results:
            return 0
        by_name = {str(value.name): (value, datatype) for value, datatype in results.items()}
        try:
            executable = Executor().prepare(model, also=list(results))
            samples = generate(model, seed=self.seed)
            for sample in samples:
                arrays = executable.run(sample, only=list(by_name))
                _refuse(_misfits(*by_name[name], array) for name, array in arrays.items())
        except (ExecutionError, UsageError) as error:
            context.note(f"{count(results, 'result')} with a data type could not be checked: {error}")
            return 0
        return len(samples)


def _held(value: ir.Value) -> ir.TensorProtocol | None:
    """Return the tensor of a constant, or the default of an input."""
    return value.const_value if value.producer() is None else constant_tensor(value)


def _misfits(value: ir.Value, datatype: DataType, array: np.ndarray) -> str | None:
    """Describe the first number outside the data type; None if there is none."""
    wrong = np.flatnonzero(~datatype.allowed(array))
    if not wrong.size:
        return None
    first = int(wrong[0])
    index = [int(i) for i in np.unravel_index(first, array.shape)]
    more = f" and {wrong.size - 1} more" if wrong.size > 1 else ""
    where = f" at {index}" if index else ""
    return f"'{value.name}' is declared as {datatype}, but holds {array.reshape(-1)[first]}{where}{more}"


def _refuse(found: Iterator[str | None]) -> None:
    wrong = [text for text in found if text is not None]
    if wrong:
        unnamed = f"; and {count(len(wrong) - _SHOWN, 'more tensor')}" if len(wrong) > _SHOWN else ""
        raise DataTypeError("; ".join(wrong[:_SHOWN]) + unnamed, hint="infer-datatypes corrects wrong types")
