"""Hide modules from a process that a block of the documentation starts; see ``tests/docs/installation.py``."""

import os
import sys

sys.modules.update(dict.fromkeys(filter(None, os.environ.get("HIDDEN_MODULES", "").split(","))))  # type: ignore[arg-type]
