"""Which snapshots are removed after a backup with restic that failed."""

from pathlib import Path

import pytest

from pinnace.volumes.restic.client import Restic
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import CommandFailed, UnexpectedOutput, UploaderError
from tests.unit.volumes.programs import TAGS, ScriptedProgram

REPOSITORY = Repository(identifier="/repository", location="default")
MADE, OTHER = "a" * 64, "b" * 8
SUMMARY = f"""echo '{{"message_type":"summary","snapshot_id":"{OTHER}","total_bytes_processed":1}}'"""


@pytest.fixture
def program(tmp_path: Path) -> ScriptedProgram:
    return ScriptedProgram(tmp_path)


async def back_up(program: ScriptedProgram, backup: str, tags: dict[str, str] = TAGS) -> str:
    """Save the volume with a restic that runs this on `backup`, and lists the snapshot MADE."""
    program.answer(backup_=backup, snapshots=f"""echo '[{{"id":"{MADE}","short_id":"{MADE[:8]}"}}]'""")
    restic = Restic(program.accesses, program=str(program.path))
    return await restic.back_up(REPOSITORY, program.volume, tags)


def removed(program: ScriptedProgram) -> list[str]:
    """The ids of the snapshots that were removed."""
    return [line.split()[-1] for line in program.calls("forget ")]


@pytest.mark.parametrize(
    ("backup", "expected"),
    [(f"{SUMMARY}; exit 3", OTHER), ("exit 3", MADE)],
    ids=["id printed", "id not printed"],
)
async def test_a_snapshot_that_lacks_files_is_refused_and_removed(
    program: ScriptedProgram, backup: str, expected: str
) -> None:
    with pytest.raises(CommandFailed):
        await back_up(program, backup)
    assert removed(program) == [expected]


@pytest.mark.parametrize(
    ("backup", "kind"),
    [("kill -9 $$", CommandFailed), ("true", UnexpectedOutput)],
    ids=["killed", "no summary"],
)
async def test_a_snapshot_whose_id_is_not_known_is_removed_by_its_tags(
    program: ScriptedProgram, backup: str, kind: type[UploaderError]
) -> None:
    with pytest.raises(kind):
        await back_up(program, backup)

    assert removed(program) == [MADE]
    (listing,) = program.calls("snapshots ")
    assert f"--tag={','.join(f'{name}={value}' for name, value in sorted(TAGS.items()))}" in listing


@pytest.mark.parametrize("missing", ["backup-uid", "ns", "volume", "pod-uid"])
@pytest.mark.parametrize("backup", ["exit 3", "true"], ids=["incomplete", "no summary"])
async def test_nothing_is_removed_by_tags_that_other_volumes_may_have(
    program: ScriptedProgram, backup: str, missing: str
) -> None:
    with pytest.raises(UploaderError):
        await back_up(program, backup, {name: value for name, value in TAGS.items() if name != missing})
    assert removed(program) == []


async def test_nothing_is_removed_after_an_error_without_a_snapshot(program: ScriptedProgram) -> None:
    with pytest.raises(CommandFailed):
        await back_up(program, "exit 1")
    assert removed(program) == []


async def test_a_snapshot_whose_id_is_printed_is_kept(program: ScriptedProgram) -> None:
    assert await back_up(program, SUMMARY) == OTHER
    assert removed(program) == []
