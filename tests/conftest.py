"""Settings for all tests."""

from hypothesis import settings

# How long an example takes says nothing on a busy machine; a deadline would fail tests at random.
settings.register_profile("onnx-passes", deadline=None)
settings.load_profile("onnx-passes")
