"""The one line that is read out of tyro's error box, in both ways tyro draws it."""

import pytest

from featlearn.cli._parse import _plain_error

DRAWN = """\
╭─ Value error ────────────────────────────────────────╮
│ Error parsing --d: invalid literal for int(): 'abc'  │
│ ──────────────────────────────────────────────────── │
│ Argument helptext:                                   │
│     --d INT                                          │
╰──────────────────────────────────────────────────────╯
"""
RULED = """
 Value error
 ------------------------------------------------------
  Error parsing --d: invalid literal for int(): 'abc'
  -----------------------------------------------------
  Argument helptext:
      --d INT
"""


@pytest.mark.parametrize("box", [DRAWN, RULED])
def test_the_message_alone(box):
    assert _plain_error(box, "featlearn run x") == "--d: invalid literal for int(): 'abc' (featlearn run x --help)"
