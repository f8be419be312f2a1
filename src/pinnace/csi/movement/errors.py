"""Why data cannot be moved."""


class MovementError(Exception):
    """The data of a volume cannot be moved; the text becomes the message of its object."""
