"""Versions, markers, requirement files and constraints read as the standards say."""

from __future__ import annotations

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.environment import (
    constraints,
    markers,
    requirements,
    versions,
)
from hypothesis import given
from hypothesis import strategies as st
from packaging.markers import Marker
from packaging.version import Version

ENVIRONMENT = {
    "implementation_name": "cpython",
    "implementation_version": "3.11.2",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_release": "6.1",
    "platform_system": "Linux",
    "platform_version": "#1",
    "python_full_version": "3.11.2",
    "python_version": "3.11",
    "sys_platform": "linux",
}
HASH = "--hash=sha256:" + "ab" * 32


def version_texts():
    number = st.integers(0, 30).map(str)
    return st.builds(
        lambda release, pre, post, dev, local: ".".join(release) + pre + post + dev + local,
        st.lists(number, min_size=1, max_size=4),
        st.sampled_from(["", "a1", "b2", "rc1"]),
        st.sampled_from(["", ".post1"]),
        st.sampled_from(["", ".dev3"]),
        st.sampled_from(["", "+cpu", "+cu124", "+1.2"]),
    )


@given(version_texts(), version_texts())
def test_order_is_packagings(left, right):
    mine = versions.version_key(left) < versions.version_key(right)
    assert mine == (Version(left) < Version(right))


@given(version_texts())
def test_spelling_is_packagings(text):
    assert versions.normalise_version(text.upper()) == str(Version(text))


@pytest.mark.parametrize(
    ("one", "other"), [("Typing_Extensions", "typing-extensions"), ("a.b--c", "a-b-c"), ("numpy", "NumPy")]
)
def test_names(one, other):
    assert versions.normalise_name(one) == versions.normalise_name(other)


MARKERS = [
    "python_full_version < '3.12'",
    "python_full_version >= '3.12'",
    "python_full_version == '3.11.*'",
    "python_full_version != '3.11.*'",
    "python_version in '3.10 3.11'",
    "python_version not in '3.10 3.11'",
    "'3.12' > python_version",
    "python_full_version ~= '3.11.1'",
    "sys_platform == 'linux' and platform_machine == 'x86_64'",
    "sys_platform == 'win32' or (python_version < '3.12' and implementation_name == 'cpython')",
    "(platform_machine == 'aarch64' or platform_machine == 'x86_64') and sys_platform == 'linux'",
    "sys_platform == 'win32' or sys_platform == 'linux' and python_version >= '3.12'",
    'platform_system != "Windows"',
    "os_name == 'nt'",
    "extra == 'test'",
]


@pytest.mark.parametrize("text", MARKERS)
def test_markers_are_packagings(text):
    assert markers.evaluate(text, ENVIRONMENT) == Marker(text).evaluate({**ENVIRONMENT, "extra": ""})


@pytest.mark.parametrize(
    "text", ["python_version", "nonsense == '1'", "python_version >= 'x'", "a ==", "(os_name == 'nt'", "os_name < 'nt'"]
)
def test_markers_that_mean_nothing(text):
    with pytest.raises(markers.MarkerError):
        markers.evaluate(text, ENVIRONMENT)


def test_a_requirement_file():
    text = (
        "# a comment\n"
        f"Torch==2.13.0+CPU \\\n    {HASH} \\\n    {HASH.replace('ab', 'cd')}\n"
        f"numpy==2.4.6 ; python_full_version < '3.12' {HASH}\n"
        f"numpy==2.5.5 ; python_full_version >= '3.12' {HASH}\n"
        f"pkg[extra]==1.0 {HASH}  # why\n\n"
    )
    parsed = requirements.parse(text)
    assert [(one.name, one.version, one.line) for one in parsed] == [
        ("torch", "2.13.0+cpu", 2),
        ("numpy", "2.4.6", 5),
        ("numpy", "2.5.5", 6),
        ("pkg", "1.0", 7),
    ]
    assert len(parsed[0].hashes) == 2
    chosen = requirements.select(parsed, ENVIRONMENT)
    assert {name: one.version for name, one in chosen.items()} == {
        "torch": "2.13.0+cpu",
        "numpy": "2.4.6",
        "pkg": "1.0",
    }


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("numpy>=2.0 " + HASH, "not an exact requirement"),
        ("numpy==2.4.6", "no --hash"),
        ("--index-url https://example.org/simple", "option --index-url does not belong"),
        ("-r other.txt", "option -r does not belong"),
        ("git+https://example.org/x " + HASH, "not an exact requirement"),
    ],
)
def test_what_a_lock_must_not_say(line, words):
    with pytest.raises(requirements.RequirementError, match="line 2") as caught:
        requirements.parse(f"# first\n{line}\n")
    assert words in str(caught.value)


def test_two_versions_for_one_python():
    parsed = requirements.parse(f"a==1 {HASH}\na==2 {HASH}\n")
    with pytest.raises(requirements.RequirementError, match="both meant for"):
        requirements.select(parsed, ENVIRONMENT)


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        ("torch<=2.14.1", False),
        ("torch<2.13", True),
        ("torch==2.13.0", False),
        ("torch==2.13.0+cpu", False),
        ("torch==2.13.0+cu130", True),
        ("torch==2.*", False),
        ("torch==2.12.*", True),
        ("torch~=2.12", False),
        ("torch~=2.12.1", True),
        ("Torch >=2, <2.13  # both", True),
        ("torch<2; python_version<'3.0'", False),
        ("other<1", False),
        ("torch", False),
    ],
)
def test_constraints(line, broken):
    found, unread = constraints.violations([("c.txt", f"\n{line}\n")], {"torch": "2.13.0+cpu"}, ENVIRONMENT)
    assert bool(found) == broken
    assert not unread
    if broken:
        assert found[0].startswith("c.txt:2 wants ")
        assert found[0].endswith("the lock has 2.13.0+cpu")


def test_constraints_that_cannot_be_checked_are_told():
    text = "torch @ https://example.org/torch.whl\n-r more.txt\n"
    found, unread = constraints.violations([("c.txt", text)], {"torch": "1"}, ENVIRONMENT)
    assert found == []
    assert [line.split(": ")[0] for line in unread] == ["c.txt:1", "c.txt:2"]
