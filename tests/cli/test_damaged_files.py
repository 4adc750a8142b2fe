"""Damaged and hostile files: one sentence and exit code 2, or a result; never an internal error."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

TEXTS = """<ir_version: 10, opset_import: ["" : 21, "DOMN" : 1], producer_name: "PROD", producer_version: "PVER",
  domain: "MDOM", doc_string: "MDOC", metadata_props: ["MKEY": "MVAL"]>
GRPH (float[DIMP,2] INPU, bool COND) => (float[DIMP,2] OUTP) <float[2] WEIG = {1.0, 2.0}, float[DIMP,2] INFO> {
  [NODE] INFO = Add(INPU, WEIG)
  [BRAN] IFRE = If(COND) <
    then_branch = THEN () => (float[2] THOU) { THOU = Constant <value = float[2] {1.0, 2.0}> () },
    else_branch = ELSE () => (float[2] ELOU) { ELOU = Neg(WEIG) }
  >
  FUOU = DOMN.FUNC <ATTR: string = "AVAL"> (INFO)
  OUTP = Add(FUOU, IFRE)
}
<domain: "DOMN", opset_import: ["" : 21]>
FUNC <ATTR> (FINP) => (FOUT) { FOUT = Relu(FINP) }
"""
WORDS = [
    *("ATTR", "AVAL", "BRAN", "COND", "DIMP", "DOMN", "ELOU", "ELSE", "FINP", "FOUT", "FUNC", "FUOU", "GDOC", "GRPH"),
    *("IDOC", "IFRE", "INFO", "INPU", "MDOC", "MDOM", "MKEY", "MVAL", "NDOC", "NKEY", "NVAL", "NODE", "OUTP", "PROD"),
    *("PVER", "QKEY", "QVAL", "THEN", "THOU", "WDOC", "WEIG", "Relu", "Add", "value"),
]


def full_of_texts() -> bytes:
    """Return a model with a text in every field that holds one."""
    model = onnx.parser.parse_model(TEXTS)
    graph = model.graph
    graph.quantization_annotation.add(tensor_name="INFO").quant_parameter_tensor_names.add(key="QKEY", value="QVAL")
    graph.node[0].metadata_props.add(key="NKEY", value="NVAL")
    graph.node[0].doc_string, graph.doc_string = "NDOC", "GDOC"
    graph.input[0].doc_string, graph.initializer[0].doc_string = "IDOC", "WDOC"
    return model.SerializeToString()


@pytest.mark.parametrize("word", WORDS)
def test_a_text_that_is_not_utf8_is_repaired_or_refused(word, run, tmp_path):
    whole = full_of_texts()
    assert word.encode() in whole
    path = tmp_path / "m.onnx"
    path.write_bytes(whole.replace(word.encode(), b"\xff" + word.encode()[1:]))
    for command in (("-o", tmp_path / "out.onnx", path, "simplify"), (path, "cleanup"), ("inspect", path)):
        answer = run(*command)
        assert answer.code in (0, 2), answer.err
        assert "Traceback" not in answer.err


def test_an_input_larger_than_any_array_is_refused(run, tmp_path):
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    g (float[{2**62},0,{2**31}] x) => (float[n] y) {{ y = Neg(x) }}"""
    (tmp_path / "m.onnxtxt").write_text(text)
    for command in (
        ("-o", tmp_path / "o.onnx", tmp_path / "m.onnxtxt", "cleanup"),
        ("inspect", tmp_path / "m.onnxtxt"),
    ):
        answer = run(*command)
        assert answer.code == 2
        assert "input 'x' of shape" in answer.err
        assert "is larger than any array" in answer.err


def test_an_input_too_large_to_generate_is_not_verified(run, tmp_path):
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[40000,20000] x) => (float[40000,20000] y) { y = Neg(x) }'
    (tmp_path / "m.onnxtxt").write_text(text)
    answer = run("-o", tmp_path / "o.onnx", tmp_path / "m.onnxtxt", "unique-names", "lift-constants", "verify")
    assert answer.code == 0
    assert "is too large to generate" in answer.err
    assert run("run-model", tmp_path / "m.onnxtxt").code == 2


HEADERS = [
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, }",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': 2}",
    b"{'descr': [('a'], 'fortran_order': False, 'shape': (2,)}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (2,)}",
    b"{'descr': '<q9', 'fortran_order': False, 'shape': (2,)}",
    b"{'descr': ('<f4', (1, 2, 'x')), 'fortran_order': False, 'shape': (2,)}",
    b"{'shape': (2,)}",
    b"\xff\xfe\x00\x00",
    b"(" * 3000,
    b"{[]: 1}",
    b"",
]


@pytest.mark.parametrize("header", HEADERS[1:], ids=range(1, len(HEADERS)))
@pytest.mark.parametrize("packed", [False, True], ids=["npy", "npz"])
def test_a_damaged_numpy_header_is_one_sentence(header, packed, run, model, tmp_path):
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + np.ones(2, np.float32).tobytes()
    path = tmp_path / ("data.npz" if packed else "data.npy")
    if packed:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.npy", content)
    else:
        path.write_bytes(content)
    for command in (
        ("run-model", "--inputs", path, model),
        (model, "cleanup", "--metric", "max_abs_error", "--dataset", path),
    ):
        answer = run(*command)
        assert answer.code == 2, answer.err
        assert path.name in answer.err
        assert "Traceback" not in answer.err


def test_a_zip_bomb_is_refused_unopened(run, model, tmp_path):
    path = tmp_path / "bomb.npz"
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (2**28 + 2**20,)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as member:
        member.write(head.getvalue())
        for _ in range(1028):
            member.write(bytes(2**20))
    assert path.stat().st_size < 2**21
    answer = run("run-model", "--inputs", path, model)
    assert answer.code == 2
    assert "look like an attack on the memory" in answer.err


def test_verify_of_a_model_that_does_not_run_is_no_verdict(run, tmp_path):
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[2,3] x) => (float[2,2] y) { y = MatMul(x, x) }'
    (tmp_path / "m.onnxtxt").write_text(text)
    answer = run("verify", tmp_path / "m.onnxtxt", tmp_path / "m.onnxtxt")
    assert answer.code == 5
    assert "not verified" in answer.out
    assert "MatMul" in answer.out


def test_repro_runs_no_code_of_the_current_folder_unasked(run, model, tmp_path, monkeypatch):
    from tests.cli.conftest import BREAK_ADDS

    wrong = tmp_path / "elsewhere" / "wrong_for_here.py"
    wrong.parent.mkdir()
    wrong.write_text(BREAK_ADDS)
    assert run("--import", wrong, "--repro", tmp_path / "kept", "-o", tmp_path / "o.onnx", model, "BreakAdds").code == 1
    report = tmp_path / "kept" / "report.json"
    here = tmp_path / "here"
    here.mkdir()
    (here / "wrong_for_here.py").write_text("raise SystemExit('this ran')\n")
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(str(here))
    from onnx_passes.core.registry import REGISTRY

    for key, entry in list(REGISTRY._entries.items()):
        if entry.name == "break-adds":
            del REGISTRY._entries[key]
    sys.modules.pop("wrong_for_here", None)
    text = report.read_text()
    for name in ("wrong_for_here", str(here / "wrong_for_here.py")):
        report.write_text(text.replace(str(wrong), name))
        answer = run("repro", "run", tmp_path / "kept")
        assert answer.code == 2, answer.err
        assert "if you trust it, add --import" in answer.err


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signals")
def test_a_request_to_end_leaves_no_temporary_files(tmp_path):
    weight = helper.make_tensor("w", TensorProto.FLOAT, [64, 64], np.ones((64, 64), np.float32).tobytes(), raw=True)
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 64])
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [value],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 64])],
        [weight],
    )
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(source.SerializeToString())
    folder = tmp_path / "out"
    folder.mkdir()
    script = tmp_path / "slow.py"
    script.write_text(
        "import os, time\n"
        "sync = os.fsync\n"
        "def slow(file):\n"
        "    open('ready', 'w').close()\n"
        "    time.sleep(60)\n"
        "os.fsync = slow\n"
    )
    command = [sys.executable, "-m", "onnx_passes", "--import", str(script), "--external"]
    command += ["-o", str(folder / "o.onnx"), str(tmp_path / "m.onnx"), "unique-names"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(600):
            if (tmp_path / "ready").exists():
                break
            time.sleep(0.1)
        assert len(list(folder.iterdir())) == 2
        process.terminate()
        _, message = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 143
    assert "terminated" in message
    assert list(folder.iterdir()) == []


QUANT = """<ir_version: 9, opset_import: ["" : 17, "qonnx.custom_op.general" : 1]>
g (float[1, 4] x) => (float[1, 4] y) <float s = {0.25}, float z = {0.0}, float b = {4.0}> {
  y = qonnx.custom_op.general.Quant <ATTRIBUTES> (x, s, z, b)
}"""


def of_a_quantizer(attributes: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(QUANT.replace("ATTRIBUTES", attributes))


def of_external_data(location: str) -> onnx.ModelProto:
    text = "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    weight = model.graph.initializer[0]
    weight.ClearField("float_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    return model


def of_a_shape(*sizes: int) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT16, sizes)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT16, sizes)]
    return helper.make_model(helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", inputs, outputs))


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        (of_a_quantizer("signed = 1, narrow = 0, rounding_mode = 1048576"), "'rounding_mode'"),
        (of_a_quantizer('signed = 1, narrow = [9223372036854775807], rounding_mode = "HALF_UP"'), "'narrow'"),
        (of_a_quantizer('signed = [1, 1], narrow = 0, rounding_mode = "ROUND"'), "'signed'"),
        (of_external_data("a\0b"), "NUL"),
        (of_a_shape(2**63 - 1, 0, 2**31, -(2**63)), "larger than any array"),
    ],
    ids=["integer for text", "list for integer", "list for flag", "NUL in a path", "impossible shape"],
)
def test_damaged_models_are_refused(damaged, words, run, tmp_path):
    path = tmp_path / "damaged.onnx"
    path.write_bytes(damaged.SerializeToString())
    for command in (("-o", tmp_path / "o.onnx", path, "simplify"), ("inspect", path), ("run-model", path)):
        answer = run(*command)
        assert answer.code == 2
        assert len(answer.err.strip().splitlines()) == 1
        assert words in answer.err
