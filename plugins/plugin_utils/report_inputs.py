"""Gathers what a run knows about every host of the inventory, from the variables that its plays left behind."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.report.expected import problems
from ansible_collections.trainrig.gpu.plugins.plugin_utils import baseline_file
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import plain
from ansible_collections.trainrig.gpu.plugins.plugin_utils.ssh_line import ssh_line

TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def hosts(task_vars: Mapping[str, Any], now: datetime, names: Iterable[str] | None = None) -> dict[str, dict[str, Any]]:
    """What the report is built from, for each host of the inventory, or of `names`. Never an implicit localhost."""
    hostvars = task_vars["hostvars"]
    models = list(load("gpus")["gpus"])
    return {name: _host(hostvars[name], now, models) for name in names or plain(task_vars["groups"]["all"])}


def _expected(written: Any, models: Iterable[str]) -> dict[str, Any] | None:
    """What was ordered. One with a mistake in it has stopped the run before; nothing is held against it."""
    return None if problems(written, models) else written


def _host(variables: Mapping[str, Any], now: datetime, models: Iterable[str]) -> dict[str, Any]:
    def value(name: str) -> Any:
        found = variables.get(name)
        return None if found is None else plain(found)

    plan = value("trainrig_plan")
    observation = value("trainrig_observation")
    return {
        "observation": observation,
        "plan": plan,
        "findings": [*(value("trainrig_findings") or []), *(value("verify_findings") or [])],
        "failures": value("trainrig_failures"),
        "applied": value("trainrig_applied"),
        "deferred": value("trainrig_deferred"),
        # No value and an empty list differ: nothing was measured, or it was and there is nothing to say.
        "measurements": value("verify_measurements"),
        "left_out": value("verify_left_out"),
        "expected": _expected(value("trainrig_expected"), models),
        "versions": value("verify_versions"),
        "carried": _carried(value("trainrig_carried"), plan, now),
        "profile": value("trainrig_profile"),
        "prefix": value("trainrig_prefix"),
        "python": value("trainrig_python"),
        "pool": value("trainrig_pool"),
        "private_address": value("trainrig_private_address"),
        "ssh": None if observation else ssh_line(variables),
        "unreachable": _why_unreachable(value("trainrig_observed")),
    }


def by_record(task_vars: Mapping[str, Any], names: Iterable[str]) -> dict[Path | None, list[str]]:
    """The hosts by the record of their inventory; None: of no inventory of files."""
    found: dict[Path | None, list[str]] = {}
    for name in names:
        found.setdefault(baseline_file.place(task_vars["hostvars"].get(name) or {}), []).append(name)
    return found


def _carried(given: dict[str, Any] | None, plan: dict[str, Any] | None, now: datetime) -> dict[str, Any] | None:
    """The verification's record that still stands, with its age."""
    record = given or ((plan or {}).get("verify") or {}).get("carried")
    if not record:
        return None
    made = record.get("from") or record.get("at")
    age_s = record.get("age_s")
    if age_s is None and made:
        try:
            then = datetime.strptime(made, TIME_FORMAT).replace(tzinfo=timezone.utc)
        except ValueError:
            made = None
        else:
            # A node whose clock runs ahead must not give a negative age.
            age_s = max((now - then).total_seconds(), 0.0)
    return {**record, "from": made, "age_s": age_s}


def _why_unreachable(observed: dict[str, Any] | None) -> str | None:
    if observed and (observed.get("unreachable") or observed.get("failed")) and observed.get("msg"):
        return " ".join(str(observed["msg"]).split())
    return None


def why_missing(variables: Mapping[str, Any]) -> str:
    """Why nothing is known of a host, in a person's words."""
    for one in plain(variables.get("trainrig_failures") or []):
        return f"failed in task: {one['task']}"
    observed = plain(variables.get("trainrig_observed"))
    if observed is None:
        return "left out by --limit"
    return ": ".join(filter(None, ["not reached", _why_unreachable(observed)]))


def first(task_vars: Mapping[str, Any], name: str) -> Any:
    """A variable that is the same for the whole run, from the first host that has it."""
    for host in plain(task_vars["groups"]["all"]):
        found = task_vars["hostvars"][host].get(name)
        if found is not None:
            return plain(found)
    return None


def inventory_sources(task_vars: Mapping[str, Any]) -> list[str]:
    """The inventories as each can be given to -i again."""
    return [_typed(str(source)) for source in plain(task_vars.get("ansible_inventory_sources") or [])]


def _typed(source: str) -> str:
    path = Path(source)
    if "," in source or not path.is_relative_to(Path.cwd()):
        return source
    return str(path.relative_to(Path.cwd()))


def inventory_name(sources: list[str]) -> str:
    """inventories/prod and inventories/prod/hosts.yml are prod; cluster.yml is cluster. Of several, the first."""
    if not sources or "," in sources[0]:
        return "hosts"
    path = Path(sources[0])
    if path.suffix or path.name == "hosts":
        return path.parent.name if path.stem == "hosts" and path.parent.name else path.stem
    return path.name or "hosts"
