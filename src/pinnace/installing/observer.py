"""The reports of an installation or a removal while it runs."""

from pinnace.api.objects import JSONObject
from pinnace.installing.outcomes import InstallOutcome


class InstallObserver:
    """Takes reports; by itself it does nothing with them."""

    def begin(self, obj: JSONObject) -> None:
        """An object is about to be sent."""

    def done(self, obj: JSONObject, outcome: InstallOutcome) -> None:
        """An object was sent, with this outcome."""

    def ended(self) -> None:
        """No more objects are sent, whether all were or not."""

    def sent(self) -> None:
        """All objects were sent."""

    def say(self, text: str) -> None:
        """A step was done, or is waited for."""

    def warn(self, text: str) -> None:
        """Something needs the user."""

    def wait(self) -> None:
        """The end is still waited for; called about once a second."""
