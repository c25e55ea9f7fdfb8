"""The yardstick: a handler that gives back the body it got, under the service's own server.
`python echo.py PORT`."""

import sys
from typing import Any

import uvicorn
from litestar import Litestar, Request, Response, get, post

from fitgauge.serve import OPTIONS


@post("/echo")
async def echo(request: Request[Any, Any, Any]) -> Response[bytes]:
    return Response(await request.body(), media_type="application/json", status_code=200)


@get("/echo")
async def ready() -> str:
    return "ready"


app = Litestar([echo, ready], openapi_config=None, logging_config=None)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), **OPTIONS)
