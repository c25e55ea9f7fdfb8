FROM python:3.11-slim AS docs
WORKDIR /src
COPY requirements-docs.txt zensical.toml ./
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements-docs.txt
COPY docs docs
RUN /venv/bin/zensical build --strict

FROM python:3.11-slim AS build
WORKDIR /src
ARG FLEET=
COPY requirements-image.txt requirements-fleet.txt pyproject.toml README.md LICENSE ./
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements-image.txt ${FLEET:+-r requirements-fleet.txt}
COPY service service
COPY plugin plugin
COPY --from=docs /src/service/fitgauge/site service/fitgauge/site
RUN /venv/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.11-slim
RUN useradd --uid 10001 --no-create-home fitgauge
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
EXPOSE 8000
HEALTHCHECK --start-period=5s CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 8000, timeout=2); c.request('GET', '/health/ready'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["fitgauge"]
CMD ["serve", "--host", "0.0.0.0"]
