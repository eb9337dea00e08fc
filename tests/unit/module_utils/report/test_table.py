"""What a terminal shows: the launch lines where hosts are ready, nothing where they are not."""

from ansible_collections.trainrig.gpu.plugins.module_utils.report.table import closing, to_type


def test_the_lines_to_type_stand_below_each_other():
    following = {"environment": "source /p/env/bin/activate", "torchrun": "torchrun --standalone train.py"}
    assert to_type(following) == [
        "to train now: source /p/env/bin/activate",
        "              torchrun --standalone train.py",
    ]
    assert to_type({"environment": None, "torchrun": None}) == []


def test_the_verdict_and_the_path_are_the_last_two_lines():
    assert closing("warn", ["1 finding"], "r/report.html") == ["verdict: warn (1 finding)", "report: r/report.html"]
