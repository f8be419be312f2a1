"""Data and snapshots of volumes: snapshotters, uploaders and their conformance suite, nodes with an agent."""
