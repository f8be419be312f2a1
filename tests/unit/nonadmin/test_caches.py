"""The caches of self-service, and the rights of its own account to fill them."""

import pytest

from pinnace.nonadmin import manifests
from pinnace.nonadmin.caches import CACHED, Cached


@pytest.mark.found("K-F6")
@pytest.mark.parametrize("cached", CACHED, ids=lambda cached: cached.resource.name)
def test_the_account_may_watch_what_is_cached(cached: Cached) -> None:
    """Without the right, a cache never fills, and no controller of self-service starts."""
    kind = "ClusterRole" if cached.everywhere else "Role"
    roles = [each for each in manifests.resources("velero") if each["kind"] == kind]
    rules = [rule for role in roles if "rules" in role for rule in role["rules"]]
    allowed = {
        verb
        for rule in rules
        if cached.resource.group in rule["apiGroups"] and cached.resource.name in rule["resources"]
        for verb in rule["verbs"]
    }
    assert allowed >= {"list", "watch"}
