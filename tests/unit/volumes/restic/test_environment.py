"""What restic's environment holds, by provider."""

from pathlib import Path

import pytest

from pinnace.volumes.restic.environment import environment
from pinnace.volumes.uploader.azure import azure_credentials_file
from pinnace.volumes.uploader.errors import AccessError
from tests.support.stores.restic_locations import location

FILE = Path("/private/cloud")
INHERITED = {"PATH": "/bin", "RESTIC_PROGRESS_FPS": "1"}


def added(given: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in given.items() if INHERITED.get(name) != value}


@pytest.mark.spec("PVL-028", "STO-033")
@pytest.mark.parametrize(
    ("provider", "config", "file", "variables"),
    [
        ("aws", {}, None, {}),
        ("aws", {"profile": "p"}, None, {"AWS_PROFILE": "p"}),
        ("aws", {}, FILE, {"AWS_SHARED_CREDENTIALS_FILE": str(FILE)}),
        ("aws", {"credentialsFile": "/mine"}, None, {"AWS_SHARED_CREDENTIALS_FILE": "/mine"}),
        ("aws", {"credentialsFile": "/mine"}, FILE, {"AWS_SHARED_CREDENTIALS_FILE": str(FILE)}),
        ("gcp", {}, FILE, {"GOOGLE_APPLICATION_CREDENTIALS": str(FILE)}),
        ("gcp", {}, None, {}),
        ("pinnace.io/filesystem", {"path": "/srv"}, None, {}),
    ],
)
def test_the_variables_of_each_provider(
    provider: str, config: dict[str, str], file: Path | None, variables: dict[str, str]
) -> None:
    made = environment(INHERITED, location(provider, **config), "id", credentials_file=file)

    assert added(made) == variables


def test_the_location_s_credentials_win_over_inherited_keys() -> None:
    inherited = {**INHERITED, "AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "other"}

    assert "AWS_ACCESS_KEY_ID" not in environment(inherited, location("aws"), "id", credentials_file=FILE)
    assert environment(inherited, location("aws"), "id")["AWS_ACCESS_KEY_ID"] == "other"


def test_inherited_variables_do_not_contradict_our_flags() -> None:
    inherited = {
        **INHERITED,
        "RESTIC_PASSWORD_COMMAND": "x",
        "RESTIC_REPOSITORY": "y",
        "RESTIC_PACK_SIZE": "8",
    }

    assert added(environment(inherited, location("gcp"), "id")) == {"RESTIC_PACK_SIZE": "8"}


def test_an_identifier_with_credentials_is_in_the_environment() -> None:
    identifier = "rest:https://me:secret@host/x"

    assert environment(INHERITED, location("gcp"), identifier)["RESTIC_REPOSITORY"] == identifier


@pytest.mark.spec("PVL-029")
def test_azure_takes_its_key_from_the_variable_that_the_location_names() -> None:
    given = location("azure", storageAccount="account", storageAccountKeyEnvVar="KEY")
    inherited = {**INHERITED, "KEY": "of the environment"}

    made = environment(inherited, given, "id", variables={"KEY": "of the file"})

    assert (made["AZURE_ACCOUNT_NAME"], made["AZURE_ACCOUNT_KEY"]) == ("account", "of the file")


def test_azure_takes_a_key_that_was_asked_for() -> None:
    given = location("azure", storageAccount="account", resourceGroup="group")

    made = environment(INHERITED, given, "id", account={"AZURE_ACCOUNT_KEY": "asked"})

    assert (made["AZURE_ACCOUNT_NAME"], made["AZURE_ACCOUNT_KEY"]) == ("account", "asked")


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({}, "the following keys do not have values: storageAccount"),
        (
            {"storageAccount": "a", "storageAccountKeyEnvVar": "KEY"},
            "no storage key secret with key KEY found",
        ),
        ({"storageAccount": "a"}, "storageAccountKeyEnvVar"),
    ],
)
def test_a_missing_setting_of_azure_is_named(config: dict[str, str], text: str) -> None:
    with pytest.raises(AccessError, match=f"error setting restic cmd env: .*{text}"):
        environment(INHERITED, location("azure", **config), "id")


@pytest.mark.spec("PVL-029", "STO-033")
@pytest.mark.parametrize(
    ("config", "inherited", "file", "chosen"),
    [
        ({}, {}, None, None),
        ({}, {"AZURE_CREDENTIALS_FILE": "/env"}, None, Path("/env")),
        ({"credentialsFile": "/mine"}, {"AZURE_CREDENTIALS_FILE": "/env"}, None, Path("/mine")),
        ({}, {"AZURE_CREDENTIALS_FILE": "/env"}, FILE, FILE),
    ],
)
def test_azure_reads_the_file_of_the_location_first(
    config: dict[str, str], inherited: dict[str, str], file: Path | None, chosen: Path | None
) -> None:
    assert azure_credentials_file(inherited, location("azure", **config), file) == chosen


def test_only_azure_reads_variables_from_a_file() -> None:
    assert azure_credentials_file({"AZURE_CREDENTIALS_FILE": "/env"}, location("aws"), FILE) is None
