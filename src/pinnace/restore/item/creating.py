"""Creating an object so that an answer that never came costs nothing.

The client repeats a create whose outcome is unknown, and says when a refusal came after such an attempt: the
object that is there may be its own work. Here it is looked at. A restore of thousands of objects sees such
failures (a balancer that drops a connection, an etcd that changes its leader), and one of them would cost an
object, or at a namespace everything in it.
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
        """Create an object, and find it when an attempt made it whose answer was lost.

        Args:
            name: of the object in `body`.
            is_ours: asked about an object that is there after an attempt without an answer: did that attempt
                make it?

        Returns:
            The object as the API server made it, undecoded.

        Raises:
            AlreadyExists: it was there before, or another client made it.
            KubeError: it was refused, or the last attempt failed too.
        """
        try:
            return await self._client.create_bytes(resource, body, namespace)
        except APIStatusError as error:
            # A quota that the lost attempt has filled refuses the next one in other words.
            found = await self._found(resource, name, namespace) if error.after_open_attempt else None
            if found is None or not is_ours(found):
                raise
            return dump_json(found)

    async def _found(self, resource: APIResource, name: str, namespace: str | None) -> JSONObject | None:
        try:
            return await self._client.get(resource, name, namespace)
        except NotFound:
            return None
