"""A cluster in memory for every unit test: the calls of `KubeClient`, with the rules of a real API server.

`APIConformance` runs the same tests against this and against the real one. What differs: a test says which
calls fail (`refuse`, `before`, `after`), puts objects without asking (`add`, `put`, `change`), and what the
controllers of a cluster do in their own time (collecting garbage, emptying a namespace) is done at once.
"""

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from datetime import timedelta
from typing import Any, Self, TypeVar, cast
from urllib.parse import unquote

import orjson

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.aio.fence import Fence
from pinnace.api.kinds import KINDS
from pinnace.api.objects import JSONObject, copied
from pinnace.api.selection.selectors import Selector
from pinnace.api.values.times import format_time
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    InvalidName,
    KubeError,
    NotFound,
    status_error,
)
from pinnace.kube.lists.listing import PageReader
from pinnace.kube.lists.pages import Page, parse_page
from pinnace.kube.requesting import ServerVersion
from pinnace.kube.resources import NAMESPACES, APIResource
from pinnace.kube.transport.silence import Silence
from pinnace.kube.watching import WatchEvent
from tests.support.clock import FakeClock
from tests.support.cluster.scripted_objects import ScriptedObjects
from tests.support.cluster.scripted_requests import READS, Request, ScriptedRequests, ignore
from tests.support.cluster.server_rules import (
    DEFAULTS,
    WITH_STATUS,
    WITHOUT_GENERATION,
    field_matches,
    generated_name,
    merged,
    without_version,
)

T = TypeVar("T")


class ScriptedCluster(ScriptedObjects, ScriptedRequests):
    """The objects of a cluster, and the calls that read and changed them.

    Attributes:
        on_create: called with each object that the client has created, as a controller that acts at once.
        with_status: plurals of the kinds with a status sub-resource.
        logs: the logs of containers by pod, container and whether they are those before the last restart.
        hidden: by group-resource, how many objects a proxy cuts out of each of the next lists.
        versions_read: how often the version of the server was asked for.
        page_size: objects on a page of a list.
        defaults: by group-resource, what fills in what a server gives a new object.
        admit: what admission makes of an object that a dry run patches; an exception is the answer.
        offers_tokens: whether a list whose continue token has expired can continue in a newer state.
    """

    fence: Fence | None = None
    clock_difference: timedelta | None = None
    server = "https://127.0.0.1:6443"
    context = "test"
    server_version = ServerVersion(git_version="v1.30.2", major="1", minor="30")

    def __init__(self, clock: FakeClock | None = None, *, page_size: int = 500) -> None:
        ScriptedObjects.__init__(self, clock)
        ScriptedRequests.__init__(self)
        self.silence = Silence(300, SYSTEM_CLOCK if clock is None else clock)
        self.on_create: Callable[[JSONObject], None] = ignore
        self.with_status = set(WITH_STATUS)
        self.logs: dict[tuple[str, str, bool], str] = {}
        self.hidden: dict[str, list[int]] = {}
        self.page_size = page_size
        self.defaults = dict(DEFAULTS)
        self.admit: Callable[[JSONObject], JSONObject] = lambda obj: obj
        self.offers_tokens = True
        self.versions_read = 0
        self._lists: dict[str, tuple[int, list[JSONObject]]] = {}

    @property
    def client(self) -> KubeClient:
        return cast("KubeClient", self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        return None

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        request = self._request("get", resource, namespace, name)
        return self._carry_out(request, lambda: copied(self._existing(request)))

    async def create(
        self,
        resource: APIResource,
        body: JSONObject | bytes,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
        field_manager: str = "",
    ) -> JSONObject:
        obj: JSONObject = orjson.loads(body if isinstance(body, bytes) else orjson.dumps(body))
        sent = copied(obj)
        metadata = obj["metadata"]
        if not metadata.get("name"):
            metadata["name"] = generated_name(metadata["generateName"], next(self._made))
        request = self._request("create", resource, namespace, metadata["name"], sent)
        request.options = {"fieldManager": field_manager, "dryRun": dry_run}
        if metadata.setdefault("namespace", request.namespace) != request.namespace:
            raise status_error(
                400, {"reason": "BadRequest", "message": "the namespace of the object does not match"}
            )
        if not request.namespace:
            del metadata["namespace"]
        if resource.name in self.with_status:
            obj.pop("status", None)
        created = self._carry_out(request, lambda: copied(self._add_new(request, obj, dry_run)))
        if not dry_run:
            self.on_create(self.objects[request.key])
        return created

    async def create_bytes(
        self, resource: APIResource, body: bytes, namespace: str | None = None, *, field_manager: str = ""
    ) -> bytes:
        return orjson.dumps(await self.create(resource, body, namespace, field_manager=field_manager))

    async def replace(
        self, resource: APIResource, name: str, body: JSONObject, namespace: str | None = None
    ) -> JSONObject:
        request = self._request("replace", resource, namespace, name, copied(body))

        def change() -> JSONObject:
            former = self._existing(request)
            self._demand(former, body.get("metadata") or {})
            return self._store_changed(request, former, copied(body))

        return self._carry_out(request, change)

    async def patch(
        self,
        resource: APIResource,
        name: str,
        patch: JSONObject,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> JSONObject:
        request = self._request("patch", resource, namespace, name, copied(patch))
        request.subresource = subresource or ""
        return self._carry_out(request, lambda: self._store_changed(request, *self._patched(request)))

    async def simulate_patch(
        self, resource: APIResource, name: str, patch: JSONObject, namespace: str | None = None
    ) -> JSONObject:
        request = self._request("simulate", resource, namespace, name, copied(patch))
        return self._carry_out(request, lambda: self.admit(self._patched(request)[1]))

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
        request = self._request("delete", resource, namespace, name)
        request.options = {"uid": uid, "propagation": propagation}

        def remove() -> JSONObject:
            obj = self._existing(request)
            if uid not in (None, obj["metadata"].get("uid")):
                raise Conflict(409, reason="Conflict", message="the uid is another")
            if version not in (None, obj["metadata"].get("resourceVersion")):
                raise Conflict(409, reason="Conflict", message="the object has been modified")
            if propagation == "Orphan":
                for dependent in self._dependents(request.key, obj):
                    references = self.objects[dependent]["metadata"]["ownerReferences"]
                    references[:] = [each for each in references if each["uid"] != obj["metadata"]["uid"]]
            return self.remove(resource, name, namespace) or obj

        return self._carry_out(request, remove)

    async def list_all(
        self,
        resource: APIResource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
    ) -> list[JSONObject]:
        return (
            await self.list_with_version(
                resource, namespace, label_selector=label_selector, field_selector=field_selector
            )
        )[0]

    async def list_with_version(
        self,
        resource: APIResource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
    ) -> tuple[list[JSONObject], str]:
        request = self._request("list", resource, namespace, label_selector)
        found = self._carry_out(
            request,
            lambda: [copied(each) for each in self._chosen(request, label_selector, field_selector)],
        )
        return found, str(self.version_now)

    async def list_pages(
        self,
        resource: APIResource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        prefetch: int = 1,
        consistent: bool = False,
    ) -> AsyncGenerator[Page, None]:
        async def fetch(token: str, *, thorough: bool, whole: bool) -> bytes:
            size = len(self.objects) + 1 if whole else self.page_size
            return self._page(resource, namespace, size, token, label_selector, field_selector)

        reader = PageReader(fetch, resource, namespace=namespace or "", consistent=consistent)
        async with aclosing(reader.pages(1)) as pages:
            async for page in pages:
                await asyncio.sleep(0)  # as for every page of a real server, others get their turn
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
        return parse_page(self._page(resource, namespace, limit, token, label_selector, ""))

    async def count(
        self, resource: APIResource, namespace: str | None = None, *, resource_version: str = ""
    ) -> int | None:
        request = self._request("count", resource, namespace, "")
        request.options = {"resourceVersion": resource_version}

        def count() -> int:
            self._demand_known(resource_version or str(self.version_now))
            return sum(key[0] == request.key[0] and request.namespace in ("", key[1]) for key in self.objects)

        return self._carry_out(request, count)

    async def list_version(self, resource: APIResource, namespace: str | None = None) -> str:
        return self._carry_out(
            self._request("version", resource, namespace, ""), lambda: str(self.version_now)
        )

    async def watch(
        self,
        resource: APIResource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 0,
        grace_seconds: float = 0,
    ) -> AsyncGenerator[WatchEvent, None]:
        request = self._request("watch", resource, namespace, "")
        self._carry_out(request, lambda: self._demand_known(resource_version))
        selector, seen = Selector.parse(label_selector), int(resource_version)
        while True:
            for version, kind, key, obj in list(self._events):
                if version <= seen or key[0] != request.key[0] or request.namespace not in ("", key[1]):
                    continue
                if selector.matches(obj["metadata"].get("labels")) and field_matches(field_selector, obj):
                    yield WatchEvent(kind, copied(obj))
            seen = max(seen, self._events[-1][0] if self._events else 0)
            if self.version_now <= seen:
                self._changed.clear()
                await self._changed.wait()
            self._demand_known(str(seen))

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, accept: str = ""
    ) -> bytes:
        """Answer what is asked for by its path: the log of a container, or which kinds a group has."""
        assert method == "GET"
        parts = unquote(path).strip("/").split("/")
        if parts[-1] == "log":
            assert "text/plain" in accept
            given = params or {}
            found = self.logs.get((parts[-2], given["container"], given["previous"] == "true"))
            if found is None:
                raise NotFound(404, reason="NotFound", message="previous terminated container not found")
            return found.encode()
        plurals = [kind.plural for kind in KINDS if ["apis", kind.group, kind.version] == parts]
        statuses = [f"{plural}/status" for plural in plurals if plural in self.with_status]
        return orjson.dumps({"resources": [{"name": name} for name in (*plurals, *statuses)]})

    async def version(self) -> ServerVersion:
        self.versions_read += 1
        return self.server_version

    # --- The rules --------------------------------------------------------------------------------------

    def page(
        self, resource: APIResource, items: Iterable[JSONObject], version: int, **metadata: Any
    ) -> bytes:
        """Return a page as the API server writes those of its own kinds: items without kind."""
        document = {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(version), **metadata},
            "items": [
                {member: value for member, value in item.items() if member not in ("apiVersion", "kind")}
                for item in items
            ],
        }
        return orjson.dumps(document)

    def _page(
        self,
        resource: APIResource,
        namespace: str | None,
        size: int,
        token: str,
        label_selector: str,
        field_selector: str,
    ) -> bytes:
        request = self._request("page" if token else "list", resource, namespace, label_selector)

        def read() -> tuple[int, list[JSONObject]]:
            if not token:
                return self.version_now, self._chosen(request, label_selector, field_selector)
            version, found = self._lists[token]
            if version < self._oldest:
                raise self._expired(request, label_selector, field_selector, found)
            return version, found

        version, found = self._carry_out(request, read)
        if len(found) <= size:
            return self.page(resource, found, version)
        following = f"{version}.{next(self._made)}"
        self._lists[following] = version, copy.deepcopy(found[size:])
        left = {} if label_selector or field_selector else {"remainingItemCount": len(found) - size}
        return self.page(resource, found[:size], version, **{"continue": following}, **left)

    def _expired(
        self, request: Request, label_selector: str, field_selector: str, found: list[JSONObject]
    ) -> KubeError:
        """Return 410 for a continue token, with another that goes on behind it in the state of now."""
        place = _place(found[0])
        rest = [obj for obj in self._chosen(request, label_selector, field_selector) if _place(obj) >= place]
        offered = f"{self.version_now}.{next(self._made)}"
        self._lists[offered] = self.version_now, rest
        body: JSONObject = {"reason": "Expired", "message": "The provided continue parameter is too old"}
        if self.offers_tokens:
            body["metadata"] = {"continue": offered}
        return status_error(410, body)

    def _request(
        self, verb: str, resource: APIResource, namespace: str | None, name: str, body: Any = None
    ) -> Request:
        return Request(verb, resource, (namespace or "") if resource.namespaced else "", name, body)

    def _carry_out(self, request: Request, effect: Callable[[], T]) -> T:
        verb, plural, name = request.call
        is_of_many = verb in ("list", "page", "count", "watch", "version", "create")
        if not is_of_many and (not name or "/" in name or "%" in name or name in (".", "..")):
            raise InvalidName(f"{name!r} cannot be the name of an object")
        self.requests.append(request)
        if verb not in READS and self.fence is not None:
            self.fence.check()
        shown = "" if verb in ("list", "page") else name
        self.before(verb, plural, shown)
        self.check(request)
        result = effect()
        request.is_done = True
        self.after(verb, plural, shown)
        return result

    def _chosen(self, request: Request, label_selector: str, field_selector: str) -> list[JSONObject]:
        selector = Selector.parse(label_selector)
        keys = sorted(
            key for key in self.objects if key[0] == request.key[0] and request.namespace in ("", key[1])
        )
        found = [
            self.objects[key]
            for key in keys
            if selector.matches(self.objects[key]["metadata"].get("labels"))
            and field_matches(field_selector, self.objects[key])
        ]
        cuts = self.hidden.get(request.key[0])
        return found[cuts.pop(0) :] if cuts else found

    def _existing(self, request: Request) -> JSONObject:
        obj = self.objects.get(request.key)
        if obj is None:
            text = f'{request.resource.group_resource} "{request.name}" not found'
            raise NotFound(404, reason="NotFound", message=text)
        return obj

    def _add_new(self, request: Request, obj: JSONObject, dry_run: bool) -> JSONObject:
        metadata, group_resource = obj["metadata"], request.resource.group_resource
        if metadata.get("resourceVersion"):
            text = "resourceVersion should not be set on objects to be created"
            raise Invalid(422, reason="Invalid", message=text)
        self._demand_namespace(request)
        if (former := self.objects.get(request.key)) is not None:
            text = f'{group_resource} "{request.name}" already exists'
            if former["metadata"].get("deletionTimestamp"):
                text = f"object is being deleted: {text}"
            raise AlreadyExists(409, reason="AlreadyExists", message=text)
        metadata["uid"] = self._uid(request.name)
        metadata["creationTimestamp"] = format_time(self.clock.now())
        for member in ("generation", "deletionTimestamp", "deletionGracePeriodSeconds"):
            metadata.pop(member, None)
        if group_resource not in WITHOUT_GENERATION:
            metadata["generation"] = 1
        self.defaults.get(group_resource, ignore)(obj)
        if dry_run:
            return obj
        self._uids.add(metadata["uid"])
        return self._store(request.key, obj)

    def _demand_namespace(self, request: Request) -> None:
        """Refuse objects of a namespace that is not there; a cluster without namespaces takes all."""
        if not request.namespace or not self.of(NAMESPACES):
            return
        home = self.objects.get((NAMESPACES.group_resource, "", request.namespace))
        if home is None:
            text = f'namespaces "{request.namespace}" not found'
            raise NotFound(404, reason="NotFound", message=text)
        if home["metadata"].get("deletionTimestamp"):
            text = (
                f'{request.resource.group_resource} "{request.name}" is forbidden: '
                f"unable to create new content in namespace {request.namespace} "
                "because it is being terminated"
            )
            raise Forbidden(403, reason="Forbidden", message=text)

    def _patched(self, request: Request) -> tuple[JSONObject, JSONObject]:
        former = self._existing(request)
        if request.subresource == "status" and request.resource.name not in self.with_status:
            raise NotFound(404, reason="NotFound", message="the server could not find the requested resource")
        self._demand(former, request.body.get("metadata") or {})
        return former, merged(former, request.body)

    def _demand(self, former: JSONObject, metadata: JSONObject) -> None:
        if metadata.get("uid") not in (None, former["metadata"].get("uid")):
            raise Invalid(422, reason="Invalid", message="metadata.uid: field is immutable")
        if metadata.get("resourceVersion") not in (None, former["metadata"].get("resourceVersion")):
            raise Conflict(409, reason="Conflict", message="the object has been modified")
        if former["metadata"].get("deletionTimestamp"):
            kept = former["metadata"].get("finalizers") or ()
            if set(metadata.get("finalizers") or ()) - set(kept):
                text = "no new finalizers can be added if the object is being deleted"
                raise Invalid(422, reason="Invalid", message=text)

    def _demand_known(self, version: str) -> None:
        if int(version) < self._oldest:
            raise Gone(410, reason="Expired", message=f"too old resource version: {version}")

    def _store_changed(self, request: Request, former: JSONObject, changed: JSONObject) -> JSONObject:
        if request.resource.name in self.with_status:
            kept = former.keys() | changed.keys()
            kept = kept - {"status", "metadata"} if request.subresource == "status" else kept & {"status"}
            for member in kept:
                changed.pop(member, None)
                if member in former:
                    changed[member] = copy.deepcopy(former[member])
        metadata = changed["metadata"]
        own = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "namespace", "name")
        for member in own:
            metadata.pop(member, None)
            if member in former["metadata"]:
                metadata[member] = former["metadata"][member]
        if "generation" in metadata and changed.get("spec") != former.get("spec"):
            metadata["generation"] += 1
        if without_version(changed) == without_version(former):
            return copied(former)  # a change that changes nothing leaves the resourceVersion
        stored = self._store(request.key, changed)
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self._vanish(request.key)
        return copied(stored)


def _place(obj: JSONObject) -> tuple[str, str]:
    """Return where an object stands in a list of its kind."""
    return obj["metadata"].get("namespace") or "", obj["metadata"]["name"]
