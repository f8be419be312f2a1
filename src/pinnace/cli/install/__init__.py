"""`install` and `uninstall`: their flags, checks of them, and output. (docs/spec: CLI 11)

What is created, and how, is in `pinnace.installing`.
"""
