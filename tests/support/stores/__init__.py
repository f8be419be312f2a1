"""Stores for backups: what each adapter must do, faults, and buckets that others wrote."""
