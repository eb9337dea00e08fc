"""Turns what uv says when it fails into one clear problem: what happened, where, and what to do."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.uv_options import mask


class Failure(NamedTuple):
    """One problem: `kind` for programs, the rest for people."""

    kind: str
    text: str
    fix: str
    detail: str


#: First match wins; the more telling sentences come first.
_PATTERNS: Tuple[Tuple[str, str], ...] = (
    ("hash_mismatch", r"Hash mismatch for `(?P<what>[^`]+)`"),
    ("no_space", r"No space left on device|os error 28\b|Disk quota exceeded|os error 122\b"),
    ("permission", r"Permission denied|os error 13\b|Read-only file system|os error 30\b"),
    ("python_missing", r"No interpreter found (?:at path|for|in)\s*(?P<what>.*)"),
    ("wheel_for_python", r"(?P<what>[\w.+-]+==[^ ]+) has no wheels with a matching (?P<why>[^(]+?) (?:\(|and )"),
    ("wheel_missing", r"there is no version of (?P<what>[A-Za-z0-9._+-]+==[^ ]+)"),
    ("wheel_missing", r"(?P<what>\S+) was not found in the (?:package registry|provided package locations)"),
    ("wheel_missing", r"No matching version of|unsatisfiable|No solution found"),
    ("index_denied", r"HTTP status (?:client|server) error \((?P<what>40[13][^)]*)\)"),
    ("index_error", r"HTTP status (?:client|server) error \((?P<what>[^)]*)\)"),
    ("index_timeout", r"operation timed out|request timed out|UV_HTTP_TIMEOUT"),
    ("certificate", r"invalid peer certificate|UnknownIssuer|certificate verify failed|self.signed certificate"),
    ("index_unreachable", r"error sending request|dns error|tcp connect error|Connection refused|connection closed"),
)
_URL = re.compile(r"https?://[^\s`'\")]+|file://[^\s`'\")]+")


def explain(stderr: str, context: Mapping[str, str], origins: Mapping[str, str]) -> Failure:
    """`context`: requirements, python, store, index (the torch index tried); `origins`: setting -> its place."""
    text = mask(stderr)
    detail = _detail(text)
    kind, found = "unknown", {}
    for name, pattern in _PATTERNS:
        match = re.search(pattern, text)
        if match:
            kind = name
            found = {key: (value or "").strip().strip("`") for key, value in match.groupdict().items()}
            break
    url = _URL.search(text)
    host = _site(url.group(0)) if url else None
    what = found.get("what", "")
    place = _index_place(host, context, origins)
    texts: Dict[str, Tuple[str, str]] = {
        "hash_mismatch": (
            f"{what} from the index is not the file that {context['requirements']} was locked with",
            "ask who runs the index, mirror or find-links why the file differs; never install it",
        ),
        "no_space": (
            f"no space left while building the environment in {context['store']}",
            "free space there or in uv's cache, or choose another disk with trainrig_prefix or pytorch_cache",
        ),
        "permission": (
            f"no permission to write while building the environment in {context['store']}",
            "make it writable for this user, choose another trainrig_prefix, or run with become",
        ),
        "python_missing": (
            f"no Python interpreter at {context['python']}",
            "install it with the system's package manager, or set trainrig_stack.python to one that is there",
        ),
        "wheel_for_python": (
            f"no index offers {what} for the Python at {context['python']} (no wheel of its {found.get('why', '')})",
            _offer(context, origins),
        ),
        "wheel_missing": (
            f"no index offers {what or 'a locked package'}, which {context['requirements']} asks for",
            _offer(context, origins),
        ),
        "index_denied": (
            f"the index {host or ''} refuses access ({what}); it comes from {place}",
            "put valid credentials there (they are never printed)",
        ),
        "index_error": (f"the index {host or ''} answers with {what}; it comes from {place}", "try again later"),
        "index_timeout": (
            f"the index {host or ''} did not answer in time; it comes from {place}",
            "try again, raise pytorch_timeout, or set pytorch_index_url to a nearer mirror",
        ),
        "certificate": (
            f"the certificate of {host or 'the index'} is not trusted; the index comes from {place}",
            "name the right CA file in pip's `cert` setting or SSL_CERT_FILE",
        ),
        "index_unreachable": (
            f"the index {host or ''} cannot be reached; it comes from {place}",
            "check network and proxy, or set pytorch_index_url or pytorch_find_links to one that can be reached",
        ),
        "unknown": ("uv could not build the environment", "see uv's own words"),
    }
    sentence, fix = texts[kind]
    return Failure(kind, sentence, fix, detail)


def is_missing_wheel(failure: Failure) -> bool:
    """True where another index could help."""
    return failure.kind in ("wheel_missing", "wheel_for_python")


def _offer(context: Mapping[str, str], origins: Mapping[str, str]) -> str:
    asked = f"; asked: {context['asked']}" if context.get("asked") else ""
    return (
        "set pytorch_find_links, pytorch_extra_index_urls or pytorch_torch_index to a place that has it, "
        f"or choose another version, variant or python in trainrig_stack{asked}"
    )


def _index_place(host: Optional[str], context: Mapping[str, str], origins: Mapping[str, str]) -> str:
    if host and context.get("torch_index") and host == _site(context["torch_index"]):
        return "pytorch_torch_index"
    places: List[str] = [origins[key] for key in ("index-url", "extra-index-url", "find-links") if key in origins]
    return " or ".join(places) if places else "uv's default"


def _site(url: str) -> str:
    return "/".join(url.split("/")[:3])


def _detail(text: str) -> str:
    """uv's own sentences: from its first error line on, without progress lines."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if line.lstrip().startswith(("error:", "Error")):
            lines = lines[number:]
            break
    return " | ".join(" ".join(line.split()) for line in lines[:12])[:1000]
