# SPDX-License-Identifier: MIT
"""The whole tiny model in PyTorch: a model directory's weights in the trainer's modules, stage by stage, in fp32."""
import json
import os

import torch

from checkpoint import read_state
from flow import FlowModel
from image_encoder import ImageEncoder
from sparse import Grid
from structure import StructureDecoder
from vae import SparseDecoder, predicted

POSITION_CHANNELS = 3  # the last channels of the shape latent are constants that tell each token where it is; see docs/training.md


class TinyPipeline:
    def __init__(self, directory):
        with open(os.path.join(directory, "pipeline.json"), encoding="utf-8") as file:
            self.args = json.load(file)["args"]
        self.directory = directory
        self.structure_flow = self.flow("sparse_structure_flow_model")
        self.shape_flow = self.flow("shape_slat_flow_model_512")
        self.texture_flow = self.flow("tex_slat_flow_model_512")
        self.structure_decoder = self.load(StructureDecoder, "sparse_structure_decoder")
        self.shape_decoder = self.sparse_decoder("shape_slat_decoder", 7, True)
        self.texture_decoder = self.sparse_decoder("tex_slat_decoder", 6, False)
        self.image_encoder = self.load_image_encoder()

    def path(self, role):
        return os.path.join(self.directory, self.args["models"][role])

    def config(self, role):
        with open(self.path(role) + ".json", encoding="utf-8") as file:
            return json.load(file)["args"]

    def load(self, kind, role, **extra):
        model = kind(**self.config(role), **extra)
        model.load_state_dict(read_state(self.path(role) + ".safetensors"))
        return model.eval()

    def flow(self, role):
        return self.load(FlowModel, role)

    def sparse_decoder(self, role, outputs, predicts):
        args = self.config(role)
        model = SparseDecoder(outputs, args["model_channels"], args["num_blocks"], predicts, args["latent_channels"])
        model.load_state_dict(read_state(self.path(role) + ".safetensors"))
        return model.eval()

    def load_image_encoder(self):
        folder = os.path.join(self.directory, self.args["image_cond_model"]["args"]["model_name"])
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            model = ImageEncoder(**json.load(file))
        model.load_state_dict(read_state(os.path.join(folder, "model.safetensors")), strict=False)  # mask_token may be absent
        return model.eval()

    def normalization(self, stage):
        """Mean and deviation of a latent, stage "shape" or "tex"."""
        entry = self.args[stage + "_slat_normalization"]
        return torch.tensor(entry["mean"]), torch.tensor(entry["std"])

    def sampler(self, stage):
        """Sampler settings, stage "sparse_structure", "shape_slat" or "tex_slat"."""
        entry = self.args[stage + "_sampler"]
        return {**entry["args"], **entry["params"]}

    def decode_shape(self, latent, coords):
        """Denormalised latent [N, 32] at coords [N, 4] -> 7 outputs per voxel, their grid, subdivision logits per level."""
        with torch.no_grad():
            return self.shape_decoder(latent, Grid(coords), predicted)
