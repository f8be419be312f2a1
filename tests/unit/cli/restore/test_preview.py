"""The text of `restore create --dry-run`."""

import pytest

from pinnace.api.restore_outcomes import Outcome
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.cli.output.layout import Sheet
from pinnace.cli.restore.compared_files import ClaimFiles
from pinnace.cli.restore.preview import preview_text
from pinnace.kube.errors import Forbidden
from pinnace.operations.file_comparison import ComparedClaim
from pinnace.operations.preview import Preview
from pinnace.restore.outcomes import ItemOutcomes
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemKey
from pinnace.volumes.uploader.comparing import FileComparison, FileFate
from tests.support.cluster.scripted_cluster import ScriptedCluster

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


def claim_files(*claims: ComparedClaim) -> ClaimFiles:
    spec = RestoreSpec(backup_name="b1", existing_volume_data_policy="incremental")
    files = ClaimFiles(ScriptedCluster().client, "velero", Restore(spec=spec), "default")
    files.claims = claims
    return files


def test_the_files_of_claims_are_shown_by_what_becomes_of_them_and_the_first_are_named() -> None:
    created = [f"file{number:02}" for number in range(12)]
    compared = FileComparison(
        counts={FileFate.CREATED: 12, FileFate.REMOVED: 1, FileFate.SAME: 3456, FileFate.EXTRA: 0},
        names={FileFate.CREATED: created, FileFate.REMOVED: ["two\nlines\x1b[2J"]},
        rewrites_same=False,
    )
    files = claim_files(
        ComparedClaim(namespace="shop", claim="data", files=compared),
        ComparedClaim(namespace="shop", claim="lost", error="the claim is Lost"),
        ComparedClaim(namespace="shop", claim="raw", is_device=True),
    )
    sheet = Sheet()

    sheet.outline(files.lines())

    assert sheet.render().splitlines() == [
        "  shop/data",
        "    12 created",
        *(f"      {name}" for name in created[:10]),
        "      ... and 2 more; -o json has their names",
        "    1 removed, as the backup does not have them",
        "      two\\nlines\\x1b[2J",
        "    3,456 the same, and kept",
        "  shop/lost: its files were not compared: the claim is Lost",
        "  shop/raw: a device, which is written as a whole",
    ]
    assert files.failed


def test_the_files_of_claims_are_data_with_all_names() -> None:
    compared = FileComparison(
        counts={FileFate.EXTRA: 2, FileFate.SAME: 1}, names={FileFate.EXTRA: ["a"]}, unlisted=1
    )
    files = claim_files(
        ComparedClaim(namespace="shop", claim="data", files=compared),
        ComparedClaim(namespace="shop", claim="raw", is_device=True),
    )

    assert list(files.data()) == [
        {
            "claim": "shop/data",
            "counts": {"extra": 2, "same": 1},
            "files": {"created": [], "overwritten": [], "removed": [], "extra": ["a"], "notCompared": []},
            "unlisted": 1,
            "rewritesSame": True,
        },
        {"claim": "shop/raw", "wholeDevice": True},
    ]
    assert not files.failed


async def test_whoever_may_not_list_all_pods_can_compare_files_too() -> None:
    cluster = ScriptedCluster()
    cluster.refuse("list", "pods", Forbidden(403, reason="Forbidden", message="no"))
    spec = RestoreSpec(backup_name="b1", existing_volume_data_policy="full")
    files = ClaimFiles(cluster.client, "velero", Restore(spec=spec), "default")

    await files.begin()

    assert not files.failed
