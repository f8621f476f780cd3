"""kedro-hone: every new version in your model registry comes back faster, with proof."""

from __future__ import annotations

__version__ = "0.1.0"
