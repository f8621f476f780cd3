"""The bodies of requests, bounded in size and time."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

LARGEST_BODY: Final = 1 << 17
"""Bytes of a delivery: ten times the size of any registry's. Each connection may read one at the same time."""
_BODY_SECONDS: Final = 10.0


async def read_body(request: Request) -> bytes:
    """Return the body; 413 if it is too large, whatever its stated length; 408 if it is sent too slowly."""
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > LARGEST_BODY:
                    raise HTTPException(413, "the body is too large")
    except TimeoutError as error:
        raise HTTPException(408, f"the body did not come within {_BODY_SECONDS:.0f} s") from error
    except ClientDisconnect as error:
        raise HTTPException(400, "the body is not complete") from error
    return bytes(body)


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; 400 if it cannot be read."""
    body = await read_body(request)
    try:
        found = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError as error:
        raise HTTPException(400, "the form cannot be read") from error
    return {name: values[-1] for name, values in found.items()}


async def read_object(request: Request) -> dict[str, Any]:
    """Return the JSON object in the body; 422 if there is none."""
    body = await read_body(request)
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(422, "the body is not JSON") from error
    if not isinstance(found, dict):
        raise HTTPException(422, "the body is not a JSON object")
    return found
