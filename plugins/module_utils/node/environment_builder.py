"""Brings a symbolic link to a Python environment that is exactly its requirement file: build beside, verify, switch."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
import uuid
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.constraints import violations
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.differences import (
    package_changes,
    record_mismatches,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.requirements import Requirement, parse, select
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.store import (
    Environment,
    is_ours,
    new_name,
    removable,
)
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.uv_errors import explain, is_missing_wheel
from ansible_collections.trainrig.gpu.plugins.module_utils.environment.uv_options import UvSettings, with_index
from ansible_collections.trainrig.gpu.plugins.module_utils.node import files, uv
from ansible_collections.trainrig.gpu.plugins.module_utils.node.uv import Problem
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import environment_state as look
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.environment_users import is_used
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.installer_settings import (
    missing_space,
    read_all,
    uv_settings,
)

_WRITABLE = "make it writable for this user, choose another trainrig_prefix, or run with become"
#: A program that was started through the link must not meet another environment after the link was switched: what it
#: imports later, and the processes it spawns, stay in the directory where it began. And it holds a shared lock on that
#: directory while it lives, so that the environment is not removed under it (see observe/environment_users.py).
_PIN = """import fcntl, os, sys
_link = sys.prefix
_real = os.path.realpath(_link)
if _link != _real:
    sys.path[:] = [_real + p[len(_link):] if p == _link or p.startswith(_link + "/") else p for p in sys.path]
    sys.prefix = sys.exec_prefix = _real
    if (sys.executable or "").startswith(_link + "/"):
        sys.executable = _real + sys.executable[len(_link):]
try:
    _held = os.open(_real, os.O_RDONLY)
    fcntl.flock(_held, fcntl.LOCK_SH | fcntl.LOCK_NB)
except OSError:
    pass
"""


class Builder:
    """One run of the module: look, and where needed build, switch and tidy up."""

    def __init__(self, options: Mapping[str, Any], check_mode: bool, warn: Callable[[str], None]) -> None:
        self.options = options
        self.check_mode = check_mode
        self.warn = warn
        self.link = Path(options["path"])
        self.store = Path(options["store"])
        self.text = ""
        self.lock = -1
        self.reasons: List[str] = []
        self.actions: List[str] = []
        self.origins: Dict[str, str] = {}

    def run(self) -> Dict[str, Any]:
        """Do it; the result is what the module returns."""
        if self.link.exists() and not self.link.is_symlink():
            fix = "move it away, or choose another trainrig_prefix"
            raise Problem("not_ours", f"{self.link} is no symbolic link of ours", fix)
        state = before = self.look()
        self.reasons = list(state["problems"])
        if self.check_mode:
            if self.reasons:
                self.actions.append("build a new environment and switch to it")
            self.actions += [f"remove {self.store / name}" for name in self.superfluous(state["target"], None)]
        elif self.reasons or self.superfluous(state["target"], None):
            try:
                state = self.repair(state["target"])
            finally:
                self.release()
        else:
            self.refresh(state)
        return {
            "changed": bool(self.actions),
            "reasons": self.reasons,
            "actions": self.actions,
            "target": state["target"],
            "previous": before["target"] if before["target"] != state["target"] else None,
            "python": state["python"],
            "packages": state["packages"],
            "settings": self.origins,
            "diff": {"before": _listing(before), "after": _listing(state)},
        }

    def look(self) -> Dict[str, Any]:
        """Read the requirement file and the environment behind the link."""
        path = Path(self.options["requirements"])
        try:
            self.text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            problem = f"requirement file {path} does not exist"
            if not self.check_mode:
                raise Problem("requirements", problem, "copy the lock's requirement file there") from None
            return {"target": None, "python": None, "packages": {}, "problems": [problem]}
        state = look.environment_state(str(self.link), self.text)
        if state["python"] and not self.same_python(self.link):
            asked, made = self.options["python"], (self.link / "bin" / "python").resolve()
            state["problems"].append(f"interpreter changed: made for {made}, now {asked}")
        return state

    def repair(self, previous: Optional[str]) -> Dict[str, Any]:
        """Under the store's lock: take an intact environment that fits or build one, switch to it, tidy up."""
        self.acquire()
        state = self.look()  # another run may have done the work while this one waited
        if state["problems"]:
            self.reasons = list(state["problems"])
            target = self.fitting() or self.build()
            self.switch(target)
            state = self.look()
            if state["problems"]:
                raise _unverified(target, state["problems"])
        for name in self.superfluous(state["target"], previous):
            self.remove(self.store / name)
        return state

    def acquire(self) -> None:
        """One run at a time per store. The lock ends with its holder and the uv that it started."""
        try:
            self.store.mkdir(parents=True, exist_ok=True)
            self.lock = os.open(str(self.store / ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise Problem("permission", f"cannot write to {self.store}: {error.strerror}", _WRITABLE) from error
        deadline = time.monotonic() + self.options["lock_timeout"]
        while True:
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise Problem("locked", f"another run still builds in {self.store}", "wait for it") from error
                time.sleep(0.2)

    def release(self) -> None:
        """Let the next run in."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1

    def environments(self) -> List[Path]:
        """Directories of the store that a build of ours made or began, latest first."""
        if not self.store.is_dir():
            return []
        return sorted((path for path in self.store.iterdir() if is_ours(path.name)), reverse=True)

    def superfluous(self, current: Optional[str], previous: Optional[str]) -> List[str]:
        """Names of environments that nothing needs any more."""
        names = [Path(name).name if name else None for name in (current, previous)]
        found = [
            Environment(path.name, look.is_intact(path), is_used(path))
            for path in self.environments()
            if path.name != names[0]
        ]
        return removable(found, names[0], names[1], self.options["keep"])

    def fitting(self) -> Optional[Path]:
        """An intact environment that is what the lock says: a way back, or a run cut short before its switch."""
        for path in self.environments():
            if not look.environment_state(str(path), self.text)["problems"] and self.same_python(path):
                self.actions.append(f"switch to {path}, which is intact and fits")
                return path
        return None

    def same_python(self, environment: Path) -> bool:
        """Was the environment made for the interpreter that is asked for?"""
        return (environment / "bin" / "python").resolve() == Path(self.options["python"]).resolve()

    def build(self) -> Path:
        """A new, verified environment beside the others."""
        try:
            markers = look.marker_environment(Path(self.options["python"]))
            wanted = select(parse(self.text), markers)
        except look.InterpreterError as error:
            fix = "install it with the system's package manager, or set trainrig_stack.python"
            raise Problem("python_missing", str(error), fix) from error
        except ValueError as error:
            text = f"{self.options['requirements']}: {error}"
            raise Problem("requirements", text, "make the lock again with playbooks/lock.yml") from error
        settings = self.settings()
        self.check_constraints(settings, wanted, markers)
        self.check_space()
        os.umask(0o022)  # what root builds is for everybody
        root = self.store / new_name(time.time(), uuid.uuid4().hex)
        try:
            self.install(root, settings, wanted)
        except Problem:
            files.remove_tree(root)  # nothing half done stays
            raise
        self.finish(root, wanted, markers["python_full_version"])
        self.actions.append(f"build {root}")
        return root

    def settings(self) -> UvSettings:
        """Where wheels come from: the options of the module, then uv's own settings, then pip's."""
        given = self.options
        variables = {
            "index-url": [given["index_url"]] if given["index_url"] else [],
            "extra-index-url": given["extra_index_urls"],
            "find-links": given["find_links"],
            "timeout": [str(given["timeout"])] if given["timeout"] else [],
        }
        prefix = str(Path(given["python"]).resolve().parent.parent)
        settings, warnings = uv_settings(variables, os.environ, prefix)
        for warning in warnings:
            self.warn(warning)
        self.origins = settings.origins
        if given["cache"] and not os.environ.get("UV_CACHE_DIR"):
            settings.env["UV_CACHE_DIR"] = given["cache"]
        return settings

    def check_constraints(
        self, settings: UvSettings, wanted: Mapping[str, Requirement], markers: Mapping[str, str]
    ) -> None:
        """pip would refuse a version that the user's constraints exclude; so does this."""
        texts, warnings = read_all([path.replace("file://", "", 1) for path in settings.constraints])
        versions = {name: requirement.version for name, requirement in wanted.items()}
        broken, unread = violations(texts, versions, markers)
        for warning in warnings + unread:
            self.warn(warning)
        if broken:
            origin = self.origins.get("constraint", "a constraint file")
            fix = "change that file, or make a lock that meets it with playbooks/lock.yml"
            raise Problem("constraint", f"{broken[0]} (named by {origin})", fix, "; ".join(broken[1:]))

    def check_space(self) -> None:
        """Refuse before the first byte is fetched."""
        installed, download = self.options["installed_bytes"], self.options["download_bytes"]
        cache = os.environ.get("UV_CACHE_DIR") or self.options["cache"] or str(Path.home() / ".cache" / "uv")
        needs = [(str(self.store), installed)]
        # uv unpacks into its cache and copies from there; where this set was built before, the cache holds it.
        built = [look.read_record(path) for path in self.environments()]
        if not any(record and record["requirements_sha256"] == files.sha256(self.text) for record in built):
            needs.append((cache, download + installed))
        for path, needed, free in missing_space(needs):
            raise Problem(
                "no_space",
                f"{path} has {_gb(free)} free, the environment needs {_gb(needed)} there "
                f"(download {_gb(download)}, installed {_gb(installed)}, once in uv's cache and once in place)",
                "free space there, or choose another disk with trainrig_prefix or pytorch_cache",
            )

    def install(self, root: Path, settings: UvSettings, wanted: Mapping[str, Requirement]) -> None:
        """uv's part of a build, and a look at what it made."""
        common = ["--no-python-downloads", "--color", "never"]
        self.uv(["venv", *common, "--prompt", "trainrig", "--python", self.options["python"], str(root)], settings)
        sync = ["pip", "sync", *common, "--python", str(root / "bin" / "python"), "--require-hashes", "--no-build"]
        # Copies, never hard links: an edit inside an environment would reach uv's cache and all later repairs.
        sync += ["--link-mode", "copy", *settings.options]
        compile_it = {"always": True, "never": False, "auto": os.geteuid() == 0}[self.options["compile_bytecode"]]
        sync += ["--compile-bytecode"] if compile_it else []
        self.uv([*sync, self.options["requirements"]], settings)
        damaged = self.mismatches(root)
        if damaged:
            self.warn(f"uv's cache is damaged ({damaged[0]}); installing without it")
            self.uv([*sync, "--no-cache", "--reinstall", self.options["requirements"]], settings)
            damaged = self.mismatches(root)
        expected = {name: requirement.version for name, requirement in wanted.items()}
        damaged += package_changes(expected, look.installed_packages(root))
        if damaged:
            raise _unverified(root, damaged)

    def uv(self, arguments: List[str], settings: UvSettings) -> None:
        """Run uv; where the user's indexes lack a package, once more with the torch index besides them."""
        context = {name: str(self.options[name]) for name in ("requirements", "python", "store")}
        code, stderr = uv.run(self.options["uv"], arguments, settings.env, [self.lock])
        if code == 0:
            return
        failure = explain(stderr, context, settings.origins)
        torch_index = self.options["torch_index"]
        if torch_index and is_missing_wheel(failure):
            wider = with_index(settings, torch_index, os.environ)
            code, stderr = uv.run(self.options["uv"], arguments, wider.env, [self.lock])
            if code == 0:
                self.origins["torch-index"] = "inventory variable pytorch_torch_index"
                return
            again = explain(stderr, dict(context, torch_index=torch_index), settings.origins)
            if not is_missing_wheel(again):
                failure = again._replace(
                    kind=failure.kind if again.kind.startswith("index_") else again.kind,
                    text=f"{failure.text}; {again.text}",
                    fix=failure.fix,
                )
        raise Problem(*failure)

    def mismatches(self, root: Path) -> List[str]:
        """Files that are not what the packages themselves say."""
        return record_mismatches(look.package_records(root), look.read_files(root, look.list_files(root)))

    def finish(self, root: Path, wanted: Mapping[str, Requirement], python: str) -> None:
        """Write down what was built, last of all: without this record the directory is an interrupted build."""
        packages = look.site_packages(root)[0]
        (packages / "_trainrig_pin.py").write_text(_PIN, encoding="utf-8")
        (packages / "_trainrig_pin.pth").write_text("import _trainrig_pin\n", encoding="utf-8")
        files.sync_file_system(root)
        listing = look.list_files(root)
        record = {
            "schema": look.BUILD_SCHEMA,
            "requirements_sha256": files.sha256(self.text),
            "python": python,
            "locked": {name: [item.version, list(item.hashes)] for name, item in sorted(wanted.items())},
            "stat_digest": look.stat_digest(listing),
            "files": look.read_files(root, listing),
        }
        files.write_atomically(root / look.BUILD_RECORD, json.dumps(record, sort_keys=True) + "\n")

    def refresh(self, state: Mapping[str, Any]) -> None:
        """Files that were only touched are what they were: take that down, so that the next look is cheap again."""
        root = Path(state["target"])
        record = look.read_record(root)
        if record and record["stat_digest"] != state["stat_digest"]:
            with contextlib.suppress(PermissionError):  # somebody else's environment: a look stays expensive
                text = json.dumps(dict(record, stat_digest=state["stat_digest"]), sort_keys=True)
                files.write_atomically(root / look.BUILD_RECORD, text + "\n")

    def switch(self, target: Path) -> None:
        """Let the link name the new environment, in one step that a crash cannot cut in two."""
        try:
            files.link_atomically(self.link, os.path.relpath(str(target), str(self.link.parent)))
        except OSError as error:
            raise Problem("permission", f"cannot write {self.link}: {error.strerror}", _WRITABLE) from error

    def remove(self, path: Path) -> None:
        """Remove an environment, its record first, so that what a crash leaves is not taken for a finished one."""
        with contextlib.suppress(FileNotFoundError):
            (path / look.BUILD_RECORD).unlink()
        files.remove_tree(path)
        self.actions.append(f"remove {path}")


def _unverified(root: Path, problems: Sequence[str]) -> Problem:
    return Problem("verify", f"{root} does not verify: {'; '.join(problems[:5])}", "check the disk, then run again")


def _listing(state: Mapping[str, Any]) -> str:
    return "".join(f"{name}=={version}\n" for name, version in sorted(state["packages"].items()))


def _gb(size: int) -> str:
    return f"{size / 1e9:.2f} GB"
