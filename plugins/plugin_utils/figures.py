"""Draws a report's curves with matplotlib as SVG that can stand inside a page. The same data gives the same bytes."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.util import find_spec
from typing import Any

from ansible_collections.trainrig.gpu.plugins.module_utils.report.words import clean, number, size

#: Drawn with this colour, which nothing else uses, then replaced by the page's own text colour (light and dark).
_INK = "#010203"
#: Told apart with any colour vision, on light and on dark (Okabe and Ito); with markers for grey prints.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#8c6d31")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
#: What a curve is held against, in words.
_BOUNDS = {"threshold_gb_s": "threshold", "ceiling_gb_s": "ceiling"}
#: A floor that holds for one size is drawn from this part of it on.
_SHORT = 16
_SETTINGS: Mapping[str, Any] = {
    "svg.hashsalt": "trainrig",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 11,
    "text.parse_math": False,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
_ORIGIN = {"Date": None, "Creator": None, "Format": None, "Type": None}


def available() -> bool:
    """True where matplotlib is installed. It is slow to load, so that it is loaded only to draw."""
    return find_spec("matplotlib") is not None


def bandwidth(lines: Sequence[Mapping[str, Any]], name: str, title: str = "Bus bandwidth") -> str:
    """Bus bandwidth over message size: one curve per line, its threshold dashed and its ceiling dotted.

    A line is ``{label, points: [{size_bytes, busbw_gb_s, threshold_gb_s, ceiling_gb_s, status}]}``; ``name`` keeps the
    ids of several figures on one page apart.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    with mpl.rc_context(dict(_SETTINGS)):
        figure = Figure(figsize=(6.2, 4.0), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots()
        for index, line in enumerate(lines):
            _draw(axes, line, _COLOURS[index % len(_COLOURS)], _MARKERS[index % len(_MARKERS)])
        axes.set_xscale("log", base=2)
        _bounds(axes, lines)
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(LogLocator(base=4, numticks=9))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _position: size(value)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _position: f"{value:g}"))
        axes.set_xlabel("message size")
        axes.set_ylabel("bus bandwidth, GB/s")
        axes.grid(True, alpha=0.25, linewidth=0.6)
        if len(lines) > 1:
            figure.legend(frameon=False, fontsize=10, loc="outside lower center", ncols=3)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", transparent=True, metadata=dict(_ORIGIN))
    return _inline(stream.getvalue(), name, title, _said(lines))


def _said(lines: Sequence[Mapping[str, Any]]) -> str:
    """The curves in words: where each ends, and what it is held against."""
    parts = []
    for line in lines:
        known = [one for one in line["points"] if one.get("size_bytes") and one.get("busbw_gb_s")]
        if not known:
            continue
        last = max(known, key=lambda one: one["size_bytes"])
        words = f"{line['label']}: {number(last['busbw_gb_s'])} GB/s at {size(last['size_bytes'])}"
        for key, word in _BOUNDS.items():
            words += f", {word} {number(last[key])}" if last.get(key) else ""
        parts.append(words)
    return "; ".join(parts)


def _bounds(axes: Any, lines: Sequence[Mapping[str, Any]]) -> None:
    """Each threshold and ceiling once with its value, however many curves share it."""
    points = [one for line in lines for one in line["points"] if one.get("size_bytes") and one.get("busbw_gb_s")]
    for key, word in _BOUNDS.items():
        for value in sorted({float(one[key]) for one in points if one.get(key)}):
            # At the end of its line, outside of the axes: there is no curve that it could lie on.
            at = max(one["size_bytes"] for one in points if one.get(key) == value)
            place = {"xy": (at, value), "xytext": (10, 0), "textcoords": "offset points", "fontsize": 9}
            axes.annotate(f"{word} {number(value)}", **place, va="center", annotation_clip=False)


def _draw(axes: Any, line: Mapping[str, Any], colour: str, marker: str) -> None:
    points = sorted(
        (one for one in line["points"] if one.get("size_bytes") and one.get("busbw_gb_s")),
        key=lambda one: one["size_bytes"],
    )
    sizes = [one["size_bytes"] for one in points]
    axes.plot(
        sizes,
        [one["busbw_gb_s"] for one in points],
        color=colour,
        marker=marker,
        markersize=4,
        linewidth=1.6,
        label=line["label"],
    )
    for key, style in zip(_BOUNDS, ("--", ":")):
        known = [(one["size_bytes"], one[key]) for one in points if one.get(key)]
        if len(known) == 1:  # a floor that holds for the largest size only: a piece of line that can be seen
            known = [(known[0][0] / _SHORT, known[0][1]), *known]
        if known:
            axes.plot(*zip(*known), color=colour, linestyle=style, linewidth=1.4)
    failed = [(one["size_bytes"], one["busbw_gb_s"]) for one in points if one.get("status") == "fail"]
    if failed:
        axes.plot(*zip(*failed), linestyle="none", marker="o", markersize=10, fillstyle="none", color="#c62828")


def _inline(svg: str, name: str, title: str, text: str) -> str:
    """The figure without its file header and fixed size, its ids made unique, its ink the page's text colour.

    ``title`` and ``text`` say what it shows to those who do not see it.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    # Inside a page this rule would hold for the whole page.
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", svg, count=1, flags=re.DOTALL)
    head, body = svg.split(">", 1)
    head = re.sub(r'\s(xmlns(:\w+)?|version|width|height)="[^"]*"', "", head)
    svg = f'{head} role="img" style="stroke-linejoin: round">{body}'
    svg = svg.replace("xlink:href", "href").replace(_INK, "currentColor")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", svg)
    head, body = svg.split(">", 1)
    words = (
        f'<title id="{name}-title">{escape(clean(title))}</title><desc id="{name}-desc">{escape(clean(text))}</desc>'
    )
    return f'{head} aria-labelledby="{name}-title {name}-desc">{words}{body}'
