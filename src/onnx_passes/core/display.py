"""How results show themselves in notebooks: the page is made by a room above, when a notebook asks for it.

A notebook asks each object for ``_repr_mimebundle_``. Results live in low rooms, which must not import the pages that
show them; so they pass the question on to the one module that knows all pages. It is imported by its name when the
first result is shown: who shows nothing pays nothing.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

_PAGES = "onnx_passes.session.display"


def ipython() -> Any:
    """Return the shell of IPython that this process runs in; it is not imported for that."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


class Displayed:
    """Base of what notebooks show as a page of its own."""

    __slots__ = ()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return importlib.import_module(_PAGES).mimebundle(self)
