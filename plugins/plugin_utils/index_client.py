"""Asks addresses of the user's own settings: proxy, certificates, credentials and retries as pip and uv have them."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import base64
import contextlib
import http.client
import netrc
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.uv_options import mask

_BUSY = (429, 500, 502, 503, 504)  # worth asking again
_PROXIES = {"http": ("HTTP_PROXY", "http_proxy"), "https": ("HTTPS_PROXY", "https_proxy")}
_TIMEOUTS = ("UV_HTTP_TIMEOUT", "UV_REQUEST_TIMEOUT", "HTTP_TIMEOUT")


class ReadError(Exception):
    """Why something cannot be read, and what to set; the text is for people."""


class Answer(NamedTuple):
    """What an address gave: `status` is 404 where there is nothing; `url` is where redirects led."""

    status: int
    body: bytes
    kind: str
    url: str
    total: int  # bytes of the whole file


class Client:
    """`env`: the variables that uv would get; `addresses`: those of the indexes, where credentials may stand.

    Counts its requests and the bytes they brought.
    """

    def __init__(self, env: Mapping[str, str], addresses: Iterable[str]) -> None:
        self.requests = 0
        self.bytes = 0
        self._timeout = _number(env, _TIMEOUTS, 30)
        self._tries = 1 + _number(env, ("UV_HTTP_RETRIES",), 3)
        trusted = env.get("UV_INSECURE_HOST", "").replace(",", " ").split()
        self._trusted = {host.partition(":")[0] for host in trusted}
        self._checked = _opener(env, _context(env))
        self._unchecked = _opener(env, _unchecked_context()) if trusted else self._checked
        # An index names its files without the credentials of its own address.
        self._credentials = {_server(address): pair for address in addresses if (pair := _pair(address))}

    def get(self, url: str, accept: str = "*/*", span: str = "") -> Answer:
        """The content; with `span` (as in a Range header) a part of it, or no content where parts are not served."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme in ("", "file"):
            return _local(Path(urllib.parse.unquote(parts.path)), url)
        headers = {"Accept": accept, **({"Range": f"bytes={span}"} if span else {})}
        pair = _pair(url) or self._known(url)
        for left in reversed(range(self._tries)):
            # urllib writes the proxy into a request: sent again, it would go through HTTPS's tunnel in the clear.
            request = urllib.request.Request(_bare(url), headers=headers)
            if pair:
                request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")
            try:
                return self._once(request, span)
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    return Answer(404, b"", "", url, 0)
                if error.code not in _BUSY or not left:
                    raise ReadError(_refused(url, error.code)) from error
            except (OSError, http.client.HTTPException) as error:
                if not left:
                    raise ReadError(_unreachable(url, error)) from error
            time.sleep(0.5 * (self._tries - left))
        raise AssertionError("unreachable: the last try returns or raises")

    def _once(self, request: urllib.request.Request, span: str) -> Answer:
        self.requests += 1
        trusted = urllib.parse.urlsplit(request.full_url).hostname in self._trusted
        opener = self._unchecked if trusted else self._checked
        with opener.open(request, timeout=self._timeout) as answer:
            whole = answer.headers.get("Content-Range", "").rpartition("/")[2]
            # A whole wheel in answer to a span is hung up on: it may have a gigabyte.
            served = not span or (answer.status == 206 and whole.isdigit())
            body = answer.read() if served else b""
            self.bytes += len(body)
            total = int(whole) if whole.isdigit() else len(body)
            return Answer(answer.status, body, answer.headers.get_content_type(), answer.url, total)

    def _known(self, url: str) -> str:
        if pair := self._credentials.get(_server(url)):
            return pair
        with contextlib.suppress(OSError, netrc.NetrcParseError):
            if found := netrc.netrc().authenticators(urllib.parse.urlsplit(url).hostname or ""):
                return f"{found[0]}:{found[2]}"
        return ""


def shown(url: str) -> str:
    """An address as it may be printed: no credentials, no signature."""
    return mask(url).partition("#")[0].partition("?")[0]


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Credentials go along to the same server, and to no other."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        led = super().redirect_request(req, fp, code, msg, headers, _bare(newurl))
        if led:
            led.remove_header("Proxy-authorization")  # comes again where a proxy is asked again
            header = req.get_header("Authorization")
            if header and _server(led.full_url) == _server(req.full_url):
                led.add_unredirected_header("Authorization", header)
        return led


def _server(url: str) -> tuple[str, str | None, int | None]:
    """Whom credentials are for. Those of HTTPS are not for HTTP on the same host."""
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _bare(url: str) -> str:
    """An address as it is asked: credentials go into a header."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))


def _number(env: Mapping[str, str], names: Sequence[str], default: int) -> int:
    """The first of these variables that is set."""
    name = next((name for name in names if env.get(name)), "")
    if name and not env[name].isdecimal():
        raise ReadError(f"{name}: {env[name]}: is no whole number. To fix it: write one, such as {default}")
    return int(env[name]) if name else default


def _pair(url: str) -> str:
    """user:password of an address, empty where it has none."""
    parts = urllib.parse.urlsplit(url)
    quoted = f"{parts.username}:{parts.password or ''}" if parts.username else ""
    return urllib.parse.unquote(quoted)


def _context(env: Mapping[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(
            cafile=env.get("SSL_CERT_FILE") or None, capath=env.get("SSL_CERT_DIR") or None
        )
        if env.get("SSL_CLIENT_CERT"):
            context.load_cert_chain(env["SSL_CLIENT_CERT"])
    except OSError as error:
        names = "SSL_CERT_FILE, SSL_CERT_DIR, SSL_CLIENT_CERT or pip's cert and client-cert"
        raise ReadError(f"a certificate file cannot be read: {error}. To fix it: correct {names}") from error
    return context


def _unchecked_context() -> ssl.SSLContext:
    """For the hosts that the user trusts without a certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _opener(env: Mapping[str, str], context: ssl.SSLContext) -> urllib.request.OpenerDirector:
    everywhere = env.get("ALL_PROXY") or env.get("all_proxy")
    proxies = {
        scheme: proxy
        for scheme, names in _PROXIES.items()
        if (proxy := next((env[name] for name in names if env.get(name)), everywhere))
    }
    handlers = [urllib.request.ProxyHandler(proxies), urllib.request.HTTPSHandler(context=context), _Redirects()]
    return urllib.request.build_opener(*handlers)


def _local(path: Path, url: str) -> Answer:
    try:
        body = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return Answer(404, b"", "", url, 0)
    except OSError as error:
        raise ReadError(f"{path} cannot be read: {error.strerror}. To fix it: let this user read it") from error
    return Answer(200, body, "text/html", url, len(body))


def _refused(url: str, status: int) -> str:
    fixes = {
        401: "put valid credentials into the address of the index (they are never printed) or into ~/.netrc",
        403: "put valid credentials into the address of the index (they are never printed) or into ~/.netrc",
        407: "put valid credentials into the proxy's address (PIP_PROXY or HTTPS_PROXY)",
    }
    return f"{shown(url)} answers with HTTP {status}. To fix it: {fixes.get(status, 'try again later')}"


def _unreachable(url: str, error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLCertVerificationError):
        fix = "name the right CA file in PIP_CERT or SSL_CERT_FILE"
        return f"the certificate of {shown(url)} is not trusted: {reason.verify_message}. To fix it: {fix}"
    fix = "set PIP_INDEX_URL (or UV_DEFAULT_INDEX) to an index that can be reached; behind a proxy, PIP_PROXY"
    return f"{shown(url)} cannot be reached: {mask(str(reason))}. To fix it: check the network, or {fix}"
