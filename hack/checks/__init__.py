"""Checks of `make check` that no tool brings along."""
