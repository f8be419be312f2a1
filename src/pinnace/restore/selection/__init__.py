"""What a restore selects from an archive: validation, filters, order, API versions. (RST 3, 5-8)"""
