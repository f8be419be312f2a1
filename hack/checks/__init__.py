"""Checks of `make check` that no tool has."""
