"""Settings of repositories, from the ConfigMap to kopia."""

import pytest

from pinnace.volumes.repository_config import RepositoryConfig, settings_of


def test_settings_in_velero_s_form_become_texts() -> None:
    made, warnings = settings_of('{"cacheLimitMB": 2048, "fullMaintenanceInterval": "fastGC"}')

    assert made == {"cacheLimitMB": "2048", "fullMaintenanceInterval": "fastGC"}
    assert warnings == []
    assert RepositoryConfig.of(made) == RepositoryConfig(cache_limit_bytes=2 << 30, full_hours=12)


def test_a_setting_that_is_not_known_is_named() -> None:
    made, warnings = settings_of('{"other": 1, "cacheLimitMB": 5}')

    assert made == {"cacheLimitMB": "5"}
    assert warnings == ["other has no effect: there is no such setting"]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("{", "not valid JSON"),
        ("[]", "not a JSON object"),
        ('{"cacheLimitMB": "5"}', "must be a number of megabytes"),
        ('{"cacheLimitMB": -5}', "must be a number of megabytes"),
        ('{"fullMaintenanceInterval": "never"}', "must be one of normalGC, fastGC, eagerGC"),
    ],
)
def test_settings_of_another_form_are_refused(document: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        settings_of(document)


@pytest.mark.parametrize(
    "settings",
    [{}, {"cacheLimitMB": "many"}, {"cacheLimitMB": "9" * 30}, {"fullMaintenanceInterval": "never"}],
)
def test_invalid_settings_in_a_repository_are_ignored(
    settings: dict[str, str],
) -> None:
    assert RepositoryConfig.of(settings) == RepositoryConfig()
