"""The version of Pinnace, for all rooms. `pinnace.__version__` is its public name."""

__version__ = "0.1.0"
