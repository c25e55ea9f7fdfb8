"""What every refused request answers with."""

from typing import get_args

from fitgauge.api.problems import RequestCode
from fitgauge.errors import ErrorCode

JSON = {"content-type": "application/json"}
GOOD = {"model": "acme/tiny", "gpu": "RTX 4090"}


CODES = {*get_args(ErrorCode), *get_args(RequestCode)}


def refused(response, status, slug):
    """Return the problem, which must be this one."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["type"] == f"urn:fitgauge:problem:{slug}"
    assert problem["code"] in CODES
    return problem
