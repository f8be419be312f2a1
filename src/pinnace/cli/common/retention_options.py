"""The flags of rules of retention, for the commands that have them. (docs/adr/128)"""

from pinnace.cli.declaring.fields import Options, text
from pinnace.cli.declaring.values import Value
from pinnace.cli.errors import InvalidInput

_COUNT = Value("COUNT")


class RetentionOptions(Options):
    """Which backups rules keep; a backup stays if any rule keeps it."""

    keep_last: str = text(value=_COUNT, help="Keep so many of the newest backups.")
    keep_hourly: str = text(
        value=_COUNT, help="Keep the newest backup of each of so many hours that have one."
    )
    keep_daily: str = text(value=_COUNT, help="Keep the newest backup of each of so many days.")
    keep_weekly: str = text(value=_COUNT, help="Keep the newest backup of each of so many ISO weeks.")
    keep_monthly: str = text(value=_COUNT, help="Keep the newest backup of each of so many months.")
    keep_yearly: str = text(value=_COUNT, help="Keep the newest backup of each of so many years.")
    keep_within: str = text(
        value=Value("TIME", like="36h, 30d, 12w, 2y"),
        help="Keep all backups that began so long before the newest one, or later.",
    )
    keep_min_good: str = text(
        value=_COUNT, help="Keep so many of the newest Completed backups whatever else; 1 if not given."
    )
    keep_failed: str = text(value=_COUNT, help="Keep so many of the newest failed backups; 3 if not given.")

    @property
    def given_rules(self) -> dict[str, str]:
        """The rules that were given, by their names in the annotation. Raises InvalidInput."""
        from pinnace.api.retention.rules import RULES, RetentionError, RetentionRules

        found = {rule.name: value for rule in RULES if (value := getattr(self, rule.field))}
        try:
            if found:
                RetentionRules.read(found, flags=True)
        except RetentionError as error:
            raise InvalidInput(str(error)) from error
        return found
