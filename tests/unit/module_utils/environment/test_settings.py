"""pip's settings in pip's precedence, translated into uv's; uv's failures told in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.environment import pip_settings, uv_errors, uv_options

CASES = Path(__file__).resolve().parents[3] / "cases" / "environment" / "uv_says"
CONTEXT = {"requirements": "/prefix/requirements.txt", "python": "/usr/bin/python3", "store": "/prefix/envs"}


def files(env=None):
    return pip_settings.config_files(env or {}, "/home/me", "/usr")


def test_the_order_of_pips_files():
    assert files() == [
        "/etc/xdg/pip/pip.conf",
        "/etc/pip.conf",
        "/home/me/.pip/pip.conf",
        "/home/me/.config/pip/pip.conf",
        "/usr/pip.conf",
    ]


def test_an_own_file_replaces_the_users():
    found = files({"PIP_CONFIG_FILE": "/own.conf"})
    assert found[-1] == "/own.conf"
    assert not [path for path in found if path.startswith("/home/me")]


def test_no_files_at_all():
    assert files({"PIP_CONFIG_FILE": "/dev/null"}) == []


def test_the_environment_in_use_has_a_file():
    assert "/venv/pip.conf" in files({"VIRTUAL_ENV": "/venv"})


def test_the_directories_can_be_moved():
    found = files({"XDG_CONFIG_DIRS": "/a:/b", "XDG_CONFIG_HOME": "/c"})
    assert found[:3] == ["/a/pip/pip.conf", "/b/pip/pip.conf", "/etc/pip.conf"]
    assert "/c/pip/pip.conf" in found


def read(texts, env=None):
    return pip_settings.read(texts, env or {})[0]


def test_later_files_win_and_say_where():
    settings = read(
        [("/etc/pip.conf", "[global]\nindex-url = https://a\n"), ("/me", "[global]\nindex_url = https://b\n")]
    )
    assert settings["index-url"] == (("https://b",), "/me [global] index_url")


def test_install_wins_over_global_whatever_the_file():
    settings = read([("/one", "[install]\nindex-url = https://a\n"), ("/two", "[global]\nindex-url = https://b\n")])
    assert settings["index-url"].values == ("https://a",)


def test_variables_win_over_files():
    settings = read([("/one", "[global]\nfind-links = /a\n  /b\n")], {"PIP_FIND_LINKS": "/c /d"})
    assert settings["find-links"] == (("/c", "/d"), "environment variable PIP_FIND_LINKS")
    assert read([("/one", "[global]\nfind-links =\n  /a\n  /b\n")])["find-links"].values == ("/a", "/b")


def test_an_empty_variable_sets_nothing():
    assert read([("/one", "[global]\nproxy = http://p\n")], {"PIP_PROXY": ""})["proxy"].values == ("http://p",)


def test_what_has_nothing_to_do_with_installing_is_left_out():
    assert read([("/one", "[list]\nindex-url = https://a\n[global]\nverbose = 1\n")], {"PIP_NO_COLOR": "1"}) == {}


def test_a_percent_sign_is_only_a_percent_sign():
    assert (
        read([("/one", "[global]\nindex-url = https://u:p%40ss@host/simple\n")])["index-url"].values[0].count("%") == 1
    )


def translate(texts="", env=None, variables=None, uv_files=()):
    env = env or {}
    return uv_options.translate(read([("/pip.conf", f"[global]\n{texts}")], env), variables or {}, env, uv_files)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("index-url = https://a/simple", "UV_DEFAULT_INDEX", "https://a/simple"),
        ("extra-index-url = https://b https://c", "UV_INDEX", "https://b https://c"),
        ("find-links = /a https://b", "UV_FIND_LINKS", "/a,https://b"),
        ("proxy = proxy.example:3128", "HTTPS_PROXY", "http://proxy.example:3128"),
        ("cert = /ca.pem", "SSL_CERT_FILE", "/ca.pem"),
        ("client-cert = /me.pem", "SSL_CLIENT_CERT", "/me.pem"),
        ("trusted-host = a\n  b:8080", "UV_INSECURE_HOST", "a b:8080"),
        ("timeout = 7.5", "UV_HTTP_TIMEOUT", "7"),
        ("default-timeout = 180", "UV_HTTP_TIMEOUT", "180"),
        ("retries = 2", "UV_HTTP_RETRIES", "2"),
    ],
)
def test_each_setting_of_pips_has_its_variable_of_uvs(text, name, value):
    settings = translate(text)
    assert settings.env[name] == value
    key = text.split(" =")[0].replace("default-", "")
    assert settings.origins[key].startswith("/pip.conf [global]")


def test_no_index_is_an_option():
    assert translate("no-index = true").options == ["--no-index"]
    assert translate("no-index = false").options == []


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("index-url = https://a", "UV_DEFAULT_INDEX"),
        ("index-url = https://a", "UV_INDEX_URL"),
        ("extra-index-url = https://a", "UV_INDEX"),
        ("find-links = /a", "UV_FIND_LINKS"),
        ("proxy = http://a", "https_proxy"),
        ("cert = /a", "SSL_CERT_FILE"),
        ("timeout = 5", "UV_HTTP_TIMEOUT"),
    ],
)
def test_uvs_own_variables_win(text, own):
    settings = translate(text, {own: "mine"})
    assert own not in settings.env
    assert settings.origins[text.split(" =")[0]] == f"environment variable {own}"


@pytest.mark.parametrize(
    ("toml", "wins"),
    [
        ('index-url = "https://a"', True),
        ('[[index]]\nurl = "https://a"\ndefault = true', True),
        ('[[index]]\nurl = "https://a"', False),
        ('# index-url = "https://a"', False),
    ],
)
def test_uvs_own_file_wins(toml, wins):
    settings = translate("index-url = https://pip", uv_files=[toml])
    assert ("UV_DEFAULT_INDEX" in settings.env) != wins


def test_the_inventory_wins_over_all_and_hides_the_rest():
    settings = translate(
        "index-url = https://pip", {"UV_INDEX_URL": "https://uv"}, {"index-url": ["https://inventory"]}
    )
    assert settings.env["UV_DEFAULT_INDEX"] == "https://inventory"
    assert settings.env["UV_INDEX_URL"] == ""
    assert settings.origins["index-url"] == "inventory variable pytorch_index_url"
    assert translate("", {}, {"extra-index-url": ["a"]}).origins["extra-index-url"].endswith("pytorch_extra_index_urls")


def test_constraints_are_kept_from_uv():
    settings = translate("constraint = /c.txt")
    assert settings.constraints == ["/c.txt"]
    assert settings.env["UV_CONSTRAINT"] == ""
    assert translate("", {"UV_CONSTRAINT": "/u.txt"}).constraints == ["/u.txt"]


def test_the_users_strategy_stays():
    assert translate().env["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert "UV_INDEX_STRATEGY" not in translate("", {"UV_INDEX_STRATEGY": "first-index"}).env


def test_one_more_index_stands_beside_the_others():
    wider = uv_options.with_index(translate("extra-index-url = https://a"), "https://u:secret@b", {})
    assert wider.env["UV_INDEX"] == "https://a https://u:secret@b"
    assert "secret" in wider.secrets


def test_credentials_are_known_and_hidden():
    settings = translate("index-url = https://me:hunter2@host/simple")
    assert set(settings.secrets) == {"me:hunter2", "hunter2"}
    assert (
        uv_options.mask("at https://me:hunter2@host/simple, https://tok@x/y")
        == "at https://***@host/simple, https://***@x/y"
    )


#: What uv printed, by what is to be read from it.
SAID = {path.stem: path.read_text(encoding="utf-8") for path in sorted(CASES.glob("*.txt"))}


@pytest.mark.parametrize("kind", SAID)
def test_what_uv_says(kind):
    failure = uv_errors.explain(SAID[kind], CONTEXT, {"index-url": "/pip.conf [global] index-url"})
    assert failure.kind == kind
    assert failure.text
    assert failure.fix
    assert failure.detail.startswith("error: ")
    if kind.startswith("index_"):
        assert "/pip.conf [global] index-url" in failure.text
    if "9.9" in SAID[kind]:
        assert "torch==9.9+cpu" in failure.text


def test_uvs_words_hide_credentials_too():
    failure = uv_errors.explain("error: Failed to fetch: https://u:hunter2@h/a\n cause: dns error", CONTEXT, {})
    assert "hunter2" not in "".join(failure)
