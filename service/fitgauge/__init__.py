"""Fitgauge: will model X fit on GPU Y, and if not, what will?"""

__version__ = "0.1.0"
