"""What tensors held on data is what numpy says of them."""

from __future__ import annotations

import numpy as np
import pytest

import onnx_passes
from onnx_passes.core.errors import UsageError
from onnx_passes.passes.analyse.tensor_statistics import TensorStatistics
from tests.passes.streamline.tools import DOMAIN
from tests.passes.tools import model_of

TEXT = f"""
g (float[{{batch}},3] x) => (float[{{batch}},3] y)
<float[1,3] t = {{{{-0.5, 0.5, 1.5}}}}, float[3] b = {{{{100000, 0, 1}}}}>
{{{{ q = {DOMAIN}.MultiThreshold<out_bias=-1.0>(x, t) y = Add(q, b) }}}}
"""


def statistics_of(data: object, batch: str = "N") -> dict[str, TensorStatistics]:
    model = model_of(TEXT.format(batch=batch), domains=f'"{DOMAIN}" : 1')
    found = onnx_passes.inspect(model, data=[data]).tensors
    assert found is not None
    return {each.name: each for each in found}


@pytest.mark.parametrize("batch", ["N", "1", "7"])
def test_of_all_batches_by_channel_and_overall(batch: str):
    x = np.random.default_rng(0).normal(0, 1, (300, 3)).astype(np.float32)
    found = statistics_of({"x": x}, batch)
    assert list(found) == ["x", "q", "y"]
    q = (x[..., None] >= np.array([-0.5, 0.5, 1.5])).sum(-1) - 1.0
    for name, array in {"x": x.astype(np.float64), "q": q, "y": q + np.array([1e5, 0, 1])}.items():
        each = found[name]
        assert each.elements == array.size
        np.testing.assert_array_equal(each.min, array.min(0))
        np.testing.assert_array_equal(each.max, array.max(0))
        np.testing.assert_allclose(each.mean, array.mean(0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(each.std, array.std(0), rtol=1e-9)
        np.testing.assert_allclose(each.zeros, (array == 0).mean(0))
        np.testing.assert_allclose((each.overall_mean, each.overall_std), (array.mean(), array.std()), rtol=1e-9)
    assert found["q"].saturated == ((q == -1) | (q == 2)).mean()
    assert (found["q"].levels, found["q"].of_levels) == (4, 4)
    assert (found["x"].levels, found["x"].saturated) == (None, None)


def test_a_level_that_is_not_used():
    found = statistics_of({"x": np.array([[0, 0, 2]], np.float32)})
    assert found["q"].levels == 2


def test_data_that_does_not_fit_is_refused():
    with pytest.raises(UsageError):
        statistics_of({"z": np.zeros((2, 3), np.float32)})
