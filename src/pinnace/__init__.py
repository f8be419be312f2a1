"""Pinnace: backup, restore and migration of Kubernetes clusters."""

__version__ = "0.1.0"
