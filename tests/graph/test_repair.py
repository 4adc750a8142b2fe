"""Repairs on import: models that are meant well become executable, and say what was done."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import helper

import onnx_passes
from onnx_passes.core.errors import ModelError
from onnx_passes.graph import annotations
from onnx_passes.graph.load import load, origin
from onnx_passes.graph.repair import KNOWN_DOMAINS, MAX_IR_VERSION


def parse(body: str, head: str = 'ir_version: 8, opset_import: ["" : 17]', signature: str | None = None):
    return onnx.parser.parse_model(f"<{head}> g {signature or '(float[2] x) => (float[2] y)'} {{ {body} }}")


def repairs(model: ir.Model) -> tuple[str, ...]:
    source = origin(model)
    assert source is not None
    return source.repairs


def session(model: ir.Model) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])


def test_a_good_model_needs_no_repair():
    assert repairs(load(parse("y = Relu(x)"))) == ()


@pytest.mark.parametrize("domain", sorted(KNOWN_DOMAINS))
def test_imports_of_known_domains_are_added(domain):
    model = load(parse(f"y = {domain}.Quant(x)"))
    assert model.opset_imports[domain] == KNOWN_DOMAINS[domain]
    assert repairs(model) == (f"import of domain '{domain}' was missing: version {KNOWN_DOMAINS[domain]} added",)


@pytest.mark.parametrize(("opset", "ml"), [(9, 1), (13, 2), (17, 3), (20, 4), (21, 5)])
def test_import_of_the_ml_domain_fits_the_opset(opset, ml):
    head = f'ir_version: 8, opset_import: ["" : {opset}]'
    model = load(parse("y = ai.onnx.ml.Scaler <offset = [1.0], scale = [2.0]> (x)", head))
    assert model.opset_imports["ai.onnx.ml"] == ml
    assert session(model).run(None, {"x": np.array([1, 2], np.float32)})[0].tolist() == [0.0, 2.0]


def test_imports_are_added_in_subgraphs_and_functions():
    model = load(
        onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 7]>
        g (float[2] x, bool c) => (float[2] y) {
          h = f.F(x)
          y = If (c) <
            then_branch = t () => (float[2] a) { a = onnx.brevitas.Quant(h) },
            else_branch = e () => (float[2] b) { b = Identity(h) }
          >
        }
        <opset_import: ["" : 17], domain: "f"> F (a) => (b) { q = finn.T(a) b = com.microsoft.Gelu(q) }""")
    )
    assert model.opset_imports == {"": 17, "com.microsoft": 7, "onnx.brevitas": 1, "f": 1}
    (function,) = model.functions.values()
    assert function.opset_imports == {"": 17, "finn": 1, "com.microsoft": 7}
    assert "import of domain 'finn' in function 'F' was missing: version 1 added" in repairs(model)


def test_an_unknown_domain_is_refused():
    with pytest.raises(ModelError, match=r"the Foo node that yields 'y' is of domain 'bar', which is not imported"):
        load(parse("y = bar.Foo(x)"))


def test_a_missing_default_domain_is_refused_unless_the_format_had_none():
    with pytest.raises(ModelError, match="of the default domain, which is not imported"):
        load(parse("y = Relu(x)", 'ir_version: 8, opset_import: ["com.microsoft" : 1]'))
    model = parse("y = Relu(x)", "ir_version: 2")
    del model.opset_import[:]
    loaded = load(model)
    assert loaded.opset_imports == {"": 1}
    assert loaded.ir_version == 3
    assert repairs(loaded) == ("IR version 2 knows no operator sets: taken as opset 1",)
    onnx.checker.check_model(ir.to_proto(loaded))


def test_a_model_of_custom_operators_alone_needs_no_default_domain():
    model = load(parse("y = finn.T(x)", 'ir_version: 8, opset_import: ["finn" : 1]'))
    assert model.opset_imports == {"finn": 1}


def test_ai_onnx_is_the_default_domain():
    model = load(parse("h = ai.onnx.Relu(x) y = Neg(h)", 'ir_version: 8, opset_import: ["ai.onnx" : 17]'))
    assert model.opset_imports == {"": 17}
    assert {node.domain for node in model.graph} == {""}
    assert repairs(model) == ("import of domain 'ai.onnx': taken as the default domain",)
    session(model)


def test_of_two_imports_the_last_counts_as_in_onnx_runtime():
    proto = parse("y = Relu(x)", 'ir_version: 8, opset_import: ["" : 9, "" : 17]')
    assert [entry.version for entry in proto.opset_import] == [9, 17]
    model = load(proto)
    assert model.opset_imports == {"": 17}
    assert repairs(model) == ("domain '' was imported twice: version 17 kept",)


def annotate(proto: onnx.ModelProto, name: str, **texts: str) -> None:
    annotation = proto.graph.quantization_annotation.add(tensor_name=name)
    for key, text in texts.items():
        annotation.quant_parameter_tensor_names.add(key=key, value=text)


def test_repeated_annotations_are_merged():
    proto = parse("y = Relu(x)")
    annotate(proto, "x", finn_datatype="INT4")
    annotate(proto, "y", finn_datatype="UINT8")
    annotate(proto, "x", tensor_layout="NC")
    model = load(proto)
    assert annotations.get(model.graph.inputs[0]) == {"finn_datatype": "INT4", "tensor_layout": "NC"}
    assert annotations.get(model.graph.outputs[0]) == {"finn_datatype": "UINT8"}
    assert repairs(model) == ("1 repeated quantization annotations were merged",)


def test_of_contradicting_annotations_the_last_counts():
    proto = parse("y = Relu(x)")
    annotate(proto, "x", finn_datatype="INT4")
    annotate(proto, "x", finn_datatype="INT8")
    model = load(proto)
    assert annotations.get(model.graph.inputs[0]) == {"finn_datatype": "INT8"}
    assert "annotation 'finn_datatype' of 'x' was 'INT4' and 'INT8': last kept" in repairs(model)


def test_annotations_in_subgraphs_are_merged():
    proto = parse(
        """y = If (c) <
          then_branch = t () => (float[2] a) { a = Relu(x) },
          else_branch = e () => (float[2] b) { b = Neg(x) }
        >""",
        signature="(float[2] x, bool c) => (float[2] y)",
    )
    inner = proto.graph.node[0].attribute[0].g
    for key in ("k", "l"):
        inner.quantization_annotation.add(tensor_name=inner.output[0].name).quant_parameter_tensor_names.add(
            key=key, value="v"
        )
    model = load(proto)
    graph = model.graph.node(0).attributes[proto.graph.node[0].attribute[0].name].as_graph()
    assert annotations.get(graph.outputs[0]) == {"k": "v", "l": "v"}


@pytest.mark.parametrize("version", [MAX_IR_VERSION, MAX_IR_VERSION + 1, 40])
def test_the_ir_version_is_one_that_onnx_runtime_reads(version):
    model = load(parse("y = Relu(x)", f'ir_version: {version}, opset_import: ["" : 17]'))
    assert model.ir_version == MAX_IR_VERSION
    assert bool(repairs(model)) is (version > MAX_IR_VERSION)
    session(model)


@pytest.mark.parametrize(("overload", "version"), [("", 8), (":one", 10)])
def test_functions_and_overloads_raise_the_ir_version(overload, version):
    said = ', overload: "one"' if overload else ""
    model = load(
        onnx.parser.parse_model(f"""<ir_version: 7, opset_import: ["" : 17, "f" : 1]>
        g (float[2] x) => (float[2] y) {{ y = f.F{overload}(x) }}
        <opset_import: ["" : 17], domain: "f"{said}> F (a) => (b) {{ b = Neg(a) }}""")
    )
    assert model.ir_version == version
    assert session(model).run(None, {"x": np.array([1, 2], np.float32)})[0].tolist() == [-1, -2]


def test_unsorted_graphs_are_sorted_with_subgraphs_and_functions():
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17, "f" : 1]>
    g (float[2] x, bool c) => (float[2] y) {
      y = Neg(k)
      k = If (c) <
        then_branch = t () => (float[2] a) { a = Neg(i) i = Relu(h) },
        else_branch = e () => (float[2] b) { b = Identity(h) }
      >
      h = f.F(x)
    }
    <opset_import: ["" : 17], domain: "f"> F (a) => (b) { b = Neg(u) u = Abs(a) }""")
    model = load(proto)
    assert repairs(model) == ("the nodes were not in an order that can run: sorted",)
    assert [node.op_type for node in model.graph] == ["F", "If", "Neg"]
    onnx.checker.check_model(ir.to_proto(model))
    feeds = {"x": np.array([-3, 4], np.float32), "c": np.array(True)}
    assert session(model).run(None, feeds)[0].tolist() == [0.0, 0.0]


def test_a_subgraph_may_run_before_an_outer_value_is_listed():
    model = load(
        parse(
            """y = If (c) <
              then_branch = t () => (float[2] a) { a = Neg(h) },
              else_branch = e () => (float[2] b) { b = Abs(h) }
            >
            h = Relu(x)""",
            signature="(float[2] x, bool c) => (float[2] y)",
        )
    )
    assert [node.op_type for node in model.graph] == ["Relu", "If"]


def test_attributes_without_type_get_one_from_their_value():
    proto = parse("h = Flatten <axis = 0> (x) y = Squeeze <axes = [0]> (h)", 'ir_version: 3, opset_import: ["" : 9]')
    for node in proto.graph.node:
        node.attribute[0].ClearField("type")
    model = load(proto)
    assert model.graph.node(0).attributes.get_int("axis") == 0
    assert model.graph.node(1).attributes.get_ints("axes") == (0,)
    assert repairs(model) == ("2 attributes did not say their type: told from their value",)


def test_texts_that_are_not_utf8_are_made_valid():
    proto = parse("[name] y = Relu(x)")
    proto.doc_string = "docu"
    content = proto.SerializeToString().replace(b"name", b"n\xffme").replace(b"docu", b"\xb5\xc4\xb5\xc4")
    model = load(content)
    assert model.graph.node(0).name == "n\ufffdme"
    assert repairs(model) == ("2 names or documentations were not UTF-8: marks put in place",)
    ir.to_proto(model)


def test_names_of_values_that_are_not_utf8_are_refused():
    content = parse("value = Relu(x) y = Neg(value)").SerializeToString().replace(b"value", b"v\xfflue")
    with pytest.raises(ModelError, match="is not UTF-8"):
        load(content)


def test_names_and_overridable_initializers_are_left_alone():
    proto = parse(
        "h = Add(x, w) y = Add(h, w)", signature="(float[2] x, float[2] w) => (float[2] y) <float[2] w = {1.0, 2.0}>"
    )
    proto.ir_version = 3
    proto.graph.node[0].name = proto.graph.node[1].name = "twice"
    model = load(proto)
    assert [value.name for value in model.graph.inputs] == ["x", "w"]
    assert [node.name for node in model.graph] == ["twice", "twice"]
    assert model.graph.initializers["w"] is model.graph.inputs[1]
    assert repairs(model) == ()


def test_repairs_are_made_once():
    proto = helper.make_model(parse("y = onnx.brevitas.Quant(x)").graph, ir_version=MAX_IR_VERSION + 1)
    proto.opset_import[0].domain = "ai.onnx"
    first = load(proto)
    assert len(repairs(first)) == 3
    assert repairs(load(ir.to_proto(first))) == ()


REPEATED = """
<ir_version: 10, opset_import: ["": 20]>
g (float[2] x) => (float[2] y, float[2] z)
{
    c = Constant<value = float[1] {1.0}>()
    y = Add(x, c)
    z = Mul(x, c)
    c = Constant<value = float[1] {5.0}>()
}
"""


def test_last_of_repeated_constants_counts_as_in_onnx_runtime():
    proto = onnx.parser.parse_model(REPEATED)
    x = np.array([1, 2], np.float32)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    expected = onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, {"x": x})
    model = load(proto)
    assert origin(model).repairs[0] == ("1 constants were defined again, such as 'c': last kept, as ONNX Runtime does")
    found = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(found, expected)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


def test_other_repeated_definitions_are_refused():
    text = REPEATED.replace("c = Constant<value = float[1] {5.0}>()", "c = Neg(x)")
    with pytest.raises(ModelError, match="'c' is defined twice"):
        load(onnx.parser.parse_model(text))


@pytest.mark.parametrize(("operator", "shape"), [("Squeeze", [8, 1, 1, 4]), ("Unsqueeze", [8, 4])])
def test_axes_that_do_not_ascend_are_sorted(operator, shape):
    text = f"""<ir_version: 7, opset_import: ["" : 9]>
    g (float{shape} x) => (int64[n] y) {{ s = {operator} <axes = [2, 1]> (x) y = Shape(s) }}"""
    model = load(text.encode())
    assert model.graph.node(0).attributes.get_ints("axes") == (1, 2)
    assert origin(model).repairs == ("the axes of 1 Squeeze or Unsqueeze did not ascend: sorted",)
    result = onnx_passes.apply(model, "simplify")
    folded = result.model.graph.outputs[0].producer().attributes["value"].as_tensor()
    assert folded.numpy().tolist() == ([8, 4] if operator == "Squeeze" else [8, 1, 1, 4])
