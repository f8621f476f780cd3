"""BladeDISC's own code: compile TorchScript, describe the compiled model, and run it.

Works with Python 3.8 and PyTorch 1.12, which the vendor's images have, and with later ones.
"""

from __future__ import annotations

from . import compilation, session

transform = compilation.transform
describe = session.describe
load = session.Session
