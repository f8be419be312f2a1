"""The parts of an answer that error texts show, whatever library received it."""


def page_complaint(content_type: str) -> str:
    """The complaint about a web page, which no service here sends; empty for anything else."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in ("text/html", "application/xhtml+xml"):
        return "a web page; is there a proxy or a login page in the way?"
    return ""


def status_text(status: int) -> str:
    """The text for an answer that says nothing but its status."""
    if 300 <= status < 400:
        return f"HTTP status {status}, a redirect, which is not followed; is the URL right?"
    return f"HTTP status {status}"
