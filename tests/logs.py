"""The log of the library, as tests compare it."""


def charged(caplog):
    """Return what was logged, all of it of charges, and forget it."""
    told = [(one.name, one.levelname, one.getMessage()) for one in caplog.records]
    assert all(name == "dpinfer" and said.startswith("charged ") for name, _, said in told), told
    caplog.clear()
    return told
