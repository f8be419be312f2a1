"""Other namespaces are not named in what a tenant can read, and everything else can still be read."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pinnace.api.nonadmin.hiding import HIDDEN, hidden, hiding_for, results_without

OWN = frozenset({"shop", "velero"})


@pytest.mark.parametrize(
    "text",
    [
        'conversion webhook for a.b/v1, Kind=T failed: Post "https://hook.canary.svc:443/c?timeout=30s": EOF',
        "dial hook.canary.svc.cluster.local",
        'services "web" is forbidden: cannot get resource "services" in the namespace "canary"',
        r'error="pods \"a\" is forbidden in the namespace \"canary\""',
        'level=info msg="Skipping namespace" namespace=canary resource=pods',
        '{"level":"info","namespace":"canary","msg":"x"}',
        "Get https://10.0.0.1/api/v1/namespaces/canary/pods?limit=500: EOF",
        'User "system:serviceaccount:canary:worker" cannot',
        "groups system:serviceaccounts:canary",
        'host "a" and path "/" is already defined in ingress canary/web',
        r'msg="volume is bound to \"canary/data\""',
        "waits for canary/web, canary/db and (canary/x)",
        "restore=canary/back",
        "namespaces: [canary]",
        "Error getting namespace: namespaces 'canary'",
    ],
)
def test_the_name_of_another_namespace_is_hidden(text: str) -> None:
    found = hidden(text, OWN)
    assert "canary" not in found
    assert HIDDEN in found


@pytest.mark.parametrize(
    "text",
    [
        'level=info msg="Listing items" backup=velero/shop-nightly-1 logSource="pinnace/backup/engine.py:198"'
        " namespace=shop resource=rolebindings.rbac.authorization.k8s.io",
        'shop/web is forbidden in the namespace "shop": hook.shop.svc',
        "no matches for kind in version apps/v1 or batch/v1beta1",
        "app.kubernetes.io/name=web is no label of velero.io/backup-name",
        "content type application/json, 3/4 done, and/or",
        "Invalid included/excluded resource lists: excludes list cannot contain '*'",
        "cannot write 'shop/backups/b1/b1.tar.gz'",
        "resources/pods/namespaces/shop/web.json",
        "The namespace is not there; a namespace of that name",
        "Including namespaces: shop",
        "quay.io/project/image:v1 at 2026-11-22T14:46:23Z",
        "https://s3.amazonaws.com/bucket/key",
    ],
)
@pytest.mark.found("K-F12")
def test_everything_else_is_left(text: str) -> None:
    assert hidden(text, OWN) == text


@given(
    namespace=st.from_regex(r"[a-z]([-a-z0-9]{0,40}[a-z0-9])?", fullmatch=True),
    name=st.from_regex(r"[a-z]([-a-z0-9.]{0,40}[a-z0-9])?", fullmatch=True),
)
def test_texts_are_hidden_whether_or_not_the_namespace_exists(namespace: str, name: str) -> None:
    """It depends on the text alone: the same place hides any name but the own ones."""
    text = f'in the namespace "{namespace}": https://x.{namespace}.svc/'
    assume(not namespace.startswith("namespace"))
    expected = text if namespace in OWN else f'in the namespace "{HIDDEN}": https://{HIDDEN}.svc/'
    assert hidden(text, OWN) == expected
    assert hidden(hidden(f"{namespace}/{name}", OWN), OWN) == hidden(f"{namespace}/{name}", OWN)


@given(st.text(max_size=300))
def test_any_text_can_be_hidden_in(text: str) -> None:
    assert isinstance(hidden(text, OWN), str)


def test_results_are_filed_under_the_own_namespace_alone() -> None:
    results = {
        "errors": {
            "velero": ["x canary/web"],
            "namespaces": {"canary": ["a"], "shop": ["b"], "other": ["c"]},
        },
        "warnings": {},
    }
    assert results_without(results, "shop", hiding_for("shop", "velero")) == {
        "errors": {"velero": [f"x {HIDDEN}"], "namespaces": {HIDDEN: ["a", "c"], "shop": ["b"]}},
        "warnings": {},
    }
