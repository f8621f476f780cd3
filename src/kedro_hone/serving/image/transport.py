"""HTTP for the distribution API: tokens, redirects that lose credentials, and errors in a registry's own words."""

from __future__ import annotations

import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, Final

from pydantic import BaseModel, ValidationError

from hone_runtime.text import clean_line
from hone_runtime.values.base import Json
from kedro_hone.serving.image.credentials import Credentials

TIMEOUT_SECONDS: Final = 60.0
LARGEST_ANSWER: Final = 4 << 20
"""Limit in bytes of a manifest or a message; the distribution specification has the same for manifests."""
_CHALLENGE: Final = re.compile(r'(\w+)="([^"]*)"')
_TOKEN_ANSWER: Final = 401
_CLIENT: Final = "kedro-hone"


class RegistryError(Exception):
    """A registry's refusal, or the end of a connection, in one line without secrets.

    Attributes:
        status: The HTTP status; 0 if there was no answer.
    """

    def __init__(self, said: str, *, status: int = 0) -> None:
        super().__init__(clean_line(said))
        self.status = status

    @property
    def is_passing(self) -> bool:
        """Whether another attempt may succeed."""
        return self.status in {0, 408, 429} or self.status >= 500


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A registry's answer; ``stream`` is open until ``close`` is called."""

    status: int
    url: str
    headers: HTTPMessage
    stream: IO[bytes] = field(repr=False)

    def read(self) -> bytes:
        """Return the body, and close the answer.

        Raises:
            RegistryError: The connection ended, or the body is too large.
        """
        with self.stream:
            try:
                content = self.stream.read(LARGEST_ANSWER + 1)
            except (OSError, HTTPException) as error:
                raise RegistryError(f"the connection ended: {error}") from error
        if len(content) > LARGEST_ANSWER:
            raise RegistryError(f"the answer is larger than {LARGEST_ANSWER >> 20} MiB", status=self.status)
        return content


class _Token(BaseModel):
    """The answer of a token server."""

    token: str | None = None
    access_token: str | None = None


class _Error(BaseModel):
    code: Json
    message: Json = ""


class _Refusal(BaseModel):
    """The errors of a registry, in the specification's form."""

    errors: tuple[_Error, ...]


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects of reads, never from HTTPS to HTTP; credentials are not sent to the target."""

    def redirect_request(  # noqa: PLR0917 - as in the base class
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise RegistryError("it redirects from HTTPS to HTTP", status=code)
        return super().redirect_request(req, fp, code, msg, headers, newurl)

    def http_error_302(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> Any:
        """Follow a redirect; the answer is closed if it leads to no URL."""
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except (RegistryError, ValueError):
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class Transport:
    """Sends requests to one registry, with the user's credentials where it asks for them.

    Args:
        base: The registry's URL, such as ``https://registry.example.org``.
        credentials: The user's credentials for it.
        scope: What a token is asked for, such as ``repository:team/digits:pull,push``.
        direct: Whether no proxy is used, as on loopback.
    """

    def __init__(self, base: str, *, credentials: Credentials, scope: str, direct: bool) -> None:
        self._base, self._credentials, self._scope, self._header = base, credentials, scope, ""
        self._opener = urllib.request.OpenerDirector()  # without files and FTP: a redirect must not lead there
        for handler in (
            urllib.request.ProxyHandler({} if direct else None),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(),
            urllib.request.HTTPDefaultErrorHandler(),
            _Redirects(),
            urllib.request.HTTPErrorProcessor(),
        ):
            self._opener.add_handler(handler)

    def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: Callable[[], IO[bytes] | bytes] | None = None,
        accepted: frozenset[int] = frozenset({200}),
    ) -> Answer:
        """Return the answer to a request, which is sent again with a token if the registry asks for one.

        Args:
            method: The HTTP method.
            path: The path, or a URL of this registry.
            headers: Further headers; a body that is a stream needs its length.
            body: Returns the body: a second attempt starts at its beginning.
            accepted: The statuses that are no error.

        Raises:
            RegistryError: Another status, or no answer.
        """
        url = self.resolve(path)
        answer = self._send_once(method, url, headers or {}, body)
        # A server that the registry redirects to must not choose who gets the credentials.
        asks = answer.status == _TOKEN_ANSWER and self._is_own(answer.url)
        try:
            renewed = asks and self._authorize(answer.headers.get("WWW-Authenticate", ""))
        except RegistryError:
            answer.stream.close()
            raise
        if renewed:
            answer.stream.close()
            answer = self._send_once(method, url, headers or {}, body)
        if answer.status not in accepted:
            raise RegistryError(f"{method} {url}: {_describe(answer)}", status=answer.status)
        return answer

    def resolve(self, path: str) -> str:
        """Return the URL of a path, or of an absolute URL of the registry.

        Raises:
            RegistryError: It is not HTTP, or leads from HTTPS to HTTP.
        """
        try:
            url = urllib.parse.urljoin(f"{self._base}/", path)
            scheme = urllib.parse.urlsplit(url).scheme
        except ValueError as error:  # such as of a host with one bracket
            raise RegistryError(f"it names {path}, which is no URL", status=400) from error
        if scheme not in {"http", "https"} or (self._base.startswith("https:") and scheme == "http"):
            raise RegistryError(f"it names {url}, which is not on HTTPS as the registry is", status=400)
        return url

    def _send_once(
        self, method: str, url: str, headers: Mapping[str, str], body: Callable[[], IO[bytes] | bytes] | None
    ) -> Answer:
        data = body() if body else None
        request = urllib.request.Request(url, data=data, method=method, headers={"User-Agent": _CLIENT, **headers})  # noqa: S310 - `resolve` checked it
        if self._header and self._is_own(url):
            request.add_unredirected_header("Authorization", self._header)
        try:
            found = self._opener.open(request, timeout=TIMEOUT_SECONDS)
        except urllib.error.HTTPError as error:
            found = error
        except (OSError, HTTPException, ValueError) as error:  # of TLS, names, a cut connection, and a redirect's URL
            reason = getattr(error, "reason", None) or error
            raise RegistryError(f"{method} {url}: {reason}") from error
        finally:
            if data is not None and not isinstance(data, bytes):
                data.close()
        return Answer(status=found.status, url=found.geturl() or url, headers=found.headers, stream=found)

    def _is_own(self, url: str) -> bool:
        return urllib.parse.urlsplit(url)[:2] == urllib.parse.urlsplit(self._base)[:2]

    def _authorize(self, challenge: str) -> bool:
        """Set the header that a challenge asks for; return whether there is a new one."""
        kind, _, rest = challenge.partition(" ")
        before = self._header
        if kind.lower() == "basic" and self._credentials.basic:
            self._header = f"Basic {self._credentials.basic}"
        elif kind.lower() == "bearer":
            self._header = f"Bearer {self._fetch_token(dict(_CHALLENGE.findall(rest)))}"
        return self._header != before

    def _fetch_token(self, asked: Mapping[str, str]) -> str:
        """Return a token of the server that the registry names; the user's credentials are sent to it."""
        realm, url = asked.get("realm", ""), self.resolve(asked.get("realm", ""))
        fields = {"scope": self._scope, **({"service": asked["service"]} if "service" in asked else {})}
        request = urllib.request.Request(f"{url}{'&' if '?' in url else '?'}{urllib.parse.urlencode(fields)}")  # noqa: S310 - checked
        if self._credentials.refresh:
            form = {
                **fields,
                "grant_type": "refresh_token",
                "client_id": _CLIENT,
                "refresh_token": self._credentials.refresh,
            }
            request = urllib.request.Request(url, data=urllib.parse.urlencode(form).encode())  # noqa: S310 - checked
        elif self._credentials.basic:
            request.add_unredirected_header("Authorization", f"Basic {self._credentials.basic}")
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as found:
                sent = _Token.model_validate_json(found.read(LARGEST_ANSWER))
        except urllib.error.HTTPError as error:
            raise RegistryError(f"the token server {realm} answered {error.code}", status=error.code) from error
        except ValidationError as error:
            raise RegistryError(f"the token server {realm} sent no token", status=_TOKEN_ANSWER) from error
        except (OSError, HTTPException, ValueError) as error:
            raise RegistryError(f"the token server {realm}: {error}") from error
        token = sent.token or sent.access_token
        if not token or not token.isascii() or not token.isprintable():
            raise RegistryError(f"the token server {realm} sent no token", status=_TOKEN_ANSWER)
        return token


def _describe(answer: Answer) -> str:
    """Return the status, and the messages of a registry if it has the specification's form."""
    try:
        errors = _Refusal.model_validate_json(answer.read()).errors
        said = "; ".join(f"{one.code}: {one.message}" for one in errors)[:500]
    except (RegistryError, ValueError):  # also of a redirect's answer, which is closed
        said = ""
    return f"{answer.status}{f' {said}' if said else ''}"
