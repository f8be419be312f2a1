"""Creates objects so that a lost answer does not lose an object.

The client repeats a create whose outcome is unknown, and marks a refusal after such an attempt: the existing
object may have been created by that attempt. This module checks that. A restore of thousands of objects sees
such failures (a balancer drops a connection, etcd elects a new leader), and one of them would lose an object,
or all objects of a namespace.
"""

from collections.abc import Callable

from pinnace.api.objects import JSONObject, dump_json
from pinnace.kube.errors import APIStatusError, NotFound
from pinnace.kube.resources import APIResource
from pinnace.restore.ports import Cluster


class Creator:
    """Creates objects in one cluster."""

    def __init__(self, client: Cluster) -> None:
        self._client = client

    async def create(
        self,
        resource: APIResource,
        name: str,
        body: bytes,
        namespace: str | None = None,
        *,
        is_ours: Callable[[JSONObject], bool],
    ) -> bytes:
        """Create an object; if an answer was lost, return the object that the attempt created.

        Args:
            name: of the object in `body`.
            is_ours: called with an object that exists after an attempt without an answer; returns whether
                that attempt created it.

        Returns:
            The object as the API server stored it, undecoded.

        Raises:
            AlreadyExists: it existed before, or another client created it.
            KubeError: it was refused, or the last attempt failed too.
        """
        try:
            return await self._client.create_bytes(resource, body, namespace)
        except APIStatusError as error:
            # If the lost attempt used up a quota, the next one is refused for the quota.
            found = await self._found(resource, name, namespace) if error.after_open_attempt else None
            if found is None or not is_ours(found):
                raise
            return dump_json(found)

    async def _found(self, resource: APIResource, name: str, namespace: str | None) -> JSONObject | None:
        try:
            return await self._client.get(resource, name, namespace)
        except NotFound:
            return None
