"""Random lives of requests: whatever users, administrators and the server do, in whatever order, with crashes
anywhere, a request ends in an allowed phase with consistent conditions, and nothing is left behind.
"""

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pinnace.api.objects import JSONObject
from pinnace.nonadmin.collector import KEY, OrphanSweeper
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES
from pinnace.nonadmin.queue_position import is_served
from pinnace.nonadmin.settings.admin import AdminSettings
from tests.support.cluster.scripted_requests import ignore
from tests.unit.nonadmin.memory import (
    BACKUPS,
    DELETE_REQUESTS,
    RESTORES,
    SERVER,
    Crash,
    Service,
    conditions,
    finished,
    on_writes,
)

TENANTS = ("shop", "bank")
NAMES = ("one", "two")
VALID: tuple[JSONObject, ...] = ({}, {"ttl": "1h"}, {"includedNamespaces": []})
INVALID: tuple[JSONObject, ...] = (
    {"includedNamespaces": ["kube-system"]},
    {"excludedNamespaces": []},
    {"ttl": "never"},
)
PHASES = ("", "New", "BackingOff", "Created", "Deleting")
MAY_FOLLOW = {
    "": {"", "New", "BackingOff", "Created", "Deleting"},
    "New": {"New", "BackingOff", "Created", "Deleting"},
    "BackingOff": {"BackingOff", "Created", "Deleting"},
    "Created": {"BackingOff", "Created", "Deleting"},
    "Deleting": {"Deleting"},
}
SYNCED = "openshift.io/oadp-nab-synced-from-nacuuid"

tenants = st.sampled_from(TENANTS)
names = st.sampled_from(NAMES)
specs = st.sampled_from((*VALID, *INVALID))
ends = st.sampled_from(("Completed", "PartiallyFailed", "Failed", "FailedValidation"))


class Lives(RuleBasedStateMachine):
    """Users, administrators, the server and the controllers take turns."""

    @initialize()
    def begin(self) -> None:
        self.service = Service()
        self.cluster = self.service.cluster
        self.seen: dict[str, str] = {}
        self.queued: set[str] = set()
        self.checked = 0
        self.unfinished: dict[tuple[str, str], int] = {}
        self.create("shop", "one", {})
        self.look("shop", "one", NON_ADMIN_BACKUPS)

    # --- Users ------------------------------------------------------------------------------------------

    @rule(tenant=tenants, name=names, spec=specs)
    def create(self, tenant: str, name: str, spec: JSONObject) -> None:
        if self.cluster.peek(NON_ADMIN_BACKUPS, name, tenant) is None:
            self.cluster.add(NON_ADMIN_BACKUPS, name, tenant, spec={"backupSpec": spec})

    @rule(name=names, victim=names, deletes=st.booleans())
    def steal(self, name: str, victim: str, deletes: bool) -> None:
        """The bank claims a backup of the shop as its own, found in storage."""
        non_admin_backup = self.cluster.peek(NON_ADMIN_BACKUPS, victim, "shop") or {}
        stolen = non_admin_backup.get("status", {}).get("veleroBackup", {}).get("nacuuid")
        if stolen and self.cluster.peek(NON_ADMIN_BACKUPS, name, "bank") is None:
            spec = {"backupSpec": {}, "deleteBackup": deletes}
            self.cluster.add(
                NON_ADMIN_BACKUPS, name, "bank", metadata={"labels": {SYNCED: stolen}}, spec=spec
            )
            self.look("bank", name, NON_ADMIN_BACKUPS)

    @rule(tenant=tenants, name=names, spec=specs)
    def edit(self, tenant: str, name: str, spec: JSONObject) -> None:
        non_admin_backup = self.cluster.peek(NON_ADMIN_BACKUPS, name, tenant)
        if non_admin_backup is not None:
            self.cluster.change(
                NON_ADMIN_BACKUPS, name, tenant, spec={**non_admin_backup["spec"], "backupSpec": spec}
            )

    @rule(tenant=tenants, name=names)
    def delete(self, tenant: str, name: str) -> None:
        self.cluster.remove(NON_ADMIN_BACKUPS, name, tenant)

    @rule(tenant=tenants, name=names)
    def delete_for_good(self, tenant: str, name: str) -> None:
        non_admin_backup = self.cluster.peek(NON_ADMIN_BACKUPS, name, tenant)
        if non_admin_backup is not None:
            self.cluster.change(
                NON_ADMIN_BACKUPS, name, tenant, spec={**non_admin_backup["spec"], "deleteBackup": True}
            )

    @rule(tenant=tenants, name=names)
    def restore(self, tenant: str, name: str) -> None:
        if self.cluster.peek(NON_ADMIN_RESTORES, name, tenant) is None:
            self.cluster.add(NON_ADMIN_RESTORES, name, tenant, spec={"restoreSpec": {"backupName": name}})

    @rule(tenant=tenants, name=names)
    def delete_restore(self, tenant: str, name: str) -> None:
        self.cluster.remove(NON_ADMIN_RESTORES, name, tenant)

    @rule(tenant=tenants, name=names, resource=st.sampled_from((NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES)))
    def strip(self, tenant: str, name: str, resource: Any) -> None:
        """Remove our finalizer, and then the request."""
        obj = self.cluster.peek(resource, name, tenant)
        if obj is not None:
            metadata = {**obj["metadata"], "finalizers": []}
            self.cluster.change(resource, name, tenant, metadata=metadata)
            if metadata.get("deletionTimestamp"):
                self.cluster.vanish(resource, name, tenant)
            else:
                self.cluster.remove(resource, name, tenant)
            self.look(tenant, name, resource)

    # --- The server and its administrator ---------------------------------------------------------------

    @rule(backups=st.integers(0, 2), restores=st.integers(0, 2))
    def limit(self, backups: int, restores: int) -> None:
        self.service.settings = AdminSettings(
            max_unfinished_backups=backups, max_unfinished_restores=restores
        )

    @rule(data=st.data(), phase=ends, resource=st.sampled_from((BACKUPS, RESTORES)))
    def end(self, data: st.DataObject, phase: str, resource: Any) -> None:
        waiting = self.cluster.of(resource)
        if waiting:
            obj = data.draw(st.sampled_from(waiting))
            status: JSONObject = {"phase": phase}
            if phase != "FailedValidation":
                status = finished(phase, self.cluster.clock.now())
            self.cluster.change(resource, obj["metadata"]["name"], SERVER, status=status)

    @rule(data=st.data(), resource=st.sampled_from((BACKUPS, RESTORES)))
    def vanish(self, data: st.DataObject, resource: Any) -> None:
        there = self.cluster.of(resource)
        if there:
            self.cluster.remove(resource, data.draw(st.sampled_from(there))["metadata"]["name"], SERVER)

    @rule(works=st.booleans())
    def serve_deletions(self, works: bool) -> None:
        for request in list(self.cluster.of(DELETE_REQUESTS)):
            name = request["metadata"]["name"]
            if works:
                self.cluster.remove(BACKUPS, request["spec"]["backupName"], SERVER)
                self.cluster.remove(DELETE_REQUESTS, name, SERVER)
            else:
                failed = {"phase": "Processed", "errors": ["backup is still in progress"]}
                self.cluster.change(DELETE_REQUESTS, name, SERVER, status=failed)

    # --- Controllers ------------------------------------------------------------------------------------

    @rule(tenant=tenants, name=names, resource=st.sampled_from((NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES)))
    def look(self, tenant: str, name: str, resource: Any) -> None:
        asyncio.run(self.service.look(resource, tenant, name))

    @rule(tenant=tenants, name=names, writes=st.integers(0, 5), lags=st.booleans())
    def crash(self, tenant: str, name: str, writes: int, lags: bool) -> None:
        """A process that sees an old state dies in the middle; the next one begins with fresh caches."""
        left = [None] * writes

        def die(*_: str) -> None:
            if not left:
                raise Crash
            left.pop()

        if lags:
            self.service.views[BACKUPS].freeze()
            self.service.views[DELETE_REQUESTS].freeze()
        self.cluster.before = on_writes(die)
        with contextlib.suppress(Crash):
            asyncio.run(self.service.look(NON_ADMIN_BACKUPS, tenant, name))
        self.cluster.before = ignore
        self.service = Service(self.cluster, self.service.settings)

    @rule(minutes=st.integers(1, 90))
    def wait(self, minutes: int) -> None:
        self.cluster.clock.turn(timedelta(minutes=minutes))

    # --- What always holds ------------------------------------------------------------------------------

    @invariant()
    def phases_move_forward(self) -> None:
        for resource in (NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES):
            for obj in self.cluster.of(resource):
                uid, phase = obj["metadata"]["uid"], obj.get("status", {}).get("phase", "")
                assert phase in MAY_FOLLOW[self.seen.get(uid, "")]
                self.seen[uid] = phase

    @invariant()
    def conditions_are_consistent(self) -> None:
        for obj in self.cluster.of(NON_ADMIN_BACKUPS):
            found = {kind: (status, reason) for kind, status, reason in conditions(obj)}
            assert len(found) == len(conditions(obj))
            phase = obj.get("status", {}).get("phase", "")
            if phase == "Created":
                assert found["Queued"] == ("True", "BackupScheduled")
                assert found.get("Accepted", ("True", ""))[0] == "True"
            if phase == "Deleting":
                assert found["Deleting"] == ("True", "DeletionPending")

    @invariant()
    def each_backup_is_of_its_own_request(self) -> None:
        for backup in self.cluster.of(BACKUPS):
            namespace = backup["metadata"]["annotations"]["openshift.io/oadp-nab-origin-namespace"]
            assert backup["spec"]["includedNamespaces"] == [namespace]
        for non_admin_backup in self.cluster.of(NON_ADMIN_BACKUPS):
            name = non_admin_backup.get("status", {}).get("veleroBackup", {}).get("name")
            shown = self.cluster.peek(BACKUPS, name or "", SERVER)
            if shown is not None:
                assert shown["metadata"]["annotations"] == {
                    "openshift.io/oadp-nab-origin-name": non_admin_backup["metadata"]["name"],
                    "openshift.io/oadp-nab-origin-namespace": non_admin_backup["metadata"]["namespace"],
                    "pinnace.io/max-hook-time": "30m0s",
                }

    @invariant()
    def nobody_takes_more_places_than_there_are(self) -> None:
        settings = self.service.settings
        limits = ((BACKUPS, settings.max_unfinished_backups), (RESTORES, settings.max_unfinished_restores))
        for resource, limit in limits:
            for tenant in TENANTS:
                unserved = [obj for obj in self.cluster.of(resource) if not is_served(obj)]
                count = sum(obj["spec"]["includedNamespaces"] == [tenant] for obj in unserved)
                before = self.unfinished.get((resource.name, tenant), 0)
                assert not limit or count <= max(limit, before)
                self.unfinished[resource.name, tenant] = count

    @invariant()
    def one_request_leads_to_one_backup(self) -> None:
        """A Backup whose request was shown as queued is never made again, even if it is gone."""
        ids = [
            non_admin_backup["status"]["veleroBackup"]["nacuuid"]
            for non_admin_backup in self.cluster.of(NON_ADMIN_BACKUPS)
            if non_admin_backup.get("status", {}).get("veleroBackup", {}).get("nacuuid")
        ]
        assert len(ids) == len(set(ids))
        calls = self.cluster.calls[self.checked :]
        created = [name for verb, plural, name in calls if (verb, plural) == ("create", "backups")]
        assert not self.queued.intersection(created)
        assert len(created) == len(set(created))
        self.checked = len(self.cluster.calls)
        for non_admin_backup in self.cluster.of(NON_ADMIN_BACKUPS):
            if ("Queued", "True", "BackupScheduled") in conditions(non_admin_backup):
                self.queued.add(non_admin_backup["status"]["veleroBackup"]["nacuuid"])

    def teardown(self) -> None:
        """Settle, delete everything, and check that nothing is left."""
        asyncio.run(self.service.settle())
        for non_admin_backup in self.cluster.of(NON_ADMIN_BACKUPS):
            if not non_admin_backup["metadata"].get("deletionTimestamp"):
                refused = ("Accepted", "False") in [each[:2] for each in conditions(non_admin_backup)]
                assert non_admin_backup["status"]["phase"] == ("BackingOff" if refused else "Created")
        for resource in (NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES):
            for obj in self.cluster.of(resource):
                self.cluster.remove(resource, obj["metadata"]["name"], obj["metadata"]["namespace"])
        for _ in range(3):
            asyncio.run(self.service.settle())
            self.serve_deletions_now()
        asyncio.run(self.service.settle())
        # An object that was served when its request lost its finalizer waits for the sweep.
        sweep = OrphanSweeper(self.cluster.client, SERVER, self.service.views, lambda: self.service.settings)
        asyncio.run(sweep.reconcile(KEY))
        assert self.cluster.of(NON_ADMIN_BACKUPS) == []
        assert self.cluster.of(NON_ADMIN_RESTORES) == []
        assert self.cluster.of(RESTORES) == []
        assert self.cluster.of(BACKUPS) == []

    def serve_deletions_now(self) -> None:
        for request in list(self.cluster.of(DELETE_REQUESTS)):
            self.cluster.remove(BACKUPS, request["spec"]["backupName"], SERVER)
            self.cluster.remove(DELETE_REQUESTS, request["metadata"]["name"], SERVER)


TestLives = Lives.TestCase

_keys = st.sampled_from(
    (
        "backupSpec",
        "restoreSpec",
        "backupStorageLocationSpec",
        "target",
        "kind",
        "name",
        "deleteBackup",
        "ttl",
        "includedNamespaces",
        "excludedNamespaces",
        "labelSelector",
        "hooks",
        "storageLocation",
        "backupName",
        "objectStorage",
        "credential",
        "config",
        "provider",
        "prefix",
        "bucket",
        "key",
        "backupSyncPeriod",
        "includeClusterResources",
        "excludedResources",
        "resources",
        "default",
        "namespaceMapping",
    )
)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)  # an API server answers larger ones as floats
    | st.text(max_size=8)
    | st.sampled_from(("shop", "1h", "*", "..")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)


@given(
    spec=st.dictionaries(_keys, _json, max_size=5),
    inner=st.dictionaries(_keys, _json, max_size=6),
    labels=st.dictionaries(st.sampled_from((SYNCED, "x")), st.text("ab.-", max_size=5)),
    missing=st.booleans(),
    enforced=st.sampled_from(
        ({}, {"ttl": "1h", "labelSelector": {"matchLabels": {"a": "b"}}, "hooks": {"resources": []}})
    ),
)
def test_any_request_ends_in_a_condition_or_a_retry(
    spec: JSONObject, inner: JSONObject, labels: dict[str, str], missing: bool, enforced: JSONObject
) -> None:
    """Even requests that no API server admits end in a condition or a retry, never in another error."""
    from pinnace.nonadmin.objects import NON_ADMIN_DOWNLOADS, NON_ADMIN_LOCATIONS

    service = Service(settings=AdminSettings(backup=enforced, restore={}, location={}))
    members = {
        NON_ADMIN_BACKUPS: "backupSpec",
        NON_ADMIN_RESTORES: "restoreSpec",
        NON_ADMIN_LOCATIONS: "backupStorageLocationSpec",
        NON_ADMIN_DOWNLOADS: "target",
    }
    for resource, member in members.items():
        body = {} if missing else {"spec": {**spec, member: inner}}
        service.cluster.add(resource, "attack", "shop", metadata={"labels": labels}, **body)
        asyncio.run(service.look(resource, "shop", "attack"))
        asyncio.run(service.look(resource, "shop", "attack"))

    for backup in service.cluster.of(BACKUPS):
        assert backup["spec"]["includedNamespaces"] == ["shop"]
        assert not backup["spec"].get("includeClusterResources")
        assert not backup["spec"].get("storageLocation")
    assert service.cluster.of(RESTORES) == []
