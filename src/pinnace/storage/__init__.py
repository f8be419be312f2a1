"""Object stores behind one protocol, and the one class that knows which key holds what. (docs/spec: STO)"""
