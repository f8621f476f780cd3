"""Where a winner is published, and in which forms."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, model_validator

from kedro_hone.recipe.bounds import Place, Section, split_names

Form = Literal["triton", "ovms", "mlserver", "onnx", "openvino", "executorch", "tflite", "image"]
"""What `publish.export` may name: targets of `kedro hone export`, and an image."""

Allowed = Literal["anomalous"]
"""What `publish.allow` may name."""

IMAGE: Final = "image"


class ImageSection(Section):
    """The image of a winner."""

    push: Place = Field(description="Where it is pushed: registry/name:tag.")
    base: Place | None = Field(
        None, description="The base image: a reference, or the folder of an OCI layout; Python's slim image when empty."
    )


class PublishSection(Section):
    """Where the winner is published, and in which other forms."""

    enabled: bool = Field(default=True, description="Publish a winner; the verdict does not change.")
    uri: Place | None = Field(
        None,
        description="The winner's target model, if it is in another registry than the source: `hf://owner/name`, or "
        "`hf://owner/name@branch`; `models:/name`; or a path. The source's registry when empty.",
    )
    name: Place | None = Field(None, description="The registered model's name; the source's own when empty.")
    pull_request: bool = Field(
        default=False, description="Open a pull request in place of a commit: on the Hugging Face Hub only."
    )
    alias: str = Field(
        "honed", min_length=1, max_length=255, description="The alias that is moved to the new version, last."
    )
    approval: Literal["never", "first", "always"] = Field(
        "never",
        description="When a person must approve a winner before the alias is moved: never; while no version of the "
        "model has the alias (first); or for each winner (always). Until then the version has no alias; "
        "`kedro hone approve URI` moves it.",
    )
    allow: Annotated[tuple[Allowed, ...], BeforeValidator(split_names)] = Field(
        (),
        description="What a winner may be, although such a one is withheld by default: `anomalous`, which is trained "
        "and better than the source by more than training explains.",
    )
    export: Annotated[tuple[Form, ...], BeforeValidator(split_names)] = Field(
        (),
        description="Other forms of the winner that are published with the version: folders for servers, as by "
        "`kedro hone export`, and `image`. Their digests are in the evidence. A form that does not fit the winner is "
        "left out, with the reason.",
    )
    image: ImageSection | None = Field(None, description="Where the image is pushed; needed for the form `image`.")

    @model_validator(mode="after")
    def _check_forms(self) -> PublishSection:
        if (IMAGE in self.export) != (self.image is not None):
            raise ValueError("publish.export: [image] and publish.image.push belong together: one of them is missing")
        return self
