"""Faults during real backups and restores, and their results."""
