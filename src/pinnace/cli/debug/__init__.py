"""`debug` and `bug`: support bundles with secrets taken out, and bug reports. (BEY 8.2, CLI 8.4)"""
