"""Complex surveys."""
