"""Drifts made on the machine, never in our own records: plan names each, site repairs it."""

import json
import shutil

import pytest

SITE_PACKAGES = "lib/python3.*/site-packages"


def packages(checkout):
    return next((checkout.prefix / "env").resolve().glob(SITE_PACKAGES))


def remove_a_wheel(checkout):
    for path in packages(checkout).glob("sympy*"):
        shutil.rmtree(path)
    return "sympy"


def change_a_version(checkout):
    metadata = next(packages(checkout).glob("numpy-*.dist-info"))
    name, _, _version = metadata.name.removesuffix(".dist-info").partition("-")
    text = (metadata / "METADATA").read_text(encoding="utf-8")
    (metadata / "METADATA").write_text(text.replace("\nVersion: ", "\nVersion: 0.", 1), encoding="utf-8")
    metadata.rename(metadata.with_name(f"{name}-0.9.1.dist-info"))
    return "numpy"


def edit_a_file(checkout):
    path = packages(checkout) / "torch/nn/functional.py"
    path.write_text(path.read_text(encoding="utf-8") + "\n# edited by hand\n", encoding="utf-8")
    return "torch/nn/functional.py"


def add_a_foreign_file(checkout):
    (packages(checkout) / "sitecustomize.py").write_text("import os\n", encoding="utf-8")
    return "sitecustomize.py"


def delete_the_link(checkout):
    (checkout.prefix / "env").unlink()
    return "env"


def delete_half_of_it(checkout):
    shutil.rmtree(packages(checkout) / "torch/lib")
    return "torch/lib"


def delete_the_manifest(checkout):
    checkout.manifest.unlink()
    return "no manifest on this node"


def leave_applying_behind(checkout):
    manifest = json.loads(checkout.manifest.read_text(encoding="utf-8"))
    manifest["layers"]["pytorch"]["state"] = "applying"
    checkout.manifest.write_text(json.dumps(manifest), encoding="utf-8")
    return "interrupted while applying"


def garble_the_manifest(checkout):
    checkout.manifest.write_text('{"layers": {"pytorch"', encoding="utf-8")
    return "manifest on this node cannot be read"


@pytest.mark.parametrize(
    "drifts",
    [
        # One after the other each costs a build of the environment; tests/env tries each alone.
        [remove_a_wheel, edit_a_file, add_a_foreign_file, delete_half_of_it],
        [change_a_version],
        [delete_the_link],
        [delete_the_manifest],
        [leave_applying_behind],
        [garble_the_manifest],
    ],
    ids=lambda drifts: "+".join(drift.__name__ for drift in drifts),
)
def test_drift_is_named_and_repaired(checkout, first_run, drifts):
    first_run.ok()
    reasons = [drift(checkout) for drift in drifts]
    plan = checkout.make("plan", "-e strict=true")
    assert plan.status != 0
    for reason in reasons:
        assert reason in plan.output
    repaired = checkout.make("site", "-e trainrig_verify=never")
    assert repaired.recap()["changed"] > 0
    assert checkout.report()["verdict"] == "incomplete", "repaired, but not verified: no pass"
    assert "Nothing to do" in checkout.make("plan", "-e strict=true").ok().output
    checkout.run(str(checkout.prefix / "env/bin/python"), "-c", "import torch, numpy, sympy").ok()
