from __future__ import annotations

import itertools
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.hashing.content import tensor_digest
from onnx_passes.graph.hashing.fingerprint import Fingerprinter, full_hash, structural_hash
from tests.helpers.mutations import MUTATIONS, mutate
from tests.helpers.random_models import copy_of, random_model, shuffle_names_and_order
from tests.helpers.small_models import files

SEEDS = st.integers(0, 2**32 - 1)


def model(body: str, *, inputs: str = "float[4] x", outputs: str = "float[4] y", opset: int = 18) -> ir.Model:
    return ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": {opset}]> g ({inputs}) => ({outputs}) {body}')


def with_nodes(*nodes: ir.Node, inputs: list[ir.Value], outputs: list[ir.Value], **kwargs: object) -> ir.Model:
    graph = ir.Graph(inputs, outputs, nodes=nodes, opset_imports={"": 18}, name="g", **kwargs)  # pyright: ignore
    return ir.Model(graph, ir_version=10)


def one_op(attribute: ir.Attr) -> ir.Model:
    x = ir.val("x", ir.DataType.FLOAT, [4])
    node = ir.Node("custom", "Op", [x], [attribute])
    node.outputs[0].name = "y"
    return with_nodes(node, inputs=[x], outputs=[node.outputs[0]])


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.booleans(), st.booleans())
def test_names_and_order_do_not_matter(seed: int, topological: bool, dead: bool):
    original = random_model(seed, dead=dead)
    shuffled = shuffle_names_and_order(original, seed, topological=topological)
    assert structural_hash(shuffled) == structural_hash(original)
    assert full_hash(shuffled) != full_hash(original)


@settings(max_examples=6, deadline=None)
@given(SEEDS)
def test_every_mutation_matters(seed: int):
    original = random_model(seed, dead=True)
    for name in MUTATIONS:
        try:
            changed, _ = mutate(original, seed, name)
        except ValueError:
            continue
        assert structural_hash(changed) != structural_hash(original), name
        assert full_hash(changed) != full_hash(original), name


def test_types_shapes_metadata_and_docs_do_not_matter():
    plain, dressed = (model("{ a = Relu(x) y = Add(a, x) }") for _ in range(2))
    node = dressed.graph[0]
    node.doc_string, node.metadata_props["k"] = "doc", "v"
    node.outputs[0].type, node.outputs[0].shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([4])
    dressed.graph.inputs[0].shape = ir.Shape(["N"])
    dressed.doc_string, dressed.producer_name, dressed.ir_version = "doc", "someone", 8
    dressed.graph.name = "another"
    dressed.graph.opset_imports["unused.domain"] = 3
    assert structural_hash(dressed) == structural_hash(plain)


DIFFERENT = {
    "operator": (model("{ y = Relu(x) }"), model("{ y = Abs(x) }")),
    "domain": (
        ir.from_onnx_text('<ir_version: 10, opset_import: ["a": 1, "b": 1]> g (float x) => (float y) { y = a.F(x) }'),
        ir.from_onnx_text('<ir_version: 10, opset_import: ["a": 1, "b": 1]> g (float x) => (float y) { y = b.F(x) }'),
    ),
    "opset version": (model("{ y = Relu(x) }"), model("{ y = Relu(x) }", opset=19)),
    "operand order": (model("{ a = Relu(x) y = Sub(a, x) }"), model("{ a = Relu(x) y = Sub(x, a) }")),
    "which output": (model("{ a, b = Split(x) y = Relu(a) }"), model("{ a, b = Split(x) y = Relu(b) }")),
    "outputs asked for": (model("{ y, m = Dropout(x) }"), model("{ y = Dropout(x) }")),
    "missing input": (model("{ y = Clip(x, x) }"), model("{ y = Clip(x, , x) }")),
    "input name": (model("{ y = Relu(x) }"), model("{ y = Relu(z) }", inputs="float[4] z")),
    "input type": (model("{ y = Relu(x) }"), model("{ y = Relu(x) }", inputs="double[4] x")),
    "unused input": (model("{ y = Relu(x) }"), model("{ y = Relu(x) }", inputs="float[4] x, float[4] z")),
    "output name": (model("{ y = Relu(x) }"), model("{ z = Relu(x) }", outputs="float[4] z")),
    "output order": (
        model("{ y = Relu(x) z = Abs(x) }", outputs="float[4] y, float[4] z"),
        model("{ y = Relu(x) z = Abs(x) }", outputs="float[4] z, float[4] y"),
    ),
    "shared node": (
        model("{ a = Relu(x) y = Add(a, a) }"),
        model("{ a = Relu(x) b = Relu(x) y = Add(a, b) }"),
    ),
    # The same nodes as bags of trees: only who reads which of the two Relus is different.
    "who shares": (
        model("{ a = Relu(x) b = Relu(x) c = Abs(a) d = Neg(a) e = Exp(b) y = Sum(c, d, e) }"),
        model("{ a = Relu(x) b = Relu(x) c = Abs(a) d = Neg(b) e = Exp(b) y = Sum(c, d, e) }"),
    ),
    "dead node": (model("{ y = Relu(x) }"), model("{ y = Relu(x) a = Relu(x) }")),
    "dead twins": (model("{ y = Relu(x) a = Abs(x) }"), model("{ y = Relu(x) a = Abs(x) b = Abs(x) }")),
    "dead sharing": (
        model("{ y = Relu(x) a = Abs(x) b = Neg(a) c = Exp(a) d = Abs(x) }"),
        model("{ y = Relu(x) a = Abs(x) b = Neg(a) d = Abs(x) c = Exp(d) }"),
    ),
    "branch": (
        model("{ y = If (c) <then_branch = t () => (u) { u = Relu(x) }, else_branch = e () => (v) { v = Abs(x) }> }",
              inputs="float[4] x, bool c"),
        model("{ y = If (c) <then_branch = t () => (u) { u = Neg(x) }, else_branch = e () => (v) { v = Abs(x) }> }",
              inputs="float[4] x, bool c"),
    ),
    "branches swapped": (
        model("{ y = If (c) <then_branch = t () => (u) { u = Relu(x) }, else_branch = e () => (v) { v = Abs(x) }> }",
              inputs="float[4] x, bool c"),
        model("{ y = If (c) <then_branch = t () => (u) { u = Abs(x) }, else_branch = e () => (v) { v = Relu(x) }> }",
              inputs="float[4] x, bool c"),
    ),
    "captured value": (
        model("{ a = Abs(x) b = Abs(x) y = If (c) <then_branch = t () => (u) { u = Relu(a) }, "
              "else_branch = e () => (v) { v = Relu(a) }> z = Neg(b) }",
              inputs="float[4] x, bool c", outputs="float[4] y, float[4] z"),
        model("{ a = Abs(x) b = Abs(x) y = If (c) <then_branch = t () => (u) { u = Relu(a) }, "
              "else_branch = e () => (v) { v = Relu(b) }> z = Neg(b) }",
              inputs="float[4] x, bool c", outputs="float[4] y, float[4] z"),
    ),
    "node inside or outside of a branch": (
        model("{ a = Abs(x) y = If (c) <then_branch = t () => (u) { u = Relu(a) }, "
              "else_branch = e () => (v) { v = Relu(x) }> }", inputs="float[4] x, bool c"),
        model("{ y = If (c) <then_branch = t () => (u) { a = Abs(x) u = Relu(a) }, "
              "else_branch = e () => (v) { v = Relu(x) }> }", inputs="float[4] x, bool c"),
    ),
    "dead node in a branch": (
        model("{ y = If (c) <then_branch = t () => (u) { u = Relu(x) }, else_branch = e () => (v) { v = Abs(x) }> }",
              inputs="float[4] x, bool c"),
        model("{ y = If (c) <then_branch = t () => (u) { u = Relu(x) d = Neg(x) }, "
              "else_branch = e () => (v) { v = Abs(x) }> }", inputs="float[4] x, bool c"),
    ),
    "attribute value": (one_op(ir.AttrInt64("k", 1)), one_op(ir.AttrInt64("k", 2))),
    "attribute name": (one_op(ir.AttrInt64("k", 1)), one_op(ir.AttrInt64("l", 1))),
    "attribute type": (one_op(ir.AttrInt64("k", 1)), one_op(ir.AttrFloat32("k", 1.0))),
    "signed zero": (one_op(ir.AttrFloat32("k", 0.0)), one_op(ir.AttrFloat32("k", -0.0))),
    "list or number": (one_op(ir.AttrInt64("k", 1)), one_op(ir.AttrInt64s("k", [1]))),
    "list of strings": (one_op(ir.AttrStrings("k", ["ab", "c"])), one_op(ir.AttrStrings("k", ["a", "bc"]))),
    "reference": (
        one_op(ir.RefAttr("k", "p", ir.AttributeType.INT)), one_op(ir.RefAttr("k", "q", ir.AttributeType.INT)),
    ),
    "type attribute": (
        one_op(ir.AttrTypeProto("k", ir.TypeAndShape(ir.TensorType(ir.DataType.FLOAT), ir.Shape([1])))),
        one_op(ir.AttrTypeProto("k", ir.TypeAndShape(ir.TensorType(ir.DataType.FLOAT), ir.Shape(["N"])))),
    ),
    "constant element": (
        model("<float[2] w = {1, 2}> { y = Add(x, w) }"), model("<float[2] w = {1, 3}> { y = Add(x, w) }"),
    ),
    "constant shape": (
        model("<float[2] w = {1, 2}> { y = Add(x, w) }"), model("<float[1,2] w = {1, 2}> { y = Add(x, w) }"),
    ),
    "constant type": (
        model("<int32[1] w = {1}> { y = F(x, w) }"), model("<uint32[1] w = {1}> { y = F(x, w) }"),
    ),
    "constant sharing": (
        model("<float w = {1}> { a = Add(x, w) y = Mul(a, w) }"),
        model("<float w = {1}, float v = {1}> { a = Add(x, w) y = Mul(a, v) }"),
    ),
    "unused constant": (model("{ y = Relu(x) }"), model("<float w = {1}> { y = Relu(x) }")),
}  # fmt: skip


@pytest.mark.parametrize("what", DIFFERENT)
def test_structure_matters(what: str):
    one, other = DIFFERENT[what]
    assert structural_hash(one) != structural_hash(other)
    assert structural_hash(one) == structural_hash(copy_of(one))


def test_an_initializer_that_can_be_overridden_is_another_structure():
    fixed = model("<float[4] w = {1, 2, 3, 4}> { y = Add(x, w) }", inputs="float[4] x, float[4] z")
    overridable = model("<float[4] w = {1, 2, 3, 4}> { y = Add(x, w) }", inputs="float[4] x, float[4] w")
    plain = model("{ y = Add(x, w) }", inputs="float[4] x, float[4] w")
    assert len({structural_hash(each) for each in (fixed, overridable, plain)}) == 3


def test_missing_inputs_and_outputs_at_the_end_do_not_matter():
    digests = set()
    for missing, outputs in (([], 1), ([None], 1), ([None, None], 2)):
        x = ir.val("x", ir.DataType.FLOAT, [4])
        node = ir.Node("", "Dropout", [x, *missing], num_outputs=outputs)
        for value, name in zip(node.outputs, ("y", ""), strict=False):
            value.name = name
        digests.add(structural_hash(with_nodes(node, inputs=[x], outputs=[node.outputs[0]])))
    assert len(digests) == 1


def test_not_a_number_equals_itself_and_attributes_are_single_precision():
    assert structural_hash(one_op(ir.AttrFloat32("k", float("nan")))) == structural_hash(
        one_op(ir.AttrFloat32("k", float("nan")))
    )
    in_memory = one_op(ir.AttrFloat32("k", 0.1))
    assert structural_hash(in_memory) == structural_hash(copy_of(in_memory))
    assert structural_hash(one_op(ir.AttrFloat32("k", 1e300))) == structural_hash(
        one_op(ir.AttrFloat32("k", float("inf")))
    )


FUNCTION = """<ir_version: 10, opset_import: ["": 18, "f": 1]> g (float[4] x) => (float[4] y) {{ y = f.{called}(x) }}
<domain: "f", opset_import: ["": 18, "f": 1]> Outer (a) => (b) {{ c = f.Inner <k = 2> (a) b = Relu(c) }}
<domain: "f", opset_import: ["": 18]> Inner <k> (a) => (b) {{ b = {inner} }}"""


def test_functions_count_if_they_are_called():
    reference = structural_hash(ir.from_onnx_text(FUNCTION.format(called="Outer", inner="Elu<alpha: float = @k>(a)")))
    renamed = FUNCTION.replace("(a) => (b)", "(p) => (q)").replace("(a)", "(p)").replace("b = ", "q = ")
    renamed = renamed.format(called="Outer", inner="Elu<alpha: float = @k>(p)")
    assert structural_hash(ir.from_onnx_text(renamed)) == reference
    other = FUNCTION.format(called="Outer", inner="Celu<alpha: float = @k>(a)")
    assert structural_hash(ir.from_onnx_text(other)) != reference
    one, two = (
        ir.from_onnx_text(FUNCTION.format(called="Inner", inner="Abs(a)").replace("Relu", outer))
        for outer in ("Relu", "Neg")
    )
    assert structural_hash(one) == structural_hash(two)
    assert full_hash(one) != full_hash(two)
    assert structural_hash(one.functions["f", "Outer", ""]) != structural_hash(two.functions["f", "Outer", ""])


def all_small_graphs(count: int) -> Iterator[tuple[tuple[tuple[str, ...], ...], int | None]]:
    """Return all ways to wire Relu and Add nodes over one input, with each node or none as output."""

    def wire(number: int) -> Iterator[tuple]:
        if number == 0:
            yield ()
            return
        for head in wire(number - 1):
            for first in range(-1, number - 1):
                yield (*head, ("Relu", first))
                for second in range(-1, number - 1):
                    yield (*head, ("Add", first, second))

    for nodes in wire(count):
        for output in (None, *range(count)):
            yield nodes, output


def build(nodes: tuple, output: int | None, order: tuple[int, ...]) -> ir.Model:
    x = ir.val("x", ir.DataType.FLOAT, [1])
    made: list[ir.Node] = []
    for op, *sources in nodes:
        made.append(ir.Node("", op, [x if source < 0 else made[source].outputs[0] for source in sources]))
    outputs = [] if output is None else [made[output].outputs[0]]
    for value in outputs:
        value.name = "y"
    return with_nodes(*(made[index] for index in order), inputs=[x], outputs=outputs)


def smallest_form(nodes: tuple, output: int | None) -> tuple:
    """Return what all isomorphic graphs have in common, by trying every numbering."""
    forms = []
    for number in itertools.permutations(range(len(nodes))):
        form = [()] * len(nodes)
        for index, (op, *sources) in enumerate(nodes):
            form[number[index]] = (op, *(source if source < 0 else number[source] for source in sources))
        forms.append((tuple(form), -1 if output is None else number[output]))
    return min(forms)


def test_digests_are_equal_exactly_for_isomorphic_graphs():
    rng = np.random.default_rng(0)
    digests = defaultdict(set)
    for nodes, output in all_small_graphs(3):
        digest = structural_hash(build(nodes, output, tuple(rng.permutation(3))))
        digests[smallest_form(nodes, output)].add(digest)
    assert all(len(found) == 1 for found in digests.values())
    assert len(set.union(*digests.values())) == len(digests) > 300


def test_unsorted_graphs_are_fine_and_cycles_are_refused():
    ordered, unsorted = model("{ a = Relu(x) y = Abs(a) }"), model("{ a = Relu(x) y = Abs(a) }")
    first = unsorted.graph[0]
    unsorted.graph.remove(first)
    unsorted.graph.append(first)
    assert structural_hash(unsorted) == structural_hash(ordered)
    first.replace_input_with(0, unsorted.graph.outputs[0])
    with pytest.raises(ModelError, match=r"cycle: Relu .* → Abs .* → Relu"):
        structural_hash(unsorted)
    unsorted.graph.outputs.clear()
    with pytest.raises(ModelError, match="cycle"):
        structural_hash(unsorted)


@pytest.mark.parametrize("keep_output", [True, False])
def test_deep_graphs_do_not_exhaust_the_stack(keep_output: bool):
    x = ir.val("x", ir.DataType.FLOAT, [1])
    nodes: list[ir.Node] = []
    for _ in range(5_000):
        nodes.append(ir.Node("", "Relu", [nodes[-1].outputs[0] if nodes else x]))
    deep = with_nodes(*nodes, inputs=[x], outputs=[nodes[-1].outputs[0]] if keep_output else [])
    digest = structural_hash(deep)
    nodes[2_000].op_type = "Abs"
    assert structural_hash(deep) != digest
    assert full_hash(deep) == full_hash(deep)


DTYPES = [dtype for dtype in ir.DataType if dtype not in (ir.DataType.UNDEFINED, ir.DataType.STRING)]


def some_array(dtype: ir.DataType) -> np.ndarray:
    bits = np.random.default_rng(0).integers(0, 2, size=(3, 5)).astype(np.int8)
    return bits.astype(dtype.numpy()) if dtype != ir.DataType.FLOAT8E8M0 else (bits + 1).astype(dtype.numpy())


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_tensors_are_equal_by_content_however_they_are_held(dtype: ir.DataType, tmp_path: Path):
    array = some_array(dtype)
    tensor = ir.Tensor(array, dtype=dtype)
    raw = ir.serde.TensorProtoTensor(ir.serde.serialize_tensor(tensor))
    (tmp_path / "data").write_bytes(b"----" + tensor.tobytes())
    shape = ir.Shape(array.shape)
    held = {
        "proto": raw,
        "lazy": ir.LazyTensor(lambda: tensor, dtype=dtype, shape=shape),
        "external": ir.ExternalTensor("data", 4, None, dtype, shape=shape, name="w", base_dir=tmp_path),
        "strided": ir.Tensor(np.asfortranarray(array), dtype=dtype),
    }
    if dtype.bitwidth < 8:
        packed = np.frombuffer(tensor.tobytes(), np.uint8)
        held["packed"] = ir.PackedTensor(packed, dtype, shape=shape)
    for kind, other in held.items():
        assert tensor_digest(other) == tensor_digest(tensor), kind
    changed = array.copy()
    changed[2, 4] = changed.dtype.type(1 if not array[2, 4] else 0)
    if dtype != ir.DataType.FLOAT8E8M0:
        assert tensor_digest(ir.Tensor(changed, dtype=dtype)) != tensor_digest(tensor)
    assert tensor_digest(ir.Tensor(array.reshape(5, 3), dtype=dtype)) != tensor_digest(tensor)


def test_tensors_in_typed_fields_equal_raw_ones():
    for data_type, values in (
        (onnx.TensorProto.FLOAT, [1.5, -0.0]),
        (onnx.TensorProto.INT64, [3, -4]),
        (onnx.TensorProto.UINT32, [3, 4]),
        (onnx.TensorProto.DOUBLE, [0.1, 2.0]),
        (onnx.TensorProto.INT8, [-3, 4]),
        (onnx.TensorProto.BOOL, [True, False]),
    ):
        typed = onnx.helper.make_tensor("w", data_type, [2], values)
        raw = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(typed), "w")
        assert not typed.HasField("raw_data")
        assert raw.HasField("raw_data")
        assert tensor_digest(ir.from_proto(typed)) == tensor_digest(ir.from_proto(raw))


def test_bits_that_pad_or_extend_narrow_elements_do_not_count():
    four_bits = ir.DataType.INT4
    canonical = ir.Tensor(np.array([-1, 3, 7], dtype=ml_dtypes.int4))
    extended = ir.Tensor(np.array([-1, 3, 7], np.int8).view(ml_dtypes.int4))
    padded = ir.PackedTensor(np.array([0x3F, 0xF7], np.uint8), four_bits, shape=ir.Shape([3]))
    assert tensor_digest(extended) == tensor_digest(canonical) == tensor_digest(padded)


def test_strings_are_told_apart_by_their_bounds():
    def strings(*elements: bytes) -> ir.StringTensor:
        return ir.StringTensor(list(elements), shape=ir.Shape([len(elements)]))

    assert tensor_digest(strings(b"ab", b"c")) != tensor_digest(strings(b"a", b"bc"))
    assert tensor_digest(strings(b"ab", b"c\0")) != tensor_digest(strings(b"ab", b"c"))
    proto = onnx.helper.make_tensor("w", onnx.TensorProto.STRING, [2], [b"ab", b"c"])
    array = ir.Tensor(np.array(["ab", "c"], dtype=object))
    assert tensor_digest(strings(b"ab", b"c")) == tensor_digest(ir.from_proto(proto)) == tensor_digest(array)


def test_missing_external_data_is_an_error_that_names_the_tensor(tmp_path: Path):
    tensor = ir.ExternalTensor(
        "gone", None, None, ir.DataType.FLOAT, shape=ir.Shape([4]), name="weights", base_dir=tmp_path
    )
    with pytest.raises(ModelError, match="tensor 'weights'"):
        tensor_digest(tensor)


def with_constant(tensor: ir.TensorProtocol) -> ir.Model:
    x = ir.val("x", ir.DataType.FLOAT, [4])
    w = ir.Value(name="w", const_value=tensor)
    node = ir.Node("", "Add", [x, w])
    return with_nodes(node, inputs=[x], outputs=[node.outputs[0]], initializers=[w])


def test_large_tensors_are_not_copied_and_read_only_once():
    reads = []
    tensor = ir.Tensor(np.zeros(4_000_000, np.float32))

    def read() -> ir.Tensor:
        reads.append(1)
        return tensor

    counted = with_constant(ir.LazyTensor(read, dtype=ir.DataType.FLOAT, shape=ir.Shape([4_000_000])))
    fingerprinter = Fingerprinter()
    tracemalloc.start()
    try:
        digest = fingerprinter.structural(counted)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert fingerprinter.structural(counted) == digest == structural_hash(with_constant(tensor))
    fingerprinter.full(counted)
    assert len(reads) == 1


def test_tensors_that_cannot_be_referred_to_weakly_are_digested_every_time():
    class Slotted:
        __slots__ = ()
        name, dtype, shape = "w", ir.DataType.FLOAT, ir.Shape([2])

        def numpy(self) -> np.ndarray:
            return np.ones(2, np.float32)

    tensor = ir.Tensor(np.ones(2, np.float32))
    assert Fingerprinter().contents.tensor(Slotted()) == tensor_digest(tensor)  # pyright: ignore


def test_a_tensor_that_is_gone_leaves_no_digest_behind():
    fingerprinter = Fingerprinter()
    digests = {fingerprinter.structural(with_constant(ir.Tensor(np.float32(value)))) for value in range(50)}
    assert len(digests) == 50


def reorder(changed: ir.Model) -> None:
    first = changed.graph[0]
    changed.graph.remove(first)
    changed.graph.append(first)


def annotate(changed: ir.Model) -> None:
    changed.graph[0].outputs[0].meta["quant_parameter_tensor_names"] = {"finn_datatype": "INT4"}


ONLY_SEEN: dict[str, Callable[[ir.Model], object]] = {
    "value name": lambda m: setattr(m.graph[0].outputs[0], "name", "other"),
    "initializer name": lambda m: setattr(m.graph.initializers["w"], "name", "other"),
    "node name": lambda m: setattr(m.graph[0], "name", "other"),
    "node order": reorder,
    "value type": lambda m: setattr(m.graph[0].outputs[0], "type", ir.TensorType(ir.DataType.FLOAT)),
    "value shape": lambda m: setattr(m.graph[0].outputs[0], "shape", ir.Shape([4])),
    "input shape": lambda m: setattr(m.graph.inputs[0], "shape", ir.Shape(["N"])),
    "dimension denotation": lambda m: setattr(m.graph.inputs[0], "shape", ir.Shape([4], denotations=["DATA_BATCH"])),
    "value metadata": lambda m: m.graph[0].outputs[0].metadata_props.update(k="v"),
    "value doc": lambda m: setattr(m.graph.inputs[0], "doc_string", "doc"),
    "node metadata": lambda m: m.graph[0].metadata_props.update(k="v"),
    "node doc": lambda m: setattr(m.graph[0], "doc_string", "doc"),
    "attribute doc": lambda m: setattr(m.graph[1].attributes["axis"], "doc_string", "doc"),
    "tensor metadata": lambda m: m.graph.initializers["w"].const_value.metadata_props.update(k="v"),
    "graph name": lambda m: setattr(m.graph, "name", "other"),
    "graph metadata": lambda m: m.graph.metadata_props.update(k="v"),
    "graph doc": lambda m: setattr(m.graph, "doc_string", "doc"),
    "model metadata": lambda m: m.metadata_props.update(k="v"),
    "model doc": lambda m: setattr(m, "doc_string", "doc"),
    "ir version": lambda m: setattr(m, "ir_version", 9),
    "producer": lambda m: setattr(m, "producer_name", "someone"),
    "producer version": lambda m: setattr(m, "producer_version", "1"),
    "model version": lambda m: setattr(m, "model_version", 7),
    "unused import": lambda m: m.graph.opset_imports.update(other=1),
    "quantization annotation": annotate,
}


@pytest.mark.parametrize("what", ONLY_SEEN)
def test_the_full_digest_covers_what_the_structural_one_leaves_out(what: str):
    text = "<float[4] w = {1, 2, 3, 4}> { a = Relu(x) b = Softmax<axis = 0>(a) y = Add(b, w) }"
    original, changed = model(text), model(text)
    assert full_hash(changed) == full_hash(original)
    ONLY_SEEN[what](changed)
    assert full_hash(changed) != full_hash(original)
    assert structural_hash(changed) == structural_hash(original)


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_the_full_digest_survives_cloning_and_a_round_trip(seed: int):
    original = random_model(seed, dead=True)
    annotate(original)
    assert full_hash(original.clone()) == full_hash(original) == full_hash(copy_of(original))


def test_asking_for_digests_changes_nothing():
    original = random_model(3, dead=True)
    before = ir.to_proto(original).SerializeToString(deterministic=True)
    structural_hash(original)
    full_hash(original)
    assert ir.to_proto(original).SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("path", files("zoo", "brevitas", "qcdq", "ort-quantized", "float", every=5), indirect=True)
def test_networks_keep_their_digest_when_shuffled(path: Path):
    original = ir.load(path)
    assert structural_hash(shuffle_names_and_order(original, 0)) == structural_hash(original)
