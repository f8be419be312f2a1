"""Reads the namespaces of a backup before it lists anything. (docs/spec: BKP 4.3, 5.4; ADR 023)

Included names that do not exist are errors: a misspelt name would otherwise make a small backup that looks
like a success. Namespaces with the label `velero.io/exclude-from-backup=true` are left out with all they
contain, and so are those that are being deleted: their content is incomplete. A user who may not read
namespaces can still back up those that they name.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing
from typing import Final

import msgspec
from msgspec.structs import replace

from pinnace.api.labels import EXCLUDE_FROM_BACKUP, EXCLUDE_FROM_BACKUP_VALUE
from pinnace.api.selection.names import EVERYTHING, IncludesExcludes, KnownNames, is_glob
from pinnace.api.values.near import Advice, did_you_mean
from pinnace.api.velero.backup import BackupSpec
from pinnace.archive.runlog import RunLog
from pinnace.backup.cluster import ClusterReader
from pinnace.backup.errors import FatalBackupError, list_failure
from pinnace.backup.listing import CompleteLists
from pinnace.kube.errors import Forbidden, KubeError, NotFound
from pinnace.kube.lists.pages import Item
from pinnace.kube.resources import NAMESPACES
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice, notice_of

_GETS_AT_ONCE: Final = 16
_SELECTOR: Final = f"{EXCLUDE_FROM_BACKUP}={EXCLUDE_FROM_BACKUP_VALUE}"


class NamespaceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The namespaces that a backup's filters refer to.

    Attributes:
        existing: all namespaces, if the backup includes patterns; else empty.
        missing: the included names that do not exist.
        labelled: the namespaces whose label leaves them out.
        terminating: the namespaces that are being deleted.
    """

    existing: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    labelled: frozenset[str] = frozenset()
    terminating: frozenset[str] = frozenset()

    @property
    def left_out(self) -> frozenset[str]:
        """The namespaces that are left out with all they contain."""
        return self.labelled | self.terminating


async def look_up_namespaces(client: ClusterReader, spec: BackupSpec, log: RunLog) -> NamespaceFacts:
    """Look up the namespaces of a backup; what cannot be read or does not exist is logged."""
    return await _LookUp(client, spec, log).facts()


class _LookUp:
    def __init__(self, client: ClusterReader, spec: BackupSpec, log: RunLog) -> None:
        self._client = client
        self._log = log
        self._filter = IncludesExcludes(spec.included_namespaces, spec.excluded_namespaces)
        self._patterns = [name for name in self._filter.includes if name != EVERYTHING and is_glob(name)]
        self._names = frozenset(
            name
            for name in self._filter.includes
            if name != EVERYTHING and not is_glob(name) and self._filter.matches(name)
        )

    async def facts(self) -> NamespaceFacts:
        if not self._filter.includes or EVERYTHING in self._filter.includes:
            facts = await self._of_all()
        elif self._patterns:
            facts = await self._of_patterns()
        else:
            facts = await self._of_names()
        self._log_findings(facts, facts.existing or (await self._all_names() if facts.missing else ()))
        return facts

    async def _all_names(self) -> Collection[str]:
        """The namespaces that a misspelt name may stand for; none if they may not be listed."""
        try:
            return [item.name async for item in self._list()]
        except KubeError:
            return ()

    async def _of_all(self) -> NamespaceFacts:
        try:
            facts = await self._of_listed()
        except KubeError as error:
            self._log.error(
                list_failure(
                    error,
                    Code.NAMESPACES_FORBIDDEN,
                    "Error listing the namespaces: the backup may also hold namespaces with the label"
                    f" {_SELECTOR}, and those that are being deleted",
                ),
                error=error,
            )
            return NamespaceFacts()
        return replace(facts, existing=frozenset())

    async def _of_listed(self) -> NamespaceFacts:
        """The facts of all namespaces, from one list. Raises KubeError."""
        existing, labelled, terminating = set(), set(), set()
        async for item in self._list():
            existing.add(item.name)
            if item.label(EXCLUDE_FROM_BACKUP) == EXCLUDE_FROM_BACKUP_VALUE:
                labelled.add(item.name)
            if item.deleting:
                terminating.add(item.name)
        return NamespaceFacts(
            existing=frozenset(existing), labelled=frozenset(labelled), terminating=frozenset(terminating)
        )

    async def _of_patterns(self) -> NamespaceFacts:
        try:
            facts = await self._of_listed()
        except KubeError as error:
            notice = list_failure(
                error,
                Code.NAMESPACES_FORBIDDEN,
                "Error listing namespaces for the patterns among the included ones",
            )
            self._log.error(notice, error=error)
            if not self._names:
                text = f"the patterns choose no namespace, as none can be listed: {error}"
                raise FatalBackupError(notice.saying(text)) from error
            return await self._of_names()
        known = KnownNames(facts.existing)
        for pattern in self._patterns:
            if not known.has(pattern):
                self._log.warning(
                    Notice(
                        Code.FILTER_MATCHES_NOTHING, f"The namespace pattern {pattern} matches no namespace"
                    )
                )
        return replace(facts, missing=self._names - facts.existing)

    async def _of_names(self) -> NamespaceFacts:
        missing, labelled, terminating = set(), set(), set()
        limit = asyncio.Semaphore(_GETS_AT_ONCE)

        async def look_up(name: str) -> None:
            async with limit:
                try:
                    found = await self._client.get(NAMESPACES, name)
                except NotFound:
                    missing.add(name)
                except Forbidden as error:
                    # Its contents may be readable all the same, which the lists of the backup will show.
                    self._log.info("The namespace may not be read", error=str(error), namespace=name)
                except KubeError as error:
                    self._log.error(
                        notice_of(error, Code.LIST_FAILED, "Error getting namespace"),
                        error=error,
                        namespace=name,
                    )
                else:
                    metadata = found.get("metadata") or {}
                    if (metadata.get("labels") or {}).get(EXCLUDE_FROM_BACKUP) == EXCLUDE_FROM_BACKUP_VALUE:
                        labelled.add(name)
                    if metadata.get("deletionTimestamp"):
                        terminating.add(name)

        async with asyncio.TaskGroup() as group:
            for name in sorted(self._names):
                group.create_task(look_up(name))
        return NamespaceFacts(
            missing=frozenset(missing), labelled=frozenset(labelled), terminating=frozenset(terminating)
        )

    async def _list(self) -> AsyncIterator[Item]:
        lists = CompleteLists(self._client, self._log)
        async with aclosing(lists.pages(NAMESPACES)) as pages:
            async for page in pages:
                for item in page.items:
                    yield item

    def _log_findings(self, facts: NamespaceFacts, existing: Collection[str]) -> None:
        advice = Advice(existing)
        for name in sorted(facts.missing):
            more = did_you_mean(advice.near(name))
            error = f'namespaces "{name}" not found{more}'
            self._log.error(
                Notice(Code.NAMESPACE_NOT_FOUND, "Error getting namespace"), error=error, namespace=name
            )
        for name in sorted(filter(self._filter.matches, facts.terminating)):
            self._log.warning(
                Notice(
                    Code.NAMESPACE_TERMINATING,
                    f"Leaving out namespace {name} with all that is still in it: it is being deleted",
                ),
                namespace=name,
            )
        for name in sorted(facts.labelled - facts.terminating):
            if not self._filter.matches(name):
                continue
            text = f"Leaving out namespace {name} with all it contains: it has the label {_SELECTOR}"
            if name in self._names:
                self._log.warning(
                    Notice(Code.NAMESPACE_LEFT_OUT, f"{text}, though the backup includes it by name"),
                    namespace=name,
                )
            else:
                self._log.info(text, namespace=name)
