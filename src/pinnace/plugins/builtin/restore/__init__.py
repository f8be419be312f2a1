"""The built-in restore item actions; `actions` lists them in order. (docs/spec: RST 15-16)"""
