"""A misspelt group or setting is told; a group or variable of the user's own is not."""

from ansible_collections.trainrig.gpu.plugins.module_utils.resolve.inventory_names import (
    VARIABLES,
    misspelt_groups,
    misspelt_variables,
    misspelt_words,
)


def test_a_setting_that_is_none_of_ours_is_told_with_the_one_that_was_meant():
    (problem,) = misspelt_variables(["trainrig_prefx", "ansible_host", "pytorch_keep"])
    assert problem["key"] == "trainrig_prefx"
    assert problem["fix"] == "did you mean trainrig_prefix"


def test_our_own_settings_are_silent():
    assert misspelt_variables(VARIABLES) == []


def test_a_group_that_looks_like_a_layer_is_told_and_others_are_the_users_own():
    (problem,) = misspelt_groups(["pytorh", "pytorch", "rack_7", "all", "ungrouped"], ["pytorch", "verify"])
    assert (problem["key"], problem["fix"]) == ("pytorh", "did you mean pytorch")


def test_a_word_given_for_one_question_is_told_where_it_looks_like_one_of_ours():
    known = ["pytorch", "driver", "kernel", "kernel_module", "gpus"]
    names = ["pytroch", "gpu", "kernel_modul", "driver", "my_driver", "driver_branch", "site", "trainrig_stack"]
    problems = misspelt_words(names, known, "-e")
    assert [(problem["key"], problem["fix"]) for problem in problems] == [
        ("gpu", "did you mean gpus"),
        ("kernel_modul", "did you mean kernel_module"),
        ("pytroch", "did you mean pytorch"),
    ]
