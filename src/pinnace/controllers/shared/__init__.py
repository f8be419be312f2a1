"""The parts that several controllers of a server use: its scope, locations, queues, and the life of a run.

`parts` has everything that the server hands to each controller. Lanes and availability keep a slow location
from delaying the others; runs, namespace_queue and settling take a Backup or Restore from New to its terminal
phase. Not here: the controllers themselves; each has its own module one level up.
"""
