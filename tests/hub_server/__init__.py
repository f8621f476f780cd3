"""A Hub on the loopback device for tests: the part of the Hugging Face Hub's API that kedro-hone uses, stdlib only.

It keeps its repositories in memory and their large files in a folder, asks for tokens, and fails on demand. What the
real Hub does beyond that, such as xet or paging of trees, is not here; a client must set ``HF_HUB_DISABLE_XET=1``.
"""

from hub_server.exchange import Hub
from hub_server.faults import Fault
from hub_server.server import serve
from hub_server.state import Content, Repository, Token

__all__ = ["Content", "Fault", "Hub", "Repository", "Token", "serve"]
