"""A stand-in for the API of Kubernetes: discovery, objects that are created, read, applied, patched
and deleted, each held to the schemas of a release. It runs no pod."""

import json
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import yaml

import manifests

KINDS = {
    "api/v1": {
        "configmaps": "ConfigMap", "pods": "Pod", "secrets": "Secret", "services": "Service",
        "serviceaccounts": "ServiceAccount",
    },
    "apis/apps/v1": {"deployments": "Deployment"},
    "apis/autoscaling/v2": {"horizontalpodautoscalers": "HorizontalPodAutoscaler"},
    "apis/gateway.networking.k8s.io/v1": {"httproutes": "HTTPRoute"},
    "apis/monitoring.coreos.com/v1": {
        "prometheusrules": "PrometheusRule", "servicemonitors": "ServiceMonitor",
    },
    "apis/networking.k8s.io/v1": {"ingresses": "Ingress", "networkpolicies": "NetworkPolicy"},
    "apis/policy/v1": {"poddisruptionbudgets": "PodDisruptionBudget"},
}  # fmt: skip
VERBS = ["create", "delete", "get", "list", "patch", "update"]


class KubeApi:
    """The API on a free port of 127.0.0.1 while the `with` block lasts; `objects` by path."""

    def __init__(self, release):
        self.release = release
        self.objects = {}
        self.version = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def kubeconfig(self, folder):
        """Write a configuration for its clients, and return the path."""
        path = folder / "kubeconfig.yaml"
        named = {"cluster": {"server": self.url}, "name": "stub"}
        context = {"context": {"cluster": "stub", "user": "nobody"}, "name": "stub"}
        config = {
            "apiVersion": "v1", "kind": "Config", "clusters": [named], "contexts": [context],
            "current-context": "stub", "users": [{"name": "nobody", "user": {}}],
        }  # fmt: skip
        path.write_text(yaml.safe_dump(config))
        return path

    def kinds(self):
        """Return the kinds of all objects but releases of helm."""
        return sorted(one["kind"] for one in self.objects.values() if one["kind"] != "Secret")

    def answer(self, method, path, query, body):
        """Return status and answer of a request."""
        group, _, rest = _split(path)
        if method == "GET" and not rest:
            return _discovery(path.strip("/"))
        if group is None:
            return _status(404, "NotFound", path)
        parts = rest.split("/")
        plural = parts[2] if parts[0] == "namespaces" and len(parts) > 2 else parts[0]
        kind = KINDS[group].get(plural)
        if kind is None:
            return _status(404, "NotFound", path)
        is_list = path.endswith(f"/{plural}")
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                return _status(409, "AlreadyExists", path)
            return self._write(path, body, 201)
        if is_list:
            return 200, self._listed(path, kind, group, query)
        if method == "PATCH" and path not in self.objects and "fieldManager" in query:
            return self._write(path, body, 201)
        if path not in self.objects:
            return _status(404, "NotFound", path)
        if method == "DELETE":
            return 200, self.objects.pop(path)
        if method == "PUT":
            return self._write(path, body, 200)
        if method == "PATCH":
            return self._write(path, _merged(self.objects[path], body), 200)
        return 200, self.objects[path]

    def _write(self, path, body, status):
        wrong = manifests.errors(_as_sent(body), self.release)
        if wrong:
            return _status(422, "Invalid", "; ".join(wrong))
        self.version += 1
        meta = {"uid": f"uid-{self.version}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        own = {**meta, **body["metadata"], "resourceVersion": str(self.version)}
        self.objects[path] = {**body, "metadata": own}
        return status, self.objects[path]

    def _listed(self, path, kind, group, query):
        wanted = dict(
            pair.split("=", 1) for pair in query.get("labelSelector", [""])[0].split(",") if pair
        )
        items = [
            one
            for at, one in self.objects.items()
            if at.rpartition("/")[0] == path
            and wanted.items() <= one["metadata"].get("labels", {}).items()
        ]
        return {
            "kind": f"{kind}List", "apiVersion": group.partition("/")[2],
            "metadata": {"resourceVersion": str(self.version)}, "items": items,
        }  # fmt: skip


def _split(path):
    """Return the group and version of a path, and the rest."""
    for group in KINDS:
        if path.startswith(f"/{group}/") or path == f"/{group}":
            return group, "", path[len(group) + 2 :]
    return None, "", "" if path in ("/version", "/api", "/apis") else path


def _discovery(path):
    if path == "version":
        return 200, {"major": "1", "minor": "37", "gitVersion": "v1.37.0"}
    if path == "api":
        return 200, {"kind": "APIVersions", "versions": ["v1"]}
    if path == "apis":
        groups = [group.split("/")[1:] for group in KINDS if group.startswith("apis/")]
        versions = [{"groupVersion": f"{name}/{v}", "version": v} for name, v in groups]
        return 200, {
            "kind": "APIGroupList", "apiVersion": "v1",
            "groups": [
                {"name": name, "versions": [version], "preferredVersion": version}
                for (name, _), version in zip(groups, versions, strict=True)
            ],
        }  # fmt: skip
    if path not in KINDS:
        return _status(404, "NotFound", path)
    resources = [
        {"name": plural, "singularName": "", "namespaced": True, "kind": kind, "verbs": VERBS}
        for plural, kind in KINDS[path].items()
    ]
    version = path.partition("/")[2]
    return 200, {
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version,
        "resources": resources,
    }  # fmt: skip


def _status(code, reason, message):
    return code, {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    }  # fmt: skip


def _as_sent(body):
    return {**body, "metadata": {k: v for k, v in body["metadata"].items() if v is not None}}


def _merged(old, new):
    """Return a JSON merge patch applied (RFC 7386)."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    merged = {key: value for key, value in old.items() if new.get(key, 0) is not None}
    for key, value in new.items():
        if value is not None:
            merged[key] = _merged(old.get(key), value)
    return merged


def _fields(data):
    """Return (number, value) of the fields of a protobuf message whose values are bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            _, at = _varint(data, at)
            continue
        size, at = _varint(data, at)
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _secret(data):
    """Return a Secret that a client wrote as protobuf, as helm writes its releases."""
    raw = next(value for number, value in _fields(data[4:]) if number == 2)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"labels": {}}, "data": {}}
    for number, value in _fields(raw):
        if number == 1:
            for inner, text in _fields(value):
                if inner in (1, 3):
                    secret["metadata"]["name" if inner == 1 else "namespace"] = text.decode()
                if inner == 11:
                    key, label = (part.decode() for _, part in _fields(text))
                    secret["metadata"]["labels"][key] = label
        if number == 2:
            key, content = (part for _, part in _fields(value))
            secret["data"][key.decode()] = b64encode(content).decode()
        if number == 3:
            secret["type"] = value.decode()
    return secret


def _handler(api):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self):
            length = int(self.headers.get("content-length") or 0)
            raw = self.rfile.read(length)
            body = _secret(raw) if raw.startswith(b"k8s\0") else yaml.safe_load(raw or b"{}")
            parts = urlsplit(self.path)
            status, value = api.answer(self.command, parts.path, parse_qs(parts.query), body)
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

        def log_message(self, *_):
            """Write nothing."""

    return Handler
