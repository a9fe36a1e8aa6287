"""`dpinfer.__version__` is the version of the library.

>>> import dpinfer as dpi
>>> dpi.__version__.split(".")[0]
'0'
"""

__version__ = "0.9.0"
