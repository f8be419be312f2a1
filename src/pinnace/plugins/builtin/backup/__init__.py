"""The built-in backup item actions; `actions` lists them in order. (docs/spec: BKP 8.3)"""
