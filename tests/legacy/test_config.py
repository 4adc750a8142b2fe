from __future__ import annotations

import pytest

from onnx_passes.core.config import Config, parse_config
from onnx_passes.core.errors import ConfigError
from onnx_passes.legacy.config import modern


def read(data: object) -> tuple[Config, list[str]]:
    translated, notes = modern(data)
    return parse_config(translated), list(notes)


def test_the_form_of_now_is_left_as_it_is():
    data = {
        "imports": ["my_passes.py"],
        "reference": {"inp": ["inp.npy"]},
        "onnxruntime": {"providers": ["CPUExecutionProvider"]},
        "fold_constants": {"max_size": "1KiB"},
        "layouts": {"inp": [{"assumes": "NHWC", "perm": [0, 3, 1, 2]}], "out": ["NCHW>NHWC"]},
        "logging": {"verbose": True, "checkpoint": "ck.onnx"},
        "options": {"infer-thresholds": {"max-bits": 3}},
    }
    assert modern(data) == (data, [])


@pytest.mark.parametrize("data", [None, 3, [], {}])
def test_what_is_no_configuration_is_left_as_it_is(data):
    assert modern(data) == (data, [])


def test_pairs_of_providers_and_options():
    config, notes = read({"onnxruntime": {"providers": [["CPUExecutionProvider", {}], ["Other", {"device": 1}]]}})
    assert config.onnxruntime.providers == ("CPUExecutionProvider", "Other")
    assert config.onnxruntime.provider_options == [{}, {"device": 1}]
    assert notes == [
        "onnxruntime.providers has the form of version 0.4; names go to providers, options to provider_options"
    ]


def test_providers_without_options_have_none():
    config, _ = read({"onnxruntime": {"providers": [["CPUExecutionProvider", {}]]}})
    assert config.onnxruntime.provider_options is None


@pytest.mark.parametrize("providers", [[["CPUExecutionProvider"]], [3], [["a", {}, 1]]])
def test_other_providers_are_an_error(providers):
    with pytest.raises(ConfigError, match=r"onnxruntime\.providers"):
        read({"onnxruntime": {"providers": providers}})


def test_checkpoints_that_are_switched_off():
    config, notes = read({"logging": {"verbose": False, "checkpoint": False, "keep_intermediates": False}})
    assert (config.logging.checkpoint, config.logging.keep_intermediates) == (None, None)
    assert len(notes) == 2


def test_letters_of_layouts_keep_the_interface():
    entry = {"assumes": ["N", "C", "H", "W"], "perm": [0, 2, 3, 1]}
    config, notes = read({"layouts": {"inp": [entry], "out": [entry]}})
    assert config.pass_options()["convert-layouts"] == {
        "inp": ({"assumes": "NCHW", "perm": [0, 2, 3, 1]},),
        "out": ({"assumes": "NCHW", "perm": [0, 2, 3, 1]},),
        "keep_interface": True,
    }
    assert len(notes) == 1


def test_modules_of_the_collection_are_not_imported():
    config, notes = read({"imports": ["onnx_passes.passes.imports.qonnx", "mine", "onnx_passes.passes.inline.qonnx"]})
    assert config.imports == ("mine",)
    assert notes == ["imports has the form of version 0.4; passes of the collection need no import"]


def test_data_that_is_not_given():
    config, notes = read({"reference": {"inp": [None], "out": [None, "out.npy"]}})
    assert (config.reference.inp, config.reference.out) == ((), ("out.npy",))
    assert not notes


@pytest.mark.parametrize(
    ("section", "name", "options"),
    [
        ({"deduplicate_initializers": {"size_limit": 256}}, "deduplicate-initializers", {"max_size": 1024}),
        ({"infer_thresholds": {"max": 15}}, "infer-thresholds", {"max_bits": 4}),
        ({"infer_thresholds": {"max": 14}}, "infer-thresholds", {"max_bits": 3}),
        ({"fold_constants": {"input_size_limit": 256, "dequantize": True}}, "fold-constants", None),
        ({"lift_constants": {"lift_all_constants": True, "size_limit": 1}}, "lift-constants", {}),
        ({"model_checker": {"check_custom_domain": True}}, "checker", {}),
    ],
)
def test_options_of_passes_have_the_names_of_now(section, name, options):
    config, notes = read(section)
    expected = {"max_input": 1024, "dequantize": True} if options is None else options
    assert config.pass_options().get(name, {}) == expected
    assert notes
    assert all("has the form of version 0.4; " in note for note in notes)


def test_the_given_data_is_not_changed():
    data = {"imports": ["onnx_passes.passes.imports.qonnx"], "logging": {"checkpoint": False}, "infer_thresholds": {}}
    modern(data)
    assert data == {
        "imports": ["onnx_passes.passes.imports.qonnx"],
        "logging": {"checkpoint": False},
        "infer_thresholds": {},
    }


@pytest.mark.parametrize("data", [{"infer_thresholds": 3}, {"loging": {}}, {"logging": {"checkpoint": True}}])
def test_mistakes_stay_mistakes(data):
    with pytest.raises(ConfigError):
        read(data)
