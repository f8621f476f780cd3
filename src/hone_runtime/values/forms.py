"""Other forms of a winner that are published with it, by their digests."""

from __future__ import annotations

from pydantic import Field

from hone_runtime.values.base import Derived, Value

IMAGE = "image"
"""The form that is pushed to a registry of images; all others are folders of the published version."""

FORMS_FOLDER = "exports"
"""The folder of a published version with a folder for each form."""


class WinnerForm(Value):
    """One form of a winner, such as a model repository of Triton."""

    form: str = Field(description="A target of `kedro hone export`, or `image`.")
    digest: str = Field("", description="`sha256:…` of the folder's files, or the image's own; empty if absent.")
    place: str = Field("", description="Of an image: where it is pushed, without the tag.")
    reason: str = Field("", description="Why there is none: the form does not fit the winner.")


class WinnerForms(Derived):
    """All forms that a recipe requires for a winner."""

    forms: tuple[WinnerForm, ...] = ()
