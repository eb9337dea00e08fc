"""Evaluates the environment markers of a requirement (`python_full_version >= '3.12'`) for one Python."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re
from typing import List, Mapping, Tuple

from ansible_collections.trainrig.gpu.plugins.module_utils.environment.versions import satisfies

#: What a marker may ask about; every one of them must be in the environment given to `evaluate`.
NAMES = (
    "implementation_name",
    "implementation_version",
    "os_name",
    "platform_machine",
    "platform_python_implementation",
    "platform_release",
    "platform_system",
    "platform_version",
    "python_full_version",
    "python_version",
    "sys_platform",
)
_VERSIONS = ("python_version", "python_full_version", "implementation_version")
_TOKEN = re.compile(
    r"\s*(?:(?P<op>\(|\)|<=|>=|===|==|~=|!=|<|>)|(?P<text>'[^']*'|\"[^\"]*\")|(?P<word>[A-Za-z_][A-Za-z0-9_.]*))"
)
_SWAPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


class MarkerError(ValueError):
    """A marker that cannot be understood."""


def evaluate(marker: str, environment: Mapping[str, str]) -> bool:
    """True when the requirement with this marker is meant for this Python. No marker: always."""
    if not marker.strip():
        return True
    parser = _Parser(_tokens(marker), environment, marker)
    result = parser.any_of()
    if parser.position != len(parser.tokens):
        raise MarkerError(f"marker not understood: {marker}")
    return result


def _tokens(marker: str) -> List[Tuple[str, str]]:
    tokens: List[Tuple[str, str]] = []
    position = 0
    text = marker.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise MarkerError(f"marker not understood: {marker}")
        kind = str(match.lastgroup)
        tokens.append((kind, match.group(kind)))
        position = match.end()
    return tokens


class _Parser:
    """Recursive descent over: any_of = all_of ('or' all_of)*; all_of = one ('and' one)*."""

    def __init__(self, tokens: List[Tuple[str, str]], environment: Mapping[str, str], marker: str) -> None:
        self.tokens = tokens
        self.environment = environment
        self.marker = marker
        self.position = 0

    def peek(self) -> Tuple[str, str]:
        return self.tokens[self.position] if self.position < len(self.tokens) else ("end", "")

    def take(self) -> Tuple[str, str]:
        token = self.peek()
        self.position += 1
        return token

    def any_of(self) -> bool:
        result = self.all_of()
        while self.peek() == ("word", "or"):
            self.take()
            result = self.all_of() or result
        return result

    def all_of(self) -> bool:
        result = self.one()
        while self.peek() == ("word", "and"):
            self.take()
            result = self.one() and result
        return result

    def one(self) -> bool:
        if self.peek() == ("op", "("):
            self.take()
            result = self.any_of()
            if self.take() != ("op", ")"):
                raise MarkerError(f"marker not understood: {self.marker}")
            return result
        left_name, left = self.value()
        kind, operator = self.take()
        if (kind, operator) == ("word", "not"):
            if self.take() != ("word", "in"):
                raise MarkerError(f"marker not understood: {self.marker}")
            operator = "not in"
        right_name, right = self.value()
        if left_name:
            return self.compare(left_name, left, operator, right)
        if operator in ("in", "not in"):
            return (left in right) == (operator == "in")
        return self.compare(right_name, right, _SWAPPED.get(operator, operator), left)

    def value(self) -> Tuple[str, str]:
        kind, text = self.take()
        if kind == "text":
            return "", text[1:-1]
        if kind == "word" and text in self.environment:
            return text, self.environment[text]
        if kind == "word" and text == "extra":
            return text, ""
        raise MarkerError(f"marker not understood: {self.marker}")

    def compare(self, name: str, left: str, operator: str, right: str) -> bool:
        if operator in ("in", "not in"):
            return (left in right) == (operator == "in")
        if name in _VERSIONS:
            return _compare_versions(left, operator, right, self.marker)
        if operator in ("==", "==="):
            return left == right
        if operator == "!=":
            return left != right
        raise MarkerError(f"marker not understood: {self.marker}")


def _compare_versions(left: str, operator: str, right: str, marker: str) -> bool:
    answer = satisfies(left, operator, right)
    if answer is None:
        raise MarkerError(f"marker not understood: {marker}")
    return answer
