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

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.uv_options import mask
from ansible_collections.trainrig.gpu.plugins.module_utils.lock import document, systems, wishes
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.difference import difference
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.urls import malformed, shown
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.installer_settings import uv_settings
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve import problem, stack
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.profile import DEFAULT_POOL
from ansible_collections.trainrig.gpu.plugins.plugin_utils import lock_files
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load, revision
from ansible_collections.trainrig.gpu.plugins.plugin_utils.declarations import declared, misspelt
from ansible_collections.trainrig.gpu.plugins.plugin_utils.lock_maker import LockError, LockMaker
from ansible_collections.trainrig.gpu.plugins.plugin_utils.lock_settings import lock_settings
from ansible_collections.trainrig.gpu.plugins.plugin_utils.lock_sources import SourceError, locked_source
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import origin, plain
from ansible_collections.trainrig.gpu.plugins.plugin_utils.system_lock import SystemLocker, SystemLockError
from ansible_collections.trainrig.gpu.plugins.plugin_utils.wheel_sizes import SizeError

_ARGUMENTS = {
    "directory": {"type": "path", "required": True},
    "settings": {"type": "raw"},
    "repositories": {"type": "raw"},
    "index_date": {"type": "str"},
    "index_url": {"type": "str"},
    "extra_index_urls": {"type": "list", "elements": "str", "default": []},
    "find_links": {"type": "list", "elements": "str", "default": []},
    "uv": {"type": "path"},
}


class ActionModule(ActionBase):
    """Writes stack.lock.yml and requirements/*.txt, or in check mode only says what would change."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _validated, arguments = self.validate_argument_spec(_ARGUMENTS)
        options = plain(arguments)
        directory = self._directory(options["directory"], task_vars or {})
        hosts = self._hosts(task_vars or {})
        where = origin(self._task.args.get("settings")) or str(directory)
        asked, problems = lock_settings(options["settings"], options["repositories"], directory, where)
        self._stop(problems)
        options.update({key: value for key, value in asked.items() if key != "index_date"})
        old, old_texts = lock_files.present(directory)
        date = _index_date(options["index_date"] or asked["index_date"] or old.get("index_date"))
        try:
            lock, texts = self._make(options, hosts, date)
            files = lock_files.written(lock, texts)
            stale = [name for name in old_texts if name not in texts]
            changed = lock_files.differ(directory, files) or bool(stale)
            if changed and not self._task.check_mode:
                if old.get("digest") != lock["digest"]:
                    lock_files.keep(directory)
                lock_files.write(directory, files, stale)
        except (LockError, lock_files.LockError, SizeError, SourceError, SystemLockError) as error:
            raise AnsibleActionFail(mask(str(error))) from None
        for system in lock["systems"]:
            for warning in system["warnings"]:
                self._display.warning(f"system {system['name']}: {warning['rule']}: {warning['text']}")
        return {
            "changed": changed,
            "changes": difference(old, lock, old_texts, texts) + [f"{name}: removed" for name in stale],
            "digest": lock["digest"],
            "path": str(directory / document.NAME),
        }

    @staticmethod
    def _directory(named: str, variables: dict[str, Any]) -> Path:
        """Where the lock is written: beside the one inventory that there is."""
        found = {str(variables["hostvars"][name].get("inventory_dir")) for name in plain(variables["groups"]["all"])}
        if len(found) > 1:
            text = f"hosts come from several inventories ({problem.listed(sorted(found))}), each has a lock of its own"
            raise AnsibleActionFail(f"{text}. To fix it: make one after the other, each with one -i.")
        if not Path(named).is_dir():
            text = f"the inventory is in no directory ({named}), and a lock is written beside it"
            raise AnsibleActionFail(f"{text}. To fix it: name a file or a directory with -i.")
        return Path(named)

    def _hosts(self, variables: dict[str, Any]) -> list[systems.Host]:
        """Every host of the inventory with its declaration, checked, and with what was seen on it."""
        found: list[systems.Host] = []
        problems: list[problem.Problem] = []
        problems += misspelt(variables)
        for name in plain(variables["groups"]["all"]):
            known = variables["hostvars"][name]
            written = known.get("trainrig_stack") or {}
            where = origin(written) or f"host {name}"
            checked, wrong = declared(plain(written), where)
            problems += [one for one in wrong if one not in problems]
            seen = plain(known.get("trainrig_observed") or {})
            pool = str(known.get("trainrig_pool", DEFAULT_POOL))
            groups = plain(known.get("group_names") or [])
            found.append(systems.Host(name, pool, groups, checked, seen.get("observation")))
        if problems:
            raise AnsibleActionFail("\n".join(map(problem.message, problems)))
        return found

    def _make(
        self, options: dict[str, Any], hosts: list[systems.Host], date: str
    ) -> tuple[dict[str, Any], dict[str, str]]:
        needed, problems = systems.wanted(hosts, load("packages")["layers"])
        self._stop(problems)
        locker = SystemLocker(options["repositories"], date[:10])
        locked = []
        for need in needed:
            self._display.display(f"Resolving system {need.pool}-{need.platform}: {', '.join(need.gpus) or 'no GPU'}")
            locked.append(locker.locked(need))
        profiles, texts = self._profiles(options, self._wanted(options, hosts, locked), date)
        lock = {
            "index_date": date,
            "data_revision": revision(lock_files.LOCKED_DATA),
            "asked": document.asked(options["settings"]),
            "declared": _once([document.declaration(host.pool, host.stack) for host in hosts]),
            "sources": [locked_source(row) for row in options["sources"]],
            "profiles": profiles,
            "systems": locked,
        }
        return document.sealed(lock), texts

    def _wanted(
        self, options: dict[str, Any], hosts: list[systems.Host], locked: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """The profiles to make: those spelled out, else those of the systems, else those that the declarations mean."""
        chosen_by = [{key: host.stack[key] for key in stack.KEYS} for host in hosts]
        wanted = options["profiles"] or systems.profiles(locked)
        wanted = wanted or _once([wish for one in _once(chosen_by) for wish in wishes.from_stack(one, load("torch"))])
        self._stop([found for wish in wanted if (found := wishes.problem(wish, load("torch"), "trainrig_lock"))])
        return wanted

    def _profiles(
        self, options: dict[str, Any], wanted: list[dict[str, Any]], date: str
    ) -> tuple[list[dict[str, Any]], dict[str, str]]:
        uv = options["uv"] or shutil.which("uv", path=sysconfig.get_path("scripts")) or shutil.which("uv")
        if not uv:
            raise AnsibleActionFail("uv is not installed on the controller. To fix it: install its pinned dependencies")
        for name, address in [
            ("pytorch_index_url", options["index_url"]),
            *(("pytorch_extra_index_urls", one) for one in options["extra_index_urls"]),
        ]:
            if address and (wrong := malformed(address)):
                raise AnsibleActionFail(f"{name}: {shown(address)}: {wrong[0]}. To fix it: {wrong[1]}.")
        # An index of pip's that has no upload dates cannot be cut at the index date; only an inventory's own counts.
        variables = {
            "index-url": [options["index_url"]] if options["index_url"] else [],
            "extra-index-url": options["extra_index_urls"],
            "find-links": options["find_links"],
        }
        env = {name: value for name, value in os.environ.items() if name != "PIP_EXTRA_INDEX_URL"}
        client, warnings = uv_settings(variables, env, sys.prefix)
        for warning in warnings:
            self._display.warning(warning)
        if not options["extra_index_urls"]:
            client.env.pop("UV_INDEX", None)
        maker = LockMaker(uv, client, date)
        profiles, texts = [], {}
        for wish in wanted:
            self._display.display(f"Resolving profile {wish['name']}: PyTorch {wish['pytorch']} {wish['variant']}")
            profile, text = maker.profile(wish, document.NAME)
            profiles.append(profile)
            texts[profile["requirements"]["file"]] = text
        return profiles, texts

    @staticmethod
    def _stop(problems: list[problem.Problem]) -> None:
        if problems:
            raise AnsibleActionFail("\n".join(map(problem.message, problems)))


def _once(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Equal rows once, in order."""
    return [row for at, row in enumerate(rows) if row not in rows[:at]]


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
