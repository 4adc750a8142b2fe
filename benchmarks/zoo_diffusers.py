"""Parts of diffusion pipelines in the zoo: networks that remove noise, and decoders of latent images."""

from __future__ import annotations

from typing import Any

import torch
from zoo_prepared import Called, Prepared, Row


def diffusers_part(architecture: str, options: dict[str, Any]) -> Prepared:
    """Prepare a part of a diffusion pipeline, which is called by name; images have dynamic sizes."""
    import diffusers

    module = getattr(diffusers, architecture)(**options)
    text, width = options.get("cross_attention_dim", 32), options.get("in_channels", 4)
    latent = torch.randn(2, options.get("latent_channels", width), 16, 16)
    size = {0: "batch", 2: "height", 3: "width"}
    inputs: dict[str, tuple[torch.Tensor, dict[int, str]]] = {
        "sample": (latent, size),
        "latent": (latent, size),
        "hidden_states": (latent, size),
        "timestep": (torch.tensor([3, 7]), {0: "batch"}),
        "class_labels": (torch.tensor([1, 2]), {0: "batch"}),
        "encoder_hidden_states": (torch.randn(2, 7, text), {0: "batch", 1: "text"}),
        "pooled_projections": (torch.randn(2, 24), {0: "batch"}),
    }
    if architecture.startswith("Autoencoder"):
        module.forward = lambda latent, return_dict: module.decode(latent, return_dict=return_dict)
        names: tuple[str, ...] = ("latent",)
    else:
        names = {
            "UNet2DModel": ("sample", "timestep"),
            "UNet2DConditionModel": ("sample", "timestep", "encoder_hidden_states"),
            "DiTTransformer2DModel": ("hidden_states", "timestep", "class_labels"),
            "SD3Transformer2DModel": ("hidden_states", "encoder_hidden_states", "pooled_projections", "timestep"),
        }[architecture]
    called = Called(module, names, lambda made: made[0], return_dict=False)
    return Prepared(called, {name: inputs[name][0] for name in names}, {name: inputs[name][1] for name in names})


_BLOCKS = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
DIFFUSERS: tuple[Row, ...] = (
    ("UNet2DModel", "ts17+", {
        **_BLOCKS, "in_channels": 3, "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
        "up_block_types": ("AttnUpBlock2D", "UpBlock2D"), "attention_head_dim": 8,
    }),
    ("UNet2DConditionModel", "ts17+ dy20", {
        **_BLOCKS, "cross_attention_dim": 32, "attention_head_dim": 8,
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    }),
    ("AutoencoderKL", "ts17+", {
        **_BLOCKS, "latent_channels": 4, "down_block_types": ("DownEncoderBlock2D",) * 2,
        "up_block_types": ("UpDecoderBlock2D",) * 2,
    }),
    ("AutoencoderTiny", "ts18+", {
        "encoder_block_out_channels": (16, 16), "decoder_block_out_channels": (16, 16),
        "num_encoder_blocks": (1, 1), "num_decoder_blocks": (1, 1),
    }),
    ("DiTTransformer2DModel", "ts17", {
        "num_attention_heads": 4, "attention_head_dim": 8, "in_channels": 4, "num_layers": 2, "sample_size": 16,
        "num_embeds_ada_norm": 10,
    }),
    ("SD3Transformer2DModel", "ts17", {
        "sample_size": 16, "patch_size": 2, "in_channels": 4, "num_layers": 2, "attention_head_dim": 8,
        "num_attention_heads": 4, "joint_attention_dim": 32, "caption_projection_dim": 32,
        "pooled_projection_dim": 24, "out_channels": 4, "pos_embed_max_size": 16,
    }),
)  # fmt: skip
