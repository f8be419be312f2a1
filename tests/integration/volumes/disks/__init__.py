"""Snapshots of the disks of clouds, against a server that acts as EC2."""
