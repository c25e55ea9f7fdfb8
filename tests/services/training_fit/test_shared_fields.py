"""What a plan and a training-fit request both take has one definition."""

from fitgauge.services.training_fit.schemas import TrainingRequest
from fitgauge.services.training_fit.shared_fields import SEARCHED, SharedFields
from fitgauge.services.training_plan.schemas import TrainingPlanRequest


def own_fields(request: type) -> set[str]:
    """Return the fields that a request defines itself."""
    return set(request.__annotations__)


def test_a_field_of_both_requests_is_defined_once() -> None:
    both = set(TrainingRequest.__struct_fields__) & set(TrainingPlanRequest.__struct_fields__)
    assert len(both) > 20
    assert both == {*SharedFields.__struct_fields__, "gpu"}  # which a plan needs
    assert both & own_fields(TrainingRequest) == {"gpu"}
    assert both & own_fields(TrainingPlanRequest) == {"gpu", "gpu_count"}


def test_what_a_plan_searches_are_shared_fields() -> None:
    assert set(SharedFields.__struct_fields__) > SEARCHED
