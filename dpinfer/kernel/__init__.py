"""The privacy kernel: the only code that reads rows, prices, charges and draws noise."""
