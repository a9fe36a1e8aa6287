"""A first look at data: codebooks that declare columns, their quality, and bounds that nobody knows."""
