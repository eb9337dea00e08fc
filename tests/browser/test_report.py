"""The page in a real browser, without a window: it asks for nothing, and nothing of it is cut off or unreadable."""

import http.server
import re
import subprocess
import threading

import pytest
from ansible_collections.trainrig.gpu.plugins.plugin_utils import figures, report_files

from tests.unit.module_utils.report.fleets import FLEETS, report_of
from tools import browser

BROWSER = browser.found()
#: A browser speaks to its maker when it starts; these keep it from that.
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync"),
    *("--disable-domain-reliability", "--disable-features=OptimizationHints,MediaRouter,NetworkTimeServiceQuerying"),
    "--disable-extensions",
)
#: What it asks its maker all the same, before it has read a page: the clock, its updates, its account.
OWN = re.compile(r"(?:https?://)?(?:update\.googleapis|clients2\.google|accounts\.google)\.com[:/]")
pytestmark = pytest.mark.skipif(BROWSER is None, reason=str(browser.missing()))


@pytest.fixture
def opened(tmp_path):
    """opened(html) -> (what a proxy was asked for, the page as the browser has it)."""
    asked = []

    class Proxy(http.server.BaseHTTPRequestHandler):
        def answer(self):
            asked.append(self.path)
            self.send_error(502)

        do_GET = do_CONNECT = do_POST = do_HEAD = answer

        def log_message(self, *_arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def look(text):
        page = tmp_path / "report.html"
        page.write_text(text, encoding="utf-8")
        proxy = f"--proxy-server=http://127.0.0.1:{server.server_port}"
        own = f"--user-data-dir={tmp_path / 'profile'}"
        command = [BROWSER, *QUIET, proxy, "--proxy-bypass-list=<-loopback>", own, "--dump-dom", page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return [address for address in asked if not OWN.match(address)], done.stdout

    yield look
    server.shutdown()
    server.server_close()


@pytest.fixture
def undrawn(monkeypatch):
    """Curves are drawn elsewhere, and slowly."""
    monkeypatch.setattr(figures, "available", lambda: False)


def test_a_request_would_be_seen(opened):
    asked, _page = opened('<img src="http://elsewhere.example/x.png">')
    assert "http://elsewhere.example/x.png" in asked


@pytest.mark.parametrize("fleet", FLEETS)
def test_nothing_is_asked_of_the_outside(opened, fleet):
    text = report_files.html(report_of(fleet))
    asked, page = opened(text)
    assert asked == []
    # The browser took the page for what it is: every drawing is whole, and nothing was moved out of its place.
    assert page.count("<svg") == text.count("<svg") > 0 or fleet == "cpu_only"
    assert page.count("<table") == text.count("<table")
    assert "What to type now" in page


@pytest.mark.usefixtures("undrawn")
def test_even_a_page_that_names_an_address_does_not_ask(opened):
    made = report_of("cpu_only")
    made["findings"][0]["summary"] = '"><img src="http://elsewhere.example/x.png">'
    # Were it not escaped, the page's own policy would still forbid it.
    text = re.sub(r"&lt;img src=&#34;(.*?)&#34;&gt;", r'<img src="\1">', report_files.html(made))
    assert '<img src="http://elsewhere.example' in text
    assert opened(text)[0] == []
