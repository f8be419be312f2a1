"""What restic's environment holds, by provider."""

from pathlib import Path

import pytest

from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.open import store_config
from pinnace.storage.providers import uploader_store
from pinnace.storage.uploader_store import UploaderCall
from pinnace.volumes.restic.environment import environment
from tests.support.stores.restic_locations import location

FILE = Path("/private/cloud")
INHERITED = {"PATH": "/bin", "RESTIC_PROGRESS_FPS": "1"}


async def made_for(
    given: BackupStorageLocation, file: Path | None = None, inherited: dict[str, str] = INHERITED
) -> dict[str, str]:
    """The environment of restic in a location."""
    store = uploader_store(given.spec.provider)
    assert store is not None
    call = UploaderCall(settings=store_config(given, credentials_file=file), environ=inherited)
    return environment(inherited, "id", await store.restic_environment(call))


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
async def test_the_variables_of_each_provider(
    provider: str, config: dict[str, str], file: Path | None, variables: dict[str, str]
) -> None:
    assert added(await made_for(location(provider, **config), file)) == variables


async def test_the_location_s_credentials_win_over_inherited_keys() -> None:
    inherited = {**INHERITED, "AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "other"}

    assert "AWS_ACCESS_KEY_ID" not in await made_for(location("aws"), FILE, inherited)
    assert (await made_for(location("aws"), None, inherited))["AWS_ACCESS_KEY_ID"] == "other"


def test_inherited_variables_do_not_contradict_our_flags() -> None:
    inherited = {
        **INHERITED,
        "RESTIC_PASSWORD_COMMAND": "x",
        "RESTIC_REPOSITORY": "y",
        "RESTIC_PACK_SIZE": "8",
    }

    assert added(environment(inherited, "id", {})) == {"RESTIC_PACK_SIZE": "8"}


def test_an_identifier_with_credentials_is_in_the_environment() -> None:
    identifier = "rest:https://me:secret@host/x"

    assert environment(INHERITED, identifier, {})["RESTIC_REPOSITORY"] == identifier


@pytest.mark.spec("PVL-029", "STO-033")
@pytest.mark.parametrize(
    ("named", "of_environment", "of_location", "key"),
    [
        ("", "", "", "of the environment"),
        ("", "env", "", "of env"),
        ("mine", "env", "", "of mine"),
        ("mine", "env", "own", "of own"),
    ],
)
async def test_azure_takes_its_key_from_the_variable_that_the_location_names(
    tmp_path: Path, named: str, of_environment: str, of_location: str, key: str
) -> None:
    """The location's own file counts before that of its settings, and this before the environment's."""
    for name in ("env", "mine", "own"):
        (tmp_path / name).write_text(f"KEY=of {name}")
    inherited = {**INHERITED, "KEY": "of the environment"}
    if of_environment:
        inherited["AZURE_CREDENTIALS_FILE"] = str(tmp_path / of_environment)
    config = {"storageAccount": "account", "storageAccountKeyEnvVar": "KEY"}
    if named:
        config["credentialsFile"] = str(tmp_path / named)
    file = tmp_path / of_location if of_location else None

    made = await made_for(location("azure", **config), file, inherited)

    assert (made["AZURE_ACCOUNT_NAME"], made["AZURE_ACCOUNT_KEY"]) == ("account", key)


async def test_azure_takes_a_signature_that_its_file_has(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("AZURE_STORAGE_SAS_TOKEN=?sv=1&sig=x")

    made = await made_for(location("azure", storageAccount="account"), file)

    assert (made["AZURE_ACCOUNT_NAME"], made["AZURE_ACCOUNT_SAS"]) == ("account", "sv=1&sig=x")
    assert "AZURE_ACCOUNT_KEY" not in made


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({}, "the following keys do not have values: storageAccount"),
        (
            {"storageAccount": "a", "storageAccountKeyEnvVar": "KEY"},
            "no storage key secret with key KEY found",
        ),
        ({"storageAccount": "a"}, "azure subscription ID not found"),
    ],
)
async def test_a_missing_setting_of_azure_is_named(config: dict[str, str], text: str) -> None:
    with pytest.raises(StoreConfigError, match=text):
        await made_for(location("azure", **config))


async def test_only_azure_reads_variables_from_a_file() -> None:
    inherited = {**INHERITED, "AZURE_CREDENTIALS_FILE": "/not/there"}

    assert added(await made_for(location("aws"), None, inherited)) == {"AZURE_CREDENTIALS_FILE": "/not/there"}
