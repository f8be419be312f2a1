"""The commands of kubectl that documents use: for namespaces, config maps, secrets; patches of locations."""

import asyncio
import json
import sys
from pathlib import Path

from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.resources import (
    BACKUP_STORAGE_LOCATIONS,
    CONFIGMAPS,
    NAMESPACES,
    SECRETS,
    APIResource,
)

RESOURCES = {
    "namespace": NAMESPACES,
    "configmap": CONFIGMAPS,
    "secret": SECRETS,
    "backupstoragelocation": BACKUP_STORAGE_LOCATIONS,
}


async def run(words: list[str]) -> None:
    """Carry out one command; an unknown one is an error."""
    namespace = None
    if words[0] == "-n":
        namespace, words = words[1], words[2:]
    verb, kind, name, *more = [word for word in words if word != "generic"]
    resource = RESOURCES[kind]
    async with KubeClient(load_config(None)) as client:
        if verb == "create":
            await client.create(resource, _object(resource, name, more), namespace)
        elif verb == "get":
            print((await client.get(resource, name, namespace))["metadata"]["name"])
        elif verb == "delete":
            await client.delete(resource, name, namespace)
        elif verb == "patch" and more[:3] == ["--type", "merge", "-p"]:
            await client.patch(resource, name, json.loads(more[3]), namespace)
        else:
            raise ValueError(verb)


def _object(resource: APIResource, name: str, more: list[str]) -> JSONObject:
    made: JSONObject = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
    }
    data = {}
    for word in more:
        source, key, value = word.split("=", 2)
        data[key] = Path(value).read_text() if source == "--from-file" else value
    if data:
        made["stringData" if resource is SECRETS else "data"] = data
    return made


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1:]))
