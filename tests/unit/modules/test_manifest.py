"""The write-ahead manifest: true at every moment, and never half written."""

import json
import os

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainrig.gpu.plugins.modules import manifest, seal


@pytest.fixture
def run(tmp_path, capsys):
    """Runs the module as Ansible would; returns (result, what the manifest holds now)."""
    path = tmp_path / "state" / "manifest.json"

    def call(check=False, **arguments):
        with patch_module_args({"path": str(path), "_ansible_check_mode": check, **arguments}), pytest.raises(
            SystemExit
        ):
            manifest.main()
        result = json.loads(capsys.readouterr().out)
        return result, json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    call.path = path
    return call


INPUTS = {"code": {"a": "1"}, "mode": "live"}


def test_applying_is_written_before_and_clean_after(run, tmp_path):
    result, now = run(entry="pytorch", state="applying", digest="d1", inputs=INPUTS)
    assert result["changed"] and now["layers"]["pytorch"]["state"] == "applying"
    (tmp_path / "there").write_text("x", encoding="utf-8")
    resources = {"files": [str(tmp_path / "there")], "absent": [str(tmp_path / "not-there")]}
    result, now = run(entry="pytorch", state="clean", resources=resources)
    entry = now["layers"]["pytorch"]
    assert entry["state"] == "clean"
    assert entry["digest"] == "d1" and entry["inputs"] == INPUTS, "what was planned is what is recorded"
    assert entry["resources"] == resources
    assert entry["fingerprints"]["files"][str(tmp_path / "there")]["state"] == "present"
    assert entry["fingerprints"]["absent"][str(tmp_path / "not-there")]["state"] == "absent"


def test_other_entries_stay(run):
    run(entry="driver", state="applying", digest="d1", inputs=INPUTS)
    _result, now = run(entry="pytorch", state="applying", digest="d2", inputs=INPUTS)
    assert sorted(now["layers"]) == ["driver", "pytorch"]
    _result, now = run(entry="verify", state="recorded", record={"verdict": "pass"})
    assert now["results"]["verify"] == {"verdict": "pass"} and len(now["layers"]) == 2


def test_check_mode_says_and_does_not_write(run):
    result, now = run(check=True, entry="pytorch", state="applying", digest="d", inputs=INPUTS)
    assert result["changed"] and now is None
    assert result["diff"] == {"before": "pytorch: absent\n", "after": "pytorch: applying\n"}


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "{",
        "[]",
        '{"schema": 1, "layers": []}',
        '"text"',
        '{"schema": 9, "layers": {"x": {}}}',
        '{"schema": 1, "results": [1]}',
    ],
)
def test_a_damaged_manifest_is_begun_anew(run, garbage):
    run.path.parent.mkdir()
    run.path.write_text(garbage, encoding="utf-8")
    _result, now = run(entry="pytorch", state="applying", digest="d", inputs=INPUTS)
    assert list(now["layers"]) == ["pytorch"]


def test_a_write_that_is_cut_off_leaves_the_old_one(run, monkeypatch):
    run(entry="pytorch", state="applying", digest="d", inputs=INPUTS)
    before = run.path.read_bytes()

    def power_cut(_descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", power_cut)
    with pytest.raises(KeyboardInterrupt):
        manifest.write(str(run.path), {"layers": {}})
    assert run.path.read_bytes() == before
    assert [path.name for path in run.path.parent.iterdir()] == ["manifest.json"]


def test_a_place_that_cannot_be_written_is_one_clear_error(run):
    run.path.parent.write_text("a file where the directory should be", encoding="utf-8")
    result, _now = run(entry="pytorch", state="applying", digest="d", inputs=INPUTS)
    assert result["failed"] and str(run.path) in result["msg"] and "trainrig_prefix" in result["msg"]


def test_a_secret_becomes_a_digest_of_this_node_only(tmp_path):
    keys = [seal.read_or_make_key(str(tmp_path / name / "hmac.key"), True) for name in ("a", "b")]
    assert seal.seal(keys[0], "secret") == seal.seal(keys[0], "secret")
    assert seal.seal(keys[0], "secret") != seal.seal(keys[1], "secret")
    assert seal.seal(keys[0], "secret") != seal.seal(keys[0], "Secret")
    assert (tmp_path / "a" / "hmac.key").stat().st_mode & 0o777 == 0o600
    assert seal.read_or_make_key(str(tmp_path / "a" / "hmac.key"), True) == keys[0]


def test_without_a_key_check_mode_makes_none(tmp_path):
    key = seal.read_or_make_key(str(tmp_path / "hmac.key"), False)
    assert seal.seal(key, "secret") == "hmac:unknown"
    assert not (tmp_path / "hmac.key").exists()


def test_an_empty_key_is_no_key(tmp_path):
    (tmp_path / "hmac.key").write_bytes(b"")
    assert seal.read_or_make_key(str(tmp_path / "hmac.key"), False) is None
    assert len(seal.read_or_make_key(str(tmp_path / "hmac.key"), True)) == 32
