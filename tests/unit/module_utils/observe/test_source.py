"""The live source with simulated tools: time-outs, absent tools, odd files; and bundles of any quality."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.observe import build, registry, source
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.probes import (
    Command,
    Files,
    Names,
    Options,
    Probe,
    choose,
    table,
)


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Puts simulated tools first in PATH: tools(name, script)."""
    directory = tmp_path / "simulated_tools"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")

    def add(name: str, script: str) -> None:
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / name).chmod(0o755)

    return add


def read(*parts, timeout_s=5.0, sectioned=False, root="/"):
    probe = Probe("probe", parts, sectioned, timeout_s)
    return source.LiveSource(root=str(root)).read([probe]).get("probe")


def test_absent_tool_and_absent_file_are_no_output():
    assert read(Command(("trainrig-no-such-tool", "--version"))) is None
    assert read(Files(("/no/such/file",))) is None
    assert read(Names("/no/such/directory")) is None


def test_a_directory_of_path_that_may_not_be_searched_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PATH", f"{tmp_path / 'file'}:{os.environ['PATH']}")
    assert read(Command(("trainrig-no-such-tool",))) is None


def test_output_status_and_error_are_kept(tools):
    tools("simulated_tool", "echo out; echo err >&2; exit 6")
    assert read(Command(("simulated_tool",))) == source.Output("out\n", 6, "err\n")


def test_an_answer_with_another_status_is_no_failure(tools):
    tools("simulated_virt", "echo none; exit 1")
    assert read(Command(("simulated_virt",), answers=(0, 1))) == source.Output("none\n", 0, "")


def test_the_locale_is_plain_and_nothing_is_read_from_standard_input(tools):
    tools("simulated_tool", 'echo "$LC_ALL"; cat')
    assert read(Command(("simulated_tool",))) == source.Output("C\n", 0, "")


def test_a_hanging_tool_costs_its_time_out_and_dies_with_its_children(tools, tmp_path):
    tools("simulated_smi", f"echo begun; sleep 600 & echo $! >{tmp_path}/child; wait")
    output = read(Command(("simulated_smi",)), timeout_s=0.5)
    assert (output.text, output.rc) == ("begun\n", source.TIMED_OUT)
    assert "no answer within 0.5 s" in output.err
    child = Path("/proc") / (tmp_path / "child").read_text().strip() / "stat"
    for _ in range(50):
        # A zombie waits for init to collect it; it runs no more.
        if not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("the tool's child still runs")


def test_a_daemon_that_keeps_the_pipe_open_does_not_hold_the_look(tools):
    tools("simulated_tool", "setsid sleep 20 & echo done")
    assert read(Command(("simulated_tool",)), timeout_s=10.0) == source.Output("done\n", 0, "")


def test_endless_output_is_cut(tools, monkeypatch):
    monkeypatch.setattr(source, "BYTES_LIMIT", 200_000)
    tools("simulated_tool", "yes")
    output = read(Command(("simulated_tool",)), timeout_s=20.0)
    assert 200_000 <= len(output.text) < 400_000
    assert "cut after" in output.err


def test_another_way_is_taken_where_the_first_fails_or_is_silent(tools):
    tools("simulated_first", "exit 1")
    tools("simulated_second", "echo from the second")
    part = Command(("simulated_first",), otherwise=(("trainrig-no-such-tool",), ("simulated_second",)))
    assert read(part) == source.Output("from the second\n", 0, "")
    assert read(part._replace(otherwise=())) == source.Output("", 1, "")


def test_a_refusal_says_more_than_silence(tools):
    tools("simulated_journal", "exit 0")
    tools("simulated_dmesg", "echo Operation not permitted >&2; exit 1")
    part = Command(("simulated_journal",), otherwise=(("simulated_dmesg",),))
    assert read(part) == source.Output("", 1, "Operation not permitted\n")
    assert read(part._replace(otherwise=())) == source.Output("", 0, "")


def test_sections_name_their_source_and_status(tools, tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "a.conf").write_text("cuda\n")
    (tmp_path / "etc" / "b.conf").write_text("nothing\n")
    tools("simulated_tool", "echo bad; exit 3")
    output = read(
        Files(("/etc/*.conf",), holding="cuda"), Command(("simulated_tool", "-s")), sectioned=True, root=tmp_path
    )
    assert output == source.Output("==> /etc/a.conf <==\ncuda\n\n==> simulated_tool -s <== exit 3\nbad\n", 0, "")


def test_passwords_in_addresses_stay_on_the_node(tmp_path):
    (tmp_path / "list").write_text("deb https://user:s3cret@mirror.example/ubuntu noble main\n")
    assert read(Files(("/list",)), root=tmp_path).text == "deb https://***@mirror.example/ubuntu noble main\n"


def test_pipes_devices_and_directories_are_not_opened(tmp_path):
    os.mkfifo(tmp_path / "os_release")
    (tmp_path / "uname").mkdir()
    (tmp_path / "dmesg").symlink_to(tmp_path / "dmesg")
    observation = build.build(source.BundleSource(tmp_path).read(table().values()))
    assert {observation["probes"][name]["status"] for name in ("os_release", "uname", "dmesg")} == {"error"}


def test_missing_bundle_says_so(tmp_path):
    with pytest.raises(source.SourceError, match="is not a directory"):
        source.BundleSource(tmp_path / "none")


def test_empty_bundle_knows_nothing(tmp_path):
    observation = build.build(source.BundleSource(tmp_path).read(table().values()))
    assert {state["status"] for state in observation["probes"].values()} == {"absent"}
    observation["probes"] = {}
    assert observation == build.empty()


def test_garbage_bundle_is_unreadable_and_nothing_else(tmp_path):
    for name in table():
        (tmp_path / name).write_bytes(os.urandom(64) + b"\n\x00<nvidia>\xff{]\n")
        (tmp_path / f"{name}.rc").write_text("not a number")
    observation = build.build(source.BundleSource(tmp_path).read(table().values()))
    assert observation["nvidia"]["gpus"] is None
    assert observation["packages"]["dpkg"] in (None, {})


def test_every_probe_has_a_parser_and_every_parser_a_probe():
    assert set(registry.PARSERS) == set(table())


def test_a_parser_that_raises_costs_its_probe_only(monkeypatch):
    def broken(reading):
        raise RecursionError("too deep")

    monkeypatch.setitem(registry.PARSERS, "uname", broken)
    outputs = {"uname": source.Output("Linux"), "virt": source.Output("kvm\n")}
    observation = build.build(outputs)
    assert observation["probes"]["uname"]["status"] == "unreadable"
    assert observation["probes"]["uname"]["notes"] == [f"{build.GUARDED} RecursionError: too deep"]
    assert observation["machine"]["virt"] == "kvm"


def test_peers_and_the_own_name_are_asked_once_each():
    parts = table(Options(hostname="node-a", peers=("node-b", "node-a")))["hosts"].parts
    asked = [part.argv[-1] for part in parts if isinstance(part, Command) and part.argv[0] == "getent"]
    assert asked == ["node-a", "node-b"]


def test_unknown_probes_are_named():
    with pytest.raises(ValueError, match="there is no probe dmseg"):
        choose(table(), ["dmseg"])
    assert list(choose(table(), ["virt"])) == ["virt"]


def test_a_live_look_and_its_bundle_are_the_same(tmp_path):
    wanted = choose(table(), ["os_release", "uname", "cpu", "memory", "identity", "limits", "kernels", "lspci", "virt"])
    outputs = source.LiveSource().read(wanted.values())
    source.write_bundle(tmp_path, outputs)
    again = source.BundleSource(tmp_path).read(wanted.values())
    assert build.build(again, wanted) == build.build(outputs, wanted)
    assert build.build(outputs, wanted)["os"]["kernel"] == os.uname().release
