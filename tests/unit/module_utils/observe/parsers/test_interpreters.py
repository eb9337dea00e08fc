"""Which Pythons are there: lines that are not `PATH VERSION` are left out."""

from ansible_collections.trainrig.gpu.plugins.module_utils.observe.parsers.interpreters import interpreters
from ansible_collections.trainrig.gpu.plugins.module_utils.observe.reading import Reading


def test_each_line_is_a_python_in_the_order_of_preference():
    text = "/opt/py/bin/python3.13 3.13.2\n/usr/bin/python3.9 3.9.18\n"
    assert interpreters(Reading("interpreters", text)) == {
        "interpreters": [
            {"path": "/opt/py/bin/python3.13", "version": "3.13.2"},
            {"path": "/usr/bin/python3.9", "version": "3.9.18"},
        ]
    }


def test_what_is_no_python_is_left_out():
    text = "pyenv: python3: command not found\n/usr/bin/python3 3.12\n\n"
    assert interpreters(Reading("interpreters", text)) == {"interpreters": []}
