"""Write a quantized network as one file of C, compile it, and compare it bit by bit with ONNX Runtime.

    python examples/write_c.py digits-cnn
    python examples/write_c.py model.onnx --output model.c

``onnx_passes.integer_network`` has all that is needed: layers in order, integers in their containers, thresholds, and
types that no sum leaves. A function below writes each kind of layer; what a network of yours has beyond them is named,
and takes one function more. This is a template for a backend, not one: loops are as plain as they can be.
"""

from __future__ import annotations

import argparse
import itertools
import math
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

import onnx_passes
from onnx_passes import IntegerNetwork, examples
from onnx_passes.backend.network import Layer, Tensor

COMPILERS = ("cc", "gcc", "clang", "tcc")
FLAGS = ("-std=c99", "-O2", "-ffp-contract=off")
"""A product that is added in one step, rounded once, would not be what the network computes."""


def shape(tensor: Tensor) -> tuple[int, ...]:
    """Return the sizes of a tensor for one sample; a dynamic dimension is that of the samples."""
    assert tensor.shape is not None, f"the shape of '{tensor.name}' is not known"
    return tuple(size if isinstance(size, int) else 1 for size in tensor.shape)


def loops(sizes: Sequence[int], body: Iterable[str], name: str = "i") -> list[str]:
    """Write a loop for each axis; the one of axis 2 counts ``i2``."""
    heads = [f"for (int {name}{axis} = 0; {name}{axis} < {size}; {name}{axis}++)" for axis, size in enumerate(sizes)]
    return [*heads, "{", *(f"  {line}" for line in body), "}"]


def index(sizes: Sequence[int], places: Sequence[str]) -> str:
    """Write where an element is in memory; axes of size 1 are the same everywhere."""
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    terms = [(place, stride) for place, size, stride in zip(places, sizes, strides, strict=True) if size > 1]
    return " + ".join(place if stride == 1 else f"({place}) * {stride}" for place, stride in terms) or "0"


def counters(sizes: Sequence[int], name: str = "i") -> list[str]:
    return [f"{name}{axis}" for axis in range(len(sizes))]


class Writer:
    """The C code of one network: constants, buffers, and a function that runs its layers."""

    def __init__(self, network: IntegerNetwork) -> None:
        self.network = network
        self.names: dict[str, str] = {}
        self.data: list[str] = []
        self.code: list[str] = []

    def text(self) -> str:
        """Write the whole file, with a main function that maps samples on standard input to standard output."""
        if len(self.network.inputs) != 1 or len(self.network.outputs) != 1:
            raise SystemExit("no C for networks with several inputs or outputs yet")
        (x,), (y,) = self.network.inputs, self.network.outputs
        self.names |= {x.name: "input", y.name: "output"}
        for layer in self.network.layers:
            write = getattr(self, layer.kind, None)
            if write is None:
                raise SystemExit(f"no C for {layer!r} yet")
            self.code += [f"/* {layer.name.replace('*/', '')}: {layer.operator} */", *write(layer)]
        sizes = (math.prod(shape(x)), math.prod(shape(y)))
        types = (x.container, y.container)
        return "\n".join(
            [
                "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n",
                *self.data,
                f"\nvoid run(const {types[0]} *input, {types[1]} *output) {{",
                *(f"  {line}" for line in self.code),
                "}\n",
                f"int main(void) {{\n  static {types[0]} x[{sizes[0]}];\n  static {types[1]} y[{sizes[1]}];",
                f"  while (fread(x, sizeof x[0], {sizes[0]}, stdin) == {sizes[0]}) {{",
                f"    run(x, y);\n    fwrite(y, sizeof y[0], {sizes[1]}, stdout);\n  }}\n  return 0;\n}}\n",
            ]
        )

    def name(self, tensor: Tensor) -> str:
        """Return the C name of a tensor, and declare it when it is first used."""
        if tensor.name not in self.names:
            self.names[tensor.name] = name = f"t{len(self.names)}"
            size, values = math.prod(shape(tensor)), ""
            if tensor.values is not None:
                values = f" = {{{', '.join(map(literal, tensor.values.reshape(-1)))}}}"
            held = "const " if values else ""
            self.data.append(f"static {held}{tensor.container} {name}[{size}]{values};")
        return self.names[tensor.name]

    def at(self, tensor: Tensor, places: Sequence[str]) -> str:
        """Write an element; a tensor of fewer axes than there are places is aligned with the last ones."""
        sizes = shape(tensor)
        return f"{self.name(tensor)}[{index(sizes, places[len(places) - len(sizes) :])}]"

    def threshold(self, layer: Layer) -> list[str]:
        x, thresholds, levels = layer.inputs
        (y,) = layer.outputs
        places, amount = counters(shape(y)), shape(thresholds)[-1]
        count = f"while (k < {amount} && {self.at(x, places)} >= {self.at(thresholds, [*places, 'k'])}) k++;"
        return loops(shape(y), ["int k = 0;", count, f"{self.at(y, places)} = {self.at(levels, [*places, 'k'])};"])

    def product(self, layer: Layer) -> list[str]:
        write = {"MatMul": self.matmul, "Conv": self.conv}.get(layer.operator)
        if write is None or layer.weight is None:
            raise SystemExit(f"no C for {layer!r} yet")
        return write(layer)

    def matmul(self, layer: Layer) -> list[str]:
        x, weight = layer.inputs[:2]
        (y,) = layer.outputs
        *rows, column = counters(shape(y))
        term = f"sum += {layer_product(layer, self.at(x, [*rows, 'k0']), self.at(weight, ['k0', column]))};"
        inner = loops(shape(weight)[:1], [term], "k")
        return loops(shape(y), [*self.start(layer, []), *inner, f"{self.at(y, [*rows, column])} = sum;"])

    def conv(self, layer: Layer) -> list[str]:
        x, weight = layer.inputs[:2]
        (y,) = layer.outputs
        sizes, places = shape(weight), counters(shape(y))
        group = layer.attributes["group"]
        channel = f"i1 / {shape(y)[1] // group} * {sizes[1]} + k0"
        spots, inside = self.window(layer, shape(x)[2:], first=1)
        left, right = self.at(x, ["i0", channel, *spots]), self.at(weight, ["i1", *counters(sizes[1:], "k")])
        inner = loops(sizes[1:], [f"if ({inside}) sum += {layer_product(layer, left, right)};"], "k")
        return loops(shape(y), [*self.start(layer, ["i1"]), *inner, f"{self.at(y, places)} = sum;"])

    def start(self, layer: Layer, channel: list[str]) -> list[str]:
        first = "0" if layer.bias is None else self.at(layer.bias, channel)
        return [f"{layer.accumulator_container} sum = {first};"]

    def window(self, layer: Layer, sizes: Sequence[int], first: int) -> tuple[list[str], str]:
        """Write where tap k of window i is, axis by axis, and whether that is inside of the image."""
        strides, pads, dilations = (layer.attributes[name] for name in ("strides", "pads", "dilations"))
        spots = [
            f"i{axis + 2} * {strides[axis]} + k{axis + first} * {dilations[axis]} - {pads[axis]}"
            for axis in range(len(sizes))
        ]
        inside = [f"{spot} >= 0 && {spot} < {size}" for spot, size in zip(spots, sizes, strict=True)]
        return spots, " && ".join(inside)

    def pooling(self, layer: Layer) -> list[str]:
        if layer.operator != "MaxPool":
            raise SystemExit(f"no C for {layer!r} yet")
        (x,), (y,) = layer.inputs, layer.outputs
        spots, inside = self.window(layer, shape(x)[2:], first=0)
        value = self.at(x, ["i0", "i1", *spots])
        inner = loops(layer.attributes["kernel_shape"], [f"if (({inside}) && {value} > best) best = {value};"], "k")
        least = f"{x.container} best = {int(x.low.min())};"
        return loops(shape(y), [least, *inner, f"{self.at(y, counters(shape(y)))} = best;"])

    def add(self, layer: Layer) -> list[str]:
        (y,) = layer.outputs
        places = counters(shape(y))
        return loops(shape(y), [f"{self.at(y, places)} = {' + '.join(self.at(x, places) for x in layer.inputs)};"])

    def movement(self, layer: Layer) -> list[str]:
        x, (y,) = layer.inputs[0], layer.outputs
        if layer.operator in ("Flatten", "Reshape", "Squeeze", "Unsqueeze"):
            return loops([math.prod(shape(y))], [f"{self.name(y)}[i0] = {self.name(x)}[i0];"])
        if layer.operator != "Transpose":
            raise SystemExit(f"no C for {layer!r} yet")
        places = counters(shape(y))
        taken = [places[layer.attributes["perm"].index(axis)] for axis in range(len(places))]
        return loops(shape(y), [f"{self.at(y, places)} = {self.at(x, taken)};"])

    def scale(self, layer: Layer) -> list[str]:
        x, (y,) = layer.inputs[0], layer.outputs
        places = counters(shape(y))
        lines = [f"{y.container} value = ({y.container}){self.at(x, places)};"]
        if layer.scale is not None:
            lines.append(f"value = value * {self.at(layer.scale, places)};")
        if layer.bias is not None:
            lines.append(f"value = value + {self.at(layer.bias, places)};")
        return loops(shape(y), [*lines, f"{self.at(y, places)} = value;"])


def layer_product(layer: Layer, left: str, right: str) -> str:
    """Write a product in the type of the sums, which holds every one of them."""
    return f"({layer.accumulator_container})({left}) * {right}"


def literal(number: np.generic) -> str:
    """Write a number so that C reads the very same."""
    if isinstance(number, np.floating):
        value = float(number)
        return (
            value.hex() + "f" * (number.dtype == np.float32) if math.isfinite(value) else f"{'-' * (value < 0)}INFINITY"
        )
    return str(number)


def compiled(source: Path, compiler: str) -> Path:
    """Compile a file of C to a program beside it."""
    program = source.with_suffix("")
    subprocess.run([compiler, *FLAGS, "-o", str(program), str(source), "-lm"], check=True)
    return program


def outputs_of(program: Path, network: IntegerNetwork, samples: np.ndarray) -> np.ndarray:
    """Run a compiled network on samples, one after the other."""
    run = subprocess.run([str(program)], input=np.ascontiguousarray(samples).tobytes(), capture_output=True, check=True)
    found = np.frombuffer(run.stdout, np.float32)
    return found.reshape(len(samples), *shape(network.outputs[0])[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", help="a file, or the name of an example: " + ", ".join(examples.NAMES))
    parser.add_argument("-o", "--output", type=Path, help="where to write the C code; otherwise it is compiled and run")
    options = parser.parse_args()
    source = examples.path(options.model) if options.model in examples.NAMES else options.model
    network = onnx_passes.integer_network(source)
    if options.output is not None:
        options.output.write_text(Writer(network).text(), encoding="utf-8")
        return
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None or options.model not in examples.NAMES:
        raise SystemExit("no C compiler is at hand" if compiler is None else "only examples have images; give --output")
    images = examples.digits().image
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "network.c"
        place.write_text(Writer(network).text(), encoding="utf-8")
        found = outputs_of(compiled(place, compiler), network, images)
    assert network.model is not None
    expected = onnx_passes.run_model(network.model, {network.inputs[0].name: images})[network.outputs[0].name]
    same = sum(itertools.starmap(np.array_equal, zip(found, expected, strict=True)))
    right = np.mean(found.argmax(axis=1) == examples.digits().label)
    print(f"{same} of {len(images)} images bit by bit as in ONNX Runtime, {right:.1%} of them recognized")


if __name__ == "__main__":
    main()
