"""All planted faults."""

from __future__ import annotations

from tests.planted import (
    faults_attributes,
    faults_axes,
    faults_floats,
    faults_integers,
    faults_interface,
    faults_models,
    faults_nested,
    faults_shapes,
    faults_wiring,
)
from tests.planted.planting import Fault

FAULTS: list[Fault] = [
    *faults_axes.FAULTS,
    *faults_shapes.FAULTS,
    *faults_attributes.FAULTS,
    *faults_floats.FAULTS,
    *faults_integers.FAULTS,
    *faults_nested.FAULTS,
    *faults_models.FAULTS,
    *faults_interface.FAULTS,
    *faults_wiring.FAULTS,
]
LOCATED = [fault for fault in FAULTS if fault.culprit is not None]
