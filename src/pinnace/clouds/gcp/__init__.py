"""Credentials of Google Cloud. (docs/spec: STO 14.2)"""
