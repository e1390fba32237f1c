"""Types for annotations in the figures. Only type checkers import this module."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from pandas import DataFrame, Series

from recheck.report.inputs import Inputs, StudyInputs
from recheck.report.tables.frame import Published

__all__ = ["Axes", "DataFrame", "Drawing", "Inputs", "Line2D", "Patch", "Published", "Series", "StudyInputs"]
