"""The text of `restore create --dry-run`."""

import pytest

from pinnace.api.restore_outcomes import Outcome
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.cli.restore.preview import preview_text
from pinnace.operations.preview import Preview
from pinnace.restore.outcomes import ItemOutcomes
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemKey

NOTHING = "The API server was asked about nothing: the restore would write nothing."


@pytest.mark.parametrize(("asks", "asked", "told"), [(True, 0, True), (True, 1, False), (False, 0, False)])
def test_a_dry_run_says_that_the_api_server_was_asked_about_nothing(
    asks: bool, asked: int, told: bool
) -> None:
    outcomes = ItemOutcomes()
    outcomes.record("v1/ConfigMap", ItemKey("configmaps", "shop", "prices"), Outcome.UNCHANGED)
    found = Preview(outcomes=outcomes, results=Results(), asked=asked, accepted=asked)

    text = preview_text(Restore(spec=RestoreSpec(backup_name="b1")), found, asks=asks)

    assert (NOTHING in text) == told
    assert ("asked about 1 write and accepted all" in text) == bool(asked)
