"""Whatever the API server admits from a tenant, the controllers outlive it and make nothing foreign."""

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pinnace.kube.errors import APIStatusError, KubeError
from pinnace.nonadmin.driver import StepFailed
from pinnace.nonadmin.objects import NABS, NABSLS, NADRS, NARS
from pinnace.runtime.logfields import RECORD_ATTRIBUTE
from pinnace.runtime.manager import ManagerPhase
from tests.integration.nonadmin.conftest import BACKUPS, RESTORES, Serve, Server, Tenant

_words = st.sampled_from(
    ("", "*", "..", "shop", "x/y", "%2e", "1h", "-1h", "9" * 30 + "h", "tenant-x", "\U0001f4a3")
)
_lists = st.lists(_words, max_size=3)
_maps = st.dictionaries(_words, _words, max_size=2)
_selectors = st.fixed_dictionaries({}, optional={"matchLabels": _maps, "matchExpressions": st.just([])})
_flags = st.booleans()
_backup = st.fixed_dictionaries(
    {},
    optional={
        "includedNamespaces": _lists,
        "excludedNamespaces": _lists,
        "includedResources": _lists,
        "labelSelector": _selectors,
        "ttl": _words,
        "includeClusterResources": _flags,
        "hooks": st.fixed_dictionaries(
            {"resources": st.lists(st.fixed_dictionaries({"name": _words}), max_size=2)}
        ),
        "storageLocation": _words,
        "orderedResources": _maps,
    },
)
_restore = st.fixed_dictionaries(
    {},
    optional={
        "backupName": _words,
        "namespaceMapping": _maps,
        "includedNamespaces": _lists,
        "restorePVs": _flags,
    },
)
_location = st.fixed_dictionaries(
    {
        "provider": st.sampled_from(("aws", "gcp", "", "x")),
        "objectStorage": st.fixed_dictionaries({"bucket": _words}, optional={"prefix": _words}),
    },
    optional={
        "config": _maps,
        "credential": st.fixed_dictionaries({"key": _words}, optional={"name": _words}),
        "backupSyncPeriod": _words,
        "validationFrequency": _words,
    },
)
_target = st.fixed_dictionaries({"kind": st.sampled_from(("BackupLog", "RestoreLog")), "name": _words})
_objects = st.one_of(
    st.tuples(
        st.just(NABS), st.fixed_dictionaries({"backupSpec": _backup}, optional={"deleteBackup": _flags})
    ),
    st.tuples(st.just(NARS), st.fixed_dictionaries({"restoreSpec": _restore})),
    st.tuples(st.just(NABSLS), st.fixed_dictionaries({"backupStorageLocationSpec": _location})),
    st.tuples(st.just(NADRS), st.fixed_dictionaries({"target": _target})),
)


def hostile_objects(count: int) -> list[tuple[Any, dict[str, Any]]]:
    """What hypothesis makes of the schemas."""
    made: list[tuple[Any, dict[str, Any]]] = []

    @settings(max_examples=count, suppress_health_check=list(HealthCheck), database=None)
    @given(_objects)
    def collect(obj: tuple[Any, dict[str, Any]]) -> None:
        made.append(obj)

    collect()
    return made


async def test_the_controllers_outlive_every_object(
    serve: Serve, server: Server, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    manager = await serve()
    objects = await asyncio.to_thread(hostile_objects, 150)

    async def post(number: int, resource: Any, spec: dict[str, Any]) -> None:
        with contextlib.suppress(APIStatusError):
            await tenant.create(resource, f"hostile-{number}", spec)

    await asyncio.gather(*(post(number, *obj) for number, obj in enumerate(objects)))
    for resource in (NABS, NARS, NABSLS):
        for obj in await tenant.client.list_all(resource, tenant.namespace):
            if not obj["spec"].get("deleteBackup"):
                await tenant.until(resource, obj["metadata"]["name"], lambda each: "status" in each)
    await tenant.back_up("honest")
    await tenant.reached(NABS, "honest", "Created")

    assert manager.phase is ManagerPhase.RUNNING
    for backup in await server.all(BACKUPS):
        assert backup["spec"]["includedNamespaces"] == [tenant.namespace]
        assert not backup["spec"].get("includeClusterResources")
    for restore in await server.all(RESTORES):
        assert restore["spec"]["includedNamespaces"] == [tenant.namespace]
    errors = [getattr(record, RECORD_ATTRIBUTE, {}).get("error") for record in caplog.records]
    defects = [error for error in errors if isinstance(error, Exception)]
    assert [error for error in defects if not isinstance(error, StepFailed | KubeError)] == []
