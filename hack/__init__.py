"""Tools for those who work on this project; nothing here is installed with it."""
