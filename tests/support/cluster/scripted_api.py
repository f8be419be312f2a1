"""An API server in memory, with the methods of `KubeClient` and the rules of the real one.

Status sub-resources, generations, resourceVersions, uids, generated names, finalizers, preconditions and
merge patches behave as those of a real API server: `api_conformance` runs the same tests against both. A test
scripts the errors (`before`, `after`) and the objects that exist.
"""

import asyncio
import copy
import itertools
import string
import time
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable
from datetime import timedelta
from typing import Any, Generic, TypeVar, cast

import orjson

from pinnace.aio.fence import Fence
from pinnace.api.objects import JSONObject
from pinnace.api.selection.selectors import Selector
from pinnace.api.values.times import format_time
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, Conflict, Invalid, InvalidName, NotFound
from pinnace.kube.lists.pages import Page, parse_page
from pinnace.kube.resources import APIResource
from pinnace.kube.transport.silence import Silence
from tests.support.clock import FrozenClock

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
Call = tuple[str, ...]
_SUFFIX_LETTERS = "".join(sorted(set(string.ascii_lowercase + string.digits) - set("aeiou013")))


def ignore(*_: object) -> None:
    """Do nothing: the hook of a test that scripts no error."""


class ScriptedAPI(Generic[K]):
    """The objects of a cluster, and the calls that read and changed them.

    A room's tests choose how they name objects: `key` makes the key of one, whose first part names the kind.

    Attributes:
        objects: as they are stored, by key.
        calls: each call, as `describe` shows it.
        before, after: called with verb, plural and name before and after each call takes effect; an
            exception is the answer.
        with_status: plurals of the kinds with a status sub-resource.
        page_size: objects on a page of a list.
    """

    with_status: set[str]
    page_size = 500
    fence: Fence | None = None
    clock_difference: timedelta | None = None
    server = "https://127.0.0.1:6443"
    context = "test"

    def __init__(self, clock: FrozenClock | None = None) -> None:
        self.clock = clock or FrozenClock()
        self.silence = Silence(300.0, time.monotonic)
        self.objects: dict[K, JSONObject] = {}
        self.calls: list[Call] = []
        self.before: Callable[[str, str, str], None] = ignore
        self.after: Callable[[str, str, str], None] = ignore
        self.with_status = set()
        self.silence = Silence(300, self.clock.monotonic)
        self._versions = itertools.count(1)
        self._made = itertools.count(1)

    # --- What a room's tests may decide -----------------------------------------------------------------

    def key(self, resource: APIResource, namespace: str, name: str) -> K:
        """Return the key of an object; the namespace of a cluster-scoped one is empty."""
        return cast(K, (resource.group_resource, namespace, name))

    def describe(self, verb: str, resource: APIResource, namespace: str, name: str) -> Call:
        """Return the entry of a call in `calls`; the name of a list is its label selector."""
        return (verb, resource.name, "" if verb == "list" else name)

    def check(self, verb: str, resource: APIResource, namespace: str, name: str) -> None:
        """Raise the error that the server answers in place of carrying out a call."""

    def new_uid(self, resource: APIResource, name: str) -> str:
        """Return the uid of a new object."""
        return f"uid-{next(self._made)}"

    # --- What users and other programs do, without record -----------------------------------------------

    @property
    def client(self) -> KubeClient:
        return cast("KubeClient", self)

    def of(self, resource: APIResource) -> list[JSONObject]:
        """Return the stored objects of a kind, in the order of their creation."""
        kind = self._kind(resource)
        return [obj for key, obj in self.objects.items() if cast(tuple[Any, ...], key)[0] == kind]

    def peek(self, resource: APIResource, namespace: str, name: str) -> JSONObject | None:
        """Return an object as it is stored, or None."""
        return self.objects.get(self.key(resource, namespace, name))

    def writes(self) -> list[Call]:
        """Return the calls that write."""
        return [call for call in self.calls if call[0] not in ("get", "list", "simulate")]

    # --- The client -------------------------------------------------------------------------------------

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        home = namespace or ""
        return self._call(
            "get", resource, home, name, lambda: copy.deepcopy(self._existing(resource, home, name))
        )

    async def list_all(
        self, resource: APIResource, namespace: str | None = None, *, label_selector: str = ""
    ) -> list[JSONObject]:
        return self._call(
            "list",
            resource,
            namespace or "",
            label_selector,
            lambda: [copy.deepcopy(obj) for obj in self.chosen(resource, namespace, label_selector)],
        )

    async def list_pages(
        self, resource: APIResource, namespace: str | None = None, *, label_selector: str = ""
    ) -> AsyncGenerator[Page, None]:
        found = self._call(
            "list",
            resource,
            namespace or "",
            label_selector,
            lambda: list(self.chosen(resource, namespace, label_selector)),
        )
        left = len(found)
        for start in range(0, max(left, 1), self.page_size):
            await asyncio.sleep(0)  # as for every page of a real server, others get their turn
            page = found[start : start + self.page_size]
            left -= len(page)
            yield self.page(resource, page, left)

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
        start = int(token or 0)

        def part() -> list[JSONObject]:
            return list(self.chosen(resource, namespace, label_selector))[start:]

        found = self._call("list", resource, namespace or "", label_selector, part)
        left = max(0, len(found) - limit)
        return self.page(resource, found[:limit], left, token=str(start + limit))

    def page(
        self,
        resource: APIResource,
        items: Iterable[JSONObject],
        remaining: int,
        *,
        restarted: bool = False,
        token: str = "next",
    ) -> Page:
        """Return a page as the API server writes those of its own kinds: items without kind."""
        document = {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": "1"}
            | ({"continue": token, "remainingItemCount": remaining} if remaining else {}),
            "items": [
                {member: value for member, value in item.items() if member not in ("apiVersion", "kind")}
                for item in items
            ],
        }
        return parse_page(orjson.dumps(document), restarted=restarted)

    async def create(
        self,
        resource: APIResource,
        body: JSONObject | bytes,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
    ) -> JSONObject:
        home = namespace or ""
        obj: JSONObject = orjson.loads(body if isinstance(body, bytes) else orjson.dumps(body))
        self._name(obj)
        name = obj["metadata"]["name"]
        if resource.name in self.with_status:
            obj.pop("status", None)
        return self._call(
            "create", resource, home, name, lambda: copy.deepcopy(self.add_new(resource, home, obj, dry_run))
        )

    async def create_bytes(
        self, resource: APIResource, body: bytes, namespace: str | None = None, *, field_manager: str = ""
    ) -> bytes:
        return orjson.dumps(await self.create(resource, body, namespace))

    async def replace(
        self, resource: APIResource, name: str, body: JSONObject, namespace: str | None = None
    ) -> JSONObject:
        home = namespace or ""

        def change() -> JSONObject:
            former = self._existing(resource, home, name)
            self._demand(former, body.get("metadata") or {})
            return self._store_changed(resource, home, former, copy.deepcopy(body), status=False)

        return self._call("replace", resource, home, name, change)

    async def patch(
        self,
        resource: APIResource,
        name: str,
        patch: JSONObject,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> JSONObject:
        home = namespace or ""

        def change() -> JSONObject:
            former, changed = self._patched(resource, home, name, patch, subresource)
            return self._store_changed(resource, home, former, changed, status=subresource == "status")

        return self._call("patch", resource, home, name, change)

    async def simulate_patch(
        self, resource: APIResource, name: str, patch: JSONObject, namespace: str | None = None
    ) -> JSONObject:
        home = namespace or ""
        return self._call(
            "simulate", resource, home, name, lambda: self._patched(resource, home, name, patch, None)[1]
        )

    async def delete(
        self,
        resource: APIResource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        propagation: str | None = None,
    ) -> JSONObject:
        home = namespace or ""

        def remove() -> JSONObject:
            obj = self._existing(resource, home, name)
            if uid not in (None, obj["metadata"].get("uid")):
                raise Conflict(409, reason="Conflict", message="the uid is another")
            return self.remove(resource, home, name) or obj

        return self._call("delete", resource, home, name, remove)

    # --- The rules --------------------------------------------------------------------------------------

    def store(self, resource: APIResource, namespace: str, obj: JSONObject) -> JSONObject:
        """Store an object with a new resourceVersion, and return what is stored."""
        stored = copy.deepcopy(obj)
        stored["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[self.key(resource, namespace, stored["metadata"]["name"])] = stored
        return stored

    def add_new(
        self, resource: APIResource, namespace: str, body: JSONObject, dry_run: bool = False
    ) -> JSONObject:
        """Store a new object with what the server gives it, and return what is stored."""
        obj = copy.deepcopy(body)
        metadata = obj["metadata"]
        if metadata.get("resourceVersion"):
            text = "resourceVersion should not be set on objects to be created"
            raise Invalid(422, reason="Invalid", message=text)
        if namespace:
            metadata["namespace"] = namespace
        self._name(obj)
        name = metadata["name"]
        if self.peek(resource, namespace, name) is not None:
            text = f'{resource.group_resource} "{name}" already exists'
            raise AlreadyExists(409, reason="AlreadyExists", message=text)
        metadata["uid"] = self.new_uid(resource, name)
        metadata["generation"] = 1
        metadata["creationTimestamp"] = format_time(self.clock())
        return obj if dry_run else self.store(resource, namespace, obj)

    def remove(self, resource: APIResource, namespace: str, name: str) -> JSONObject | None:
        """Delete an object, or mark it as being deleted if it has finalizers; return it if it was there."""
        obj = copy.deepcopy(self.peek(resource, namespace, name))
        if obj is None:
            return None
        metadata = obj["metadata"]
        if not metadata.get("finalizers"):
            del self.objects[self.key(resource, namespace, name)]
        elif not metadata.get("deletionTimestamp"):
            metadata["deletionTimestamp"] = format_time(self.clock())
            metadata["generation"] = metadata.get("generation", 0) + 1
            obj = copy.deepcopy(self.store(resource, namespace, obj))
        return obj

    def _call(
        self, verb: str, resource: APIResource, namespace: str, name: str, effect: Callable[[], T]
    ) -> T:
        if verb not in ("list", "create") and (not name or "/" in name or "%" in name or name in (".", "..")):
            raise InvalidName(f"{name!r} cannot be the name of an object")
        self.calls.append(self.describe(verb, resource, namespace, name))
        if verb == "list":
            name = ""
        self.before(verb, resource.name, name)
        self.check(verb, resource, namespace, name)
        result = effect()
        self.after(verb, resource.name, name)
        return result

    def _kind(self, resource: APIResource) -> object:
        return cast(tuple[Any, ...], self.key(resource, "", ""))[0]

    def _existing(self, resource: APIResource, namespace: str, name: str) -> JSONObject:
        obj = self.peek(resource, namespace, name)
        if obj is None:
            text = f'{resource.group_resource} "{name}" not found'
            raise NotFound(404, reason="NotFound", message=text)
        return obj

    def chosen(
        self, resource: APIResource, namespace: str | None, label_selector: str
    ) -> Iterable[JSONObject]:
        """Return the objects of a list; with None, of all namespaces."""
        selector = Selector.parse(label_selector)
        for obj in self.of(resource):
            metadata = obj["metadata"]
            if namespace in (None, metadata.get("namespace")) and selector.matches(metadata.get("labels")):
                yield obj

    def _name(self, obj: JSONObject) -> None:
        metadata = obj["metadata"]
        if not metadata.get("name"):
            metadata["name"] = f"{metadata['generateName'][:58]}{self._suffix()}"

    def _suffix(self) -> str:
        number = next(self._made)
        letters = ""
        for _ in range(5):
            number, digit = divmod(number, len(_SUFFIX_LETTERS))
            letters = _SUFFIX_LETTERS[digit] + letters
        return letters

    def _patched(
        self,
        resource: APIResource,
        namespace: str,
        name: str,
        patch: JSONObject,
        subresource: str | None,
    ) -> tuple[JSONObject, JSONObject]:
        former = self._existing(resource, namespace, name)
        if subresource == "status" and resource.name not in self.with_status:
            raise NotFound(404, reason="NotFound", message="the server could not find the requested resource")
        self._demand(former, patch.get("metadata") or {})
        return former, merged(former, patch)

    def _demand(self, former: JSONObject, metadata: JSONObject) -> None:
        if metadata.get("uid") not in (None, former["metadata"].get("uid")):
            raise Invalid(422, reason="Invalid", message="metadata.uid: field is immutable")
        if metadata.get("resourceVersion") not in (None, former["metadata"].get("resourceVersion")):
            raise Conflict(409, reason="Conflict", message="the object has been modified")

    def _store_changed(
        self, resource: APIResource, namespace: str, former: JSONObject, changed: JSONObject, *, status: bool
    ) -> JSONObject:
        if resource.name in self.with_status:
            kept = former.keys() | changed.keys()
            kept = kept - {"status", "metadata"} if status else kept & {"status"}
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
        if _without_version(changed) == _without_version(former):
            return copy.deepcopy(former)  # a change that changes nothing leaves the resourceVersion
        stored = self.store(resource, namespace, changed)
        if stored["metadata"].get("deletionTimestamp") and not stored["metadata"].get("finalizers"):
            del self.objects[self.key(resource, namespace, stored["metadata"]["name"])]
        return copy.deepcopy(stored)


def merged(target: Any, patch: Any) -> Any:
    """Return the target after a JSON merge patch. (RFC 7386)"""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = copy.deepcopy(target) if isinstance(target, dict) else {}
    for member, value in patch.items():
        if value is None:
            result.pop(member, None)
        else:
            result[member] = merged(result.get(member), value)
    return result


def _without_version(obj: JSONObject) -> JSONObject:
    metadata = {member: value for member, value in obj["metadata"].items() if member != "resourceVersion"}
    return {**obj, "metadata": metadata}
