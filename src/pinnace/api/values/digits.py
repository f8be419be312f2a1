"""Numbers as the API and Go write them: ASCII digits. Python's own tests accept those of every script."""


def is_digits(text: str) -> bool:
    """Whether a text is one or more of the digits 0 to 9, and nothing else."""
    return text.isascii() and text.isdigit()
