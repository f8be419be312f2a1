"""Items that are read again when the operations of a backup have ended."""

from collections.abc import Sequence

from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.backup.actions import BackupActions
from pinnace.backup.finalizing import Finalizer
from pinnace.kube.resources import CONFIGMAPS
from pinnace.plugins.logs import ProcessLog
from pinnace.plugins.protocols import ResourceIdentifier, ResourceSelector
from tests.unit.backup.fakes import discovery_of, two_a_page


class OfOneTeam:
    """An action for the items of one team; it writes its name into them."""

    name = "example.com/one-team"

    async def applies_to(self) -> ResourceSelector:
        return ResourceSelector(included_resources=("configmaps",), label_selector="team=one")

    async def execute(
        self, item: JSONObject, backup: Backup
    ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
        return {**item, "data": {"seen-by": self.name}}, ()


async def test_an_action_changes_only_items_with_the_labels_that_it_wants() -> None:
    cluster = two_a_page().add_all(CONFIGMAPS, "ns/one", "ns/two")
    cluster.objects[cluster.key(CONFIGMAPS, "ns", "one")]["metadata"]["labels"] = {"team": "one"}
    cluster.objects[cluster.key(CONFIGMAPS, "ns", "two")]["metadata"]["labels"] = {"team": "two"}
    discovery = discovery_of()
    finalizer = Finalizer(
        client=cluster,
        discovery=discovery,
        actions=await BackupActions.load([OfOneTeam()], discovery.canonical),
        backup=Backup(),
        log=ProcessLog(),
    )
    wanted = [
        ResourceIdentifier(group="", resource="configmaps", namespace="ns", name=name)
        for name in ("one", "two")
    ]

    updated = await finalizer.update(wanted)

    assert updated.errors == []
    changed = {path for path, data in updated.files.items() if OfOneTeam.name.encode() in data}
    assert changed
    assert all(path.endswith("/ns/one.json") for path in changed)
