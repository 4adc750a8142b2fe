"""Every mistake of a user: one clear message, the right exit code, no traceback, nothing overwritten."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import onnx_passes


@pytest.fixture
def refused(run, tmp_path):
    """Run a command that must be refused; an existing output file must stay as it is."""
    out = tmp_path / "precious.onnx"
    out.write_bytes(b"precious")

    def call(*arguments: object, code: int = 2, output: Path | None = None) -> str:
        answer = run("-o", output or out, *arguments)
        assert answer.code == code, answer.err
        assert "Traceback" not in answer.err
        assert answer.out == ""
        assert out.read_bytes() == b"precious"
        assert sorted(p.name for p in tmp_path.iterdir() if p.name.endswith(".tmp")) == []
        return answer.err

    return call


def lines(text: str) -> int:
    return len(text.strip().splitlines())


def test_missing_file(refused, tmp_path):
    message = refused(tmp_path / "absent.onnx", "cleanup")
    assert "absent.onnx" in message
    assert "no such file" in message
    assert lines(message) == 1


def test_mistyped_command(run):
    answer = run("lst")
    assert answer.code == 2
    assert "did you mean 'list'?" in answer.err


def test_directory(refused, tmp_path):
    message = refused(tmp_path, "cleanup")
    assert "folder" in message
    assert lines(message) == 1


def test_empty_file(refused, tmp_path):
    (tmp_path / "empty.onnx").write_bytes(b"")
    message = refused(tmp_path / "empty.onnx", "cleanup")
    assert "empty" in message
    assert lines(message) == 1


@pytest.mark.parametrize("content", [b"hello world", b"\x89PNG\r\n\x1a\n0000", os.urandom(300), b"\x00" * 64])
def test_file_that_is_no_model(refused, tmp_path, content):
    (tmp_path / "bad.onnx").write_bytes(content)
    message = refused(tmp_path / "bad.onnx", "cleanup")
    assert "bad.onnx" in message
    assert lines(message) == 1


def test_truncated_model(refused, model, tmp_path):
    whole = tmp_path / "whole.onnx"
    onnx_passes.save(onnx_passes.load(model), whole)
    (tmp_path / "cut.onnx").write_bytes(whole.read_bytes()[:-7])
    assert "cut.onnx" in refused(tmp_path / "cut.onnx", "cleanup")


def test_malformed_text_model(refused, tmp_path):
    header = '<ir_version: 10, opset_import: ["": 20]>'
    (tmp_path / "bad.onnxtxt").write_text(header + "\ng (float[2] x) => (float[2] y) {\n y = (x)\n}")
    assert "bad.onnxtxt" in refused(tmp_path / "bad.onnxtxt", "cleanup")


def test_unknown_pass(refused, model):
    message = refused(model, "cleanpu")
    assert "no pass or group named 'cleanpu'" in message
    assert "did you mean 'cleanup'?" in message
    assert message.rstrip().endswith("^")


@pytest.mark.parametrize(
    "pipeline", ["cleanup,,", "cleanup{", "fixpoint(cleanup", "cleanup)", "fixpoint", "cleanup(checker)"]
)
def test_malformed_pipeline(refused, model, pipeline):
    message = refused(model, pipeline)
    assert "^" in message.splitlines()[-1]
    assert lines(message) == 3


@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        ("checker{ful-check=true}", "did you mean 'full-check'?"),
        ("checker{full-check=maybe}", "true or false"),
        ("fixpoint{max=many}(cleanup)", "a whole number"),
    ],
)
def test_wrong_option(refused, model, pipeline, words):
    assert words in refused(model, pipeline)


def config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "cfg.yaml"
    path.write_text(text)
    return path


def test_bad_yaml(refused, model, tmp_path):
    message = refused("-c", config(tmp_path, "passes: [cleanup\nverify: {"), model)
    assert "cfg.yaml:" in message
    assert "not valid YAML" in message
    assert lines(message) == 1


def test_missing_config(refused, model, tmp_path):
    assert "absent.yaml" in refused("-c", tmp_path / "absent.yaml", model)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("verfy: {}", ["no key 'verfy'", "did you mean 'verify'?"]),
        ("verify: {tolerance: {atl: 1}}", ["verify.tolerance", "did you mean 'atol'?"]),
        ("verify: {tolerance: {atol: tiny}}", ["verify.tolerance.atol", "a number"]),
        ("exhaustive: perhaps", ["exhaustive", "true or false"]),
        ("- cleanup", ["found a list"]),
        ("options: {cleanpu: {}}", ["no pass or group named 'cleanpu'"]),
        ("options: {fixpoint: {max: 3}}\npasses: [cleanup]", [": options: no pass takes the options of 'fixpoint'"]),
        ("options: {fixpoint: {mx: 3}}\npasses: [cleanup]", [": options: pass 'fixpoint' has no option 'mx'"]),
        ("options: {simplify: {max-size: 3}}\npasses: [simplify]", ["write simplify{fold-constants.max-size=3}"]),
        ("options: {simplify: {fold: {max-size: 3}}}\npasses: [simplify]", ["'simplify' has no member 'fold'"]),
        ("fold_constants: {max_sze: 3}\npasses: [cleanup]", ["did you mean 'max-size'?"]),
        ("options: {checker: {ful-check: true}}\npasses: [checker]", ["did you mean 'full-check'?"]),
        ("imports: [not_a_module_anywhere]", ["no module 'not_a_module_anywhere'"]),
        ("imports: [./absent.py]", ["no file", "absent.py"]),
    ],
)
def test_wrong_configuration(refused, model, tmp_path, text, words):
    message = refused("-c", config(tmp_path, text), model)
    for word in words:
        assert word in message


def test_import_that_raises(refused, model, tmp_path):
    (tmp_path / "broken.py").write_text("1 / 0\n")
    message = refused("--import", tmp_path / "broken.py", model)
    assert "ZeroDivisionError" in message
    assert lines(message) == 1


def test_output_folder_missing(refused, model, tmp_path):
    assert "folder does not exist" in refused(model, output=tmp_path / "no" / "out.onnx")


def test_output_is_a_folder(refused, model, tmp_path):
    assert "models are read from this folder" in refused(model, output=tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_output_not_writable(refused, model, tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o500)
    assert "permission" in refused(model, output=locked / "out.onnx")


def test_output_not_writable_even_for_root(refused, model):
    message = refused(model, "cleanup", output=Path("/proc/out.onnx"))
    assert "/proc/out.onnx" in message
    assert lines(message) == 1


def test_pass_that_raises(refused, model, tmp_path):
    (tmp_path / "raises.py").write_text(
        "from onnx_passes import passes, Transformation\n"
        "@passes.register()\n"
        "class Raises(Transformation):\n"
        "    def call(self, model):\n"
        "        raise ValueError('nothing goes')\n"
    )
    message = refused("--import", tmp_path / "raises.py", model, "raises", code=3)
    assert "pass 'raises'" in message
    assert "nothing goes" in message


def test_rule_that_never_ends(refused, model, tmp_path):
    (tmp_path / "endless.py").write_text(
        "from onnx_passes import passes, Transformation, RewriteRulePass\n"
        "@passes.register()\n"
        "class Endless(Transformation, RewriteRulePass):\n"
        "    def pattern(self, op, x): return op.Relu(x)\n"
        "    def rewrite(self, op, x): return op.Relu(op.Relu(x))\n"
    )
    message = refused("--import", tmp_path / "endless.py", model, "endless", code=3)
    assert "rewriting does not end" in message
    assert "Endless" in message
    assert "endless.py:5" in message


def test_failed_post_condition_is_verification(refused, model, tmp_path):
    (tmp_path / "post.py").write_text(
        "import onnx_ir as ir\n"
        "from onnx_passes import passes, Transformation, PassResult\n"
        "@passes.register()\n"
        "class Post(Transformation):\n"
        "    def call(self, model): return PassResult(model, False)\n"
        "    def ensures(self, model): raise ir.passes.PostconditionError('not as promised')\n"
    )
    assert "PostconditionError: not as promised" in refused("--import", tmp_path / "post.py", model, "post", code=1)


def test_unexpected_error_is_internal(run, model, monkeypatch):
    monkeypatch.setattr("onnx_passes.core.plan.plan", lambda *args, **kwargs: 1 / 0)
    answer = run(model, "cleanup")
    assert answer.code == 4
    assert "internal error: ZeroDivisionError" in answer.err
    with pytest.raises(ZeroDivisionError):
        run("--debug", model, "cleanup")


def test_interrupt(run, model, monkeypatch):
    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("onnx_passes.core.plan.plan", interrupted)
    assert run(model, "cleanup").code == 130


@pytest.mark.parametrize(
    "arguments", [["explain"], ["explain", "nothing-like-it"], ["run"], ["list", "--kind", "x"], ["plan"]]
)
def test_usage_errors_of_other_commands(run, arguments):
    answer = run(*arguments)
    assert answer.code == 2
    assert "Traceback" not in answer.err
    assert answer.err
