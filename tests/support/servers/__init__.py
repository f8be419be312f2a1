"""Servers of Pinnace: controllers in the process of a test, servers as processes, self-service."""
