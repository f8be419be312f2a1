"""A client of one API server: one method for each kind of request.

Objects are passed as dicts or, where their content is not needed, as bytes. All methods may be called from
many tasks at once; the client limits the requests in flight to the number that the server can handle.
"""

import copy
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.fence import Fence
from pinnace.aio.retrying import random_share
from pinnace.api.objects import JSONObject, dump_json
from pinnace.kube.answers import (
    Expected,
    Reading,
    check_list,
    contains,
    read_deletion,
    read_document,
    read_object,
    read_object_bytes,
    read_part,
    sent_name,
)
from pinnace.kube.errors import AlreadyExists, InvalidResponse, NotFound
from pinnace.kube.lists.listing import PageReader
from pinnace.kube.lists.pages import Page, parse_page
from pinnace.kube.resources import APIResource
from pinnace.kube.transport.config import ClusterConfig
from pinnace.kube.transport.connection import Transport
from pinnace.kube.transport.limiting import InFlightLimit, RateCap
from pinnace.kube.transport.requests import JSON, MERGE_PATCH, APIRequest, Output, with_query
from pinnace.kube.transport.retrying import Sender, ThrottledRetryPolicy
from pinnace.kube.transport.silence import Silence
from pinnace.kube.transport.timeouts import DEFAULT_TIMEOUT_SECONDS, LIST_TIMEOUT_SECONDS
from pinnace.kube.watching import GRACE_SECONDS, WATCH_SECONDS, WatchEvent, read_events
from pinnace.store_access.user_agent import user_agent as own_user_agent

T = TypeVar("T")

PAGE_LIMIT = 500
"""The number of objects in a page, as kubectl and client-go request it."""
MAXIMUM_IN_FLIGHT = 64
"""Beyond this, an API server only gets slower. (measured for creates)"""


class ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to `/version`: `v1.33.4`, `1`, `33`."""

    git_version: str
    major: str = ""
    minor: str = ""


class KubeClient:
    """A client of one API server, as an async context manager that closes its connections at the end.

    Args:
        config: the server, and the user to authenticate as.
        user_agent: the User-Agent header; empty for that of `store_access.user_agent`. (docs/spec: CLI 1.4)
        timeout_seconds: for one attempt at a request about one object, and for the silence within a
            list; a page of a list as a whole may take longer.
        max_in_flight: the cap on requests at once; watches are not counted.
        rate: a cap on requests a second besides; watches are not counted.
        gzip: let the server compress its answers; worthwhile below about 400 Mbit/s.
        retry: how often and when to try again, and how long an outage of the server is waited out.
        jitter, clock: for tests.

    Attributes:
        fence: what writes pass; None for a client that needs no lease.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        user_agent: str = "",
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        max_in_flight: int = MAXIMUM_IN_FLIGHT,
        rate: RateCap | None = None,
        gzip: bool = False,
        retry: ThrottledRetryPolicy | None = None,
        jitter: Callable[[], float] = random_share,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        policy = retry or ThrottledRetryPolicy(patience_seconds=config.patience_seconds)
        self._timeout_seconds = min(timeout_seconds, policy.patience_seconds)
        self.fence: Fence | None = None
        self._context = config.context
        self._transport = Transport(config, user_agent=user_agent or own_user_agent(), gzip=gzip)
        self._limit = InFlightLimit(max_in_flight)
        self._sender = Sender(self._transport, self._limit, policy, rate=rate, jitter=jitter, clock=clock)

    @property
    def clock_difference(self) -> timedelta | None:
        """By how much the API server's clock was ahead of ours at its last answer; None if not known."""
        return self._transport.dates.difference

    def fenced(self, fence: Fence) -> "KubeClient":
        """This client for what only a leader may do: no write is sent while the fence is closed.

        It shares connections and limits, and is closed with this one. Its requests raise NotLeading besides.
        """
        other = copy.copy(self)
        other.fence, other._sender = fence, self._sender.fenced(fence)
        return other

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._transport.__aexit__(error_type, error, traceback)

    @property
    def silence(self) -> Silence:
        """How long the API server has been away."""
        return self._sender.silence

    @property
    def server(self) -> str:
        """The server's base URL."""
        return self._transport.server

    @property
    def context(self) -> str:
        """The context of the kubeconfig; empty in a pod."""
        return self._context

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_seconds: float | None = None,
    ) -> bytes:
        """Send any request to a path of the server, and return the body of its answer.

        An answer in JSON is checked to be an object of any kind: prefer the other methods, which check the
        kind too.

        Raises:
            APIStatusError: the server refused.
            ConnectionFailed: no answer; a write may have been carried out nevertheless.
        """
        request = APIRequest(
            method=method,
            path=with_query(path, params),
            body=body,
            content_type=content_type,
            accept=accept,
            timeout_seconds=timeout_seconds or self._timeout_seconds,
        )
        return await self._sender.fetch(request, _checked_json if accept.startswith(JSON) else _unread)

    async def read(self, path: str, read: Reading[T], *, accept: str = JSON) -> T:
        """Return the result of `read` on the answer to a GET, which is repeated if `read` refuses it."""
        request = APIRequest(method="GET", path=path, accept=accept, timeout_seconds=self._timeout_seconds)
        return await self._sender.fetch(request, read)

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
        propagation: str | None = None,
    ) -> JSONObject:
        """Delete an object, and return it while it is being deleted, or a Status.

        Args:
            uid: delete only the object with this uid; another one of that name is a `Conflict`.
            propagation: Foreground, Background or Orphan.
        """
        options: JSONObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
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

    async def list_pages(
        self,
        resource: APIResource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_LIMIT,
        prefetch: int = 3,
        consistent: bool = False,
    ) -> AsyncGenerator[Page, None]:
        """Yield all objects of a resource, page by page, in the server's order.

        Close the iterator (`contextlib.aclosing`) when leaving it early: the next page is in flight.

        Args:
            namespace: None or "" for all namespaces.
            limit: objects a page; 0 for all at once.
            prefetch: number of pages fetched ahead of the current one.
            consistent: see `PageReader`; the whole list is then a snapshot of one moment.

        Raises:
            Gone: the list expired, and without pages too.
            InvalidResponse: a page is truncated, no list, or another list, in every attempt.
        """
        path = resource.path(namespace)

        async def fetch(token: str, *, thorough: bool, whole: bool) -> bytes:
            params = {
                "limit": str(limit) if limit and not whole else "",
                "continue": token,
                "labelSelector": label_selector,
                "fieldSelector": field_selector,
            }
            request = APIRequest(
                method="GET",
                path=with_query(path, params),
                timeout_seconds=max(LIST_TIMEOUT_SECONDS, self._timeout_seconds),
                stall_seconds=self._timeout_seconds,
                comparable=False,
            )
            return await self._sender.fetch(request, checked if thorough else quick)

        def quick(body: bytes) -> bytes:
            return check_list(body, resource)

        def checked(body: bytes) -> bytes:
            parse_page(body, resource=resource, namespace=(namespace or "") if resource.namespaced else "")
            return body

        reader = PageReader(fetch, resource, namespace=namespace or "", consistent=consistent)
        async with aclosing(reader.pages(prefetch)) as pages:
            async for page in pages:
                yield page

    async def list_page(
        self,
        resource: APIResource,
        namespace: str | None = None,
        *,
        limit: int,
        token: str = "",
        label_selector: str = "",
        once: bool = False,
    ) -> Page:
        """Return one page of a list. A token of one version of a kind is valid in its other versions.

        Args:
            token: where the page begins; "" for the first one.
            once: send one request only, whatever passing failure it meets but 429.

        Raises:
            Gone: the token has expired.
            APIStatusError, ConnectionFailed: the failure of the last attempt.
        """
        params = {"limit": str(limit), "continue": token, "labelSelector": label_selector}
        return await self._page(resource, namespace, params, once=once)

    async def count(
        self, resource: APIResource, namespace: str | None = None, *, resource_version: str = ""
    ) -> int | None:
        """Return how many objects a list has at a resource version, or now; None if the server does not say.

        Raises:
            Gone: the server does not keep this version any more.
            APIStatusError, ConnectionFailed: the failure of the last attempt.
        """
        params = {
            "limit": "1",
            "resourceVersion": resource_version,
            "resourceVersionMatch": "Exact" if resource_version else "",
        }
        return (await self._page(resource, namespace, params)).total

    async def list_version(self, resource: APIResource, namespace: str | None = None) -> str:
        """Return the resourceVersion for a watch of every change after this call.

        Raises:
            APIStatusError, ConnectionFailed: the failure of the last attempt.
        """
        return (await self._page(resource, namespace, {"limit": "1"})).resource_version

    async def _page(
        self, resource: APIResource, namespace: str | None, params: dict[str, str], *, once: bool = False
    ) -> Page:
        request = APIRequest(
            method="GET",
            path=with_query(resource.path(namespace), params),
            timeout_seconds=self._timeout_seconds,
            comparable=False,
            once=once,
        )
        within = (namespace or "") if resource.namespaced else ""
        return await self._sender.fetch(request, partial(parse_page, resource=resource, namespace=within))

    async def list_all(
        self,
        resource: APIResource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_LIMIT,
    ) -> list[JSONObject]:
        """Return all objects of a resource, decoded; for lists known to be short."""
        items, _ = await self.list_with_version(
            resource, namespace, label_selector=label_selector, field_selector=field_selector, limit=limit
        )
        return items

    async def list_with_version(
        self,
        resource: APIResource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_LIMIT,
    ) -> tuple[list[JSONObject], str]:
        """Like `list_all`, with the resourceVersion for a watch of every later change."""
        items: list[JSONObject] = []
        version = ""
        pages = self.list_pages(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            consistent=True,
        )
        async with aclosing(pages) as opened:
            async for page in opened:
                if page.restarted:
                    items.clear()
                items.extend(item.view() for item in page.items)
                version = page.resource_version
        return items, version

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

    async def version(self) -> ServerVersion:
        """The server's version."""
        return await self.read("/version", _version)


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


def _unread(body: bytes) -> bytes:
    return body


def _checked_json(body: bytes) -> bytes:
    read_document(body)
    return body


def _version(body: bytes) -> ServerVersion:
    try:
        return msgspec.json.decode(body, type=ServerVersion)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidResponse(f"it is no valid version: {error}") from None
