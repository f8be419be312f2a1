"""Selects the items of an archive to restore: validation, filters, order, API versions. (RST 3, 5-8)"""
