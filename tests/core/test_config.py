from __future__ import annotations

import pytest

from onnx_passes.core.config import Config, VerifySettings, load_config, parse_config
from onnx_passes.core.errors import ConfigError


def test_empty_configuration_has_defaults(tmp_path):
    path = tmp_path / "cfg.yaml"
    path.write_text("# nothing\n")
    assert load_config(path) == Config()


def test_every_section_is_read():
    config = parse_config(
        {
            "imports": ["my_passes"],
            "passes": ["cleanup", "checker"],
            "exhaustive": True,
            "reference": {"inp": ["inp.npy"], "out": "out.npy"},
            "verify": {"tolerance": {"atol": "1e-4", "rtol": 0}, "metrics": {"accuracy": [0.9, 1.0]}},
            "onnxruntime": {"providers": ["CPUExecutionProvider"], "full_context_dump": True},
            "model_checker": {"full_check": True},
            "shape_inference": {"data_prop": True},
            "fold_constants": {"max_input": 1024, "dequantize": True},
            "layouts": {"inp": [{"assumes": "NHWC", "perm": [0, 3, 1, 2]}], "out": []},
            "logging": {"verbose": True, "checkpoint": "ck.onnx", "keep_intermediates": "steps"},
            "options": {"fixpoint": {"max": 3}},
        }
    )
    assert config.passes == ("cleanup", "checker")
    assert config.reference.out == ("out.npy",)
    assert config.verify is not None
    assert config.verify.tolerance.atol == 1e-4
    assert config.verify.metrics == {"accuracy": [0.9, 1.0]}
    assert config.onnxruntime.providers == ("CPUExecutionProvider",)
    assert config.layouts.inp[0]["perm"] == [0, 3, 1, 2]
    assert config.logging.keep_intermediates == "steps"
    assert config.pass_options() == {
        "checker": {"full_check": True},
        "shape-inference": {"data_prop": True},
        "fold-constants": {"max_input": 1024, "dequantize": True},
        "convert-layouts": {"inp": ({"assumes": "NHWC", "perm": [0, 3, 1, 2]},)},
        "fixpoint": {"max": 3},
    }


@pytest.mark.parametrize("off", [False, {}])
def test_verification_can_be_switched_off(off):
    assert parse_config({"verify": off}).verify is None


@pytest.mark.parametrize("on", [True, None])
def test_verification_is_on_by_default(on):
    assert parse_config({"verify": on}).verify == VerifySettings()
    assert parse_config({}).verify == VerifySettings()


def test_passes_may_be_pipeline_text():
    assert parse_config({"passes": "cleanup, fixpoint(checker)"}).passes == ("cleanup, fixpoint(checker)",)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"pases": []}, "there is no key 'pases'; did you mean 'passes'?"),
        ({"logging": {"verbos": True}}, "logging: there is no key 'verbos'; did you mean 'verbose'?"),
        ({"logging": []}, "logging: expected keys and values, found a list"),
        ({"passes": [1]}, r"passes: does not take \[1\]; it takes text"),
        ({"options": 3}, "options: expected keys and values, found 3"),
        ("text", "expected keys and values, found 'text'"),
    ],
)
def test_mistakes_say_where(data, message):
    with pytest.raises(ConfigError, match=message):
        parse_config(data)


def test_binary_file_is_refused(tmp_path):
    path = tmp_path / "cfg.yaml"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ConfigError, match="not a text file"):
        load_config(path)


def test_yaml_cannot_run_code(tmp_path):
    path = tmp_path / "cfg.yaml"
    path.write_text("passes: !!python/object/apply:os.system ['true']\n")
    with pytest.raises(ConfigError, match="not valid YAML"):
        load_config(path)


def test_structure_is_text_data_or_a_list_of_them():
    def structure(value):
        config = parse_config({"verify": {"structure": value}})
        assert config.verify is not None
        return config.verify.structure

    assert structure(["acyclic", {"at-most": {"Conv": 3}}]) == ("acyclic", {"at-most": {"Conv": 3}})
    assert structure("acyclic") == ("acyclic",)
    assert structure({"at-most": {"Conv": 3}}) == ({"at-most": {"Conv": 3}},)
    assert structure(None) == ()


@pytest.mark.parametrize(("given", "value"), [(True, True), (False, False), ("folder", "folder"), (None, None)])
def test_a_dump_is_switched_on_or_has_a_folder(given, value):
    assert parse_config({"onnxruntime": {"full_context_dump": given}}).onnxruntime.full_context_dump == value


def test_sizes_have_units():
    assert parse_config({"onnxruntime": {"context_dump_limit": "2MiB"}}).onnxruntime.context_dump_limit == 2 << 20


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"verify": {"structur": []}}, "verify: there is no key 'structur'; did you mean 'structure'?"),
        ({"verify": {"metric": {}}}, "verify: there is no key 'metric'; did you mean 'metrics'?"),
        ({"verify": {"metrics": ["accuracy"]}}, "verify.metrics: expected keys and values, found a list"),
        ({"verify": {"batch": "many"}}, "verify.batch: does not take 'many'; it takes a whole number"),
        ({"onnxruntime": {"full_context_dumb": True}}, "did you mean 'full_context_dump'"),
        ({"onnxruntime": {"full_context_dump": [1]}}, "full_context_dump: does not take .*true or false or text"),
        ({"onnxruntime": {"context_dump_limit": "much"}}, "context_dump_limit: .*a size such as"),
    ],
)
def test_mistakes_in_the_checks_say_where(data, message):
    with pytest.raises(ConfigError, match=message):
        parse_config(data)


def test_layouts_are_options_of_the_pass_that_converts_them():
    given = [{"assumes": "NHWC", "perm": [0, 3, 1, 2]}]
    assert dict(parse_config({"layouts": {"inp": given}}).pass_options()["convert-layouts"])["inp"]
    assert "convert-layouts" not in parse_config({}).pass_options()
