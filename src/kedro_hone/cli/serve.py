"""``kedro hone serve``: winners over the Open Inference Protocol, until a signal comes."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from hone_runtime.errors import HoneError
from kedro_hone.cli.names import check_server_name
from kedro_hone.cli.signers import pull_allowed, read_policy, signer_options, trust_option
from kedro_hone.serving.environment import build_server
from kedro_hone.serving.launch import describe_model, run_server, write_files
from kedro_hone.serving.server.configuration import Batching, Configuration, Limits, ModelConfiguration
from kedro_hone.serving.server.ports import reserve_ports
from kedro_hone.serving.tokens import find_text_input
from kedro_hone.serving.winner import ServedWinner

_WHOLE = click.IntRange(1)


@click.command()
@click.argument("uris", nargs=-1, required=True, metavar="URI…")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on; 0.0.0.0 for all.")
@click.option("--http-port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="0: any free port.")
@click.option("--grpc-port", default=8081, show_default=True, type=click.IntRange(0, 65535), help="0: any free port.")
@click.option(
    "--name",
    "names",
    multiple=True,
    callback=check_server_name,
    help="The name in the server, once for each URI; by default the URI's.",
)
@click.option(
    "--workers", default=1, show_default=True, type=click.IntRange(1, 64), help="Processes that share the ports."
)
@click.option("--threads", type=_WHOLE, help="Threads of each model's runtime; by default as many as were measured.")
@click.option("--max-batch", type=click.IntRange(2, 4096), help="Join requests into calls of up to this many rows.")
@click.option(
    "--max-delay-ms",
    default=2.0,
    show_default=True,
    type=click.FloatRange(0, 1000),
    help="How long a request waits for others to join it.",
)
@click.option(
    "--max-request-mb", default=64, show_default=True, type=click.IntRange(1, 2047), help="The largest request."
)
@click.option("--max-rows", default=1024, show_default=True, type=_WHOLE, help="The most rows of a request.")
@click.option(
    "--max-queue",
    default=128,
    show_default=True,
    type=_WHOLE,
    help="The most unanswered requests of a model, in each process.",
)
@click.option(
    "--grace-seconds",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0, 3600),
    help="How long accepted requests may take after a signal to stop.",
)
@click.option("--with-tokenizer", is_flag=True, help="Take texts: one input `text` in place of the tokens.")
@click.option(
    "--on-mismatch",
    type=click.Choice(["refuse", "warn"]),
    default="refuse",
    show_default=True,
    help="What to do if the outputs for the golden rows differ here.",
)
@trust_option
@signer_options
@click.option("--json", "json_line", is_flag=True, help="Print the addresses as one line of JSON.")
def serve(uris: tuple[str, ...], *, names: tuple[str, ...], **options: Any) -> None:
    """Serve published winners over HTTP and gRPC, by the Open Inference Protocol, until SIGTERM or Ctrl-C.

    Each URI is models:/name@alias, models:/name/version, or a folder. The server is ready when the golden rows gave the
    recorded outputs. It listens on this machine only, unless --host names another address.
    """
    if names and len(names) != len(uris):
        raise click.UsageError(f"--name is given {len(names)} times, and there are {len(uris)} URIs")
    read_policy({one: options[one] for one in ("keys", "identity", "issuer")})
    with reserve_ports(options["host"], options["http_port"], options["grpc_port"]):
        pass  # before anything is downloaded or built
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="kedro-hone-serve-")))
        winners = [
            stack.enter_context(pull_allowed(uri, options, name=name))
            for uri, name in zip(uris, names or [None] * len(uris), strict=True)
        ]
        configuration = _configure(winners, options)
        environment = build_server(winners)
        code = run_server(write_files(configuration, winners, folder), environment)
    sys.exit(code)


def _configure(winners: list[ServedWinner], options: dict[str, Any]) -> Configuration:
    models = tuple(_describe(winner, options) for winner in winners)
    try:
        return Configuration(
            models=models,
            host=options["host"],
            http_port=options["http_port"],
            grpc_port=options["grpc_port"],
            workers=options["workers"],
            limits=Limits(
                request_bytes=options["max_request_mb"] << 20,
                rows=options["max_rows"],
                queue=options["max_queue"],
                grace_seconds=options["grace_seconds"],
            ),
            json_line=options["json_line"],
        )
    except ValueError as error:
        shared = [one.name for one in models if [other.name for other in models].count(one.name) > 1]
        if not shared and options["http_port"] != options["grpc_port"]:
            raise
        why = f"Two models are named {shared[0]}." if shared else "REST and gRPC have the same port."
        hint = "Give each URI a --name of its own." if shared else "Choose another --grpc-port."
        raise HoneError("option-invalid", "The server cannot be started so.", why=why, hint=hint) from error


def _describe(winner: ServedWinner, options: dict[str, Any]) -> ModelConfiguration:
    rows, text = options["max_batch"], None
    if options["with_tokenizer"]:
        text = find_text_input(winner.download.folder, winner.artifact)
    return describe_model(
        winner,
        threads=options["threads"],
        on_mismatch=options["on_mismatch"],
        batching=Batching(rows=rows, delay_ms=options["max_delay_ms"]) if rows else None,
        text=text,
    )
