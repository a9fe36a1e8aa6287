"""Results of hypothesis tests."""
