"""One name in three spellings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.core.naming import fold, kebab


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("FuseBatchNorm", "fuse-batch-norm"),
        ("fuse_batchnorm", "fuse-batchnorm"),
        ("fuse-batchnorm", "fuse-batchnorm"),
        ("InlineQONNX", "inline-qonnx"),
        ("QONNXImport", "qonnx-import"),
        ("ConvertOpset18", "convert-opset18"),
        ("Opset18To21", "opset18-to21"),
        ("Fold", "fold"),
        ("max_size", "max-size"),
        ("X", "x"),
        ("", ""),
    ],
)
def test_kebab_splits_words_at_capitals_and_underscores(name, text):
    assert kebab(name) == text


@given(st.from_regex(r"[a-z][a-z0-9]*(-[a-z][a-z0-9]*){0,3}", fullmatch=True))
def test_kebab_keeps_pipeline_text_as_it_is(text):
    assert kebab(text) == text


@given(st.lists(st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True), min_size=1, max_size=4))
def test_fold_makes_all_spellings_of_a_name_one(words):
    camel = "".join(word.capitalize() for word in words)
    spellings = ["-".join(words), "_".join(words), "-".join(words).upper(), camel]
    assert len({fold(spelling) for spelling in spellings}) == 1


@given(st.text(st.characters(codec="utf-8"), max_size=12))
def test_folding_again_changes_nothing(name):
    assert fold(fold(name)) == fold(name)


@given(st.text("aAbB1_-", max_size=12))
def test_kebab_does_not_change_which_pass_is_meant(name):
    assert fold(kebab(name)) == fold(name)
