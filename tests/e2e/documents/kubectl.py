"""What documents use of kubectl: create, get and delete of namespaces and config maps."""

import asyncio
import sys

from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, APIResource

RESOURCES = {"namespace": NAMESPACES, "configmap": CONFIGMAPS}


async def run(words: list[str]) -> None:
    """Carry out one command; what is not understood is an error."""
    namespace = None
    if words[0] == "-n":
        namespace, words = words[1], words[2:]
    verb, kind, name, *more = words
    resource = RESOURCES[kind]
    async with KubeClient(load_config(None)) as client:
        if verb == "create":
            await client.create(resource, _object(resource, name, more), namespace)
        elif verb == "get":
            print((await client.get(resource, name, namespace))["metadata"]["name"])
        elif verb == "delete":
            await client.delete(resource, name, namespace)
        else:
            raise ValueError(verb)


def _object(resource: APIResource, name: str, more: list[str]) -> JSONObject:
    made: JSONObject = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
    }
    literals = [word.removeprefix("--from-literal=").split("=", 1) for word in more]
    return {**made, "data": dict(literals)} if literals else made


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1:]))
