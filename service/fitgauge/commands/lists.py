"""`fitgauge recommend`, `models-for` and `compare`: searches and tables over the catalog."""

from typing import Any

import click
import msgspec

from fitgauge.commands.answers import as_json_option, show
from fitgauge.commands.local_services import answered
from fitgauge.commands.options import as_request, question_options
from fitgauge.services.compare.schemas import CompareRequest
from fitgauge.services.models_for_gpu.schemas import ModelsForGpuRequest
from fitgauge.services.recommend.schemas import RecommendRequest
from fitgauge.terminal.tables import show_comparison, show_models_for_gpu, show_recommendations


@click.command()
@click.argument("model")
@question_options(RecommendRequest)
@as_json_option
def recommend(model: str, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """Recommend GPUs to serve MODEL on. Exit code 0, or 2 for a request without an answer."""
    request = as_request({"model": model, **options}, RecommendRequest)
    answer = answered(lambda questions: questions.recommend_gpus(request), model)
    show(answer, show_recommendations, as_json)


@click.command("models-for")
@click.argument("gpu")
@question_options(ModelsForGpuRequest)
@as_json_option
def models_for(gpu: str, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """Which models run on GPU? Exit code 0, or 2 where the question cannot be answered."""
    request = as_request({"gpu": gpu, **options}, ModelsForGpuRequest)
    answer = answered(lambda questions: questions.list_models_that_fit(request))
    show(answer, show_models_for_gpu, as_json)


@click.command()
@click.argument("models")
@click.argument("gpus")
@question_options(CompareRequest)
@click.option("--json", "as_json", is_flag=True, help="One row a line, as JSON.")
def compare(models: str, gpus: str, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - one for every field of the contract
    """Which of MODELS fit on which of GPUS? Both with commas between them. Exit code 0, or 2
    where the question cannot be answered."""
    request = as_request({"models": models, "gpus": gpus, **options}, CompareRequest)
    answer = answered(lambda questions: questions.whole_comparison(request))
    if as_json:
        click.echo(msgspec.json.Encoder().encode_lines(answer.items), nl=False)
    else:
        show_comparison(answer)
