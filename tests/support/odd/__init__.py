"""Custom resources with odd content, generated from our definitions."""
