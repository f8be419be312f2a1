"""Snapshots of the disks of clouds, against scripted servers on loopback."""
