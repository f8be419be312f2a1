"""Fields bound to a task or a logger travel on the record."""

import asyncio
import logging

import pytest

from pinnace.runtime.logfields import RECORD_ATTRIBUTE, bound_fields, get_logger


async def test_fields_of_task_logger_and_call_come_together(caplog: pytest.LogCaptureFixture) -> None:
    log = get_logger("pinnace.test", component="x")

    async def work(name: str) -> None:
        with bound_fields(controller=name):
            await asyncio.sleep(0)
            log.warning("at work", key="a/b")

    async with asyncio.TaskGroup() as group:
        group.create_task(work("one"))
        group.create_task(work("two"))
    log.warning("outside")
    fields = [record.__dict__[RECORD_ATTRIBUTE] for record in caplog.records]
    assert fields == [
        {"controller": "one", "component": "x", "key": "a/b"},
        {"controller": "two", "component": "x", "key": "a/b"},
        {"component": "x"},
    ]


def test_the_call_wins_and_the_source_is_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    log = get_logger("pinnace.test", key="logger")
    with bound_fields(key="task"):
        log.error("twice", key="call", name="free to use")
    (record,) = caplog.records
    assert record.__dict__[RECORD_ATTRIBUTE] == {"key": "call", "name": "free to use"}
    assert record.filename == "test_logfields.py"
    assert record.levelno == logging.ERROR
