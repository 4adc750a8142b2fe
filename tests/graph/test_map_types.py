"""Models that return maps, as exporters of scikit-learn write them, go through every step and keep their types."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper

import onnx_passes
from onnx_passes import RewriteRulePass, Transformation, passes
from onnx_passes.graph.map_types import holds_map
from onnx_passes.passes.analyse.inspection import inspect
from onnx_passes.verify.failure import PostconditionError
from onnx_passes.verify.run.child import KEYS, Child, with_maps_as_arrays
from onnx_passes.verify.run.resources import current_resources

X = {"x": np.array([[1, 2], [-1, 0.5]], np.float32)}


def classifier(**labels: list[int] | list[str]) -> onnx.ModelProto:
    """Build what skl2onnx writes for a classifier of three classes, with an Identity and a Cast to clean up."""
    [(name, classes)] = labels.items()
    kind = TensorProto.INT64 if name.endswith("int64s") else TensorProto.STRING
    scores = {
        "coefficients": [0.1, 0.2, 0.3, -0.1, 0.5, 0.4],
        "intercepts": [0.1, 0.2, 0.3],
        "classlabels_ints": [0, 1, 2],
    }
    nodes = [
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node(
            "LinearClassifier", ["same"], ["label", "scores"], domain="ai.onnx.ml", post_transform="SOFTMAX", **scores
        ),
        helper.make_node("Cast", ["label"], ["out_label"], to=TensorProto.INT64),
        helper.make_node("ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", **{name: classes}),
    ]
    maps = helper.make_map_type_proto(kind, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    outputs = [
        helper.make_tensor_value_info("out_label", TensorProto.INT64, ["N"]),
        helper.make_value_info("maps", helper.make_sequence_type_proto(maps)),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2])
    graph = helper.make_graph(nodes, "classifier", [x], outputs)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("labels", [{"classlabels_int64s": [7, 3, 5]}, {"classlabels_strings": ["b", "a", "c"]}])
@pytest.mark.parametrize("verify", [True, False])
def test_maps_are_kept_and_compared(labels: dict[str, list[int]], verify: bool, tmp_path: Path):
    model = classifier(**labels)
    given = model.SerializeToString()
    result = onnx_passes.simplify(model, verify=verify)
    assert model.SerializeToString() == given
    result.save(tmp_path / "m.onnx")
    saved = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(saved, full_check=True)
    assert [node.op_type for node in saved.graph.node] == ["LinearClassifier", "ZipMap"]
    assert saved.graph.output[1] == model.graph.output[1]
    assert result.proto.graph.output[1] == model.graph.output[1]
    before, after = (onnxruntime.InferenceSession(m.SerializeToString()).run(None, X) for m in (model, saved))
    assert before[1] == after[1]
    assert (before[0] == after[0]).all()
    if verify:
        assert result.record.level != "unverified"


def test_inspect_shows_the_type():
    [_, port] = inspect(classifier(classlabels_int64s=[7, 3, 5])).summary.outputs
    assert str(port) == "maps: seq(map(int64, float))"


def test_keys_and_values_are_returned_as_arrays():
    found = onnx_passes.run_model(classifier(classlabels_int64s=[7, 3, 5]), X)
    expected = onnxruntime.InferenceSession(classifier(classlabels_int64s=[7, 3, 5]).SerializeToString()).run(None, X)[
        1
    ]
    assert found["maps" + KEYS].tolist() == [[3, 5, 7]] * 2
    assert found["maps"].tolist() == [[each[key] for key in (3, 5, 7)] for each in expected]
    assert found["maps"].dtype == np.float32


@passes.verify.equality
class ChangeMaps(Transformation, RewriteRulePass):
    """Wrong on purpose: give classes other names, or scores other values."""

    classes: tuple[int, ...] = (7, 3, 6)

    def pattern(self, op, x):
        return op.ZipMap(x, _domain="ai.onnx.ml", _outputs=["y"])

    def check(self, op, x, y):
        return tuple(y.producer().attributes["classlabels_int64s"].as_ints()) == (7, 3, 5)

    def rewrite(self, op, x, y):
        return op.ZipMap(x, _domain="ai.onnx.ml", classlabels_int64s=list(self.classes))


@passes.verify.equality
class ChangeScores(ChangeMaps):
    """Wrong on purpose."""

    def check(self, op, x, y):
        return x.producer().op_type != "Add"

    def rewrite(self, op, x, y):
        return op.ZipMap(op.Add(x, x), _domain="ai.onnx.ml", classlabels_int64s=[7, 3, 5])


@pytest.mark.parametrize(("wrong", "where"), [(ChangeMaps, "maps keys"), (ChangeScores, "maps")])
def test_wrong_maps_are_found(wrong: type[Transformation], where: str):
    with pytest.raises(PostconditionError, match=re.escape(where)):
        onnx_passes.apply(classifier(classlabels_int64s=[7, 3, 5]), wrong())


@pytest.mark.parametrize("value", [[{3: 0.5, 1: 0.25}, {3: 1.0, 1: 0.0}], {"a": 1, "b": 2}])
def test_maps_come_back_from_a_process_as_they_are(value: object):
    child = Child(lambda: (lambda names, feeds: [value], None), current_resources())
    assert child.run(["y"], {}) == [value]


def test_rows_of_different_keys_stand_behind_one_another():
    found = with_maps_as_arrays([("y", [{"b": 2.0, "a": 1.0}, {"c": 3.0}]), ("z", np.ones(2))])
    assert found["y"].tolist() == [1, 2, 3]
    assert found["y keys"].tolist() == ["a", "b", "c"]
    assert found["z"].tolist() == [1, 1]


def test_text_of_others_in_the_metadata_does_no_harm():
    model = ir.from_onnx_text('<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) {y = Relu(x)}')
    model.graph.outputs[0].metadata_props["onnx_passes.type_with_maps"] = json.dumps("no type")
    proto = onnx_passes.apply(model, "checker").proto
    assert proto.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT
    assert not holds_map(proto.graph.output[0].type)


def test_maps_that_are_inputs_are_left_alone_and_the_run_is_not_verified():
    """The inference of onnx ends the process where an input of DictVectorizer has no type."""
    kind = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.INT64, None))
    nodes = [
        helper.make_node("DictVectorizer", ["m"], ["v"], domain="ai.onnx.ml", string_vocabulary=["a", "b"]),
        helper.make_node("Identity", ["v"], ["w"]),
        helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT),
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])
    graph = helper.make_graph(nodes, "vectorizer", [helper.make_value_info("m", kind)], [y])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    result = onnx_passes.simplify(model)
    assert result.record.level == "unverified"
    assert result.proto.graph.input[0] == model.graph.input[0]
    assert [node.op_type for node in result.proto.graph.node] == ["DictVectorizer", "Cast"]
    onnxruntime.InferenceSession(result.proto.SerializeToString())
