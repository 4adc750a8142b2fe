"""All passes that are right and must raise no alarm."""

from __future__ import annotations

from tests.planted import tricky_floats, tricky_models, tricky_shapes
from tests.planted.planting import Tricky

TRICKY: list[Tricky] = [*tricky_floats.TRICKY, *tricky_shapes.TRICKY, *tricky_models.TRICKY]
RULES = [tricky for tricky in TRICKY if tricky.kind == "rule"]
