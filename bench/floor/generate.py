"""Generate N mixed Kubernetes objects of realistic sizes. Pure and deterministic.

Bodies are JSON requests as a client would send them. Objects come in two waves: service accounts first,
because pods are only admitted where theirs exists. Nothing is generated that a deletion would leave behind
without controllers (no claims, no finalizers), so that a namespace can be emptied at once.
"""

import base64
import functools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import orjson

from pinnace.api.objects import JSONObject

GROUP = "bench.example.com"
SEED = 20260101
SMALL_BYTES = (1_800, 3_000)
LARGE_BYTES = (100_000, 400_000)
_TEXT_POOL_BYTES = 1 << 20
_WORDS = (
    *(
        "server",
        "listen",
        "location",
        "upstream",
        "timeout",
        "retries",
        "cache",
        "session",
        "cookie",
        "header",
    ),
    *("image", "replica", "region", "tenant", "queue", "topic", "broker", "offset", "schema", "table"),
    *("column", "index", "shard", "primary", "backup", "restore", "quota", "limit", "request"),
)


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """One POST: the collection's path and the object."""

    path: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A kind and how often it occurs, in thousandths."""

    thousandths: int
    path: str
    make: Callable[["Generator", JSONObject], JSONObject]


class Generator:
    """All objects of one benchmark cluster.

    Args:
        count: how many namespaced objects; the namespaces and one definition come on top.
        namespaces: over how many namespaces they are spread.
        seed: the same seed gives the same bytes.
    """

    def __init__(self, count: int, namespaces: int, *, seed: int = SEED) -> None:
        if not 0 < namespaces <= count:
            raise ValueError("there must be at least one namespace, and an object for each")
        self.count = count
        self.namespaces = [f"bench-{number:03}" for number in range(namespaces)]
        self._seed = seed
        self._random = random.Random(seed)
        self._text = _text_pool(seed)

    def foundation(self) -> Iterator[CreateRequest]:
        """The namespaces and the definition of the custom resource."""
        for name in self.namespaces:
            labels = {"team": f"team-{int(name[-3:]) % 7}", "stage": "bench"}
            yield _request("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        yield _request("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())

    def accounts(self) -> Iterator[CreateRequest]:
        """The first wave: one service account a namespace."""
        for namespace in self.namespaces:
            yield self._object("/api/v1/namespaces/{}/serviceaccounts", namespace, "app", {})

    def objects(self) -> Iterator[CreateRequest]:
        """The second wave: everything else, namespace by namespace in turn."""
        self._random.seed(self._seed)
        weights = [share.thousandths for share in SHARES]
        for number in range(self.count - len(self.namespaces)):
            (share,) = self._random.choices(SHARES, weights)
            metadata: JSONObject = {
                "labels": {
                    "app.kubernetes.io/name": f"service-{number % 97}",
                    "app.kubernetes.io/version": f"{number % 5}.{number % 11}.0",
                },
                "annotations": {"example.com/owner": f"team-{number % 7}@example.com"},
            }
            namespace = self.namespaces[number % len(self.namespaces)]
            yield self._object(
                share.path, namespace, f"object-{number:06}", share.make(self, metadata), metadata
            )

    def text(self, low_bytes: int, high_bytes: int) -> str:
        """Words, of a random length and from a random place."""
        size = self._random.randint(low_bytes, high_bytes)
        start = self._random.randrange(len(self._text) - size)
        return self._text[start : start + size]

    def secret_text(self, size_bytes: int) -> str:
        """Base64 that does not compress."""
        return base64.b64encode(self._random.randbytes(size_bytes)).decode()

    def number(self, limit: int) -> int:
        """A random number below the limit."""
        return self._random.randrange(limit)

    def _object(
        self, path: str, namespace: str, name: str, content: JSONObject, metadata: JSONObject | None = None
    ) -> CreateRequest:
        return _request(path.format(namespace), {"metadata": {"name": name, **(metadata or {})}, **content})


@functools.cache
def _text_pool(seed: int) -> str:
    """Lines of words from which texts are cut; the same seed gives the same."""
    chosen = random.Random(seed)
    words: list[str] = []
    size = 0
    while size < _TEXT_POOL_BYTES:
        words.append(f"{chosen.choice(_WORDS)}={chosen.randrange(10_000)}")
        size += len(words[-1]) + 1
    return "\n".join(words)


def definition() -> JSONObject:
    """The definition of the custom resource, a Widget."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything}}},
                }
            ],
        },
    }


def _request(path: str, body: JSONObject) -> CreateRequest:
    return CreateRequest(path, orjson.dumps(body))


def _config_map(generator: Generator, _metadata: JSONObject) -> JSONObject:
    return {"data": {"application.properties": generator.text(*SMALL_BYTES), "mode": "production"}}


def _large_config_map(generator: Generator, _metadata: JSONObject) -> JSONObject:
    return {"data": {"dashboard.json": generator.text(*LARGE_BYTES)}}


def _secret(generator: Generator, _metadata: JSONObject) -> JSONObject:
    return {
        "type": "Opaque",
        "data": {"token": generator.secret_text(600), "password": generator.secret_text(24)},
    }


def _service(generator: Generator, metadata: JSONObject) -> JSONObject:
    spec: JSONObject = {
        "selector": {"app.kubernetes.io/name": metadata["labels"]["app.kubernetes.io/name"]},
        "ports": [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "metrics", "port": 9090}],
    }
    # Most are headless: each address of the cluster is one more object to write.
    return {"spec": spec if generator.number(4) == 0 else spec | {"clusterIP": "None"}}


def _deployment(generator: Generator, metadata: JSONObject) -> JSONObject:
    labels = {"app.kubernetes.io/name": metadata["labels"]["app.kubernetes.io/name"]}
    return {
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _pod_spec(generator)},
        }
    }


def _pod(generator: Generator, _metadata: JSONObject) -> JSONObject:
    return {"spec": _pod_spec(generator)}


def _pod_spec(generator: Generator) -> JSONObject:
    return {
        "serviceAccountName": "app",
        "containers": [_container(generator, name) for name in ("app", "sidecar")],
        "volumes": [
            {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "settings", "configMap": {"name": "settings", "optional": True}},
        ],
    }


def _container(generator: Generator, name: str) -> JSONObject:
    return {
        "name": name,
        "image": f"registry.example.com/team/{name}:{generator.number(40)}.{generator.number(10)}",
        "env": [
            {"name": f"SETTING_{number}", "value": generator.text(10, 60)}
            for number in range(generator.number(8))
        ],
        "ports": [{"name": f"{name}-http", "containerPort": 8080 if name == "app" else 9090}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
        "volumeMounts": [
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "settings", "mountPath": "/etc/settings", "readOnly": True},
        ],
    }


def _role(generator: Generator, _metadata: JSONObject) -> JSONObject:
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete"]
    rule = {"apiGroups": ["", "apps"], "resources": ["configmaps", "deployments"]}
    return {
        "rules": [rule | {"verbs": verbs[: 1 + generator.number(7)]} for _ in range(1 + generator.number(6))]
    }


def _role_binding(generator: Generator, _metadata: JSONObject) -> JSONObject:
    group = "rbac.authorization.k8s.io"
    return {
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": f"user-{generator.number(500)}"}],
    }


def _account(_generator: Generator, _metadata: JSONObject) -> JSONObject:
    return {"imagePullSecrets": [{"name": "registry"}]}


def _widget(generator: Generator, _metadata: JSONObject) -> JSONObject:
    conditions = [{"type": f"Condition{n}", "reason": generator.text(20, 80)} for n in range(4)]
    spec = {"notes": generator.text(200, 900), "size": generator.number(100), "conditions": conditions}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "spec": spec}


SHARES = (
    Share(thousandths=338, path="/api/v1/namespaces/{}/configmaps", make=_config_map),
    Share(thousandths=2, path="/api/v1/namespaces/{}/configmaps", make=_large_config_map),
    Share(thousandths=180, path="/api/v1/namespaces/{}/secrets", make=_secret),
    Share(thousandths=80, path="/api/v1/namespaces/{}/services", make=_service),
    Share(thousandths=90, path="/apis/apps/v1/namespaces/{}/deployments", make=_deployment),
    Share(thousandths=100, path="/api/v1/namespaces/{}/pods", make=_pod),
    Share(thousandths=50, path="/api/v1/namespaces/{}/serviceaccounts", make=_account),
    Share(thousandths=40, path="/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles", make=_role),
    Share(
        thousandths=40,
        path="/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
        make=_role_binding,
    ),
    Share(thousandths=80, path=f"/apis/{GROUP}/v1/namespaces/{{}}/widgets", make=_widget),
)
