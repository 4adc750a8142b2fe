"""Recipes of operators, which choose inputs and attributes that fit together."""

from __future__ import annotations

from onnx_passes.testing.fuzz import shapes
from onnx_passes.testing.fuzz.site import RECIPES, Recipe, RecipeSite
from onnx_passes.testing.fuzz.sketch import Op
from onnx_passes.testing.fuzz.values import Shape


def recipe_of(op: Op) -> Recipe:
    """Return the recipe of an operator; the default is elementwise."""
    return RECIPES.get((op.domain, op.op_type)) or elementwise


def elementwise(site: RecipeSite) -> None:
    """Give every input a shape that broadcasts with the existing ones."""
    for index in site.in_order():
        whole = site.actual()
        if site.is_computed(index) or len(site.inputs) == 1:
            site.input(index, site.want if whole is None else whole)
        else:
            site.input(index, shapes.part(site.draws, site.want if whole is None else whole))


def _scalars(site: RecipeSite) -> None:
    site.input(0, site.want)
    for index in site.in_order():
        site.input(index, ())


def _mod(site: RecipeSite) -> None:
    floating = site.dtype("T").is_floating_point()
    site.attribute("fmod", (1,) if floating else (0, 1), optional=not floating)
    elementwise(site)


def _shift(site: RecipeSite) -> None:
    site.attribute("direction", ("LEFT", "RIGHT"), optional=False)
    elementwise(site)


def _cast(site: RecipeSite) -> None:
    site.attribute("to", (site.dtype("T2").value,), optional=False)
    site.input(0, site.want)


def _prelu(site: RecipeSite) -> None:
    x = site.input(0, site.want)
    whole = site.want if x is None else x.shape
    part = shapes.part(site.draws, whole)
    site.input(1, part if shapes.broadcast([whole, part]) == whole else whole)


def _quantize(site: RecipeSite) -> None:
    x = site.input(0, site.want)
    whole = site.want if x is None else x.shape
    shape: Shape = ()
    if whole and site.draws.often("per axis", percent=40):
        axis = int(site.attribute("axis", range(-len(whole), len(whole)), default=1))
        shape = whole[axis : axis + 1 or None]
    site.input(1, shape, recipe="power")
    site.input(2, shape)


RECIPES.attach(
    {
        "BitShift": _shift,
        "Cast": _cast,
        "Clip": _scalars,
        "DequantizeLinear": _quantize,
        "Dropout": _scalars,
        "Mod": _mod,
        "PRelu": _prelu,
        "QuantizeLinear": _quantize,
    }
)
