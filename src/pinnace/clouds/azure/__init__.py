"""Credentials of Azure. (docs/spec: STO 14.3)"""
