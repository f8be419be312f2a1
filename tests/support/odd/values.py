"""Values that people, other programs and attackers write where a definition allows them."""

from typing import Final

DATES: Final = (
    "2026-01-01T00:00:00Z",
    "2026-01-01T23:59:59+14:00",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-12:00",
    "2026-01-01t00:00:00z",
    "2026-01-01T00:00:00+99:99",
)
DURATIONS: Final = (
    "1h0m0s",
    "0s",
    "-1s",
    "1ns",
    "2562047h47m16.854775807s",
    "-2562047h47m16s",
    "1d",
    "",
    "10s",
)
CRONS: Final = (
    "0 3 * * *",
    "@every 1h",
    "@every 1ns",
    "59 23 31 12 *",
    "0 0 30 2 *",
    "x",
    "",
    "TZ=Nowhere/X * * * * *",
)
TEXTS: Final = (
    "",
    "x",
    " ",
    "\x00",
    "\x1b[31mred",
    "\u202eabc",
    "\ufeff",
    "a" * 5000,
    "../../../etc",
    "{a,b}" * 22,
    "*a" * 60,
    "[a-z]" * 100,
    "{{{",
    "%s%n",
    "'; --",
    "$(x)",
    "-1",
    "null",
)
NUMBERS: Final = (0, 1, -1, 7, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
NAMES: Final = ("default", "nowhere", "odd-1", "odd-17", "--help", "", "*", "n" * 250, "a.b." * 20 + "c")
LABELS: Final = ("app", "velero.io/backup-name", "velero.io/schedule-name", "x/y", "not a label!")
PROVIDERS: Final = ("pinnace.io/filesystem", "nobody.io/x", "", "aws", "velero.io/aws", "csi")
LOOPBACK: Final = {"s3Url": "http://127.0.0.1:1", "region": "nowhere"}
"""The settings of every generated location: a test reaches no store of the world."""
