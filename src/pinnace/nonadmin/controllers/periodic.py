"""The controllers that look at all objects from time to time: synchronizer and collector. (NAC 11)"""

import functools

from pinnace.nonadmin import collector, synchronizer
from pinnace.nonadmin.collector import OrphanSweeper
from pinnace.nonadmin.controllers.parts import Wiring
from pinnace.nonadmin.synchronizer import Synchronizer
from pinnace.runtime.controller import Controller, Reconcile
from pinnace.runtime.keys import Key


def synchronizer_controller(parts: Wiring) -> Controller:
    """The controller that makes requests for backups that were found in storage."""
    synchronize = Synchronizer(
        parts.client,
        parts.informers,
        parts.context.lookups,
        parts.settings,
        default_location=parts.options.default_location,
        clock=parts.options.clock,
    )
    return _controller(parts, synchronizer.NAME, synchronizer.KEY, synchronize.reconcile)


def collector_controller(parts: Wiring) -> Controller:
    """The controller that deletes objects whose requests are gone."""
    collect = OrphanSweeper(parts.client, parts.options.namespace, parts.informers, parts.settings)
    return _controller(parts, collector.NAME, collector.KEY, collect.reconcile)


def _controller(parts: Wiring, name: str, key: Key, reconcile: Reconcile) -> Controller:
    made = Controller(name, reconcile)
    made.wait_for(*parts.informers.values())
    made.enqueue(key)
    parts.settings.on_change(functools.partial(made.enqueue, key))
    return made
