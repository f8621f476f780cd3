"""Diffusers: recognised for an error that they will be supported later."""

from __future__ import annotations

from kedro_hone.sources.source_format import Flavor, Pulled, SourceFormat

INDEX = "model_index.json"


def detect(pulled: Pulled) -> Flavor | None:
    """Recognise ``model_index.json``, which lists the parts of a pipeline."""
    if (pulled.folder / INDEX).is_file() or "diffusers" in (pulled.mlmodel.flavors if pulled.mlmodel else ()):
        return Flavor(format="diffusers", files=((INDEX, INDEX),))
    return None


SOURCE_FORMAT = SourceFormat(
    name="diffusers",
    noun="a pipeline of Diffusers",
    detect=detect,
    order=80,
    unsupported="Models of several parts that run in turns come with a later version of kedro-hone.",
    hint="Export the part that takes longest, such as its unet, with torch.export, and name that.",
)
