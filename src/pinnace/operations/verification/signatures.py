"""Whether a backup is what a trusted key has signed, and whether signed backups have vanished. (ADR 125)"""

from collections.abc import Sequence

from pinnace.api.values.counts import counted
from pinnace.browse.checks import Check, CheckResult
from pinnace.browse.problems import Problems
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.chain import LinkFinding, LinkState
from pinnace.storage.checked_files import SignatureRefused
from pinnace.storage.errors import ObjectNotFound
from pinnace.storage.manifest import Manifest
from pinnace.storage.newest import Link, unique_links

_READ_LATER = (".tar.gz", "-pinnace-index.json.gz", "-logs.gz")
"""The large files: the checks of the content read them, and compare them with the manifest as they do."""


async def signature_checks(store: BackupStore, name: str, *, large_files: bool = False) -> list[Check]:
    """The findings about the signature of a backup; none where nothing is signed and no key is trusted.

    Args:
        large_files: read the large files too, as nobody reads their content afterwards.

    Raises:
        StorageError: the location cannot be read now.
    """
    if not store.trusts_keys:
        if not await store.has_manifest(name):
            return []
        detail = "it is signed, but no key is trusted here: write the public key into signing.trustedKeys"
        return [Check(name="signature", result=CheckResult.NOT_CHECKED, details=detail)]
    try:
        manifest = await store.manifest(name)
    except SignatureRefused as error:
        return [Check(name="signature", result=CheckResult.BAD, details=error.reason)]
    except ObjectNotFound:
        return []
    if manifest is None:
        newest = await _links(store, await store.noted_newest())
        return [Check(name="signature", result=CheckResult.MISSING, details="unsigned"), *newest]
    return [
        await _files(store, name, manifest, large_files=large_files),
        *await _chain(store, name, manifest),
    ]


async def _files(store: BackupStore, name: str, manifest: Manifest, *, large_files: bool) -> Check:
    problems = Problems()
    present = set(await store.names_in(name))
    for file in sorted(present - manifest.files.keys()):
        if not store.is_beside(name, file):
            problems.add(
                f"{file} was added after the backup was signed: find out who has written it, and delete it"
            )
        elif problem := await store.beside_problem(name, file):
            problems.add(f"{file}: {problem}")
    for file in sorted(manifest.files):
        if file not in present:
            problems.add(f"{file} was removed: get it back from a copy or an older version of the bucket")
        elif large_files or not file.endswith(_READ_LATER):
            try:
                await store.check_file(name, file)
            except SignatureRefused as error:
                problems.add(f"{file}: {error.reason}")
    if problems.count:
        return Check(name="signature", result=CheckResult.BAD, details=str(problems))
    detail = f"{counted(len(manifest.files), 'file')} signed by {manifest.key.id[:16]}"
    return Check(name="signature", result=CheckResult.OK, details=detail)


async def _chain(store: BackupStore, name: str, manifest: Manifest) -> list[Check]:
    own = Link(name, manifest.digest)
    return await _links(store, unique_links([own, *manifest.predecessors, *await store.noted_newest()]), own)


async def _links(store: BackupStore, links: Sequence[Link], own: Link | None = None) -> list[Check]:
    if not links:
        return []
    problems = Problems()
    removed = []
    for link in links:
        found = await store.look_for(link)
        if problem := _problem(found, own):
            problems.add(problem)
        elif found.state == LinkState.REMOVED:
            removed.append(f"{link.backup} was removed at {found.removal}")
    result = CheckResult.BAD if problems.count else CheckResult.OK
    said = "; ".join([f"{counted(len(links), 'link')} of the chain", *removed])
    detail = str(problems) if problems.count else said
    return [Check(name="signed backups", result=result, details=detail)]


def _problem(found: LinkFinding, own: Link | None) -> str:
    """What is wrong with a link of the chain; empty if nothing is."""
    name, state = found.link.backup, found.state
    if state == LinkState.RETURNED and found.link == own:
        return (
            f"{name} was removed at {found.removal}, and is there: delete it again if its deletion was cut"
            " off; else somebody has put an old copy back"
        )
    if state == LinkState.REPLACED:
        return (
            f"another backup stands in the place of signed backup {name}, and nobody with the signing key has"
            " removed that one: do not restore it before you know who has written it"
        )
    if state == LinkState.VANISHED:
        return (
            f"signed backup {name} has vanished, and nobody with the signing key has removed it: get it back"
            " from a copy or an older version of the bucket"
        )
    return ""
