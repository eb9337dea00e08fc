"""A copy of the checkout with simulated layers: each writes one small file below the prefix. The rest is the product.

`simulated_base`, then `simulated_driver` (a barrier, with a reboot that waits where it is told so), then
`simulated_after`, which needs a loaded driver, and `simulated_last`, which needs nothing. The hosts of a `Fleet` are
this machine, each with a prefix of its own.
"""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.checkout import ROOT, Run

LAYERS = ("simulated_base", "simulated_driver", "simulated_after", "simulated_last")
_COPIED = ("plugins", "playbooks", "data", "ansible.cfg", "site.yml", "collections/ansible_collections/trainrig")
_ROLES = ("preflight", "report", "verify")
_MAIN = """\
- name: Fail where it is told so
  ansible.builtin.fail:
    msg: this layer was told to fail
  when: NAME_fails

- name: Lose the connection where it is told so
  ansible.builtin.set_fact:
    ansible_connection: ssh
    ansible_host: 127.0.0.1
    ansible_port: 1
  when: NAME_lost

- name: Make the prefix
  ansible.builtin.file:
    path: "{{ trainrig_prefix }}"
    state: directory
    mode: "0755"

- name: Write its file
  ansible.builtin.copy:
    content: "{{ NAME_content }}"
    dest: "{{ trainrig_prefix }}/NAME"
    mode: "0644"
"""
_REBOOT = """
- name: Note that a reboot is pending
  trainrig.gpu.pending_reboot:
    path: "{{ trainrig_manifest | dirname }}/pending_reboot.json"
    reasons: ["simulated_driver: its module is not loaded yet"]
  when: NAME_waits
"""
_OPTIONS: dict[str, tuple[str, Any]] = {
    "content": ("str", "one"),
    **dict.fromkeys(("fails", "lost", "waits"), ("bool", False)),
}


def copy(target: Path) -> Path:
    """The checkout with simulated layers, in `target`."""
    for name in _COPIED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, target / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy2(ROOT / name, target / name)
    for name in _ROLES:
        shutil.copytree(ROOT / "roles" / name, target / "roles" / name)
    path = target / "data/layers.yml"
    table = yaml.safe_load(path.read_text(encoding="utf-8"))
    known = table["layers"][0]
    empty = {key: [] for key, value in known.items() if isinstance(value, list)}
    rows = [{**known, **empty, "layer": name, "title": f"the layer {name}"} for name in LAYERS]
    rows[1]["barrier"] = "reboot"
    rows[2]["needs"] = ["loaded_driver"]
    path.write_text(yaml.safe_dump({**table, "layers": rows}), encoding="utf-8")
    for name in LAYERS:
        _role(target / "roles" / name, name)
    # What this machine is like must not decide: of its findings only what refuses keeps its weight.
    path = target / "data/rules.yml"
    rules = yaml.safe_load(path.read_text(encoding="utf-8"))
    for rule in rules["rules"].values():
        rule["severity"] = rule["severity"] if rule["severity"] == "refuse" else "info"
    path.write_text(yaml.safe_dump(rules), encoding="utf-8")
    return target


def _role(place: Path, name: str) -> None:
    options = {f"{name}_{key}": {"type": kind, "description": key} for key, (kind, _value) in _OPTIONS.items()}
    files = {
        "tasks/main.yml": (_MAIN + (_REBOOT if name == "simulated_driver" else "")).replace("NAME", name),
        "defaults/main.yml": {f"{name}_{key}": value for key, (_kind, value) in _OPTIONS.items()},
        "meta/argument_specs.yml": {"argument_specs": {"main": {"short_description": name, "options": options}}},
        "meta/resources.yml": {"resources": {"files": [f"{{{{ trainrig_prefix }}}}/{name}"]}},
    }
    for path, content in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        (place / path).write_text(text, encoding="utf-8")


@dataclass
class Fleet:
    """Hosts of one inventory, `hosts` with their variables, each in the groups `layers`."""

    checkout: Path
    directory: Path
    layers: tuple[str, ...] = LAYERS[:1]
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)

    def play(self, playbook: str, *words: str) -> Run:
        place = self.directory / "inventory"
        (place / "group_vars").mkdir(parents=True, exist_ok=True)
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        own = {name: {**local, "trainrig_prefix": str(self.prefix(name)), **row} for name, row in self.hosts.items()}
        groups = {layer: {"hosts": dict.fromkeys(own)} for layer in self.layers}
        content = {"all": {"hosts": own}, **groups}
        (place / "hosts.yml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        (place / "group_vars/all.yml").write_text(yaml.safe_dump(self.variables), encoding="utf-8")
        for name in own:
            self.prefix(name).mkdir(exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("ansible-playbook")),
                str(self.checkout / playbook),
                "-i",
                str(place),
                *words,
            ],
            cwd=self.directory,
            env={**environment, "ANSIBLE_CONFIG": str(self.checkout / "ansible.cfg"), "COLUMNS": "160"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Run(done.returncode, done.stdout)

    def prefix(self, name: str) -> Path:
        return self.directory / f"prefix-{name}"

    def content(self, name: str, layer: str = LAYERS[0]) -> str | None:
        """What the layer wrote on this host; None where nothing."""
        path = self.prefix(name) / layer
        return path.read_text(encoding="utf-8") if path.exists() else None

    @property
    def report(self) -> dict[str, Any]:
        path = self.directory / "reports/inventory/latest/report.json"
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
