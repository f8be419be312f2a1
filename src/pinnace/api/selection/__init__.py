"""Selection by include and exclude lists, globs and label selectors. Pure. (docs/spec: API 13)"""
