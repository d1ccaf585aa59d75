"""Committed mutants of heads on embeddings: what a setting that diverges costs."""

MUTANTS = (
    (
        "apply/adapt/heads.py",
        "        except Diverged:\n            continue\n",
        "        except SettingError:\n            continue\n",
        "tests/apply/test_adapt.py::test_a_setting_that_diverges_costs_itself_alone",
    ),
    (
        "learn/adaptation.py",
        "        except NotFiniteInput as why:",
        "        except KeyError as why:",
        "tests/apply/test_adapt.py::test_a_setting_that_diverges_costs_itself_alone",
    ),
    (
        "cli/adapt/fit.py",
        "for method in result.diverged:",
        "for method in ():",
        "tests/apply/test_adapt.py::test_the_command_names_a_head_that_diverged",
    ),
)
