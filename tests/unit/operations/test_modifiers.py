"""The ConfigMap that a Restore names. (docs/spec: BEY 5.3)"""

import pytest

from pinnace.api.meta import ConfigReference
from pinnace.api.velero.restore import RestoreSpec
from pinnace.operations.modifiers import modifiers_of
from pinnace.restore.modifiers.rules import ModifierError
from tests.unit.restore.world import World, configmap

RULES = """
version: v1
resourceModifierRules:
- conditions: {groupResource: pods}
  mergePatches: [{patchData: '{"a": 1}'}]
"""


def spec(kind: str = "ConfigMap", name: str = "rules") -> RestoreSpec:
    return RestoreSpec(resource_modifier=ConfigReference(kind=kind, name=name))


async def test_a_restore_without_modifiers_asks_for_nothing() -> None:
    assert await modifiers_of(World(), "velero", RestoreSpec()) is None


async def test_the_rules_are_read_from_the_namespace_of_the_server() -> None:
    world = World(configmap("rules", "velero", data={"x": RULES}))
    assert await modifiers_of(world, "velero", spec()) is not None


@pytest.mark.spec("BEY-059")
@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (spec(name="missing"), "resource modifiers in ConfigMap velero/missing: there is no such ConfigMap"),
        (spec(kind="Secret"), 'spec.resourceModifier is of kind "Secret"'),
        (spec(name="broken"), "resource modifiers in ConfigMap velero/broken: it must have exactly one key"),
    ],
)
async def test_modifiers_that_cannot_be_used_are_a_validation_error(wanted: RestoreSpec, reason: str) -> None:
    world = World(configmap("broken", "velero", data={"a": "", "b": ""}))
    with pytest.raises(ModifierError) as error:
        await modifiers_of(world, "velero", wanted)
    assert str(error.value).startswith(reason)
