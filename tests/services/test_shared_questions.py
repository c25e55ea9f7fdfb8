"""docs/questions.md is what the service answers now, with arithmetic that gives its figures."""

from hub_stand_in import HubStandIn
from live import client, serving
from shared_questions import PAGE, page


def test_the_page_is_what_the_service_answers_now():
    """Where it is not: `make questions`, and read the page before it is committed."""
    with HubStandIn() as hub, serving(hub, offline=True) as url, client(url) as http:
        assert PAGE.read_text("utf-8") == page(http)
