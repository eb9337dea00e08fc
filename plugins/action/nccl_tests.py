"""Controller side of trainrig.gpu.nccl_tests: the locked archive of nccl-tests, and which node builds it."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import ansible.constants as constants
import yaml
from ansible.module_utils.urls import open_url
from ansible.plugins.action import ActionBase
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import plain

_NAME, _LOCK = "nccl-tests", "stack.lock.yml"
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "archive": {"type": "str", "default": ""},
    "ready": {"type": "str", "required": True},
}


class ArchiveError(Exception):
    """Why there is nothing to build from; the text is for people."""


class ActionModule(ActionBase):
    """Reads the lock and the archive; contacts no node."""

    _requires_connection = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _validated, validated = self.validate_argument_spec(_ARGUMENTS)
        arguments = plain(validated)
        own = plain(variables["inventory_hostname"])
        profile = str((plain(variables.get("trainrig_profile")) or {}).get("name"))
        keep = Path(constants.config.get_config_value("DEFAULT_LOCAL_TMP")) / _NAME / profile
        answer: dict[str, Any] = {"changed": False, "builds": False, "builder": None, "error": None, "keep": str(keep)}
        try:
            source = self._source(variables)
            builder = self._builder(variables, arguments["ready"], profile)
            answer.update(builder=builder, sha256=source["sha256"], tag=source["tag"])
            if builder == own:
                keep.mkdir(parents=True, exist_ok=True)
                archive = arguments["archive"] or self._declared(variables)
                answer.update(builds=True, file=str(_file(archive, source["sha256"], variables, keep)))
        except ArchiveError as error:
            answer.update(builder=None, error={"piece": "archive", "text": str(error), "lines": []})
        return answer

    def _source(self, variables: dict[str, Any]) -> dict[str, Any]:
        if "trainrig_python" in variables:
            raise ArchiveError("with trainrig_python nothing is left on a node, so nothing is built there")
        declared = plain(variables.get("trainrig_declared")) or {}
        path = Path((declared.get("settings") or {}).get("lock_directory") or variables["inventory_dir"]) / _LOCK
        # The play has checked the whole lock before; here one list of it counts.
        lock = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
        found = [row for row in lock.get("sources") or [] if row["name"] == _NAME]
        if not found:
            raise ArchiveError(f"the lock has no source archive {_NAME} (trainrig_lock.sources)")
        return dict(found[0])

    def _declared(self, variables: dict[str, Any]) -> str:
        """Where the inventory says that the archive was locked from."""
        written = plain(self._templar.template(variables.get("trainrig_lock") or {}))
        rows = [row for row in written.get("sources") or [] if row.get("name") == _NAME]
        if not rows:
            raise ArchiveError(f"nobody says where {_NAME} is: set verify_nccl_tests_archive")
        return str(rows[0]["archive"])

    @staticmethod
    def _builder(variables: dict[str, Any], ready: str, profile: str) -> str | None:
        """The first host of the profile whose own stages passed."""
        hostvars, playing = variables["hostvars"], plain(variables["ansible_play_hosts"])

        def fits(host: str) -> bool:
            own = plain(hostvars[host].get("trainrig_profile")) or {}
            return bool(plain(hostvars[host].get(ready))) and str(own.get("name")) == profile

        return next(filter(fits, sorted(playing)), None)


def _shown(archive: str) -> str:
    """An address may hold a password."""
    return "the address of the archive" if "://" in archive else archive


def _file(archive: str, sha256: str, variables: dict[str, Any], keep: Path) -> Path:
    """The archive as a file on the controller, and the one that was locked."""
    try:
        if "://" in archive:
            path = keep.parent / f"{sha256}.tar.gz"
            with open_url(archive, timeout=120, decompress=False) as stream:
                path.write_bytes(stream.read())
        else:
            path = Path(str(variables["inventory_dir"])) / Path(archive).expanduser()
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except Exception as error:  # open_url raises what its transports raise
        raise ArchiveError(f"{_shown(archive)}: cannot be read: {type(error).__name__}") from None
    if digest != sha256:
        raise ArchiveError(f"{_shown(archive)}: SHA-256 is {digest}, the lock says {sha256}")
    return path
