"""Attention in a random spelling, as exporters and people write it, or nearly one."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np
import onnx_ir as ir

from tests.passes.tools import model_of

UNTURNED = "keys are not transposed"
WRONG = (
    "softmax over queries",
    "mask behind the softmax",
    "mask enlarges the batch",
    "scale for each head",
    "negative scale",
    "weights are used elsewhere",
    "scaled mask",
)


@dataclass
class Spelling:
    """A model, and sizes to run it with; ``text`` grows by what is written."""

    random: Random
    wrong: str = ""
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    choices: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kv = self.random.choice([1, 2, 3])
        self.heads = self.kv * self.random.choice([1, 1, 2, 3])
        if self.wrong == "scale for each head":
            self.heads = self.kv = 3
        self.size = self.random.choice([4, 5, 8])
        self.sizes = {"B": 2, "S": 3, "T": 5, "P": 2}
        self.past = self.choose("no past", "no past", "past") == "past"
        self.keys = "S" if self.past or self.choose("self", "cross") == "self" else "T"
        if self.wrong == UNTURNED:
            self.past, self.keys, self.size = False, "T", self.sizes["T"]
        if self.wrong == "mask enlarges the batch":
            self.sizes["B"] = 1
        self.total = "A" if self.past else self.keys
        self.sizes["A"] = self.sizes["P"] + self.sizes["S"]
        self._write()

    def choose(self, *options: str) -> str:
        """Choose one of several ways to write something."""
        self.choices.append(self.random.choice(options))
        return self.choices[-1]

    def add(self, operator: str, *inputs: str, attributes: str = "") -> str:
        """Write a node."""
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {operator} {attributes} ({', '.join(inputs)})")
        return name

    def constant(self, array: np.ndarray) -> str:
        self.constants[f"c{len(self.constants)}"] = array
        return f"c{len(self.constants) - 1}"

    def number(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def input(self, name: str, *dims: str, kind: str = "float") -> str:
        self.inputs[name] = (kind, dims)
        return name

    def _write(self) -> None:
        flat = self.choose("flat", "heads") == "flat"
        q, k, v = (
            self._heads(name, sequence, count, flat)
            for name, sequence, count in (("q", "S", self.heads), ("k", self.keys, self.kv), ("v", self.keys, self.kv))
        )
        early = self.heads == self.kv and not self.past and self.choose("late", "early") == "early"
        if self.past:
            k, v = (self._cached(name, value) for name, value in (("k", k), ("v", v)))
        if self.heads != self.kv:
            k, v = self._repeated(k), self._repeated(v)
        weights = self._weights(self._scores(q, k, early))
        result = self.add("MatMul", weights, v)
        if self.wrong == "weights are used elsewhere":
            self.outputs.append(weights)
        if flat:
            turned = self.add("Transpose", result, attributes="<perm = [0,2,1,3]>")
            result = self.add("Reshape", turned, self.constant(np.array([0, 0, self.heads * self.size])))
        self.outputs.insert(0, result)

    def _heads(self, name: str, sequence: str, count: int, flat: bool) -> str:
        if not flat:
            return self.input(name, "B", str(count), sequence, str(self.size))
        value = self.input(name, "B", sequence, str(count * self.size))
        split = self.add("Reshape", value, self.constant(np.array([0, 0, count, self.size])))
        return self.add("Transpose", split, attributes="<perm = [0,2,1,3]>")

    def _cached(self, name: str, value: str) -> str:
        past = self.input(f"past_{name}", "B", str(self.kv), "P", str(self.size))
        made = self.add("Concat", past, value, attributes=f"<axis = {self.choose('2', '-2')}>")
        self.outputs.append(made)
        return made

    def _repeated(self, value: str) -> str:
        insert = self.add("Unsqueeze", value, self.constant(np.array([2])))
        times = np.array([1, 1, self.heads // self.kv, 1, 1])
        wide = self.add("Expand", insert, self.constant(times))
        return self.add("Reshape", wide, self.constant(np.array([0, self.heads, -1, self.size])))

    def _scores(self, q: str, k: str, early: bool) -> str:
        factor = self.size**-0.5
        where = self.choose("nowhere", "query", "product", "quotient", "both")
        if where == "query":
            q = self.add("Mul", q, self.number(factor))
        if where == "both":
            q = self.add("Mul", self.number(factor**0.5), q)
        if early and where == "both":
            k = self.add("Mul", k, self.number(factor**0.5))
        if self.wrong != UNTURNED:
            k = self.add("Transpose", k, attributes="<perm = [0,1,3,2]>")
        if not early and where == "both":
            k = self.add("Mul", k, self.number(factor**0.5))
        scores = self.add("MatMul", q, k)
        if where == "product":
            scores = self.add("Mul", scores, self.number(factor))
        if where == "quotient":
            scores = self.add("Div", scores, self.number(1 / factor))
        if self.wrong == "scale for each head":
            each = np.arange(1, self.heads + 1, dtype=np.float32)[:, None, None]
            scores = self.add("Mul", scores, self.constant(each))
        if self.wrong == "negative scale":
            scores = self.add("Mul", scores, self.number(-1))
        return scores

    def _weights(self, scores: str) -> str:
        if self.wrong == "scaled mask":
            masked = self.add("Add", scores, self.input("m", "S", self.total))
            scores = self.add("Mul", masked, self.number(0.5))
        elif self.wrong == "mask enlarges the batch":
            scores = self.add("Add", scores, self.input("m", "3", "1", "S", self.total))
        elif self.wrong != "mask behind the softmax":
            scores = self._masked(scores)
        axis = -2 if self.wrong == "softmax over queries" else self.choose("-1", "3")
        weights = self.add("Softmax", scores, attributes=f"<axis = {axis}>")
        if self.choose("plain", "plain", "guard") == "guard":
            weights = self.add("Where", self.add("IsNaN", weights), self.number(0), weights)
        if self.wrong == "mask behind the softmax":
            weights = self.add("Mul", weights, self.input("m", "S", self.total))
        return weights

    def _masked(self, scores: str) -> str:
        dims = {
            "all": ("B", "1", "S", self.total), "keys": ("B", "1", "1", self.total), "matrix": ("S", self.total),
            "heads": ("1", str(self.heads), "S", self.total), "vector": (self.total,),
        }  # fmt: skip
        kind = self.choose("no mask", "added", "chosen", "in place", "in place, inverted")
        if kind == "no mask":
            return scores
        shape = dims[self.choose(*dims)]
        fill = self.number(float(np.finfo(np.float32).min) if self.choose("least", "large") == "least" else -1e10)
        if kind == "added":
            return self.add("Add", *self.random.sample([scores, self.input("m", *shape)], 2))
        mask = self.input("m", *shape, kind="bool")
        if kind == "chosen":
            return self.add("Add", scores, self.add("Where", mask, self.number(0), fill))
        return self.add("Where", mask, *((scores, fill) if kind == "in place" else (fill, scores)))

    def model(self, *, dynamic: bool) -> ir.Model:
        """Return the model, with names or with numbers for its sizes."""
        sizes = self.sizes
        declared = ", ".join(
            f"{kind}[{','.join(str(sizes.get(dim, dim)) if not dynamic else dim for dim in dims)}] {name}"
            for name, (kind, dims) in self.inputs.items()
        )
        results = ", ".join(f"float[{','.join('?' * rank)}] {name}" for name, rank in self._ranks().items())
        constants = ", ".join(
            f"{'float' if array.dtype == np.float32 else 'int64'}{list(array.shape) or ''} {name} = "
            f"{{{','.join(map(str, array.reshape(-1).tolist()))}}}"
            for name, array in self.constants.items()
        )
        text = f"g ({declared}) => ({results}) <{constants}> {{ {' '.join(self.lines)} }}"
        return model_of(text, opset=23, ir_version=11)

    def _ranks(self) -> dict[str, int]:
        first, *others = self.outputs
        return {first: 3 if "flat" in self.choices else 4, **dict.fromkeys(others, 4)}

    def feeds(self, seed: int) -> dict[str, np.ndarray]:
        """Draw inputs; masks leave out some keys, and for one query perhaps all."""
        generator = np.random.default_rng(seed)
        drawn: dict[str, np.ndarray] = {}
        for name, (kind, dims) in self.inputs.items():
            numbers = generator.standard_normal([self.sizes.get(dim) or int(dim) for dim in dims])
            drawn[name] = (numbers > -0.7) if kind == "bool" else numbers.astype(np.float32)
        return drawn
