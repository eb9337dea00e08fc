"""Translates index settings (inventory variables, uv's own, pip's) into environment variables and options of uv.

uv ignores pip's settings; a user who configured pip for a mirror, a proxy or a directory of wheels expects them to
be honoured. Precedence, per setting: inventory variable, then uv's own variable or file, then pip's.
Addresses go into environment variables and not onto the command line, where every user could read a password in them.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.pip_settings import Setting, is_true

#: uv's own ways to say the same thing: variables, and keys of uv.toml.
_UV_VARIABLES: Dict[str, Tuple[str, ...]] = {
    "index-url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    "extra-index-url": ("UV_INDEX", "UV_EXTRA_INDEX_URL"),
    "find-links": ("UV_FIND_LINKS",),
    "no-index": ("UV_NO_INDEX",),
    "proxy": ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"),
    "cert": ("SSL_CERT_FILE", "SSL_CERT_DIR"),
    "client-cert": ("SSL_CLIENT_CERT",),
    "trusted-host": ("UV_INSECURE_HOST",),
    "timeout": ("UV_HTTP_TIMEOUT", "UV_REQUEST_TIMEOUT", "HTTP_TIMEOUT"),
    "retries": ("UV_HTTP_RETRIES",),
    "constraint": ("UV_CONSTRAINT",),
}
_UV_FILE_KEYS: Dict[str, Tuple[str, ...]] = {
    "index-url": ("index-url",),
    "extra-index-url": ("extra-index-url",),
    "find-links": ("find-links",),
    "no-index": ("no-index",),
    "trusted-host": ("allow-insecure-host",),
}
_CREDENTIALS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<user>[^/@\s'\"`]+)@")


class UvSettings(NamedTuple):
    """What to add to uv's command line and environment ("" = leave that variable out), and where it comes from."""

    options: List[str]
    env: Dict[str, str]
    origins: Dict[str, str]  # setting -> where a person would edit it
    secrets: List[str]
    constraints: List[str]  # files; they are given to uv where a lock is made, and checked by us where it is installed


def translate(
    pip: Mapping[str, Setting], variables: Mapping[str, Sequence[str]], env: Mapping[str, str], uv_files: Sequence[str]
) -> UvSettings:
    """`pip`: pip's settings; `variables`: the inventory's, by pip's key; `uv_files`: texts of uv.toml files."""
    options: List[str] = []
    added: Dict[str, str] = {"UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
    origins: Dict[str, str] = {}
    chosen: Dict[str, Tuple[str, ...]] = {}
    for key, names in _UV_VARIABLES.items():
        own = [name for name in names if env.get(name)]
        if variables.get(key):
            chosen[key] = tuple(variables[key])
            origins[key] = f"inventory variable pytorch_{key.replace('-', '_')}" + ("s" if key[0] == "e" else "")
        elif own:
            origins[key] = f"environment variable {own[0]}"
        elif any(_sets(text, key) for text in uv_files):
            origins[key] = "uv.toml"
        elif key in pip and (key != "no-index" or is_true(pip[key])):
            chosen[key] = pip[key].values
            origins[key] = pip[key].origin
    # Variables of uv's that an inventory variable overrides must not stay beside it under another name.
    for key in chosen:
        added.update({name: "" for name in _UV_VARIABLES[key] if env.get(name) and name.startswith("UV_")})
    if "index-url" in chosen:
        added["UV_DEFAULT_INDEX"] = chosen["index-url"][0]
    if "extra-index-url" in chosen:
        added["UV_INDEX"] = " ".join(chosen["extra-index-url"])
    if "find-links" in chosen:
        added["UV_FIND_LINKS"] = ",".join(chosen["find-links"])
    if "no-index" in chosen:
        options.append("--no-index")
    if "proxy" in chosen:
        address = chosen["proxy"][0]
        proxy = address if "://" in address else f"http://{address}"
        added.update({"HTTPS_PROXY": proxy, "HTTP_PROXY": proxy, "ALL_PROXY": proxy})
    if "cert" in chosen:
        added["SSL_CERT_FILE"] = chosen["cert"][0]
    if "client-cert" in chosen:
        added["SSL_CLIENT_CERT"] = chosen["client-cert"][0]
    if "trusted-host" in chosen:
        added["UV_INSECURE_HOST"] = " ".join(chosen["trusted-host"])
    if "timeout" in chosen:
        added["UV_HTTP_TIMEOUT"] = str(max(1, int(float(chosen["timeout"][0]))))
    if "retries" in chosen:
        added["UV_HTTP_RETRIES"] = chosen["retries"][0]
    constraints = list(chosen.get("constraint", ())) or (env.get("UV_CONSTRAINT") or "").split()
    added["UV_CONSTRAINT"] = ""
    if not env.get("UV_INDEX_STRATEGY"):
        # pip looks at all indexes and takes the best; every file is checked against the lock's hashes, so that
        # an index cannot slip in a file of its own.
        added["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    everything = list(added.values()) + [value for name, value in env.items() if name.startswith(("UV_", "PIP_"))]
    everything += [value for setting in pip.values() for value in setting.values]
    return UvSettings(options, added, origins, secrets(everything), constraints)


def with_index(settings: UvSettings, index: str, env: Mapping[str, str]) -> UvSettings:
    """The same settings with one more index, asked besides the others."""
    indexes = settings.env.get("UV_INDEX") or env.get("UV_INDEX") or ""
    added = dict(settings.env, UV_INDEX=f"{indexes} {index}".strip())
    return settings._replace(env=added, secrets=settings.secrets + secrets([index]))


def _sets(text: str, key: str) -> bool:
    """Does a uv.toml set this key? (The oldest Python has no TOML parser: a key at a line's start is enough.)"""
    names = _UV_FILE_KEYS.get(key, ())
    if any(re.search(rf"^\s*{name}\s*=", text, re.MULTILINE) for name in names):
        return True
    if key not in ("index-url", "extra-index-url"):
        return False
    default = re.search(r"^\s*default\s*=\s*true", text, re.MULTILINE) is not None
    return re.search(r"^\s*\[\[(tool\.uv\.)?index\]\]", text, re.MULTILINE) is not None and (
        default or key == "extra-index-url"
    )


def secrets(texts: Sequence[str]) -> List[str]:
    """The user:password parts of addresses, and the passwords alone."""
    found = set()
    for text in texts:
        for match in _CREDENTIALS.finditer(text):
            found.add(match.group("user"))
            password = match.group("user").partition(":")[2]
            if password:
                found.add(password)
    return sorted(found)


def mask(text: str) -> str:
    """The same text with the credentials of every address hidden."""
    return _CREDENTIALS.sub(r"\g<scheme>***@", text)
