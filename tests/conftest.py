"""Settings for all tests."""

import pytest
from hypothesis import settings

from tests.helpers.outside import FOLDER, VARIABLE

# How long an example takes says nothing on a busy machine; a deadline would fail tests at random.
settings.register_profile("onnx-passes", deadline=None)
settings.load_profile("onnx-passes")


def pytest_configure() -> None:
    """Refuse a folder of models that does not exist, rather than run without it."""
    if FOLDER is not None and not FOLDER.is_dir():
        raise pytest.UsageError(f"{VARIABLE} names {FOLDER}, which is not a folder; unset it, or name one with models")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests of models outside of the repository unless their folder is given."""
    if FOLDER is None:
        outside = [item for item in items if item.get_closest_marker("models")]
        items[:] = [item for item in items if not item.get_closest_marker("models")]
        config.hook.pytest_deselected(items=outside)
