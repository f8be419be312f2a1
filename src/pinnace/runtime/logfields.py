"""Facts on log lines: a logger that takes fields, and fields bound to everything a task does.

A controller binds `controller` and `key` once at entry; whatever is logged below it, in any module, carries
them. The fields travel on the log record; the server's formatter puts them on the line. (docs/spec: SRV 9)
"""

import logging
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

RECORD_ATTRIBUTE = "fields"
"""The attribute of a log record that holds its fields."""

_NO_FIELDS: Mapping[str, object] = {}
_bound: ContextVar[Mapping[str, object]] = ContextVar("pinnace_log_fields", default=_NO_FIELDS)

_LOGGING_OWN = frozenset({"exc_info", "stack_info", "stacklevel"})


@contextmanager
def bound_fields(**fields: object) -> Iterator[None]:
    """Put fields on every line that is logged inside, also by tasks started inside."""
    token = _bound.set({**_bound.get(), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


class FieldLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose keyword arguments are fields: `log.error("cannot sync", key=key, error=error)`.

    An exception belongs in the field `error`, as with `RunLog`. Later wins: bound to the task, to the
    logger, given with the call.
    """

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        given = {name: kwargs.pop(name) for name in list(kwargs) if name not in _LOGGING_OWN}
        kwargs["extra"] = {RECORD_ATTRIBUTE: {**_bound.get(), **(self.extra or {}), **given}}
        return msg, kwargs


def get_logger(name: str, **fields: object) -> FieldLogger:
    """The logger of a module, with fields that stand on every line of it."""
    return FieldLogger(logging.getLogger(name), fields)
