from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.graph.hashing.fingerprint import structural_hash
from tests.cli.conftest import BREAK_ADDS, MODEL


def operators(path: Path) -> list[str]:
    return [node.op_type for node in onnx_passes.load(path).graph]


def test_plain_form_is_run(run, model, tmp_path):
    plain, named = tmp_path / "plain.onnx", tmp_path / "named.onnx"
    assert run("-o", plain, model, "cleanup").code == 0
    assert run("run", "-o", named, model, "cleanup").code == 0
    assert plain.read_bytes() == named.read_bytes()
    assert operators(plain) == ["Add", "Mul", "Relu"]


def test_options_may_follow_the_passes(run, model, tmp_path):
    out = tmp_path / "out.onnx"
    assert run(model, "cleanup", "-o", out, "-q").code == 0
    assert out.exists()


def test_words_and_commas_mean_the_same(run, model, tmp_path):
    answers = []
    for words in (["topological-sort", "cleanup"], ["topological-sort, cleanup"], ["topological-sort,cleanup"]):
        answers.append(json.loads(run("--json", model, *words).out)["pipeline"])
    assert answers == ["topological-sort, cleanup"] * 3


def test_without_output_the_model_goes_to_standard_output_as_text(run, model):
    answer = run("-q", model, "cleanup")
    assert answer.code == 0
    assert answer.err == ""
    assert [node.op_type for node in ir.from_onnx_text(answer.out).graph] == ["Add", "Mul", "Relu"]


def test_dash_reads_standard_input(run, model, tmp_path, monkeypatch):
    binary = tmp_path / "model.onnx"
    onnx_passes.save(onnx_passes.load(model), binary)
    for content in (MODEL.encode(), binary.read_bytes()):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        assert "Relu" in run("-q", "-", "cleanup").out


def test_without_passes_the_model_is_written_again(run, model, tmp_path):
    out = tmp_path / "out.onnx"
    assert run("-o", out, model).code == 0
    assert structural_hash(onnx_passes.load(out)) == structural_hash(onnx_passes.load(model))


def test_table_shows_operators_nodes_parameters_size_and_time(run, model, tmp_path):
    shown = run("-o", tmp_path / "out.onnx", model, "cleanup").err
    words = ("operator", "before", "after", "Mul", "nodes", "parameters", "weights", "CPU ms", "remove-unused-nodes")
    for word in words:
        assert word in shown


def test_quiet_shows_nothing(run, model, tmp_path):
    answer = run("-q", "-o", tmp_path / "out.onnx", model, "cleanup")
    assert (answer.code, answer.out, answer.err) == (0, "", "")


def test_json_replaces_the_model_on_standard_output(run, model):
    answer = run("--json", "-q", model, "cleanup")
    record = json.loads(answer.out)
    assert record["nodes"] == [4, 3]
    assert {"pass", "status", "cpu_seconds", "nodes_before", "nodes_after"} <= set(record["steps"][0])


def test_record_is_written(run, model, tmp_path):
    record = tmp_path / "record.json"
    assert run("-q", "--record", record, "-o", tmp_path / "out.onnx", model, "cleanup").code == 0
    assert json.loads(record.read_text())["modified"] is True


def test_record_never_takes_the_place_of_a_model(run, model, tmp_path):
    before = model.read_bytes()
    answer = run("--record", model, "-o", tmp_path / "out.onnx", model, "cleanup")
    assert (answer.code, model.read_bytes()) == (2, before)
    out = tmp_path / "out.onnx"
    assert run("--record", out, "-o", out, model, "cleanup").code == 2
    assert not out.exists()


@pytest.mark.parametrize("option", ["-s", "--state"])
def test_state_is_neither_read_nor_written(run, model, tmp_path, option):
    state = tmp_path / "state.pkl"
    state.write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    before = state.read_bytes()
    answer = run(option, state, "-o", tmp_path / "out.onnx", model, "cleanup")
    assert (answer.code, state.read_bytes()) == (0, before)
    assert f"legacy: {state} is not read" in answer.err
    assert "--record" in answer.err


def test_state_that_does_not_exist_is_not_made(run, model, tmp_path):
    state = tmp_path / "state.json"
    answer = run("-s", state, "-o", tmp_path / "out.onnx", model, "cleanup")
    assert answer.code == 2
    assert "--record" in answer.err
    assert not state.exists()


def test_input_is_not_overwritten_by_accident(run, model):
    before = model.read_bytes()
    answer = run("-o", model, model, "cleanup")
    assert answer.code == 2
    assert "--in-place" in answer.err
    assert model.read_bytes() == before


def test_in_place_overwrites_the_input(run, model):
    assert run("--in-place", model, "cleanup").code == 0
    assert operators(model) == ["Add", "Mul", "Relu"]


def test_in_place_refuses_another_output(run, model, tmp_path):
    assert run("--in-place", "-o", tmp_path / "o.onnx", model, "cleanup").code == 2


def test_print_changed_shows_what_each_pass_changed(run, model, tmp_path):
    shown = run("--print-changed", "-o", tmp_path / "out.onnx", model, "remove-unused-nodes").err
    removed = [line for line in shown.splitlines() if line.startswith("-") and "Mul" in line]
    assert len(removed) == 1
    assert "nowhere" in removed[0]


def test_intermediates_are_kept(run, model, tmp_path):
    folder = tmp_path / "steps" / "here"
    assert run("-q", "--keep-intermediates", folder, "-o", tmp_path / "o.onnx", model, "cleanup").code == 0
    files = sorted(path.name for path in folder.iterdir())
    assert files[0] == "000-input.onnx"
    assert any("remove-unused-nodes" in name for name in files)
    assert len(operators(folder / "000-input.onnx")) == 4
    assert len(operators(folder / files[-1])) == 3


def test_time_shows_what_rules_did(run, model, tmp_path):
    rule = tmp_path / "rule.py"
    rule.write_text(BREAK_ADDS)
    shown = run("--import", rule, "--verify", "off", "--time", "-o", tmp_path / "o.onnx", model, "break-adds").err
    for word in ("break-adds", "tried", "applied", "most refused because"):
        assert word in shown


def test_paranoid_catches_a_pass_that_lies(run, model, tmp_path):
    liar = tmp_path / "liar.py"
    liar.write_text(
        "from onnx_passes import passes, Analysis\n"
        "@passes.register()\n"
        "class Liar(Analysis):\n"
        "    def analyze(self, model):\n"
        "        model.graph.doc_string = 'touched'\n"
    )
    out = tmp_path / "out.onnx"
    assert run("--import", liar, "-o", out, model, "liar").code == 0
    out.unlink()
    answer = run("--import", liar, "--paranoid", "-o", out, model, "liar")
    assert answer.code == 3
    assert "pass 'liar' is an analysis but changed the model" in answer.err
    assert not out.exists()


class TestBreakAdds:
    """A pass in a user's file is found and applied."""

    def test_through_imports_of_the_configuration(self, run, model, tmp_path, monkeypatch):
        folder = tmp_path / "project"
        folder.mkdir()
        (folder / "user_passes.py").write_text(BREAK_ADDS)
        (folder / "cfg.yaml").write_text("imports: [user_passes]\npasses: [BreakAdds]\n")
        out = tmp_path / "out.onnx"
        monkeypatch.chdir(tmp_path)
        assert run("--verify", "off", "-c", folder / "cfg.yaml", "-o", out, model).code == 0
        adds = [node for node in onnx_passes.load(out).graph if node.op_type == "Add"]
        assert [[value.name for value in node.inputs] for node in adds] == [["a", "a"]]

    @pytest.mark.parametrize("name", ["BreakAdds", "break-adds", "break_adds"])
    def test_through_import_on_the_command_line(self, run, model, tmp_path, name):
        file = tmp_path / "user_file.py"
        file.write_text(BREAK_ADDS)
        answer = run("--import", file, "--verify", "off", "-q", model, name)
        assert answer.code == 0
        assert "Add (a, a)" in answer.out

    def test_is_listed_and_explained(self, run, tmp_path):
        file = tmp_path / "user_file.py"
        file.write_text(BREAK_ADDS)
        assert "break-adds" in run("list", "--import", file).out
        assert "equality" in run("explain", "--import", file, "BreakAdds").out


def many_adds(path: Path, count: int = 6) -> Path:
    lines = "\n".join(f"v{i + 1} = Add(v{i}, b)" for i in range(count))
    path.write_text(
        f'<ir_version: 10, opset_import: ["": 20]>\ng (float[2] v0, float[2] b) => (float[2] v{count}) {{\n{lines}\n}}'
    )
    return path


def test_limit_stops_after_so_many_applications_with_stable_numbers(run, tmp_path):
    file = tmp_path / "rule.py"
    file.write_text(BREAK_ADDS)
    source = many_adds(tmp_path / "adds.onnxtxt")
    outputs = []
    for limit in (0, 3, 3, 99):
        asked = ("--import", file, "--verify", "off", "--limit", limit)
        record = json.loads(run(*asked, "--json", source, "break-adds, cleanup").out)
        outputs.append(run(*asked, "-q", source, "break-adds").out)
        assert record["applications"] == min(limit, 6)
        skipped = [step for step in record["steps"] if step["status"] == "skipped"]
        assert bool(skipped) == (limit < 6)
    changed = [text.count("Add (v0, b)") + sum(f"Add (v{i}, v{i})" in text for i in range(6)) for text in outputs]
    assert outputs[1] == outputs[2]
    assert [sum(f"Add (v{i}, v{i})" in text for i in range(6)) for text in outputs] == [0, 3, 3, 6], changed


def test_a_pass_may_come_first_and_the_output_last(run, model, tmp_path):
    answer = run("simplify", model, tmp_path / "out.onnx")
    assert answer.code == 0, answer.err
    last = answer.err.strip().splitlines()[-1]
    assert last.startswith("model.onnxtxt: 4 → 2 nodes (−50 %), ")
    assert ", verified: bits:proved" in last
    assert run("simplify", tmp_path / "out.onnx", "-q").err == ""


def test_the_input_is_not_written_over_by_a_word(run, model):
    answer = run("simplify", model, model)
    assert answer.code == 2
    assert "the output is the input file; use --in-place to overwrite it" in answer.err


def test_measure_times_before_and_after(run, model, tmp_path):
    answer = run("--measure", "-o", tmp_path / "out.onnx", model, "cleanup")
    assert answer.code == 0
    assert "inference: " in answer.err
    assert " in ONNX Runtime, " in answer.err
    found = json.loads(run("--measure", "--json", model, "cleanup").out)["inference"]
    assert found["ratio"] == pytest.approx(found["after_seconds"] / found["before_seconds"], abs=1e-3)


ASKS_FOR_TRUTHS = """
from onnx_passes import PassResult, Transformation, passes

@passes.register()
class AskForTruths(Transformation):
    def call(self, model):
        model.graph[0].op_type = "And"
        return PassResult(model, modified=True)
"""


@pytest.mark.parametrize("target", ["out.onnx", "-"])
def test_what_onnx_runtime_does_not_load_is_not_written(run, model, tmp_path, monkeypatch, target):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "asking.py").write_text(ASKS_FOR_TRUTHS)
    answer = run("--import", "asking.py", "-o", target, model, "ask-for-truths", "--verify", "off")
    assert answer.code == 1
    assert "does not load the result, but it loads the original" in answer.err
    assert not answer.out
    assert not (tmp_path / "out.onnx").exists()
