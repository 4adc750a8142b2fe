"""A browser without a window, for tests of pages."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Generator
from typing import Any

import pytest

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@contextlib.contextmanager
def started_browser() -> Generator[Any]:
    """Start Chromium, or skip the test where there is none; it runs threads of its own until it is closed."""
    sync_api: Any = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("there is no chromium, and CHROMIUM does not say where one is")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()
