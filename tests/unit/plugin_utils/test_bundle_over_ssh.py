"""Bundles by plain commands: the four ways to reach a node, shells that are asked again, the table."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.probes import choose, table
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.source import TIMED_OUT, LiveSource, Output
from ansible_collections.trainrig.gpu.plugins.plugin_utils import bundle_over_ssh as over

from tests.support.simulated_channel import SimulatedChannel


def here(script, timeout_s):
    """An Execute on this machine, one shell a question."""
    done = subprocess.run(["sh"], input=script.encode(), capture_output=True, timeout=timeout_s, check=False)
    return Output(done.stdout.decode("utf-8", "replace"), done.returncode, done.stderr.decode("utf-8", "replace"))


@pytest.fixture
def node():
    return over.SshSource(here)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "it's a $HOME"
    path.mkdir()
    return path


def test_text(node, folder):
    (folder / "a b").write_text("one\n\ntwo")
    assert node.text(f"{folder}/a b") == "one\n\ntwo"
    assert node.text(f"{folder}/none") is None
    with pytest.raises(OSError, match="not a regular file"):
        node.text(str(folder))


def test_text_in_the_home_directory(folder, monkeypatch):
    (folder / ".nccl.conf").write_text("NCCL_DEBUG=WARN\n")
    monkeypatch.setenv("HOME", str(folder))
    assert over.SshSource(here).text("~/.nccl.conf") == "NCCL_DEBUG=WARN\n"


def test_names_and_paths(node, folder):
    for name in ("b.conf", "a.conf", ".hidden", "c d.conf", "e.txt"):
        (folder / name).touch()
    assert node.names(str(folder)) == [".hidden", "a.conf", "b.conf", "c d.conf", "e.txt"]
    assert node.names(f"{folder}/none") is None
    assert node.paths(f"{folder}/*.conf") == [f"{folder}/{name}" for name in ("a.conf", "b.conf", "c d.conf")]
    assert node.paths(f"{folder}/*.none") == []


@pytest.mark.parametrize("argument", ["it's", 'a "b" $c `d` \\e', "-n", "*", "\\n", "two\nlines"])
def test_run_hands_arguments_on_as_they_are(node, argument):
    assert node.run(("printf", "%s|", argument, "x"), 5).text == f"{argument}|x|"


def test_run(node):
    assert node.run(("sh", "-c", "echo out; echo err >&2; exit 3"), 5) == Output("out\n", 3, "err\n")
    absent = node.run(("no-such-command-anywhere",), 5)
    assert (absent.rc, absent.text) == (127, "")
    assert node.run(("cat",), 5).text == "", "a command must not read on in the script"
    assert node.run(("sh", "-c", 'echo "$LC_ALL"'), 5).text == "C\n"


def test_a_command_that_hangs_ends_on_the_node(node):
    answer = node.run(("sleep", "600"), 1)
    assert answer.rc == TIMED_OUT
    assert "no answer within 1 s" in answer.err


def test_the_same_probes_give_the_same_text_as_on_the_node():
    wanted = choose(table(), ["os_release", "uname", "boot_id", "limits", "dnf_versionlock", "nvidia_libs"])
    assert over.SshSource(here).read(wanted.values()) == LiveSource().read(wanted.values())


class TestSessions:
    """Shells that stay."""

    def test_one_shell_answers_many_questions(self):
        opened = []
        ask = over.Sessions(lambda: opened.append(SimulatedChannel()) or opened[-1])
        assert ask(over.framed("echo one; echo two >&2; exit 7"), 5) == Output("one\n", 7, "two\n")
        assert ask(over.framed("printf 'no line end'"), 5) == Output("no line end", 0, "")
        assert ask(over.framed("cat"), 5) == Output("", 0, "")
        assert len(opened) == 1
        for channel in opened:
            channel.close()

    def test_a_shell_that_hangs_is_not_asked_again(self):
        opened = []
        ask = over.Sessions(lambda: opened.append(SimulatedChannel()) or opened[-1])
        assert ask(over.framed("echo begun; sleep 600"), 0.5) == Output("begun\n", TIMED_OUT, "")
        assert ask(over.framed("echo alive"), 5) == Output("alive\n", 0, "")
        assert len(opened) == 2
        opened[-1].close()

    def test_no_shell_behind_the_login(self):
        ask = over.Sessions(lambda: SimulatedChannel("sh", "-c", "echo 'sudo: a password is required' >&2; exit 1"))
        answer = ask(over.framed("true"), 5)
        assert (answer.rc, answer.err) == (1, "sudo: a password is required\n")

    def test_a_connection_that_is_lost(self):
        class Lost(SimulatedChannel):
            def recv_exit_status(self):
                return -1

        with pytest.raises(over.Unreachable, match="lost"):
            over.Sessions(lambda: Lost("sh", "-c", "exit 1"))(over.framed("true"), 5)

    def test_fewer_sessions_than_questions(self):
        opened, one = [], threading.Lock()

        def open_shell():
            if not one.acquire(blocking=False):
                raise OSError("no more sessions")
            opened.append(SimulatedChannel())
            return opened[0]

        ask = over.Sessions(open_shell)
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda number: ask(over.framed(f"echo {number}"), 5).text, range(8)))
        assert answers == [f"{number}\n" for number in range(8)]
        opened[0].close()

    def test_more_than_a_pipe_holds_on_both_streams(self):
        channel = SimulatedChannel()
        answer = over.Sessions(lambda: channel)(over.framed("seq 100000; seq 50000 >&2"), 20)
        assert answer.text.endswith("99999\n100000\n") and answer.err.endswith("49999\n50000\n")
        channel.close()


def test_collect_writes_a_bundle_and_forgets_the_last(tmp_path, monkeypatch):
    wanted = choose(table(), ["os_release", "dnf_versionlock", "dkms"])
    monkeypatch.setattr(over, "table", lambda options: wanted)
    (tmp_path / "node-a").mkdir()
    (tmp_path / "node-a" / "dnf_versionlock").write_text("of an older look\n")
    ended = []
    got = over.collect("root@node-a", lambda: (here, lambda: ended.append(True)), tmp_path)
    assert got.error is None and ended == [True] and got.directory == tmp_path / "node-a"
    assert sorted(path.name for path in got.directory.iterdir()) == sorted(got.outputs)
    assert (got.directory / "os_release").read_text() == Path("/etc/os-release").read_text()
    assert not (got.directory / "dnf_versionlock").exists()


def test_collect_of_a_node_that_cannot_be_asked(tmp_path):
    def refused():
        raise over.Unreachable("no route")

    def no_shell(_script, _timeout_s):
        return Output("", 1, "This account is not available.\n")

    assert over.collect("a", refused, tmp_path).error == "no route"
    assert "not available" in over.collect("b", lambda: (no_shell, lambda: None), tmp_path).error
    assert list(tmp_path.iterdir()) == []


def test_the_table():
    outputs = {"uname": Output("x"), "units": Output("", 1), "nvidia_smi_xml": Output("", TIMED_OUT)}
    text = over.shown(
        [
            over.Got("node-a", Path("bundles/node-a"), outputs, 60, 3.21),
            over.Got("node-b", None, {}, 0, 0.1, "no route"),
        ]
    )
    assert text.splitlines() == [
        "HOST    GOT  FAILED  NO ANSWER  ABSENT  SECONDS  BUNDLE",
        "node-a  1    1       1          57      3.2      bundles/node-a",
        "node-b  -    -       -          -       0.1      none",
        "",
        "node-a: failed: units",
        "node-a: no answer: nvidia_smi_xml",
        "node-b: no route",
    ]


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("node-a", "node-a"),
        ("ubuntu@10.0.0.7:2222", "10.0.0.7_2222"),
        ("[fe80::1%eth0]:22", "fe80_1_eth0_22"),
        ("../../etc", ".._.._etc"),
        ("..", "unnamed"),
    ],
)
def test_directory_names(host, name):
    assert over.file_name(host) == name


def test_hosts_with_the_same_directory():
    assert over.same_name(["a", "root@a", "b"]) == ["a", "root@a"]
    assert over.same_name(["a", "a:22", "b"]) == []
