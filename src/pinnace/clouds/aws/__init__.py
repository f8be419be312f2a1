"""Credentials of AWS and Signature Version 4. (docs/spec: STO 14.1)"""
