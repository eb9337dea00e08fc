"""The house rules a reader relies on: what may import what, sizes, shapes, no second copy of a fact."""

from __future__ import annotations

import re
import subprocess
from functools import lru_cache

import pytest
import yaml

from tests.contract.tree import PREFIX, ROLES, ROOT, closure, imports, plugin_files, strings, task_files, tasks

LAYERS = yaml.safe_load((ROOT / "data" / "layers.yml").read_text(encoding="utf-8"))

#: Reading or changing the machine. module_utils computes; only observe/ looks at a node, and only node/ changes one:
#: it is the part of the modules that run there that would make them too long, and nothing else may import it.
_TOUCHES = {"os", "subprocess", "socket", "shutil", "pathlib", "tempfile", "urllib.request", "io", "glob"}


@pytest.mark.parametrize("path", plugin_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    names = imports(path)
    room = path.relative_to(ROOT / "plugins").parts[0]
    ours = {name[len(PREFIX) :].split(".")[0] for name in names if name.startswith(PREFIX)}
    if room == "module_utils":
        assert not {name for name in names if name.split(".")[0] == "ansible"}, "pure logic imports no Ansible"
        assert not {name for name in names if name.split(".")[0] == "yaml"}, "data is handed in, not read"
        assert ours <= {"module_utils"}
        if not {"observe", "node"} & set(path.parts):
            assert not names & _TOUCHES, "only module_utils/observe looks at the machine"
        if "node" not in path.parts:
            changing = f"{PREFIX}module_utils.node"
            assert not {name for name in names if name.startswith(changing)}, "only modules change the machine"
    if room == "modules":
        assert ours <= {"module_utils"}, "a module's zip carries module_utils only"
    if room == "plugin_utils":
        assert ours <= {"module_utils", "plugin_utils"}


def test_data_holds_no_code():
    files = [path for path in (ROOT / "data").rglob("*") if path.is_file()]
    assert files
    assert {path.suffix for path in files} <= {".yml", ".json"}


@pytest.mark.parametrize("path", plugin_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_plugin_files_stay_small(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
class TestRole:
    """Every role has one shape."""

    def test_files(self, role):
        for name in ("tasks/main.yml", "defaults/main.yml", "meta/argument_specs.yml", "meta/main.yml"):
            assert (role / name).is_file(), name
        if role.name in [row["layer"] for row in LAYERS["layers"]]:
            for name in ("tasks/install.yml", "tasks/configure.yml", "tasks/verify.yml", "meta/resources.yml"):
                assert (role / name).is_file(), name

    def test_defaults_are_the_argument_specs(self, role):
        options = read(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
        defaults = read(role / "defaults/main.yml") or {}
        required = {key for key, option in options.items() if option.get("required")}
        assert set(defaults) | required == set(options)
        for key, option in options.items():
            assert option.get("description"), f"{key} says nothing of itself"

    def test_variables_carry_the_roles_name(self, role):
        for key in read(role / "defaults/main.yml") or {}:
            assert key.startswith(f"{role.name}_"), key

    def test_main_is_short(self, role):
        assert len((role / "tasks/main.yml").read_text(encoding="utf-8").splitlines()) <= 53

    def test_no_way_to_hide_a_failure(self, role):
        for path in task_files(role):
            for task in tasks(path):
                assert not {"shell", "ansible.builtin.shell"} & set(task), f"{path}: {task.get('name')}"
                assert "ignore_errors" not in task, f"{path}: {task.get('name')}"
                assert task.get("failed_when") is not False, f"{path}: {task.get('name')}"
                assert task.get("name") or "block" in task, f"{path}: a task without a name"


@lru_cache(maxsize=None)
def read(path):
    return yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def used_by(role):
    """The plugin and data files a role's result depends on, derived from its tasks."""
    files = set()
    for path in task_files(ROOT / "roles" / role):
        for task in tasks(path):
            for key in task:
                if str(key).startswith("trainrig.gpu."):
                    name = str(key).rpartition(".")[2]
                    for room in ("modules", "action"):
                        plugin = ROOT / "plugins" / room / f"{name}.py"
                        files |= closure(plugin) if plugin.is_file() else set()
    data = set()
    for path in files:
        text = path.read_text(encoding="utf-8")
        data |= {ROOT / "data" / f"{name}.yml" for name in re.findall(r'\bload\("(\w+)"\)', text)}
    return sorted(str(path.relative_to(ROOT)) for path in files | data)


@pytest.mark.parametrize("row", [*LAYERS["layers"], LAYERS["verification"]], ids=lambda row: row["layer"])
def test_a_layer_names_what_it_uses(row):
    used = used_by(row["layer"])
    missing = [name for name in used if not any(covers(entry, name) for entry in row["uses"])]
    needless = [entry for entry in row["uses"] if not any(covers(entry, name) for name in used)]
    assert (missing, needless) == ([], []), "data/layers.yml: uses"


def covers(entry, name):
    return name == entry or name.startswith(entry.rstrip("/") + "/")


def test_layers_and_roles_agree():
    for row in [*LAYERS["layers"], LAYERS["verification"]]:
        assert (ROOT / "roles" / row["layer"]).is_dir()


_VERSION = re.compile(r"(?<![\w.])\d+\.\d+\.\d+(?![\w.])")
#: Where three numbers are no version of a product: addresses.
_NO_VERSION = re.compile(r"127\.0\.|0\.0\.0")


@pytest.mark.parametrize("path", plugin_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_version_number_in_code(path):
    found = [(line, text) for line, text in strings(path) if _VERSION.search(text) and not _NO_VERSION.search(text)]
    assert not found, "versions live in data/"


@pytest.mark.parametrize("path", plugin_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_gpu_model_in_code(path):
    models = read(ROOT / "data" / "gpus.yml")["gpus"]
    families = {re.split(r"[_ ]", name)[0] for name in models}
    names = re.compile(r"(?<![A-Za-z0-9])(" + "|".join(sorted(map(re.escape, families))) + r")(?![A-Za-z0-9])")
    found = [(line, text) for line, text in strings(path) if names.search(text)]
    assert not found, "hardware is known by PCI id, in data/"


def test_nothing_generated_is_committed():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    names = listed.stdout.splitlines()
    assert "collections/ansible_collections/trainrig/gpu" in names
    assert not [name for name in names if name.startswith(("reports/", ".venv/", "bundles/")) or name.endswith(".pyc")]
