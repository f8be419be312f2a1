"""What include and exclude lists, globs and label selectors select. Pure. (docs/spec: API 13)"""
