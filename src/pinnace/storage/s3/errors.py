"""Translates what obstore raises into this package's errors, with one clear line as text.

obstore's own texts have many lines and repeat request headers and signatures.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from obstore.exceptions import BaseError

from pinnace.http.requests import error_for
from pinnace.storage.errors import ObjectNotFound, StorageError, StoreUnavailable

_STATUS = re.compile(r"status code: (\d{3})[^:\n]*:?\s*(.*)", re.DOTALL | re.ASCII)
_CERTIFICATE = re.compile(r"InvalidCertificate\(\s*(\w+)")
_QUOTED_REASON = re.compile(r'(?:message|error): "([^"\n]+)"')


@contextmanager
def translated(what: str, key: str) -> Iterator[None]:
    """Raise StorageError kinds instead of obstore's inside the block.

    Args:
        what: the beginning of the error text, such as `cannot read 'b1'`.
        key: the object that is read.
    """
    try:
        yield
    except (BaseError, FileNotFoundError) as error:
        raise _translate(error, what, key) from error


def _translate(error: Exception, what: str, key: str) -> StorageError:
    text, _, debug = str(error).partition("\n\nDebug source")
    answer = _STATUS.search(text)
    status, body = (int(answer[1]), answer[2].strip()) if answer else (0, "")
    if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in body:
        return ObjectNotFound(key)
    if status:
        return error_for(what, status, body)
    return StoreUnavailable(f"{what}: {_reason(text, debug)}")


def _reason(text: str, debug: str) -> str:
    """The innermost cause, which only obstore's debugging output names."""
    if (refused := _CERTIFICATE.search(debug)) is not None:
        return f"the certificate of the server is not trusted ({refused[1]})"
    if reasons := _QUOTED_REASON.findall(debug):
        return str(reasons[-1])
    if "TimedOut" in debug or "kind: Timeout" in debug:
        return "no answer in time"
    return text.partition("\n")[0].rpartition(": ")[2]
