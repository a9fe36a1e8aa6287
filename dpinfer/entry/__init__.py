"""A first look at data: codebooks that declare columns, data quality, and private bounds."""
