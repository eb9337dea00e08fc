"""The newcomer's walk: make site, again, and the two check modes."""

import json
import xml.etree.ElementTree as ElementTree


def test_the_first_run_ends_with_a_pass_and_three_files(checkout, first_run):
    first_run.ok()
    latest = checkout.path / "reports/local/latest"
    report = checkout.report()
    assert report["verdict"] == "pass"
    assert {path.name for path in latest.iterdir()} == {"report.json", "report.html", "report.xml"}
    assert ElementTree.parse(latest / "report.xml").getroot().tag in ("testsuites", "testsuite")
    last = [line for line in first_run.output.splitlines() if line.strip()][-2:]
    assert "pass" in last[0].lower() and "reports/local/" in " ".join(last)


def test_what_was_proved(checkout, first_run):
    first_run.ok()
    measured = checkout.report()["measurements"]
    collectives = {row["collective"] for row in measured if row.get("collective")}
    assert {"all_reduce", "all_gather", "reduce_scatter", "broadcast"} <= collectives
    assert all(row["status"] != "fail" for row in measured)
    smoke = [row for row in measured if row["stage"] == "ddp"]
    assert smoke and smoke[0]["gradients_equal"] and smoke[0]["resumed"]
    assert smoke[0]["loss_last"] < smoke[0]["loss_first"]


def test_the_environment_is_the_locks(checkout, first_run):
    first_run.ok()
    asked = "import torch, json; print(json.dumps([torch.__version__, torch.cuda.is_available()]))"
    run = checkout.run(str(checkout.prefix / "env/bin/python"), "-c", asked).ok()
    version, cuda = json.loads(run.output.splitlines()[-1])
    assert version.endswith("+cpu")
    assert cuda is False


def test_the_second_run_changes_nothing_and_repeats_nothing(checkout, first_run):
    first_run.ok()
    before = checkout.manifest.read_bytes()
    run = checkout.make("site").ok()
    assert run.recap()["changed"] == 0
    assert "Run the verification" not in run.output
    assert checkout.manifest.read_bytes() == before
    report = checkout.report()
    assert report["verdict"] == "pass"
    assert report["measurements"], "the last result is carried"
    assert len([path for path in (checkout.path / "reports/local").iterdir() if not path.is_symlink()]) >= 2


def test_the_collection_installs_elsewhere_and_runs(checkout, first_run, tmp_path):
    first_run.ok()
    # Settings of nobody: with the checkout's own, the checkout would count as the installed collection.
    (tmp_path / "ansible.cfg").write_text("", encoding="utf-8")
    elsewhere = ["env", f"ANSIBLE_CONFIG={tmp_path}/ansible.cfg", f"ANSIBLE_COLLECTIONS_PATH={tmp_path / 'installed'}"]
    galaxy = [*elsewhere, str(checkout.path / ".venv/bin/ansible-galaxy"), "collection"]
    checkout.run(*galaxy, "build", "--output-path", str(tmp_path)).ok()
    archive = next(tmp_path.glob("trainrig-gpu-*.tar.gz"))
    checkout.run(*galaxy, "install", str(archive), "-p", str(tmp_path / "installed"), "--offline").ok()
    playbook = f"{checkout.path}/.venv/bin/ansible-playbook trainrig.gpu.site"
    inventory = f"-i {checkout.path}/inventories/local/hosts.yml {checkout.options}"
    run = checkout.run(*elsewhere, "sh", "-c", f"cd {tmp_path} && {playbook} {inventory}").ok()
    assert run.recap()["changed"] == 0, f"the same machine, the same lock: clean\n{run.output}"
    assert (tmp_path / "reports/local/latest/report.json").is_file()


def test_plan_says_that_nothing_is_to_do(checkout, first_run):
    first_run.ok()
    run = checkout.make("plan", "-e strict=true").ok()
    assert "Nothing to do" in run.output
    assert run.recap()["changed"] == 0


def test_check_mode_on_a_converged_machine(checkout, first_run):
    first_run.ok()
    assert checkout.make("site", "--check --diff").ok().recap()["changed"] == 0


def test_check_mode_on_a_fresh_machine_changes_nothing(checkout, first_run, tmp_path):
    first_run.ok()
    prefix = tmp_path / "fresh"
    run = checkout.make("site", "--check --diff", f"-e trainrig_prefix={prefix}").ok()
    assert run.recap()["changed"] > 0
    assert not prefix.exists()


def test_a_tag_that_leaves_a_dirty_layer_out_is_no_pass(checkout, first_run, tmp_path):
    first_run.ok()
    run = checkout.make("site", "--tags preflight", f"-e trainrig_prefix={tmp_path / 'fresh'}")
    assert run.status != 0
    assert run.recap()["changed"] == 0
    assert checkout.report()["verdict"] == "incomplete"


def test_a_changed_option_is_named_and_a_secret_one_is_not_shown(checkout, first_run):
    first_run.ok()
    plan = checkout.make("plan", "-e pytorch_keep=3 -e pytorch_index_url=https://user:s3cret@example.org/simple").ok()
    assert "option pytorch_keep changed: 1 -> 3" in plan.output
    assert "option pytorch_index_url changed (its value is not shown)" in plan.output
    assert "s3cret" not in plan.output
    assert not (checkout.prefix / "hmac.key").exists(), "a plan writes nothing"


def test_recheck_runs_everything(checkout, first_run):
    first_run.ok()
    assert "asked for by trainrig_recheck" in checkout.make("plan", "-e trainrig_recheck=all").ok().output


def test_an_inventory_without_hosts_is_told(checkout, first_run):
    first_run.ok()
    run = checkout.run("make", "site", "INVENTORY=inventories/lab")
    assert run.status != 0
    assert "has no hosts" in run.output
