"""The colours of phases, in tables and descriptions. (docs/spec: CLI 1.6)"""

GREEN, RED, YELLOW = "32", "31", "33"

COLOURS = {
    "Completed": GREEN,
    "Enabled": GREEN,
    "Available": GREEN,
    "Ready": GREEN,
    "Processed": GREEN,
    "FailedValidation": RED,
    "PartiallyFailed": RED,
    "Failed": RED,
    "Unavailable": RED,
    "NotReady": RED,
    "InProgress": YELLOW,
    "Deleting": YELLOW,
    "WaitingForPluginOperations": YELLOW,
    "WaitingForPluginOperationsPartiallyFailed": YELLOW,
    "Finalizing": YELLOW,
    "FinalizingPartiallyFailed": YELLOW,
}


def painted(phase: str) -> str:
    """The phase in its colour, if it has one."""
    colour = COLOURS.get(phase)
    return f"\x1b[{colour}m{phase}\x1b[0m" if colour else phase
