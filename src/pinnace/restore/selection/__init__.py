"""What a restore takes from an archive: validation, filters, order, API versions. (docs/spec: RST 3, 5-8)"""
