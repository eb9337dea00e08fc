"""Controller side of trainrig.gpu.lock: makes the lock of an inventory, shows what changes, and writes it."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.uv_options import mask
from ansible_collections.trainrig.gpu.plugins.module_utils.lock import document, wishes
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.installer_settings import uv_settings
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve import problem, stack
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.lock_maker import LockError, LockMaker
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import origin, plain
from ansible_collections.trainrig.gpu.plugins.plugin_utils.wheel_sizes import SizeError

_ARGUMENTS = {
    "directory": {"type": "path", "required": True},
    "stack": {"type": "raw"},
    "profiles": {"type": "list", "elements": "dict", "default": []},
    "index_date": {"type": "str"},
    "index_url": {"type": "str"},
    "extra_index_urls": {"type": "list", "elements": "str", "default": []},
    "find_links": {"type": "list", "elements": "str", "default": []},
    "uv": {"type": "path"},
}
_HEADER = """\
# What this inventory's machines get, exactly. Made by playbooks/lock.yml; do not edit, the digest would not fit.
# Profiles in order of preference; a machine gets the first that meets the declaration and fits its hardware.
"""


class ActionModule(ActionBase):
    """Writes stack.lock.yml and requirements/*.txt, or in check mode only says what would change."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        where = origin(self._task.args.get("stack")) or ""
        _validated, arguments = self.validate_argument_spec(_ARGUMENTS)
        options = plain(arguments)
        directory = Path(options["directory"])
        declared, problems = stack.validate(options["stack"], load("torch"), where)
        wanted = options["profiles"] or wishes.from_stack(declared, load("torch"))
        problems += [found for wish in wanted if (found := wishes.problem(wish, load("torch"), where))]
        if problems:
            raise AnsibleActionFail("\n".join(problem.message(found) for found in problems))
        old, old_texts = _read(directory)
        date = _index_date(options["index_date"] or old.get("index_date"))
        try:
            lock, texts = self._make(options, declared, wanted, date)
        except (LockError, SizeError) as error:
            raise AnsibleActionFail(mask(str(error))) from error
        changes = document.difference(old, lock, old_texts, texts)
        stale = [name for name in old_texts if name not in texts]
        written = {document.NAME: _HEADER + _yaml(lock), **texts}
        changed = any(_text(directory / name) != text for name, text in written.items()) or bool(stale)
        if changed and not self._task.check_mode:
            _write(directory, written, stale)
        path = str(directory / document.NAME)
        return {"changed": changed, "changes": changes, "digest": lock["digest"], "path": path}

    def _make(
        self, options: dict[str, Any], declared: dict[str, str], wanted: list[dict[str, Any]], date: str
    ) -> tuple[dict[str, Any], dict[str, str]]:
        uv = options["uv"] or shutil.which("uv", path=sysconfig.get_path("scripts")) or shutil.which("uv")
        if not uv:
            raise AnsibleActionFail("uv is not installed on the controller. To fix it: install its pinned dependencies")
        # An index of pip's that has no upload dates cannot be cut at the index date; only an inventory's own counts.
        variables = {
            "index-url": [options["index_url"]] if options["index_url"] else [],
            "extra-index-url": options["extra_index_urls"],
            "find-links": options["find_links"],
        }
        env = {name: value for name, value in os.environ.items() if name != "PIP_EXTRA_INDEX_URL"}
        settings, warnings = uv_settings(variables, env, sys.prefix)
        for warning in warnings:
            self._display.warning(warning)
        if not options["extra_index_urls"]:
            settings.env.pop("UV_INDEX", None)
        maker = LockMaker(uv, settings, date)
        profiles, texts = [], {}
        for wish in wanted:
            self._display.display(f"Resolving profile {wish['name']}: PyTorch {wish['pytorch']} {wish['variant']}")
            profile, text = maker.profile(wish, document.NAME)
            profiles.append(profile)
            texts[profile["requirements"]["file"]] = text
        return document.sealed({"index_date": date, "stack": declared, "profiles": profiles}), texts


class _Dumper(yaml.SafeDumper):
    """Lists indented below their key; short collections on one line, long ones not."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> Any:
        long = isinstance(mapping, dict) and len(mapping) > 4
        return super().represent_mapping(tag, mapping, False if long else flow_style)


def _yaml(lock: dict[str, Any]) -> str:
    text: str = yaml.dump(lock, Dumper=_Dumper, sort_keys=False, width=1000, default_flow_style=None)
    return text


def _index_date(asked: str | None) -> str:
    """The instant at which indexes are looked at: as asked, as in the present lock, or the beginning of this day."""
    if not asked or asked == "now":
        return datetime.now(timezone.utc).strftime("%Y-%m-%dT00:00:00Z")
    try:
        parsed = datetime.fromisoformat(asked.replace("Z", "+00:00"))
    except ValueError as error:
        text = f"trainrig_lock.index_date: {asked}: is no date. To fix it: write 2026-11-30 or 2026-11-30T00:00:00Z"
        raise AnsibleActionFail(text) from error
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=timezone.utc)
    return parsed.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _read(directory: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The present lock, empty where there is none or where it cannot be read, and the requirement files beside it."""
    try:
        lock = yaml.safe_load(_text(directory / document.NAME) or "") or {}
    except yaml.YAMLError:
        lock = {}
    texts = {f"requirements/{path.name}": path.read_text("utf-8") for path in directory.glob("requirements/*.txt")}
    usable = isinstance(lock, dict) and not any(p["rule"] == "lock.unreadable" for p in document.problems(lock, texts))
    return (lock if usable else {}), texts


def _write(directory: Path, written: dict[str, str], stale: list[str]) -> None:
    """The lock last: while it is the old one, its hashes say that the files beside it are not its own."""
    for name in sorted(written, key=lambda name: name == document.NAME):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_text(written[name], encoding="utf-8")
        temporary.replace(path)
    for name in stale:
        (directory / name).unlink(missing_ok=True)
