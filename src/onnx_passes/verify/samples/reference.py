"""Reference data: files and arrays that become samples, each a whole set of inputs or outputs of a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import cast

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.datatypes.base import EXACT_IN_DOUBLE
from onnx_passes.graph.tensor_types import integer_limits
from onnx_passes.verify.run.execute import Sample
from onnx_passes.verify.samples.numpy_files import Array, LazyArray, read_numpy
from onnx_passes.verify.samples.sources import Opened, listed, open_source

Source = str | PathLike[str] | Array | Mapping[str, Array] | Opened

_BY_ORDER = re.compile(r"arr_(\d+)")


def read_inputs(model: ir.Model, sources: Iterable[Source]) -> list[Sample]:
    """Read samples of the inputs of a model from ``.npy``, ``.npz`` and ``.pb`` files, arrays or mappings.

    Arrays find their input by name, or by order among the inputs without a default; every source holds a whole
    sample, or each holds some of the inputs. Stacked samples are taken apart: arrays with one leading dimension more
    than the model declares, or with many rows where the model declares exactly one; a dynamic first dimension keeps
    its batch. Element types match exactly, or every value survives the conversion.
    """
    defaults = model.graph.initializers
    ports = _Ports("input", {str(v.name): v for v in model.graph.inputs}, {str(name) for name in defaults})
    samples = _read(ports, sources)
    for sample in samples:
        _agree_on_dimensions(ports, sample)
    return samples


def read_outputs(model: ir.Model, sources: Iterable[Source], *, samples: int = 1) -> list[Sample]:
    """Read samples of the expected outputs of a model, by the rules of ``read_inputs``; every output is needed.

    ``samples`` is how many the inputs hold: as many rows are taken apart where the declared shape leaves them open.
    """
    return _read(_Ports("output", {str(v.name): v for v in model.graph.outputs}, set()), sources, samples)


@dataclass(frozen=True)
class _Ports:
    """The inputs or the outputs of a model."""

    kind: str
    values: Mapping[str, ir.Value]
    optional: set[str]

    @property
    def needed(self) -> list[str]:
        """Names that a sample cannot do without; where all have defaults, a sample gives them all the same."""
        return [name for name in self.values if name not in self.optional] or list(self.values)

    def describe(self, names: Iterable[str]) -> str:
        """List names with their kind: ``inputs 'x' and 'y'``."""
        quoted = [f"'{name}'" for name in names]
        plural = "s" if len(quoted) != 1 else ""
        return f"{self.kind}{plural} {' and '.join([', '.join(quoted[:-1]), quoted[-1]] if quoted[1:] else quoted)}"


@dataclass(frozen=True)
class _Given:
    """One array, the place it was found in, and the name it has there, if any."""

    where: str
    name: str | None
    data: Array | LazyArray
    is_used_at_once: bool = False


def _read(ports: _Ports, sources: Iterable[Source], expected: int = 1) -> list[Sample]:
    loaded = [_load(source, number, ports) for number, source in enumerate(listed(sources), 1)]
    samples: list[Sample] = []
    groups = _grouped(ports, loaded)
    rows = expected if len(groups) == 1 else 1
    for group in groups:
        assigned = _assign(ports, group)
        stacks = {name: _stack(ports, name, given, rows) for name, given in assigned.items()}
        counts = {name: len(stack) for name, stack in stacks.items()}
        if len(set(counts.values())) > 1:
            found = ", ".join(f"{count} for '{name}'" for name, count in counts.items())
            raise UsageError(
                f"the {ports.kind}s hold different numbers of samples: {found}",
                where=_places(group),
                hint=f"give every {ports.kind} the same number of samples",
            )
        for number in range(next(iter(counts.values()), 1)):
            samples.append({name: stack[number] for name, stack in stacks.items()})
    return samples


def _load(source: Source, number: int, ports: _Ports) -> list[_Given]:
    if isinstance(source, np.ndarray):
        return [_Given(f"array {number}", None, source)]
    if isinstance(source, Mapping):
        return [_Given(f"mapping {number}", name, np.asarray(data)) for name, data in source.items()]
    if isinstance(source, Opened):
        return _named(source.where, source.found, ports)
    path = Path(source)
    opened = open_source(source)
    if opened is not None:
        return [replace(given, is_used_at_once=True) for given in _load(opened, number, ports)]
    if not path.is_file():
        near = did_you_mean(path.name, (p.name for p in path.parent.iterdir())) if path.parent.is_dir() else None
        raise UsageError("is a folder" if path.is_dir() else "there is no such file", where=str(path), hint=near)
    suffix = path.suffix.lower()
    if suffix in (".npy", ".npz"):
        return _named(str(path), read_numpy(path), ports)
    if suffix == ".pb":
        return [_load_proto(path, ports)]
    raise UsageError(
        f"reference data cannot be read from a file of kind '{suffix or path.name}'",
        where=str(path),
        hint="give .npy, .npz, or .pb (a serialised TensorProto); .parquet, .arrow or .zarr",
    )


def _named(where: str, found: Array | LazyArray | Mapping[str, Array | LazyArray], ports: _Ports) -> list[_Given]:
    """Give arrays of a file the names that they have there, unless numpy only counted them."""
    if not isinstance(found, Mapping):
        return [_Given(where, None, found)]
    given = [_Given(where, name, data) for name, data in found.items()]
    orders = [_BY_ORDER.fullmatch(name) for name in found]
    if all(orders) and not found.keys() & ports.values.keys():
        by_order = sorted(zip(orders, given, strict=True), key=lambda pair: int(cast("re.Match[str]", pair[0])[1]))
        return [_Given(g.where, None, g.data) for _, g in by_order]
    return given


def _load_proto(path: Path, ports: _Ports) -> _Given:
    import onnx
    from google.protobuf.message import DecodeError

    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(path.read_bytes())
        if not tensor.data_type:
            raise ValueError("it has no element type")
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ValueError("its data is in another file")
        data = cast("Array", onnx.numpy_helper.to_array(tensor))
    except (OSError, DecodeError, ValueError, TypeError, KeyError) as e:
        raise UsageError(f"this is not a readable TensorProto ({e})", where=str(path)) from e
    return _Given(str(path), tensor.name if tensor.name in ports.values else None, data)


def _grouped(ports: _Ports, loaded: Sequence[list[_Given]]) -> list[list[_Given]]:
    """Put together what makes one sample, or one stack of samples."""
    needed = ports.needed
    partial = [source for source in loaded if len(source) < len(needed)]
    if not partial:
        return list(loaded)
    if len(partial) < len(loaded):
        lacking = partial[0]
        raise UsageError(
            f"{len(lacking)} of {len(needed)} {ports.kind}s found, while other sources hold a whole sample each",
            where=_places(lacking) or None,
            hint=f"expected {ports.describe(needed)}",
        )
    arrays = [given for source in loaded for given in source]
    width = len(needed) if len(arrays) % len(needed) == 0 else len(arrays)
    if not len(needed) <= width <= len(ports.values):
        raise UsageError(
            f"found {len(arrays)} array{'s' if len(arrays) != 1 else ''} for {ports.describe(needed)}",
            where=_places(arrays) or None,
            hint=f"give {len(needed)} for every sample",
        )
    return [arrays[start : start + width] for start in range(0, len(arrays), width)]


def _assign(ports: _Ports, group: Sequence[_Given]) -> dict[str, _Given]:
    """Find the input or output that each array is for, in the order of the model."""
    assigned: dict[str, _Given] = {}
    for given in group:
        if given.name is None:
            continue
        if given.name not in ports.values:
            near = did_you_mean(given.name, ports.values)
            raise UsageError(
                f"the model has no {ports.kind} '{given.name}'",
                where=given.where,
                hint=near or (f"it has {ports.describe(ports.values)}" if ports.values else f"it has no {ports.kind}s"),
            )
        if given.name in assigned:
            raise UsageError(f"{ports.kind} '{given.name}' is given twice in one sample", where=given.where)
        assigned[given.name] = given
    unnamed = [given for given in group if given.name is None]
    free = [name for name in ports.needed if name not in assigned]
    if len(unnamed) > len(free):
        free = [name for name in ports.values if name not in assigned]
    if len(unnamed) > len(free):
        expected = f"{ports.describe(ports.values)}" if ports.values else f"a model without {ports.kind}s"
        raise UsageError(f"found {len(group)} arrays for {expected}", where=_places(group))
    assigned |= dict(zip(free, unnamed, strict=False))
    missing = [name for name in ports.needed if name not in assigned and name not in ports.optional]
    if missing:
        raise UsageError(
            f"{ports.describe(missing)} missing",
            where=_places(group) or None,
            hint=f"found {ports.describe(assigned)}" if assigned else None,
        )
    return {name: assigned[name] for name in ports.values if name in assigned}


def _stack(ports: _Ports, name: str, given: _Given, rows: int) -> list[Array]:
    """Return the samples in one array, with the element type and a shape that the model accepts."""
    value = ports.values[name]
    if value.type is not None and not isinstance(value.type, ir.TensorType):
        raise UsageError(
            f"{ports.kind} '{name}' is no tensor but {value.type}; arrays cannot hold it", where=given.where
        )
    if isinstance(given.data, LazyArray):
        rows_of = _in_shape(given.data, value.shape)
        is_stacked = value.shape is not None and rows_of.ndim > len(value.shape)
        if not (given.is_used_at_once or is_stacked):
            # Whoever reads a dataset cuts rows out of it, and that is what this can do.
            return [cast("Array", _unread(ports, name, given, rows_of))]
        given = replace(given, data=np.asarray(rows_of))
    data = _as_type(ports, name, given)
    open_rows = data.ndim > 0 and len(data) == rows > 1
    if value.shape is None:
        return _rows(data) if open_rows else [data]
    dims = value.shape.dims
    if data.ndim == len(dims) + 1:
        samples = [data[row, ...] for row in range(len(data))]
    elif dims and data.ndim == len(dims) and (dims[0] == 1 or (open_rows and isinstance(dims[0], ir.SymbolicDim))):
        samples = _rows(data)
    else:
        samples = [data]
    shape = samples[0].shape if samples else data.shape[1:]
    if not samples or not _fits(shape, dims):
        raise _misshapen(ports, name, given, data.shape)
    return samples


def _unread(ports: _Ports, name: str, given: _Given, data: LazyArray) -> LazyArray:
    """Return rows that will be converted when they are read, in a shape that the model accepts."""
    value = ports.values[name]
    if value.shape is not None and not _fits(data.shape, value.shape.dims):
        raise _misshapen(ports, name, given, data.shape)
    if value.dtype is None or value.dtype.numpy() == data.dtype:
        return data
    return data.converted(lambda rows: _as_type(ports, name, replace(given, data=rows)), value.dtype.numpy())


def _in_shape(data: LazyArray, shape: ir.Shape | None) -> LazyArray:
    """Give lists of a table the shape that they are meant for."""
    if shape is None or _fits(data.shape, shape.dims) or not data.holds(shape.dims[1:]):
        return data
    return data.shaped(cast("Sequence[int]", shape.dims[1:]))


def _misshapen(ports: _Ports, name: str, given: _Given, shape: Sequence[int]) -> UsageError:
    declared = ports.values[name].shape
    expected = "" if declared is None else _shape(declared.dims)
    what = f"{ports.kind} '{name}' has shape {_shape(shape)} but the model expects {expected}"
    return UsageError(what, where=given.where)


def _rows(data: Array) -> list[Array]:
    return [data[row : row + 1] for row in range(len(data))]


def _fits(shape: Sequence[int], dims: Sequence[int | ir.SymbolicDim]) -> bool:
    return len(shape) == len(dims) and all(
        size == dim or not isinstance(dim, int) or dim < 0 for size, dim in zip(shape, dims, strict=True)
    )


def _as_type(ports: _Ports, name: str, given: _Given) -> Array:
    data, dtype = cast("Array", given.data), ports.values[name].dtype
    if dtype is None:
        return data
    wanted = dtype.numpy()
    if not data.dtype.isnative:
        data = data.astype(data.dtype.newbyteorder("="))
    if dtype is ir.DataType.STRING:
        converted = _texts(data)
    elif data.dtype == wanted:
        return data
    else:
        converted = _exactly(data, dtype)
    if converted is None:
        lossy = _wide(data) is not None and dtype not in (ir.DataType.STRING, *_COMPLEX)
        raise UsageError(
            f"{ports.kind} '{name}' has element type {data.dtype} but the model expects {dtype.name.lower()} ({wanted})"
            + (", which cannot hold all of its values" if lossy else ""),
            where=given.where,
            hint=f"save the array as {'float32' if dtype.is_floating_point() and wanted.kind == 'V' else wanted}",
        )
    return converted


_COMPLEX = (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128)


def _texts(data: Array) -> Array | None:
    """Return text as an array of ``str`` objects, which is what ONNX Runtime takes."""
    if data.dtype.kind not in "USO":
        return None
    result = np.empty(data.shape, dtype=object)
    flat = result.reshape(-1)
    for index, item in enumerate(cast("list[object]", data.reshape(-1).tolist())):
        try:
            flat[index] = item.decode() if isinstance(item, bytes) else item
        except UnicodeDecodeError:
            return None
        if not isinstance(flat[index], str):
            return None
    return result


def _exactly(data: Array, dtype: ir.DataType) -> Array | None:
    """Convert between types of numbers if every value survives, between floats its sign included."""
    wide, wanted = _wide(data), dtype.numpy()
    if wide is None or dtype in _COMPLEX:
        return None
    if wide.size == 0:
        return wide.astype(wanted)
    if not dtype.is_floating_point():
        if wide.dtype.kind == "f" and not (np.isfinite(wide) & (wide == np.rint(wide))).all():
            return None
        low, high = integer_limits(dtype)
        # Python compares integers with floats exactly, numpy does not.
        return wide.astype(wanted) if low <= wide.min().item() and wide.max().item() <= high else None
    if wide.dtype.kind != "f":
        if max(-wide.min().item(), wide.max().item()) > EXACT_IN_DOUBLE:
            return None
        wide = wide.astype(np.float64)
    with np.errstate(all="ignore"):
        converted = wide.astype(wanted)
        back = converted.astype(np.float64)
    same = (back == wide) & (np.signbit(back) == np.signbit(wide)) | np.isnan(back) & np.isnan(wide)
    return converted if same.all() else None


def _wide(data: Array) -> Array | None:
    """Return real numbers in the widest type of their kind, nothing for anything else."""
    if data.dtype.kind == "b":
        return data.astype(np.uint8)
    if data.dtype.kind in "iu":
        return data
    if data.dtype.itemsize <= 8 and data.dtype.kind == "f":
        return data.astype(np.float64)
    try:
        known = ir.DataType.from_numpy(data.dtype) if data.dtype.kind == "V" else None
    except TypeError:
        return None
    return None if known is None else data.astype(np.float64 if known.is_floating_point() else np.int64)


def _agree_on_dimensions(ports: _Ports, sample: Sample) -> None:
    """Refuse inputs that disagree on the size of a dimension that the model gives one name."""
    sizes: dict[str, tuple[str, int]] = {}
    for name, data in sample.items():
        shape = ports.values[name].shape
        for dim, size in zip(shape.dims if shape is not None else (), data.shape, strict=shape is not None):
            if isinstance(dim, ir.SymbolicDim) and dim.value is not None:
                other, known = sizes.setdefault(dim.value, (name, size))
                if size != known:
                    raise UsageError(
                        f"dimension '{dim.value}' is {known} in input '{other}' but {size} in input '{name}'",
                        hint="give inputs of the same sample sizes that agree",
                    )


def _places(group: Iterable[_Given]) -> str:
    return ", ".join(dict.fromkeys(given.where for given in group))


def _shape(dims: Iterable[int | ir.SymbolicDim]) -> str:
    return "[" + ",".join(str(d) if isinstance(d, int) else d.value or "?" for d in dims) + "]"
