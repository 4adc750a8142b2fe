"""Settings for all tests, and models as files."""

from pathlib import Path

import pytest
from hypothesis import settings

from tests.helpers.outside import FOLDER, VARIABLE, outside

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


@pytest.fixture(scope="session")
def small_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder into which models of ours are written when a test wants them."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def path(request: pytest.FixtureRequest, small_models: Path) -> Path:
    """Return the file of a model: of ours by name, or of others by name or path."""
    from tests.helpers.small_models import SMALL, save_small

    if isinstance(request.param, Path):
        return request.param
    return save_small(request.param, small_models) if request.param in SMALL else outside(request.param)
