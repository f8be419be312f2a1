"""Commands about the client itself: settings, completion, version, help. (docs/spec: CLI 8)"""
