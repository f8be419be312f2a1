"""Filter policies that real Velero obeyed: the same document chooses the same objects here.

The bucket has the documents, the objects of the cluster (backup `everything`), and what a backup and a
restore with the documents chose of them.
"""

import gzip
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.codec import decode
from pinnace.api.resource_policies import read_policies, read_restore_policies
from pinnace.api.selection.resource_filters import filter_of
from pinnace.api.velero.backup import Backup
from pinnace.backup.explaining import explain
from pinnace.backup.namespaces import NamespaceFacts
from pinnace.backup.plan import BackupFilter
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import APIResource
from tests.support.stores import golden
from tests.unit.backup.fakes import discovery_of

Key = tuple[str, str, str]
Objects = dict[Key, dict[str, Any]]


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden.unpack("main", tmp_path_factory.mktemp("golden"))


def objects_of(bucket: Path, backup: str) -> Objects:
    """The objects of a backup by `plural.group`, namespace and name."""
    found: Objects = {}
    with tarfile.open(bucket / f"backups/{backup}/{backup}.tar.gz") as archive:
        for member in archive:
            parts = Path(member.name).parts
            content = archive.extractfile(member)
            if parts[0] == "resources" and parts[2] in ("cluster", "namespaces") and content is not None:
                item = json.load(content)
                metadata = item["metadata"]
                found[parts[1], metadata.get("namespace", ""), metadata["name"]] = item
    return found


def kinds_of(objects: Objects) -> dict[str, APIResource]:
    return {
        kind: APIResource(
            group=kind.partition(".")[2],
            version=item["apiVersion"].rpartition("/")[2],
            name=kind.partition(".")[0],
            kind=item["kind"],
            namespaced=bool(namespace),
        )
        for (kind, namespace, _), item in objects.items()
    }


def document(objects: Objects, name: str) -> str:
    found: str = objects["configmaps", "velero", name]["data"]["policy.yaml"]
    return found


@pytest.mark.found("G6")
@pytest.mark.spec("AFT-020", "AFT-022", "AFT-024", "AFT-036")
def test_a_backup_has_the_objects_that_velero_chose_by_the_same_policies(bucket: Path) -> None:
    everything = objects_of(bucket, "everything")
    kinds = kinds_of(everything)
    discovery = discovery_of(kinds.values())
    backup = decode(Backup, json.loads((bucket / "backups/policies/velero-backup.json").read_bytes()))
    scope = _scope(backup, document(everything, "filters"), discovery)

    saved = {key for key, item in everything.items() if explain(scope, kinds[key[0]], item).is_saved}
    by_velero = objects_of(bucket, "policies").keys() & everything.keys()

    assert len(saved) == 135
    assert saved <= by_velero
    definition = ("customresourcedefinitions.apiextensions.k8s.io", "", "promotions.shop.example.com")
    # Definitions come with what needs them. A label selector that all namespaces match makes Velero save
    # those of other namespaces, too.
    others = ("default", "kube-node-lease", "kube-public", "kube-system", "velero")
    assert by_velero - saved - {definition} == {("namespaces", "", name) for name in others}


def _scope(backup: Backup, policies: str, discovery: Discovery) -> BackupFilter:
    chosen = filter_of(backup.spec, canonical=discovery.canonical, is_namespaced=discovery.is_namespaced)
    return BackupFilter.of(
        backup.spec,
        resources=chosen.filter,
        facts=NamespaceFacts(),
        policies=read_policies(policies).filters.resolved(discovery.canonical),
    )


@pytest.mark.found("G4")
@pytest.mark.spec("AFT-050")
def test_a_restore_takes_the_objects_that_velero_restored_by_the_same_policies(bucket: Path) -> None:
    everything, short = objects_of(bucket, "everything"), objects_of(bucket, "short")
    discovery = discovery_of(kinds_of(everything).values())
    policies = read_restore_policies(document(everything, "restore-filters-2"), "restore-filters-2")
    resolved = policies.filters.resolved(discovery.canonical)

    taken = set()
    for (kind, namespace, name), item in short.items():
        ruling = resolved.ruling(kind, namespace)
        # Without a ruling the restore's own lists decide, which admit everything.
        if ruling is None or ruling.takes(name, item["metadata"].get("labels")):
            taken.add((f"{item['apiVersion']}/{item['kind']}", namespace, name))

    assert taken == set(_restored(bucket / "restores/filtered/restore-filtered-resource-list.json.gz"))


def _restored(resource_list: Path) -> Iterator[Key]:
    """What Velero created or found, under the names in the backup; it mapped both namespaces."""
    for kind, titles in json.loads(gzip.decompress(resource_list.read_bytes())).items():
        for title in titles:
            namespace, _, name = title.partition("(")[0].rpartition("/")
            if kind == "v1/Namespace":
                name = name.removesuffix("-filtered")
            yield kind, namespace.removesuffix("-filtered"), name
