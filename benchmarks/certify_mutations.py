"""How often ``certify`` proves that a model and a mutant of it are the same although ONNX Runtime tells them apart.

    python benchmarks/certify_mutations.py [FOLDER…] [--mutants N] [--first N] [--seed N] [--keep FOLDER] [--seconds S]

Mutants are changes of one attribute, operand, constant, axis, type, operator set, default, body or edge: of small
models, and of pieces of a few nodes that are cut out of larger ones at random. Every fourth is a mutant of the
simplified model, so that windows hold more than the mutation. Each is compared by ONNX Runtime on ordinary inputs and
on special values. A mutant with other results must never be ``proved`` or ``proved-here``, and never
``equal-in-reals`` if ordinary results are further apart than rounding. A mutant with the same results that is not
proved is a candidate to look at: either the samples are too few, or the proof is missing. The mutant of a number is
always the same one; ``--first`` starts at a later number.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from results import record, table

sys.path.insert(0, str(Path(__file__).parent.parent))

from onnx_passes import apply
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.extents import symbols_of
from onnx_passes.graph.load import load
from onnx_passes.graph.randomness import is_random
from onnx_passes.passes.interface.fix_shapes import FixShapes
from onnx_passes.proofs.model_certificate import certify
from onnx_passes.proofs.runs import Runner
from tests.proofs.mutations import MUTATIONS, _graphs
from tests.proofs.small_models import small_models

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
EXACT = ("proved", "proved-here")
_SPECIALS = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, 0.5, -1.5)
_MOST_BYTES = 10_000_000
_WHOLE_NODES, _WHOLE_BYTES = 20, 10_000
_MOST_ELEMENTS = 1_024
"""Elements of the constants of a piece, and of any of its values."""
_PIECES = 12
"""Pieces that are cut out of one model."""
_SIZING = ("ConstantOfShape", "Expand", "Loop", "OneHot", "Pad", "Range", "Reshape", "Resize", "Scan", "Tile", "Trilu")
"""Operators for which integers are sizes: these stay small."""
_MOST_MEMORY = 8 * 2**30
_APART = 2.0**-10
"""Ordinary results that differ by more than this share of the largest differ by more than rounding."""


@dataclass
class Source:
    """A model to mutate, its simplified form, and what ONNX Runtime computes of samples."""

    name: str
    model: ir.Model
    simplified: ir.Model | None = None
    feeds: list[Feeds] = field(default_factory=list[Feeds])
    results: list[list[Array] | None] = field(default_factory=list[list[Array] | None])


@dataclass
class Tally:
    """Counts of mutants by what ONNX Runtime and ``certify`` say of them."""

    counts: Counter[str] = field(default_factory=Counter[str])
    kinds: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    false: list[str] = field(default_factory=list[str])
    candidates: list[str] = field(default_factory=list[str])


def main() -> None:
    """Certify mutants, print and keep the figures; exits with 1 if any proof is false."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--mutants", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for the pairs that are proved although they differ")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    given = parser.parse_args()
    # Whatever a model asks for, the machine is not ours alone.
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    sources = list(_sources(given.folders, given.seed))
    print(f"{len(sources)} models and pieces", flush=True)
    tally = Tally()
    started = time.process_time()
    number = given.first
    while tally.counts["mutants"] < given.mutants and time.process_time() - started < given.seconds:
        _try(sources[number % len(sources)], np.random.default_rng([given.seed, number]), number, tally, given.keep)
        number += 1
        if number % 500 == 0:
            print(f"number {number}: {tally.counts['mutants']} mutants, {time.process_time() - started:.0f} s, "
                  f"{len(tally.false)} false proofs", flush=True)  # fmt: skip
    _report(tally, len(sources), time.process_time() - started)
    sys.exit(1 if tally.false else 0)


def _try(source: Source, rng: np.random.Generator, number: int, tally: Tally, keep: Path | None) -> None:
    """Make a mutant, compare, certify, count."""
    of_simplified = number % 4 == 3 and source.simplified is not None
    mutant = copy_model(source.simplified if of_simplified and source.simplified is not None else source.model)
    kind = str(rng.choice(list(ALL)))
    try:
        if not ALL[kind](mutant, rng):
            return
        mutant = apply(mutant, "shape-inference", verify=False).model
    except Exception:  # noqa: BLE001 - what mutations leave behind may be no model at all
        return
    tally.counts["mutants"] += 1
    tally.counts["of simplified models"] += of_simplified
    different, apart = _compare(source, mutant)
    start = time.process_time()
    try:
        certificate = certify(source.model, mutant, effort="quick", solver=number % 8 == 0)
        level = certificate.level
    except OnnxPassesError:
        level = "refused"
    tally.counts["milliseconds"] += round(1000 * (time.process_time() - start))
    row = f"{'different' if different else 'same'}: {level}"
    tally.counts[row] += 1
    tally.kinds.setdefault(kind, Counter())[row] += 1
    if (different and level in EXACT) or (apart and level == "equal-in-reals"):
        told = f"{source.name}, number {number}, {kind}{', of the simplified' if of_simplified else ''}: {level}"
        tally.false.append(told)
        print(told, flush=True)
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            for letter, model in (("a", source.model), ("b", mutant)):
                ir.save(model, keep / f"{number}_{letter}.onnx")
    elif not different and level not in (*EXACT, "equal-in-reals"):
        tally.candidates.append(f"{source.name}, number {number}, {kind}: {level}")


def _compare(source: Source, mutant: ir.Model) -> tuple[bool, bool]:
    """Return whether results or interfaces differ, and whether ordinary results are further apart than rounding."""
    if _interface(source.model) != _interface(mutant):
        return True, True
    runner = Runner(mutant)
    different = apart = False
    for number, (feeds, expected) in enumerate(zip(source.feeds, source.results, strict=True)):
        found = runner(feeds)
        if expected is None or found is None:
            different |= (expected is None) is not (found is None)
            continue
        pairs = list(zip(expected, found, strict=False))
        different |= any(not _same_bits(x, y) for x, y in pairs)
        apart |= number < 2 and any(_are_apart(x, y) for x, y in pairs)
    return different, apart


def _interface(model: ir.Model) -> object:
    inputs = [(value.name, value.dtype, str(value.shape), value.is_initializer()) for value in model.graph.inputs]
    draws = sorted(f"{node.op_type} {[(a.name, a.value) for a in node.attributes.values()]}"
                   for graph in _graphs(model) for node in graph if is_random(node))  # fmt: skip
    return inputs, [value.name for value in model.graph.outputs], draws


def _same_bits(x: Array, y: Array) -> bool:
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.dtype.kind in "biuOSU":
        return np.array_equal(x, y)
    nan = np.isnan(x)
    return np.array_equal(nan, np.isnan(y)) and x[~nan].tobytes() == y[~nan].tobytes()


def _are_apart(x: Array, y: Array) -> bool:
    if x.shape != y.shape or x.dtype != y.dtype:
        return True
    if x.dtype.kind not in "f":
        return False
    a, b = x.astype(np.float64), y.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return True
    finite = np.isfinite(a)
    size = max(np.abs(a[finite]).max(initial=0.0), np.abs(b[finite]).max(initial=0.0))
    return bool((np.abs(a - b)[finite] > _APART * size).any())


def _samples(model: ir.Model) -> list[Feeds]:
    """Draw ordinary inputs, and some with special values in between."""
    found: list[Feeds] = []
    is_sizing = any(node.op_type in _SIZING for node in model.graph.all_nodes())
    for seed in range(2 + len(_SPECIALS)):
        random = np.random.default_rng(seed)
        feeds: Feeds = {}
        for value in model.graph.inputs:
            assert value.dtype is not None
            assert value.shape is not None
            shape, dtype = tuple(value.shape.numpy()), value.dtype.numpy()
            if value.dtype is ir.DataType.BOOL:
                array = random.random(shape) < 0.5
            elif value.dtype.is_integer():
                low, high = int(value.dtype.min), int(value.dtype.max)
                if seed >= 4 and not is_sizing:
                    array = random.integers(low, high, shape, dtype=dtype, endpoint=True)
                else:
                    array = random.integers(max(low, -9), min(high, 9), shape)
            else:
                array = np.asarray(random.normal(size=shape) * 2)
                if seed >= 2:
                    array.reshape(-1)[seed % 2 :: 2] = _SPECIALS[seed - 2]
            with np.errstate(all="ignore"):
                feeds[str(value.name)] = np.asarray(array).astype(dtype)
        found.append(feeds)
    return found


def _sources(folders: Sequence[Path], seed: int) -> Iterator[Source]:
    """Yield small models, and pieces of larger ones."""
    for name, model in small_models().items():
        yield from _source(name, model)
    paths = sorted(
        (path for folder in folders for path in folder.rglob("*.onnx")), key=lambda path: path.stat().st_size
    )
    for number, path in enumerate(path for path in paths if path.stat().st_size < _MOST_BYTES):
        try:
            model = _sized(load(path))
        except Exception as error:  # noqa: BLE001 - a model that cannot be used is left out
            print(f"{path.name} left out: {error}"[:160])
            continue
        if len(model.graph) <= _WHOLE_NODES and path.stat().st_size <= _WHOLE_BYTES:
            yield from _source(path.stem, model)
        for count, piece in enumerate(_pieces(model, np.random.default_rng([seed, number]))):
            yield from _source(f"{path.stem}#{count}", piece)


def _sized(model: ir.Model) -> ir.Model:
    names = {name for value in model.graph.inputs for dim in value.shape or () for name in symbols_of(dim)}
    fixed = [FixShapes(sizes=dict.fromkeys(names, 2))] if names else []
    return apply(model, [*fixed, "shape-inference"], verify=False).model


def _source(name: str, model: ir.Model) -> Iterator[Source]:
    """Yield a model that ONNX Runtime runs, with samples and with its simplified form."""
    if any(node.op_type in ("Loop", "Scan") for node in model.graph.all_nodes()) and "#" in name:
        return
    try:
        found = Source(name, model, feeds=_samples(model))
        runner = Runner(model)
        if runner(found.feeds[0]) is None:
            return
        found.results = [runner(feeds) for feeds in found.feeds]
        found.simplified = apply(copy_model(model), "simplify", verify=False).model
    except Exception:  # noqa: BLE001 - a model that cannot be used is left out
        return
    # Results of models that draw random numbers are never the same: of these interface and draws are compared.
    if any(is_random(node) for graph in _graphs(model) for node in graph):
        found.feeds = []
        found.results = []
    if _interface(found.simplified) != _interface(model):
        found.simplified = None
    yield found


def _pieces(model: ir.Model, rng: np.random.Generator) -> Iterator[ir.Model]:
    """Cut pieces of a few nodes out of a model, each ending with one value."""
    proto = ir.to_proto(model)
    constants = {tensor.name: tensor for tensor in proto.graph.initializer}
    types = {info.name: info for info in (*proto.graph.input, *proto.graph.value_info, *proto.graph.output)}
    makers = {name: node for node in proto.graph.node for name in node.output if name}
    nodes = list(proto.graph.node)
    seen: set[tuple[str, ...]] = set()
    for _ in range(min(_PIECES, 4 * len(nodes))):
        root = nodes[int(rng.integers(len(nodes)))]
        piece = _backwards(root, makers, int(rng.integers(1, 7)), rng)
        shape = tuple(f"{node.op_type}{[a.SerializeToString() for a in node.attribute]}" for node in piece)
        made = None if shape in seen else _assembled(proto, piece, root.output[0], constants, types)
        seen.add(shape)
        if made is not None:
            yield made


def _backwards(
    root: onnx.NodeProto, makers: dict[str, onnx.NodeProto], most: int, rng: np.random.Generator
) -> list[onnx.NodeProto]:
    found = {root.output[0]: root}
    edge = [root]
    while edge and len(found) < most:
        node = edge.pop(int(rng.integers(len(edge))))
        for name in node.input:
            maker = makers.get(name)
            if maker is not None and maker.output[0] not in found and len(found) < most:
                found[maker.output[0]] = maker
                edge.append(maker)
    order = {id(node): place for place, node in enumerate(dict.fromkeys(map(id, makers.values())))}
    return sorted(found.values(), key=lambda node: order.get(id(node), 0))


def _assembled(
    proto: onnx.ModelProto,
    piece: list[onnx.NodeProto],
    output: str,
    constants: dict[str, onnx.TensorProto],
    types: dict[str, onnx.ValueInfoProto],
) -> ir.Model | None:
    """Make a model of nodes; None if it has a subgraph, a constant that is too large, or an input of unknown type."""
    if any(attr.HasField("g") or attr.graphs for node in piece for attr in node.attribute) or output not in types:
        return None
    places = {id(node): place for place, node in enumerate(proto.graph.node)}
    piece = sorted(piece, key=lambda node: places.get(id(node), 0))
    made = {name for node in piece for name in node.output}
    read = list(dict.fromkeys(name for node in piece for name in node.input if name and name not in made))
    if any(name not in constants and name not in types for name in read):
        return None
    held = [constants[name] for name in read if name in constants]
    if sum(int(np.prod(tensor.dims)) for tensor in held) > _MOST_ELEMENTS:
        return None
    inputs = [types[name] for name in read if name not in constants]
    shapes = [info.type.tensor_type.shape for info in (*inputs, types[output])]
    if not inputs or any(not dim.HasField("dim_value") for shape in shapes for dim in shape.dim):
        return None
    if any(np.prod([dim.dim_value for dim in shape.dim]) > _MOST_ELEMENTS for shape in shapes):
        return None
    if any(not info.type.HasField("tensor_type") or info.type.tensor_type.elem_type == 8 for info in inputs):
        return None
    known = [types[name] for name in made if name in types and name != output]
    graph = onnx.helper.make_graph(piece, "piece", inputs, [types[output]], held, value_info=known)
    model = onnx.helper.make_model(graph, opset_imports=proto.opset_import, functions=proto.functions)
    model.ir_version = proto.ir_version
    return ir.from_proto(model)


# What the mutations of the tests leave out.


def _pick(rng: np.random.Generator, items: list[Any]) -> Any:
    return items[int(rng.integers(len(items)))] if items else None


_TEXTS = (
    ("constant", "reflect", "edge", "wrap"),
    ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"),
    ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    ("nearest", "linear", "cubic"),
    ("none", "tanh"),
    ("DCR", "CRD"),
    ("ROUND", "CEIL", "FLOOR", "ROUND_TO_ZERO", "HALF_UP"),
    ("LEFT", "RIGHT"),
    ("none", "add", "mul", "max"),
)


def _other_text(model: ir.Model, rng: np.random.Generator) -> bool:
    """Choose another mode of padding, of resizing, of rounding."""
    texts = [(node, attr, names) for node in model.graph.all_nodes() for attr in node.attributes.values()
             if attr.type is ir.AttributeType.STRING for names in _TEXTS if attr.as_string() in names]  # fmt: skip
    found = _pick(rng, texts)
    if found is None:
        return False
    node, attr, names = found
    other = str(rng.choice([name for name in names if name != attr.as_string()]))
    node.attributes[attr.name] = ir.AttrString(attr.name, other)
    return True


def _next_attribute(model: ir.Model, rng: np.random.Generator) -> bool:
    """Change a number by one unit in the last place."""
    floats = [(node, attr) for node in model.graph.all_nodes() for attr in node.attributes.values()
              if attr.type is ir.AttributeType.FLOAT]  # fmt: skip
    found = _pick(rng, floats)
    if found is None:
        return False
    node, attr = found
    value = float(np.nextafter(np.float32(attr.as_float()), np.float32(np.inf)))
    node.attributes[attr.name] = ir.AttrFloat32(attr.name, value)
    return True


def _other_order(model: ir.Model, rng: np.random.Generator) -> bool:
    """Exchange two numbers of a list."""
    lists = [(node, attr) for node in model.graph.all_nodes() for attr in node.attributes.values()
             if attr.type is ir.AttributeType.INTS and len(set(attr.as_ints())) > 1]  # fmt: skip
    found = _pick(rng, lists)
    if found is None:
        return False
    node, attr = found
    numbers = list(attr.as_ints())
    i, j = (int(each) for each in rng.choice(len(numbers), 2, replace=False))
    numbers[i], numbers[j] = numbers[j], numbers[i]
    node.attributes[attr.name] = ir.AttrInt64s(attr.name, numbers)
    return list(attr.as_ints()) != numbers


def _other_operand(model: ir.Model, rng: np.random.Generator) -> bool:
    """Exchange any two operands of a node, or use one of them twice."""
    node = _pick(rng, [node for node in model.graph.all_nodes() if len(set(node.inputs) - {None}) > 1])
    if node is None:
        return False
    i, j = (int(each) for each in rng.choice(len(node.inputs), 2, replace=False))
    first, second = node.inputs[i], node.inputs[j]
    if first is second or first is None or second is None:
        return False
    node.replace_input_with(i, second)
    if rng.random() < 0.7:
        node.replace_input_with(j, first)
    return True


def _without_operand(model: ir.Model, rng: np.random.Generator) -> bool:
    """Leave out the last operand."""
    node = _pick(rng, [node for node in model.graph.all_nodes() if len(node.inputs) > 1])
    if node is None:
        return False
    node.resize_inputs(len(node.inputs) - 1)
    return True


def _without_attribute(model: ir.Model, rng: np.random.Generator) -> bool:
    """Leave an attribute to its default."""
    plain = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    found = _pick(rng, [(node, attr) for node in model.graph.all_nodes() if node.op_type not in ("Constant", "Split")
                        for attr in node.attributes.values() if attr.type not in plain])  # fmt: skip
    if found is None:
        return False
    del found[0].attributes[found[1].name]
    return True


def _tensor(model: ir.Model, rng: np.random.Generator, change: Any) -> bool:
    values = [value for value in model.graph.initializers.values()
              if value.const_value is not None and value.const_value.dtype is not ir.DataType.STRING]  # fmt: skip
    value = _pick(rng, values)
    if value is None or value.const_value is None:
        return False
    array = value.const_value.numpy()
    changed = change(array.copy())
    if changed is None:
        return False
    dtype = value.const_value.dtype if changed.dtype == array.dtype else None
    value.const_value = ir.Tensor(changed, dtype, name=value.name)
    value.shape, value.type = ir.Shape(changed.shape), ir.TensorType(value.const_value.dtype)
    return True


def _exchanged_elements(model: ir.Model, rng: np.random.Generator) -> bool:
    """Exchange two elements of an initializer."""

    def change(array: Array) -> Array | None:
        flat = array.reshape(-1)
        if flat.size < 2:
            return None
        i, j = (int(each) for each in rng.choice(flat.size, 2, replace=False))
        if flat[i] == flat[j]:
            return None
        flat[[i, j]] = flat[[j, i]]
        return array

    return _tensor(model, rng, change)


def _transposed_constant(model: ir.Model, rng: np.random.Generator) -> bool:
    """Transpose or reshape an initializer."""

    def change(array: Array) -> Array | None:
        if array.ndim < 2 or array.size < 2:
            return array.reshape(1) if array.ndim == 0 else array.reshape(1, -1) if rng.random() < 0.5 else None
        axes = [int(each) for each in rng.permutation(array.ndim)]
        return np.ascontiguousarray(array.transpose(axes)) if rng.random() < 0.7 else array.reshape(array.shape[::-1])

    return _tensor(model, rng, change)


def _other_zero(model: ir.Model, rng: np.random.Generator) -> bool:
    """Change the sign of zeros, or replace an element by a special value."""

    def change(array: Array) -> Array | None:
        if array.dtype.kind != "f" or not array.size:
            return None
        flat = array.reshape(-1)
        zeros = np.flatnonzero(flat == 0)
        if zeros.size:
            flat[zeros[0]] = 0.0 if np.signbit(flat[zeros[0]]) else -0.0
        else:
            flat[int(rng.integers(flat.size))] = rng.choice([np.inf, -np.inf, np.nan, 0.0, -0.0])
        return array

    return _tensor(model, rng, change)


def _other_type(model: ir.Model, rng: np.random.Generator) -> bool:
    """Cast to another type."""
    node = _pick(rng, [node for node in model.graph.all_nodes() if node.op_type == "Cast" and not node.domain])
    if node is None:
        return False
    old = node.attributes.get_int("to", 1)
    node.attributes["to"] = ir.AttrInt64("to", int(rng.choice([t for t in (1, 2, 3, 6, 7, 9, 10, 11) if t != old])))
    for output in node.outputs:
        output.type = None
    return True


ALL = {
    **MUTATIONS,
    **{
        mutation.__name__.strip("_"): mutation
        for mutation in (
            _other_text, _next_attribute, _other_order, _other_operand, _without_operand, _without_attribute,
            _exchanged_elements, _transposed_constant, _other_zero, _other_type,
        )
    },
}  # fmt: skip


def _report(tally: Tally, sources: int, seconds: float) -> None:
    levels = ("proved", "proved-here", "equal-in-reals", "tested", "unproved", "refuted", "refused")
    head = ["ONNX Runtime computes", *levels]
    rows = [[which, *(tally.counts[f"{which}: {level}"] for level in levels)] for which in ("different", "same")]
    for row in (head, *rows):
        print("".join(f"{cell!s:>16}" for cell in row))
    kinds = [[kind, *(sum(counts[f"{which}: {level}"] for which in ("different", "same")) for level in levels)]
             for kind, counts in sorted(tally.kinds.items())]  # fmt: skip
    mutants = tally.counts["mutants"]
    each = tally.counts["milliseconds"] / max(mutants, 1)
    text = (
        f"{mutants} mutants ({tally.counts['of simplified models']} of simplified models) of {sources} models and "
        f"pieces in {seconds:.0f} s of CPU, {each:.0f} ms for each certificate: {len(tally.false)} false proofs, "
        f"{len(tally.candidates)} candidates"
    )
    print("\n".join([*tally.candidates[:40], *tally.false, text]))
    tables = [table("Mutants by level", head, rows), table("Mutations", ["mutation", *levels], kinds)]
    record("certify-mutations", "Certificates of mutants", f"{text}.", tables, tally.false)


if __name__ == "__main__":
    main()
