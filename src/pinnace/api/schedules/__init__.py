"""Decisions about Schedules: when a run is due, which Backup it makes, and whether one was missed. Pure."""
