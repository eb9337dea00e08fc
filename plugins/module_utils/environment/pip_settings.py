"""Reads pip's own settings the way pip does: its configuration files and PIP_* variables, in pip's precedence."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import configparser
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

#: The settings that matter to an installer, as pip spells them; True where pip takes several values.
KEYS = {
    "index-url": False,
    "extra-index-url": True,
    "find-links": True,
    "no-index": False,
    "proxy": False,
    "cert": False,
    "client-cert": False,
    "trusted-host": True,
    "timeout": False,
    "retries": False,
    "constraint": True,
}
_ALIASES = {"default-timeout": "timeout", "pypi-url": "index-url"}
#: Later ones override earlier ones; these are what `pip install` reads.
_SECTIONS = ("global", "install")


class Setting(NamedTuple):
    """One setting with the place a person would have to edit."""

    values: Tuple[str, ...]
    origin: str


def config_files(env: Mapping[str, str], home: Optional[str], python_prefix: Optional[str]) -> List[str]:
    """The files pip would read, in the order in which later ones override earlier ones."""
    own = env.get("PIP_CONFIG_FILE")
    if own == "/dev/null":
        return []  # pip's documented way to switch every file off
    directories = [part for part in (env.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":") if part]
    files = [f"{directory.rstrip('/')}/pip/pip.conf" for directory in directories] + ["/etc/pip.conf"]
    if home and not own:  # pip leaves the user's files out where PIP_CONFIG_FILE names one
        config_home = env.get("XDG_CONFIG_HOME") or f"{home}/.config"
        files += [f"{home}/.pip/pip.conf", f"{config_home}/pip/pip.conf"]
    prefix = env.get("VIRTUAL_ENV") or python_prefix
    if prefix:
        files.append(f"{prefix.rstrip('/')}/pip.conf")
    if own:
        files.append(own)
    return files


def read(files: Sequence[Tuple[str, str]], env: Mapping[str, str]) -> Tuple[Dict[str, Setting], List[str]]:
    """pip's effective settings from the files' (path, text) and the environment; and warnings about bad files."""
    by_section: Dict[str, Dict[str, Setting]] = {section: {} for section in _SECTIONS}
    warnings: List[str] = []
    for path, text in files:
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(text)
        except configparser.Error as error:
            reason = str(error).replace("\n", " ")[:120]
            warnings.append(f"{path}: not read, not a pip configuration file ({reason})")
            continue
        for section in _SECTIONS:
            for key, value in parser.items(section) if parser.has_section(section) else ():
                _put(by_section[section], key, value, f"{path} [{section}] {key}")
    settings: Dict[str, Setting] = {}
    for section in _SECTIONS:
        settings.update(by_section[section])
    for name in sorted(env):
        if name.startswith("PIP_") and env[name]:
            _put(settings, name[4:], env[name], f"environment variable {name}")
    return settings, warnings


def _put(settings: Dict[str, Setting], key: str, value: str, origin: str) -> None:
    key = key.lower().replace("_", "-")
    key = _ALIASES.get(key, key)
    if key not in KEYS:
        return
    values = tuple(value.split()) if KEYS[key] else (value.strip(),)
    if values and values != ("",):
        settings[key] = Setting(values, origin)


def is_true(setting: Optional[Setting]) -> bool:
    """pip's reading of a switch."""
    return setting is not None and setting.values[0].lower() in ("1", "y", "yes", "t", "true", "on")
