"""Run by other Pythons: each file serves one package, and imports nothing of dpinfer."""
