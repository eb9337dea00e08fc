"""Changes single values in the text of a YAML file; comments, order and layout stay. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import yaml


class EditError(ValueError):
    """A change that cannot be made without touching more than the value; the text is for people."""


def edited(text: str, changes: Sequence[tuple[tuple[str, ...], Any]]) -> str:
    """`changes`: (keys that lead to the value, a text or a list of texts). A missing last key is added inside { }."""
    root = yaml.compose(text)
    if root is None:
        raise EditError("the file is empty")
    cuts = sorted((_cut(text, root, path, value) for path, value in changes), reverse=True)
    result = text
    for start, end, written in cuts:
        result = result[:start] + written + result[end:]
    wanted = copy.deepcopy(yaml.safe_load(text))
    for path, value in changes:
        _row(wanted, path[:-1])[path[-1]] = value
    if yaml.safe_load(result) != wanted:
        raise EditError("the edited text does not hold exactly the changes that were asked for")
    return result


def _cut(text: str, root: yaml.Node, path: tuple[str, ...], value: Any) -> tuple[int, int, str]:
    """(start, end, text to put there)."""
    where = ".".join(path)
    node = root
    for depth, key in enumerate(path):
        children = {child.value: found for child, found in node.value} if isinstance(node, yaml.MappingNode) else {}
        if key in children:
            node = children[key]
        elif depth == len(path) - 1 and isinstance(node, yaml.MappingNode) and node.flow_style:
            comma = ", " if node.value else ""
            end = node.end_mark.index - 1
            return end, end, f"{comma}{key}: {_flow(value)}"
        else:
            raise EditError(f"{where}: no place for it in the file; write it by hand")
    start, end = node.start_mark.index, node.end_mark.index
    if isinstance(node, yaml.MappingNode) or isinstance(value, list) != isinstance(node, yaml.SequenceNode):
        raise EditError(f"{where}: another kind of value stands there; write it by hand")
    if isinstance(node, yaml.SequenceNode) and (not node.flow_style or "#" in text[start:end]):
        raise EditError(f"{where}: not a list on one line; write it by hand")
    return start, end, _flow(value)


def _flow(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_flow(one) for one in value) + "]"
    # Quoted, or YAML reads the version 2.10 as the number 2.1.
    return f'"{value}"'


def _row(content: Mapping[str, Any], path: Sequence[str]) -> Any:
    row: Any = content
    for key in path:
        row = row[key]
    return row
