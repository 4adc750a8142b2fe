"""Export small transformers with random weights, as people do: by both exporters of PyTorch, with and without past.

    python benchmarks/attention_zoo.py FOLDER [NAME…]

Runs in an environment of zoo.txt. A file is called `<model>-<exporter><opset>.onnx`.
"""

from __future__ import annotations

import argparse
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers as hf
import zoo_operators  # noqa: F401 - before torchvision, which transformers imports with its first model

SIZES: dict[str, Any] = {"vocab_size": 99, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
LLAMA: dict[str, Any] = {
    **SIZES,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
BERT: dict[str, Any] = {
    **SIZES,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}


class Decoder(torch.nn.Module):
    """A language model of tokens, a mask, and with ``past`` of keys and values of each layer; returns logits."""

    def __init__(self, config: Any, layers: int, past: bool) -> None:
        super().__init__()
        self.model = hf.AutoModelForCausalLM.from_config(config).eval()
        self.layers, self.past = layers, past

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor, *past: torch.Tensor) -> Any:
        if not self.past:
            return self.model(input_ids=tokens, attention_mask=mask, use_cache=False).logits
        cache = hf.DynamicCache()
        for layer in range(self.layers):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        done = self.model(input_ids=tokens, attention_mask=mask, past_key_values=cache, use_cache=True)
        kept = done.past_key_values
        states = [state for layer in kept.layers for state in (layer.keys, layer.values)]
        return done.logits, *states


class Plain(torch.nn.Module):
    """A language model of tokens alone, none of them padding."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.model = hf.AutoModelForCausalLM.from_config(config).eval()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mask = torch.ones_like(tokens)  # As for pairs: without one, TorchScript fails.
        return self.model(input_ids=tokens, attention_mask=mask, use_cache=False).logits


class Encoder(torch.nn.Module):
    """A model of tokens and a mask; returns its last hidden state."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.model = hf.AutoModel.from_config(config).eval()

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=tokens, attention_mask=mask).last_hidden_state


class Image(torch.nn.Module):
    """A model of images."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.model = hf.AutoModel.from_config(config).eval()

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.model(pixel_values=pixels).last_hidden_state


class Pair(torch.nn.Module):
    """An encoder and a decoder, of which the first input is of tokens, or of sounds for ``features``."""

    def __init__(self, config: Any, features: bool) -> None:
        super().__init__()
        self.model = hf.AutoModel.from_config(config).eval()
        self.first = "input_features" if features else "input_ids"

    def forward(self, source: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        mask = torch.ones_like(tokens)  # Without one, some models look for packed sequences, which TorchScript cannot.
        given = {self.first: source, "decoder_input_ids": tokens, "decoder_attention_mask": mask, "use_cache": False}
        return self.model(**given).last_hidden_state


def tokens(rows: int = 2, length: int = 7) -> torch.Tensor:
    return torch.randint(3, 90, (rows, length))


def decoder(config: Any, past: bool = False) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], dict[str, Any]]:
    layers = config.num_hidden_layers
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    axes: dict[str, Any] = {"tokens": {0: "batch", 1: "sequence"}, "mask": {0: "batch", 1: "total"}}
    given = [tokens(), torch.ones(2, 7 + (5 if past else 0), dtype=torch.int64)]
    for name in [f"past_{layer}_{kind}" for layer in range(layers) for kind in "kv"] if past else ():
        given.append(torch.randn(2, heads, 5, size))
        axes[name] = {0: "batch", 2: "past"}
    if not past:
        axes["mask"][1] = "sequence"
    return Decoder(config, layers, past), tuple(given), axes


def plain(config: Any) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], dict[str, Any]]:
    return Plain(config), (tokens(),), {"tokens": {0: "batch", 1: "sequence"}}


def encoder(config: Any) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], dict[str, Any]]:
    axes = {"tokens": {0: "batch", 1: "sequence"}, "mask": {0: "batch", 1: "sequence"}}
    return Encoder(config), (tokens(), torch.ones(2, 7, dtype=torch.int64)), axes


def image(config: Any) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], dict[str, Any]]:
    return Image(config), (torch.randn(2, 3, 32, 32),), {"pixels": {0: "batch"}}


def pair(config: Any, *, features: bool = False) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], dict[str, Any]]:
    source = torch.randn(2, 16, 40) if features else tokens(2, 9)
    axes = {"source": {0: "batch"} if features else {0: "batch", 1: "source"}, "tokens": {0: "batch", 1: "sequence"}}
    return Pair(config, features), (source, tokens()), axes


def with_attention(config: Any, kind: str) -> Any:
    config._attn_implementation = kind
    return config


GPT2: dict[str, Any] = {**SIZES, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}
GPTJ: dict[str, Any] = {**GPT2, "rotary_dim": 8}
T5: dict[str, Any] = {
    **SIZES, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0
}  # fmt: skip
WHISPER: dict[str, Any] = {
    **SIZES,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96,
    "num_mel_bins": 16,
    "max_source_positions": 20,
    "max_target_positions": 32,
    "decoder_start_token_id": 0,
}
VIT: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip
DISTILBERT: dict[str, Any] = {**SIZES, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 96}
PHI = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}

MODELS: dict[str, Callable[[str], tuple[torch.nn.Module, tuple[torch.Tensor, ...], dict[str, Any]]]] = {
    "gpt2": lambda kind: decoder(with_attention(hf.GPT2Config(**GPT2), kind)),
    "gpt2_plain": lambda kind: plain(with_attention(hf.GPT2Config(**GPT2), kind)),
    "gpt2_past": lambda kind: decoder(with_attention(hf.GPT2Config(**GPT2), kind), past=True),
    "llama": lambda kind: decoder(with_attention(hf.LlamaConfig(**LLAMA), kind)),
    "llama_plain": lambda kind: plain(with_attention(hf.LlamaConfig(**LLAMA), kind)),
    "llama_past": lambda kind: decoder(with_attention(hf.LlamaConfig(**LLAMA), kind), past=True),
    "mistral": lambda kind: decoder(with_attention(hf.MistralConfig(**LLAMA), kind)),
    "qwen2_past": lambda kind: decoder(with_attention(hf.Qwen2Config(**LLAMA), kind), past=True),
    "qwen3": lambda kind: decoder(with_attention(hf.Qwen3Config(**LLAMA, head_dim=16), kind)),
    "gemma": lambda kind: decoder(with_attention(hf.GemmaConfig(**LLAMA, head_dim=16), kind)),
    "gemma2": lambda kind: decoder(with_attention(hf.Gemma2Config(**LLAMA, head_dim=16), kind)),
    "phi": lambda kind: decoder(with_attention(hf.PhiConfig(**PHI), kind)),
    "gptneox": lambda kind: decoder(with_attention(hf.GPTNeoXConfig(**PHI), kind)),
    "gptj": lambda kind: decoder(with_attention(hf.GPTJConfig(**GPTJ), kind)),
    "bert": lambda kind: encoder(with_attention(hf.BertConfig(**BERT), kind)),
    "distilbert": lambda kind: encoder(with_attention(hf.DistilBertConfig(**DISTILBERT), kind)),
    "t5": lambda kind: pair(with_attention(hf.T5Config(**T5), "eager")),
    "vit": lambda kind: image(with_attention(hf.ViTConfig(**VIT), kind)),
    "whisper": lambda kind: pair(with_attention(hf.WhisperConfig(**WHISPER), kind), features=True),
}


def export(name: str, folder: Path, exporter: str, opset: int, kind: str) -> Path:
    torch.manual_seed(0)
    module, given, axes = MODELS[name](kind)
    path = folder / f"{name}-{exporter}{opset}{'' if kind == 'sdpa' else '-' + kind}.onnx"
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "script":
            names = list(axes)
            torch.onnx.export(
                module, given, str(path), dynamo=False, opset_version=opset, input_names=names, dynamic_axes=axes
            )
        else:
            sizes = [dict.fromkeys(dims, torch.export.Dim.DYNAMIC) for dims in axes.values()]
            first = 2 if any(value.dtype == torch.int64 for value in given[:1]) and len(axes) > 2 else None
            shapes = tuple(sizes) if first is None or len(sizes) == 2 else (*sizes[:2], tuple(sizes[2:]))
            program = torch.onnx.export(
                module, given, dynamo=True, opset_version=opset, dynamic_shapes=shapes, input_names=list(axes),
                verbose=False,
            )  # fmt: skip
            program.save(str(path))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--kinds", nargs="*", default=["sdpa", "eager"])
    parser.add_argument("--exporters", nargs="*", default=["script17", "dynamo18", "dynamo23"])
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or MODELS:
        for which in arguments.exporters:
            for kind in arguments.kinds:
                try:
                    print(export(name, arguments.folder, which[:-2], int(which[-2:]), kind), flush=True)
                except Exception as error:  # noqa: BLE001
                    print(f"{name} {which} {kind}: {type(error).__name__}: {str(error).splitlines()[:1]}", flush=True)
                    if arguments.names:
                        traceback.print_exc(limit=-3)


if __name__ == "__main__":
    main()
