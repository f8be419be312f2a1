"""A plugin program of age for tests."""
