from __future__ import annotations

import json
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.check.blame.reproducer import read_reproducer, sources, versions, write_reproducer, write_samples
from onnx_passes.core.errors import UsageError
from onnx_passes.core.imports import import_user_modules
from onnx_passes.core.registry import REGISTRY

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
example (float[2] a) => (float[2] z) { z = Neg(a) }
"""
OWN_PASS = """
from onnx_passes import PassResult, Transformation, passes

@passes.register("my-own")
class MyOwn(Transformation):
    factor: int = 1
    def call(self, model):
        return PassResult(model, modified=False)
"""


@pytest.fixture
def own_pass(tmp_path):
    path = tmp_path / "own_reproducer_pass.py"
    path.write_text(OWN_PASS)
    import_user_modules([str(path)])
    yield path
    for key, entry in list(REGISTRY._entries.items()):
        if entry.module == path.stem:
            del REGISTRY._entries[key]
            REGISTRY._classes.pop(entry.name, None)
    del sys.modules[path.stem]


def kept(tmp_path: Path, samples, **more):
    folder = write_reproducer(
        tmp_path / "repro", ir.from_onnx_text(MODEL), "cleanup", samples, {"difference": "z: …"}, **more
    )
    return read_reproducer(folder)


def test_everything_comes_back(tmp_path):
    sample = {"a": np.array([1.5, -0.0], np.float32)}
    found = kept(tmp_path, [sample, {"a": sample["a"] + 1}], seed=7, tolerance=(1e-3, 0.0), imports=["some.module"])
    assert found.pipeline == "cleanup"
    assert found.tolerance == (1e-3, 0.0)
    assert found.imports == ("some.module",)
    assert found.versions == versions()
    assert found.report["seed"] == 7
    assert found.report["difference"] == "z: …"
    assert [node.op_type for node in found.model.graph] == ["Neg"]
    assert len(found.samples) == 2
    assert found.samples[0]["a"].tobytes() == sample["a"].tobytes()


@pytest.mark.parametrize(
    "dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4]
)
def test_types_that_numpy_does_not_know_keep_their_bits(tmp_path, dtype):
    bits = np.arange(0, 16, dtype=np.uint8).reshape(2, 8)
    array = bits.astype(np.uint16).view(dtype) if np.dtype(dtype).itemsize == 2 else bits.view(dtype)
    if np.dtype(dtype).name in ("int4", "uint4"):
        array = np.arange(0, 8).astype(dtype).reshape(2, 4)
    found = kept(tmp_path, [{"a": array}]).samples[0]["a"]
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()


def test_the_payload_of_nan_is_kept(tmp_path):
    array = np.array([0x7FC1, 0xFF81], np.uint16).view(ml_dtypes.bfloat16)
    assert kept(tmp_path, [{"a": array}]).samples[0]["a"].tobytes() == array.tobytes()


@given(
    texts=st.lists(st.text(max_size=5), min_size=0, max_size=4),
    name=st.sampled_from(["file", "a/b", "allow_pickle", "ß"]),
)
def test_texts_and_names_are_kept(tmp_path_factory, texts, name):
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    found = kept(tmp_path_factory.mktemp("texts"), [{name: array}]).samples[0][name]
    assert found.dtype == object
    assert found.tolist() == texts


def test_shapes_without_elements_or_dimensions_are_kept(tmp_path):
    sample = {"empty": np.zeros((0, 3), ml_dtypes.bfloat16), "one": np.array(2.0, ml_dtypes.bfloat16)}
    found = kept(tmp_path, [sample]).samples[0]
    assert found["empty"].shape == (0, 3)
    assert found["one"].shape == ()
    assert found["one"] == 2.0


def test_inputs_of_plain_types_are_plain_numpy_files(tmp_path):
    write_samples(tmp_path, [{"a": np.ones(3, np.float32)}])
    assert np.load(tmp_path / "inputs-0.npz")["a"].tolist() == [1, 1, 1]


def test_a_second_failure_gets_a_folder_of_its_own(tmp_path):
    first, second = (kept(tmp_path, []).folder for _ in range(2))
    assert first != second
    assert (second / "repro.py").is_file()


def test_files_that_passes_came_from_are_found(own_pass):
    assert sources("cleanup") == []
    assert sources("cleanup, my-own{factor=3}") == [str(own_pass)]
    assert sources("fixpoint(my-own)") == [str(own_pass)]
    assert sources("nobody-knows-this") == []


def test_wrong_folders_are_refused_in_one_sentence(tmp_path):
    for folder, message in (
        (tmp_path / "absent", "no folder"),
        (tmp_path, "no report.json"),
    ):
        with pytest.raises(UsageError, match=message):
            read_reproducer(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not the report"),
        ("[]", "not the report"),
        ("{}", "lacks 'pipeline'"),
        ('{"pipeline": 3}', "no text"),
        ('{"pipeline": "cleanup", "inputs": 3}', "not the report"),
        ('{"pipeline": "cleanup", "inputs": [{"file": "../../inputs-9.npz", "types": {}}]}', "there is no such file"),
        ('{"pipeline": "cleanup", "tolerance": {"atol": "x", "rtol": 0}}', "not the report"),
    ],
)
def test_wrong_reports_are_refused(tmp_path, text, message):
    folder = kept(tmp_path, [{"a": np.ones(2, np.float32)}]).folder
    (folder / "report.json").write_text(text)
    with pytest.raises(UsageError, match=message):
        read_reproducer(folder)


def test_broken_inputs_are_refused(tmp_path):
    folder = kept(tmp_path, [{"a": np.ones(2, np.float32)}]).folder
    (folder / "inputs-0.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(UsageError, match=r"inputs-0\.npz"):
        read_reproducer(folder)


def test_unknown_types_are_refused(tmp_path):
    folder = kept(tmp_path, [{"a": np.ones(2, ml_dtypes.bfloat16)}]).folder
    report = json.loads((folder / "report.json").read_text())
    report["inputs"][0]["types"]["a"]["dtype"] = "__name__"
    (folder / "report.json").write_text(json.dumps(report))
    with pytest.raises(UsageError, match="cannot be read"):
        read_reproducer(folder)


def test_folders_without_a_list_of_inputs_are_read(tmp_path):
    folder = kept(tmp_path, [{"a": np.ones(2, np.float32)}] * 12).folder
    report = json.loads((folder / "report.json").read_text())
    del report["inputs"]
    (folder / "report.json").write_text(json.dumps(report))
    assert len(read_reproducer(folder).samples) == 12
