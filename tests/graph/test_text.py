"""ONNX text reads back as the very same model, whatever the syntax has no place for."""

import struct

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.graph.text import from_text, to_text

RELU = '<ir_version: 11, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'


def relu() -> onnx.ModelProto:
    return onnx.parser.parse_model(RELU)


def round_trip(model: onnx.ModelProto) -> tuple[str, list[str]]:
    """Print and parse a model, and check that nothing got lost; returns the text and the notes."""
    used_up = onnx.ModelProto()
    used_up.CopyFrom(model)
    text, notes = to_text(used_up)
    assert full_hash(ir.from_proto(from_text(text, "text"))) == full_hash(ir.from_proto(model))
    onnx.parser.parse_model(text)
    return text, notes


def test_a_plain_model_is_plain_text():
    text, notes = round_trip(relu())
    assert "#" not in text
    assert notes == []


def props(message) -> None:
    message.metadata_props.add(key='k "1"', value="v\n#@ graph {}")


def annotation(model: onnx.ModelProto) -> None:
    entry = model.graph.quantization_annotation.add(tensor_name="x")
    entry.quant_parameter_tensor_names.add(key="finn_datatype", value="INT4")


def attribute(value, name: str = "a", **options):
    return lambda m: m.graph.node[0].attribute.append(helper.make_attribute(name, value, **options))


def initializer(tensor: onnx.TensorProto):
    return lambda m: m.graph.initializer.append(tensor)


TENSOR = numpy_helper.from_array(np.array([1.5, -2], np.float32), "w.x/0")

KEPT_IN_COMMENTS = {
    "graph doc": (lambda m: setattr(m.graph, "doc_string", "d\ne"), "documentation"),
    "graph metadata": (lambda m: props(m.graph), "metadata"),
    "node doc": (lambda m: setattr(m.graph.node[0], "doc_string", 'd "q" é'), "documentation"),
    "node metadata": (lambda m: props(m.graph.node[0]), "metadata"),
    "value doc": (lambda m: setattr(m.graph.input[0], "doc_string", "d"), "documentation"),
    "value metadata": (lambda m: props(m.graph.output[0]), "metadata"),
    "type denotation": (lambda m: setattr(m.graph.input[0].type, "denotation", "IMAGE"), "denotations"),
    "dim denotation": (
        lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "denotation", "DATA_BATCH"),
        "denotations",
    ),
    "annotation": (annotation, "quantization annotations"),
    "constant name": (attribute(TENSOR), "names of constants"),
    "device": (lambda m: m.configuration.add(name="c", num_devices=2), "device configurations"),
}


@pytest.mark.parametrize("case", KEPT_IN_COMMENTS)
def test_what_text_has_no_place_for_is_kept_in_comments(case):
    change, word = KEPT_IN_COMMENTS[case]
    model = relu()
    change(model)
    text, notes = round_trip(model)
    assert text.count("\n#@ ") == 1
    assert len(notes) == 1
    assert word in notes[0]
    assert "other readers skip" in notes[0]


def test_several_remarks_are_one_note():
    model = relu()
    for change, _ in KEPT_IN_COMMENTS.values():
        change(model)
    text, (note,) = round_trip(model)
    assert text.count("\n#@ ") == 6
    assert "documentation, metadata, names of constants, quantization annotations" in note


NOT_FOR_OTHERS = {
    "odd domain": (
        lambda m: (setattr(m.graph.node[0], "domain", "a b"), m.opset_import.add(domain="a b", version=1)),
        "domains",
    ),
    "odd operator": (lambda m: setattr(m.graph.node[0], "op_type", "x-y"), "operators"),
    "odd attribute": (attribute(1, name="a.b"), "attributes"),
    "empty strings": (attribute([], attr_type=AttributeProto.STRINGS), "attributes"),
    "bytes": (attribute(b"\xff\x00"), "attributes"),
    "tensors": (attribute([TENSOR, TENSOR]), "attributes"),
    "complex": (initializer(helper.make_tensor("w", TensorProto.COMPLEX64, [2], [1 + 2j, 3])), "tensors"),
    "nan with payload": (
        initializer(TensorProto(name="w", data_type=1, dims=[1], raw_data=struct.pack("<I", 0x7FC00001))),
        "tensors",
    ),
    **{
        name: (initializer(helper.make_tensor("w", getattr(TensorProto, name), [3], [1, 0, 1])), "tensors")
        for name in ("INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1")
    },
    "int4 attribute": (attribute(helper.make_tensor("w", TensorProto.INT4, [3], [1, -2, 3])), "attributes"),
}


@pytest.mark.parametrize("case", NOT_FOR_OTHERS)
def test_what_other_readers_would_get_wrong_is_said(case):
    change, word = NOT_FOR_OTHERS[case]
    model = relu()
    change(model)
    _, notes = round_trip(model)
    assert notes == [f"ONNX text keeps {word} in comments: other readers see a wrong model"]


def test_data_kept_in_comments_are_no_zeros_to_others():
    model = relu()
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.INT4, [3], [1, -2, 3]))
    text, _ = round_trip(model)
    assert onnx.parser.parse_model(text).graph.initializer[0].data_location == TensorProto.EXTERNAL


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m, "doc_string", 'say "hi"\n#@ graph {}'),
        lambda m: (setattr(m, "producer_name", "p"), setattr(m, "domain", "d"), setattr(m, "model_version", 3)),
        lambda m: m.metadata_props.add(key='k "', value="v\n"),
        lambda m: setattr(m.graph, "name", "a b/c"),
        lambda m: setattr(m.graph.node[0], "name", 'a "b":0'),
        lambda m: m.graph.output[0].ClearField("type"),
        lambda m: m.graph.input[0].type.tensor_type.ClearField("shape"),
        lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_param", "N + 1"),
        lambda m: m.graph.node[0].input.extend(["", "x"]),
        attribute([0.1, float("inf"), float("-inf"), -0.0, 1e-45]),
        attribute(float("nan")),
        attribute('quoted "text"\nwith lines'),
        attribute([], attr_type=AttributeProto.INTS),
        attribute(helper.make_tensor_type_proto(1, [2, "N"])),
        initializer(numpy_helper.from_array(np.array(2.5, np.float32), "scalar")),
        initializer(numpy_helper.from_array(np.zeros((0, 3), np.int8), "empty")),
        initializer(helper.make_tensor("words", TensorProto.STRING, [2], ['a"b\n\\', "é"])),
        lambda m: m.graph.input.append(
            helper.make_value_info("s", helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [2])))
        ),
    ],
)
def test_what_the_syntax_can_say_needs_no_comments(change):
    model = relu()
    change(model)
    text, notes = round_trip(model)
    if onnx.__version__ < "1.23":
        pytest.skip("older printers and parsers of ONNX do not agree on some of it")
    assert "\n#@ " not in text.replace("\n#@ graph {}", "")
    assert notes == []


def test_an_undefined_type_is_kept():
    model = relu()
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.UNDEFINED
    round_trip(model)


def test_functions_keep_defaults_overloads_and_types():
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 17, "f" : 1]>
    g (float[2] x) => (float[2] y) { y = f.F:one <p = 1> (x) }
    <domain: "f", overload: "one", opset_import: ["" : 17]>
    F <p> (a) => (b) { b = LeakyRelu <alpha: float = @q> (a) }""")
    function = model.functions[0]
    function.attribute_proto.append(helper.make_attribute("q", 0.5))
    function.value_info.append(helper.make_tensor_value_info("b", 1, [2]))
    function.doc_string = "d"
    function.node[0].metadata_props.add(key="k", value="v")
    _, notes = round_trip(model)
    assert notes == [
        "ONNX text keeps documentation, metadata, types in functions in comments, which other readers skip",
        "ONNX text keeps defaults of function attributes in comments: other readers see a wrong model",
    ]


def test_subgraphs_keep_everything():
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 17]>
    g (float[2] x, bool c) => (float[2] y) {
      y = If (c) <
        then_branch = t () => (float[2] a) <float[2] w = {1.0, 2.0}> { [n] a = Add(x, w) },
        else_branch = e () => (float[2] b) { b = Neg(x) }
      >
    }""")
    inner = model.graph.node[0].attribute[0].g
    inner.doc_string = "d"
    props(inner.node[0])
    inner.quantization_annotation.add(tensor_name="a").quant_parameter_tensor_names.add(key="k", value="v")
    inner.initializer.append(helper.make_tensor("q", TensorProto.INT4, [3], [1, -2, 3]))
    text, _ = round_trip(model)
    assert "\n#@ graph/node/0/attribute/0/g/node/0 " in text


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([np.float32, np.float64, np.float16, np.int8, np.uint64, np.int64, np.bool_]),
    st.lists(st.integers(0, 3), max_size=3),
    st.integers(0, 2**32 - 1),
)
def test_every_bit_of_a_tensor_survives(kind, dims, seed):
    dtype = np.dtype(kind)
    count = int(np.prod(dims, dtype=int))
    bits = np.random.default_rng(seed).integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    array = (bits[:count] & 1).astype(bool) if dtype == np.bool_ else bits.view(dtype)
    model = relu()
    model.graph.initializer.append(numpy_helper.from_array(array.reshape(dims), "w"))
    text, _ = to_text(model)
    again = from_text(text, "text").graph.initializer[0]
    assert ir.TensorProtoTensor(again).tobytes() == array.tobytes()
    assert list(again.dims) == dims


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12))
def test_every_name_survives(name):
    model = relu()
    model.graph.node[0].name = name
    model.graph.node.add(op_type="Relu", input=["y"], output=[f"v{name}"], doc_string=name)
    round_trip(model)


@pytest.mark.parametrize(
    "remark",
    [
        "graph/node/7 {}",
        'graph/nodes {"name":"n"}',
        "graph {",
        'graph/node/0 {"no_such_field":1}',
        'SerializeToString {"a":1}',
        'graph/node/0 {"name":7}',
        "graph [1]",
    ],
)
def test_a_comment_that_fits_nothing_is_refused_with_its_line(remark):
    with pytest.raises(ModelError) as info:
        from_text(f"{RELU}\n#@ {remark}\n", "m.onnxtxt")
    assert info.value.where == "m.onnxtxt:2"


def test_other_comments_are_no_remarks():
    model = from_text(f"# first\n{RELU}\n# last\n", "text")
    assert model.graph.node[0].op_type == "Relu"
