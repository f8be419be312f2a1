"""The controllers of self-service, one module each, and the parts that they share.

Each module has `controller(parts)`. What a controller decides is not here: `flows` does that.
"""
