"""A catalog entry for inputs that were drawn at random, since there are no data."""

from __future__ import annotations

from hone_runtime.values.samples import TrackedFile
from kedro_hone.datasets.files import FileDataset


class DraftDataset(FileDataset):
    """A file of drawn inputs: a run on it ends with the verdict ``DRAFT``, and publishes nothing.

    ``kedro hone optimize --no-data`` writes such entries. Arguments are those of ``FileDataset``.
    """

    def load(self) -> TrackedFile:
        """Return the file as a verified copy, marked as drawn.

        Raises:
            DataError: As ``FileDataset.load``.
        """
        return super().load().model_copy(update={"drawn": True})
