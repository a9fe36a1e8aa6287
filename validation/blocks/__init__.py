"""Sample-and-aggregate."""
