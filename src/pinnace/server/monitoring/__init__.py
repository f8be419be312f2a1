"""Monitoring of a running process: metrics, probes, profiles, its log. (docs/spec: SRV 7-8)

Not here: the logs of backups and restores (archive).
"""
