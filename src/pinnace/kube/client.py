"""A client of one API server: one method for each kind of request.

Objects are passed as dicts or, where their content is not needed, as bytes. All methods may be called from
many tasks at once; the client limits the requests in flight to the number that the server can handle.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial

from pinnace.api.objects import JSONObject, dump_json
from pinnace.kube.answers import (
    Expected,
    Reading,
    contains,
    read_deletion,
    read_document,
    read_object,
    read_object_bytes,
    read_part,
    sent_name,
)
from pinnace.kube.errors import AlreadyExists, NotFound
from pinnace.kube.listing_requests import ListClient
from pinnace.kube.resources import APIResource
from pinnace.kube.transport.requests import MERGE_PATCH, APIRequest, Output, with_query
from pinnace.kube.watching import GRACE_SECONDS, WATCH_SECONDS, WatchEvent, read_events


class KubeClient(ListClient):
    """A client of one API server: its objects, lists, watches, and commands in pods."""

    async def get(
        self,
        resource: APIResource,
        name: str,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> JSONObject:
        """Return one object, or a sub-resource of it."""
        return await self.read(
            resource.path(namespace, name, subresource), _reading(resource, name, namespace, subresource)
        )

    async def create(
        self,
        resource: APIResource,
        body: JSONObject | bytes,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
        field_manager: str = "",
    ) -> JSONObject:
        """Create an object, and return it as the server stored it.

        Args:
            field_manager: the manager that the server records for the fields; empty: our user agent.
        """
        params = {"dryRun": "All" if dry_run else "", "fieldManager": field_manager}
        name = sent_name(body)
        request = self._creation(resource, namespace, _encoded(body), params, repeatable=bool(name))
        expected = _created(resource, name, namespace)
        try:
            return await self._sender.fetch(request, partial(read_object, expected=expected))
        except AlreadyExists as error:
            found = await self.get(resource, name, namespace) if error.after_open_attempt else None
            sent = read_document(body) if isinstance(body, bytes) else body
            if found is None or not contains(found, sent):
                raise
            return found

    async def create_bytes(
        self, resource: APIResource, body: bytes, namespace: str | None = None, *, field_manager: str = ""
    ) -> bytes:
        """Like `create`, but return the answer as JSON bytes.

        Raises:
            AlreadyExists: if it has `after_open_attempt`, an earlier attempt without an answer may have
                created the object: the caller must compare.
        """
        name = sent_name(body)
        params = {"fieldManager": field_manager}
        request = self._creation(resource, namespace, body, params, repeatable=bool(name))
        expected = _created(resource, name, namespace)
        return await self._sender.fetch(request, partial(read_object_bytes, expected=expected))

    def _creation(
        self,
        resource: APIResource,
        namespace: str | None,
        body: bytes,
        params: Mapping[str, str],
        *,
        repeatable: bool,
    ) -> APIRequest:
        # Where the server generates the name, a second attempt would create a second object.
        return APIRequest(
            method="POST",
            path=with_query(resource.path(namespace), params),
            body=body,
            timeout_seconds=self._timeout_seconds,
            repeatable=repeatable,
        )

    async def replace(
        self, resource: APIResource, name: str, body: JSONObject | bytes, namespace: str | None = None
    ) -> JSONObject:
        """Replace an object as a whole (PUT). Not repeated when the outcome of an attempt is unknown."""
        request = APIRequest(
            method="PUT",
            path=resource.path(namespace, name),
            body=_encoded(body),
            timeout_seconds=self._timeout_seconds,
        )
        return await self._sender.fetch(request, _reading(resource, name, namespace))

    async def patch(
        self,
        resource: APIResource,
        name: str,
        patch: JSONObject,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        content_type: str = MERGE_PATCH,
    ) -> JSONObject:
        """Patch an object, or a sub-resource of it, and return the changed object. (docs/spec: CTL 1.2)

        With `metadata.resourceVersion` in the patch, a `Conflict` says that the object has changed. Such a
        patch is not repeated when the outcome of an attempt is unknown: the caller could not tell its own
        change from another one.
        """
        metadata = patch.get("metadata")
        is_versioned = isinstance(metadata, dict) and "resourceVersion" in metadata
        request = APIRequest(
            method="PATCH",
            path=resource.path(namespace, name, subresource),
            body=dump_json(patch),
            content_type=content_type,
            timeout_seconds=self._timeout_seconds,
            repeatable=content_type == MERGE_PATCH and not is_versioned,
        )
        return await self._sender.fetch(request, _reading(resource, name, namespace, subresource))

    async def simulate_patch(
        self, resource: APIResource, name: str, patch: JSONObject, namespace: str | None = None
    ) -> JSONObject:
        """Return the object as it would be after a JSON merge patch (`dryRun=All`); nothing is stored.

        An API server that is not Kubernetes' own may not know `dryRun`, and would store the change.
        """
        request = APIRequest(
            method="PATCH",
            path=with_query(resource.path(namespace, name), {"dryRun": "All"}),
            body=dump_json(patch),
            content_type=MERGE_PATCH,
            timeout_seconds=self._timeout_seconds,
            repeatable=True,
        )
        return await self._sender.fetch(request, _reading(resource, name, namespace, None))

    async def delete(
        self,
        resource: APIResource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        version: str | None = None,
        propagation: str | None = None,
    ) -> JSONObject:
        """Delete an object, and return it while it is being deleted, or a Status.

        Args:
            uid: delete only the object with this uid; another one of that name is a `Conflict`.
            version: delete it only with this resourceVersion; if it has changed, that is a `Conflict`.
            propagation: Foreground, Background or Orphan.
        """
        options: JSONObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if demanded := {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value}:
            options["preconditions"] = demanded
        if propagation:
            options["propagationPolicy"] = propagation
        request = APIRequest(
            method="DELETE",
            path=resource.path(namespace, name),
            body=dump_json(options),
            timeout_seconds=self._timeout_seconds,
            repeatable=True,
        )
        expected = Expected.of(resource, name, namespace, uid=uid or "")
        try:
            return await self._sender.fetch(request, partial(read_deletion, expected=expected))
        except NotFound as error:
            if not error.after_open_attempt:
                raise
            # An earlier attempt, whose answer was lost, deleted it.
            return {"apiVersion": "v1", "kind": "Status", "status": "Success"}

    async def watch(
        self,
        resource: APIResource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = WATCH_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield the changes after `resource_version`, bookmarks included, until the server ends the watch.

        Not repeated: the caller knows the version to continue from. Close the iterator
        (`contextlib.aclosing`) to end it early.

        Args:
            timeout_seconds: how long the server keeps the watch open.
            grace_seconds: how long after that a watch which the server did not end has failed.

        Raises:
            Gone: the version is too old; list again.
            ConnectionFailed: the watch broke, stalled, or is not one of this resource.
        """
        params = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
        }
        request = APIRequest(
            method="GET",
            path=with_query(resource.path(namespace), params),
            timeout_seconds=timeout_seconds + grace_seconds,
        )
        expected = Expected.of(resource, namespace=namespace)
        async with aclosing(read_events(self._transport, request, expected)) as events:
            async for event in events:
                yield event

    async def exec(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str,
        stdout: Output,
        stderr: Output,
        timeout_seconds: float | None,
    ) -> int:
        """Run a command in a container, without a shell, and return its exit code. See `run_command`.

        Raises:
            CommandTimeout: it did not end in time; it continues to run in the container.
            APIStatusError, ConnectionFailed: it could not be run, or its outcome is unknown.
        """
        # Imported here: its HTTP library takes long to import, and most runs do not need it.
        from pinnace.kube.exec import exec_request, run_command

        request = exec_request(namespace, pod, container, command)
        return await run_command(
            self._sender, request, stdout=stdout, stderr=stderr, timeout_seconds=timeout_seconds
        )


def _encoded(body: JSONObject | bytes) -> bytes:
    return body if isinstance(body, bytes) else dump_json(body)


def _created(resource: APIResource, name: str, namespace: str | None) -> Expected:
    # A resource that cannot be read afterwards (a review, a binding) is an answer, not an object: no uid.
    return Expected.of(resource, name, namespace, is_new="get" in resource.verbs)


def _reading(
    resource: APIResource, name: str, namespace: str | None, subresource: str | None = None
) -> Reading[JSONObject]:
    """How to read an answer about one object; of the sub-resources only `status` returns the object."""
    if subresource not in (None, "status"):
        return read_part
    return partial(read_object, expected=Expected.of(resource, name, namespace))
