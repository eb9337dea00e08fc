"""SVG that stands inside the page: the matrix of pairs and a host's topology. Colours are the page's own variables."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from html import escape
from typing import Any, List, Mapping, Optional, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.report.pair_map import STEPS
from ansible_collections.trainrig.gpu.plugins.module_utils.report.words import clean, count, listed, number

#: Widest a name is written; the whole of it is in the drawing's tooltip.
_LETTERS = 16
_LETTER = 6.6


def _svg(name: str, width: float, height: float, title: str, text: str, body: List[str]) -> str:
    """The drawing with what it shows in words, for those who do not see it."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-labelledby="{name}-t {name}-d"'
        f' style="max-width: {width:g}px"><title id="{name}-t">{_safe(title)}</title>'
        f'<desc id="{name}-d">{_safe(text)}</desc>{"".join(body)}</svg>'
    )


def _safe(value: Any) -> str:
    return escape(" ".join(clean(value).split()))


def _short(value: str, letters: int = _LETTERS) -> str:
    """A long name keeps its end, where names of nodes differ."""
    return value if len(value) <= letters else "…" + value[-(letters - 1) :]


def _text(x: float, y: float, value: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{_safe(value)}</text>'


def _rect(x: float, y: float, width: float, height: float, kind: str, round_: float = 3, tip: str = "") -> str:
    title = f"<title>{_safe(tip)}</title>" if tip else ""
    return (
        f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round_:g}">{title}</rect>'
    )


def step(share: Optional[float]) -> str:
    """The class of a cell's colour: h0 is normal, h4 the slowest, hx not known."""
    if share is None:
        return "hx"
    return f"h{next(index for index, bound in enumerate(STEPS) if share >= bound)}"


def matrix(found: Mapping[str, Any], name: str) -> str:
    """Hosts against hosts. What was not measured is left open, and is not drawn as slow."""
    hosts: List[str] = list(found["hosts"])
    size = 44.0 if len(hosts) <= 12 else 30.0 if len(hosts) <= 20 else 20.0
    letters = min(max(map(len, hosts)), _LETTERS)
    left = letters * _LETTER + 12
    top = left * 0.75 + 6
    body = []
    for index, host in enumerate(hosts):
        middle = (index + 0.5) * size
        x = left + middle
        body.append(_text(left - 6, top + middle + 4, _short(host), "small", "end"))
        body.append(
            f'<g transform="translate({x + 3:g} {top - 6:g}) rotate(-45)">{_text(0, 0, _short(host), "small")}</g>'
        )
    for row, one in enumerate(hosts):
        for column, other in enumerate(hosts):
            x, y = left + column * size, top + row * size
            if row == column:
                body.append(_rect(x + 1, y + 1, size - 2, size - 2, "self"))
                continue
            cell = found["cells"].get((one, other)) or found["cells"].get((other, one))
            body += _cell(cell, one, other, x, y, size)
    values = [cell for cell in found["cells"].values() if cell["share"] is None or cell["share"] < STEPS[0]]
    middle = found["median_gb_s"]
    text = f"{count(found['measured'], 'pair')} measured, median {number(middle)} GB/s"
    text += f"; {count(len(values), 'pair')} below {STEPS[0] * 100:g} % of it or without a result" if values else ""
    bottom = top + len(hosts) * size
    legend, wide = _legend(bottom + 14)
    width = max(left + len(hosts) * size + top * 0.75, wide)
    return _svg(name, width, bottom + 40, "Bus bandwidth between pairs of hosts", text, body + legend)


def _cell(cell: Optional[Mapping[str, Any]], one: str, other: str, x: float, y: float, size: float) -> List[str]:
    if cell is None:
        return [_rect(x + 1, y + 1, size - 2, size - 2, "open", tip=f"{one}, {other}: not measured")]
    value, share = cell["busbw_gb_s"], cell["share"]
    failed = value is None
    said = (
        "no result" if failed else f"{number(value)} GB/s" + (f", {share * 100:.0f} % of the median" if share else "")
    )
    kind = f"{step(share)} edge" if cell["status"] == "fail" else step(share)
    drawn = [_rect(x + 1, y + 1, size - 2, size - 2, kind, tip=f"{one}, {other}: {said}")]
    if size >= 30:
        drawn.append(
            _text(x + size / 2, y + size / 2 + 4, "✕" if failed else number(value), f"{step(share)}t small", "middle")
        )
    return drawn


def _legend(y: float) -> Tuple[List[str], float]:
    """The colours with their words, and how wide that is."""
    words = [f"{STEPS[0] * 100:g} % of the median and more", *(f"{bound * 100:g} %" for bound in STEPS[1:-1]), "less"]
    kinds = [*(f"h{index}" for index in range(len(words))), "hx"]
    body: List[str] = []
    x = 6.0
    for kind, word in zip(kinds, [*words, "no result"]):
        body += [_rect(x, y, 14, 14, kind), _text(x + 18, y + 11, word, "small")]
        x += 34 + len(word) * _LETTER
    return body, x


def _group_width(group: Mapping[str, Any]) -> float:
    return max(len(group["gpus"]), len(group["nics"]), 1) * 82.0 + 14


def host(found: Mapping[str, Any], name: str) -> str:
    """NVLink across the top, then each PCIe switch with its GPUs and adapters, framed by NUMA node."""
    nodes: List[Any] = list(dict.fromkeys(group["numa"] for group in found["groups"]))
    rows = [[group for group in found["groups"] if group["numa"] == node] for node in nodes]
    widths = [sum(_group_width(group) + 8 for group in row) + 12 for row in rows]
    side = sum(widths) <= 900
    width = max(sum(widths) + 10 * (len(rows) - 1) if side else max(widths), 300.0)
    body = []
    text = _links(found)
    body.append(_rect(0, 0, width, 28, "nvlink"))
    body.append(_text(width / 2, 18, text, "", "middle"))
    x, y = 0.0, 40.0
    for node, row, wide in zip(nodes, rows, widths):
        body += _node(node, row, x, y, wide if side else width)
        x, y = (x + wide + 10, y) if side else (x, y + 174)
    bottom = y + 164 if side else y - 10
    if found["lost"]:
        body.append(_text(0, bottom + 18, f"does not answer: {listed(list(found['lost']), 8)}", "lost"))
        bottom += 26
    said = [text] + [_words(group) for group in found["groups"]]
    said += [f"does not answer: {listed(list(found['lost']), 8)}"] if found["lost"] else []
    return _svg(name, width, bottom, "GPUs and network adapters by PCIe switch and NUMA node", "; ".join(said), body)


def _links(found: Mapping[str, Any]) -> str:
    gpus = sum(len(group["gpus"]) for group in found["groups"])
    if found["nvlink"]:
        return f"NVLink between all {gpus} GPUs: {found['nvlink']}"
    kinds = ", ".join(f"{kind} {times} x" for kind, times in found["pairs"].items())
    return f"links between the GPUs: {kinds}" if kinds else "one GPU"


def _words(group: Mapping[str, Any]) -> str:
    devices = [gpu["name"] for gpu in group["gpus"]] + [str(nic["device"]) for nic in group["nics"]]
    node = "NUMA node unknown" if group["numa"] is None else f"NUMA node {group['numa']}"
    return f"{node}: {', '.join(devices)}"


def _node(node: Optional[int], row: List[Mapping[str, Any]], x: float, y: float, width: float) -> List[str]:
    body = [_rect(x, y, width, 164, "frame", 6)]
    body.append(_text(x + 10, y + 18, "NUMA node unknown" if node is None else f"NUMA node {node}", "soft"))
    x += 8
    for group in row:
        wide = _group_width(group)
        together = len(group["gpus"]) + len(group["nics"]) > 1
        body.append(_rect(x, y + 28, wide, 128, "switch" if together else "alone", 5))
        if together:
            body.append(_text(x + 8, y + 44, "PCIe switch", "soft small"))
        for index, gpu in enumerate(group["gpus"]):
            body += _box(
                x + 8 + index * 82,
                y + 52,
                gpu["name"],
                str(gpu["pci_address"] or "address unknown")[-10:],
                "gpu",
                f"{gpu['model'] or 'unknown model'} {gpu['pci_address'] or ''}",
            )
        for index, nic in enumerate(group["nics"]):
            rate = nic["rate_gbit_s"]
            said = f"{rate:g} Gbit/s" if rate and nic["state"] == "Active" else str(nic["state"] or "unknown")
            kind = "nic" if nic["state"] in ("Active", None) else "nic down"
            body += _box(
                x + 8 + index * 82,
                y + 104,
                str(nic["device"]),
                said,
                kind,
                f"{nic['name']} {nic['device']} {said} {nic['link_layer'] or ''}",
            )
        x += wide + 8
    return body


def _box(x: float, y: float, name: str, text: str, kind: str, tip: str) -> List[str]:
    return [
        _rect(x, y, 74, 44, kind, 4, tip),
        _text(x + 37, y + 18, _short(name, 10), "", "middle"),
        _text(x + 37, y + 34, text, "small", "middle"),
    ]


def bar(value: float, marks: Mapping[str, float], kind: str) -> str:
    """A bandwidth as a bar, with lines for its floor, its peers' median and its ceiling; all from 0 to the largest."""
    most = max([value, *marks.values()]) or 1.0
    width, height = 160.0, 22.0
    body = [_rect(0, 7, width, 8, "rail", 2), _rect(0, 7, value / most * width, 8, f"bar {kind}", 2)]
    for name, mark in marks.items():
        x = mark / most * (width - 2) + 1
        title = f"<title>{name} {number(mark)} GB/s</title>"
        body.append(f'<line class="{name}" x1="{x:.1f}" y1="2" x2="{x:.1f}" y2="20">{title}</line>')
    said = ", ".join([f"{number(value)} GB/s", *(f"{name} {number(mark)}" for name, mark in marks.items())])
    head = f'<svg class="bar" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{_safe(said)}">'
    return f"{head}{''.join(body)}</svg>"
