"""The requests to the scripted cluster: which ones a test refuses, and a record of all."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import APIResource
from tests.support.cluster.scripted_objects import Key

Call = tuple[str, str, str]
"""Verb, plural and name; the name of a list is its label selector."""
READS = frozenset({"get", "list", "page", "count", "watch", "simulate", "version"})
_UNSEEN = frozenset({"page", "count", "watch", "version"})


def ignore(*_: object) -> None:
    """Do nothing: the hook of a test that scripts no error."""


@dataclass
class Request:
    """A call of the client.

    Attributes:
        is_done: whether it took effect.
    """

    verb: str
    resource: APIResource
    namespace: str
    name: str
    body: Any = None
    subresource: str = ""
    options: JSONObject = field(default_factory=dict)
    is_done: bool = False

    @property
    def key(self) -> Key:
        return self.resource.group_resource, self.namespace, self.name

    @property
    def call(self) -> Call:
        return self.verb, self.resource.name, self.name


@dataclass
class _Refusal:
    verb: str
    where: "str | Key"
    error: KubeError
    subresource: str | None
    times: int
    passes: int

    def concerns(self, request: Request) -> bool:
        resource = request.resource
        if self.verb != request.verb or self.subresource not in (None, request.subresource):
            return False
        if isinstance(self.where, str):
            return self.where in ("", resource.name, resource.group_resource)
        return self.where == ((*request.key[:2], "") if request.verb in ("list", "page") else request.key)


class ScriptedRequests:
    """The calls that read and changed a cluster, and the errors that a test scripts.

    Attributes:
        requests: each call of the client, in order; `calls` and others show parts of it.
        before, after: called with verb, plural and name before and after each call takes effect; an
            exception is the answer. The pages of a list but the first are the verb `page`.
        unserved: resources, with their version, that the cluster does not know: `("schedules", "v1")`.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.before: Callable[[str, str, str], None] = ignore
        self.after: Callable[[str, str, str], None] = ignore
        self.unserved: set[tuple[str, str]] = set()
        self._refusals: list[_Refusal] = []

    def refuse(
        self,
        verb: str,
        where: str | Key,
        error: KubeError,
        *,
        subresource: str | None = None,
        times: int = -1,
        passes: int = 0,
    ) -> None:
        """Answer calls with an error.

        Args:
            where: the plural or group-resource of their kind, "" for any kind, or the key of one object.
            times: how many calls are refused; -1 for all.
            passes: how many calls are answered before.
        """
        self._refusals.append(_Refusal(verb, where, error, subresource, times, passes))

    def relent(self, where: str | Key = "") -> None:
        """Refuse nothing of a kind or object any more; of none without an argument."""
        self._refusals = [each for each in self._refusals if where and each.where != where]

    def check(self, request: Request) -> None:
        """Raise the error that the server answers in place of carrying out a request."""
        if (request.resource.name, request.resource.version) in self.unserved:
            raise NotFound(404, message="404 page not found")
        for refusal in reversed(self._refusals):
            if refusal.times and refusal.concerns(request):
                if refusal.passes:
                    refusal.passes -= 1
                    continue
                refusal.times -= 1
                raise refusal.error

    @property
    def calls(self) -> list[Call]:
        """Return the calls, without counts, watches and further pages."""
        return [request.call for request in self.requests if request.verb not in _UNSEEN]

    @property
    def placed_calls(self) -> list[tuple[str, str, str, str]]:
        """Return the same as verb, group-resource, namespace and name."""
        return [(each.verb, *each.key) for each in self.requests if each.verb not in _UNSEEN]

    def writes(self) -> list[Call]:
        """Return the calls that write, those that were refused included."""
        return [request.call for request in self.requests if request.verb not in READS]

    def effects(self) -> list[Call]:
        """Return the writes that took effect."""
        return [each.call for each in self.requests if each.is_done and each.verb not in READS]

    def done(self, verb: str) -> list[Request]:
        """Return the requests of a verb that took effect."""
        return [request for request in self.requests if request.verb == verb and request.is_done]

    @property
    def patches(self) -> list[tuple[str, str, JSONObject]]:
        """Plural, name and body of each patch that took effect."""
        return [(each.resource.name, each.name, each.body) for each in self.done("patch")]

    @property
    def patch_bodies(self) -> list[JSONObject]:
        return [each.body for each in self.requests if each.verb == "patch"]

    @property
    def created(self) -> list[Key]:
        return [request.key for request in self.done("create")]

    @property
    def sent(self) -> dict[Key, JSONObject]:
        """Return what was sent for each created object."""
        return {request.key: request.body for request in self.done("create")}

    @property
    def managers(self) -> dict[Key, str]:
        """Return under whose name each object was created."""
        return {request.key: request.options["fieldManager"] for request in self.done("create")}

    @property
    def gets(self) -> list[Key]:
        return [request.key for request in self.requests if request.verb == "get"]

    @property
    def deleted(self) -> list[tuple[str, str, str, str | None]]:
        """Return the keys of the objects that were deleted, with the propagation asked for."""
        return [(*each.key, each.options["propagation"]) for each in self.done("delete")]

    def created_of(self, kind: str) -> list[str]:
        """Return the names, as `namespace/name`, of the created objects of a group-resource, sorted."""
        return sorted("/".join(filter(None, key[1:])) for key in self.created if key[0] == kind)
