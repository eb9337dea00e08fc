"""Controller side of trainrig.gpu.plan: gathers each layer's inputs, asks module_utils/plan to decide."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.layers import DRIVER, cost
from ansible_collections.trainrig.gpu.plugins.module_utils.plan import decide, digest, obstacles, reboot, verification
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.changes import DIGEST_PREFIX
from ansible_collections.trainrig.gpu.plugins.module_utils.plan.observed import observed
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.profile import DEFAULT_POOL
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import load
from ansible_collections.trainrig.gpu.plugins.plugin_utils.layers import RoleReader, code_digests, layer_rows, unmet
from ansible_collections.trainrig.gpu.plugins.plugin_utils.plain import plain

_ARGUMENTS = {
    "observation": {"type": "dict", "required": True},
    "profile": {"type": "dict", "default": {}},
    "system": {"type": "dict", "default": {}},
    "manifest": {"type": "path", "required": True},
    "mode": {"type": "str", "choices": ["disk", "oci", "live"], "default": "live"},
    "recheck": {"type": "str", "choices": ["changed", "all"], "default": "changed"},
    "verify": {"type": "str", "choices": ["auto", "always", "never"], "default": "auto"},
    "subject": {"type": "str", "required": True},
    "members": {"type": "list", "elements": "str", "required": True},
    "layers": {"type": "bool", "default": True},
    "reboot": {"type": "str", "choices": list(reboot.POLICIES), "default": reboot.NEVER},
    "before": {"type": "dict"},
    "barrier": {"type": "str"},
}


class ActionModule(ActionBase):
    """Returns which layers are dirty on this host, and why."""

    _requires_connection = False  # only secret options need the node (trainrig.gpu.seal)

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        _validated, arguments = self.validate_argument_spec(_ARGUMENTS)
        self._arguments = plain(arguments)
        self._reader = RoleReader(self._loader, self._templar, self._task_vars)
        groups = plain(self._task_vars["group_names"])
        observation = self._arguments["observation"]
        without = unmet(observation, str(plain(self._task_vars.get("trainrig_hardware", "auto"))))
        rows = layer_rows(groups, without) if self._arguments["layers"] else []
        due = bool(reboot.pending(observation)) and self._arguments["reboot"] == reboot.WHEN_NEEDED
        layers: list[dict[str, Any]] = []
        for row in rows:
            brought = due or any(layer["barrier"] and layer["state"] == "dirty" for layer in layers)
            layers.append(self._plan_layer(row, brought))
        dirty = [layer["layer"] for layer in layers if layer["state"] == "dirty"]
        plan = {"layers": layers, "dirty": self._selected(dirty), "reboot": reboot.pending(observation)}
        chosen = self._selected([row["layer"] for row in rows])
        plan["steps"] = reboot.steps(layers, plan["dirty"], due, chosen)
        plan["verify"] = self._plan_verification(dirty, groups)
        if self._arguments["before"]:
            plan = reboot.joined(self._arguments["before"], plan, self._arguments["barrier"])
        return {"changed": False, "plan": plan, "obstacles": self._obstacles(layers)}

    def _obstacles(self, layers: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What forbids to apply this plan now."""
        switched_on = any(layer["layer"] == DRIVER for layer in layers)
        case = obstacles.Case(
            host=plain(self._task_vars["inventory_hostname"]),
            pool=str(plain(self._task_vars.get("trainrig_pool", DEFAULT_POOL))),
            observation=self._arguments["observation"],
            layers=layers,
            system=self._arguments["system"],
            options=self._reader.options(DRIVER)[0] if switched_on else {},
            families=load("families"),
            daemons=load("rules")["daemons"],
        )
        return obstacles.obstacles(case)

    def _plan_layer(self, row: dict[str, Any], driver_comes: bool) -> dict[str, Any]:
        observation = self._arguments["observation"]
        name = row["layer"]
        manifest = observation.get("manifest")
        trouble = decide.manifest_problem((observation.get("probes") or {}).get("manifest"), manifest)
        entry = None if trouble else manifest["layers"].get(name)
        resources = self._reader.resources(name)
        layer = decide.decide(
            name,
            self._inputs(row),
            entry,
            (observation.get("fingerprints") or {}).get(name),
            trouble,
            recheck=self._arguments["recheck"] == "all",
            deferred=reboot.deferral(row["needs"], observation, driver_comes),
            resources=resources,
        )
        estimate = self._estimate(row) if layer["state"] == "dirty" else {}
        kind = {"needs": row["needs"], "barrier": "barrier" in row}
        return {**layer, "resources": resources, "title": row["title"], **kind, **estimate}

    def _inputs(self, row: dict[str, Any]) -> dict[str, Any]:
        options, secrets = self._reader.options(row["layer"])
        return {
            "code": code_digests(row),
            "options": {**options, **self._sealed(secrets)},
            "lock": self._slice(row["lock"]),
            "mode": self._arguments["mode"],
            "observed": observed(
                self._arguments["observation"],
                row["observed"],
                load("rules")["local_interfaces"],
                self._arguments["system"].get("packages", []),
            ),
        }

    def _slice(self, keys: list[str]) -> dict[str, Any]:
        """What of the lock a layer depends on; of lists a digest, since they are long and say nothing to people."""
        whole = {**self._arguments["profile"], "system": self._arguments["system"]}
        found = digest.lock_slice(whole, keys)
        return {
            key: f"{DIGEST_PREFIX}{digest.digest({key: value})[:16]}" if isinstance(value, list) else value
            for key, value in found.items()
        }

    def _sealed(self, secrets: dict[str, Any]) -> dict[str, Any]:
        """Secret options as digests under the node's own key. Unset ones stay as they are and cost no trip."""
        empty = {key: value for key, value in secrets.items() if not value}
        given = {key: value for key, value in secrets.items() if value}
        if not given:
            return empty
        key = str(self._arguments["manifest"]).rpartition("/")[0] + "/hmac.key"
        result = self._execute_module(
            module_name="trainrig.gpu.seal", module_args={"key": key, "values": given}, task_vars=self._task_vars
        )
        if result.get("failed"):
            raise AnsibleActionFail(result.get("msg", "the node could not digest its secret options"))
        return {**empty, **result["sealed"]}

    def _estimate(self, row: dict[str, Any]) -> dict[str, Any]:
        """What to expect: minutes from data/layers.yml, bytes from the lock, where the lock knows them."""
        takes_wheels = any(key.startswith("requirements") for key in row["lock"])
        system, known = self._arguments["system"], {}
        if takes_wheels:
            known = self._arguments["profile"]
        elif row["layer"] in system.get("layers", {}):
            packages = self._arguments["observation"].get("packages") or {}
            known = cost(system, row["layer"], packages.get("dpkg") or {})
        return {
            "minutes": row["minutes"],
            "download_bytes": known.get("download_bytes"),
            "installed_bytes": known.get("installed_bytes"),
        }

    def _selected(self, dirty: list[str]) -> list[str]:
        """Only what --tags and --skip-tags select: the layers are applied by one loop, so the tags are read here."""
        wanted = set(plain(self._task_vars.get("ansible_run_tags") or ["all"]))
        unwanted = set(plain(self._task_vars.get("ansible_skip_tags") or []))
        return [name for name in dirty if ("all" in wanted or name in wanted) and name not in unwanted]

    def _plan_verification(self, dirty: list[str], groups: list[str]) -> dict[str, Any]:
        row = load("layers")["verification"]
        observation = self._arguments["observation"]
        record = decide.verification_record(observation.get("manifest"), row["layer"])
        options, _secrets = self._reader.options(row["layer"])
        inputs = {"code": code_digests(row), "options": options}
        boot_id = (observation.get("boot") or {}).get("boot_id")
        subject, members = self._arguments["subject"], sorted(self._arguments["members"])
        switched_on = row["layer"] in groups
        torch_error = ((observation.get("python_env") or {}).get("torch") or {}).get("error")
        reasons = (
            verification.due_reasons(
                record, dirty, boot_id, members, subject, inputs, self._arguments["verify"], torch_error
            )
            if switched_on
            else []
        )
        wanted = self._arguments["verify"] != "never" and self._selected([row["layer"]]) != []
        return {
            "due": bool(reasons) and wanted,
            "left_out": bool(reasons) and not wanted,  # the report must not call this a pass
            "reasons": reasons,
            "minutes": row["minutes"],
            "record": {
                "boot_id": boot_id,
                "members": members,
                "subject": subject,
                "inputs_digest": digest.digest(inputs),
            },
            "carried": record if switched_on and not reasons else None,
        }
