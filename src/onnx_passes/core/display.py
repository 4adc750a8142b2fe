"""Display of results in notebooks; a package above makes the pages on demand.

A notebook asks each object for ``_repr_mimebundle_``. Results are in lower packages, which must not import the pages
that show them, so they delegate to the one module that knows all pages. It is imported by name when the first result is
shown.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

_PAGES = "onnx_passes.session.display"


def ipython() -> Any:
    """Return the IPython shell of this process, without importing IPython."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


class Displayed:
    """Base class of objects that notebooks show as a page."""

    __slots__ = ()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return importlib.import_module(_PAGES).mimebundle(self)
