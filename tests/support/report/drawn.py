"""The texts of a drawn figure."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def texts_of(axis: Axes) -> list[str]:
    return [text.get_text() for text in axis.texts]
