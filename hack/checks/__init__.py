"""Checks of `make check` for which there is no tool."""
