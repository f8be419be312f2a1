"""AWS's own chain of credentials, by botocore: profiles, SSO, roles, programs, web identity, metadata.

botocore is imported when the first request needs it, as it takes a fifth of a second. Its calls block, so
they run in a thread; what it returned is used until it is about to end. (docs/spec: STO 14.1, ADR 027)
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pinnace.aio.blocking import in_thread
from pinnace.clouds.aws.credentials import REFRESH_BEFORE, AccessKey
from pinnace.store_access.errors import StorageError, StoreConfigError, StoreUnavailable

if TYPE_CHECKING:
    from botocore.credentials import AccessKey as BotocoreCredentials

_FILE_VARIABLE: Final = "AWS_SHARED_CREDENTIALS_FILE"
_METADATA_PROVIDERS: Final = ("container-role", "iam-role")
_LONGEST_TEXT: Final = 300


class CredentialChain:
    """Credentials of the process's environment, found and renewed by botocore.

    Args:
        profile: the profile to use; it must exist, and never leads to a metadata service. Empty is
            AWS_PROFILE or the default one.
        region: of the STS service to ask; empty leaves it to the profile and the environment.
        file: read in place of the files at home, for keys as for roles.
    """

    def __init__(self, profile: str = "", region: str = "", *, file: Path | None = None) -> None:
        self._profile = profile
        self._file = file
        self._region = region
        self._found: BotocoreCredentials | None = None
        self._current: AccessKey | None = None

    async def get(self) -> AccessKey:
        """The credentials to sign with now.

        Raises:
            StoreConfigError: there are none, or a profile or file cannot be used.
            StoreUnavailable: the service that issues them does not answer.
            StorageError: it refused.
        """
        if self._current is None or self._is_about_to_end():
            self._current = await in_thread(self._load)
        return self._current

    def _is_about_to_end(self) -> bool:
        from botocore.credentials import RefreshableCredentials

        found = self._found
        return isinstance(found, RefreshableCredentials) and found.refresh_needed(
            refresh_in=int(REFRESH_BEFORE.total_seconds())
        )

    def _load(self) -> AccessKey:
        from botocore import exceptions

        try:
            if self._found is None:
                self._found = self._resolve()
            if self._found is None:
                raise StoreConfigError(f"no AWS credentials found: {_what_is_missing(os.environ)}")
            frozen = self._found.get_frozen_credentials()
        except exceptions.ProfileNotFound as error:
            name = self._profile or error.kwargs.get("profile", "")
            raise StoreConfigError(f"no AWS credentials found: there is no profile {name!r}") from error
        except exceptions.ConfigParseError as error:
            # The parser's own text quotes the line at fault, which may be a secret.
            name = Path(str(error.kwargs.get("path", ""))).name
            raise StoreConfigError(f"the AWS file {name!r} is not in INI format") from None
        except (exceptions.HTTPClientError, exceptions.MetadataRetrievalError) as error:
            raise StoreUnavailable(f"cannot get AWS credentials: {_one_line(error)}") from error
        except exceptions.BotoCoreError as error:
            raise StoreConfigError(f"cannot get AWS credentials: {_one_line(error)}") from error
        except exceptions.ClientError as error:
            raise StorageError(f"cannot get AWS credentials: {_one_line(error)}") from error
        except (KeyError, TypeError) as error:
            # The answer of a service holds no credentials: it is a login page, for example.
            raise StorageError("cannot get AWS credentials: the answer of the service holds none") from error
        except (OSError, ValueError) as error:
            raise StoreConfigError(f"cannot get AWS credentials: {_one_line(error)}") from error
        return AccessKey(
            access_key_id=frozen.access_key,
            secret_access_key=frozen.secret_key,
            session_token=frozen.token or None,
        )

    def _resolve(self) -> "BotocoreCredentials | None":
        from botocore.session import Session

        session = Session(profile=self._profile or None)
        if self._region:
            session.set_config_variable("region", self._region)
        if self._file is not None:
            for name in ("credentials_file", "config_file"):
                session.set_config_variable(name, str(self._file))
        resolver = session.get_component("credential_provider")
        if self._profile:
            for name in _METADATA_PROVIDERS:
                resolver.remove(name)
        return resolver.load_credentials()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:_LONGEST_TEXT]


def _what_is_missing(environ: Mapping[str, str]) -> str:
    """Why no credentials were found: the named file does not exist, or no source has any."""
    named = environ.get(_FILE_VARIABLE)
    if named and not Path(os.path.expanduser(named)).exists():
        return f"the file {named}, which {_FILE_VARIABLE} names, does not exist"
    return "no environment variables, profile, credentials file or role"
