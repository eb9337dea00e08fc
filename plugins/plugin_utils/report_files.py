"""Writes a report: checked against its schema first, then three files under a new directory, then the `latest` link."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.trainrig.gpu.plugins.module_utils.report import junit, page, page_hardware, provider
from ansible_collections.trainrig.gpu.plugins.module_utils.report.words import pieces
from ansible_collections.trainrig.gpu.plugins.plugin_utils import figures
from ansible_collections.trainrig.gpu.plugins.plugin_utils.data import ROOT

SCHEMA = ROOT / "data" / "schemas" / "report.schema.json"
_TEMPLATES = Path(__file__).resolve().parent / "templates"
_UNFINISHED = ".unfinished-"
#: What an interrupted run left behind is removed after this time; a run that still writes is younger.
_UNFINISHED_KEPT_S = 3600


class NotWritten(Exception):
    """The place for reports cannot be written to; the report itself is sound, and its verdict can be said."""


def check(report: Mapping[str, Any]) -> None:
    """Refuse a report that its readers could not rely on."""
    try:
        from jsonschema import Draft202012Validator
    except ImportError as error:
        raise AnsibleActionFail(
            f"report: the controller's Python lacks jsonschema ({error}); install requirements/controller.txt"
        ) from error
    validator = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    errors = sorted(validator.iter_errors(report), key=lambda error: list(map(str, error.absolute_path)))
    if errors:
        shown = "; ".join(
            f"{'.'.join(map(str, error.absolute_path)) or 'report'}: {error.message[:200]}" for error in errors[:5]
        )
        raise AnsibleActionFail(f"report: not written, it does not fit {SCHEMA.name}: {shown}")


def _drawn(one: dict[str, Any] | None) -> dict[str, Any] | None:
    """The drawings escape what they write themselves."""
    from markupsafe import Markup

    return one and {**one, "svg": Markup(one["svg"])}


def _topologies(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "drawn": [_drawn(one) for one in found["drawn"]]}


def html(report: Mapping[str, Any]) -> str:
    """The page. Everything is escaped by the template engine, except the figures, which are drawn here."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    drawn = figures.available()
    curves = page.figures(report["measurements"]) if drawn else []
    asking, informing = page.cards(report["findings"])
    return environment.get_template("report.html.j2").render(
        report=report,
        meaning=page.MEANINGS[report["verdict"]],
        asking=asking,
        informing=informing,
        failed=any(one.get("status") == "fail" for one in report["measurements"]),
        evidence=page.evidence,
        pieces=pieces,
        hosts=page.host_rows(report),
        figures=[
            {**one, "svg": Markup(figures.bandwidth(one["lines"], f"f{index}", one["title"]))}
            for index, one in enumerate(curves)
        ],
        drawn=drawn,
        bandwidth=page.bandwidth_rows(report["measurements"]),
        ddp=page.ddp_rows(report["measurements"]),
        blocks=page.blocks(report["next"]),
        order=page_hardware.order_rows(report),
        health=page_hardware.health_rows(report["measurements"]),
        peers=[{**row, "bar": Markup(row["bar"])} for row in page_hardware.peer_rows(report["measurements"])],
        pairs=_drawn(page_hardware.pairs(report["measurements"])),
        topologies=_topologies(page_hardware.topologies(report)),
        provider=provider.text(report),
    )


def write(report: Mapping[str, Any], directory: Path, stamp: str) -> Path:
    """Write report.json, report.html and report.xml into a new directory; returns it. Older reports are kept."""
    check(report)
    files = {
        "report.json": json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
        "report.html": html(report),
        "report.xml": junit.render(report),
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _sweep(directory)
        unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=directory))
        unfinished.chmod(0o777 & ~_umask())
        for name, text in files.items():
            _write_durably(unfinished / name, text)
        final = _rename(unfinished, directory, stamp)
        _link(directory, final.name)
    except OSError as error:
        raise NotWritten(
            f"report_directory: {directory}: cannot write {error.filename or directory}: {error.strerror or error}. "
            "To fix it: name a place you may write to with -e report_directory=DIR."
        ) from error
    return final


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _write_durably(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", errors="replace") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def _rename(unfinished: Path, directory: Path, stamp: str) -> Path:
    """Give the finished directory its name; a second report within one second gets a number."""
    number = 1
    while True:
        final = directory / (stamp if number == 1 else f"{stamp}-{number}")
        # An empty directory would be replaced silently by rename, so names that are taken are skipped first.
        if not os.path.lexists(final):
            try:
                return unfinished.rename(final)
            except OSError:
                if not os.path.lexists(final):
                    raise
        number += 1


def _link(directory: Path, name: str) -> None:
    """Point `latest` at the report: a new link is made beside it and renamed over it."""
    temporary = directory / f"{_UNFINISHED}{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(name)
    temporary.replace(directory / "latest")


def _sweep(directory: Path) -> None:
    oldest = time.time() - _UNFINISHED_KEPT_S
    for path in directory.glob(f"{_UNFINISHED}*"):
        if path.lstat().st_mtime < oldest:
            if path.is_symlink():
                path.unlink(missing_ok=True)
            else:
                shutil.rmtree(path, ignore_errors=True)
