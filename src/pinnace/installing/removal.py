"""Removes an installation: its namespace, access rights and definitions. (docs/spec: CLI 11.4)"""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from pinnace.api import kinds, labels
from pinnace.api.objects import JSONObject
from pinnace.api.values.counts import counted, first_names
from pinnace.installing.access import cluster_wide_name
from pinnace.installing.finalizers import defined_by, held_by, release_objects
from pinnace.installing.observer import InstallObserver
from pinnace.kube.errors import APIStatusError, KubeError, NotFound
from pinnace.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PODS,
    APIResource,
    known,
)
from pinnace.nonadmin import manifests

if TYPE_CHECKING:
    from pinnace.kube.client import KubeClient


POLL_SECONDS = 1.0
LOOKS_BEFORE_HINT = 30
_NAMESPACES_SHOWN = 5
SELECTOR = f"{labels.COMPONENT}={labels.COMPONENT_VALUE}"

# Clusters older than 1.16 know only this version, those from 1.22 on no longer do.
OLD_DEFINITIONS = msgspec.structs.replace(CUSTOM_RESOURCE_DEFINITIONS, version="v1beta1")


async def losses(client: "KubeClient") -> str:
    """The objects of all namespaces that go with the definitions, and what could not be counted."""
    counts: list[str] = []
    unknown: list[str] = []
    namespaces: set[str] = set()
    for kind in (kinds.BACKUPS, kinds.RESTORES, kinds.SCHEDULES):
        try:
            found = await client.list_all(known(kind))
        except NotFound:
            continue  # there is no such definition
        except KubeError as error:  # the question is asked all the same
            unknown.append(f"{kind.plural} that could not be counted ({error})")
            continue
        counts += [counted(len(found), kind.noun)] if found else []
        namespaces |= {str(obj["metadata"]["namespace"]) for obj in found}
    where = f" in {first_names(sorted(namespaces), _NAMESPACES_SHOWN)}" if namespaces else ""
    return "; ".join(filter(None, (", ".join(counts) + where, *unknown)))


async def remove(client: "KubeClient", namespace: str, observer: InstallObserver, *, wait: bool) -> list[str]:
    """Do all steps, even after one has failed. Returns the errors.

    Args:
        wait: until all is gone.

    Raises:
        KubeError: the cluster does not answer.
    """
    errors = []
    try:
        await _delete_namespace(client, namespace, observer)
        await _end_pods(client, namespace)
        await _release(client, namespace)
    except APIStatusError as error:
        errors.append(str(error))
    errors += await _delete_rights(client, namespace, observer)
    errors += await _delete_self_service(client, namespace)
    errors += await _delete_definitions(client, observer)
    # What could not be deleted would be waited for without end.
    if wait and not errors:
        try:
            await _wait(client, namespace, observer)
        except APIStatusError as error:
            errors.append(str(error))
        finally:
            observer.ended()
    return errors


async def _delete_namespace(client: "KubeClient", namespace: str, observer: InstallObserver) -> None:
    """Begin to delete the namespace, if it exists."""
    try:
        found = await client.get(NAMESPACES, namespace)
        if found["metadata"].get("deletionTimestamp"):
            observer.say(f'Namespace "{namespace}" is terminating.')
        else:
            await client.delete(NAMESPACES, namespace)
    except NotFound:
        observer.say(f'Namespace "{namespace}" does not exist, skipping.')


async def _end_pods(client: "KubeClient", namespace: str) -> None:
    """Begin to end the pods at once: the namespace is gone sooner if they are.

    The namespace controller begins after five seconds, and waits for pods that it ends itself: another five
    seconds, or half of their grace period.
    """
    with suppress(APIStatusError):  # left to the namespace controller
        for pod in await client.list_all(PODS, namespace):
            with suppress(NotFound):
                await client.delete(PODS, pod["metadata"]["name"], namespace)


async def _release(client: "KubeClient", namespace: str) -> None:
    """Remove the finalizers of Velero and Pinnace from all objects in the namespace."""
    for kind in kinds.VELERO:
        with suppress(NotFound):
            await release_objects(client, known(kind), namespace)


async def _delete_rights(client: "KubeClient", namespace: str, observer: InstallObserver) -> list[str]:
    """Delete the binding, that of the chart, and the role that `install` has made. Returns the errors."""
    errors: list[str] = []
    name = cluster_wide_name(namespace)
    try:
        await client.delete(CLUSTER_ROLE_BINDINGS, name)
    except NotFound:
        observer.say(f'ClusterRoleBinding "{name}" does not exist, skipping.')
    except APIStatusError as error:
        errors.append(str(error))
    try:
        with suppress(NotFound):  # only the chart makes it, with minimal rights
            await client.delete(CLUSTER_ROLE_BINDINGS, f"{name}-minimal")
    except APIStatusError as error:
        errors.append(str(error))
    try:
        roles = await client.list_all(CLUSTER_ROLES, label_selector=SELECTOR)
        if any(role["metadata"]["name"] == name for role in roles):
            await client.delete(CLUSTER_ROLES, name)
    except APIStatusError as error:
        errors.append(str(error))
    return errors


async def _delete_self_service(client: "KubeClient", namespace: str) -> list[str]:
    """Delete the roles of tenants and the binding of their controller, if `install` made them."""
    made = {obj["metadata"]["name"] for obj in manifests.resources(namespace)}
    errors = []
    for resource in (CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES):
        try:
            for obj in await client.list_all(resource, label_selector=SELECTOR):
                if obj["metadata"]["name"] in made:
                    with suppress(NotFound):  # deleted by another client meanwhile
                        await client.delete(resource, obj["metadata"]["name"])
        except APIStatusError as error:
            errors.append(str(error))
    return errors


async def _delete_definitions(client: "KubeClient", observer: InstallObserver) -> list[str]:
    """Delete the definitions, in the versions of the API that the cluster serves. Returns the errors."""
    removed, errors = await _delete_labelled(client, CUSTOM_RESOURCE_DEFINITIONS)
    if removed is None:
        observer.say("V1 custom resource definitions not found, skipping...")
    removed_old, old_errors = await _delete_labelled(client, OLD_DEFINITIONS)
    if removed_old is None and not removed:
        observer.say("V1Beta1 custom resource definitions not found, skipping...")
    return errors + old_errors


async def _delete_labelled(client: "KubeClient", resource: APIResource) -> tuple[int | None, list[str]]:
    """Delete the definitions that `install` labelled. Returns how many, None without that API; and errors."""
    try:
        found = await client.list_all(resource, label_selector=SELECTOR)
    except NotFound:
        return None, []
    except APIStatusError as error:
        return 0, [str(error)]
    removed, errors = 0, []
    for definition in found:
        try:
            if (defined := defined_by(definition)) is not None:
                await release_objects(client, defined)
            await client.delete(resource, definition["metadata"]["name"])
        except NotFound:
            continue  # deleted by another client meanwhile
        except APIStatusError as error:
            errors.append(str(error))
        else:
            removed += 1
    return removed, errors


async def _wait(client: "KubeClient", namespace: str, observer: InstallObserver) -> None:
    """Print dots until the namespace and the definitions are gone, and after a while what holds them."""
    looks = 0
    while remains := await _remaining(client, namespace):
        if not looks:
            observer.say(
                "Waiting until all is gone. You may safely press ctrl-c to stop waiting - "
                "uninstall will continue in the background."
            )
        observer.wait()
        looks += 1
        if looks == LOOKS_BEFORE_HINT:
            observer.warn(f"Still there: {held_by(remains)}")
        await asyncio.sleep(POLL_SECONDS)


async def _remaining(client: "KubeClient", namespace: str) -> JSONObject | None:
    """The namespace or a definition that is still terminating; None if all are gone."""
    with suppress(NotFound):
        found = await client.get(NAMESPACES, namespace)
        # Without the timestamp it is a new one, made by whoever installs again.
        if found["metadata"].get("deletionTimestamp"):
            return found
    with suppress(NotFound):
        for definition in await client.list_all(CUSTOM_RESOURCE_DEFINITIONS, label_selector=SELECTOR):
            if definition["metadata"].get("deletionTimestamp"):
                return definition
    return None
