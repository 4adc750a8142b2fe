"""The interactive session: a model, what was done to it, and every way back."""

from __future__ import annotations

from onnx_passes.session.notebooks import install

install()
