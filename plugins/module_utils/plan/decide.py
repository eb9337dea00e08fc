"""Decides, per layer, clean or dirty and why. Anything unknown or unreadable is dirty."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any, List, Mapping, Optional, TypedDict

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.resource_names import name_of
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.changes import fingerprint_changes, input_changes
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.digest import digest

APPLYING, CLEAN = "applying", "clean"
#: Of manifest.json; a file of another version is no record of ours.
SCHEMA = 1


class LayerPlan(TypedDict):
    layer: str
    state: str  # clean | dirty | deferred
    reasons: List[str]
    digest: str
    inputs: Mapping[str, Any]


def manifest_problem(probe: Optional[Mapping[str, Any]], manifest: Any) -> Optional[str]:
    """Why the node's manifest cannot be relied on at all, or ``None``."""
    status = (probe or {}).get("status", "absent")
    if status == "absent":
        return "no manifest on this node: nothing was applied by trainrig, or it was deleted"
    if status != "ok" or not isinstance(manifest, Mapping) or not isinstance(manifest.get("layers"), Mapping):
        return "the manifest on this node cannot be read"
    if manifest.get("schema") != SCHEMA:
        return "the manifest on this node was written by another version of trainrig"
    return None


def verification_record(manifest: Any, name: str) -> Optional[Mapping[str, Any]]:
    """The recorded verification, where it has the shape of one; anything else is no record."""
    results = manifest.get("results") if isinstance(manifest, Mapping) else None
    record = results.get(name) if isinstance(results, Mapping) else None
    if not isinstance(record, Mapping) or not isinstance(record.get("at"), str):
        return None
    rows = [record.get("measurements"), record.get("findings")]
    if not all(isinstance(row, list) and all(isinstance(one, Mapping) for one in row) for row in rows):
        return None
    return record


def decide(
    layer: str,
    inputs: Mapping[str, Any],
    entry: Optional[Mapping[str, Any]],
    fingerprints: Optional[Mapping[str, Any]],
    manifest_trouble: Optional[str] = None,
    recheck: bool = False,
    deferred: Optional[str] = None,
    resources: Optional[Mapping[str, Any]] = None,
) -> LayerPlan:
    """Compare a layer's manifest entry with its present inputs and fingerprints.

    ``resources`` is what the layer would put in place now (meta/resources.yml, templated): paths that moved are as
    dirty as files that changed.
    ``deferred`` is the reason why the layer cannot run now at all (it wins: nothing is done, nothing is wrong).
    """
    reasons = _reasons(inputs, entry, fingerprints, manifest_trouble, recheck, resources)
    state = "dirty" if reasons else "clean"
    if deferred and reasons:
        state, reasons = "deferred", [deferred]
    return {"layer": layer, "state": state, "reasons": reasons, "digest": digest(inputs), "inputs": inputs}


def _reasons(
    inputs: Mapping[str, Any],
    entry: Optional[Mapping[str, Any]],
    fingerprints: Optional[Mapping[str, Any]],
    manifest_trouble: Optional[str],
    recheck: bool,
    resources: Optional[Mapping[str, Any]],
) -> List[str]:
    if manifest_trouble:
        return [manifest_trouble]
    if entry is None:
        return ["never applied on this node"]
    if not isinstance(entry, Mapping):
        return ["its entry in the manifest was altered"]
    if entry.get("state") != CLEAN:
        since = f" at {entry['started']}" if entry.get("started") else ""
        return [f"an earlier run was interrupted while applying it{since}"]
    recorded = entry.get("inputs")
    if not isinstance(recorded, Mapping) or digest(recorded) != entry.get("digest"):
        return ["its entry in the manifest was altered"]
    taken: Mapping[str, Any] = entry.get("fingerprints") or {}
    if not _covers(taken, entry.get("resources")):
        return ["its entry in the manifest was altered"]
    reasons = input_changes(recorded, inputs) + fingerprint_changes(taken, fingerprints)
    if resources is not None and entry.get("resources") != resources:
        reasons.append("what it puts in place, or where, changed")
    if not reasons and digest(inputs) != entry.get("digest"):
        reasons = ["its inputs changed"]
    return reasons or (["asked for by trainrig_recheck"] if recheck else [])


def _covers(fingerprints: Any, resources: Any) -> bool:
    """True where every recorded resource has its fingerprint: without one its drift would never be seen."""
    if not isinstance(fingerprints, Mapping) or not isinstance(resources, Mapping):
        return False
    for kind, entries in resources.items():
        taken = fingerprints.get(kind, {})
        names = [name_of(entry) for entry in entries]
        if not isinstance(taken, Mapping) or not all(isinstance(taken.get(name), Mapping) for name in names):
            return False
    return True
