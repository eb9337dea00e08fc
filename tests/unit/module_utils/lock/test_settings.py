"""What an inventory says about locking: sound settings come back as they are meant, each slip is one clear problem."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.trainrig.gpu.plugins.module_utils.lock.settings import checked
from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.problem import message

ROOT = Path(__file__).resolve().parents[4]
ORIGINS = yaml.safe_load((ROOT / "data/origins.yml").read_text("utf-8"))["origins"]
PROFILE = {"name": "cu130", "pytorch": "2.13.0", "variant": "cu130"}
SOURCE = {"name": "nccl-tests", "tag": "v2.17.6", "archive": "/srv/nccl-tests.tar.gz"}
FINGERPRINT = "EB693B3035CD5710E231E123A4B469963BF863CC"
NOTHING = {"profiles": [], "sources": [], "index_date": None, "repositories": {}}


def sound(lock=None, repositories=None):
    settings, problems = checked(lock, repositories, ORIGINS, "all.yml:3")
    assert problems == []
    return settings


def wrong(lock=None, repositories=None):
    """(key, what is wrong and what to do) of the only problem that there is."""
    _settings, problems = checked(lock, repositories, ORIGINS, "all.yml:3")
    assert len(problems) == 1, [message(one) for one in problems]
    assert problems[0]["where"] == "all.yml:3"
    assert problems[0]["text"] and problems[0]["fix"] and not problems[0]["fix"].endswith(".")
    return problems[0]["key"], message(problems[0])


def of_profile(**keys):
    key, text = wrong({"profiles": [{**PROFILE, **keys}]})
    return key.replace("trainrig_lock.profiles.", ""), text


def of_repository(**keys):
    key, text = wrong(None, {"debian": keys})
    return key.replace("trainrig_repositories.debian.", ""), text


@pytest.mark.parametrize("lock", [None, {}, {"profiles": None, "sources": None, "index_date": None}, {"profiles": []}])
@pytest.mark.parametrize("repositories", [None, {}])
def test_nothing_is_said(lock, repositories):
    assert sound(lock, repositories) == NOTHING


def test_everything_is_said():
    profile = {**PROFILE, "pool": "old", "platform": "linux-aarch64", "python": ["3.10"], "packages": ["numpy"]}
    place = {"url": "https://me:pa%2Fss@mirror.example:8443/debian", "key": "/srv/k.gpg", "fingerprints": [FINGERPRINT]}
    lock = {"index_date": "2026-11-30", "profiles": [profile, PROFILE | {"name": "b"}], "sources": [SOURCE]}
    settings = sound(lock, {"debian": place, "nvidia": None, "ubuntu": {}})
    assert settings == {**lock, "repositories": {"debian": place, "nvidia": {}, "ubuntu": {}}}


@pytest.mark.parametrize("path", sorted(ROOT.glob("inventories/*/group_vars/all.yml")), ids=lambda path: path.parts[-3])
def test_our_own_inventories(path):
    said = yaml.safe_load(path.read_text("utf-8"))
    assert sound(said["trainrig_lock"])["profiles"] == said["trainrig_lock"]["profiles"]


def test_the_examples_of_the_documentation():
    text = (ROOT / "docs/stack.md").read_text("utf-8")
    blocks = re.findall(r"^    (?:trainrig_lock|trainrig_repositories):\n(?:^     .*\n)+", text, re.MULTILINE)
    said = [yaml.safe_load(block) for block in blocks]
    assert len(said) >= 2
    for one in said:
        sound(one.get("trainrig_lock"), one.get("trainrig_repositories"))


def test_values_come_back_in_one_spelling():
    row = {**PROFILE, "pytorch": " 2.13.0 ", "python": ["3.11", " 3.11", "3.12"]}
    assert sound({"profiles": [row]})["profiles"] == [{**PROFILE, "python": ["3.11", "3.12"]}]


@pytest.mark.parametrize(
    ("date", "meant"),
    [
        ("2026-11-30", "2026-11-30"),
        (datetime.date(2026, 11, 30), "2026-11-30"),
        (datetime.datetime(2026, 11, 30, tzinfo=datetime.timezone.utc), "2026-11-30T00:00:00+00:00"),
    ],
)
def test_a_date_may_be_what_yaml_reads(date, meant):
    assert sound({"index_date": date})["index_date"] == meant


@pytest.mark.parametrize("date", [20261130, "", ["2026-11-30"], True])
def test_a_date_that_is_none(date):
    key, text = wrong({"index_date": date})
    assert key == "trainrig_lock.index_date"
    assert 'index_date: "2026-11-30"' in text


@pytest.mark.parametrize("value", ["hello", [1], 5, True])
def test_settings_that_are_no_mapping(value):
    assert wrong(value) == wrong(value)
    assert wrong(value)[0] == "trainrig_lock"
    assert "must be keys with values. To fix it: write for example trainrig_lock: {profiles: [" in wrong(value)[1]
    assert wrong(None, value)[0] == "trainrig_repositories"
    assert "write for example trainrig_repositories: {nvidia: {url: " in wrong(None, value)[1]


@pytest.mark.parametrize("key", ["profiles", "sources"])
@pytest.mark.parametrize("value", ["hello", {"name": "x"}, 5])
def test_rows_that_are_no_list(key, value):
    place, text = wrong({key: value})
    assert place == f"trainrig_lock.{key}"
    assert f"must be a list. To fix it: write for example {key}: [{{name: " in text


@pytest.mark.parametrize("key", ["profiles", "sources"])
def test_a_row_that_is_no_mapping(key):
    row = {"profiles": PROFILE, "sources": SOURCE}[key]
    for value in ("cu130", None, ["cu130"]):
        place, text = wrong({key: [row, value]})
        assert place == f"trainrig_lock.{key}[1]"
        assert "must be keys with values. To fix it: write for example {name: " in text


def test_a_repository_that_is_no_mapping():
    place, text = wrong(None, {"debian": "http://me:hunter2@mirror.example/debian"})
    assert place == "trainrig_repositories.debian"
    assert "http://***@mirror.example/debian: must be keys with values" in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("lock", "repositories", "key", "fix"),
    [
        ({"profilez": []}, None, "trainrig_lock.profilez", "did you mean profiles"),
        ({"zzz": 1}, None, "trainrig_lock.zzz", "remove it; known are index_date, profiles, sources"),
        ({"profiles": [{**PROFILE, "pyton": 1}]}, None, "trainrig_lock.profiles.cu130.pyton", "did you mean python"),
        ({"sources": [{**SOURCE, "sha256": "00"}]}, None, "trainrig_lock.sources.nccl-tests.sha256", "remove it; "),
        ({5: 1}, None, "trainrig_lock.5", "remove it; "),
        (None, {"debian": {"uri": "x"}}, "trainrig_repositories.debian.uri", "did you mean url"),
        (None, {"nvidai": {"url": "x"}}, "trainrig_repositories.nvidai", "did you mean nvidia"),
        (None, {"zzz": None}, "trainrig_repositories.zzz", "remove it; known are debian, ubuntu, nvidia"),
    ],
)
def test_an_unknown_key(lock, repositories, key, fix):
    place, text = wrong(lock, repositories)
    assert place == key
    assert f": unknown {'origin' if re.search('nvidai|zzz', key) and repositories else 'key'}. To fix it: {fix}" in text


@pytest.mark.parametrize(
    "repositories",
    [
        {"debian": {"password": "hunter2"}},
        {"debian": {"http://me:hunter2@mirror.example/debian": None}},
        {"debain": "http://me:hunter2@mirror.example/debian"},
    ],
)
def test_beside_an_address_no_unknown_value_is_shown(repositories):
    assert "hunter2" not in wrong(None, repositories)[1]


@pytest.mark.parametrize("key", ["name", "pytorch", "variant"])
def test_a_profile_without_a_key_that_it_needs(key):
    place, text = wrong({"profiles": [{word: value for word, value in PROFILE.items() if word != key}]})
    assert place == ("trainrig_lock.profiles[0].name" if key == "name" else f"trainrig_lock.profiles.cu130.{key}")
    assert f"is missing. To fix it: write for example {key}: " in text


@pytest.mark.parametrize("key", ["name", "pool", "platform", "pytorch", "variant"])
@pytest.mark.parametrize("value", [None, "", "  ", 5, 2.1, True, ["x"], {}])
def test_a_value_that_is_no_text(key, value):
    place, text = of_profile(**{key: value})
    assert place.rpartition(".")[2] == key
    what = (
        "is a number to YAML" if type(value) in (int, float) else "is empty" if value in (None, "", "  ") else "must be"
    )
    assert f": {what}" in text
    assert ("or leave it out" in text) == (key in ("pool", "platform") and "number" not in what)
    assert ("quote it" in text) == ("number" in what)


@pytest.mark.parametrize("name", ["a", "2.13", "cu130-aarch64_old", "A..b"])
def test_names(name):
    sound({"profiles": [{**PROFILE, "name": name}]})


@pytest.mark.parametrize("name", ["../../evil", ".hidden", "-option", "a/b", "a b", "a\nb", "a:b", "ü", "_x"])
def test_a_name_that_cannot_name_a_file(name):
    place, text = of_profile(name=name)
    assert place == "trainrig_lock.profiles[0].name"
    assert "cannot name a file. To fix it: use letters, digits" in text


@pytest.mark.parametrize("pools", [("a", "a"), ("a", "b")])
def test_two_profiles_of_one_name(pools):
    rows = [{**PROFILE, "pool": pool} for pool in pools]
    place, text = wrong({"profiles": rows})
    assert place == "trainrig_lock.profiles.cu130.name"
    assert "is the name of another one too" in text
    sound({"profiles": [rows[0], {**rows[1], "name": "other"}]})


def test_two_sources_of_one_name():
    assert wrong({"sources": [SOURCE, {**SOURCE, "tag": "v3"}]})[0] == "trainrig_lock.sources.nccl-tests.name"
    sound({"sources": [SOURCE, {**SOURCE, "name": "other"}]})


@pytest.mark.parametrize("key", ["python", "packages"])
@pytest.mark.parametrize("value", [None, [], "", "numpy", 3.1, {"a": 1}])
def test_a_list_that_is_none(key, value):
    place, text = of_profile(**{key: value})
    assert place == f"cu130.{key}"
    example = "numpy" if value == "numpy" or key == "packages" else "3.12"
    assert f'To fix it: write {key}: ["{example}"], each in quotes, or leave it out' in text


def test_a_python_that_is_a_number():
    place, text = of_profile(python=["3.11", 3.1])
    assert place == "cu130.python"
    assert (
        ": 3.1: is a number to YAML, which drops the last zero of 2.10. To fix it: quote it as you wrote it, " in text
    )


@pytest.mark.parametrize(
    "text",
    [
        "numpy",
        "typing_extensions",
        "ruamel.yaml",
        "numpy>=2,<3",
        "numpy == 2.*",
        "transformers[torch, sentencepiece]~=4.57",
        "tomli; python_version < '3.11'",
        "x===1.0+local",
    ],
)
def test_packages(text):
    assert sound({"profiles": [{**PROFILE, "packages": [text]}]})["profiles"][0]["packages"] == [text]


@pytest.mark.parametrize(
    "text",
    [
        "-r other.txt",
        "--index-url=https://x",
        "numpy --hash=sha256:00",
        "./numpy.whl",
        "/srv/numpy.whl",
        "numpy @ https://x/numpy.whl",
        "git+https://me:hunter2@x/y",
        "https://me:hunter2@x/y.whl",
        "numpy scipy",
        "numpy 2.0",
        "numpy\nscipy",
        "-numpy",
        "numpy # why",
        "=" * 40,
        "a" + ">=1 " * 40 + "#",
    ],
)
def test_a_package_that_is_none(text):
    place, told = of_profile(packages=["numpy", text])
    assert place == "cu130.packages"
    assert "is no package's name. To fix it: write numpy" in told
    assert "hunter2" not in told


@pytest.mark.parametrize("key", ["name", "tag", "archive"])
@pytest.mark.parametrize("value", [None, "", 2.17, "left out"])
def test_a_source_without_a_key(key, value):
    row = {word: text for word, text in {**SOURCE, key: value}.items() if text != "left out"}
    place, text = wrong({"sources": [row]})
    assert place.rpartition(".")[2] == key
    assert f"for example {key}: " in text


@pytest.mark.parametrize("archive", ["nccl.tar.gz", "~/nccl.tar.gz", "file:///srv/a b", "https://x/y?z=1"])
def test_archives(archive):
    if " " in archive:
        assert "has a space in it" in wrong({"sources": [{**SOURCE, "archive": archive}]})[1]
    else:
        sound({"sources": [{**SOURCE, "archive": archive}]})


MALFORMED = [
    ("mirror.example/debian", "has no scheme"),
    ("https://mirror.example/debian main", "has a space in it"),
    ("https://me:hunter2@mirror.example:80a/x", "its host or port cannot be read"),
    ("https://me:hunter2/x@mirror.example/x", "its host or port cannot be read"),
    ("https://me:hunter2#x@mirror.example/x", "its host or port cannot be read"),
    ("https://me:hun ter2@mirror.example/x", "has a space in it"),
    ("https://me:12/hunter2@mirror.example/x", "has an @ behind its port"),
    ("https://me:hunter2@mirror.example/x?y", "has a raw ? or #"),
    ("https://me:hunter2@mirror.example/x#y", "has a raw ? or #"),
]


@pytest.mark.parametrize(("url", "text"), MALFORMED)
def test_an_address_that_cannot_be_asked(url, text):
    place, told = of_repository(url=url)
    assert place == "url"
    assert f": {text}. To fix it: " in told
    assert "hun" not in told
    assert "ter2" not in told


@pytest.mark.parametrize("url", [url for url, text in MALFORMED if "://" in url and "raw ?" not in text])
def test_an_archive_that_cannot_be_asked(url):
    place, told = wrong({"sources": [{**SOURCE, "archive": url}]})
    assert place == "trainrig_lock.sources.nccl-tests.archive"
    assert "hun" not in told
    assert "ter2" not in told


@pytest.mark.parametrize("key", ["url", "key"])
@pytest.mark.parametrize("value", [None, "", 5, ["x"]])
def test_a_place_that_is_no_text(key, value):
    place, text = of_repository(**{key: value})
    assert place == key
    assert f"for example {key}: " in text


def test_a_keyring_is_a_file():
    sound(None, {"debian": {"key": "keys/debian.gpg"}})
    assert "is no path of a keyring" in of_repository(key="https://mirror.example/key.gpg")[1]
    assert "is no path of a keyring" in of_repository(key="/srv/a key.gpg")[1]


@pytest.mark.parametrize(
    "written",
    [
        FINGERPRINT,
        FINGERPRINT.lower(),
        "EB69 3B30 35CD 5710 E231  E123 A4B4 6996 3BF8 63CC",
        [FINGERPRINT],
        [" eb69 3b30 35cd 5710 e231  e123 a4b4 6996 3bf8 63cc ", FINGERPRINT],
    ],
)
def test_fingerprints(written):
    assert sound(None, {"nvidia": {"fingerprints": written}})["repositories"]["nvidia"]["fingerprints"] == [FINGERPRINT]


@pytest.mark.parametrize(
    "written",
    [FINGERPRINT[:-1], FINGERPRINT + "0", "3BF863CC", "0x" + FINGERPRINT, "G" * 40, f"{FINGERPRINT},{FINGERPRINT}"],
)
def test_a_fingerprint_that_is_none(written):
    for form in (written, [FINGERPRINT, written]):
        place, text = of_repository(fingerprints=form)
        assert place == "fingerprints"
        assert "is no fingerprint. To fix it: write all 40 hex digits" in text


@pytest.mark.parametrize("written", [None, "", [], 5, {"a": 1}, [5], [None]])
def test_fingerprints_that_are_no_text(written):
    place, text = of_repository(fingerprints=written)
    assert place == "fingerprints"
    assert '"40 hex digits"' in text


def test_all_problems_are_told_at_once():
    lock = {"profilez": 1, "profiles": [{"name": "../x", "pool": None}, 5], "sources": "x", "index_date": 5}
    _settings, problems = checked(lock, {"nvidai": {}, "debian": {"uri": 1, "url": "x"}}, ORIGINS, "")
    assert [one["key"].rpartition("trainrig_")[2] for one in problems] == [
        "lock.profilez",
        "repositories.nvidai",
        "lock.profiles[0].name",
        "lock.profiles[0].pool",
        "lock.profiles[0].pytorch",
        "lock.profiles[0].variant",
        "lock.profiles[1]",
        "lock.sources",
        "lock.index_date",
        "repositories.debian.uri",
        "repositories.debian.url",
    ]
