"""The rule for verdicts on published values: α, and δ by metric. It changes no run."""

from collections.abc import Mapping, Sequence
from typing import Any

from recheck.errors import UserError, nearest
from recheck.names import DISTANCES

ALPHA = 0.05
# in points of percent; distances are not in percent
DELTA, DISTANCE_DELTA = 1.0, 0.01


def verdict_rule(given: Mapping[str, Any], metrics: Sequence[str]) -> dict[str, Any]:
    """`alpha`, and `delta` by metric, from a study's `verdicts`."""
    delta = given.get("delta", {})
    by_metric = delta if isinstance(delta, Mapping) else {}
    points = DELTA if isinstance(delta, Mapping) else delta
    usual = {metric: DISTANCE_DELTA if metric in DISTANCES else points for metric in metrics}
    return {
        "alpha": given.get("alpha", ALPHA),
        "delta": {metric: by_metric.get(metric, value) for metric, value in usual.items()},
    }


def check_verdict_rule(given: Mapping[str, Any], metrics: Sequence[str], source: Any) -> None:
    """Refuse a δ for a metric that no table of the study shows."""
    delta = given.get("delta")
    for metric in delta if isinstance(delta, Mapping) else ():
        if metric not in metrics:
            raise UserError(
                f"{source}, 'verdicts.delta': no table of the study shows the metric '{metric}'; "
                f"{nearest(metric, metrics)}."
            )
