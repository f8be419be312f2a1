"""The ConfigMap that a Restore names. (docs/spec: BEY 5.3)"""

import pytest

from pinnace.api.meta import ConfigReference
from pinnace.api.velero.restore import RestoreSpec
from pinnace.operations.modifiers import FoundModifiers, modifiers_of
from pinnace.restore.modifiers.rules import ModifierError
from tests.unit.restore.world import configmap, world_of

RULES = """
version: v1
resourceModifierRules:
- conditions: {groupResource: pods}
  mergePatches: [{patchData: '{"a": 1}'}]
"""


def spec(kind: str = "ConfigMap", name: str = "rules") -> RestoreSpec:
    return RestoreSpec(resource_modifier=ConfigReference(kind=kind, name=name))


async def test_a_restore_without_modifiers_asks_for_nothing() -> None:
    assert await modifiers_of(world_of(), "velero", RestoreSpec()) == FoundModifiers(None)


async def test_the_rules_are_read_from_the_namespace_of_the_server() -> None:
    world = world_of(configmap("rules", "velero", data={"x": RULES}))
    found = await modifiers_of(world, "velero", spec())
    assert found.modifiers is not None
    assert found.modifiers.source == "velero/rules"


@pytest.mark.spec("BEY-059", "AFT-083")
@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (spec(name="missing"), "resource modifiers in ConfigMap velero/missing: there is no such ConfigMap"),
        (spec(kind="Secret"), 'spec.resourceModifier is of kind "Secret"'),
        (spec(name="broken"), "resource modifiers in ConfigMap velero/broken: it must have exactly one key"),
    ],
)
async def test_modifiers_that_cannot_be_used_are_a_validation_error(wanted: RestoreSpec, reason: str) -> None:
    world = world_of(configmap("broken", "velero", data={"a": "", "b": ""}))
    with pytest.raises(ModifierError) as error:
        await modifiers_of(world, "velero", wanted)
    assert str(error.value).startswith(reason)


@pytest.mark.spec("AFT-080")
async def test_the_servers_modifiers_are_for_restores_that_name_none() -> None:
    world = world_of(
        configmap("rules", "velero", data={"x": RULES}), configmap("default", "velero", data={"x": RULES})
    )
    by_default = await modifiers_of(world, "velero", RestoreSpec(), default="default")
    own = await modifiers_of(world, "velero", spec(), default="default")
    assert by_default.modifiers is not None
    assert own.modifiers is not None
    assert [by_default.modifiers.source, own.modifiers.source] == ["velero/default", "velero/rules"]
    assert [by_default.default, own.default] == ["default", ""]


@pytest.mark.spec("AFT-081")
async def test_a_restore_may_skip_the_servers_modifiers_and_keeps_its_own() -> None:
    world = world_of(
        configmap("rules", "velero", data={"x": RULES}), configmap("default", "velero", data={"x": RULES})
    )
    without = RestoreSpec(skip_default_resource_modifier=True)
    own = spec()
    own.skip_default_resource_modifier = True
    assert (await modifiers_of(world, "velero", without, default="default")).modifiers is None
    assert (await modifiers_of(world, "velero", own, default="default")).modifiers is not None


@pytest.mark.spec("AFT-082")
@pytest.mark.parametrize("name", ["missing", "broken"])
async def test_a_restore_runs_without_the_servers_modifiers_if_they_cannot_be_used(name: str) -> None:
    world = world_of(configmap("broken", "velero", data={"a": "", "b": ""}))
    found = await modifiers_of(world, "velero", RestoreSpec(), default=name)
    assert found.modifiers is None
    (warning,) = found.warnings
    assert f"velero/{name}" in warning
