"""Decisions about Schedules: when a run is due, and which Backup it makes. Pure."""
