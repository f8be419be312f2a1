"""Commands about the client itself: settings, completion, version, help. (docs/spec: CLI 8)

Not here: how settings, flags and environment are combined (`cli.settings`).
"""
